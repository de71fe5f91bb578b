/* Givers on one holder for one schedule: the product's giver.c over a manager that has nothing but
 * its lock. One that has left is memory that its owner has freed. */
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
void sched_giver_leave(int which);
/* By one body, as the governor does: the holder is asked, or gives. */
void sched_holder_is_asked(void);
void sched_holder_gives(void);
/* By the same one, unless somebody is about to join. */
void sched_holder_ends(void);

/* How often it was called. */
uint64_t sched_giver_calls(int which);

#ifdef __cplusplus
}
#endif

#endif
