/* The three fused steps of a decoder layer around attention: norm_linear, linear_add, mlp_add.
 *
 * Each is one job of a team: rows are prepared, the team meets, blocks of outputs are shared out. Which member computes
 * what never changes a bit. Tests: tests/native/test_linear.py. */
#include "gemm.h"
#include "prepare.h"

typedef struct {
    Team *team;
    float *x;          /* (rows, inputs) */
    const float *norm; /* NULL: none */
    float eps;
    const Linear *first, *second; /* second: the down projection, or NULL */
    float *out;
    long stride;
    int rows, add;
    Prepared in, hidden_in;
    float *hidden;     /* for each member: (rows, hidden_stride), gates of some groups, then their ups */
    long hidden_stride;
    int step;          /* groups of hidden values that are made in one go */
} LinearJob;

/* Gates and ups stay in the second cache until they are gated and rounded; few rows take long runs of weights. */
#define HIDDEN_FLOATS 32768

static int share(long total, int member, int members) { return (int)(total * member / members); }

static size_t align64(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static long words_of(int kind, int groups) {
    return (long)groups * (kind == FLOAT32 ? GROUP : kind == BFLOAT16 ? GROUP / 2 : GROUP / 4);
}

size_t prepared_bytes(int kind, int inputs, int rows) {
    size_t groups = (inputs + GROUP - 1) / GROUP, m = rows;
    return align64(m * words_of(kind, groups) * 4) + 2 * align64(m * groups * 4) + align64(m * groups * 8);
}

void prepared_place(Prepared *prepared, int kind, int inputs, int rows, void *memory) {
    size_t groups = (inputs + GROUP - 1) / GROUP, m = rows;
    char *at = memory;
    prepared->rows = rows;
    prepared->tiles = tile_count(kind, rows);
    prepared->groups = (int)groups;
    prepared->words = words_of(kind, (int)groups);
    prepared->quads = (uint32_t *)at;
    at += align64(m * prepared->words * 4);
    prepared->scales = (float *)at;
    at += align64(m * groups * 4);
    prepared->start = (int32_t *)at;
    at += align64(m * groups * 4);
    prepared->sums = (float *)at;
}

/* All tiles, this member's share of the groups. */
static void prepare_rows(const LinearJob *job, int member, int members) {
    const Linear *linear = job->first;
    const int from = share(job->in.groups, member, members), to = share(job->in.groups, member + 1, members);
    for (int tile = 0; tile < job->in.tiles; tile++) {
        const int first = tile_first(&job->in, tile), m = tile_first(&job->in, tile + 1) - first;
        const float *x = job->x + (long)first * linear->inputs;
        float inverse[TILE_MAX];
        for (int r = 0; job->norm && r < m; r++)
            inverse[r] = inverse_rms(x + (long)r * linear->inputs, job->eps, linear->inputs);
#define PREPARE(kind) prepare_norm_tile(&job->in, kind, first, m, from, to, x, job->norm, inverse, linear->inputs)
        if (linear->kind == FLOAT32) PREPARE(FLOAT32);
        else if (linear->kind == BFLOAT16) PREPARE(BFLOAT16);
        else PREPARE(INT8);
#undef PREPARE
    }
}

/* Groups from ... to-1 of all rows, whose gates and ups are at gate and up. */
static void prepare_gated(const LinearJob *job, int from, int to, const float *gate, const float *up) {
    const Linear *down = job->second;
    const Prepared *in = &job->hidden_in;
    for (int tile = 0; tile < in->tiles; tile++) {
        const int first = tile_first(in, tile), m = tile_first(in, tile + 1) - first;
        const long at = first * job->hidden_stride;
#define PREPARE(kind)                                                                                                  \
    prepare_gated_tile(in, kind, first, m, from, to, gate + at, up + at, job->hidden_stride, down->inputs)
        if (down->kind == FLOAT32) PREPARE(FLOAT32);
        else if (down->kind == BFLOAT16) PREPARE(BFLOAT16);
        else PREPARE(INT8);
#undef PREPARE
    }
}

/* This member's share of the hidden groups: gates and ups of a few groups, then their product, ready for `second`. Ups
 * need not begin at a whole block. */
static void make_hidden(const LinearJob *job, int member, int members) {
    const int ups = job->second->inputs, groups = job->hidden_in.groups, last = share(groups, member + 1, members);
    float *gate = job->hidden + (size_t)member * job->rows * job->hidden_stride, *up = gate + (long)job->step * GROUP;
    for (int from = share(groups, member, members), to; from < last; from = to) {
        to = from + job->step < last ? from + job->step : last;
        const int gates = to * GROUP < ups ? to * GROUP : ups;
        linear_blocks(job->first, &job->in, from * (GROUP / BLOCK), (gates + BLOCK - 1) / BLOCK, gate,
                      job->hidden_stride, 0);
        linear_blocks(job->first, &job->in, (ups + from * GROUP) / BLOCK, (ups + gates + BLOCK - 1) / BLOCK, up,
                      job->hidden_stride, 0);
        prepare_gated(job, from, to, gate, up + ups % BLOCK);
    }
}

static void linear_job(void *argument, int member, int members) {
    const LinearJob *job = argument;
    prepare_rows(job, member, members);
    if (members > 1) team_wait(job->team);
    const Linear *linear = job->first;
    const Prepared *in = &job->in;
    if (job->second) {
        make_hidden(job, member, members);
        if (members > 1) team_wait(job->team);
        linear = job->second;
        in = &job->hidden_in;
    }
    const int from = share(linear->blocks, member, members), to = share(linear->blocks, member + 1, members);
    linear_blocks(linear, in, from, to, job->out + (long)from * BLOCK, job->stride, job->add);
}

static int start_linear(LinearJob *job) {
    const Linear *linear = job->first;
    if (job->rows < 1) return 0;
    void *memory = scratch(SCRATCH_A, prepared_bytes(linear->kind, linear->inputs, job->rows));
    if (!memory) return 1;
    prepared_place(&job->in, linear->kind, linear->inputs, job->rows, memory);
    if (job->second) {
        const int groups = (job->second->inputs + GROUP - 1) / GROUP, step = HIDDEN_FLOATS / (2 * GROUP * job->rows);
        job->step = step < 1 ? 1 : step < groups ? step : groups;
        job->hidden_stride = 2l * job->step * GROUP + BLOCK;
        void *second = scratch(SCRATCH_B, prepared_bytes(job->second->kind, job->second->inputs, job->rows));
        job->hidden = scratch(SCRATCH_HIDDEN, (size_t)team_size(job->team) * job->rows * job->hidden_stride * 4);
        if (!second || !job->hidden) return 1;
        prepared_place(&job->hidden_in, job->second->kind, job->second->inputs, job->rows, second);
    }
    team_run(job->team, linear_job, job);
    return 0;
}

/* out (rows, outputs) = linear(rms_norm(x) * norm). All three return 0, or 1 when there is no memory. */
EXPORT int sgr_norm_linear(const float *x, const float *norm, float eps, const Linear *linear, float *out, int rows,
                           Team *team) {
    LinearJob job = {.team = team, .x = (float *)x, .norm = norm, .eps = eps, .first = linear, .out = out,
                     .stride = linear->outputs, .rows = rows};
    return start_linear(&job);
}

/* x (rows, outputs) += linear(a). */
EXPORT int sgr_linear_add(float *x, const float *a, const Linear *linear, int rows, Team *team) {
    LinearJob job = {.team = team, .x = (float *)a, .first = linear, .out = x, .stride = linear->outputs,
                     .rows = rows, .add = 1};
    return start_linear(&job);
}

/* x += down(silu(gate) * up), gate and up being the halves of gate_up(rms_norm(x) * norm). */
EXPORT int sgr_mlp_add(float *x, const float *norm, float eps, const Linear *gate_up, const Linear *down, int rows,
                       Team *team) {
    LinearJob job = {.team = team, .x = x, .norm = norm, .eps = eps, .first = gate_up, .second = down, .out = x,
                     .stride = down->outputs, .rows = rows, .add = 1};
    return start_linear(&job);
}
