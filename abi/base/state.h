/* State machines as tables: an enum, the allowed successors of each state, and one mover that
 * asserts the edge and reports it. The tests and the diagrams in docs/ read the same tables. */
#ifndef MEMBRANE_BASE_STATE_H
#define MEMBRANE_BASE_STATE_H

#include "abi/base/assert.h"

#ifndef __cplusplus
#include <stdatomic.h>
#endif
#include <stdbool.h>
#include <stdint.h>

#define MBR_STATE_BIT(state) (UINT32_C(1) << (uint32_t)(state))

typedef struct mbr_state_table {
    const char *machine;        /* "allocation", "extent" … */
    const char *const *names;   /* one a state */
    const uint32_t *successors; /* one a state: a set of MBR_STATE_BIT */
    uint32_t count;             /* states; at most 32 */
} mbr_state_table;

static inline bool mbr_state_allows(const mbr_state_table *table, uint32_t from, uint32_t to)
{
    return from < table->count && to < table->count &&
        (table->successors[from] & MBR_STATE_BIT(to)) != 0;
}

#ifndef __cplusplus /* which has no _Atomic: tests read the tables and move through functions */
/* Moves a state that several threads may race for. True for exactly one of them. */
static inline bool mbr_state_try_move(
    const mbr_state_table *table, _Atomic uint32_t *state, uint32_t from, uint32_t to)
{
    MBR_ASSERT(mbr_state_allows(table, from, to));
    (void)table;
    return atomic_compare_exchange_strong_explicit(
        state, &from, to, memory_order_acq_rel, memory_order_acquire);
}

/* Moves a state that the caller owns. */
static inline void mbr_state_move(
    const mbr_state_table *table, _Atomic uint32_t *state, uint32_t from, uint32_t to)
{
    bool moved = mbr_state_try_move(table, state, from, to);
    MBR_CHECK(moved);
}
#endif

#endif
