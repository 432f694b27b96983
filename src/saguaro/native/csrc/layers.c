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
    float *hidden; /* (rows, gate and up) */
} LinearJob;

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
    for (int tile = 0; tile < tile_count(job->rows); tile++) {
        const int first = tile_first(job->rows, tile), m = tile_first(job->rows, tile + 1) - first;
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

static void prepare_gated(const LinearJob *job, int member, int members) {
    const Linear *down = job->second;
    const Prepared *in = &job->hidden_in;
    const int from = share(in->groups, member, members), to = share(in->groups, member + 1, members);
    for (int tile = 0; tile < tile_count(job->rows); tile++) {
        const int first = tile_first(job->rows, tile), m = tile_first(job->rows, tile + 1) - first;
        const float *hidden = job->hidden + (long)first * job->first->outputs;
#define PREPARE(kind) prepare_gated_tile(in, kind, first, m, from, to, hidden, down->inputs)
        if (down->kind == FLOAT32) PREPARE(FLOAT32);
        else if (down->kind == BFLOAT16) PREPARE(BFLOAT16);
        else PREPARE(INT8);
#undef PREPARE
    }
}

static void run_blocks(const LinearJob *job, const Linear *linear, const Prepared *in, float *out, long stride, int add,
                       int member, int members) {
    linear_blocks(linear, in, job->rows, share(linear->blocks, member, members),
                  share(linear->blocks, member + 1, members), out, stride, add);
}

static void linear_job(void *argument, int member, int members) {
    const LinearJob *job = argument;
    prepare_rows(job, member, members);
    if (members > 1) team_wait(job->team);
    if (!job->second) {
        run_blocks(job, job->first, &job->in, job->out, job->stride, job->add, member, members);
        return;
    }
    run_blocks(job, job->first, &job->in, job->hidden, job->first->outputs, 0, member, members);
    if (members > 1) team_wait(job->team);
    prepare_gated(job, member, members);
    if (members > 1) team_wait(job->team);
    run_blocks(job, job->second, &job->hidden_in, job->out, job->stride, 1, member, members);
}

static int start_linear(LinearJob *job) {
    const Linear *linear = job->first;
    void *memory = scratch(SCRATCH_A, prepared_bytes(linear->kind, linear->inputs, job->rows));
    if (!memory) return 1;
    prepared_place(&job->in, linear->kind, linear->inputs, job->rows, memory);
    if (job->second) {
        void *second = scratch(SCRATCH_B, prepared_bytes(job->second->kind, job->second->inputs, job->rows));
        job->hidden = scratch(SCRATCH_HIDDEN, (size_t)job->rows * linear->outputs * 4);
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
