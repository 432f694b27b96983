/* Blocks of outputs times tiles of rows: what gemm.c and gemm_int4.c share. Tests: tests/native/test_linear.py. */
#ifndef SAGUARO_GEMM_H
#define SAGUARO_GEMM_H

#include "saguaro.h"
#include "simd.h"

/* One block for rows row ... of a tile; out (rows, stride) begins at the block. add: out += result, else out = result. */
typedef void (*Tile)(const Linear *, int block, const Prepared *, long row, float *out, long stride, int add);

extern const Tile int4_tiles[TILE_MAX + 1]; /* by number of rows; in a file of its own, see there */

/* Blocks from ... to-1 of `linear` for all rows; out (rows, stride) begins at the first output of block `from`. */
void linear_blocks(const Linear *linear, const Prepared *in, int from, int to, float *out, long stride, int add);

/* out = sum * scale + bias, or out += that. */
INLINE void finish(const Linear *linear, int block, const int rows, v16f (*sum)[2], float *out, long stride, int add) {
    for (int half = 0; half < 2; half++) {
        long n = (long)block * BLOCK + 16 * half, left = linear->outputs - n;
        if (left <= 0) return;
        v16f scale = linear->scales ? v_load(linear->scales + n) : v_set(1.0f);
        v16f bias = linear->bias ? v_load(linear->bias + n) : v_zero();
        for (int r = 0; r < rows; r++) {
            float *to = out + r * stride + 16 * half;
            v16f value = v_fma(sum[r][half], scale, bias);
            if (add) value = v_load_first(to, left) + value;
            v_store_first(to, value, left);
        }
    }
}

/* A kernel compiled for one number of rows, and a table of them by that number. */
#define TILE(kind, rows, ...)                                                                                          \
    static __attribute__((noinline)) void kind##_##rows(const Linear *linear, int block, const Prepared *in, long row, \
                                                        float *out, long stride, int add) {                            \
        v16f sum[rows][2];                                                                                             \
        kind##_tile(rows, __VA_ARGS__, in, row, sum);                                                                  \
        finish(linear, block, rows, sum, out, stride, add);                                                            \
    }
#if TILE_MAX == 12
#define TILES(table, kind, ...)                                                                                        \
    TILE(kind, 1, __VA_ARGS__) TILE(kind, 2, __VA_ARGS__) TILE(kind, 3, __VA_ARGS__) TILE(kind, 4, __VA_ARGS__)        \
    TILE(kind, 5, __VA_ARGS__) TILE(kind, 6, __VA_ARGS__) TILE(kind, 7, __VA_ARGS__) TILE(kind, 8, __VA_ARGS__)        \
    TILE(kind, 9, __VA_ARGS__) TILE(kind, 10, __VA_ARGS__) TILE(kind, 11, __VA_ARGS__) TILE(kind, 12, __VA_ARGS__)     \
    table = {0,        kind##_1, kind##_2, kind##_3,  kind##_4,  kind##_5, kind##_6,                                   \
             kind##_7, kind##_8, kind##_9, kind##_10, kind##_11, kind##_12};
#else
#define TILES(table, kind, ...)                                                                                        \
    TILE(kind, 1, __VA_ARGS__) TILE(kind, 2, __VA_ARGS__) TILE(kind, 3, __VA_ARGS__) TILE(kind, 4, __VA_ARGS__)        \
    table = {0, kind##_1, kind##_2, kind##_3, kind##_4};
#endif

#endif
