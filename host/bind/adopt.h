/* Moving what is mapped ahead of need between the cache and a holder, for holders that are built on
 * the client interface: bookkeeping alone. No slot is called but to keep the cache's watermark,
 * nobody pressed or waited for, and no host memory taken but for long lists of pieces. False:
 * nothing has changed, and no error says why: whoever needs the memory grows and learns it. */
#ifndef MEMBRANE_HOST_BIND_ADOPT_H
#define MEMBRANE_HOST_BIND_ADOPT_H

#include "membrane/range.h"

#include <stdbool.h>

/* The growth as a whole, where all that is missing stands there and may be handed out as it is: no
 * fill, no capture open, within the holder's allowance. *bytes: what is new. */
bool mbr_range_adopt(mbr_manager *manager, const mbr_range_grow_request *request, uint64_t *bytes);
/* What was adopted so, or committed otherwise, and never used since is the cache's again, ahead of
 * need as far as ahead_bytes has room. The pieces are whole extents, all of the holder's and nobody
 * else's; neither pinned nor in part a graph's, of ranges that do not grow meanwhile. *bytes: all
 * of them. */
bool mbr_range_disown(mbr_manager *manager, const mbr_range_grow_request *request, uint64_t *bytes);

#endif
