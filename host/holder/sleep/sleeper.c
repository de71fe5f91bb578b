/* A sleeper, its tags and their ranges: who belongs where, and who is moved by whom. Commits and
 * gives back nothing. */
#include "host/bind/kept.h"
#include "host/bind/seams.h"
#include "host/holder/common/payer.h"
#include "host/holder/sleep/internal.h"

#include <utlist.h>

#define CHUNK_DEFAULT_BYTES (UINT64_C(64) << 20)

MBR_GIVER_CALLS_DEFINE(mbr_sleeper, giver_calls);

/* ---- Life */

/* Of an arena alone there is something to give. */
static mbr_status answer_pressure(mbr_sleeper *sleeper, mbr_error *error)
{
    return sleeper->arena.value == 0 ? MBR_OK
                                     : mbr_giver_join(sleeper->manager, sleeper->holder,
                                           &giver_calls, sleeper, &sleeper->giver, error);
}

static void finish(mbr_sleeper *sleeper)
{
    mbr_lock_finish(&sleeper->lock);
    mbr_heap heap = sleeper->heap;
    mbr_heap_release(&heap, sleeper);
}

mbr_status mbr_sleeper_create(mbr_manager *manager, const mbr_sleeper_request *request,
    mbr_sleeper **sleeper, mbr_error *error)
{
    *sleeper = NULL;
    mbr_sleeper_request own;
    mbr_status status = MBR_TAKE(&own, mbr_sleeper_request, keep_bytes, request, error);
    if (status == MBR_OK && own.arena.value != 0)
        status = mbr_check_payer(manager, own.arena, own.holder, error);
    if (status != MBR_OK)
        return status;
    mbr_sleeper *made = mbr_heap_allocate(mbr_manager_heap(manager), sizeof(*made));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a sleeper");
    *made = (mbr_sleeper){.manager = manager,
        .heap = *mbr_manager_heap(manager),
        .arena = own.arena,
        .holder = own.holder,
        .chunk_bytes = own.chunk_bytes != 0 ? own.chunk_bytes : CHUNK_DEFAULT_BYTES,
        .keep_bytes = own.keep_bytes};
    mbr_lock_init(&made->lock, MBR_RANK_CLIENT);
    status = answer_pressure(made, error);
    if (status == MBR_OK)
        *sleeper = made;
    else
        finish(made);
    return status;
}

static void free_tag(mbr_sleeper *sleeper, mbr_tag *tag)
{
    mbr_sleep_range *range, *next;
    DL_FOREACH_SAFE(tag->ranges, range, next)
    mbr_heap_release(&sleeper->heap, range);
    mbr_heap_release(&sleeper->heap, tag);
}

static mbr_status settle_tags(mbr_sleeper *sleeper, uint64_t deadline_ns, mbr_error *error)
{
    mbr_tag *tag;
    DL_FOREACH(sleeper->tags, tag)
    {
        mbr_status status = mbr_chunks_await_late(sleeper, tag, deadline_ns, error);
        if (status != MBR_OK)
            return status;
        mbr_chunks_return(sleeper, tag, 0);
    }
    return MBR_OK;
}

mbr_status mbr_sleeper_destroy(mbr_sleeper *sleeper, uint64_t deadline_ns, mbr_error *error)
{
    mbr_tag *tag, *next;
    mbr_sleeper_figures figures = {MBR_SIZED(mbr_sleeper_figures)};
    mbr_sleeper_read(sleeper, &figures);
    if (figures.asleep_count != 0)
        return mbr_fail(
            error, MBR_IN_USE, "%u tags sleep; wake or drop them first", figures.asleep_count);
    mbr_status status = settle_tags(sleeper, deadline_ns, error);
    if (status != MBR_OK)
        return status;
    mbr_giver_leave(&sleeper->giver); /* so that nobody else has a chunk on its way out */
    mbr_chunks_free(sleeper, UINT64_MAX, NULL);
    if (sleeper->arena_bytes != 0) {
        (void)answer_pressure(sleeper, NULL); /* it stays, and so does the holder that pays */
        return mbr_fail(error, MBR_QUEUE_FULL,
            "the release queue has no room for %llu bytes of the arena; drain the EP first",
            (unsigned long long)sleeper->arena_bytes);
    }
    DL_FOREACH_SAFE(sleeper->tags, tag, next)
    free_tag(sleeper, tag);
    finish(sleeper);
    return MBR_OK;
}

/* ---- Tags */

static mbr_tag *find_tag_locked(mbr_sleeper *sleeper, uint64_t tag) MBR_REQUIRES(&sleeper->lock)
{
    mbr_tag *found;
    DL_SEARCH_SCALAR(sleeper->tags, found, tag, tag);
    return found;
}

static mbr_status begin_move_locked(mbr_tag *tag, uint64_t name, mbr_error *error)
{
    if (tag == NULL || tag->range_count == 0)
        return mbr_fail(
            error, MBR_UNKNOWN_OBJECT, "no range has the tag %llu", (unsigned long long)name);
    if (tag->state == MBR_TAG_MOVING)
        return mbr_fail(
            error, MBR_BUSY, "another call works on the tag %llu", (unsigned long long)name);
    return MBR_OK;
}

mbr_tag *mbr_tag_begin_move(
    mbr_sleeper *sleeper, uint64_t tag, mbr_tag_state *state, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&sleeper->lock);
    mbr_tag *found = find_tag_locked(sleeper, tag);
    *status = begin_move_locked(found, tag, error);
    if (*status == MBR_OK) {
        *state = found->state;
        found->state = MBR_TAG_MOVING;
    }
    mbr_lock_drop(&sleeper->lock);
    return *status == MBR_OK ? found : NULL;
}

void mbr_tag_end_move(mbr_sleeper *sleeper, mbr_tag *tag, mbr_tag_state state)
{
    mbr_lock_take(&sleeper->lock);
    MBR_ASSERT(tag->state == MBR_TAG_MOVING);
    tag->state = state;
    mbr_lock_drop(&sleeper->lock);
}

/* ---- Ranges */

static mbr_sleep_range *find_range_locked(
    mbr_sleeper *sleeper, mbr_range_handle range, mbr_tag **tag) MBR_REQUIRES(&sleeper->lock)
{
    mbr_sleep_range *found;
    DL_FOREACH(sleeper->tags, *tag)
    {
        DL_FOREACH((*tag)->ranges, found)
        if (found->range.value == range.value)
            return found;
    }
    return NULL;
}

/* Whether the holder may pay for it, and whether it could wake with what the tag has: a growth by
 * nothing, of both. */
static mbr_status check_range(mbr_sleeper *sleeper, const mbr_sleep_range *first,
    mbr_range_handle range, mbr_holder_handle holder, mbr_error *error)
{
    mbr_piece pieces[2] = {{range, 0, 0}, {first != NULL ? first->range : range, 0, 0}};
    mbr_range_grow_request request = {
        MBR_SIZED(mbr_range_grow_request), .holder = holder, .pieces = pieces, .piece_count = 2};
    mbr_range_grow_result result = {MBR_SIZED(mbr_range_grow_result)};
    return mbr_range_grow(sleeper->manager, &request, &result, error);
}

static mbr_status check_add_locked(mbr_sleeper *sleeper, mbr_range_handle range,
    mbr_holder_handle holder, uint64_t name, mbr_error *error) MBR_REQUIRES(&sleeper->lock)
{
    mbr_tag *of;
    const mbr_tag *tag = find_tag_locked(sleeper, name);
    if (find_range_locked(sleeper, range, &of) != NULL)
        return mbr_fail(error, MBR_ALREADY_EXISTS, "the range has the tag %llu already",
            (unsigned long long)of->tag);
    if (tag == NULL)
        return MBR_OK;
    if (tag->state != MBR_TAG_AWAKE)
        return mbr_fail(
            error, MBR_BUSY, "the tag %llu is not awake; wake it first", (unsigned long long)name);
    if (tag->range_count != 0 && tag->holder.value != holder.value)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "another holder pays for the tag %llu, which wakes in one growth; use its holder or "
            "another tag",
            (unsigned long long)name);
    return MBR_OK;
}

/* The tag, new where there is none; MOVING. `spare` is used for a new one. */
static mbr_tag *enter_tag_locked(mbr_sleeper *sleeper, mbr_holder_handle holder, uint64_t name,
    mbr_tag **spare) MBR_REQUIRES(&sleeper->lock)
{
    mbr_tag *tag = find_tag_locked(sleeper, name);
    if (tag == NULL) {
        tag = *spare;
        *spare = NULL;
        *tag = (mbr_tag){.tag = name};
        DL_APPEND(sleeper->tags, tag);
    }
    if (tag->range_count == 0) /* one that late copies keep is as good as new */
        tag->holder = holder;
    tag->state = MBR_TAG_MOVING;
    return tag;
}

static void leave_tag(mbr_sleeper *sleeper, mbr_tag *tag, mbr_sleep_range *record)
{
    mbr_lock_take(&sleeper->lock);
    if (record != NULL) {
        DL_APPEND(tag->ranges, record);
        tag->range_count++;
    }
    tag->state = MBR_TAG_AWAKE;
    bool is_empty = tag->range_count == 0 && tag->chunks == NULL;
    if (is_empty)
        DL_DELETE(sleeper->tags, tag);
    mbr_lock_drop(&sleeper->lock);
    if (is_empty)
        free_tag(sleeper, tag);
}

static mbr_status add(mbr_sleeper *sleeper, mbr_range_handle range, mbr_holder_handle holder,
    uint64_t name, mbr_sleep_range *record, mbr_tag **spare, mbr_error *error)
{
    mbr_tag *tag = NULL;
    mbr_lock_take(&sleeper->lock);
    mbr_status status = check_add_locked(sleeper, range, holder, name, error);
    if (status == MBR_OK)
        tag = enter_tag_locked(sleeper, holder, name, spare);
    mbr_lock_drop(&sleeper->lock);
    if (tag == NULL)
        return status;
    mbr_range_figures figures = {MBR_SIZED(mbr_range_figures)};
    status = mbr_range_read(sleeper->manager, range, 0, &figures, error);
    if (status == MBR_OK)
        status = check_range(sleeper, tag->ranges, range, holder, error);
    record->range = range;
    record->address = figures.address;
    leave_tag(sleeper, tag, status == MBR_OK ? record : NULL);
    return status;
}

mbr_status mbr_sleeper_add(mbr_sleeper *sleeper, mbr_range_handle range, mbr_holder_handle holder,
    uint64_t tag, mbr_error *error)
{
    if (range.value == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the call names no range");
    mbr_status status = MBR_OUT_OF_HOST_MEMORY;
    mbr_sleep_range *record = mbr_heap_allocate(&sleeper->heap, sizeof(*record));
    mbr_tag *spare = mbr_heap_allocate(&sleeper->heap, sizeof(*spare));
    if (record != NULL && spare != NULL)
        status = add(sleeper, range, holder, tag, record, &spare, error);
    else
        mbr_fail(error, status, "no host memory for a range and its tag");
    mbr_heap_release(&sleeper->heap, spare);
    if (status != MBR_OK)
        mbr_heap_release(&sleeper->heap, record);
    return status;
}

mbr_status mbr_sleeper_remove(mbr_sleeper *sleeper, mbr_range_handle range, mbr_error *error)
{
    mbr_tag *tag;
    mbr_status status = MBR_OK;
    mbr_lock_take(&sleeper->lock);
    mbr_sleep_range *found = find_range_locked(sleeper, range, &tag);
    if (found == NULL)
        status = mbr_fail(error, MBR_UNKNOWN_OBJECT, "no tag has the range");
    else if (tag->state != MBR_TAG_AWAKE)
        status = mbr_fail(error, MBR_BUSY, "the tag %llu is not awake; wake or drop it first",
            (unsigned long long)tag->tag);
    if (status == MBR_OK) {
        DL_DELETE(tag->ranges, found);
        tag->range_count--;
        tag->state = MBR_TAG_MOVING;
    }
    mbr_lock_drop(&sleeper->lock);
    if (status != MBR_OK)
        return status;
    leave_tag(sleeper, tag, NULL);
    mbr_heap_release(&sleeper->heap, found);
    return MBR_OK;
}

/* ---- Figures */

void mbr_sleeper_read(mbr_sleeper *sleeper, mbr_sleeper_figures *figures)
{
    mbr_sleeper_figures now = {MBR_SIZED(mbr_sleeper_figures)};
    const mbr_tag *tag;
    mbr_lock_take(&sleeper->lock);
    DL_FOREACH(sleeper->tags, tag)
    {
        now.tag_count++;
        now.range_count += tag->range_count;
        if (tag->state != MBR_TAG_ASLEEP)
            continue;
        now.asleep_count++;
        now.asleep_bytes += tag->bytes;
    }
    now.arena_bytes = sleeper->arena_bytes;
    now.free_bytes = sleeper->free_bytes;
    now.copied_bytes = sleeper->copied_bytes;
    mbr_lock_drop(&sleeper->lock);
    mbr_growable_give(figures, &now, sizeof(now));
}
