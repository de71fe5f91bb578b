/* Two state tables and one machine for state_test.cc. Checks nothing itself. */
#include "tests/unit/base/door.h"

#include "abi/base/state.h"

static const char *const door_names[DOOR_COUNT] = {"closed", "open", "locked", "broken"};

static const uint32_t door_successors[DOOR_COUNT] = {
    [DOOR_CLOSED] = MBR_STATE_BIT(DOOR_OPEN) | MBR_STATE_BIT(DOOR_LOCKED),
    [DOOR_OPEN] = MBR_STATE_BIT(DOOR_CLOSED),
    [DOOR_LOCKED] = MBR_STATE_BIT(DOOR_CLOSED) | MBR_STATE_BIT(DOOR_BROKEN),
    [DOOR_BROKEN] = 0,
};

static const mbr_state_table door_table = {"door", door_names, door_successors, DOOR_COUNT};

static _Atomic uint32_t door_state;

bool door_allows(uint32_t from, uint32_t to)
{
    return mbr_state_allows(&door_table, from, to);
}

void door_set(uint32_t state)
{
    atomic_store(&door_state, state);
}

uint32_t door_get(void)
{
    return atomic_load(&door_state);
}

bool door_try_move(uint32_t from, uint32_t to)
{
    return mbr_state_try_move(&door_table, &door_state, from, to);
}

void door_move(uint32_t from, uint32_t to)
{
    mbr_state_move(&door_table, &door_state, from, to);
}

bool ring_allows(uint32_t from, uint32_t to)
{
    uint32_t successors[32];
    const char *names[32];
    for (uint32_t state = 0; state < 32; state++) {
        successors[state] = MBR_STATE_BIT((state + 1) % 32);
        names[state] = "ring";
    }
    mbr_state_table ring = {"ring", names, successors, 32};
    return mbr_state_allows(&ring, from, to);
}
