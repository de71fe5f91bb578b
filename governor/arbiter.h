/* Arbitration: who of those that wait gets the bytes that are free. One pure function, which the
 * tickets, their reference model and their protocol model share. Knows no lock, no clock, no book.
 *
 * The order of tickets:
 *   1. matured ones, the oldest first. A ticket rises by one priority each MBR_AGEING_NS; it is
 *      matured when that carries it past the highest priority, so none is overtaken for ever.
 *   2. those that stay within their holder's own allowance before those that borrow.
 *   3. the higher priority, with its age counted; then the oldest.
 *
 * A ticket above the set limit, or the shared ledger's, is refused, and one whose deadline is past
 * times out, before anything else.
 *
 * In that order, made once, each gets its bytes if they are free and its holder may lease them. One
 * that is matured or asking, that has to wait for bytes alone and could get them under the limit in
 * force, holds back what is free, up to its bytes: what is left behind it is nobody's until it has
 * them. A ticket that cannot be satisfied holds nothing back. */
#ifndef MEMBRANE_GOVERNOR_ARBITER_H
#define MEMBRANE_GOVERNOR_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

#define MBR_TICKET_LIMIT_COUNT 256 /* waiting at one authority */
#define MBR_AGEING_NS 100000000    /* a ticket rises by one priority each */

typedef enum mbr_verdict {
    MBR_VERDICT_WAIT = 0,
    MBR_VERDICT_GRANT,
    MBR_VERDICT_TIME_OUT, /* its deadline is past */
    MBR_VERDICT_REFUSE,   /* above what was set as the limit: never */
} mbr_verdict;

typedef struct mbr_arbiter_ticket {
    uint64_t number; /* rises with arrival */
    uint64_t bytes;
    uint64_t since_ns;    /* from when its age counts */
    uint64_t deadline_ns; /* UINT64_MAX: none */
    uint64_t holder_id;
    uint64_t lease_left_bytes; /* what the holder may still lease; equal for all of one holder */
    uint64_t own_left_bytes;   /* of its own allowance; 0 where it has none */
    uint32_t priority;
    bool asking; /* holders are giving for it at this moment */
    void *owner; /* the caller's own */

    /* The answer. */
    mbr_verdict verdict;
    uint64_t held_bytes; /* of what is free: kept for this one, which waits */
} mbr_arbiter_ticket;

typedef struct mbr_arbiter_pool {
    uint64_t now_ns;
    uint64_t free_bytes;      /* claimed by nobody */
    uint64_t set_limit_bytes; /* or the ledger's, if that is less: more is refused for good */
    uint64_t limit_bytes;     /* in force, less what is withheld: more cannot be satisfied now */
} mbr_arbiter_pool;

typedef struct mbr_arbitration {
    uint64_t held_bytes;    /* of what is free: kept for a ticket */
    uint64_t left_bytes;    /* free for anybody */
    uint64_t lacking_bytes; /* of the first that waits for bytes alone and is no larger than the
                             * limit in force; 0: none */
} mbr_arbitration;

/* Sorts the tickets into their order and writes each verdict. free = granted + held + left. */
mbr_arbitration mbr_arbitrate(
    const mbr_arbiter_pool *pool, mbr_arbiter_ticket *tickets, uint32_t count);

/* ---- What holders are to give: also pure. */
typedef struct mbr_offer {
    uint64_t order; /* the lower first */
    uint64_t offered_bytes;
    uint32_t index; /* the caller's own */
} mbr_offer;

/* Sorts the offers into the order in which they are to be taken until `bytes` are there. False: all
 * together do not suffice, and nothing is to be taken. */
bool mbr_plan_pressure(uint64_t bytes, mbr_offer *offers, uint32_t count);

#endif
