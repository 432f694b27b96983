/* bfloat16 and float32 weights: one tile of rows, one block of 32 outputs, products added in order of the inputs.
 *
 * bfloat16: [inputs/2][32 outputs][2 inputs], activations rounded to bfloat16, sums in float32.
 * float32: [inputs][32 outputs], fused multiply-add in float32. */
#include "saguaro.h"
#include "simd.h"

INLINE void bfloat16_tile(const int rows, const uint8_t *weights, const Prepared *in, long row, v16f (*sum)[2]) {
    const int32_t *pairs = (const int32_t *)in->quads + row * in->words;
    v16f acc[TILE_MAX][2];
    UNROLL(16)
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = v_zero();
    UNROLL(2)
    for (long k = 0; k < (long)in->groups * (GROUP / 2); k++) {
        v16i w0 = vi_load(weights), w1 = vi_load(weights + 64);
        fetch_weights(weights, rows > 5);
        fetch_weights(weights + 64, rows > 5);
        weights += 128;
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            v16i a = vi_set(pairs[r]);
            acc[r][0] = v_dot2(acc[r][0], w0, a);
            acc[r][1] = v_dot2(acc[r][1], w1, a);
        }
        pairs += rows;
    }
    for (int r = 0; r < rows; r++) sum[r][0] = acc[r][0], sum[r][1] = acc[r][1];
}

INLINE void float32_tile(const int rows, const uint8_t *weights, const Prepared *in, long row, v16f (*sum)[2]) {
    const float *values = (const float *)in->quads + row * in->words;
    v16f acc[TILE_MAX][2];
    UNROLL(16)
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = v_zero();
    UNROLL(2)
    for (long k = 0; k < (long)in->groups * GROUP; k++) {
        v16f w0 = v_load((const float *)weights), w1 = v_load((const float *)weights + 16);
        fetch_weights(weights, rows > 5);
        fetch_weights(weights + 64, rows > 5);
        weights += 128;
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            v16f a = v_set(values[r]);
            acc[r][0] = v_fma(a, w0, acc[r][0]);
            acc[r][1] = v_fma(a, w1, acc[r][1]);
        }
        values += rows;
    }
    for (int r = 0; r < rows; r++) sum[r][0] = acc[r][0], sum[r][1] = acc[r][1];
}
