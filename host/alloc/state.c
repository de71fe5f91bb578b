/* The states of an allocation and which may follow which. Moves nothing itself: record.h does. */
#include "host/alloc/arena.h"

#define SETTLED MBR_STATE_BIT(MBR_ALLOCATION_RELEASED)
#define BROKEN                                                                                     \
    (MBR_STATE_BIT(MBR_ALLOCATION_PARTIALLY_UNMAPPED) |                                            \
        MBR_STATE_BIT(MBR_ALLOCATION_QUARANTINED) | MBR_STATE_BIT(MBR_ALLOCATION_DEVICE_LOST))

static const char *const names[] = {
    [0] = "none",
    [MBR_ALLOCATION_LIVE] = "live",
    [MBR_ALLOCATION_QUEUED] = "queued",
    [MBR_ALLOCATION_PARTIALLY_UNMAPPED] = "partially unmapped",
    [MBR_ALLOCATION_QUARANTINED] = "quarantined",
    [MBR_ALLOCATION_DEVICE_LOST] = "device lost",
    [MBR_ALLOCATION_RELEASED] = "released",
    [MBR_ALLOCATION_REACTIVATED] = "reactivated",
    [MBR_ALLOCATION_CAPTURED] = "captured",
    [MBR_ALLOCATION_GIVEN_AGAIN] = "given again",
};

/* queued -> live, captured, given again, quarantined: the release queue handed it back, full or
 * closed. quarantined -> queued: it was abandoned and is freed after all. */
static const uint32_t successors[] = {
    [0] = MBR_STATE_BIT(MBR_ALLOCATION_LIVE) | MBR_STATE_BIT(MBR_ALLOCATION_CAPTURED),
    [MBR_ALLOCATION_LIVE] = MBR_STATE_BIT(MBR_ALLOCATION_QUEUED) | SETTLED | BROKEN,
    [MBR_ALLOCATION_QUEUED] = MBR_STATE_BIT(MBR_ALLOCATION_LIVE) |
        MBR_STATE_BIT(MBR_ALLOCATION_CAPTURED) | MBR_STATE_BIT(MBR_ALLOCATION_GIVEN_AGAIN) |
        MBR_STATE_BIT(MBR_ALLOCATION_REACTIVATED) | SETTLED | BROKEN,
    [MBR_ALLOCATION_PARTIALLY_UNMAPPED] = SETTLED,
    [MBR_ALLOCATION_QUARANTINED] = MBR_STATE_BIT(MBR_ALLOCATION_QUEUED) | SETTLED,
    [MBR_ALLOCATION_DEVICE_LOST] = SETTLED,
    [MBR_ALLOCATION_RELEASED] = 0,
    [MBR_ALLOCATION_REACTIVATED] =
        MBR_STATE_BIT(MBR_ALLOCATION_GIVEN_AGAIN) | MBR_STATE_BIT(MBR_ALLOCATION_CAPTURED),
    [MBR_ALLOCATION_CAPTURED] = MBR_STATE_BIT(MBR_ALLOCATION_QUEUED) | BROKEN,
    [MBR_ALLOCATION_GIVEN_AGAIN] = MBR_STATE_BIT(MBR_ALLOCATION_QUEUED) | SETTLED | BROKEN,
};

const mbr_state_table mbr_allocation_states = {
    .machine = "allocation",
    .names = names,
    .successors = successors,
    .count = sizeof(successors) / sizeof(successors[0]),
};
