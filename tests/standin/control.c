/* The control interface, exported from the driver's library. Holds nothing itself. */
#include "tests/standin/control.h"

#include "tests/standin/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FINISH_LIMIT_S 5

#define EXPORT __attribute__((visibility("default")))

__attribute__((constructor)) static void load(void)
{
    sim_options_read(&sim.options);
    sim_plan_read();
}

/* A stream's thread may still be at what was enqueued last, which nobody has to wait for (D30). */
static void let_finish(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FINISH_LIMIT_S;
    pthread_mutex_lock(&sim_lock);
    while (sim.options.mode == STANDIN_THREADED && sim.ledger.pending_count != 0 &&
        pthread_cond_timedwait(&sim_changed, &sim_lock, &until) == 0)
        ;
    pthread_mutex_unlock(&sim_lock);
}

__attribute__((destructor)) static void unload(void)
{
    const char *clean = getenv("STANDIN_CLEAN");
    if (clean && strcmp(clean, "1") == 0)
        standin_assert_clean();
}

EXPORT void standin_options(struct standin_options *options)
{
    sim_options_read(options);
}

EXPORT void standin_restart(const struct standin_options *options)
{
    pthread_mutex_lock(&sim_lock);
    sim_release_events();
    sim_contexts_finish();
    sim_captures_finish();
    sim_events_finish();
    sim_husks_finish();
    sim_host_finish();
    sim_memory_finish();
    sim_plan_forget();
    sim.ledger = (struct standin_ledger){0};
    sim.options = *options;
    pthread_mutex_unlock(&sim_lock);
}

EXPORT uint32_t standin_step(uint32_t count)
{
    pthread_mutex_lock(&sim_lock);
    if (sim.options.mode == STANDIN_THREADED)
        sim_misuse("a step is asked for in threaded mode");
    uint32_t done = sim_step(count);
    pthread_mutex_unlock(&sim_lock);
    return done;
}

/* Under the lock, no answer. */
#define LOCKED(call)                                                                               \
    do {                                                                                           \
        pthread_mutex_lock(&sim_lock);                                                             \
        call;                                                                                      \
        pthread_mutex_unlock(&sim_lock);                                                           \
    } while (0)

EXPORT void standin_plan_fault(const struct standin_fault *fault)
{
    LOCKED(sim_plan_fault(fault));
}

EXPORT void standin_ask(standin_judge *judge)
{
    LOCKED(sim_ask(judge));
}

EXPORT void standin_forget_faults(void)
{
    LOCKED(sim_plan_forget());
}

EXPORT void standin_lose(uint32_t device, uint64_t call_index, int code, bool is_whole)
{
    LOCKED(sim_plan_loss(device, call_index, code, is_whole));
}

EXPORT void standin_hang_event(uint64_t record_index)
{
    LOCKED(sim_hang_event(record_index));
}

EXPORT void standin_release_events(void)
{
    LOCKED(sim_release_events());
}

EXPORT void standin_set_latency(const char *function, uint64_t nanoseconds)
{
    LOCKED(sim_set_latency(function, nanoseconds));
}

EXPORT bool standin_hide(const char *function)
{
    bool was_there;
    LOCKED(was_there = sim_hide_symbol(function));
    return was_there;
}

EXPORT void standin_read_ledger(struct standin_ledger *ledger)
{
    LOCKED(*ledger = sim.ledger);
}

EXPORT uint64_t standin_calls(const char *function)
{
    uint64_t count;
    LOCKED(count = sim_calls(function));
    return count;
}

EXPORT bool standin_journal(const char *path)
{
    bool is_open;
    LOCKED(is_open = sim_journal(path));
    return is_open;
}

EXPORT bool standin_peek(uint32_t device, uint64_t address, void *bytes, size_t count)
{
    pthread_mutex_lock(&sim_lock);
    bool may = sim_device((int)device) && sim_may(device, address, count, SIM_ACCESS_READ) &&
        sim_look(bytes, sim_view(device, address), count);
    pthread_mutex_unlock(&sim_lock);
    return may;
}

EXPORT bool standin_poke(uint32_t device, uint64_t address, const void *bytes, size_t count)
{
    pthread_mutex_lock(&sim_lock);
    bool may = sim_device((int)device) && sim_may(device, address, count, SIM_ACCESS_READ_WRITE) &&
        sim_put(sim_view(device, address), bytes, count);
    pthread_mutex_unlock(&sim_lock);
    return may;
}

EXPORT void *standin_view(uint32_t device, uint64_t address)
{
    uint64_t view;
    LOCKED(view = sim_view(device, address));
    return (void *)(uintptr_t)view;
}

EXPORT bool standin_submit(uint64_t stream, void (*function)(void *argument), void *argument)
{
    int status;
    LOCKED(status = sim_submit_host_function((uintptr_t)stream, function, argument));
    return status == SIM_OK;
}

EXPORT void standin_assert_clean(void)
{
    struct standin_ledger left;
    let_finish();
    standin_read_ledger(&left);
    const struct {
        const char *what;
        uint64_t count;
    } rows[] = {
        {"handles", left.handle_count},
        {"mappings", left.mapping_count},
        {"reservations", left.reservation_count},
        {"plain allocations", left.plain_count},
        {"pinned or registered blocks", left.pinned_count},
        {"streams", left.stream_count},
        {"events", left.event_count},
        {"graphs", left.graph_count},
        {"modules", left.module_count},
        {"retained primary contexts", left.retain_count},
        {"pieces of work that did not run", left.pending_count},
        {"unmaps that met a hole", left.lenient_unmap_count},
        {"settings of access that met a hole", left.lenient_access_count},
        {"capture modes that are none", left.lenient_mode_count},
    };
    bool is_clean = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].count)
            continue;
        fprintf(stderr, "stand-in: left behind: %llu %s\n", (unsigned long long)rows[i].count,
            rows[i].what);
        is_clean = false;
    }
    if (!is_clean)
        abort();
}
