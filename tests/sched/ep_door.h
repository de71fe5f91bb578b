/* What a scenario in C++ sees of a context's struct, which only C can read. No lock, no step. */
#ifndef MEMBRANE_TESTS_SCHED_EP_DOOR_H
#define MEMBRANE_TESTS_SCHED_EP_DOOR_H

#include "host/ep/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sched_context_now {
    uint32_t state; /* MBR_CONTEXT_… */
    uint64_t pin_count;
    uint64_t queued_count; /* in the queue; what is being settled is not */
    bool is_locked;
    bool settling;
    bool is_gated; /* a capture is open on a device of its */
} sched_context_now;

sched_context_now sched_context_look(const mbr_context *context);
/* As a slot and a callback of the host do: no lock may be held. */
void sched_context_check_no_lock(void);

#ifdef __cplusplus
}
#endif

#endif
