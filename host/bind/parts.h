/* What the calls of ranges and prefixes share: the marks of those inside, and pieces as parts. */
#ifndef MEMBRANE_HOST_BIND_PARTS_H
#define MEMBRANE_HOST_BIND_PARTS_H

#include "host/bind/manager.h"

#define MBR_PART_INLINE_COUNT 64 /* pieces of one call without a heap allocation */

/* NULL: *status. Else it stays until it is left. */
mbr_range_record *mbr_enter_range_locked(mbr_manager *manager, mbr_range_handle handle,
    const void *keeper, mbr_status *status, mbr_error *error) MBR_REQUIRES(&manager->lock);
void mbr_leave_range_locked(mbr_manager *manager, mbr_range_handle handle)
    MBR_REQUIRES(&manager->lock);

/* Pieces as parts, their ranges entered; the heap is used only for long lists. */
typedef struct mbr_part_list {
    mbr_range_part *parts;
    mbr_backing *backing;
    mbr_context *context;
    mbr_binding_record *binding; /* of the first piece */
    const void *keeper;          /* of every range; NULL: none */
    mbr_range_part inline_parts[MBR_PART_INLINE_COUNT];
} mbr_part_list;

/* On failure nothing is entered. */
mbr_status mbr_parts_make(mbr_manager *manager, const mbr_piece *pieces, uint32_t count,
    const void *keeper, mbr_part_list *list, mbr_error *error);
/* Leaves the first `count` ranges. */
void mbr_parts_release(mbr_manager *manager, mbr_part_list *list, uint32_t count);

#endif
