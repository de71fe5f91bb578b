/* H2: the governor alone. */
#include "tools/bench/rounds.h"
#include "tools/bench/world.h"

#include <pthread.h>
#include <stdalign.h>

#define LIMIT_BYTES (UINT64_C(64) << 30)
#define AMOUNT_BYTES 4096

typedef struct own_mutex {
    alignas(128) pthread_mutex_t mutex; /* each on cache lines of its own */
} own_mutex;

typedef struct authority_state {
    own_mutex mutexes[2];
    mbr_governor *governor;
    mbr_authority *authority;
    mbr_holder *holder;
} authority_state;

static bool book(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    mbr_holder *holder = ((authority_state *)context)->holder;
    mbr_status failed = MBR_OK;
    for (uint64_t i = 0; i < count; i++) {
        failed |= mbr_grant(holder, AMOUNT_BYTES, NULL);
        mbr_charge(holder, AMOUNT_BYTES);
        mbr_refund(holder, AMOUNT_BYTES);
    }
    return failed == MBR_OK;
}

static bool lock_own(void *context, uint32_t thread, uint64_t count)
{
    pthread_mutex_t *mutex = &((authority_state *)context)->mutexes[thread].mutex;
    int failed = 0;
    for (uint64_t i = 0; i < count; i++) {
        failed |= pthread_mutex_lock(mutex);
        failed |= pthread_mutex_unlock(mutex);
    }
    return failed == 0;
}

static bool open_books(mbr_bench *bench, authority_state *state)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_authority_options authority = {
        .name = "bench", .tier = MBR_TIER_HOST, .limit_bytes = LIMIT_BYTES};
    mbr_holder_options holder = {
        .name = "bench", .role = MBR_ROLE_KV, .allowance_bytes = MBR_NO_ALLOWANCE};
    mbr_status status = mbr_governor_create(NULL, &state->governor, &error);
    if (status == MBR_OK)
        status = mbr_authority_create(state->governor, &authority, &state->authority, &error);
    if (status == MBR_OK)
        status = mbr_holder_create(state->authority, &holder, &state->holder, &error);
    return status == MBR_OK || mbr_bench_fail_status(bench, "the books", status, &error);
}

static bool close_books(mbr_bench *bench, authority_state *state)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = MBR_OK;
    if (state->authority != NULL)
        status = mbr_authority_audit(state->authority, &error);
    if (status == MBR_OK)
        status = mbr_holder_destroy(state->holder, &error);
    if (status == MBR_OK)
        status = mbr_authority_destroy(state->authority, &error);
    if (status == MBR_OK)
        status = mbr_governor_destroy(state->governor, &error);
    if (bench->text[0] != '\0')
        return false;
    return status == MBR_OK || mbr_bench_fail_status(bench, "the books", status, &error);
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    authority_state state = {.mutexes = {{PTHREAD_MUTEX_INITIALIZER}, {PTHREAD_MUTEX_INITIALIZER}}};
    mbr_contestant sides[] = {
        {.context = &state, .work = book},
        {.context = &state, .work = lock_own},
        {.context = &state, .work = book, .thread_count = 2},
        {.context = &state, .work = lock_own, .thread_count = 2},
    };
    if (open_books(bench, &state) && mbr_bench_rounds(bench, sides, 4, bench->options->rounds)) {
        mbr_bench_take_time(&rows[0], &sides[0], &sides[1]);
        mbr_bench_take_scaling(&rows[1], &sides[0], &sides[2], &sides[1], &sides[3]);
    }
    return close_books(bench, &state);
}

static const mbr_bench_plan plans[] = {
    {"H2a", "grant + charge + refund at the authority, 1 thread", "ns", "ns",
        "an uncontended mutex pair", false, 40, 80},
    {"H2b", "the same, throughput of 2 threads over 1", "x", "ns",
        "an uncontended mutex pair of each thread's own", true, 1.8, 1.5},
};

const mbr_bench_group mbr_bench_authority = {plans, 2, run};
