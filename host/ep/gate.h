/* The capture gate of one device. While a capture is open on it, calls that would destroy the
 * capture, or take away what its graph will touch, are refused; while such a call is inside, no
 * capture begins (docs/ordering.md, graph capture).
 *
 *     capture_count = 0 or inside_count = 0
 *
 * A capture that waits closes nothing yet, so that what a call inside calls in turn gets in, too.
 * Its lock is the last of all: any other may be held. */
#ifndef MEMBRANE_HOST_EP_GATE_H
#define MEMBRANE_HOST_EP_GATE_H

#include "abi/base/lock.h"

typedef struct mbr_gate {
    mbr_lock lock;
    mbr_condition left;
    uint64_t capture_count; /* open ones */
    uint64_t inside_count;  /* calls; several may be of one thread */
} mbr_gate;

void mbr_gate_init(mbr_gate *gate);
void mbr_gate_finish(mbr_gate *gate); /* nobody is inside, no capture is open */

bool mbr_gate_is_closed(mbr_gate *gate);
bool mbr_gate_try_enter(mbr_gate *gate); /* false: a capture is open */
void mbr_gate_leave(mbr_gate *gate);

/* One more open capture, once no call is inside; false when the deadline (CLOCK_MONOTONIC) has
 * passed. The caller is not inside and holds no lock. */
bool mbr_gate_close(mbr_gate *gate, uint64_t deadline_ns);
void mbr_gate_reopen(mbr_gate *gate); /* one capture less */

#endif
