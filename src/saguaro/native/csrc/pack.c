/* Weights from (outputs, inputs) float32 or bfloat16 into the order of the kernels, rounded for int8 and int4.
 *
 * int8: one scale an output, largest magnitude / 127. int4: for each run of 32 inputs the scale and minimum with the
 * least squared error among 16 starts, each followed by one least-squares step; then both become bytes (gemm_int4.h).
 * Not for the round: called while loading. Tests: tests/native/test_pack.py. */
#include <stdlib.h>

#include "gemm_int4.h"
#include "saguaro.h"
#include "simd.h"

typedef struct {
    const void *values; /* (outputs, inputs) */
    int bfloat16;
    long outputs, inputs, groups;
} Source;

static float source_at(const Source *s, long n, long k) {
    if (n >= s->outputs || k >= s->inputs) return 0.0f;
    long at = n * s->inputs + k;
    return s->bfloat16 ? bf16_float(((const uint16_t *)s->values)[at]) : ((const float *)s->values)[at];
}

/* Row n into `row`, padded with zeros; returns how many values are not finite. */
static long source_row(const Source *s, long n, float *row) {
    long bad = 0;
    for (long k = 0; k < s->groups * GROUP; k++) row[k] = 0.0f;
    if (n >= s->outputs) return 0;
    for (long k = 0; k < s->inputs; k++) {
        row[k] = source_at(s, n, k);
        bad += !(fabsf(row[k]) <= 3.4028234e38f);
    }
    return bad;
}

static long pack_plain(const Source *s, int kind, long n, float *row, uint8_t *block) {
    long bad = source_row(s, n, row), lane = n % BLOCK;
    for (long k = 0; k < s->groups * GROUP; k++) {
        if (kind == FLOAT32) {
            ((float *)block)[k * BLOCK + lane] = row[k];
        } else {
            ((uint16_t *)block)[(k / 2 * BLOCK + lane) * 2 + k % 2] = bf16_of(row[k]);
        }
    }
    return bad;
}

static long pack_int8(const Source *s, long n, float *row, uint8_t *block, float *scale) {
    long bad = source_row(s, n, row), lane = n % BLOCK;
    float largest = 0.0f;
    for (long k = 0; k < s->inputs; k++) largest = fabsf(row[k]) > largest ? fabsf(row[k]) : largest;
    *scale = largest / 127.0f;
    float inverse = largest >= 1e-30f ? 127.0f / largest : 0.0f;
    for (long k = 0; k < s->groups * GROUP; k++) {
        float q = row[k] * inverse + ROUND_MAGIC - ROUND_MAGIC;
        block[(k / 4 * BLOCK + lane) * 4 + k % 4] = (uint8_t)(int)(q + 128.0f);
    }
    return bad;
}

typedef struct { v16f step, low, error; } Fit; /* w is about step * q + low, q = 0 ... 15, low <= 0 */

INLINE v16f pick(v16i mask, v16f yes, v16f no) { return (v16f)((mask & (v16i)yes) | (~mask & (v16i)no)); }
INLINE v16f quantised(v16f w, v16f low, v16f inverse) {
    v16f q = (w - low) * inverse + v_set(ROUND_MAGIC) - v_set(ROUND_MAGIC);
    return v_min(v_set(15.0f), v_max(v_zero(), q));
}

/* From a start, round, take the least-squares step and minimum for that rounding, and measure the error of both. */
static Fit fit_once(const v16f w[32], v16f step, v16f low) {
    v16i flat = (v16i)(step <= v_set(1e-30f));
    v16f inverse = pick(flat, v_zero(), v_set(1.0f) / pick(flat, v_set(1.0f), step));
    v16f sum_q = v_zero(), sum_qq = v_zero(), sum_w = v_zero(), sum_qw = v_zero();
    for (int i = 0; i < 32; i++) {
        v16f q = quantised(w[i], low, inverse);
        sum_q += q;
        sum_qq = v_fma(q, q, sum_qq);
        sum_w += w[i];
        sum_qw = v_fma(q, w[i], sum_qw);
    }
    v16f count = v_set(32.0f), det = count * sum_qq - sum_q * sum_q;
    v16i solvable = (v16i)(det > v_set(0.5f));
    v16f safe = pick(solvable, det, v_set(1.0f));
    v16f new_step = (count * sum_qw - sum_q * sum_w) / safe, new_low = (sum_qq * sum_w - sum_q * sum_qw) / safe;
    v16i above = (v16i)(new_low > v_zero()); /* then the best line through the origin */
    v16f through = sum_qw / pick((v16i)(sum_qq > v_zero()), sum_qq, v_set(1.0f));
    new_low = pick(above, v_zero(), new_low);
    new_step = pick(above, through, new_step);
    v16i good = solvable & (v16i)(new_step > v_zero());
    Fit fit = {pick(good, new_step, step), pick(good, new_low, low), v_zero()};
    v16i still = (v16i)(fit.step <= v_set(1e-30f));
    inverse = pick(still, v_zero(), v_set(1.0f) / pick(still, v_set(1.0f), fit.step));
    for (int i = 0; i < 32; i++) {
        v16f off = v_fma(quantised(w[i], fit.low, inverse), fit.step, fit.low) - w[i];
        fit.error = v_fma(off, off, fit.error);
    }
    return fit;
}

static Fit fit_run(const v16f w[32]) {
    v16f low = v_zero(), high = v_zero();
    for (int i = 0; i < 32; i++) {
        low = v_min(low, w[i]);
        high = v_max(high, w[i]);
    }
    Fit best = fit_once(w, (high - low) / v_set(15.0f), low);
    for (int start = 1; start < 16; start++) {
        v16f levels = v_set(13.0f + 0.3f * (float)start);
        Fit fit = fit_once(w, (high - low) / levels, low);
        v16i better = (v16i)(fit.error < best.error);
        best.step = pick(better, fit.step, best.step);
        best.low = pick(better, fit.low, best.low);
        best.error = pick(better, fit.error, best.error);
    }
    return best;
}

/* 16 outputs from n on (half a block): all runs of 32 inputs. `rows` holds the 16 padded rows. */
static void pack_int4_half(const Source *s, long n, const float *rows, uint8_t *block, float *scales, float *mins) {
    const long runs = s->groups * 2, width = s->groups * GROUP, half = n % BLOCK / 16;
    float *fits = (float *)rows + 16 * width; /* [runs][2][16]: step, low */
    v16f top_step = v_zero(), top_low = v_zero();
    v16f w[32];
    for (long run = 0; run < runs; run++) {
        for (int i = 0; i < 32; i++)
            for (int lane = 0; lane < 16; lane++) ((float *)&w[i])[lane] = rows[lane * width + run * 32 + i];
        Fit fit = fit_run(w);
        v_store(fits + run * 32, fit.step);
        v_store(fits + run * 32 + 16, fit.low);
        top_step = v_max(top_step, fit.step);
        top_low = v_max(top_low, v_zero() - fit.low);
    }
    v16f scale = top_step / v_set(255.0f), none = v_zero();
    v16i zero = (v16i)(scale <= v_set(1e-30f));
    scale = pick(zero, none, scale);
    v16f ratio = pick(zero, none, v_zero() - top_low / v_set(255.0f) / pick(zero, v_set(1.0f), scale));
    v_store(scales + n, scale);
    v_store(mins + n, ratio);
    for (long run = 0; run < runs; run++) {
        uint8_t *to = block + run * INT4_RUN;
        for (int lane = 0; lane < 16; lane++) {
            float unit = scales[n + lane], low_unit = mins[n + lane];
            float step = fits[run * 32 + lane], low = fits[run * 32 + 16 + lane];
            int s8 = unit > 0 ? (int)(step / unit + 0.5f) : 0;
            int m8 = low_unit < 0 ? (int)(low / unit / low_unit + 0.5f) : 0;
            s8 = s8 > 255 ? 255 : s8;
            m8 = m8 > 255 ? 255 : m8;
            to[512 + 16 * half + lane] = (uint8_t)s8;
            to[544 + 16 * half + lane] = (uint8_t)m8;
            float start = unit * low_unit * (float)m8, inverse = s8 ? 1.0f / (unit * (float)s8) : 0.0f;
            for (int i = 0; i < 32; i++) {
                float q = floorf((rows[lane * width + run * 32 + i] - start) * inverse + 0.5f);
                int nibble = q < 0 ? 0 : q > 15 ? 15 : (int)q;
                int quad = i / 4;
                to[quad / 2 * 128 + half * 64 + lane * 4 + i % 4] |= (uint8_t)(nibble << (quad % 2 * 4));
            }
        }
    }
}

EXPORT size_t sgr_packed_bytes(int kind, long outputs, long inputs) {
    size_t groups = (inputs + GROUP - 1) / GROUP, blocks = (outputs + BLOCK - 1) / BLOCK;
    size_t each = kind == FLOAT32 ? 4 : kind == BFLOAT16 ? 2 : 1;
    size_t group_bytes = kind == INT4 ? 2 * INT4_RUN : GROUP * BLOCK * each;
    return groups * blocks * group_bytes;
}

/* `weights` must hold sgr_packed_bytes zeros; scales and mins one value for each padded output.
 * Returns how many values were not finite, or -1 when there is no memory. */
EXPORT long sgr_pack(const void *values, int bfloat16, long outputs, long inputs, int kind, uint8_t *weights,
                     float *scales, float *mins) {
    Source s = {values, bfloat16, outputs, inputs, (inputs + GROUP - 1) / GROUP};
    const long blocks = (outputs + BLOCK - 1) / BLOCK, width = s.groups * GROUP;
    const size_t block_bytes = sgr_packed_bytes(kind, BLOCK, inputs);
    float *rows = malloc((16 * width + s.groups * 2 * 32) * sizeof(float));
    long bad = 0;
    if (!rows) return -1;
    for (long n = 0; n < blocks * BLOCK; n++) {
        uint8_t *block = weights + (size_t)(n / BLOCK) * block_bytes;
        if (kind == INT4) {
            bad += source_row(&s, n, rows + n % 16 * width);
            if (n % 16 == 15) pack_int4_half(&s, n - 15, rows, block, scales, mins);
        } else if (kind == INT8) {
            bad += pack_int8(&s, n, rows, block, scales + n);
        } else {
            bad += pack_plain(&s, kind, n, rows, block);
        }
    }
    free(rows);
    return bad;
}
