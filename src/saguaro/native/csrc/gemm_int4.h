/* 4-bit weights times int8 activations: one tile of rows, one block of 32 outputs.
 *
 * Each output and 32 inputs share a scale step s and a minimum step m, one byte each, in units of two float32 of the
 * output: w = scale * (s * q + ratio * m), q = 0 ... 15. 4.5 bits a weight. A run of 32 inputs is 576 bytes: for four
 * pairs of input quads, 2 x 64 bytes (low half: the even quad, high half: the odd one), then 32 s, then 32 m.
 * The halves are taken apart once for all rows of the tile. */
#include "saguaro.h"
#include "simd.h"

#define INT4_RUN 576

INLINE void int4_run(const int rows, const uint8_t *weights, const int32_t *quads, v16i (*acc)[2]) {
    const v64b nibble = (v64b)vi_set(0x0f0f0f0f);
    UNROLL(16)
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = vi_set(0);
    UNROLL(4)
    for (int k = 0; k < 4; k++) {
        v64b w0 = vb_load(weights), w1 = vb_load(weights + 64);
        fetch_weights(weights, 0);
        fetch_weights(weights + 64, 0);
        weights += 128;
        v64b low0 = w0 & nibble, low1 = w1 & nibble;
        v64b high0 = (v64b)((v16u)w0 >> 4) & nibble, high1 = (v64b)((v16u)w1 >> 4) & nibble;
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            acc[r][0] = vi_dot4(acc[r][0], low0, quads[r]);
            acc[r][1] = vi_dot4(acc[r][1], low1, quads[r]);
        }
        quads += rows;
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            acc[r][0] = vi_dot4(acc[r][0], high0, quads[r]);
            acc[r][1] = vi_dot4(acc[r][1], high1, quads[r]);
        }
        quads += rows;
    }
}

INLINE void int4_tile(const int rows, const uint8_t *weights, const float *ratio, const Prepared *in, long row,
                      v16f (*sum)[2]) {
    const int32_t *quads = (const int32_t *)in->quads + row * in->words;
    const float *scales = in->scales + row * in->groups, *sums = in->sums + 2 * row * in->groups;
    const v16f ratio0 = v_load(ratio), ratio1 = v_load(ratio + 16);
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = v_zero();
    for (int g = 0; g < in->groups; g++) {
        v16f part[TILE_MAX][2];
        v16i acc[TILE_MAX][2];
        UNROLL(2)
        for (int half = 0; half < 2; half++) {
            int4_run(rows, weights, quads, acc);
            quads += 8 * rows;
            v16f step0 = v_float(v_widen_bytes(weights + 512)), step1 = v_float(v_widen_bytes(weights + 528));
            v16f min0 = v_float(v_widen_bytes(weights + 544)) * ratio0;
            v16f min1 = v_float(v_widen_bytes(weights + 560)) * ratio1;
            fetch_weights(weights + 512, 0);
            weights += INT4_RUN;
            UNROLL(16)
            for (int r = 0; r < rows; r++) {
                v16f total = v_set(sums[r]);
                sum[r][0] = v_fma(total, min0, sum[r][0]);
                sum[r][1] = v_fma(total, min1, sum[r][1]);
                part[r][0] = half ? v_fma(v_float(acc[r][0]), step0, part[r][0]) : v_float(acc[r][0]) * step0;
                part[r][1] = half ? v_fma(v_float(acc[r][1]), step1, part[r][1]) : v_float(acc[r][1]) * step1;
            }
            sums += rows;
        }
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            v16f scale = v_set(scales[r]);
            sum[r][0] = v_fma(part[r][0], scale, sum[r][0]);
            sum[r][1] = v_fma(part[r][1], scale, sum[r][1]);
        }
        scales += rows;
    }
}
