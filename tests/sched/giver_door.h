/* Givers on one holder, or savers for it, for one schedule: the product's giver.c over a manager
 * that has nothing but its lock. One that has left is memory that its owner has freed. */
#ifndef MEMBRANE_TESTS_SCHED_GIVER_DOOR_H
#define MEMBRANE_TESTS_SCHED_GIVER_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCHED_GIVER_COUNT 3

void sched_givers_begin(void);
void sched_givers_end(void); /* all have left */
/* By one body each; false: the holder has ended. */
bool sched_giver_join(int which);
bool sched_saver_join(int which); /* it takes a byte of any room */
void sched_giver_leave(int which);
/* What of so much room others leave it; while it does not leave. */
uint64_t sched_saver_room(int which, uint64_t room_bytes);
/* By one body, as the governor does: the holder is asked, or gives. */
void sched_holder_is_asked(void);
void sched_holder_gives(void);
/* By the same one; false: somebody is about to join. */
bool sched_holder_ends(void);

/* How often it was called. */
uint64_t sched_giver_calls(int which);

#ifdef __cplusplus
}
#endif

#endif
