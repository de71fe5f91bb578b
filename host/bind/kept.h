/* Ranges that a holder above the client interface keeps to itself for a while, such as one that
 * sleeps. Calls of clients that would change a kept range are MBR_BUSY: growth, decommit, release,
 * pin, prefixes of it and in it. Reading it goes on. */
#ifndef MEMBRANE_HOST_BIND_KEPT_H
#define MEMBRANE_HOST_BIND_KEPT_H

#include "host/backing/watch.h"
#include "membrane/range.h"

/* Waits for the calls that are inside. `keeper` is any address of the holder's own. Errors:
 * MBR_BUSY (it is kept, pinned, or a call stays inside), MBR_STALE. */
mbr_status mbr_range_keep(
    mbr_manager *manager, mbr_range_handle range, const void *keeper, mbr_error *error);
void mbr_range_unkeep(mbr_manager *manager, mbr_range_handle range);

/* As mbr_range_grow and mbr_range_decommit, on ranges that `keeper` keeps; `watch` may be NULL. */
mbr_status mbr_range_grow_kept(mbr_manager *manager, const void *keeper,
    const mbr_range_grow_request *request, const mbr_growth_watch *watch,
    mbr_range_grow_result *result, mbr_error *error);
mbr_status mbr_range_decommit_kept(mbr_manager *manager, const void *keeper,
    const mbr_range_release_request *request, mbr_range_decommit_result *result, mbr_error *error);

/* Gives up to `bytes` of what the kept range's backing has cached back to the system, tries once
 * more what is quarantined there, and has what is free measured again. Returns the bytes; nothing
 * goes while a capture is open. */
uint64_t mbr_range_evict_cache(mbr_manager *manager, mbr_range_handle range, uint64_t bytes);

#endif
