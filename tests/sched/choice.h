/* Who goes on: the random priorities of PCT, and an exhaustive search with a bound on preemptions.
 *
 * PCT: each fiber has a random priority and the highest that can run does; at depth - 1 random
 * steps the running one falls below all others. A fault that needs d ordered events among n fibers
 * and k steps is met with a probability of at least 1 / (n * k^(d-1)), whatever it is. */
#ifndef MEMBRANE_TESTS_SCHED_CHOICE_H
#define MEMBRANE_TESTS_SCHED_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCHED_FIBER_LIMIT 6
#define SCHED_DEPTH_LIMIT 3
#define SCHED_PATH_LIMIT 2048 /* choices of one schedule */
#define SCHED_NEVER UINT64_MAX

/* splitmix64: the same numbers everywhere. */
typedef struct sched_random {
    uint64_t state;
} sched_random;

uint64_t sched_random_next(sched_random *random);
uint64_t sched_random_below(sched_random *random, uint64_t bound);

typedef struct sched_choice {
    bool exhaustive;
    sched_random random;
    uint64_t steps_expected; /* of one schedule */

    /* Random */
    int depth; /* 1: no change of priority; 0: each step another fiber, in turn */
    bool stores_wait;
    int64_t priority[SCHED_FIBER_LIMIT];
    uint64_t change_at[SCHED_DEPTH_LIMIT - 1];

    /* Exhaustive: the choices of this schedule, each with the number it had to choose from */
    int preemption_limit, preemptions;
    int path_length, replayed;
    bool differs; /* from the schedule with the same choices before */
    uint8_t path[SCHED_PATH_LIMIT], options[SCHED_PATH_LIMIT];
} sched_choice;

/* Before each schedule. */
void sched_choice_begin_random(sched_choice *choice, uint64_t seed, int depth);
void sched_choice_begin_path(sched_choice *choice);
/* The next path to try; false when all are done. */
bool sched_choice_next_path(sched_choice *choice);

/* At `step`, one of the fibers in `candidates` (a bit each, at least one). `current` may be among
 * them. */
int sched_choice_make(
    sched_choice *choice, uint64_t step, int current, uint32_t candidates, int fiber_count);

/* When a wait that nobody ends fires or wakes by itself; SCHED_NEVER where nothing else says so. */
uint64_t sched_choice_fires_at(sched_choice *choice, uint64_t step);
uint64_t sched_choice_wakes_at(sched_choice *choice, uint64_t step);
/* Whether the oldest waiting store becomes visible now. */
bool sched_choice_store_lands(sched_choice *choice);

#ifdef __cplusplus
}
#endif

#endif
