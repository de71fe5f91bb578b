/* Responsible for tickets: their states, their place in the queue, and for carrying out what the
 * arbiter decides, under the authority's lock. Never picks who gets bytes (arbiter.c), never asks
 * anybody and tells nobody (asking.c). */
#include "governor/ticket_record.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/state.h"
#include "governor/ticket_states.h"

#include <inttypes.h>
#include <utlist.h>

static const char *const state_names[MBR_TICKET_STATE_COUNT] = {
    "waiting", "granted", "claimed", "returned", "cancelled", "timed out", "stale", "refused"};
static const uint32_t state_successors[MBR_TICKET_STATE_COUNT] = {
    [MBR_TICKET_WAITING] = MBR_STATE_BIT(MBR_TICKET_GRANTED) | MBR_STATE_BIT(MBR_TICKET_CANCELLED) |
        MBR_STATE_BIT(MBR_TICKET_TIMED_OUT) | MBR_STATE_BIT(MBR_TICKET_STALE) |
        MBR_STATE_BIT(MBR_TICKET_REFUSED),
    [MBR_TICKET_GRANTED] = MBR_STATE_BIT(MBR_TICKET_CLAIMED) | MBR_STATE_BIT(MBR_TICKET_RETURNED),
};
const mbr_state_table mbr_ticket_states = {
    "ticket", state_names, state_successors, MBR_TICKET_STATE_COUNT};

/* ---- The queue */

/* Out of the queue, into one of the states behind it; whoever waits for that wakes. */
static void leave_locked(mbr_authority *authority, mbr_ticket *ticket, uint32_t to)
    MBR_REQUIRES(&authority->lock)
{
    DL_DELETE(authority->waiting, ticket);
    atomic_fetch_sub(&authority->waiting_count, 1);
    mbr_state_move(&mbr_ticket_states, &ticket->state, MBR_TICKET_WAITING, to);
    if (ticket->settled != NULL) {
        DL_APPEND(authority->due, ticket);
        ticket->is_due = true;
        atomic_fetch_add_explicit(&authority->due_count, 1, memory_order_relaxed);
    }
    mbr_condition_signal_all(&ticket->changed);
}

void mbr_ticket_remove_due_locked(mbr_authority *authority, mbr_ticket *ticket)
{
    DL_DELETE(authority->due, ticket);
    ticket->is_due = false;
    atomic_fetch_sub_explicit(&authority->due_count, 1, memory_order_relaxed);
}

/* Booked first: the waiter wakes to bytes that are its holder's. */
static void grant_locked(mbr_authority *authority, mbr_ticket *ticket)
    MBR_REQUIRES(&authority->lock)
{
    if (ticket->holder->allowance_bytes != MBR_NO_ALLOWANCE)
        atomic_fetch_add_explicit(
            &ticket->holder->leased_bytes, ticket->bytes, memory_order_relaxed);
    mbr_book_grant(ticket->holder, ticket->bytes);
    leave_locked(authority, ticket, MBR_TICKET_GRANTED);
}

static void carry_out_locked(mbr_authority *authority, const mbr_arbiter_ticket *judged)
    MBR_REQUIRES(&authority->lock)
{
    mbr_ticket *ticket = judged->owner;
    switch (judged->verdict) {
    case MBR_VERDICT_GRANT:
        grant_locked(authority, ticket);
        break;
    case MBR_VERDICT_TIME_OUT:
        leave_locked(authority, ticket, MBR_TICKET_TIMED_OUT);
        break;
    case MBR_VERDICT_REFUSE:
        leave_locked(authority, ticket, MBR_TICKET_REFUSED);
        break;
    case MBR_VERDICT_WAIT:
        ticket->held_bytes = judged->held_bytes;
        /* To the end, so that the queue keeps the arbiter's order. */
        DL_DELETE(authority->waiting, ticket);
        DL_APPEND(authority->waiting, ticket);
        break;
    }
}

static uint32_t view_locked(mbr_authority *authority) MBR_REQUIRES(&authority->lock)
{
    uint32_t count = 0;
    const mbr_ticket *ticket;
    DL_FOREACH(authority->waiting, ticket)
    {
        uint64_t own;
        uint64_t left = mbr_lease_left(ticket->holder, &own);
        authority->view[count++] = (mbr_arbiter_ticket){.number = ticket->number,
            .bytes = ticket->bytes,
            .since_ns = ticket->since_ns,
            .deadline_ns = ticket->deadline_ns,
            .holder_id = ticket->holder->id,
            .lease_left_bytes = left,
            .own_left_bytes = own,
            .priority = ticket->priority,
            .asking = ticket->is_kept && !ticket->quiet,
            .owner = (void *)ticket};
    }
    return count;
}

/* All that nobody has, out of everybody's reach while it is decided over: a claim that comes by
 * finds no room, and asks again under the lock. */
static uint64_t take_free_locked(mbr_authority *authority) MBR_REQUIRES(&authority->lock)
{
    mbr_credit_collect_locked(authority);
    mbr_room_put(authority, authority->held_bytes);
    authority->held_bytes = 0;
    return mbr_room_take_all(authority);
}

void mbr_tickets_settle_locked(mbr_authority *authority)
{
    uint32_t count = view_locked(authority);
    if (count == 0 && authority->held_bytes == 0)
        return;
    mbr_arbiter_pool pool = {
        .now_ns = mbr_clock_now(&authority->governor->clock),
        .free_bytes = take_free_locked(authority),
        .set_limit_bytes = mbr_limit_for_ever_locked(authority),
        .limit_bytes = mbr_ticket_reach_locked(authority),
    };
    mbr_arbitration made = mbr_arbitrate(&pool, authority->view, count);
    for (uint32_t i = 0; i < count; i++)
        carry_out_locked(authority, &authority->view[i]);
    authority->held_bytes = made.held_bytes;
    authority->lacking_bytes = made.lacking_bytes;
    mbr_room_put(authority, made.left_bytes);
}

void mbr_tickets_settle(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    mbr_tickets_settle_locked(authority);
    mbr_lock_drop(&authority->lock);
}

/* ---- Figures */
uint64_t mbr_ticket_bytes(const mbr_ticket *ticket)
{
    return ticket->bytes;
}

const char *mbr_ticket_state_name(const mbr_ticket *ticket)
{
    return state_names[mbr_ticket_state(ticket)];
}

uint32_t mbr_tickets_read_locked(const mbr_authority *authority, uint64_t *bytes)
{
    const mbr_ticket *ticket;
    uint32_t count = 0;
    *bytes = 0;
    DL_FOREACH(authority->waiting, ticket)
    {
        *bytes += mbr_min(ticket->bytes, UINT64_MAX - *bytes);
        count++;
    }
    return count;
}

uint64_t mbr_tickets_bytes_beyond(mbr_authority *authority, uint64_t deadline_ns)
{
    const mbr_ticket *ticket;
    uint64_t bytes = 0;
    mbr_lock_take(&authority->lock);
    DL_FOREACH(authority->waiting, ticket)
    {
        if (ticket->deadline_ns > deadline_ns)
            bytes += mbr_min(ticket->bytes, UINT64_MAX - bytes);
    }
    mbr_lock_drop(&authority->lock);
    return bytes;
}

/* ---- Submitting */
static mbr_status check_options(const mbr_ticket_options *options, mbr_error *error)
{
    if (options->bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "a ticket for 0 bytes; ask for at least 1");
    if (options->priority >= MBR_PRIORITY_COUNT)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "priority %u; priorities are 0 to %d",
            options->priority, MBR_PRIORITY_COUNT - 1);
    return MBR_OK;
}

static mbr_ticket *create(const mbr_ticket_options *options)
{
    mbr_governor *governor = options->holder->authority->governor;
    mbr_ticket *made = mbr_heap_allocate(&governor->heap, sizeof(*made));
    if (made == NULL)
        return NULL;
    made->holder = options->holder;
    made->bytes = options->bytes;
    made->priority = options->priority;
    made->deadline_ns = options->deadline_ns;
    made->quiet = options->quiet;
    made->settled = options->settled;
    made->context = options->context;
    made->since_ns = options->since_ns != 0 ? options->since_ns : mbr_clock_now(&governor->clock);
    mbr_condition_init(&made->changed);
    atomic_fetch_add_explicit(&options->holder->ticket_count, 1, memory_order_relaxed);
    return made;
}

/* Into the queue and through the arbiter at once. False: the queue is full. */
static bool try_enqueue(mbr_authority *authority, mbr_ticket *ticket)
{
    mbr_lock_take(&authority->lock);
    bool fits = atomic_load(&authority->waiting_count) < MBR_TICKET_LIMIT_COUNT;
    if (fits) {
        ticket->number = ++authority->ticket_number;
        ticket->generation = authority->generation;
        mbr_ticket_keep_locked(authority, ticket); /* until it was pressed */
        ticket->asked_at_ns = mbr_clock_now(&authority->governor->clock);
        DL_APPEND(authority->waiting, ticket);
        atomic_fetch_add(&authority->waiting_count, 1); /* before the room is looked at: wake */
        mbr_tickets_settle_locked(authority);
    }
    mbr_lock_drop(&authority->lock);
    return fits;
}

mbr_status mbr_ticket_prepare(
    const mbr_ticket_options *options, mbr_ticket **ticket, mbr_refusal *refusal, mbr_error *error)
{
    *ticket = NULL;
    mbr_lock_assert_none_held();
    mbr_status status = check_options(options, error);
    if (status != MBR_OK)
        return status;
    mbr_holder *holder = options->holder;
    status = mbr_refuse_for_ever(holder, options->bytes, refusal);
    if (status != MBR_OK)
        return mbr_fail(error, status,
            "%" PRIu64 " bytes are more than holder '%s' could ever have; ask for less, or raise "
            "the limit or its allowance",
            options->bytes, holder->name);
    mbr_ticket *made = create(options);
    if (made == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no %zu bytes of heap for a ticket", sizeof(mbr_ticket));
    if (!try_enqueue(holder->authority, made)) {
        mbr_ticket_free(made);
        mbr_refuse_queue(holder, options->bytes, refusal);
        return mbr_fail(error, MBR_BUSY, "%d tickets wait at authority '%s', as many as can",
            MBR_TICKET_LIMIT_COUNT, holder->authority->name);
    }
    *ticket = made;
    return MBR_OK;
}

/* ---- Ends */
void mbr_ticket_free(mbr_ticket *ticket)
{
    mbr_heap heap = mbr_ticket_authority(ticket)->governor->heap;
    mbr_condition_finish(&ticket->changed);
    atomic_fetch_sub_explicit(&ticket->holder->ticket_count, 1, memory_order_release);
    mbr_heap_release(&heap, ticket);
}

void mbr_ticket_time_out(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    if (mbr_ticket_state(ticket) == MBR_TICKET_WAITING && ticket->deadline_ns != MBR_NO_DEADLINE &&
        mbr_clock_now(&authority->governor->clock) >= ticket->deadline_ns)
        mbr_tickets_settle(authority);
}

uint32_t mbr_ticket_poll(mbr_ticket *ticket)
{
    mbr_ticket_time_out(ticket);
    return mbr_ticket_state(ticket);
}

static bool try_return(mbr_ticket *ticket)
{
    if (!mbr_state_try_move(
            &mbr_ticket_states, &ticket->state, MBR_TICKET_GRANTED, MBR_TICKET_RETURNED))
        return false;
    mbr_grant_return(ticket->holder, ticket->bytes);
    return true;
}

static bool is_retired(const mbr_ticket *ticket)
{
    return ticket->generation !=
        atomic_load_explicit(&mbr_ticket_authority(ticket)->generation, memory_order_acquire);
}

mbr_status mbr_ticket_claim(mbr_ticket *ticket)
{
    mbr_ticket_time_out(ticket);
    if (is_retired(ticket))
        try_return(ticket);
    else if (mbr_state_try_move(
                 &mbr_ticket_states, &ticket->state, MBR_TICKET_GRANTED, MBR_TICKET_CLAIMED))
        return MBR_OK;
    switch (mbr_ticket_state(ticket)) {
    case MBR_TICKET_WAITING:
        return MBR_NOT_READY;
    case MBR_TICKET_TIMED_OUT:
        return MBR_TIMED_OUT;
    case MBR_TICKET_REFUSED:
        return MBR_OVER_BUDGET;
    default:
        return MBR_STALE;
    }
}

bool mbr_ticket_cancel(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    mbr_lock_take(&authority->lock);
    bool waited = mbr_ticket_state(ticket) == MBR_TICKET_WAITING;
    if (waited) {
        leave_locked(authority, ticket, MBR_TICKET_CANCELLED);
        mbr_tickets_settle_locked(authority); /* it may have held back what others can use */
    }
    mbr_lock_drop(&authority->lock);
    return waited || try_return(ticket);
}

bool mbr_ticket_close(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    mbr_ticket_cancel(ticket);
    mbr_lock_take(&authority->lock);
    if (ticket->is_due)
        mbr_ticket_remove_due_locked(authority, ticket);
    while (mbr_ticket_is_kept_by(ticket, false))
        mbr_condition_wait(&ticket->changed, &authority->lock, UINT64_MAX);
    bool inside = mbr_ticket_is_kept_by(ticket, true);
    mbr_lock_drop(&authority->lock);
    return !inside;
}

void mbr_ticket_destroy(mbr_ticket *ticket)
{
    if (ticket == NULL)
        return;
    if (mbr_ticket_close(ticket))
        mbr_ticket_free(ticket);
    else /* only this thread keeps it, and frees it on its way out */
        ticket->is_orphan = true;
}

void mbr_authority_retire_tickets(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    atomic_fetch_add_explicit(&authority->generation, 1, memory_order_release);
    while (authority->waiting != NULL)
        leave_locked(authority, authority->waiting, MBR_TICKET_STALE);
    mbr_tickets_settle_locked(authority);
    mbr_lock_drop(&authority->lock);
    mbr_authority_deliver(authority);
}
