/* Who may look on while a growth is carried out, for those above that keep the ranges. */
#ifndef MEMBRANE_HOST_BACKING_WATCH_H
#define MEMBRANE_HOST_BACKING_WATCH_H

#include "membrane/base.h"

#include <stdbool.h>

/* Told of what stands while the rest of a growth is still to come, with no lock held: bytes
 * [from, to) of the parts, counted through in their order, are committed, have the contents that
 * they must have, and may be written on the growth's stream. All of them are told of, in order, in
 * each attempt anew from 0 on, whatever was told before: that has been taken back. It says whether
 * it may have enqueued work there; an undo, also one that its refusal brings about, waits for it.
 */
typedef struct mbr_growth_watch {
    uint64_t least_bytes; /* of extents between two calls, if so many are left */
    mbr_status (*stand)(void *context, uint64_t from, uint64_t to, bool *has_enqueued);
    void *context;
} mbr_growth_watch;

#endif
