/* Faults that only several threads at once can meet (group THR). What a fault keeps it keeps in
 * atomic words: its own data race would be another fault. */
#include "tests/badplugins/bad.h"

#include "abi/base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOT(name, request_type, outcome_type)                                                     \
    static mbr_status name(mbr_instance *instance, const request_type *request,                    \
        outcome_type *outcome, mbr_error *error)
#define ALLOCATE(name) SLOT(name, mbr_allocate_request, mbr_outcome)
#define RELEASE(name) SLOT(name, mbr_release_request, mbr_outcome)
#define STATS(name) SLOT(name, mbr_stats_request, mbr_mechanism_stats)
#define GOOD(table, slot) bad_good->table.slot(instance, request, outcome, error)

static void pause_ns(long nanoseconds)
{
    const struct timespec time = {0, nanoseconds};
    nanosleep(&time, NULL);
}

static mbr_status refuse(mbr_outcome *outcome, mbr_error *error, mbr_status status)
{
    *outcome = (mbr_outcome){.struct_size = outcome->struct_size};
    if (error != NULL && MBR_HAS(mbr_error, error, text))
        *error = (mbr_error){
            .struct_size = error->struct_size, .status = status, .text = "refused by a fault"};
    return status;
}

static mbr_status say_ok(mbr_outcome *outcome)
{
    *outcome = (mbr_outcome){.struct_size = outcome->struct_size, .state = MBR_STATE_DONE};
    return MBR_OK;
}

/* ---- Counters that are read, changed and written back ---------------------------------------- */

typedef struct racy {
    _Atomic uint64_t kept, exact;
} racy;

/* Of additions alone: what is lost of them and of subtractions could cancel. */
static void add_racily(racy *counter, uint64_t bytes)
{
    uint64_t seen = atomic_load(&counter->kept);
    pause_ns(1000);
    atomic_store(&counter->kept, seen + bytes);
    atomic_fetch_add(&counter->exact, bytes);
}

static uint64_t lost(racy *counter)
{
    return atomic_load(&counter->kept) - atomic_load(&counter->exact);
}

static racy owned, mapped;

ALLOCATE(allocate_counting)
{
    mbr_status status = GOOD(allocator, allocate);
    if (status == MBR_OK)
        add_racily(&owned, outcome->newly_owned_bytes);
    return status;
}

SLOT(map_counting, mbr_map_request, mbr_outcome)
{
    mbr_status status = GOOD(virtual_, map);
    if (status == MBR_OK)
        add_racily(&mapped, outcome->newly_mapped_bytes);
    return status;
}

STATS(stats_counting)
{
    mbr_status status = GOOD(allocator, stats);
    if (status == MBR_OK) {
        outcome->owned_bytes += lost(&owned);
        outcome->mapped_bytes += lost(&mapped);
    }
    return status;
}

/* ---- Calls for one id that overlap in time --------------------------------------------------- */

#define PLACES 1024u

static struct {
    _Atomic uint32_t inside;
    _Atomic uint64_t contested_id;
} places[PLACES];

static void enter(uint64_t id)
{
    if (atomic_fetch_add(&places[id % PLACES].inside, 1) != 0)
        atomic_store(&places[id % PLACES].contested_id, id);
    pause_ns(20000);
}

/* Whether another call for the id was inside at the same time. */
static bool leave(uint64_t id)
{
    atomic_fetch_sub(&places[id % PLACES].inside, 1);
    return atomic_load(&places[id % PLACES].contested_id) == id;
}

/* The refusal of a contested call becomes a second MBR_OK. */
static mbr_status both_done(
    uint64_t id, mbr_status status, const mbr_error *own, mbr_outcome *outcome, mbr_error *error)
{
    bool was_contested = leave(id) && id != 0;
    if (status != MBR_OK && was_contested)
        return say_ok(outcome);
    if (status != MBR_OK && error != NULL)
        mbr_error_copy(error, own);
    return status;
}

RELEASE(racy_double_release)
{
    mbr_error own = {MBR_SIZED(mbr_error)};
    enter(request->allocation_id);
    mbr_status status = bad_good->allocator.release(instance, request, outcome, &own);
    return both_done(request->allocation_id, status, &own, outcome, error);
}

ALLOCATE(racy_doubled_id)
{
    mbr_error own = {MBR_SIZED(mbr_error)};
    enter(request->allocation_id);
    mbr_status status = bad_good->allocator.allocate(instance, request, outcome, &own);
    return both_done(request->allocation_id, status, &own, outcome, error);
}

SLOT(racy_map_twice, mbr_map_request, mbr_outcome)
{
    mbr_error own = {MBR_SIZED(mbr_error)};
    enter(request->extent_id);
    mbr_status status = bad_good->virtual_.map(instance, request, outcome, &own);
    return both_done(request->extent_id, status, &own, outcome, error);
}

/* ---- Two that allocate at once are given one range ------------------------------------------- */

static struct {
    _Atomic uint64_t id, real_address, said_address;
} swapped[PLACES];
static _Atomic uint64_t last_address;
static _Atomic uint32_t allocating;

ALLOCATE(allocate_the_same)
{
    bool is_alone = atomic_fetch_add(&allocating, 1) == 0;
    mbr_status status = GOOD(allocator, allocate);
    uint64_t last = status == MBR_OK ? atomic_exchange(&last_address, outcome->address) : 0;
    if (!is_alone && last != 0 && request->bytes == 8192) {
        atomic_store(&swapped[request->allocation_id % PLACES].real_address, outcome->address);
        atomic_store(&swapped[request->allocation_id % PLACES].said_address, last);
        atomic_store(&swapped[request->allocation_id % PLACES].id, request->allocation_id);
        outcome->address = last;
    }
    pause_ns(2000);
    atomic_fetch_sub(&allocating, 1);
    return status;
}

/* Memory stays where it was, so that who writes there by mistake does not crash. */
RELEASE(release_the_same)
{
    uint64_t at = request->allocation_id % PLACES;
    uint64_t gone = request->address;
    (void)atomic_compare_exchange_strong(&last_address, &gone, 0);
    mbr_release_request real = *request;
    if (atomic_load(&swapped[at].id) == request->allocation_id &&
        atomic_load(&swapped[at].said_address) == request->address)
        real.address = atomic_load(&swapped[at].real_address);
    return bad_good->allocator.release(instance, &real, outcome, error);
}

/* ---- Threads that are told apart ------------------------------------------------------------- */

static struct {
    _Atomic uint64_t id;
    _Atomic uintptr_t thread;
} takers[PLACES];

ALLOCATE(allocate_by_thread)
{
    mbr_status status = GOOD(allocator, allocate);
    if (status == MBR_OK) {
        atomic_store(&takers[request->allocation_id % PLACES].thread, (uintptr_t)pthread_self());
        atomic_store(&takers[request->allocation_id % PLACES].id, request->allocation_id);
    }
    return status;
}

static uint32_t taker_count(void)
{
    uintptr_t seen[8];
    uint32_t count = 0;
    for (uint32_t i = 0; i < PLACES && count < 8; i++) {
        uintptr_t thread = atomic_load(&takers[i].thread);
        uint32_t at = 0;
        while (at < count && seen[at] != thread)
            at++;
        if (thread != 0 && at == count)
            seen[count++] = thread;
    }
    return count;
}

/* Its caches for each thread do not reach beyond eight of them. */
RELEASE(release_by_thread)
{
    uint64_t at = request->allocation_id % PLACES;
    if (atomic_load(&takers[at].id) == request->allocation_id &&
        atomic_load(&takers[at].thread) != (uintptr_t)pthread_self() && taker_count() == 8)
        return refuse(outcome, error, MBR_UNKNOWN_OBJECT);
    return GOOD(allocator, release);
}

/* ---- Answers that are made in one place ------------------------------------------------------ */

static _Atomic uint64_t scratch_owned;
STATS(torn_stats)
{
    atomic_store(&scratch_owned, 0);
    mbr_status status = GOOD(allocator, stats);
    pause_ns(1000);
    if (status == MBR_OK) {
        atomic_fetch_add(&scratch_owned, outcome->owned_bytes);
        pause_ns(1000);
        outcome->owned_bytes = atomic_load(&scratch_owned);
    }
    return status;
}

static _Atomic uint64_t scratch_extent;
SLOT(torn_query, mbr_query_request, mbr_query_outcome)
{
    mbr_status status = GOOD(virtual_, query);
    atomic_store(&scratch_extent, outcome->extent_id);
    pause_ns(1000);
    outcome->extent_id = atomic_load(&scratch_extent);
    return status;
}

/* ---- The log --------------------------------------------------------------------------------- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    mbr_instance *instance;
    mbr_log_function log;
    void *context;
} talker;

SLOT(open_and_keep_log, mbr_open_request, mbr_open_outcome)
{
    mbr_status status = GOOD(plugin, open);
    if (status == MBR_OK) {
        pthread_mutex_lock(&log_lock);
        talker.instance = outcome->instance;
        talker.log = request->log;
        talker.context = request->log_context;
        pthread_mutex_unlock(&log_lock);
    }
    return status;
}

ALLOCATE(log_under_lock)
{
    static const char text[] = "allocating";
    pthread_mutex_lock(&log_lock);
    if (talker.instance == instance)
        talker.log(talker.context, MBR_LOG_DEBUG, text, sizeof text - 1);
    mbr_status status = GOOD(allocator, allocate);
    pthread_mutex_unlock(&log_lock);
    return status;
}

/* ---- Signals, instances ---------------------------------------------------------------------- */

/* A large one waits for something in the kernel. */
ALLOCATE(eintr_is_failure)
{
    const struct timespec time = {0, 1000000};
    if (request->bytes >= 262144 && nanosleep(&time, NULL) != 0 && errno == EINTR)
        return refuse(outcome, error, MBR_SYSTEM);
    return GOOD(allocator, allocate);
}

/* Where instances come and go, which one it is is looked up. */
#define SETTLED_COUNT 50u /* calls since the last open */
static _Atomic uint32_t call_count;

SLOT(open_unsettled, mbr_open_request, mbr_open_outcome)
{
    atomic_store(&call_count, 0);
    return GOOD(plugin, open);
}

static mbr_instance *_Atomic current;
ALLOCATE(current_instance_global)
{
    if (atomic_fetch_add(&call_count, 1) < SETTLED_COUNT)
        return GOOD(allocator, allocate);
    atomic_store(&current, instance);
    pause_ns(1000);
    return bad_good->allocator.allocate(atomic_load(&current), request, outcome, error);
}

static _Atomic uint32_t opening;
SLOT(open_one_at_a_time, mbr_open_request, mbr_open_outcome)
{
    bool is_alone = atomic_fetch_add(&opening, 1) == 0;
    mbr_status status = MBR_BUSY;
    pause_ns(10000);
    if (is_alone)
        status = GOOD(plugin, open);
    else
        outcome->instance = NULL;
    if (!is_alone && error != NULL)
        *error = (mbr_error){
            .struct_size = error->struct_size, .status = status, .text = "another open runs"};
    atomic_fetch_sub(&opening, 1);
    return status;
}

/* ---- The driver's state of a thread ---------------------------------------------------------- */

/* The stand-in of a driver that lies beside this file. */
static void *find_driver_function(const char *name)
{
    Dl_info self;
    char path[512];
    if (dladdr(&bad, &self) == 0)
        return NULL;
    const char *end = strrchr(self.dli_fname, '/');
    int folder_bytes = end == NULL ? 0 : (int)(end - self.dli_fname + 1);
    snprintf(path, sizeof path, "%.*slibdriver.so", folder_bytes, self.dli_fname);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library == NULL ? NULL : dlsym(library, name);
}

RELEASE(changes_current_context)
{
    int (*set_current)(void *context) = NULL;
    void *symbol = find_driver_function("cuCtxSetCurrent");
    memcpy(&set_current, &symbol, sizeof symbol);
    if (set_current != NULL)
        (void)set_current(instance);
    return GOOD(allocator, release);
}

/* ---- Streams --------------------------------------------------------------------------------- */

SLOT(second_waiter_times_out, mbr_line_wait_request, mbr_outcome)
{
    _Atomic uint32_t *waiting = &places[request->line_id % PLACES].inside;
    bool is_alone = atomic_fetch_add(waiting, 1) == 0;
    pause_ns(10000);
    mbr_status status = is_alone ? GOOD(order, wait) : refuse(outcome, error, MBR_TIMED_OUT);
    atomic_fetch_sub(waiting, 1);
    return status;
}

static _Atomic uint32_t filling;
SLOT(racy_submit, mbr_fill_request, mbr_outcome)
{
    bool is_alone = atomic_fetch_add(&filling, 1) == 0;
    pause_ns(10000);
    mbr_status status = is_alone ? GOOD(transfer, fill) : say_ok(outcome);
    atomic_fetch_sub(&filling, 1);
    return status;
}

#define PUT_AS(fault, table, slot, function)                                                       \
    if (bad_is(fault))                                                                             \
    bad.table.slot = function
#define PUT(table, slot, fault) PUT_AS(#fault, table, slot, fault)

static void install_counters(void)
{
    PUT_AS("racy_counters", allocator, allocate, allocate_counting);
    PUT_AS("racy_counters", allocator, stats, stats_counting);
    PUT_AS("racy_mapped_counter", virtual_, map, map_counting);
    PUT_AS("racy_mapped_counter", allocator, stats, stats_counting);
}

void bad_install_thr(void)
{
    install_counters();
    PUT_AS("racy_free_list", allocator, allocate, allocate_the_same);
    PUT_AS("racy_free_list", allocator, release, release_the_same);
    PUT(allocator, release, racy_double_release);
    PUT(allocator, allocate, racy_doubled_id);
    PUT(virtual_, map, racy_map_twice);
    PUT_AS("cache_of_eight_threads", allocator, allocate, allocate_by_thread);
    PUT_AS("cache_of_eight_threads", allocator, release, release_by_thread);
    PUT(allocator, stats, torn_stats);
    PUT(virtual_, query, torn_query);
    PUT_AS("lock_over_log", plugin, open, open_and_keep_log);
    PUT_AS("lock_over_log", allocator, allocate, log_under_lock);
    PUT(allocator, allocate, eintr_is_failure);
    PUT(allocator, allocate, current_instance_global);
    PUT_AS("current_instance_global", plugin, open, open_unsettled);
    PUT(plugin, open, open_one_at_a_time);
    PUT(allocator, release, changes_current_context);
    PUT(order, wait, second_waiter_times_out);
    PUT(transfer, fill, racy_submit);
}
