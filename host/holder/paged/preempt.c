/* Sequences that may go, go and come back; and what the store answers when it is asked for bytes.
 * Moves only pages that one sequence alone has. */
#include "host/bind/grant.h"
#include "host/holder/common/gone.h"
#include "host/holder/paged/internal.h"

#include <utlist.h>

/* ---- Going and coming */

static mbr_status check_saved(const mbr_paged *store, mbr_error *error)
{
    if (store->saved.range.value != 0)
        return MBR_OK;
    return mbr_fail(error, MBR_UNSUPPORTED,
        "the store was made without a saved_binding: nothing can be preempted");
}

/* Whatever the outcome, nobody waits for the record any more. */
static void end_move_locked(mbr_paged *store, mbr_paged_record *record, uint32_t state)
    MBR_REQUIRES(&store->lock)
{
    mbr_paged_set_state(record, state);
    if (state == MBR_PAGED_RESIDENT)
        mbr_paged_quieten_locked(store, record);
    mbr_condition_signal_all(&store->moved);
}

static mbr_status preempt_locked(mbr_paged *store, mbr_paged_record *record, mbr_refusal *refusal,
    mbr_error *error) MBR_REQUIRES(&store->lock)
{
    uint32_t before = record->state;
    uint64_t saved_before = record->saved_count;
    mbr_paged_set_state(record, MBR_PAGED_MOVING);
    if (before == MBR_PAGED_RESIDENT) /* else it is 0, and a thread that errs may look at it */
        record->quiet_tokens = 0;
    mbr_status status =
        mbr_paged_move_locked(store, record, 0, record->slot_count, MBR_PAGED_SAVE, refusal, error);
    end_move_locked(store, record, status == MBR_OK ? MBR_PAGED_PREEMPTED : before);
    if (status != MBR_OK)
        return status;
    if (before == MBR_PAGED_RESIDENT)
        DL_APPEND(store->yielding, record);
    store->preempted_count += record->saved_count != saved_before;
    return MBR_OK;
}

static mbr_status restore_locked(mbr_paged *store, mbr_paged_record *record, mbr_refusal *refusal,
    mbr_error *error) MBR_REQUIRES(&store->lock)
{
    if (record->state == MBR_PAGED_RESIDENT)
        return MBR_OK;
    mbr_status status = MBR_OK;
    if (record->state == MBR_PAGED_PREEMPTED) {
        mbr_paged_set_state(record, MBR_PAGED_MOVING);
        status = mbr_paged_move_locked(
            store, record, 0, record->slot_count, MBR_PAGED_RESTORE, refusal, error);
    }
    if (status == MBR_OK)
        DL_DELETE(store->yielding, record);
    end_move_locked(store, record, status == MBR_OK ? MBR_PAGED_RESIDENT : MBR_PAGED_PREEMPTED);
    if (status == MBR_OK)
        mbr_area_trim_locked(store, &store->saved, 0);
    return status;
}

mbr_status mbr_paged_offer(mbr_paged *store, mbr_paged_sequence sequence, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&store->lock);
    mbr_paged_record *record = mbr_paged_find_locked(store, sequence, true, &status, error);
    if (record != NULL) {
        mbr_paged_set_state(record, MBR_PAGED_OFFERED);
        record->quiet_tokens = 0;
        DL_APPEND(store->yielding, record);
    }
    mbr_lock_drop(&store->lock);
    return status;
}

mbr_status mbr_paged_preempt(
    mbr_paged *store, mbr_paged_sequence sequence, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status = check_saved(store, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&store->lock);
    mbr_paged_record *record = mbr_paged_find_locked(store, sequence, false, &status, error);
    if (record != NULL)
        status = preempt_locked(store, record, refusal, error);
    if (status == MBR_OK)
        mbr_area_trim_locked(store, &store->own, store->keep_count);
    mbr_lock_drop(&store->lock);
    return status;
}

mbr_status mbr_paged_restore(
    mbr_paged *store, mbr_paged_sequence sequence, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&store->lock);
    mbr_paged_record *record = mbr_paged_find_locked(store, sequence, false, &status, error);
    if (record != NULL)
        status = restore_locked(store, record, refusal, error);
    mbr_lock_drop(&store->lock);
    return status;
}

/* ---- Pressure */

/* Under the store's own authority what is saved would take what the store gives, so nobody would
 * gain: none. */
static mbr_room room_elsewhere(const mbr_paged *store)
{
    return store->saves_elsewhere
        ? mbr_manager_read_room(store->manager, store->saved.range, store->saved.holder)
        : (mbr_room){0};
}

/* What the saved holder would be granted now, once the stores that save there and were made before
 * have what they would take. */
static uint64_t saved_room_bytes(mbr_paged *store)
{
    mbr_room room = room_elsewhere(store);
    return mbr_min(mbr_saver_room(&store->saver, room.authority_bytes, false),
        mbr_saver_room(&store->saver, room.holder_bytes, true));
}

/* Counts each page that the record alone has for its extent. */
static void mark_yield_locked(mbr_paged *store, const mbr_paged_record *record,
    uint64_t *extent_count) MBR_REQUIRES(&store->lock)
{
    mbr_paged_area *area = &store->own;
    for (uint32_t i = 0; i < record->slot_count; i++) {
        uint32_t page = record->slots[i];
        if ((page & MBR_PAGED_SAVED) != 0 || area->pages[page].ref_count != 1)
            continue;
        mbr_paged_extent *extent = &area->extents[page / area->extent_pages];
        *extent_count += ++extent->yield_count + extent->free_count == area->extent_pages;
    }
}

/* The first of the yielding that stays, as the saved area has no room for its pages (NULL: none),
 * when they go in their order; *page_count: of those that go. */
static const mbr_paged_record *first_staying_locked(
    mbr_paged *store, uint64_t room_bytes, uint64_t *page_count) MBR_REQUIRES(&store->lock)
{
    const mbr_paged_area *saved = &store->saved;
    uint64_t room_pages = 0;
    if (store->saves_elsewhere)
        room_pages = saved->free_count +
            mbr_min(room_bytes / saved->extent_bytes, saved->absent_count) * saved->extent_pages;
    const mbr_paged_record *record;
    *page_count = 0;
    DL_FOREACH(store->yielding, record)
    {
        if (record->state == MBR_PAGED_MOVING)
            continue;
        if (record->exclusive_count > room_pages - *page_count)
            break;
        *page_count += record->exclusive_count;
    }
    return record;
}

/* Extents that would be empty if those sequences went. */
static uint64_t yield_locked(mbr_paged *store, uint64_t room_bytes) MBR_REQUIRES(&store->lock)
{
    uint64_t extent_count = 0, page_count;
    const mbr_paged_record *end = first_staying_locked(store, room_bytes, &page_count);
    for (const mbr_paged_record *at = store->yielding; at != end; at = at->next)
        if (at->state != MBR_PAGED_MOVING)
            mark_yield_locked(store, at, &extent_count);
    for (uint32_t i = 0; i < store->own.extent_count; i++)
        store->own.extents[i].yield_count = 0;
    return extent_count;
}

/* What its own area gives back stays, so that nobody goes for it. */
static bool is_held(const mbr_paged *store)
{
    return mbr_range_is_held(store->manager, store->own.binding, store->own.range, 0);
}

uint64_t mbr_paged_would_save(mbr_paged *store, uint64_t room_bytes)
{
    if (is_held(store))
        return 0;
    const mbr_paged_area *saved = &store->saved;
    uint64_t page_count, missing = 0;
    room_bytes = mbr_min(room_bytes, room_elsewhere(store).holder_bytes);
    mbr_lock_take(&store->lock);
    first_staying_locked(store, room_bytes, &page_count);
    mbr_sub(page_count, saved->free_count, &missing);
    mbr_lock_drop(&store->lock);
    return (missing / saved->extent_pages + (missing % saved->extent_pages != 0)) *
        saved->extent_bytes;
}

uint64_t mbr_paged_could_give(mbr_paged *store, uint64_t wanted_bytes)
{
    if (is_held(store))
        return 0;
    uint64_t room_bytes = saved_room_bytes(store);
    mbr_lock_take(&store->lock);
    uint64_t extents = store->own.empty_count + yield_locked(store, room_bytes);
    mbr_lock_drop(&store->lock);
    return mbr_min(extents * store->own.extent_bytes, wanted_bytes);
}

/* Empty extents, no more of them than are wanted. */
static uint64_t give_empty_locked(mbr_paged *store, uint64_t wanted_bytes)
    MBR_REQUIRES(&store->lock)
{
    mbr_paged_area *area = &store->own;
    uint64_t wanted = wanted_bytes / area->extent_bytes + (wanted_bytes % area->extent_bytes != 0);
    return mbr_area_trim_locked(
        store, area, area->empty_count - (uint32_t)mbr_min(wanted, area->empty_count));
}

static mbr_paged_record *next_yielding_locked(mbr_paged *store) MBR_REQUIRES(&store->lock)
{
    mbr_paged_record *record;
    DL_FOREACH(store->yielding, record)
    if (record->state != MBR_PAGED_MOVING && record->exclusive_count != 0)
        return record;
    return NULL;
}

uint64_t mbr_paged_give(mbr_paged *store, uint64_t wanted_bytes)
{
    if (is_held(store))
        return 0;
    uint64_t page_count, room_bytes = saved_room_bytes(store);
    mbr_status status = MBR_OK;
    mbr_lock_take(&store->lock);
    uint64_t bytes = give_empty_locked(store, wanted_bytes);
    bool frees_extent = yield_locked(store, room_bytes) != 0;
    first_staying_locked(store, room_bytes, &page_count);
    while (frees_extent && status == MBR_OK && bytes < wanted_bytes) {
        mbr_paged_record *record = next_yielding_locked(store);
        if (record == NULL || record->exclusive_count > page_count)
            break;
        page_count -= record->exclusive_count;
        status = preempt_locked(store, record, NULL, NULL);
        bytes += give_empty_locked(store, wanted_bytes - bytes);
    }
    mbr_lock_drop(&store->lock);
    return bytes;
}
