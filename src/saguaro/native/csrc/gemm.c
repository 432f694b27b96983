/* Blocks of outputs times tiles of rows: picks the kernel for the kind and the number of rows, and finishes the sums.
 *
 * All rows of a call visit a block of weights before the next block is read, so weights come from memory once.
 * Tests: tests/native/test_linear.py. */
#include "gemm.h"
#include "gemm_float.h"
#include "gemm_int4.h"
#include "gemm_int8.h"

typedef void (*Tile)(const Linear *, int block, const Prepared *, long row, float *out, long stride, int add);

/* out = sum * scale + bias, or out += that. */
INLINE void finish(const Linear *linear, int block, const int rows, v16f (*sum)[2], float *out, long stride, int add) {
    for (int half = 0; half < 2; half++) {
        long n = (long)block * BLOCK + 16 * half, left = linear->outputs - n;
        if (left <= 0) return;
        v16f scale = linear->scales ? v_load(linear->scales + n) : v_set(1.0f);
        v16f bias = linear->bias ? v_load(linear->bias + n) : v_zero();
        for (int r = 0; r < rows; r++) {
            float *to = out + r * stride + n;
            v16f value = v_fma(sum[r][half], scale, bias);
            if (add) value = v_load_first(to, left) + value;
            v_store_first(to, value, left);
        }
    }
}

#define TILE(kind, rows, ...)                                                                                          \
    static __attribute__((noinline)) void kind##_##rows(const Linear *linear, int block, const Prepared *in, long row, \
                                                        float *out, long stride, int add) {                            \
        v16f sum[rows][2];                                                                                             \
        kind##_tile(rows, __VA_ARGS__, in, row, sum);                                                                  \
        finish(linear, block, rows, sum, out, stride, add);                                                            \
    }
#if TILE_MAX == 12
#define TILES(kind, ...)                                                                                               \
    TILE(kind, 1, __VA_ARGS__) TILE(kind, 2, __VA_ARGS__) TILE(kind, 3, __VA_ARGS__) TILE(kind, 4, __VA_ARGS__)        \
    TILE(kind, 5, __VA_ARGS__) TILE(kind, 6, __VA_ARGS__) TILE(kind, 7, __VA_ARGS__) TILE(kind, 8, __VA_ARGS__)        \
    TILE(kind, 9, __VA_ARGS__) TILE(kind, 10, __VA_ARGS__) TILE(kind, 11, __VA_ARGS__) TILE(kind, 12, __VA_ARGS__)     \
    static const Tile kind##_tiles[TILE_MAX + 1] = {0, kind##_1, kind##_2, kind##_3, kind##_4, kind##_5, kind##_6,     \
                                                    kind##_7, kind##_8, kind##_9, kind##_10, kind##_11, kind##_12};
#else
#define TILES(kind, ...)                                                                                               \
    TILE(kind, 1, __VA_ARGS__) TILE(kind, 2, __VA_ARGS__) TILE(kind, 3, __VA_ARGS__) TILE(kind, 4, __VA_ARGS__)        \
    static const Tile kind##_tiles[TILE_MAX + 1] = {0, kind##_1, kind##_2, kind##_3, kind##_4};
#endif

TILES(float32, linear->weights + (size_t)block * in->groups * (GROUP * BLOCK * 4))
TILES(bfloat16, linear->weights + (size_t)block * in->groups * (GROUP * BLOCK * 2))
TILES(int8, linear->weights + (size_t)block * in->groups * (GROUP * BLOCK))
TILES(int4, linear->weights + (size_t)block * in->groups * (2 * INT4_RUN), linear->mins + (size_t)block * BLOCK)

void linear_blocks(const Linear *linear, const Prepared *in, int rows, int from, int to, float *out, long stride,
                   int add) {
    static const Tile *const kinds[] = {float32_tiles, bfloat16_tiles, int8_tiles, int4_tiles};
    const Tile *tiles = kinds[linear->kind];
    int count = tile_count(rows);
    for (int block = from; block < to; block++)
        for (int tile = 0; tile < count; tile++) {
            int first = tile_first(rows, tile), m = tile_first(rows, tile + 1) - first;
            tiles[m](linear, block, in, first, out + first * stride, stride, add);
        }
}
