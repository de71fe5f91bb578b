/* A KV cache of one sequence for one schedule: the product's growth and its chore over ranges that
 * only remember what stands where. */
#ifndef MEMBRANE_TESTS_SCHED_KV_DOOR_H
#define MEMBRANE_TESTS_SCHED_KV_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCHED_KV_EXTENT_COUNT 8
#define SCHED_KV_EXTENT_TOKENS 4 /* all of them in the first one at the beginning */

void sched_kv_begin(void);
void sched_kv_end(void);
/* By one body. */
bool sched_kv_append(uint64_t tokens);
/* The chore looks, 5 ms after the last time; by one body. */
void sched_kv_look(void);
/* As a growth that is refused. */
void sched_kv_take_back(void);

/* As every thread sees it now; no lock is waited for. */
uint64_t sched_kv_tokens(void);
/* The first of its extents that are committed without a gap, as tokens. */
uint64_t sched_kv_committed_tokens(void);

/* When nobody is inside: */
uint64_t sched_kv_committed_bytes(void); /* by what stands where */
uint64_t sched_kv_counted_bytes(void);   /* by the cache's figures */
uint64_t sched_kv_held_tokens(void);     /* what it needs, or took */

#ifdef __cplusplus
}
#endif

#endif
