/* Memory for weights: zeroed, aligned to 64 bytes, in huge pages when large (one page fault in 512, fewer misses of the
 * address cache while weights stream). Tests: tests/native/test_memory.py. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "saguaro.h"

#define HUGE_PAGE ((size_t)2 << 20)

EXPORT void *sgr_allocate(size_t bytes) {
    if (bytes < HUGE_PAGE / 2) {
        void *memory = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
        return memory ? memset(memory, 0, bytes) : NULL;
    }
    /* Map one huge page more than needed, then give back what lies before and after the aligned part. */
    size_t length = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    char *start = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char *memory = (char *)(((size_t)start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    if (memory > start) munmap(start, memory - start);
    if (start + HUGE_PAGE > memory) munmap(memory + length, start + HUGE_PAGE - memory);
#ifdef MADV_HUGEPAGE
    madvise(memory, length, MADV_HUGEPAGE);
#endif
    return memory;
}

EXPORT void sgr_free(void *memory, size_t bytes) {
    if (!memory) return;
    if (bytes < HUGE_PAGE / 2) free(memory);
    else munmap(memory, (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
}

/* What this library was compiled for. */
EXPORT const char *sgr_features(void) {
    return ""
#if defined(__AVX512F__)
           "avx512f "
#endif
#if defined(__AVX512VNNI__)
           "avx512vnni "
#endif
#if defined(__AVX512BF16__)
           "avx512bf16 "
#endif
#if defined(__AVX2__)
           "avx2 "
#endif
#if defined(__FMA__)
           "fma "
#endif
#if defined(__ARM_FEATURE_DOTPROD)
           "dotprod "
#endif
        ;
}
