/* Blocks of outputs of one linear layer; see gemm.c. */
#ifndef SAGUARO_GEMM_H
#define SAGUARO_GEMM_H
#include "saguaro.h"

/* Blocks from ... to-1 of `linear` for all rows; out (rows, stride). add: out += result, else out = result. */
void linear_blocks(const Linear *linear, const Prepared *in, int rows, int from, int to, float *out, long stride,
                   int add);
#endif
