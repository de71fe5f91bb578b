/* A state machine for the tests of abi/base/state.h, behind functions because C++17 has no
 * `_Atomic`. The state is one of `count` numbers; the table is the caller's. */
#ifndef MEMBRANE_TESTS_UNIT_BASE_DOOR_H
#define MEMBRANE_TESTS_UNIT_BASE_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* closed -> open -> closed -> locked -> closed; broken is final and reached from locked. */
enum { DOOR_CLOSED, DOOR_OPEN, DOOR_LOCKED, DOOR_BROKEN, DOOR_COUNT };

bool door_allows(uint32_t from, uint32_t to);
void door_set(uint32_t state);
uint32_t door_get(void);
bool door_try_move(uint32_t from, uint32_t to);
void door_move(uint32_t from, uint32_t to);

/* A ring of 32 states, the most that a table may have: each leads to the next one. */
bool ring_allows(uint32_t from, uint32_t to);

#ifdef __cplusplus
}
#endif

#endif
