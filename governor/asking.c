/* Responsible for what tickets call out for: asking the holders for what one lacks, telling owners
 * that theirs has left the queue, and waiting, which does both. Never moves a ticket's state and
 * never runs a callback under a lock; a ticket is kept by its thread meanwhile. */
#include "governor/ticket_record.h"

#include "abi/base/checked.h"

/* ---- Keepers */
/* The ticket may be gone afterwards. Who asked for it delivers next: nobody else told of it. */
static void let_go(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    mbr_lock_take(&authority->lock);
    ticket->is_kept = false;
    if (mbr_ticket_state(ticket) == MBR_TICKET_WAITING)
        mbr_tickets_settle_locked(authority); /* what was held for it alone is free again */
    bool ends = ticket->is_orphan;
    mbr_condition_signal_all(&ticket->changed);
    mbr_lock_drop(&authority->lock);
    if (ends)
        mbr_ticket_free(ticket);
}

/* ---- Asking the holders */
static bool is_due_to_ask(const mbr_ticket *ticket, uint64_t now_ns)
{
    return !ticket->quiet && !ticket->is_kept && mbr_ticket_state(ticket) == MBR_TICKET_WAITING &&
        now_ns - ticket->asked_at_ns >= MBR_PRESS_INTERVAL_NS;
}

/* What the holders are to give for it now: 0 when it does not wait any more, or no gift helps. */
static uint64_t missing(mbr_ticket *ticket, bool *own_only)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    mbr_lock_take(&authority->lock);
    mbr_tickets_settle_locked(authority);
    uint64_t bytes = 0;
    if (mbr_ticket_state(ticket) == MBR_TICKET_WAITING)
        bytes = mbr_press_bytes_locked(
            authority, ticket->holder, ticket->bytes, ticket->held_bytes, own_only);
    mbr_lock_drop(&authority->lock);
    return bytes;
}

/* One round after another while that brings something: figures are read again after each. */
static void press(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    mbr_pressure pressure = {.struct_size = sizeof(pressure),
        .tier = authority->tier,
        .role = ticket->holder->role,
        .priority = ticket->priority,
        .holder_id = ticket->holder->id,
        .deadline_ns = ticket->deadline_ns,
        .generation = ticket->generation};
    bool own_only;
    for (int round = 0; round < MBR_PRESS_ROUND_LIMIT_COUNT; round++) {
        pressure.bytes = missing(ticket, &own_only);
        if (pressure.bytes == 0 || mbr_press(authority, &pressure, own_only) == 0)
            break;
    }
}

/* Inside a holder's callback nobody is asked: holders do not press each other. */
static bool try_keep_to_ask_locked(mbr_authority *authority, mbr_ticket *ticket)
    MBR_REQUIRES(&authority->lock)
{
    uint64_t now = mbr_clock_now(&authority->governor->clock);
    if (mbr_is_pressing() || !is_due_to_ask(ticket, now))
        return false;
    mbr_ticket_keep_locked(authority, ticket);
    ticket->asked_at_ns = now;
    return true;
}

static void ask_for(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    mbr_lock_take(&authority->lock);
    bool mine = try_keep_to_ask_locked(authority, ticket);
    mbr_lock_drop(&authority->lock);
    if (!mine)
        return;
    press(ticket);
    let_go(ticket);
}

/* For the one that goes first of those that have not asked lately. */
static void ask_for_first(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    mbr_ticket *ticket = authority->waiting;
    while (ticket != NULL && !try_keep_to_ask_locked(authority, ticket))
        ticket = ticket->next;
    mbr_lock_drop(&authority->lock);
    if (ticket == NULL)
        return;
    press(ticket);
    let_go(ticket);
}

/* ---- Telling */
static _Thread_local const mbr_authority *telling_of;

/* The first that nobody asks for: its submitter may have more to do before anybody is told. */
static mbr_ticket *take_due(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    mbr_ticket *ticket = authority->due;
    while (ticket != NULL && ticket->is_kept)
        ticket = ticket->next;
    if (ticket != NULL) {
        mbr_ticket_remove_due_locked(authority, ticket);
        mbr_ticket_keep_locked(authority, ticket);
    }
    mbr_lock_drop(&authority->lock);
    return ticket;
}

/* What a callback makes due is told by the loop that called it, not by one inside another. */
void mbr_authority_deliver(mbr_authority *authority)
{
    if (telling_of == authority ||
        atomic_load_explicit(&authority->due_count, memory_order_acquire) == 0)
        return;
    mbr_lock_assert_none_held();
    const mbr_authority *outer = telling_of;
    telling_of = authority;
    mbr_ticket *ticket;
    while ((ticket = take_due(authority)) != NULL) {
        ticket->settled(ticket->context, ticket);
        let_go(ticket);
    }
    telling_of = outer;
}

void mbr_authority_poll(mbr_authority *authority)
{
    if (atomic_load(&authority->waiting_count) != 0) {
        mbr_tickets_settle(authority);
        mbr_lease_for_tickets(authority);
        ask_for_first(authority);
    }
    mbr_lease_yield(authority);
    mbr_authority_deliver(authority);
}

void mbr_ticket_press(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    mbr_lease_for_tickets(authority); /* before anybody here has to give */
    if (!ticket->quiet && !mbr_is_pressing())
        press(ticket);
    let_go(ticket);
    mbr_authority_deliver(authority);
}

mbr_status mbr_ticket_submit(
    const mbr_ticket_options *options, mbr_ticket **ticket, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status = mbr_ticket_prepare(options, ticket, refusal, error);
    if (status == MBR_OK)
        mbr_ticket_press(*ticket);
    return status;
}

/* ---- Waiting */
/* Until the ticket has left the queue, its deadline passes or holders are to be asked again. */
static bool wait_a_while(mbr_ticket *ticket)
{
    mbr_authority *authority = mbr_ticket_authority(ticket);
    uint64_t now = mbr_clock_now(&authority->governor->clock);
    uint64_t left = ticket->deadline_ns > now ? ticket->deadline_ns - now : 0;
    uint64_t until = mbr_clock_now(&mbr_clock_monotonic) + mbr_min(left, MBR_PRESS_INTERVAL_NS);
    bool waits;
    mbr_lock_take(&authority->lock);
    do {
        waits = mbr_ticket_state(ticket) == MBR_TICKET_WAITING;
    } while (waits && mbr_condition_wait(&ticket->changed, &authority->lock, until));
    mbr_lock_drop(&authority->lock);
    return waits;
}

mbr_status mbr_ticket_wait(mbr_ticket *ticket)
{
    mbr_lock_assert_none_held();
    if (mbr_is_pressing()) {
        mbr_status status = mbr_ticket_claim(ticket);
        return status == MBR_NOT_READY ? MBR_BUSY : status;
    }
    mbr_authority *authority = mbr_ticket_authority(ticket);
    while (wait_a_while(ticket)) {
        mbr_ticket_time_out(ticket);
        mbr_lease_for_tickets(authority);
        ask_for(ticket);
        mbr_authority_deliver(authority);
    }
    mbr_status status = mbr_ticket_claim(ticket);
    mbr_authority_deliver(authority); /* nobody else need come by to tell of it */
    return status;
}
