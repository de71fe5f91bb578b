/* Responsible for a context's life: its state and pins, its creation and end, its figures, and how
 * its threads wait for each other. Never calls a slot and never settles an entry. */
#include "host/ep/context.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "host/ep/internal.h"
#include "membrane/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STATE_MASK UINT64_C(3)
#define ONE_PIN UINT64_C(4)

static const char *const state_names[] = {"active", "retiring", "terminated", "lost"};

static const uint32_t state_successors[] = {
    [MBR_CONTEXT_ACTIVE] = MBR_STATE_BIT(MBR_CONTEXT_RETIRING) | MBR_STATE_BIT(MBR_CONTEXT_LOST),
    [MBR_CONTEXT_RETIRING] =
        MBR_STATE_BIT(MBR_CONTEXT_TERMINATED) | MBR_STATE_BIT(MBR_CONTEXT_LOST),
    [MBR_CONTEXT_TERMINATED] = 0,
    [MBR_CONTEXT_LOST] = 0,
};

const mbr_state_table mbr_context_table = {"context", state_names, state_successors, 4};

/* ---- State and pins ------------------------------------------------------------------------ */

static uint32_t state_of(uint64_t life)
{
    return (uint32_t)(life & STATE_MASK);
}

static uint64_t pins_of(uint64_t life)
{
    return life / ONE_PIN;
}

uint32_t mbr_context_state_now(const mbr_context *context)
{
    return state_of(atomic_load(&context->life));
}

uint32_t mbr_context_state(const mbr_context *context)
{
    return mbr_context_state_now(context);
}

const mbr_fork_flag *mbr_context_serves(const mbr_context *context)
{
    return context->serves;
}

bool mbr_context_is_lost(const mbr_context *context)
{
    return mbr_context_state_now(context) == MBR_CONTEXT_LOST;
}

/* The one mover. Only pins change beside it. */
static void move_locked(mbr_context *context, uint32_t to) MBR_REQUIRES(&context->lock)
{
    uint64_t life = atomic_load(&context->life);
    do
        MBR_CHECK(mbr_state_allows(&mbr_context_table, state_of(life), to));
    while (!atomic_compare_exchange_weak(&context->life, &life, (life & ~STATE_MASK) | to));
    mbr_fork_flag_set(context->serves, false); /* whatever comes after active */
    mbr_context_notify_locked(context);
}

void mbr_context_consider_termination_locked(mbr_context *context)
{
    uint64_t life = atomic_load(&context->life);
    if (state_of(life) == MBR_CONTEXT_RETIRING && pins_of(life) == 0 &&
        context->queued_count == 0 && context->claimed_count == 0 && !context->settling)
        move_locked(context, MBR_CONTEXT_TERMINATED);
}

mbr_status mbr_context_pin(mbr_context *context, mbr_error *error)
{
    uint64_t life = atomic_load(&context->life);
    do {
        if (state_of(life) != MBR_CONTEXT_ACTIVE)
            return mbr_fail_argument(error, MBR_BUSY, 0, "EP %s is %s and takes nothing new",
                context->name, state_names[state_of(life)]);
    } while (!atomic_compare_exchange_weak(&context->life, &life, life + ONE_PIN));
    return MBR_OK;
}

/* While the context is active the decrement is the last touch: whoever sees no pin may end it. In
 * any other state the lock is taken first, for the same reason. */
void mbr_context_unpin(mbr_context *context)
{
    uint64_t life = atomic_load(&context->life);
    while (state_of(life) == MBR_CONTEXT_ACTIVE) {
        MBR_CHECK(pins_of(life) != 0);
        if (atomic_compare_exchange_weak(&context->life, &life, life - ONE_PIN))
            return;
    }
    mbr_lock_take(&context->lock);
    MBR_CHECK(pins_of(atomic_fetch_sub(&context->life, ONE_PIN)) != 0);
    mbr_context_consider_termination_locked(context);
    mbr_lock_drop(&context->lock);
}

mbr_status mbr_context_retire(mbr_context *context, mbr_error *error)
{
    mbr_lock_take(&context->lock);
    uint32_t state = mbr_context_state_now(context);
    if (state == MBR_CONTEXT_ACTIVE) {
        move_locked(context, MBR_CONTEXT_RETIRING);
        mbr_context_consider_termination_locked(context);
    }
    mbr_lock_drop(&context->lock);
    if (state == MBR_CONTEXT_LOST)
        return mbr_fail_argument(
            error, MBR_DEVICE_LOST, 0, "the device of EP %s is lost", context->name);
    return MBR_OK;
}

void mbr_context_mark_lost_locked(mbr_context *context)
{
    uint32_t state = mbr_context_state_now(context);
    if (state != MBR_CONTEXT_ACTIVE && state != MBR_CONTEXT_RETIRING)
        return;
    move_locked(context, MBR_CONTEXT_LOST);
    mbr_context_lose_entries_locked(context);
    mbr_context_poke_reaper_locked(context, 0);
}

void mbr_context_confirm_end(mbr_context *context)
{
    MBR_CHECK(mbr_context_is_lost(context));
    atomic_store(&context->end_is_confirmed, true);
}

bool mbr_context_has_ended(const mbr_context *context)
{
    return atomic_load(&context->end_is_confirmed);
}

/* ---- Waiting for each other ---------------------------------------------------------------- */

void mbr_context_notify_locked(mbr_context *context)
{
    if (context->waiter_count != 0)
        mbr_condition_signal_all(&context->changed);
}

uint64_t mbr_context_real_ns(const mbr_context *context, uint64_t until_ns)
{
    uint64_t now_ns = mbr_clock_now(context->clock);
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    return mbr_clock_now(&mbr_clock_monotonic) + mbr_min(left_ns, MBR_REAPER_BACKOFF_MAX_NS);
}

bool mbr_context_await_locked(mbr_context *context, uint64_t until_ns)
{
    uint64_t real_ns = mbr_context_real_ns(context, until_ns);
    context->waiter_count++;
    bool in_time = mbr_condition_wait(&context->changed, &context->lock, real_ns);
    context->waiter_count--;
    return in_time;
}

void mbr_context_enter_locked(mbr_context *context)
{
    context->call_count++;
}

void mbr_context_leave_locked(mbr_context *context)
{
    MBR_ASSERT(context->call_count != 0);
    context->call_count--;
    if (context->call_count == 0)
        mbr_context_notify_locked(context);
}

bool mbr_context_claim_signalling_locked(mbr_context *context, uint64_t deadline_ns)
{
    while (context->signalling) {
        if (mbr_clock_now(context->clock) >= deadline_ns)
            return false;
        mbr_context_await_locked(context, deadline_ns);
    }
    context->signalling = true;
    return true;
}

/* ---- Creation ------------------------------------------------------------------------------ */

static mbr_status check_order(const mbr_order_vtable *order, mbr_error *error)
{
    if (order == NULL)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 2, "an EP needs an order table");
    if (order->struct_size < MBR_MIN_SIZE_ORDER_VTABLE_MINOR_0 || order->kind != MBR_KIND_ORDER)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 2,
            "the order table has %" PRIu32 " bytes and kind %u; at least %d and kind %d",
            order->struct_size, order->kind, MBR_MIN_SIZE_ORDER_VTABLE_MINOR_0, MBR_KIND_ORDER);
    if (order->line_open == NULL || order->signal == NULL || order->reached == NULL ||
        order->wait == NULL || order->stream_wait == NULL || order->line_close == NULL)
        return mbr_fail_argument(
            error, MBR_INVALID_ARGUMENT, 2, "a slot of the order table is NULL; all are required");
    return MBR_OK;
}

static mbr_status check_transfer(const mbr_transfer_vtable *transfer, mbr_error *error)
{
    if (transfer == NULL)
        return MBR_OK;
    if (transfer->struct_size < MBR_MIN_SIZE_TRANSFER_VTABLE_MINOR_0 ||
        transfer->kind != MBR_KIND_TRANSFER)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 3,
            "the transfer table has %" PRIu32 " bytes and kind %u; at least %d and kind %d",
            transfer->struct_size, transfer->kind, MBR_MIN_SIZE_TRANSFER_VTABLE_MINOR_0,
            MBR_KIND_TRANSFER);
    if (transfer->stream_create == NULL || transfer->stream_destroy == NULL ||
        transfer->fill == NULL || transfer->copy == NULL)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 3,
            "a slot of the transfer table is NULL; all are required");
    return MBR_OK;
}

static void take_options(mbr_context *context, const mbr_context_options *options)
{
    snprintf(context->name, sizeof context->name, "%s", options->name != NULL ? options->name : "");
    memcpy(&context->order, options->order,
        mbr_min(options->order->struct_size, sizeof context->order));
    context->has_transfer = options->transfer != NULL;
    if (context->has_transfer)
        memcpy(&context->transfer, options->transfer,
            mbr_min(options->transfer->struct_size, sizeof context->transfer));
    context->instance = options->instance;
    context->is_fork_safe = options->is_fork_safe;
    context->queue_entries =
        options->queue_entries != 0 ? options->queue_entries : MBR_CONTEXT_QUEUE_ENTRIES;
    context->queue_bytes = options->queue_bytes;
    context->clock = options->clock != NULL ? options->clock : &mbr_clock_monotonic;
    context->threads = options->threads != NULL ? options->threads : &mbr_threads_system;
    context->first_stream_id = options->first_stream_id != 0 ? options->first_stream_id : 1;
}

static void init(mbr_context *context)
{
    atomic_init(&context->life, MBR_CONTEXT_ACTIVE);
    mbr_lock_init(&context->lock, MBR_RANK_QUEUE);
    mbr_condition_init(&context->changed);
    mbr_condition_init(&context->reaper_wake);
    TAILQ_INIT(&context->free_lines);
    TAILQ_INIT(&context->dirty);
    TAILQ_INIT(&context->waiting);
    TAILQ_INIT(&context->closing);
    TAILQ_INIT(&context->live);
    mbr_pool_init(&context->epochs, context->heap, sizeof(mbr_epoch));
    mbr_pool_init(&context->marks, context->heap, sizeof(mbr_mark));
    mbr_fork_guard_init(&context->fork);
    mbr_fork_flag *flag = mbr_fork_guard_flag(&context->fork);
    context->serves = flag != NULL ? flag : &context->never;
    mbr_fork_flag_set(context->serves, flag != NULL);
    mbr_gate_init(&context->own_gate);
    context->gates[context->gate_count++] = &context->own_gate;
}

static void finish(mbr_context *context)
{
    mbr_context_finish_lines(context);
    mbr_gate_finish(&context->own_gate);
    mbr_pool_finish(&context->marks);
    mbr_pool_finish(&context->epochs);
    mbr_condition_finish(&context->reaper_wake);
    mbr_condition_finish(&context->changed);
    mbr_lock_finish(&context->lock);
    mbr_fork_guard_finish(&context->fork);
    mbr_heap_release(context->heap, context);
}

mbr_status mbr_context_create(
    const mbr_context_options *options, mbr_context **context, mbr_error *error)
{
    *context = NULL;
    mbr_status status = check_order(options->order, error);
    if (status == MBR_OK)
        status = check_transfer(options->transfer, error);
    if (status != MBR_OK)
        return status;
    const mbr_heap *heap = options->heap != NULL ? options->heap : &mbr_heap_libc;
    mbr_context *made = mbr_heap_allocate(heap, sizeof *made);
    if (made == NULL)
        return mbr_fail_argument(error, MBR_OUT_OF_HOST_MEMORY, 0, "no memory for an EP's context");
    made->heap = heap;
    take_options(made, options);
    init(made);
    if (options->reaper)
        status = mbr_context_start_reaper(made, error);
    if (status != MBR_OK)
        finish(made);
    else
        *context = made;
    return status;
}

/* ---- The end ------------------------------------------------------------------------------- */

/* MBR_IN_USE, or MBR_OK once every call has left. */
static mbr_status await_quiet(mbr_context *context, mbr_error *error)
{
    uint64_t pins, queued;
    mbr_lock_take(&context->lock);
    for (;;) {
        pins = pins_of(atomic_load(&context->life));
        queued = context->queued_count;
        if (pins != 0 || queued != 0 || context->call_count == 0)
            break;
        mbr_context_await_locked(context, UINT64_MAX);
    }
    mbr_lock_drop(&context->lock);
    if (pins == 0 && queued == 0)
        return MBR_OK;
    return mbr_fail_argument(error, MBR_IN_USE, 0,
        "EP %s has %" PRIu64 " pins and %" PRIu64 " queued releases; release and drain first",
        context->name, pins, queued);
}

mbr_status mbr_context_destroy(mbr_context *context, mbr_error *error)
{
    mbr_lock_assert_none_held();
    mbr_status status = mbr_context_check_process(context, error);
    if (status == MBR_OK)
        status = await_quiet(context, error);
    if (status != MBR_OK)
        return status;
    mbr_context_stop_reaper(context);
    finish(context);
    return MBR_OK;
}

/* ---- Figures ------------------------------------------------------------------------------- */

void mbr_context_read(mbr_context *context, mbr_ep_figures *figures)
{
    mbr_lock_take(&context->lock);
    uint64_t life = atomic_load(&context->life);
    mbr_ep_figures now = {
        .context_state = state_of(life),
        .pin_count = pins_of(life),
        .stream_count = context->stream_count,
        .line_count = context->line_count,
        .queued_count = context->queued_count,
        .queued_bytes = context->queued_bytes,
        .released_count = context->released_count,
        .lost_count = context->lost_count,
        .signal_count = context->signal_count,
        .wake_count = context->wake_count,
        .violation_count = atomic_load(&context->violation_count),
        .reactivated_count = context->reactivated_count,
        .stream_wait_count = context->stream_wait_count,
    };
    mbr_context_count_graphs_locked(context, &now);
    mbr_lock_drop(&context->lock);
    mbr_growable_give(figures, &now, sizeof now);
}
