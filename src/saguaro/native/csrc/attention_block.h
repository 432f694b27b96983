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
#define ROWS 6 /* rows computed together, at most */
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
    uint32_t *weights;   /* [rows][KEYS]: of this block; bfloat16: the first KEYS / 2 words, in pairs */
    int *seen;           /* [rows]: keys of this block that a row sees: the first so many */
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

/* scores[row][key]; q: (rows, words). */
INLINE void scores_of(const int rows, const int subs, const int bfloat16, const Block *block, const uint32_t *q,
                      float (*scores)[KEYS]) {
    v16f acc[ROWS][4];
    UNROLL(8)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int s = 0; s < subs; s++) acc[r][s] = v_zero();
    const uint32_t *keys = block->keys;
    const long next = (long)block->words * 16;
    for (int w = 0; w < block->words; w++) {
        v16i k[4];
        UNROLL(4)
        for (int s = 0; s < subs; s++) {
            v16i key = vi_load(keys + s * next + w * 16);
            KEEP(key);
            k[s] = key;
        }
        UNROLL(8)
        for (int r = 0; r < rows; r++) {
            v16i a = vi_set((int32_t)q[(long)r * block->words + w]);
            UNROLL(4)
            for (int s = 0; s < subs; s++)
                acc[r][s] = bfloat16 ? v_dot2(acc[r][s], k[s], a) : v_fma((v16f)k[s], (v16f)a, acc[r][s]);
        }
    }
    UNROLL(8)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int s = 0; s < subs; s++) v_store(&scores[r][16 * s], acc[r][s]);
}

/* Largest score of one row so far, `count` keys of this block included; what was summed shrinks when it grows. */
INLINE void raise_top(const Block *block, int row, const int count, const int subs, float *scores) {
    const v16i lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const v16f least = v_set(-INFINITY);
    v16f top = v_set(block->top[row]);
    UNROLL(4)
    for (int s = 0; s < subs; s++) {
        v16f score = v_load(scores + 16 * s);
        if (count < KEYS) { /* keys that are not seen weigh nothing */
            v16i seen = (v16i)(lane < vi_set(count - 16 * s));
            score = (v16f)((seen & (v16i)score) | (~seen & (v16i)least));
            v_store(scores + 16 * s, score);
        }
        top = v_max(score, top);
    }
    float before = block->top[row], now = v_top(top);
    if (now == before) return; /* the factor is exactly 1 */
    v16f shrink = v_exp(v_set(before - now));
    float *sum = block->sum + (long)row * block->padded;
    for (int d = 0; d < block->padded; d += 16) v_store(sum + d, v_load(sum + d) * shrink);
    v_store(block->total + 16 * row, v_load(block->total + 16 * row) * shrink);
    block->top[row] = now;
}

/* Weights of one row, from its scores (bfloat16: rounded, in pairs). */
INLINE void soften(const Block *block, const int bfloat16, int row, const int subs, const float *scores) {
    uint32_t *weights = block->weights + (long)row * KEYS;
    v16f total = v_load(block->total + 16 * row), top = v_set(block->top[row]);
    UNROLL(4)
    for (int s = 0; s < subs; s++) {
        v16f weight = v_exp(v_load(scores + 16 * s) - top);
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
                       int from, int to) {
    v16f acc[ROWS][4];
    float *sum = block->sum + (long)first * block->padded + slab;
    const uint32_t *weights = block->weights + (long)first * KEYS;
    UNROLL(8)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int i = 0; i < 4; i++) acc[r][i] = v_load(sum + (long)r * block->padded + 16 * i);
    const uint32_t *values = block->values + slab + (long)from * block->padded;
    for (int step = from; step < to; step++) {
        v16i v[4];
        UNROLL(4)
        for (int i = 0; i < 4; i++) {
            v16i value = vi_load(values + 16 * i);
            if (half) value = value & vi_set(0xffff);
            KEEP(value);
            v[i] = value;
        }
        UNROLL(8)
        for (int r = 0; r < rows; r++) {
            v16i w = vi_set((int32_t)weights[(long)r * KEYS + step]);
            if (half) w = w & vi_set(0xffff);
            UNROLL(4)
            for (int i = 0; i < 4; i++)
                acc[r][i] = bfloat16 ? v_dot2(acc[r][i], v[i], w) : v_fma((v16f)v[i], (v16f)w, acc[r][i]);
        }
        values += block->padded;
    }
    UNROLL(8)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int i = 0; i < 4; i++) v_store(sum + (long)r * block->padded + 16 * i, acc[r][i]);
}

/* Scores and weights of `rows` rows from `first` on. */
INLINE void weigh_rows(const int rows, const int bfloat16, const Block *block, int first, const uint32_t *queries) {
    float scores[ROWS][KEYS] __attribute__((aligned(64)));
    const int *seen = block->seen + first;
    const uint32_t *q = queries + (long)first * block->words;
    int most = 0;
    for (int r = 0; r < rows; r++) most = seen[r] > most ? seen[r] : most;
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
    /* Two passes over the rows: a row's weights wait for its top, and meanwhile those of others can be computed. */
    for (int r = 0; r < rows; r++) {
        if (seen[r] == KEYS) raise_top(block, first + r, KEYS, KEYS / 16, scores[r]);
        else if (seen[r]) raise_top(block, first + r, seen[r], (seen[r] + 15) / 16, scores[r]);
    }
    for (int r = 0; r < rows; r++) {
        if (seen[r] == KEYS) soften(block, bfloat16, first + r, KEYS / 16, scores[r]);
        else if (seen[r]) soften(block, bfloat16, first + r, (seen[r] + 15) / 16, scores[r]);
    }
}

/* Weighted values of `rows` rows from `first` on, one slab of dimensions. */
INLINE void sum_rows(const int rows, const int bfloat16, const Block *block, int first, int slab) {
    const int *seen = block->seen + first;
    int common = KEYS;
    for (int r = 0; r < rows; r++) {
        int steps = bfloat16 ? seen[r] / 2 : seen[r];
        common = steps < common ? steps : common;
    }
    if (common) add_values(rows, bfloat16, 0, block, first, slab, 0, common);
    for (int r = 0; r < rows; r++) {
        int steps = bfloat16 ? seen[r] / 2 : seen[r];
        if (steps > common) add_values(1, bfloat16, 0, block, first + r, slab, common, steps);
        if (bfloat16 && seen[r] % 2) add_values(1, 1, 1, block, first + r, slab, steps, steps + 1);
    }
}

/* All rows from `first` to `last`-1 against the gathered block: first the scores of all, so that keys stay in the first
 * cache, then the values, slab by slab. queries: (rows, words) of the whole tile. */
INLINE void attend_rows(const int bfloat16, const Block *block, int first, int last, const uint32_t *queries) {
#if ROWS == 6
#define BY_ROWS(call, ...)                                                                                             \
    for (int row = first; row < last;) {                                                                               \
        switch (last - row) {                                                                                          \
            case 1: call(1, __VA_ARGS__); row += 1; break;                                                             \
            case 2: call(2, __VA_ARGS__); row += 2; break;                                                             \
            case 3: case 5: call(3, __VA_ARGS__); row += 3; break;                                                     \
            case 4: case 8: call(4, __VA_ARGS__); row += 4; break;                                                     \
            default: call(6, __VA_ARGS__); row += 6;                                                                   \
        }                                                                                                              \
    }
#else
#define BY_ROWS(call, ...)                                                                                             \
    for (int row = first; row < last; row++) call(1, __VA_ARGS__);
#endif
    BY_ROWS(weigh_rows, bfloat16, block, row, queries)
    for (int slab = 0; slab < block->padded; slab += SLAB) { BY_ROWS(sum_rows, bfloat16, block, row, slab) }
#undef BY_ROWS
}

#endif
