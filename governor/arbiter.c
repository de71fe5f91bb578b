/* Responsible for the order of those that wait and for who gets what is free. Pure: never reads a
 * clock, takes a lock, or touches anything but its arguments. */
#include "governor/arbiter.h"

#include "abi/base/checked.h"
#include "membrane/pressure.h"

/* Priority with age; at most MBR_PRIORITY_COUNT, which is matured. */
static uint64_t standing_of(const mbr_arbiter_ticket *ticket, uint64_t now_ns)
{
    uint64_t age = now_ns > ticket->since_ns ? now_ns - ticket->since_ns : 0;
    return mbr_min(ticket->priority + age / MBR_AGEING_NS, MBR_PRIORITY_COUNT);
}

static bool is_matured(const mbr_arbiter_ticket *ticket, uint64_t now_ns)
{
    return standing_of(ticket, now_ns) == MBR_PRIORITY_COUNT;
}

static bool arrived_before(const mbr_arbiter_ticket *a, const mbr_arbiter_ticket *b)
{
    return a->since_ns != b->since_ns ? a->since_ns < b->since_ns : a->number < b->number;
}

static bool goes_before(const mbr_arbiter_ticket *a, const mbr_arbiter_ticket *b, uint64_t now_ns)
{
    bool a_matured = is_matured(a, now_ns), b_matured = is_matured(b, now_ns);
    if (a_matured != b_matured)
        return a_matured;
    if (a_matured)
        return arrived_before(a, b);
    bool a_own = a->bytes <= a->own_left_bytes, b_own = b->bytes <= b->own_left_bytes;
    if (a_own != b_own)
        return a_own;
    uint64_t a_standing = standing_of(a, now_ns), b_standing = standing_of(b, now_ns);
    return a_standing != b_standing ? a_standing > b_standing : arrived_before(a, b);
}

/* By insertion: the order of last time is nearly that of now, and no heap is touched. */
static void sort(mbr_arbiter_ticket *tickets, uint32_t count, uint64_t now_ns)
{
    for (uint32_t i = 1; i < count; i++) {
        mbr_arbiter_ticket moving = tickets[i];
        uint32_t at = i;
        for (; at > 0 && goes_before(&moving, &tickets[at - 1], now_ns); at--)
            tickets[at] = tickets[at - 1];
        tickets[at] = moving;
    }
}

static uint64_t without(uint64_t left_bytes, uint64_t bytes)
{
    return left_bytes == UINT64_MAX ? left_bytes : left_bytes - mbr_min(left_bytes, bytes);
}

/* A granted ticket's bytes are of its holder's lease, for those behind it. */
static void lease(mbr_arbiter_ticket *tickets, uint32_t granted, uint32_t count)
{
    for (uint32_t i = granted + 1; i < count; i++) {
        if (tickets[i].holder_id != tickets[granted].holder_id)
            continue;
        tickets[i].lease_left_bytes = without(tickets[i].lease_left_bytes, tickets[granted].bytes);
        tickets[i].own_left_bytes = without(tickets[i].own_left_bytes, tickets[granted].bytes);
    }
}

static mbr_verdict judge(
    const mbr_arbiter_pool *pool, const mbr_arbiter_ticket *ticket, uint64_t left_bytes)
{
    if (ticket->bytes > pool->set_limit_bytes)
        return MBR_VERDICT_REFUSE;
    if (ticket->deadline_ns <= pool->now_ns)
        return MBR_VERDICT_TIME_OUT;
    bool fits = ticket->bytes <= left_bytes && ticket->bytes <= ticket->lease_left_bytes;
    return fits ? MBR_VERDICT_GRANT : MBR_VERDICT_WAIT;
}

/* More free bytes would do. */
static bool is_satisfiable(const mbr_arbiter_pool *pool, const mbr_arbiter_ticket *ticket)
{
    return ticket->bytes <= pool->limit_bytes && ticket->bytes <= ticket->lease_left_bytes;
}

static bool holds_back(const mbr_arbiter_pool *pool, const mbr_arbiter_ticket *ticket)
{
    return is_satisfiable(pool, ticket) && (ticket->asking || is_matured(ticket, pool->now_ns));
}

mbr_arbitration mbr_arbitrate(
    const mbr_arbiter_pool *pool, mbr_arbiter_ticket *tickets, uint32_t count)
{
    mbr_arbitration made = {.left_bytes = pool->free_bytes};
    sort(tickets, count, pool->now_ns);
    for (uint32_t i = 0; i < count; i++) {
        mbr_arbiter_ticket *ticket = &tickets[i];
        ticket->verdict = judge(pool, ticket, made.left_bytes);
        ticket->held_bytes = 0;
        if (ticket->verdict == MBR_VERDICT_GRANT) {
            made.left_bytes -= ticket->bytes;
            lease(tickets, i, count);
        } else if (ticket->verdict == MBR_VERDICT_WAIT) {
            if (made.lacking_bytes == 0 && is_satisfiable(pool, ticket))
                made.lacking_bytes = ticket->bytes;
            if (holds_back(pool, ticket)) {
                ticket->held_bytes = mbr_min(made.left_bytes, ticket->bytes);
                made.held_bytes += ticket->held_bytes;
                made.left_bytes -= ticket->held_bytes;
            }
        }
    }
    return made;
}

bool mbr_plan_pressure(uint64_t bytes, mbr_offer *offers, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        mbr_offer moving = offers[i];
        uint32_t at = i;
        for (; at > 0 && moving.order < offers[at - 1].order; at--)
            offers[at] = offers[at - 1];
        offers[at] = moving;
    }
    for (uint32_t i = 0; i < count; i++)
        bytes -= mbr_min(offers[i].offered_bytes, bytes);
    return bytes == 0;
}
