/* Responsible for two threads at once and for knowing whether they really were. */
#include "tools/bench/pair.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define THREADS 2
#define SKEW_SHARE 20 /* the begins are at most 1/20 of the time apart */

typedef struct half {
    struct mbr_pair *pair;
    pthread_t thread;
    sem_t go;
    uint32_t index;
    double begin_ns, end_ns;
    long preempted_count;
    bool done;
} half;

struct mbr_pair {
    half halves[THREADS];
    sem_t finished;
    _Atomic uint32_t ready_count;
    bool (*work)(void *context, uint32_t thread, uint64_t count); /* NULL: end */
    void *context;
    uint64_t count;
};

static double wall_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static long preempted_count(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue; /* a signal */
}

static void *run(void *argument)
{
    half *self = argument;
    mbr_pair *pair = self->pair;
    for (;;) {
        wait_for(&self->go);
        if (pair->work == NULL)
            return NULL;
        atomic_fetch_add(&pair->ready_count, 1);
        while (atomic_load_explicit(&pair->ready_count, memory_order_acquire) != THREADS)
            continue; /* both have a core when both are here */
        long before = preempted_count();
        self->begin_ns = wall_ns();
        self->done = pair->work(pair->context, self->index, pair->count);
        self->end_ns = wall_ns();
        self->preempted_count = preempted_count() - before;
        sem_post(&pair->finished);
    }
}

/* Ends the first `count` threads. */
static void end(mbr_pair *pair, uint32_t count)
{
    pair->work = NULL;
    for (uint32_t i = 0; i < count; i++)
        sem_post(&pair->halves[i].go);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(pair->halves[i].thread, NULL);
    free(pair);
}

mbr_pair *mbr_pair_create(void)
{
    mbr_pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    sem_init(&pair->finished, 0, 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        pair->halves[i].pair = pair;
        pair->halves[i].index = i;
        sem_init(&pair->halves[i].go, 0, 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        if (pthread_create(&pair->halves[i].thread, NULL, run, &pair->halves[i]) != 0) {
            end(pair, i);
            return NULL;
        }
    }
    return pair;
}

void mbr_pair_destroy(mbr_pair *pair)
{
    if (pair != NULL)
        end(pair, THREADS);
}

bool mbr_pair_run(mbr_pair *pair, bool (*work)(void *context, uint32_t thread, uint64_t count),
    void *context, uint64_t count, double *ns, bool *disturbed)
{
    pair->work = work;
    pair->context = context;
    pair->count = count;
    atomic_store(&pair->ready_count, 0);
    for (uint32_t i = 0; i < THREADS; i++)
        sem_post(&pair->halves[i].go);
    for (uint32_t i = 0; i < THREADS; i++)
        wait_for(&pair->finished);
    const half *a = &pair->halves[0], *b = &pair->halves[1];
    double begin = a->begin_ns < b->begin_ns ? a->begin_ns : b->begin_ns;
    *ns = (a->end_ns > b->end_ns ? a->end_ns : b->end_ns) - begin;
    /* Who lost its core at the barrier begins late, and may have run alone. */
    double skew = a->begin_ns > b->begin_ns ? a->begin_ns - b->begin_ns : b->begin_ns - a->begin_ns;
    *disturbed = a->preempted_count + b->preempted_count != 0 || skew * SKEW_SHARE > *ns;
    return a->done && b->done;
}
