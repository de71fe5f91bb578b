/* The journal of schedules: a line for each change of a ticket's state, each booking of its bytes,
 * each arbitration with what went in and what came out, and each change of the words that say what
 * is free, in the order in which they happened. tests/model/replay_trace.py reads it, and has the
 * words. Only where MEMBRANE_JOURNAL names a file; the product does not know of it. */
#ifndef MEMBRANE_TESTS_SCHED_JOURNAL_H
#define MEMBRANE_TESTS_SCHED_JOURNAL_H

#include "governor/arbiter.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on it is written, behind what the file has already. NULL: it stays closed. */
void sched_journal_open(const char *path);
void sched_journal_begin(const char *suite, const char *scenario, uint64_t seed);
/* One line of who runs now. It always answers true, so that an expression can have it. */
bool sched_journal_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Each change of the object is a line of this word from now on, until the next schedule. */
void sched_journal_watch(const char *word, uint64_t id, const void *object);

void sched_journal_asked(uint64_t authority_id, const mbr_arbiter_pool *pool,
    const mbr_arbiter_ticket *tickets, uint32_t count);
mbr_arbitration sched_journal_answered(
    uint64_t authority_id, const mbr_arbiter_ticket *tickets, uint32_t count, mbr_arbitration made);

#ifdef __cplusplus
}
#endif

#endif
