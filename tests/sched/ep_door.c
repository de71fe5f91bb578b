/* Responsible for reading a context's words from a scenario. Never writes one. */
#include "tests/sched/ep_door.h"

#include "host/ep/internal.h"

sched_context_now sched_context_look(const mbr_context *context)
{
    uint64_t life = SCHED_LOAD_NOW(&context->life);
    bool is_gated = false;
    for (uint32_t i = 0; i < context->gate_count; i++)
        is_gated = is_gated || context->gates[i]->capture_count != 0;
    return (sched_context_now){
        .state = (uint32_t)(life & 3),
        .pin_count = life / 4,
        .queued_count = SCHED_LOAD_NOW(&context->queued_count),
        .is_locked = context->lock.mutex.holder_plus_one != 0,
        .settling = context->settling,
        .is_gated = is_gated,
    };
}

void sched_context_check_no_lock(void)
{
    mbr_lock_assert_none_held();
}
