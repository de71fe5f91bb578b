/* Responsible for several threads at once and for knowing whether they really were. */
#include "tools/bench/crew.h"

#include "tools/bench/rounds.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define SKEW_SHARE 20 /* the begins are at most 1/20 of the time apart */

typedef struct member {
    struct mbr_crew *crew;
    pthread_t thread;
    sem_t go;
    uint32_t index;
    double begin_ns, end_ns;
    long preempted_count;
    bool done;
} member;

struct mbr_crew {
    uint32_t thread_count;
    member members[MBR_CREW_LIMIT_COUNT];
    sem_t finished;
    _Atomic uint32_t ready_count;
    bool (*work)(void *context, uint32_t thread, uint64_t count); /* NULL: end */
    void *context;
    uint64_t count;
};

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
    member *self = argument;
    mbr_crew *crew = self->crew;
    for (;;) {
        wait_for(&self->go);
        if (crew->work == NULL)
            return NULL;
        atomic_fetch_add(&crew->ready_count, 1);
        while (atomic_load_explicit(&crew->ready_count, memory_order_acquire) != crew->thread_count)
            continue; /* each has a core when all are here */
        long before = preempted_count();
        self->begin_ns = mbr_bench_wall_ns();
        self->done = crew->work(crew->context, self->index, crew->count);
        self->end_ns = mbr_bench_wall_ns();
        self->preempted_count = preempted_count() - before;
        sem_post(&crew->finished);
    }
}

/* Ends the first `count` threads. */
static void end(mbr_crew *crew, uint32_t count)
{
    crew->work = NULL;
    for (uint32_t i = 0; i < count; i++)
        sem_post(&crew->members[i].go);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(crew->members[i].thread, NULL);
    free(crew);
}

mbr_crew *mbr_crew_create(uint32_t thread_count)
{
    mbr_crew *crew = calloc(1, sizeof *crew);
    if (crew == NULL)
        return NULL;
    sem_init(&crew->finished, 0, 0);
    crew->thread_count = thread_count;
    for (uint32_t i = 0; i < crew->thread_count; i++) {
        crew->members[i].crew = crew;
        crew->members[i].index = i;
        sem_init(&crew->members[i].go, 0, 0);
    }
    for (uint32_t i = 0; i < crew->thread_count; i++) {
        if (pthread_create(&crew->members[i].thread, NULL, run, &crew->members[i]) != 0) {
            end(crew, i);
            return NULL;
        }
    }
    return crew;
}

void mbr_crew_destroy(mbr_crew *crew)
{
    if (crew != NULL)
        end(crew, crew->thread_count);
}

bool mbr_crew_run(mbr_crew *crew, bool (*work)(void *context, uint32_t thread, uint64_t count),
    void *context, uint64_t count, double *ns, bool *disturbed)
{
    crew->work = work;
    crew->context = context;
    crew->count = count;
    atomic_store(&crew->ready_count, 0);
    for (uint32_t i = 0; i < crew->thread_count; i++)
        sem_post(&crew->members[i].go);
    for (uint32_t i = 0; i < crew->thread_count; i++)
        wait_for(&crew->finished);
    /* Who lost its core at the barrier begins late, and may have run alone. */
    const member *members = crew->members;
    double first_ns = members[0].begin_ns, last_begin_ns = first_ns, last_ns = members[0].end_ns;
    bool done = true;
    long preempted = 0;
    for (uint32_t i = 0; i < crew->thread_count; i++) {
        first_ns = fmin(first_ns, members[i].begin_ns);
        last_begin_ns = fmax(last_begin_ns, members[i].begin_ns);
        last_ns = fmax(last_ns, members[i].end_ns);
        preempted += members[i].preempted_count;
        done = done && members[i].done;
    }
    *ns = last_ns - first_ns;
    *disturbed = preempted != 0 || (last_begin_ns - first_ns) * SKEW_SHARE > *ns;
    return done;
}
