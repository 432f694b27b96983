/* Rows of activations made ready for a kernel: normalised, gated, rounded, and laid out tile by tile.
 *
 * int8 and int4 weights: each group of 64 inputs is divided by its largest magnitude / 127 and rounded to nearest.
 * bfloat16 weights: rounded to nearest, in pairs. float32: as they are. Inputs are padded with zeros to whole groups.
 * A value that is not finite makes the scale of its group so, hence all outputs of its row, and of no other row. */
#ifndef SAGUARO_PREPARE_H
#define SAGUARO_PREPARE_H

#include "saguaro.h"
#include "simd.h"

/* Group `g` (64 values, four vectors) of row `r` in a tile of `m` rows that starts at row `first`. */
INLINE void prepare_group(const Prepared *out, const int kind, int first, int m, int r, int g, const v16f y[4]) {
    if (kind == FLOAT32) {
        uint32_t *to = out->quads + first * out->words + (long)g * GROUP * m + r, words[GROUP];
        memcpy(words, y, sizeof words);
        for (int i = 0; i < GROUP; i++) to[(long)i * m] = words[i];
        return;
    }
    if (kind == BFLOAT16) {
        uint32_t *to = out->quads + first * out->words + (long)g * (GROUP / 2) * m + r;
        uint16_t pairs[GROUP];
        for (int i = 0; i < 4; i++) {
            v16h half = v_bf16_halves(y[i]);
            memcpy(pairs + 16 * i, &half, 32);
        }
        for (int i = 0; i < GROUP / 2; i++) memcpy(to + (long)i * m, pairs + 2 * i, 4);
        return;
    }
    const v16i magnitude = vi_set(0x7fffffff);
    v16i top = vi_max(vi_max((v16i)y[0] & magnitude, (v16i)y[1] & magnitude),
                      vi_max((v16i)y[2] & magnitude, (v16i)y[3] & magnitude));
    int32_t bits = vi_top(top); /* as integers, what is not a number is the largest of all */
    float largest;
    memcpy(&largest, &bits, 4);
    float scale = largest / 127.0f;
    v16f inverse = v_set(largest >= 1e-30f ? 127.0f / largest : 0.0f);
    v16i q[4];
    v16b bytes[4];
    for (int i = 0; i < 4; i++) {
        q[i] = v_round(y[i] * inverse);
        bytes[i] = vi_bytes(q[i]);
    }
    int32_t low = vi_sum(q[0] + q[1]), high = vi_sum(q[2] + q[3]);
    long at = (long)first * out->groups + (long)g * m + r;
    out->scales[at] = scale;
    out->start[at] = (int32_t)(0u - 128u * ((uint32_t)low + (uint32_t)high));
    at = 2l * first * out->groups + 2l * g * m + r;
    out->sums[at] = scale * (float)low;
    out->sums[at + m] = scale * (float)high;
    uint32_t *to = out->quads + first * out->words + (long)g * (GROUP / 4) * m + r, words[GROUP / 4];
    memcpy(words, bytes, sizeof words);
    for (int i = 0; i < GROUP / 4; i++) to[(long)i * m] = words[i];
}

/* 1 / sqrt(mean(x^2) + eps) */
INLINE float inverse_rms(const float *x, float eps, long inputs) {
    v16f square[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    long k = 0;
    for (; k + GROUP <= inputs; k += GROUP)
        for (int i = 0; i < 4; i++) {
            v16f v = v_load(x + k + 16 * i);
            square[i] = v_fma(v, v, square[i]);
        }
    for (int i = 0; i < 4 && k + 16 * i < inputs; i++) {
        v16f v = v_load_first(x + k + 16 * i, inputs - k - 16 * i);
        square[i] = v_fma(v, v, square[i]);
    }
    float mean = v_sum((square[0] + square[1]) + (square[2] + square[3])) / (float)inputs;
    return 1.0f / sqrtf(mean + eps);
}

/* Groups from ... to-1 of the tile's rows: x * inverse * norm, or x itself where norm is NULL. Groups are the outer
 * loop, since all rows of a tile write to the same lines. */
INLINE void prepare_norm_tile(const Prepared *out, const int kind, int first, int m, int from, int to, const float *x,
                              const float *norm, const float *inverse, long inputs) {
    for (int g = from; g < to; g++)
        for (int r = 0; r < m; r++) {
            const long k = (long)g * GROUP;
            const float *at = x + r * inputs + k;
            v16f y[4];
            for (int i = 0; i < 4; i++) {
                const long left = inputs - k - 16 * i;
                y[i] = v_load_first(at + 16 * i, left);
                if (norm) y[i] = y[i] * v_set(inverse[r]) * v_load_first(norm + k + 16 * i, left);
            }
            prepare_group(out, kind, first, m, r, g, y);
        }
}

/* Groups from ... to-1 of silu(gate) * up; rows of `gate` and `up` begin at group `from` and are `stride` apart. */
INLINE void prepare_gated_tile(const Prepared *out, const int kind, int first, int m, int from, int to,
                               const float *gate, const float *up, long stride, long inputs) {
    for (int g = from; g < to; g++)
        for (int r = 0; r < m; r++) {
            const long k = (long)g * GROUP, at = r * stride + (long)(g - from) * GROUP;
            v16f y[4];
            for (int i = 0; i < 4; i++) {
                const long left = inputs - k - 16 * i;
                v16f a = v_load_first(gate + at + 16 * i, left);
                y[i] = a / (v_set(1.0f) + v_exp(v_zero() - a)) * v_load_first(up + at + 16 * i, left);
            }
            prepare_group(out, kind, first, m, r, g, y);
        }
}

#endif
