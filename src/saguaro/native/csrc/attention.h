/* What the attention files share. Shapes: S slots, G key heads, D head size, T tokens, P pages of a row. */
#ifndef SAGUARO_ATTENTION_H
#define SAGUARO_ATTENTION_H
#include "saguaro.h"

#define KEYS 64      /* keys of a block; blocks are aligned to absolute position */
/* (token, query head) pairs that share a gathered block, about: at least, and in prefill */
#define TILE_ROWS 64
#define TILE_ROWS_MOST 192

typedef struct {
    int32_t heads, key_heads, head_dim, bfloat16;
    int32_t slots, positions; /* sizes of the pools and of the cos and sin tables, for checks */
    float scale, eps;
    const float *cos, *sin; /* (positions, D/2) */
    const float *q_norm, *k_norm; /* (D) or NULL */
    void *keys, *values; /* (S, G, D) */
} AttentionLayer;

typedef struct {
    int32_t tokens, rows, pages, own_width, page_size;
    const int32_t *positions, *slots, *row; /* (T) */
    const int32_t *tables;                  /* (rows, P) */
    const int32_t *shared;                  /* (T) */
    const int32_t *own, *own_count;         /* (T, own_width), (T); NULL: none */
} PlanView;

#endif
