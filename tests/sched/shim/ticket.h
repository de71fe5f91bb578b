/* Included before ticket.c, so that the journal has what it does. Each line is written by who did
 * it, before another can do something: after a step there is none until the next. `ticket` and
 * `authority` are ticket.c's own names. */
#ifndef MEMBRANE_TESTS_SCHED_SHIM_TICKET_H
#define MEMBRANE_TESTS_SCHED_SHIM_TICKET_H

#include "abi/base/state.h"
#include "governor/internal.h"
#include "tests/sched/journal.h"

#include <inttypes.h>

#define SCHED_JOURNAL(word, format, ...)                                                           \
    sched_journal_line(word " %" PRIu64 " %" PRIu64 " " format, ticket->holder->authority->id,     \
        ticket->number, __VA_ARGS__)
#define SCHED_JOURNAL_MOVE(from, to)                                                               \
    SCHED_JOURNAL("moves", "%u %u", (unsigned)(from), (unsigned)(to))
#define SCHED_JOURNAL_BYTES(word, whose, size)                                                     \
    SCHED_JOURNAL(word, "%" PRIu64 " %" PRIu64, (whose)->id, size)

#define mbr_state_move(table, state, from, to)                                                     \
    (mbr_state_move(table, state, from, to), (void)SCHED_JOURNAL_MOVE(from, to))
#define mbr_state_try_move(table, state, from, to)                                                 \
    (mbr_state_try_move(table, state, from, to) && SCHED_JOURNAL_MOVE(from, to))
#define mbr_book_grant(whose, size)                                                                \
    (mbr_book_grant(whose, size), (void)SCHED_JOURNAL_BYTES("books", whose, size))
#define mbr_grant_return(whose, size)                                                              \
    ((void)SCHED_JOURNAL_BYTES("returns", whose, size), mbr_grant_return(whose, size))
#define mbr_arbitrate(pool, tickets, count)                                                        \
    (sched_journal_line("limits %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64          \
                        " %" PRIu64 " %" PRIu64,                                                   \
         authority->id, authority->set_limit_bytes, authority->measured_limit_bytes,               \
         authority->exhausted_limit_bytes, authority->leased_limit_bytes,                          \
         authority->leasable_bytes, authority->ledger_limit_bytes),                                \
        sched_journal_asked(authority->id, pool, tickets, count),                                  \
        sched_journal_answered(                                                                    \
            authority->id, tickets, count, mbr_arbitrate(pool, tickets, count)))

#endif
