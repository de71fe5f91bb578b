/* Admission, decode, ends: what a request asks of the library, and what follows from a refusal. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define DRAIN_NS UINT64_C(60000000000)

bool replay_fail(replay_sim *sim, const char *format, ...)
{
    if (sim->text[0] != '\0')
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sim->text, MBR_REPLAY_TEXT_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static uint64_t wall_ns(void)
{
    return mbr_clock_now(&mbr_clock_monotonic);
}

/* ---- The queue of those who wait
 * --------------------------------------------------------------------------- */

void replay_wait_push(replay_sim *sim, uint64_t index)
{
    uint64_t room = sim->trace->request_count;
    sim->waiting[(sim->waiting_first + sim->waiting_count) % room] = index;
    sim->waiting_count++;
}

void replay_wait_push_front(replay_sim *sim, uint64_t index)
{
    uint64_t room = sim->trace->request_count;
    sim->waiting_first = (sim->waiting_first + room - 1) % room;
    sim->waiting[sim->waiting_first] = index;
    sim->waiting_count++;
    sim->head_tried = 0;
}

static void wait_pop(replay_sim *sim)
{
    sim->waiting_first = (sim->waiting_first + 1) % sim->trace->request_count;
    sim->waiting_count--;
    sim->head_tried = 0;
}

/* ---- Refusals
 * --------------------------------------------------------------------------------------------------
 */

/* Queued releases are settled first, so that a run does not depend on how fast the workers are. */
static void settle_releases(replay_sim *sim)
{
    mbr_ep_drain(sim->world.manager, sim->world.ep, wall_ns() + DRAIN_NS, NULL);
}

/* After a refusal: releases that are under way, then cold prefixes, until something could have
 * changed. False: there is nothing to give. */
static bool make_room(replay_sim *sim, bool *drained)
{
    if (!*drained) {
        *drained = true;
        settle_releases(sim);
        return true;
    }
    if (sim->store == NULL || !replay_store_evict(sim->store))
        return false;
    sim->report->ledger_calls++;
    sim->report->evicted_prefixes++;
    settle_releases(sim);
    return true;
}

/* ---- Ends
 * --------------------------------------------------------------------------------------------------------
 */

static bool add_stay(replay_sim *sim, const replay_run *run)
{
    mbr_replay_report *report = sim->report;
    if (report->stay_count == report->stay_capacity) {
        uint64_t capacity = 2 * report->stay_capacity; /* somebody stays a second time */
        mbr_replay_stay *grown = realloc(report->stays, capacity * sizeof(*grown));
        if (grown == NULL)
            return replay_fail(sim, "out of memory for the schedule of %llu requests",
                (unsigned long long)capacity);
        report->stays = grown;
        report->stay_capacity = capacity;
    }
    uint64_t decode = mbr_min(run->decode_ns, sim->now_ns);
    report->stays[report->stay_count++] = (mbr_replay_stay){run->start_ns, decode, sim->now_ns,
        sim->trace->requests[run->index].prompt_tokens, run->tokens};
    return true;
}

/* Checks what it holds, then gives it back behind its stream. After a failure it may have ended all
 * the same: its sequence is NULL then, and ending it again does nothing. */
static bool end_run(replay_sim *sim, replay_run *run)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (run->contents.sequence == NULL)
        return true;
    if (!replay_verify_all(&sim->touch, &run->contents))
        return replay_fail(sim, "the contents of request %llu cannot be checked: out of memory",
            (unsigned long long)run->index);
    uint64_t before = wall_ns();
    mbr_status status = mbr_sequence_destroy(run->contents.sequence, NULL, 0, &error);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED) {
        settle_releases(sim);
        status = mbr_sequence_destroy(run->contents.sequence, NULL, 0, &error);
    }
    sim->report->call_seconds += (double)(wall_ns() - before) / 1e9;
    sim->report->ledger_calls++;
    if (status != MBR_OK)
        return replay_fail(
            sim, "request %llu cannot be ended: %s", (unsigned long long)run->index, error.text);
    run->contents.sequence = NULL;
    bool added = add_stay(sim, run);
    if (sim->store != NULL)
        replay_store_release(sim->store, run->entry);
    replay_touched_finish(&run->contents.touched);
    sim->release_count++;
    return added;
}

static void remove_run(replay_sim *sim, uint64_t at)
{
    sim->runs[at] = sim->runs[--sim->run_count];
}

bool replay_end_all(replay_sim *sim)
{
    bool ended = true;
    while (sim->run_count != 0) {
        ended = end_run(sim, &sim->runs[sim->run_count - 1]) && ended;
        sim->run_count--;
    }
    return ended;
}

bool replay_preempt_youngest(replay_sim *sim)
{
    uint64_t youngest = 0;
    if (sim->run_count < 2)
        return false; /* alone and stuck: it can never be served */
    for (uint64_t i = 1; i < sim->run_count; i++) {
        const replay_run *run = &sim->runs[i], *best = &sim->runs[youngest];
        if (run->start_ns > best->start_ns ||
            (run->start_ns == best->start_ns && run->index > best->index))
            youngest = i;
    }
    uint64_t index = sim->runs[youngest].index;
    if (!end_run(sim, &sim->runs[youngest]))
        return false;
    remove_run(sim, youngest);
    sim->report->preempted++;
    replay_wait_push_front(sim, index);
    return true;
}

/* ---- Starts
 * ------------------------------------------------------------------------------------------------------
 */

/* What the prompt's whole blocks are now becomes a prefix for later requests. Not being able to
 * share is no failure: the request goes on alone. */
static bool keep_prefix(replay_sim *sim, replay_run *run)
{
    const mbr_trace_request *request = &sim->trace->requests[run->index];
    uint32_t blocks = (uint32_t)(request->prompt_tokens / MBR_TRACE_BLOCK_TOKENS);
    if (sim->store == NULL || request->hash_count == 0 ||
        replay_store_covers(sim->store, request, blocks))
        return true;
    /* Others read it on streams of their own: it is a prefix once its last write is done. */
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (mbr_cpu_synchronize(sim->world.cpu, sim->world.natives[run->contents.stream],
            wall_ns() + DRAIN_NS, &error) != MBR_OK)
        return replay_fail(sim, "the writes of request %llu do not end: %s",
            (unsigned long long)run->index, error.text);
    mbr_kv_prefix *prefix;
    uint64_t before = wall_ns();
    mbr_status status = mbr_kv_prefix_create(
        run->contents.sequence, (uint64_t)blocks * MBR_TRACE_BLOCK_TOKENS, &prefix, NULL);
    sim->report->call_seconds += (double)(wall_ns() - before) / 1e9;
    if (status != MBR_OK)
        return true;
    sim->report->ledger_calls++;
    sim->report->created_prefixes++;
    if (replay_store_put(sim->store, request, blocks, prefix))
        return true;
    mbr_kv_prefix_destroy(prefix, NULL);
    return replay_fail(sim, "out of memory for the prefix store");
}

static void refresh(replay_run *run, mbr_sequence_figures *figures)
{
    *figures = (mbr_sequence_figures){MBR_SIZED(mbr_sequence_figures)};
    mbr_sequence_read(run->contents.sequence, figures, NULL);
    run->capacity_tokens = figures->capacity_tokens;
}

static mbr_status create_sequence(replay_sim *sim, replay_run *run, mbr_error *error)
{
    const mbr_trace_request *request = &sim->trace->requests[run->index];
    uint64_t equal = 0;
    run->entry = sim->store == NULL ? NULL : replay_store_acquire(sim->store, request, &equal);
    mbr_sequence_request asked = {MBR_SIZED(mbr_sequence_request),
        .stream = sim->world.streams[run->contents.stream], .tokens = request->prompt_tokens,
        .prefix = run->entry == NULL ? NULL : replay_entry_prefix(run->entry),
        .prefix_tokens = equal, .tag = run->index};
    uint64_t before = wall_ns();
    mbr_status status = mbr_sequence_create(sim->world.kv, &asked, &run->contents.sequence, error);
    sim->report->call_seconds += (double)(wall_ns() - before) / 1e9;
    if (status != MBR_OK && sim->store != NULL) {
        replay_store_release(sim->store, run->entry);
        run->entry = NULL;
    }
    return status;
}

static bool start_run(replay_sim *sim, replay_run *run)
{
    const mbr_trace_request *request = &sim->trace->requests[run->index];
    mbr_replay_report *report = sim->report;
    mbr_sequence_figures figures;
    report->ledger_calls++;
    run->start_ns = sim->now_ns;
    run->decode_ns =
        sim->now_ns + request->prompt_tokens * UINT64_C(1000000000) / sim->options->prefill_rate;
    run->tokens = request->prompt_tokens;
    run->end_tokens = run->tokens + request->output_tokens;
    refresh(run, &figures);
    if (figures.shared_tokens != 0) {
        report->prefix_requests++;
        report->prefix_tokens += figures.shared_tokens;
        report->prefix_bytes += figures.shared_bytes;
    }
    sim->runs[sim->run_count++] = *run;
    run = &sim->runs[sim->run_count - 1];
    if (!replay_verify_shared(&sim->touch, &run->contents) ||
        !replay_touch_new(&sim->touch, &run->contents))
        return replay_fail(sim, "the contents of request %llu cannot be written: out of memory",
            (unsigned long long)run->index);
    return keep_prefix(sim, run);
}

static bool reserve_run(replay_sim *sim)
{
    if (sim->run_count < sim->run_capacity)
        return true;
    uint64_t capacity = sim->run_capacity == 0 ? 64 : 2 * sim->run_capacity;
    replay_run *grown = realloc(sim->runs, capacity * sizeof(*grown));
    if (grown == NULL)
        return replay_fail(
            sim, "out of memory for %llu running requests", (unsigned long long)capacity);
    sim->runs = grown;
    sim->run_capacity = capacity;
    return true;
}

static void refuse_head(replay_sim *sim, const char *why)
{
    uint64_t index = sim->waiting[sim->waiting_first];
    if (sim->report->refused++ == 0)
        snprintf(sim->report->refusal, sizeof(sim->report->refusal),
            "line %llu of the trace (%u + %u tokens): %s",
            (unsigned long long)sim->trace->requests[index].source_line,
            sim->trace->requests[index].prompt_tokens, sim->trace->requests[index].output_tokens,
            why);
    sim->done_count++;
    wait_pop(sim);
}

typedef enum admitted { ADMITTED, WAITS, NEVER_FITS, FAILED } admitted;

static admitted try_head(replay_sim *sim, mbr_error *error)
{
    uint64_t index = sim->waiting[sim->waiting_first];
    replay_run run = {.index = index,
        .contents = {.request = &sim->trace->requests[index],
            .tag = index,
            .stream = (uint32_t)(index % MBR_REPLAY_STREAM_COUNT)}};
    bool drained = false;
    mbr_status status;
    do {
        status = create_sequence(sim, &run, error);
    } while (status == MBR_OVER_BUDGET && make_room(sim, &drained));
    if (status == MBR_OK) {
        wait_pop(sim);
        return start_run(sim, &run) ? ADMITTED : FAILED;
    }
    bool exhausted = MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED;
    if (exhausted && sim->run_count != 0)
        return WAITS;
    if (exhausted || status == MBR_OUT_OF_RANGE)
        return NEVER_FITS; /* with everything given back there is still no room for it */
    replay_fail(sim, "request %llu: %s", (unsigned long long)index, error->text);
    return FAILED;
}

bool replay_admit_waiting(replay_sim *sim)
{
    while (sim->waiting_count != 0 && sim->head_tried != sim->release_count + 1) {
        mbr_error error = {MBR_SIZED(mbr_error)};
        uint64_t index = sim->waiting[sim->waiting_first];
        if (!reserve_run(sim))
            return false;
        admitted answer = try_head(sim, &error);
        if (answer == FAILED)
            return false;
        if (answer == NEVER_FITS)
            refuse_head(sim, error.text);
        if (answer != WAITS)
            continue;
        sim->head_tried = sim->release_count + 1;
        sim->report->waited += !sim->has_waited[index];
        sim->has_waited[index] = true;
    }
    /* Those behind the head wait too; the newest are at the back, not counted yet. */
    for (uint64_t i = sim->waiting_count; i-- > 0;) {
        uint64_t index = sim->waiting[(sim->waiting_first + i) % sim->trace->request_count];
        if (sim->has_waited[index])
            break;
        sim->report->waited++;
        sim->has_waited[index] = true;
    }
    return true;
}

/* ---- Decode
 * ------------------------------------------------------------------------------------------------------
 */

/* A token that needs memory: the one case in which appending reaches the ledger. */
static bool grow(replay_sim *sim, replay_run *run)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_sequence_figures figures;
    bool drained = false;
    mbr_status status;
    uint64_t took;
    do {
        uint64_t before = wall_ns();
        status = mbr_sequence_append(run->contents.sequence, 1, NULL, &error);
        took = wall_ns() - before;
        sim->report->call_seconds += (double)took / 1e9;
    } while (status == MBR_OVER_BUDGET && make_room(sim, &drained));
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED) {
        run->stalled = true;
        return true;
    }
    if (status != MBR_OK)
        return replay_fail(sim, "request %llu at %llu tokens: %s", (unsigned long long)run->index,
            (unsigned long long)run->tokens, error.text);
    run->stalled = false;
    run->tokens++;
    sim->report->ledger_calls++;
    mbr_quantiles_add(&sim->report->growth_ns, took);
    refresh(run, &figures);
    return replay_touch_new(&sim->touch, &run->contents) ||
        replay_fail(sim, "the contents of request %llu cannot be written: out of memory",
            (unsigned long long)run->index);
}

static bool decode(replay_sim *sim, replay_run *run)
{
    if (run->tokens == run->end_tokens || run->decode_ns > sim->now_ns)
        return true;
    if (run->tokens >= run->capacity_tokens)
        return grow(sim, run);
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (mbr_sequence_append(run->contents.sequence, 1, NULL, &error) != MBR_OK)
        return replay_fail(sim, "request %llu at %llu tokens: %s", (unsigned long long)run->index,
            (unsigned long long)run->tokens, error.text);
    run->tokens++;
    sim->report->quiet_appends++;
    return true;
}

bool replay_decode_all(replay_sim *sim)
{
    bool moves = false;
    for (uint64_t i = 0; i < sim->run_count;) {
        replay_run *run = &sim->runs[i];
        if (!decode(sim, run))
            return false;
        moves = moves || !run->stalled;
        if (run->tokens != run->end_tokens || run->decode_ns > sim->now_ns) {
            i++;
            continue;
        }
        if (!end_run(sim, run))
            return false;
        remove_run(sim, i);
        sim->report->served++;
        sim->done_count++;
        moves = true;
    }
    if (moves || sim->run_count == 0)
        return true;
    if (replay_preempt_youngest(sim))
        return true;
    if (sim->text[0] != '\0')
        return false;
    /* Alone with all the memory and still stuck: it can never be served. */
    uint64_t index = sim->runs[0].index;
    if (!replay_end_all(sim))
        return false;
    replay_wait_push_front(sim, index);
    refuse_head(
        sim, "it outgrows the budget even when it runs alone; a larger --budget would work");
    return true;
}
