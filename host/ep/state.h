/* The state of a context for paths that cannot afford a call. */
#ifndef MEMBRANE_HOST_EP_STATE_H
#define MEMBRANE_HOST_EP_STATE_H

#include "host/ep/context.h"

#include <stdatomic.h>

/* Every context begins with it, also one that stands in for it in a test. */
typedef struct mbr_context_head {
    _Atomic uint64_t life; /* MBR_CONTEXT_… in the low bits; pins above, of no meaning here */
} mbr_context_head;

#define MBR_CONTEXT_STATE_MASK UINT64_C(3)

static inline bool mbr_context_is_active(const mbr_context *context)
{
    const mbr_context_head *head = (const mbr_context_head *)context;
    return (atomic_load_explicit(&head->life, memory_order_acquire) & MBR_CONTEXT_STATE_MASK) ==
        MBR_CONTEXT_ACTIVE;
}

#endif
