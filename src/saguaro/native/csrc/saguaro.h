/* What the C files share: packed weights, prepared activations, the team of threads. Tests: tests/native/. */
#ifndef SAGUARO_H
#define SAGUARO_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2, INT4 = 3 };

#define BLOCK 32   /* outputs that are read together: two vectors of 16 */
#define GROUP 64   /* inputs that share an activation scale */
/* Rows computed together: at most TILE_ONE while that is all of them, for then weights pass the first cache once, which
 * counts where a call waits for memory; else at most TILE_MANY, for many rows are bound by arithmetic, and where float
 * sums must wait in memory for integer sums, fewer rows are faster (8 rows of int8: 219 GMAC/s, 12 rows: 202; the
 * processor's limit is 234). */
#if defined(__AVX512F__)
#define TILE_MAX 12
#define TILE_ONE(kind) ((kind) == INT4 ? 8 : 12)
#define TILE_MANY(kind) ((kind) == INT8 || (kind) == INT4 ? 8 : 12)
#else
#define TILE_MAX 4
#define TILE_ONE(kind) 4
#define TILE_MANY(kind) 4
#endif

/* One linear layer. Blocks of 32 outputs follow each other; within a block, inputs follow each other (see gemm_*.h). */
typedef struct {
    int32_t kind;
    int32_t outputs, inputs;     /* as the model has them */
    int32_t blocks, groups;      /* ceil(outputs / 32), ceil(inputs / 64) */
    const uint8_t *weights;
    const float *scales;         /* of each output, padded to whole blocks; int8, int4 */
    const float *mins;           /* int4: step of the minima in units of the scale */
    const float *bias;           /* of each output, padded, or NULL */
} Linear;

/* Rows made ready for a kernel, tile by tile; a tile of m rows at row r starts at r times the size of one row. */
typedef struct {
    uint32_t *quads;  /* int8, int4: [inputs/4][m] of four bytes; bfloat16: [inputs/2][m]; float32: [inputs][m] */
    float *scales;    /* [groups][m] */
    int32_t *start;   /* [groups][m]: -128 * sum of the group's bytes, where int8 sums start */
    float *sums;      /* [2 groups][m]: scale * sum of 32 bytes, for the minima of int4 */
    long words;       /* 32-bit words of one row in `quads` */
    int groups;
    int rows, tiles;  /* rows of the call, and into how many tiles they are cut */
} Prepared;

typedef struct Team Team;
typedef void (*TeamJob)(void *job, int member, int members);
void team_run(Team *team, TeamJob function, void *job);  /* team may be NULL: one member, no barrier */
void team_wait(Team *team);                              /* barrier of the running job */
int team_size(const Team *team);

/* Scratch of the calling thread; grows when needed, kept for the next call. Slots do not overlap. NULL: no memory. */
enum { SCRATCH_A, SCRATCH_B, SCRATCH_HIDDEN, SCRATCH_ATTENTION, SCRATCH_SLOTS };
void *scratch(int slot, size_t bytes);

/* How rows are cut into tiles of about the same size, by the kind of the weights. */
static inline int tile_count(int kind, int rows) {
    return rows <= TILE_ONE(kind) ? 1 : (rows + TILE_MANY(kind) - 1) / TILE_MANY(kind);
}
static inline int tile_first(const Prepared *in, int tile) { return (int)((long)in->rows * tile / in->tiles); }

size_t prepared_bytes(int kind, int inputs, int rows);
void prepared_place(Prepared *prepared, int kind, int inputs, int rows, void *memory);

#endif
