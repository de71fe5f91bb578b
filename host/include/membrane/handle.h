/* Handles of the client interface: values, never pointers. A handle names one object for ever; once
 * the object is gone, or its generation is superseded, a call answers MBR_STALE or
 * MBR_UNKNOWN_OBJECT and touches nothing. The value 0 names nothing.
 *
 * True for every call of the client interface:
 *   - It takes the manager first and an mbr_error (may be NULL) last, written on failure only.
 *   - Requests and results grow: set struct_size with MBR_SIZED.
 *   - Any thread may call, unless the call says otherwise. No thread of Membrane's own runs unless
 *     the manager was created with internal threads.
 *   - A call on a range, prefix or allocation that another thread ends meanwhile is safe: it is
 *     waited for, or answers MBR_STALE; but see mbr_range_grow. Bindings, EPs and holders are used
 *     without a lock by every allocation: whoever ends one, or what it hangs on, knows that no
 *     other thread is inside a call that names it or what was made with it.
 *   - After a failure nothing has changed, unless the call says what is left.
 *   - Size 0 gives a unique, releasable answer without bytes.
 */
#ifndef MEMBRANE_HANDLE_H
#define MEMBRANE_HANDLE_H

#include "membrane/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef MBR_API
#define MBR_API __attribute__((visibility("default")))
#endif

typedef struct mbr_manager mbr_manager;

typedef struct mbr_plugin_handle {
    uint64_t value;
} mbr_plugin_handle;

typedef struct mbr_mechanism_handle {
    uint64_t value;
} mbr_mechanism_handle;

typedef struct mbr_authority_handle {
    uint64_t value;
} mbr_authority_handle;

typedef struct mbr_holder_handle {
    uint64_t value;
} mbr_holder_handle;

typedef struct mbr_ticket_handle {
    uint64_t value;
} mbr_ticket_handle;

typedef struct mbr_admission_handle {
    uint64_t value;
} mbr_admission_handle;

typedef struct mbr_ep_handle {
    uint64_t value;
} mbr_ep_handle;

typedef struct mbr_stream_handle {
    uint64_t value;
} mbr_stream_handle;

typedef struct mbr_binding_handle {
    uint64_t value;
} mbr_binding_handle;

typedef struct mbr_allocation_handle {
    uint64_t value;
} mbr_allocation_handle;

typedef struct mbr_range_handle {
    uint64_t value;
} mbr_range_handle;

typedef struct mbr_prefix_handle {
    uint64_t value;
} mbr_prefix_handle;

#ifdef __cplusplus
}
#endif

#endif
