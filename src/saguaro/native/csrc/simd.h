/* Sixteen lanes on any processor: AVX-512 where there is one, else the compiler's own vectors.
 *
 * Every function is elementwise or has a fixed order of operations, so a result depends on its inputs only, never on
 * where in a tile it was computed. No contraction is left to the compiler (-ffp-contract=off): fused steps are written.
 * Tests: tests/native/. */
#ifndef SAGUARO_SIMD_H
#define SAGUARO_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Tiles live in registers where there are 32 of 16 lanes; elsewhere unrolling only makes compilers slow. */
#define UNROLL_BY(text) _Pragma(#text)
#if defined(__AVX512F__)
#define UNROLL(n) UNROLL_BY(GCC unroll n)
#else
#define UNROLL(n) UNROLL_BY(GCC unroll 1)
#endif

/* Keeps a vector in its register, where compilers would rather load it again for every use. */
#if defined(__AVX512F__)
#define KEEP(v) __asm__("" : "+v"(v))
#else
#define KEEP(v) ((void)0)
#endif

typedef float v16f __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));
typedef uint32_t v16u __attribute__((vector_size(64)));
typedef uint8_t v64b __attribute__((vector_size(64)));
typedef uint8_t v16b __attribute__((vector_size(16)));
typedef uint16_t v16h __attribute__((vector_size(32)));

/* Ask for the line of weights that will be read some way ahead. Where few rows share the weights, the sum waits for
 * memory all the time, and one request a line is best; where many do, computing takes nearly as long as memory does,
 * and asking twice, early into the second cache and late into the first, hides one behind the other. Distances measured:
 * 27.5 MB for 8 rows of int8 took 1.25 ms with one request and 1.12 ms with two; for 4 rows .95 and 1.38 ms. */
INLINE void fetch_weights(const uint8_t *p, const int twice) {
    if (!twice) {
        __builtin_prefetch(p + 4096);
        return;
    }
    __builtin_prefetch(p + 8192, 0, 2);
    __builtin_prefetch(p + 1024);
}

INLINE v16f v_load(const float *p) { v16f v; memcpy(&v, p, 64); return v; }
INLINE void v_store(float *p, v16f v) { memcpy(p, &v, 64); }
INLINE v16i vi_load(const void *p) { v16i v; memcpy(&v, p, 64); return v; }
INLINE void vi_store(void *p, v16i v) { memcpy(p, &v, 64); }
INLINE v64b vb_load(const void *p) { v64b v; memcpy(&v, p, 64); return v; }

#if defined(__AVX512F__)
INLINE v16f v_set(float x) { return (v16f)_mm512_set1_ps(x); }
INLINE v16i vi_set(int32_t x) { return (v16i)_mm512_set1_epi32(x); }
INLINE v16f v_fma(v16f a, v16f b, v16f c) { return (v16f)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
INLINE v16f v_float(v16i a) { return (v16f)_mm512_cvtepi32_ps((__m512i)a); }
INLINE v16f v_max(v16f a, v16f b) { return (v16f)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE v16f v_min(v16f a, v16f b) { return (v16f)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE v16i vi_max(v16i a, v16i b) { return (v16i)_mm512_max_epi32((__m512i)a, (__m512i)b); }
#else
INLINE v16f v_set(float x) { return (v16f){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE v16i vi_set(int32_t x) { return (v16i){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE v16f v_float(v16i a) { return __builtin_convertvector(a, v16f); }
INLINE v16i vi_pick(v16i mask, v16i yes, v16i no) { return (mask & yes) | (~mask & no); }
/* As the x86 instructions do: the second operand where the two do not compare. */
INLINE v16f v_max(v16f a, v16f b) { return (v16f)vi_pick((v16i)(a > b), (v16i)a, (v16i)b); }
INLINE v16f v_min(v16f a, v16f b) { return (v16f)vi_pick((v16i)(a < b), (v16i)a, (v16i)b); }
INLINE v16i vi_max(v16i a, v16i b) { return vi_pick((v16i)(a > b), a, b); }
#if defined(__FMA__)
INLINE v16f v_fma(v16f a, v16f b, v16f c) {
    union { v16f v; __m256 h[2]; } x = {a}, y = {b}, z = {c};
    z.h[0] = _mm256_fmadd_ps(x.h[0], y.h[0], z.h[0]);
    z.h[1] = _mm256_fmadd_ps(x.h[1], y.h[1], z.h[1]);
    return z.v;
}
#elif defined(__aarch64__)
INLINE v16f v_fma(v16f a, v16f b, v16f c) {
    union { v16f v; float32x4_t q[4]; } x = {a}, y = {b}, z = {c};
    for (int i = 0; i < 4; i++) z.q[i] = vfmaq_f32(z.q[i], x.q[i], y.q[i]);
    return z.v;
}
#else
INLINE v16f v_fma(v16f a, v16f b, v16f c) { return a * b + c; }
#endif
#endif

INLINE v16f v_zero(void) { return v_set(0.0f); }

/* Sum and maximum over lanes, halves first: the order never changes. */
INLINE float v_sum(v16f v) {
    float a[16];
    v_store(a, v);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) a[i] += a[i + half];
    return a[0];
}
INLINE float v_top(v16f v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float a[16];
    v_store(a, v);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) a[i] = a[i] > a[i + half] ? a[i] : a[i + half];
    return a[0];
#endif
}
INLINE int32_t vi_top(v16i v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_epi32((__m512i)v);
#else
    int32_t a[16], top;
    vi_store(a, v);
    top = a[0];
    for (int i = 1; i < 16; i++) top = a[i] > top ? a[i] : top;
    return top;
#endif
}

INLINE int32_t vi_sum(v16i v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_epi32((__m512i)v);
#else
    uint32_t a[16], sum = 0;
    vi_store(a, v);
    for (int i = 0; i < 16; i++) sum += a[i];
    return (int32_t)sum;
#endif
}

/* Nearest integer, ties to even, for |x| < 2^22. */
#define ROUND_MAGIC 12582912.0f
INLINE v16i v_round(v16f x) { return (v16i)(x + v_set(ROUND_MAGIC)) - (v16i)v_set(ROUND_MAGIC); }
/* Lowest byte of each lane. */
INLINE v16b vi_bytes(v16i v) {
#if defined(__AVX512F__)
    return (v16b)_mm512_cvtepi32_epi8((__m512i)v);
#else
    return __builtin_convertvector((v16u)v & (v16u)vi_set(255), v16b);
#endif
}
INLINE v16i v_widen_bytes(const uint8_t *p) {
    v16b b;
    memcpy(&b, p, 16);
#if defined(__AVX512F__)
    return (v16i)_mm512_cvtepu8_epi32((__m128i)b);
#else
    return __builtin_convertvector(b, v16i);
#endif
}

/* First n (0 ... 16) floats; the rest is 0 and is not read. */
INLINE v16f v_load_first(const float *p, long n) {
    if (n >= 16) return v_load(p);
    float a[16] = {0};
    for (long i = 0; i < n; i++) a[i] = p[i];
    return v_load(a);
}
INLINE void v_store_first(float *p, v16f v, long n) {
    if (n >= 16) { v_store(p, v); return; }
    float a[16];
    v_store(a, v);
    for (long i = 0; i < n; i++) p[i] = a[i];
}

/* acc[lane] += sum of four products, weight bytes unsigned, activation bytes signed and the same for all lanes. */
INLINE v16i vi_dot4(v16i acc, v64b weights, int32_t activation) {
#if defined(__AVX512VNNI__)
    return (v16i)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)weights, _mm512_set1_epi32(activation));
#elif defined(__AVX2__)
    union { v64b v; __m256i h[2]; __m128i q[4]; } w = {weights};
    union { v16i v; __m256i h[2]; } s = {acc};
#if defined(__AVXVNNI__)
    __m256i a = _mm256_set1_epi32(activation);
    s.h[0] = _mm256_dpbusd_avx_epi32(s.h[0], w.h[0], a);
    s.h[1] = _mm256_dpbusd_avx_epi32(s.h[1], w.h[1], a);
#else
    __m256i a = _mm256_cvtepi8_epi16(_mm_set1_epi32(activation));
    for (int i = 0; i < 2; i++) {
        __m256i low = _mm256_madd_epi16(_mm256_cvtepu8_epi16(w.q[2 * i]), a);
        __m256i high = _mm256_madd_epi16(_mm256_cvtepu8_epi16(w.q[2 * i + 1]), a);
        __m256i sum = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xD8);
        s.h[i] = _mm256_add_epi32(s.h[i], sum);
    }
#endif
    return s.v;
#elif defined(__ARM_FEATURE_DOTPROD)
    /* Signed instruction: dot(w, a) = dot(w - 128, a) + 128 * sum(a). */
    union { v64b v; uint8x16_t q[4]; } w = {weights};
    union { v16i v; int32x4_t q[4]; } s = {acc};
    int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(activation));
    int32x4_t bias = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(64), a);
    bias = vaddq_s32(bias, bias);
    for (int i = 0; i < 4; i++) {
        int8x16_t signed_weights = vreinterpretq_s8_u8(veorq_u8(w.q[i], vdupq_n_u8(128)));
        s.q[i] = vaddq_s32(vdotq_s32(s.q[i], signed_weights, a), bias);
    }
    return s.v;
#else
    int8_t a[4];
    uint8_t w[64];
    int32_t s[16];
    memcpy(a, &activation, 4);
    memcpy(w, &weights, 64);
    memcpy(s, &acc, 64);
    for (int i = 0; i < 16; i++)
        s[i] += w[4 * i] * a[0] + w[4 * i + 1] * a[1] + w[4 * i + 2] * a[2] + w[4 * i + 3] * a[3];
    return vi_load(s);
#endif
}

/* bfloat16: nearest, ties to even; what is not a number stays so. */
INLINE uint16_t bf16_of(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16) | 0x40;
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
INLINE float bf16_float(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}
INLINE v16u v_bf16(v16f x) { /* in the low half of each lane */
    v16u u = (v16u)x, one = (v16u)vi_set(1);
    v16u rounded = (u + (v16u)vi_set(0x7fff) + ((u >> 16) & one)) >> 16;
    v16u nan = (v16u)((v16i)(u & (v16u)vi_set(0x7fffffff)) > vi_set(0x7f800000));
    return (rounded & ~nan) | (((u >> 16) | (v16u)vi_set(0x40)) & nan);
}
INLINE v16h v_bf16_halves(v16f x) {
#if defined(__AVX512BF16__)
    return (v16h)_mm512_cvtneps_pbh((__m512)x);
#else
    return __builtin_convertvector(v_bf16(x), v16h);
#endif
}
INLINE v16f v_from_bf16(v16h x) {
#if defined(__AVX512F__)
    return (v16f)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)x), 16);
#else
    return (v16f)(__builtin_convertvector(x, v16u) << 16);
#endif
}
/* acc += low(a) * low(b) + high(a) * high(b), each lane a pair of bfloat16. */
INLINE v16f v_dot2(v16f acc, v16i a, v16i b) {
#if defined(__AVX512BF16__)
    return (v16f)_mm512_dpbf16_ps((__m512)acc, (__m512bh)(__m512i)a, (__m512bh)(__m512i)b);
#else
    v16i high = vi_set((int32_t)0xffff0000);
    acc = v_fma((v16f)(a & high), (v16f)(b & high), acc);
    return v_fma((v16f)(a << 16), (v16f)(b << 16), acc);
#endif
}

/* e^x, at most 1 unit in the last place off for -87 < x < 88; 0 below, e^88 above, no number for no number. */
INLINE v16f v_exp(v16f x) {
    v16f low = v_set(-87.33654f);
    v16i under = (v16i)(x < low);
    x = v_min(v_set(88.0f), v_max(low, x)); /* the operand order keeps what is not a number */
    v16f shifted = v_fma(x, v_set(1.44269504f), v_set(ROUND_MAGIC));
    v16f n = shifted - v_set(ROUND_MAGIC);
    v16f r = v_fma(n, v_set(-0.693145752f), x);
    r = v_fma(n, v_set(-1.42860677e-6f), r);
    v16f p = v_set(1.98756915e-4f);
    p = v_fma(p, r, v_set(1.39819994e-3f));
    p = v_fma(p, r, v_set(8.33345205e-3f));
    p = v_fma(p, r, v_set(4.16657962e-2f));
    p = v_fma(p, r, v_set(1.66666651e-1f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r * r, r) + v_set(1.0f);
    v16i exponent = ((v16i)shifted - (v16i)v_set(ROUND_MAGIC) + vi_set(127)) << 23;
    return (v16f)((v16i)(p * (v16f)exponent) & ~under);
}

#endif
