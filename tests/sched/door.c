/* Responsible for reading the governor's words from a scenario. Never writes one. */
#include "tests/sched/door.h"

#include "governor/internal.h"
#include "tests/sched/journal.h"

#include <inttypes.h>

int64_t sched_room_bytes(const mbr_authority *authority)
{
    return SCHED_LOAD_NOW(&authority->room_bytes);
}

int64_t sched_granted_bytes(const mbr_holder *holder)
{
    return (int64_t)mbr_sums_read(holder).granted;
}

void sched_journal_authority(const mbr_authority *authority)
{
    sched_journal_watch("room", authority->id, &authority->room_bytes);
    sched_journal_watch("withheld", authority->id, &authority->withheld_bytes);
    sched_journal_line(
        "authority %" PRIu64 " %" PRId64, authority->id, sched_room_bytes(authority));
}

void sched_journal_holder(const mbr_holder *holder)
{
    sched_journal_watch("lease", holder->id, &holder->leased_bytes);
    sched_journal_line("holder %" PRIu64 " %" PRIu64 " %" PRIu64 " %d", holder->id,
        holder->authority->id, holder->allowance_bytes, holder->borrows);
}

void sched_check_no_lock(void)
{
    mbr_lock_assert_none_held();
}
