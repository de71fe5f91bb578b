/* Responsible for the two counts of a device's capture gate. Knows no stream, context or mechanism,
 * and decides nothing about what is refused. */
#include "host/ep/gate.h"

#include "abi/base/assert.h"

void mbr_gate_init(mbr_gate *gate)
{
    *gate = (mbr_gate){0};
    mbr_lock_init(&gate->lock, MBR_RANK_GATE);
    mbr_condition_init(&gate->left);
}

void mbr_gate_finish(mbr_gate *gate)
{
    MBR_CHECK(gate->capture_count == 0 && gate->inside_count == 0);
    mbr_condition_finish(&gate->left);
    mbr_lock_finish(&gate->lock);
}

bool mbr_gate_is_closed(mbr_gate *gate)
{
    mbr_lock_take(&gate->lock);
    bool closed = gate->capture_count != 0;
    mbr_lock_drop(&gate->lock);
    return closed;
}

bool mbr_gate_try_enter(mbr_gate *gate)
{
    mbr_lock_take(&gate->lock);
    bool entered = gate->capture_count == 0;
    gate->inside_count += entered;
    mbr_lock_drop(&gate->lock);
    return entered;
}

void mbr_gate_leave(mbr_gate *gate)
{
    mbr_lock_take(&gate->lock);
    MBR_CHECK(gate->inside_count != 0);
    if (--gate->inside_count == 0)
        mbr_condition_signal_all(&gate->left);
    mbr_lock_drop(&gate->lock);
}

bool mbr_gate_close(mbr_gate *gate, uint64_t deadline_ns)
{
    bool in_time = true;
    mbr_lock_take(&gate->lock);
    while (gate->inside_count != 0 && in_time)
        in_time = mbr_condition_wait(&gate->left, &gate->lock, deadline_ns);
    bool closed = gate->inside_count == 0;
    gate->capture_count += closed;
    mbr_lock_drop(&gate->lock);
    return closed;
}

void mbr_gate_reopen(mbr_gate *gate)
{
    mbr_lock_take(&gate->lock);
    MBR_CHECK(gate->capture_count != 0);
    gate->capture_count--;
    mbr_lock_drop(&gate->lock);
}
