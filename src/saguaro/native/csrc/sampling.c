/* Keyed Gumbel noise and the best tokens under it, without a buffer of the vocabulary's size.
 *
 * The noise is that of algorithm/noise.py: hash of (key, token id), u = (h + 1/2) / 2^32, g = -log(-log(1 - u)),
 * computed in double and rounded once. Nearly all tokens lose, so each first gets a cheap upper bound of its noise,
 * from -log(1 - u) >= u and log2(1 + m) >= m; only vectors of 16 that may hold a winner are computed exactly. The
 * answer equals that of computing all. Tests: tests/native/test_sampling.py. */
#include "saguaro.h"
#include "simd.h"

#define TOP_MAX 64
#define COLDEST 1e-20f /* temperatures up to this are 0 */
#define SLACK 1e-3f    /* far above the rounding errors of the bound */

typedef double v8d __attribute__((vector_size(64)));
typedef int64_t v8l __attribute__((vector_size(64)));
typedef uint32_t v8u __attribute__((vector_size(32)));
typedef float v8f __attribute__((vector_size(32)));

INLINE v8d vd_set(double x) { return (v8d){x, x, x, x, x, x, x, x}; }
INLINE v8l vl_set(int64_t x) { return (v8l){x, x, x, x, x, x, x, x}; }

/* Natural logarithm of positive normal numbers: 2^e * (1 + f), then the series of 2 atanh(f / (2 + f)). */
INLINE v8d vd_log(v8d x) {
    const v8l root_half = vl_set(0x3fe6a09e667f3bcdll);
    v8l bits = (v8l)x, e = (bits - root_half) >> 52;
    v8d f = (v8d)(bits - (e << 52)) - vd_set(1.0), power = __builtin_convertvector(e, v8d);
    v8d s = f / (vd_set(2.0) + f), z = s * s, half = vd_set(0.5) * f * f;
    v8d r = vd_set(1.479819860511658591e-1);
    r = r * z + vd_set(1.531383769920937332e-1);
    r = r * z + vd_set(1.818357216161805012e-1);
    r = r * z + vd_set(2.222219843214978396e-1);
    r = r * z + vd_set(2.857142874366239149e-1);
    r = r * z + vd_set(3.999999999940941908e-1);
    r = r * z + vd_set(6.666666666666735130e-1);
    r = r * z;
    v8d low = s * (half + r) + power * vd_set(1.90821492927058770002e-10);
    return power * vd_set(6.93147180369123816490e-1) - ((half - low) - f);
}

INLINE v8f gumbel_of(v8u hash) {
    v8d u = (__builtin_convertvector(hash, v8d) + vd_set(0.5)) * vd_set(0x1p-32);
    v8d wait = vd_set(0.0) - vd_log(vd_set(1.0) - u);
    return __builtin_convertvector(vd_set(0.0) - vd_log(wait), v8f);
}

INLINE v16f v_gumbel(v16u hash) {
    v8u half[2];
    v8f noise[2];
    v16f all;
    memcpy(half, &hash, 64);
    for (int i = 0; i < 2; i++) noise[i] = gumbel_of(half[i]);
    memcpy(&all, noise, 64);
    return all;
}

INLINE v16u v_set_u(uint32_t x) { return (v16u)vi_set((int32_t)x); }
INLINE v16u mix(v16u x) {
    x ^= x >> 16;
    x *= v_set_u(0x7feb352du);
    x ^= x >> 15;
    x *= v_set_u(0x846ca68bu);
    return x ^ (x >> 16);
}
/* products: token id * 0x9E3779B9. */
INLINE v16u v_hash(v16u products, const int64_t key[2]) {
    return mix(mix(products + v_set_u((uint32_t)key[0])) + v_set_u((uint32_t)key[1]));
}

INLINE v16u first_tokens(const int32_t *ids, long at, long left) {
    const v16u lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (!ids) return lane + v_set_u((uint32_t)at);
    uint32_t some[16] = {0};
    memcpy(some, ids + at, (left < 16 ? left : 16) * 4);
    return (v16u)vi_load(some);
}

INLINE int any(v16i mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
    int32_t a[16], all = 0;
    vi_store(a, mask);
    for (int i = 0; i < 16; i++) all |= a[i];
    return all != 0;
#endif
}
INLINE v16f v_float_u(v16u x) {
#if defined(__AVX512F__)
    return (v16f)_mm512_cvtepu32_ps((__m512i)x);
#else
    return __builtin_convertvector(x, v16f);
#endif
}

/* Values past the end read as -inf. */
INLINE v16f load_scores(const float *p, long left) {
    if (left >= 16) return v_load(p);
    float a[16];
    for (int i = 0; i < 16; i++) a[i] = i < left ? p[i] : -INFINITY;
    return v_load(a);
}

/* Largest value, or NaN when the row holds one. */
static float largest(const float *x, long vocab) {
    v16f top[4];
    v16i nan = vi_set(0);
    for (int j = 0; j < 4; j++) top[j] = v_set(-INFINITY);
    for (long i = 0; i < vocab; i += 64)
        for (int j = 0; j < 4 && i + 16 * j < vocab; j++) {
            v16f v = load_scores(x + i + 16 * j, vocab - i - 16 * j);
            nan |= (v16i)(v != v);
            top[j] = v_max(v, top[j]);
        }
    return any(nan) ? NAN : v_top(v_max(v_max(top[0], top[1]), v_max(top[2], top[3])));
}

typedef struct {
    int n, filled;
    float score[TOP_MAX];
    int32_t id[TOP_MAX];
} Best;

/* An equal score stays behind what came before. */
INLINE void offer(Best *best, float score, int32_t id) {
    int at = best->filled < best->n ? best->filled++ : best->n;
    if (at == best->n) {
        if (!(score > best->score[--at])) return;
    }
    for (; at > 0 && score > best->score[at - 1]; at--) {
        best->score[at] = best->score[at - 1];
        best->id[at] = best->id[at - 1];
    }
    best->score[at] = score;
    best->id[at] = id;
}

INLINE float threshold(const Best *best) { return best->filled < best->n ? -INFINITY : best->score[best->n - 1]; }

static void offer_all(Best *best, v16f scores, v16u ids, long left) {
    float score[16];
    uint32_t id[16];
    v_store(score, scores);
    vi_store(id, (v16i)ids);
    for (int i = 0; i < 16 && i < left; i++)
        if (score[i] > -INFINITY) offer(best, score[i], (int32_t)id[i]);
}

static void best_plain(const float *x, const int32_t *ids, long vocab, Best *best) {
    v16f bar = v_set(threshold(best));
    for (long i = 0; i < vocab; i += 16) {
        v16f v = load_scores(x + i, vocab - i);
        if (!any((v16i)(v > bar))) continue;
        offer_all(best, v, first_tokens(ids, i, vocab - i), vocab - i);
        bar = v_set(threshold(best));
    }
}

/* Scores are (x - top) / temperature + noise, as processed_scores and draw_shared_noise compute them. */
static void best_noisy(const float *x, const int32_t *ids, long vocab, float top, float temperature,
                       const int64_t key[2], Best *best) {
    const v16f highest = v_set(top), warm = v_set(temperature), inverse = v_set(1.0f / temperature);
    /* Noise <= -log(u) <= ln 2 * (159 - bits(h) / 2^23), bits(h) being the float h read as an integer. */
    const v16f base = v_set(0.69314718f * 159.0f + SLACK), slope = v_set(-0.69314718f / 8388608.0f);
    v16f bar = v_set(threshold(best));
    for (long i = 0; i < vocab; i += 16) {
        v16u tokens = first_tokens(ids, i, vocab - i), hash = v_hash(tokens * v_set_u(0x9e3779b9u), key);
        v16f v = load_scores(x + i, vocab - i) - highest;
        v16f bound = v_fma(v_float((v16i)v_float_u(hash)), slope, v_fma(v, inverse, base));
        if (!any((v16i)(bound >= bar))) continue;
        v16f scores = v / warm + v_gumbel(hash);
        if (!any((v16i)(scores > bar))) continue;
        offer_all(best, scores, tokens, vocab - i);
        bar = v_set(threshold(best));
    }
}

/* The n best noisy scores of each row, falling, first column first among equals; id -1 where a row is broken (NaN, +inf,
 * nothing above -inf) or has fewer. token_ids: id of each column, or NULL. out_scores may be NULL. */
EXPORT int sgr_top_noisy(const float *logits, const int32_t *token_ids, const int64_t *keys, const float *temperatures,
                         int rows, long vocab, int n, int32_t *out_ids, float *out_scores) {
    if (n < 1 || n > TOP_MAX) return 2;
    for (int row = 0; row < rows; row++) {
        const float *x = logits + row * vocab;
        float top = largest(x, vocab);
        Best best = {.n = n};
        if (top - top == 0.0f) { /* finite */
            if (temperatures[row] > COLDEST)
                best_noisy(x, token_ids, vocab, top, temperatures[row], keys + 2 * row, &best);
            else
                best_plain(x, token_ids, vocab, &best);
        }
        for (int i = 0; i < n; i++) {
            out_ids[(long)row * n + i] = i < best.filled ? best.id[i] : -1;
            if (out_scores) out_scores[(long)row * n + i] = i < best.filled ? best.score[i] : -INFINITY;
        }
    }
    return 0;
}

/* The noise itself. token_ids as above. */
EXPORT void sgr_gumbel(const int32_t *token_ids, const int64_t *key, long vocab, float *out) {
    for (long i = 0; i < vocab; i += 16) {
        v16u hash = v_hash(first_tokens(token_ids, i, vocab - i) * v_set_u(0x9e3779b9u), key);
        v_store_first(out + i, v_gumbel(hash), vocab - i);
    }
}
