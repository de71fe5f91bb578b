/* The inside of a ticket, for the files that it is the matter of: ticket.c (states and queue) and
 * asking.c (who keeps it while holders are asked or its owner is told). */
#ifndef MEMBRANE_GOVERNOR_TICKET_RECORD_H
#define MEMBRANE_GOVERNOR_TICKET_RECORD_H

#include "governor/internal.h"

#include "abi/base/assert.h"

#include <pthread.h>

struct mbr_ticket {
    mbr_holder *holder;
    uint64_t bytes, since_ns, deadline_ns;
    uint64_t number, generation;
    uint32_t priority;
    bool quiet;
    _Atomic uint32_t state;
    void (*settled)(void *context, mbr_ticket *ticket);
    void *context;
    /* All below under the authority's lock. */
    mbr_ticket *prev, *next; /* of those that wait, then of those to be told */
    bool is_due;             /* in the list of those to be told */
    bool is_orphan;          /* destroyed by the thread that keeps it, which frees it */
    bool is_kept;            /* by the one thread that asks for it or, later, tells of it */
    pthread_t keeper;        /* without the lock; the ticket outlives that */
    uint64_t asked_at_ns;
    uint64_t held_bytes;   /* of what nobody has: kept for this one */
    mbr_condition changed; /* its state or its keepers */
};

static inline mbr_authority *mbr_ticket_authority(const mbr_ticket *ticket)
{
    return ticket->holder->authority;
}

static inline uint32_t mbr_ticket_state(const mbr_ticket *ticket)
{
    return atomic_load_explicit(&ticket->state, memory_order_acquire);
}

/* ---- ticket.c */
/* It is told of by nobody else. */
void mbr_ticket_remove_due_locked(mbr_authority *authority, mbr_ticket *ticket)
    MBR_REQUIRES(&authority->lock);
/* Arbitrates where its deadline has passed and it waits. */
void mbr_ticket_time_out(mbr_ticket *ticket);
/* Of one that has ended and that nobody keeps. */
void mbr_ticket_free(mbr_ticket *ticket);

/* ---- Keepers: at most one thread asks for a ticket or tells of it, without the lock; it outlives
 * that. asking.c lets go. */
static inline void mbr_ticket_keep_locked(mbr_authority *authority, mbr_ticket *ticket)
    MBR_REQUIRES(&authority->lock)
{
    (void)authority; /* clang matches the lock by it */
    MBR_ASSERT(!ticket->is_kept);
    ticket->is_kept = true;
    ticket->keeper = pthread_self();
}

static inline bool mbr_ticket_is_kept_by(const mbr_ticket *ticket, bool own)
{
    return ticket->is_kept && (pthread_equal(ticket->keeper, pthread_self()) != 0) == own;
}

#endif
