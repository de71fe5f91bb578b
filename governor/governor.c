/* Responsible for the governor itself: its seams, its list of authorities, and the small services
 * that creating calls share. Never decides over capacity and never walks a holder. */
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <string.h>

bool mbr_governor_name_fits(const char *name)
{
    return name != NULL && name[0] != '\0' && strnlen(name, MBR_NAME_BYTES) < MBR_NAME_BYTES;
}

mbr_status mbr_governor_create(
    const mbr_governor_options *options, mbr_governor **governor, mbr_error *error)
{
    *governor = NULL;
    bool own_heap = options != NULL && options->heap != NULL;
    bool own_clock = options != NULL && options->clock != NULL;
    const mbr_heap *heap = own_heap ? options->heap : &mbr_heap_libc;
    mbr_governor *made = mbr_heap_allocate(heap, sizeof(*made));
    if (made == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no %zu bytes of heap for a governor", sizeof(*made));
    made->heap = *heap;
    made->clock = own_clock ? *options->clock : mbr_clock_monotonic;
    mbr_lock_init(&made->lock, MBR_RANK_GOVERNOR);
    mbr_condition_init(&made->asked);
    *governor = made;
    return MBR_OK;
}

mbr_status mbr_governor_destroy(mbr_governor *governor, mbr_error *error)
{
    if (governor == NULL)
        return MBR_OK;
    mbr_lock_take(&governor->lock);
    uint32_t count = governor->authority_count;
    char first[MBR_NAME_BYTES] = "";
    if (count != 0)
        memcpy(first, governor->authorities->name, sizeof(first));
    mbr_lock_drop(&governor->lock);
    if (count != 0)
        return mbr_fail(error, MBR_IN_USE,
            "the governor still has %u authorities, the first is '%s'; destroy them first", count,
            first);
    mbr_condition_finish(&governor->asked);
    mbr_lock_finish(&governor->lock);
    mbr_heap heap = governor->heap;
    mbr_heap_release(&heap, governor);
    return MBR_OK;
}
