/* Responsible for the text of the journal. Never is a step of a schedule: whoever writes a line
 * after a change is at that change still. */
#include "tests/sched/journal.h"

#include "abi/base/assert.h"
#include "tests/sched/inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WATCHED_LIMIT_COUNT 32

typedef struct watched {
    const char *word;
    uint64_t id;
    const void *object;
} watched;

static FILE *journal; /* NULL: closed */
static watched watches[WATCHED_LIMIT_COUNT];
static int watched_count;

/* By lines, so that a schedule which ends the process loses none. */
void sched_journal_open(const char *path)
{
    if (path == NULL)
        return;
    journal = fopen(path, "a");
    MBR_CHECK(journal != NULL);
    MBR_CHECK(setvbuf(journal, NULL, _IOLBF, 4096) == 0);
}

bool sched_journal_line(const char *format, ...)
{
    if (journal == NULL)
        return true;
    uint8_t number = sched_number(sched.current);
    fprintf(journal, "%c ", number == SCHED_NOBODY ? '-' : 'A' + number);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(journal, format, arguments);
    va_end(arguments);
    fputc('\n', journal);
    return true;
}

void sched_journal_begin(const char *suite, const char *scenario, uint64_t seed)
{
    watched_count = 0;
    sched_journal_line("schedule %s.%s %" PRIu64, suite, scenario, seed);
}

/* ---- Words that all see */
void sched_journal_watch(const char *word, uint64_t id, const void *object)
{
    if (journal == NULL)
        return;
    MBR_CHECK(watched_count < WATCHED_LIMIT_COUNT);
    watches[watched_count++] = (watched){word, id, object};
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

void sched_changed(const void *object, uint64_t before, uint64_t after, const char *file)
{
    for (int i = 0; i < watched_count; i++) {
        if (watches[i].object == object)
            sched_journal_line("%s %" PRIu64 " %" PRId64 " %" PRId64 " %s", watches[i].word,
                watches[i].id, (int64_t)before, (int64_t)after, name_of(file));
    }
}

/* ---- Arbitrations. What went in is written before, because the arbiter changes it. */
void sched_journal_asked(uint64_t authority_id, const mbr_arbiter_pool *pool,
    const mbr_arbiter_ticket *tickets, uint32_t count)
{
    sched_journal_line("arbitrate %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u",
        authority_id, pool->now_ns, pool->free_bytes, pool->set_limit_bytes, pool->limit_bytes,
        count);
    for (uint32_t i = 0; i < count; i++) {
        const mbr_arbiter_ticket *ticket = &tickets[i];
        sched_journal_line("wish %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                           " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %d",
            authority_id, ticket->number, ticket->bytes, ticket->since_ns, ticket->deadline_ns,
            ticket->holder_id, ticket->lease_left_bytes, ticket->own_left_bytes, ticket->priority,
            ticket->asking);
    }
}

mbr_arbitration sched_journal_answered(
    uint64_t authority_id, const mbr_arbiter_ticket *tickets, uint32_t count, mbr_arbitration made)
{
    for (uint32_t i = 0; i < count; i++)
        sched_journal_line("verdict %" PRIu64 " %" PRIu64 " %u %" PRIu64, authority_id,
            tickets[i].number, (unsigned)tickets[i].verdict, tickets[i].held_bytes);
    sched_journal_line("arbitrated %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, authority_id,
        made.held_bytes, made.left_bytes, made.lacking_bytes);
    return made;
}
