/* Chores: what a holder above wants done besides the callers' threads, such as mapping ahead of
 * need. The EP's reaper does them where threads are internal, mbr_manager_poll where they are not:
 * there is no second thread. */
#ifndef MEMBRANE_HOST_EP_CHORE_H
#define MEMBRANE_HOST_EP_CHORE_H

#include "membrane/base.h"

#include <stdbool.h>

struct mbr_context;

/* Asleep when it is begun. The caller's memory from begin to end; the first field is set before. */
typedef struct mbr_chore {
    /* One call at a time, with no lock held. Answers in how many ns it wants the next one;
     * UINT64_MAX: once it is woken. It neither begins nor ends a chore. */
    uint64_t (*run)(struct mbr_chore *chore, uint64_t now_ns);
    /* The context's own. */
    struct mbr_context *context;
    struct mbr_chore *next, *prev;
    uint64_t due_ns; /* UINT64_MAX: asleep */
    bool is_running, is_woken;
} mbr_chore;

/* Pins the context. MBR_BUSY or MBR_DEVICE_LOST: it is not active. */
mbr_status mbr_chore_begin(mbr_chore *chore, struct mbr_context *context, mbr_error *error);
/* Waits until it is not running; in a forked child for nobody. */
void mbr_chore_end(mbr_chore *chore);
/* It is due now. A system call, if the thread sleeps. */
void mbr_chore_wake(mbr_chore *chore);
/* Whether a capture of a stream of its EP begins or is open. */
bool mbr_chore_is_capturing(const mbr_chore *chore);

#endif
