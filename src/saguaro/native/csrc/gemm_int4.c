/* The int4 kernels, in a file of their own for the sake of one setting.
 *
 * GCC's second scheduling moves all requests for memory of a run to its beginning, where they wait for each other; in
 * the order of the source, 5 MB of weights take .16 instead of .22 ms for two rows and .23 instead of .26 ms for four.
 * (int8 and attention are faster with it.) Tests: tests/native/test_linear.py. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns2")
#endif
#include "gemm_int4.h"

#include "gemm.h"

TILES(const Tile int4_tiles[TILE_MAX + 1], int4, linear->weights + (size_t)block * in->groups * (2 * INT4_RUN),
      linear->mins + (size_t)block * BLOCK)
