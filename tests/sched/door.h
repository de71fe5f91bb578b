/* What a scenario in C++ sees of the governor's structs, which only C can read. No lock. */
#ifndef MEMBRANE_TESTS_SCHED_DOOR_H
#define MEMBRANE_TESTS_SCHED_DOOR_H

#include "governor/governor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limit - claimed as every thread sees it now. */
int64_t sched_room_bytes(const mbr_authority *authority);
/* Of the holder's books: no lock is waited for. */
int64_t sched_granted_bytes(const mbr_holder *holder);
/* From now on the journal has the free bytes of the one, the leased bytes of the other. Called
 * before another fiber knows them. */
void sched_journal_authority(const mbr_authority *authority);
void sched_journal_holder(const mbr_holder *holder);
/* As a callback of the host does: no lock may be held. */
void sched_check_no_lock(void);

#ifdef __cplusplus
}
#endif

#endif
