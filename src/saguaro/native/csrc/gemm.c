/* Blocks of outputs times tiles of rows: picks the kernel for the kind and the number of rows.
 *
 * All rows of a call visit a block of weights before the next block is read, so weights come from memory once.
 * Tests: tests/native/test_linear.py. */
#include "gemm.h"

#include "gemm_float.h"
#include "gemm_int8.h"

TILES(static const Tile float32_tiles[TILE_MAX + 1], float32,
      linear->weights + (size_t)block * in->groups * (GROUP * BLOCK * 4))
TILES(static const Tile bfloat16_tiles[TILE_MAX + 1], bfloat16,
      linear->weights + (size_t)block * in->groups * (GROUP * BLOCK * 2))
TILES(static const Tile int8_tiles[TILE_MAX + 1], int8, linear->weights + (size_t)block * in->groups * (GROUP * BLOCK))

void linear_blocks(const Linear *linear, const Prepared *in, int from, int to, float *out, long stride, int add) {
    static const Tile *const kinds[] = {float32_tiles, bfloat16_tiles, int8_tiles, int4_tiles};
    const Tile *tiles = kinds[linear->kind];
    for (int block = from; block < to; block++)
        for (int tile = 0; tile < in->tiles; tile++) {
            int first = tile_first(in, tile), m = tile_first(in, tile + 1) - first;
            tiles[m](linear, block, in, first, out + first * stride + (long)(block - from) * BLOCK, stride, add);
        }
}
