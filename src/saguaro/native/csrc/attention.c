/* Rotate queries and keys, write keys and values to their slots, attend over pages and own slots.
 *
 * First all tokens write, then the team meets, then tiles (tokens of one row that follow each other) times key heads
 * are shared out. Within a tile a gathered block of keys serves all its queries; the arithmetic of a query is the same
 * in any tile. Tests: tests/native/test_attention.py, tests/conformance/test_attention.py. */
#include "attention.h"

#include <stdlib.h>

#include "attention_block.h"
#include "rope.h"

typedef struct {
    Team *team;
    const AttentionLayer *layer;
    const PlanView *plan;
    const float *qkv;
    float *out;
    uint32_t *queries; /* (G, T, heads of a key head, words): the rows of a tile follow each other */
    char *spaces;      /* one a member */
    size_t space_bytes;
    int words, padded, tile_tokens;
} AttentionJob;

/* Row of `queries` of one token and one query head of a key head's group. */
static long query_row(const AttentionJob *job, int token, int key_head, int in_group) {
    const int each = job->layer->heads / job->layer->key_heads;
    return ((long)key_head * job->plan->tokens + token) * each + in_group;
}

static void write_token(const AttentionJob *job, int token) {
    const AttentionLayer *layer = job->layer;
    const int size = layer->head_dim, key_heads = layer->key_heads;
    const long position = job->plan->positions[token], slot = job->plan->slots[token];
    const float *cos = layer->cos + position * (size / 2), *sin = layer->sin + position * (size / 2);
    const int each = layer->heads / key_heads;
    const float *x = job->qkv + (long)token * (layer->heads + 2 * key_heads) * size;
    float turned[1024] __attribute__((aligned(64)));
    for (int head = 0; head < layer->heads + key_heads; head++) {
        const int is_query = head < layer->heads;
        rotate_head(x + (long)head * size, is_query ? layer->q_norm : layer->k_norm, layer->eps, cos, sin,
                    is_query ? layer->scale : 1.0f, size, turned);
        void *query = job->queries + query_row(job, token, head / each, head % each) * job->words;
        void *key = (char *)layer->keys + (slot * key_heads + head - layer->heads) * size * (layer->bfloat16 ? 2 : 4);
        void *to = is_query ? query : key;
        if (layer->bfloat16) to_bf16(turned, size, to);
        else memcpy(to, turned, size * 4);
    }
    const float *value = x + (long)(layer->heads + key_heads) * size;
    if (layer->bfloat16) to_bf16(value, key_heads * size, (uint16_t *)layer->values + slot * key_heads * size);
    else memcpy((float *)layer->values + slot * key_heads * size, value, (size_t)key_heads * size * 4);
}

static Block space_of(const AttentionJob *job, int member) {
    char *at = job->spaces + member * job->space_bytes;
    const size_t rows = (size_t)job->tile_tokens * (job->layer->heads / job->layer->key_heads);
    Block block = {.words = job->words, .padded = job->padded};
    block.keys = (uint32_t *)at;
    at += (size_t)KEYS * job->words * 4;
    block.values = (uint32_t *)at;
    at += (size_t)KEYS * job->padded * 4;
    block.weights = (uint32_t *)at;
    at += rows * KEYS * 4;
    block.sum = (float *)at;
    at += rows * job->padded * 4;
    block.total = (float *)at;
    at += rows * 64;
    block.top = (float *)at;
    at += rows * 4;
    block.seen = (int *)at;
    return block;
}

static size_t space_size(const AttentionJob *job) {
    const size_t rows = (size_t)job->tile_tokens * (job->layer->heads / job->layer->key_heads);
    return ((size_t)KEYS * (job->words + job->padded) * 4 + rows * (job->padded * 4 + KEYS * 4 + 64 + 8) + 63) & ~(size_t)63;
}

/* Keys and values of one head lie apart in memory; asked for one block ahead, they arrive while another is used. */
static void fetch_ahead(const AttentionLayer *layer, int key_head, const int *slots, int count) {
    const size_t size = (size_t)layer->head_dim * (layer->bfloat16 ? 2 : 4);
    for (int i = 0; i < count; i++) {
        size_t at = ((size_t)slots[i] * layer->key_heads + key_head) * size;
        for (size_t line = 0; line < size; line += 64) {
            __builtin_prefetch((const char *)layer->keys + at + line, 0, 2);
            __builtin_prefetch((const char *)layer->values + at + line, 0, 2);
        }
    }
}

/* Slots of positions start ... start+63 below `end`; returns how many. */
static int slots_of(const PlanView *plan, const int32_t *table, int start, int end, int *slots) {
    const int count = end - start < KEYS ? end - start : KEYS, size = plan->page_size;
    if (count <= 0) return 0;
    int page = start / size, offset = start % size;
    for (int i = 0; i < count; page++, offset = 0)
        for (const int first = table[page] * size; i < count && offset < size; i++, offset++) slots[i] = first + offset;
    return count;
}

/* One gathered block against tokens first ... last-1 of the tile that starts at `tile`; counts: keys seen, by token. */
INLINE void attend_block(const AttentionJob *job, const int bfloat16, const Block *block, int tile, int first, int last,
                         int key_head, const int *slots, int count, const int *counts) {
    const AttentionLayer *layer = job->layer;
    const int each = layer->heads / layer->key_heads;
    const size_t size = (size_t)layer->head_dim * (bfloat16 ? 2 : 4);
    const char *keys[KEYS], *values[KEYS];
    for (int i = 0; i < count; i++) {
        size_t at = ((size_t)slots[i] * layer->key_heads + key_head) * size;
        keys[i] = (const char *)layer->keys + at;
        values[i] = (const char *)layer->values + at;
    }
    gather_keys(block, keys, count);
    gather_values(block, bfloat16, values, count, layer->head_dim);
    const int start = (first - tile) * each, end = (last - tile) * each;
    for (int token = first, row = start; token < last; token++)
        for (int i = 0; i < each; i++) block->seen[row++] = counts[token - first];
    attend_rows(bfloat16, block, start, end, job->queries + query_row(job, tile, key_head, 0) * job->words);
}

INLINE void attend_tile(const AttentionJob *job, const int bfloat16, const Block *block, int first, int last,
                        int key_head) {
    const PlanView *plan = job->plan;
    const AttentionLayer *layer = job->layer;
    const int each = layer->heads / layer->key_heads, rows = (last - first) * each;
    const int32_t *table = plan->tables + (long)plan->row[first] * plan->pages;
    int here[KEYS], ahead[KEYS], counts[TILE_ROWS_MOST], longest = 0;
    memset(block->sum, 0, (size_t)rows * block->padded * 4);
    memset(block->total, 0, (size_t)rows * 64);
    for (int r = 0; r < rows; r++) block->top[r] = -INFINITY;
    for (int t = first; t < last; t++) longest = plan->shared[t] > longest ? plan->shared[t] : longest;
    int next = slots_of(plan, table, 0, longest, ahead);
    fetch_ahead(layer, key_head, ahead, next);
    for (int start = 0; start < longest; start += KEYS) {
        int count = next, sees = last;
        memcpy(here, ahead, sizeof here);
        next = slots_of(plan, table, start + KEYS, longest, ahead);
        fetch_ahead(layer, key_head, ahead, next);
        for (int t = last - 1; t >= first; t--) {
            int seen = plan->shared[t] - start;
            counts[t - first] = seen < 0 ? 0 : seen < KEYS ? seen : KEYS;
            if (seen > 0) sees = t;
        }
        attend_block(job, bfloat16, block, first, sees, last, key_head, here, count, counts + (sees - first));
    }
    for (int t = first; t < last && plan->own_count; t++)
        for (int start = 0; start < plan->own_count[t]; start += KEYS) {
            int left = plan->own_count[t] - start, count = left < KEYS ? left : KEYS;
            const int32_t *own = plan->own + (long)t * plan->own_width + start;
            attend_block(job, bfloat16, block, first, t, t + 1, key_head, own, count, &count);
        }
    for (int r = 0; r < rows; r++) {
        float total = v_sum(v_load(block->total + 16 * r));
        int token = first + r / each, head = key_head * each + r % each;
        float *out = job->out + ((long)token * layer->heads + head) * layer->head_dim;
        for (int d = 0; d < layer->head_dim; d += 16) {
            v16f value = v_load(block->sum + (long)r * block->padded + d) / v_set(total);
            v_store_first(out + d, value, layer->head_dim - d);
        }
    }
}

static void attend_bfloat16(const AttentionJob *job, const Block *block, int first, int last, int key_head) {
    attend_tile(job, 1, block, first, last, key_head);
}
static void attend_float32(const AttentionJob *job, const Block *block, int first, int last, int key_head) {
    attend_tile(job, 0, block, first, last, key_head);
}

static void attention_job(void *argument, int member, int members) {
    const AttentionJob *job = argument;
    const PlanView *plan = job->plan;
    const int tokens = plan->tokens;
    for (int t = (int)((long)tokens * member / members); t < (int)((long)tokens * (member + 1) / members); t++)
        write_token(job, t);
    if (members > 1) team_wait(job->team);
    Block block = space_of(job, member);
    memset(block.values, 0, (size_t)KEYS * block.padded * 4); /* dimensions past D stay zero */
    long item = 0;
    for (int first = 0, last; first < tokens; first = last) {
        for (last = first + 1; last < tokens && last - first < job->tile_tokens && plan->row[last] == plan->row[first];)
            last++;
        for (int key_head = 0; key_head < job->layer->key_heads; key_head++, item++) {
            if (item % members != member) continue;
            if (job->layer->bfloat16) attend_bfloat16(job, &block, first, last, key_head);
            else attend_float32(job, &block, first, last, key_head);
        }
    }
}

/* 0, or 2 when the plan points outside the pools, the tables or the positions, or a token sees no key. */
static int check(const AttentionLayer *layer, const PlanView *plan) {
    for (int t = 0; t < plan->tokens; t++) {
        const int shared = plan->shared[t], own = plan->own_count ? plan->own_count[t] : 0, row = plan->row[t];
        const unsigned slots = (unsigned)layer->slots;
        if ((unsigned)plan->positions[t] >= (unsigned)layer->positions || (unsigned)plan->slots[t] >= slots) return 2;
        if (shared < 0 || own < 0 || own > plan->own_width || shared + own == 0) return 2;
        if ((unsigned)row >= (unsigned)plan->rows || shared > (long)plan->pages * plan->page_size) return 2;
        for (int i = 0; i < own; i++)
            if ((unsigned)plan->own[(long)t * plan->own_width + i] >= slots) return 2;
        /* Pages once for tokens of the same row that see no more than the token before. */
        if (t && plan->row[t - 1] == row && plan->shared[t - 1] >= shared) continue;
        int page = t && plan->row[t - 1] == row ? plan->shared[t - 1] / plan->page_size : 0;
        for (; (long)page * plan->page_size < shared; page++) {
            long start = (long)plan->tables[(long)row * plan->pages + page] * plan->page_size;
            long used = shared - (long)page * plan->page_size;
            if (start < 0 || start + (used < plan->page_size ? used : plan->page_size) > layer->slots) return 2;
        }
    }
    return 0;
}

/* Tokens of a tile: many, so that a gathered block serves many rows, but some tiles for each member. */
static int tile_tokens(const AttentionLayer *layer, const PlanView *plan, int members) {
    const int each = layer->heads / layer->key_heads;
    const int least = TILE_ROWS / each, most = TILE_ROWS_MOST / each;
    const int fair = (int)((long)plan->tokens * layer->key_heads / (4 * members));
    const int chosen = fair < least ? least : fair < most ? fair : most;
    return chosen < 1 ? 1 : chosen;
}

/* qkv (T, (heads + 2 G) D), out (T, heads D). Returns 0, 1 (no memory) or 2 (see check). */
EXPORT int sgr_rope_write_attend(const float *qkv, const AttentionLayer *layer, const PlanView *plan, float *out,
                                 Team *team) {
    int bad = check(layer, plan);
    if (bad) return bad;
    AttentionJob job = {.team = team, .layer = layer, .plan = plan, .qkv = qkv, .out = out};
    job.words = layer->bfloat16 ? layer->head_dim / 2 : layer->head_dim;
    job.padded = (layer->head_dim + SLAB - 1) / SLAB * SLAB;
    job.tile_tokens = tile_tokens(layer, plan, team_size(team));
    job.space_bytes = space_size(&job);
    size_t query_bytes = ((size_t)plan->tokens * layer->heads * job.words * 4 + 63) & ~(size_t)63;
    job.spaces = scratch(SCRATCH_ATTENTION, query_bytes + team_size(team) * job.space_bytes);
    if (!job.spaces) return 1;
    job.queries = (uint32_t *)(job.spaces + team_size(team) * job.space_bytes);
    team_run(team, attention_job, &job);
    return 0;
}
