/* One head: RMS norm (Qwen3) if there is one, rotation of its halves by position, a factor. */
#ifndef SAGUARO_ROPE_H
#define SAGUARO_ROPE_H
#include "simd.h"

INLINE void rotate_head(const float *x, const float *norm, float eps, const float *cos, const float *sin, float factor,
                        int head_dim, float *out) {
    const int half = head_dim / 2;
    float inverse = 1.0f;
    if (norm) {
        v16f square = v_zero();
        for (int i = 0; i < head_dim; i += 16) {
            v16f v = v_load_first(x + i, head_dim - i);
            square = v_fma(v, v, square);
        }
        inverse = 1.0f / sqrtf(v_sum(square) / (float)head_dim + eps);
    }
    for (int i = 0; i < half; i += 16) {
        const int left = half - i;
        v16f a = v_load_first(x + i, left), b = v_load_first(x + half + i, left);
        if (norm) {
            a = a * v_set(inverse) * v_load_first(norm + i, left);
            b = b * v_set(inverse) * v_load_first(norm + half + i, left);
        }
        v16f c = v_load_first(cos + i, left), s = v_load_first(sin + i, left), f = v_set(factor);
        v_store_first(out + i, (a * c - b * s) * f, left);
        v_store_first(out + half + i, (b * c + a * s) * f, left);
    }
}

INLINE void to_bf16(const float *x, int n, uint16_t *out) {
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        v16h half = v_bf16_halves(v_load(x + i));
        memcpy(out + i, &half, 32);
    }
    for (; i < n; i++) out[i] = bf16_of(x[i]);
}

#endif
