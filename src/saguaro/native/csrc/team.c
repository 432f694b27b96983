/* Threads pinned to cores that share one job at a time, and scratch memory of the calling thread.
 *
 * Members wait for work by spinning for a short while, then sleep. The caller is member 0 and is not moved. With more
 * members than free cores the waits give the core away, so that a team is slow but never stuck.
 * Tests: tests/native/test_team.py. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "saguaro.h"
#if defined(__x86_64__)
#include <immintrin.h>
#define PAUSE() _mm_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

#define SPINS_BEFORE_SLEEP 20000
#define SPINS_BEFORE_YIELD 2000

typedef struct {
    Team *team;
    int member, core;
    pthread_t thread;
} Member;

struct Team {
    int size;
    TeamJob function;
    void *job;
    _Alignas(64) atomic_uint epoch;    /* counts jobs */
    _Alignas(64) atomic_int finished;  /* members other than the caller that ended the job */
    _Alignas(64) atomic_int arrived;   /* at the barrier */
    _Alignas(64) atomic_uint passed;   /* barriers so far */
    _Alignas(64) atomic_int sleeping;
    atomic_int closing;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    Member *members;
};

static void spin(int *count) {
    if (++*count < SPINS_BEFORE_YIELD) PAUSE();
    else sched_yield();
}

static unsigned next_epoch(Team *team, unsigned seen) {
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        unsigned now = atomic_load_explicit(&team->epoch, memory_order_acquire);
        if (now != seen) return now;
        PAUSE();
    }
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->sleeping, 1);
    unsigned now;
    while ((now = atomic_load(&team->epoch)) == seen) pthread_cond_wait(&team->wake, &team->lock);
    atomic_fetch_sub(&team->sleeping, 1);
    pthread_mutex_unlock(&team->lock);
    return now;
}

static void *member_main(void *argument) {
    Member *self = argument;
    Team *team = self->team;
#if defined(__linux__)
    if (self->core >= 0) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(self->core, &cores);
        pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
    }
#endif
    for (unsigned seen = 0;;) {
        seen = next_epoch(team, seen);
        if (atomic_load(&team->closing)) return NULL;
        team->function(team->job, self->member, team->size);
        atomic_fetch_add_explicit(&team->finished, 1, memory_order_release);
    }
}

static void announce(Team *team) {
    atomic_fetch_add(&team->epoch, 1);
    if (atomic_load(&team->sleeping)) {
        pthread_mutex_lock(&team->lock);
        pthread_cond_broadcast(&team->wake);
        pthread_mutex_unlock(&team->lock);
    }
}

void team_run(Team *team, TeamJob function, void *job) {
    if (!team || team->size == 1) {
        function(job, 0, 1);
        return;
    }
    team->function = function;
    team->job = job;
    atomic_store_explicit(&team->finished, 0, memory_order_relaxed);
    announce(team);
    function(job, 0, team->size);
    int count = 0;
    while (atomic_load_explicit(&team->finished, memory_order_acquire) != team->size - 1) spin(&count);
}

void team_wait(Team *team) {
    unsigned before = atomic_load_explicit(&team->passed, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) == team->size - 1) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&team->passed, 1, memory_order_release);
        return;
    }
    int count = 0;
    while (atomic_load_explicit(&team->passed, memory_order_acquire) == before) spin(&count);
}

int team_size(const Team *team) { return team ? team->size : 1; }

EXPORT void sgr_team_close(Team *team) {
    if (!team) return;
    atomic_store(&team->closing, 1);
    announce(team);
    for (int i = 1; i < team->size; i++) pthread_join(team->members[i].thread, NULL);
    pthread_mutex_destroy(&team->lock);
    pthread_cond_destroy(&team->wake);
    free(team->members);
    free(team);
}

/* Cores of all members, -1 for "anywhere"; the first is the caller's and is not used. NULL when it cannot start. */
EXPORT Team *sgr_team_open(const int *cores, int size) {
    Team *team = aligned_alloc(64, (sizeof(Team) + 63) & ~(size_t)63);
    if (!team) return NULL;
    memset(team, 0, sizeof *team);
    team->members = calloc(size, sizeof(Member));
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    team->size = 1;
    for (int i = 1; team->members && i < size; i++) {
        team->members[i] = (Member){.team = team, .member = i, .core = cores[i]};
        if (pthread_create(&team->members[i].thread, NULL, member_main, &team->members[i])) break;
        team->size = i + 1;
    }
    if (team->size == size) return team;
    sgr_team_close(team);
    return NULL;
}

typedef struct {
    void *memory[SCRATCH_SLOTS];
    size_t bytes[SCRATCH_SLOTS];
} Scratch;

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void scratch_free(void *argument) {
    Scratch *mine = argument;
    for (int i = 0; i < SCRATCH_SLOTS; i++) free(mine->memory[i]);
    free(mine);
}
static void scratch_start(void) { pthread_key_create(&scratch_key, scratch_free); }

void *scratch(int slot, size_t bytes) {
    pthread_once(&scratch_once, scratch_start);
    Scratch *mine = pthread_getspecific(scratch_key);
    if (!mine) {
        mine = calloc(1, sizeof *mine);
        if (!mine || pthread_setspecific(scratch_key, mine)) return NULL;
    }
    if (mine->bytes[slot] < bytes) {
        size_t room = (bytes + bytes / 4 + 4095) & ~(size_t)4095;
        free(mine->memory[slot]);
        mine->bytes[slot] = 0;
        mine->memory[slot] = aligned_alloc(64, room);
        if (!mine->memory[slot]) return NULL;
        mine->bytes[slot] = room;
    }
    return mine->memory[slot];
}

EXPORT void sgr_store_release_u32(uint32_t *address, uint32_t value) {
    atomic_store_explicit((_Atomic uint32_t *)address, value, memory_order_release);
}
EXPORT uint32_t sgr_load_acquire_u32(const uint32_t *address) {
    return atomic_load_explicit((const _Atomic uint32_t *)address, memory_order_acquire);
}
EXPORT void sgr_pause(void) { PAUSE(); }
/* Spins until *address differs from `seen` or about `spins` pauses have passed; returns the value seen last. */
EXPORT uint32_t sgr_spin_while_u32(const uint32_t *address, uint32_t seen, long spins) {
    uint32_t now = sgr_load_acquire_u32(address);
    for (long i = 0; i < spins && now == seen; i++) {
        PAUSE();
        now = sgr_load_acquire_u32(address);
    }
    return now;
}
