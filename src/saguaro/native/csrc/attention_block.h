/* Some rows (queries of one key head's group) against one block of at most 64 keys: scores, running softmax, values.
 *
 * A row's arithmetic never depends on the other rows: scores add the products in order of the head's dimensions, keys
 * are visited in order (in pairs for bfloat16), and a key that a row does not see is neither weighed nor read for it.
 * bfloat16 pools: queries and weights are rounded to bfloat16, all sums are float32. */
#ifndef SAGUARO_ATTENTION_BLOCK_H
#define SAGUARO_ATTENTION_BLOCK_H
#include "attention.h"
#include "simd.h"

#if defined(__AVX512F__)
#define ROWS 4 /* rows computed together */
#else
#define ROWS 1
#endif
#define SLAB 64 /* dimensions of values that are summed together */

typedef struct {
    uint32_t *keys;      /* [4][words][16 keys]: words = D/2 pairs of bfloat16, or D float32 */
    uint32_t *values;    /* bfloat16: [32 pairs of keys][padded] ; float32: [64 keys][padded] */
    int words, padded;   /* padded: D rounded up to whole slabs */
    float *sum;          /* [rows][padded]: weighted values so far */
    float *total;        /* [rows][16]: weights so far, by lane */
    float *top;          /* [rows]: largest score so far */
} Block;

/* 16 rows of 16 words into columns. */
INLINE void transpose16(const uint32_t *const rows[16], long at, uint32_t *out) {
#if defined(__AVX512F__)
    __m512i a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_si512(rows[i] + at);
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 4; i++)
        for (int half = 0; half < 2; half++) {
            b[8 * half + i] = _mm512_shuffle_i32x4(a[8 * half + i], a[8 * half + 4 + i], 0x88);
            b[8 * half + 4 + i] = _mm512_shuffle_i32x4(a[8 * half + i], a[8 * half + 4 + i], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        _mm512_storeu_si512(out + 16 * i, _mm512_shuffle_i32x4(b[i], b[8 + i], 0x88));
        _mm512_storeu_si512(out + 16 * (i + 8), _mm512_shuffle_i32x4(b[i], b[8 + i], 0xdd));
    }
#else
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) out[16 * j + i] = rows[i][at + j];
#endif
}

/* Keys of one block into columns: 16 keys side by side. Keys past `count` read as zeros. */
INLINE void gather_keys(const Block *block, const char *const *keys, int count) {
    static const uint32_t zeros[1024];
    for (int sub = 0; sub * 16 < count; sub++) {
        const uint32_t *rows[16];
        for (int i = 0; i < 16; i++) {
            int key = sub * 16 + i;
            rows[i] = key < count ? (const uint32_t *)keys[key] : zeros;
        }
        uint32_t *out = block->keys + (long)sub * block->words * 16;
        int at = 0;
        for (; at + 16 <= block->words; at += 16) transpose16(rows, at, out + at * 16);
        for (; at < block->words; at++)
            for (int i = 0; i < 16; i++) out[at * 16 + i] = rows[i][at];
    }
}

/* bfloat16 values of two keys, dimension by dimension in one word; the second may be NULL (zeros). */
INLINE void pair_values(const uint16_t *a, const uint16_t *b, int head_dim, uint32_t *out) {
    int d = 0;
#if defined(__AVX512BW__)
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                         5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (; d + 32 <= head_dim; d += 32) {
        __m512i x = _mm512_loadu_si512(a + d), y = b ? _mm512_loadu_si512(b + d) : _mm512_setzero_si512();
        _mm512_storeu_si512(out + d, _mm512_permutex2var_epi16(x, low, y));
        _mm512_storeu_si512(out + d + 16, _mm512_permutex2var_epi16(x, high, y));
    }
#endif
    for (; d < head_dim; d++) out[d] = a[d] | (b ? (uint32_t)b[d] << 16 : 0);
}

INLINE void gather_values(const Block *block, const int bfloat16, const char *const *values, int count, int head_dim) {
    for (int key = 0; key < count; key += 2) {
        if (bfloat16) {
            pair_values((const uint16_t *)values[key], key + 1 < count ? (const uint16_t *)values[key + 1] : NULL,
                        head_dim, block->values + (long)(key / 2) * block->padded);
            continue;
        }
        memcpy(block->values + (long)key * block->padded, values[key], head_dim * 4);
        if (key + 1 < count) memcpy(block->values + (long)(key + 1) * block->padded, values[key + 1], head_dim * 4);
    }
}

/* scores[row][key]; q: one row of words each. */
INLINE void scores_of(const int rows, const int subs, const int bfloat16, const Block *block,
                      const uint32_t *const q[ROWS], float (*scores)[KEYS]) {
    v16f acc[ROWS][4];
    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int s = 0; s < subs; s++) acc[r][s] = v_zero();
    const uint32_t *keys = block->keys;
    const long next = (long)block->words * 16;
    for (int w = 0; w < block->words; w++) {
        v16i k[4];
        UNROLL(4)
        for (int s = 0; s < subs; s++) {
            k[s] = vi_load(keys + s * next + w * 16);
            KEEP(k[s]);
        }
        UNROLL(4)
        for (int r = 0; r < rows; r++) {
            v16i a = vi_set((int32_t)q[r][w]);
            UNROLL(4)
            for (int s = 0; s < subs; s++)
                acc[r][s] = bfloat16 ? v_dot2(acc[r][s], k[s], a) : v_fma((v16f)k[s], (v16f)a, acc[r][s]);
        }
    }
    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int s = 0; s < subs; s++) v_store(&scores[r][16 * s], acc[r][s]);
}

/* Running softmax of one row over `count` keys; scores become weights (bfloat16: rounded, in pairs in `weights`). */
INLINE void soften(const Block *block, const int bfloat16, int row, int count, float *scores, uint32_t *weights) {
    const v16i lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const v16f least = v_set(-INFINITY);
    const int subs = (count + 15) / 16;
    v16f top = v_set(block->top[row]);
    for (int s = 0; s < subs; s++) {
        v16i seen = (v16i)(lane < vi_set(count - 16 * s));
        v16f score = (v16f)((seen & (v16i)v_load(scores + 16 * s)) | (~seen & (v16i)least));
        v_store(scores + 16 * s, score);
        top = v_max(score, top);
    }
    float before = block->top[row], now = v_top(top);
    if (now != before) { /* the factor is exactly 1 otherwise */
        v16f shrink = v_exp(v_set(before - now));
        float *sum = block->sum + (long)row * block->padded;
        for (int d = 0; d < block->padded; d += 16) v_store(sum + d, v_load(sum + d) * shrink);
        v_store(block->total + 16 * row, v_load(block->total + 16 * row) * shrink);
        block->top[row] = now;
    }
    v16f total = v_load(block->total + 16 * row);
    for (int s = 0; s < subs; s++) {
        v16f weight = v_exp(v_load(scores + 16 * s) - v_set(now));
        if (bfloat16) {
            v16h rounded = v_bf16_halves(weight);
            memcpy(weights + 8 * s, &rounded, 32);
            weight = v_from_bf16(rounded);
        } else {
            v_store((float *)weights + 16 * s, weight);
        }
        total = total + weight;
    }
    v_store(block->total + 16 * row, total);
}

/* sum[row] += weights[row] * values for steps from ... to-1 (pairs of keys, or single keys), one slab of dimensions.
 * half: the second key of the pair is not seen. */
INLINE void add_values(const int rows, const int bfloat16, const int half, const Block *block, int first, int slab,
                       const uint32_t *const weights[ROWS], int from, int to) {
    v16f acc[ROWS][4];
    float *sum = block->sum + (long)first * block->padded + slab;
    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int i = 0; i < 4; i++) acc[r][i] = v_load(sum + (long)r * block->padded + 16 * i);
    const uint32_t *values = block->values + slab + (long)from * block->padded;
    for (int step = from; step < to; step++) {
        v16i v[4];
        UNROLL(4)
        for (int i = 0; i < 4; i++) {
            v[i] = vi_load(values + 16 * i);
            if (half) v[i] = v[i] & vi_set(0xffff);
            KEEP(v[i]);
        }
        UNROLL(4)
        for (int r = 0; r < rows; r++) {
            v16i w = vi_set((int32_t)weights[r][step]);
            if (half) w = w & vi_set(0xffff);
            UNROLL(4)
            for (int i = 0; i < 4; i++)
                acc[r][i] = bfloat16 ? v_dot2(acc[r][i], v[i], w) : v_fma((v16f)v[i], (v16f)w, acc[r][i]);
        }
        values += block->padded;
    }
    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int i = 0; i < 4; i++) v_store(sum + (long)r * block->padded + 16 * i, acc[r][i]);
}

/* Up to four rows from `first` on against the gathered block; row r sees the first counts[r] keys. */
INLINE void attend_rows(const int rows, const int bfloat16, const Block *block, int first,
                        const uint32_t *const q[ROWS], const int counts[ROWS]) {
    float scores[ROWS][KEYS] __attribute__((aligned(64)));
    uint32_t weights[ROWS][KEYS] __attribute__((aligned(64)));
    const uint32_t *from[ROWS];
    int most = 0, common = KEYS;
    for (int r = 0; r < rows; r++) {
        from[r] = weights[r];
        int steps = bfloat16 ? counts[r] / 2 : counts[r];
        most = counts[r] > most ? counts[r] : most;
        common = steps < common ? steps : common;
    }
    if (!most) return;
#if defined(__AVX512F__)
    switch ((most + 15) / 16) {
        case 1: scores_of(rows, 1, bfloat16, block, q, scores); break;
        case 2: scores_of(rows, 2, bfloat16, block, q, scores); break;
        case 3: scores_of(rows, 3, bfloat16, block, q, scores); break;
        default: scores_of(rows, 4, bfloat16, block, q, scores);
    }
#else
    scores_of(rows, (most + 15) / 16, bfloat16, block, q, scores);
#endif
    for (int r = 0; r < rows; r++)
        if (counts[r]) soften(block, bfloat16, first + r, counts[r], scores[r], weights[r]);
    for (int slab = 0; slab < block->padded; slab += SLAB) {
        if (common) add_values(rows, bfloat16, 0, block, first, slab, from, 0, common);
        for (int r = 0; r < rows; r++) {
            const uint32_t *const mine[ROWS] = {weights[r]};
            int steps = bfloat16 ? counts[r] / 2 : counts[r];
            if (steps > common) add_values(1, bfloat16, 0, block, first + r, slab, mine, common, steps);
            if (bfloat16 && counts[r] % 2) add_values(1, 1, 1, block, first + r, slab, mine, steps, steps + 1);
        }
    }
}

#endif
