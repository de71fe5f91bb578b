/* Creating a manager with seams of one's own, for tests that fail the Nth call of any kind or set
 * the clock; and the heap seam for holders that are built on the client interface. */
#ifndef MEMBRANE_HOST_BIND_SEAMS_H
#define MEMBRANE_HOST_BIND_SEAMS_H

#include "abi/base/seam.h"
#include "governor/shared_os.h"
#include "host/ep/chore.h"
#include "host/ep/thread.h"
#include "host/loader/os.h"
#include "membrane/manager.h"

typedef struct mbr_manager_seams {
    const mbr_heap *heap;           /* NULL: libc */
    const mbr_clock *clock;         /* NULL: monotonic */
    const mbr_threads *threads;     /* of reapers; NULL: the system's */
    const mbr_loader_os *loader_os; /* NULL: libc; lives as long as the manager */
    const mbr_shared_os *shared_os; /* of shared ledgers; NULL: the system's; as loader_os */
} mbr_manager_seams;

mbr_status mbr_manager_create_with_seams(const mbr_manager_options *options,
    const mbr_manager_seams *seams, mbr_manager **manager, mbr_error *error);

/* What holders above the client interface allocate from; as long as the manager lives. */
const mbr_heap *mbr_manager_heap(const mbr_manager *manager);
/* mbr_chore_begin with the binding's EP. */
mbr_status mbr_manager_begin_chore(
    mbr_manager *manager, mbr_binding_handle binding, mbr_chore *chore, mbr_error *error);
/* Whether a capture is open on the device of the binding's mechanism, whoever's it is: what is
 * given back of its memory stays meanwhile. Of every generation. No lock is held. */
bool mbr_manager_is_capturing(mbr_manager *manager, mbr_binding_handle binding);

#endif
