/* int8 weights times int8 activations: one tile of rows, one block of 32 outputs.
 *
 * Weights: bytes w + 128, [inputs/4][32 outputs][4 inputs], so that one 64-byte load feeds 16 outputs and the four
 * activation bytes are the same for all of them. Each group of 64 inputs is summed exactly in int32, starting at
 * -128 * sum(activations), then scaled and added in float: 64 outputs-inputs a cycle, one conversion and one fused
 * step in 16. Row independence: integer sums are exact, and the float steps of a row are the same in any tile. */
#include "saguaro.h"
#include "simd.h"

INLINE void int8_tile(const int rows, const uint8_t *weights, const Prepared *in, long row, v16f (*sum)[2]) {
    const int32_t *quads = (const int32_t *)in->quads + row * in->words;
    const float *scales = in->scales + row * in->groups;
    const int32_t *start = in->start + row * in->groups;
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = v_zero();
    for (int g = 0; g < in->groups; g++) {
        v16i acc[TILE_MAX][2];
        UNROLL(16)
        for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = vi_set(start[r]);
        UNROLL(2)
        for (int k = 0; k < GROUP / 4; k++) {
            v64b w0 = vb_load(weights), w1 = vb_load(weights + 64);
            fetch_weights(weights, rows > 5);
            fetch_weights(weights + 64, rows > 5);
            weights += 128;
            UNROLL(16)
            for (int r = 0; r < rows; r++) {
                acc[r][0] = vi_dot4(acc[r][0], w0, quads[r]);
                acc[r][1] = vi_dot4(acc[r][1], w1, quads[r]);
            }
            quads += rows;
        }
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            v16f scale = v_set(scales[r]);
            sum[r][0] = v_fma(v_float(acc[r][0]), scale, sum[r][0]);
            sum[r][1] = v_fma(v_float(acc[r][1]), scale, sum[r][1]);
        }
        start += rows;
        scales += rows;
    }
}
