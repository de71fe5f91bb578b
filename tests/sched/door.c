/* Responsible for reading the governor's words from a scenario. Never writes one. */
#include "tests/sched/door.h"

#include "governor/internal.h"

int64_t sched_room_bytes(const mbr_authority *authority)
{
    return SCHED_LOAD_NOW(&authority->room_bytes);
}

int64_t sched_granted_bytes(const mbr_holder *holder)
{
    return (int64_t)mbr_sums_read(holder).granted;
}

void sched_check_no_lock(void)
{
    mbr_lock_assert_none_held();
}
