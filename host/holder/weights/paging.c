/* Paging: an item's way in and out, uses and their ends, and what can be given. Chooses nothing:
 * the policy does. */
#include "host/holder/common/quiet.h"
#include "host/holder/weights/internal.h"

/* More than slabs align to: an item has a span of its own, whose bytes are everybody's once it is
 * out. Blocks of a slab would stay the slab's until the last of them is free. */
#define ITEM_ALIGN_BYTES (UINT64_C(4) << 20)

/* ---- States */

static void set_state_locked(mbr_weights *weights, uint32_t index, mbr_item_state state)
    MBR_REQUIRES(&weights->lock)
{
    mbr_item *item = &weights->items[index];
    item->state = state;
    weights->views[index].is_resident = state == MBR_ITEM_RESIDENT;
    weights->views[index].is_busy = state == MBR_ITEM_MOVING || item->user_count != 0;
    if (state != MBR_ITEM_MOVING)
        mbr_condition_signal_all(&weights->moved);
}

/* The item's bytes are the device's, or are not any more. */
static void count_locked(mbr_weights *weights, uint32_t index, int64_t by)
    MBR_REQUIRES(&weights->lock)
{
    uint64_t bytes = (uint64_t)by * weights->views[index].bytes;
    weights->figures.loaded_bytes += bytes;
    if (!weights->items[index].is_kept)
        return;
    weights->figures.resident_bytes += bytes;
    weights->figures.resident_count += (uint32_t)by;
}

static void await_move_locked(mbr_weights *weights, const mbr_item *item)
    MBR_REQUIRES(&weights->lock)
{
    while (item->state == MBR_ITEM_MOVING)
        mbr_condition_wait(&weights->moved, &weights->lock, UINT64_MAX);
}

/* ---- Out */

static mbr_status free_item(mbr_weights *weights, const mbr_item *item, bool now, mbr_error *error)
{
    now = now || item->stream_count == 0;
    mbr_free_request request = {MBR_SIZED(mbr_free_request), .flags = now ? MBR_FREE_NOW : 0,
        .allocation = item->allocation, .streams = item->streams,
        .stream_count = now ? 0 : item->stream_count};
    return mbr_free(weights->manager, &request, error);
}

mbr_status mbr_weights_page_out_locked(
    mbr_weights *weights, uint32_t index, bool now, mbr_error *error)
{
    mbr_item *item = &weights->items[index];
    mbr_item_state before = item->state;
    MBR_ASSERT(item->user_count == 0 && before != MBR_ITEM_OUT && before != MBR_ITEM_MOVING);
    set_state_locked(weights, index, MBR_ITEM_MOVING);
    mbr_lock_drop(&weights->lock);
    mbr_status status = free_item(weights, item, now, error);
    mbr_lock_take(&weights->lock);
    if (status == MBR_OK) {
        count_locked(weights, index, -1);
        weights->figures.page_out_count++;
        item->stream_count = 0;
        item->loading.value = 0;
        item->is_empty = false;
    }
    set_state_locked(weights, index, status == MBR_OK ? MBR_ITEM_OUT : before);
    return status;
}

/* Items that came in passing and that the queue did not take when their last use ended. */
static void page_out_passing_locked(mbr_weights *weights) MBR_REQUIRES(&weights->lock)
{
    for (uint32_t i = 0; i < weights->item_count; i++) {
        if (weights->items[i].state == MBR_ITEM_PASSING && weights->items[i].user_count == 0)
            mbr_weights_page_out_locked(weights, i, false, NULL);
    }
}

/* ---- Room */

static bool has_room_locked(const mbr_weights *weights, uint32_t index, bool kept)
    MBR_REQUIRES(&weights->lock)
{
    uint64_t bytes = weights->views[index].bytes, end;
    const mbr_weights_figures *figures = &weights->figures;
    bool fits = mbr_add(figures->loaded_bytes, bytes, &end) && end <= weights->budget_bytes;
    uint64_t keep_bytes = weights->budget_bytes - weights->passing_bytes;
    return fits && (!kept || figures->resident_bytes + bytes <= keep_bytes);
}

/* Makes room in the budget, and says whether the item is to be kept. */
static mbr_status make_room_locked(
    mbr_weights *weights, uint32_t index, bool *kept, mbr_error *error) MBR_REQUIRES(&weights->lock)
{
    *kept = true;
    while (!has_room_locked(weights, index, *kept)) {
        uint32_t victim = *kept ? mbr_weights_choose_locked(weights, index) : MBR_WEIGHTS_NONE;
        if (victim != MBR_WEIGHTS_NONE) {
            mbr_status status = mbr_weights_page_out_locked(weights, victim, false, error);
            if (status != MBR_OK)
                return status;
        } else if (*kept) {
            *kept = false;
            page_out_passing_locked(weights);
        } else {
            return mbr_fail(error, MBR_BUSY,
                "items of %llu bytes fill the budget of %llu; end the use of one, or keep more "
                "room for those in passing",
                (unsigned long long)weights->figures.loaded_bytes,
                (unsigned long long)weights->budget_bytes);
        }
    }
    return MBR_OK;
}

/* ---- In */

/* As long as the ledger has not the bytes, and the policy gives something up for them. */
static mbr_status allocate(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    mbr_alloc_result *result, mbr_refusal *refusal, mbr_error *error)
{
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = weights->binding,
        .holder = weights->holder, .stream = stream, .bytes = weights->views[index].bytes,
        .align_bytes = ITEM_ALIGN_BYTES, .tag = index, .refusal = refusal};
    for (;;) {
        mbr_status status = mbr_alloc(weights->manager, &request, result, error);
        if (MBR_STATUS_CLASS(status) != MBR_CLASS_EXHAUSTED)
            return status;
        mbr_lock_take(&weights->lock);
        uint32_t victim = mbr_weights_choose_locked(weights, MBR_WEIGHTS_NONE);
        bool gave = victim != MBR_WEIGHTS_NONE &&
            mbr_weights_page_out_locked(weights, victim, false, NULL) == MBR_OK;
        mbr_lock_drop(&weights->lock);
        if (!gave)
            return status;
    }
}

/* The item is MOVING, and its memory is there. */
static mbr_status fill(
    mbr_weights *weights, uint32_t index, mbr_stream_handle stream, mbr_error *error)
{
    mbr_item *item = &weights->items[index];
    mbr_status status = mbr_ep_copy(weights->manager, stream, item->address, item->source_address,
        weights->views[index].bytes, error);
    item->is_empty = status != MBR_OK;
    item->loading = stream;
    return status;
}

/* The item is MOVING. *is_there: its memory is, also after a fill that failed. */
static mbr_status load(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    bool *is_there, mbr_refusal *refusal, mbr_error *error)
{
    mbr_item *item = &weights->items[index];
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    *is_there = false;
    mbr_status status = allocate(weights, index, stream, &result, refusal, error);
    if (status != MBR_OK)
        return status;
    item->allocation = result.allocation;
    item->address = result.address;
    status = fill(weights, index, stream, error);
    /* What was not submitted touches nothing; the queue may be full all the same. */
    *is_there = status == MBR_OK || free_item(weights, item, true, NULL) != MBR_OK;
    return status;
}

static void count_page_in_locked(mbr_weights *weights, uint32_t index) MBR_REQUIRES(&weights->lock)
{
    weights->figures.page_in_count++;
    weights->figures.page_in_bytes += weights->views[index].bytes;
    weights->figures.passing_count += !weights->items[index].is_kept;
}

static mbr_status page_in_locked(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    mbr_refusal *refusal, mbr_error *error) MBR_REQUIRES(&weights->lock)
{
    bool is_there;
    mbr_item *item = &weights->items[index];
    set_state_locked(weights, index, MBR_ITEM_MOVING);
    mbr_status status = make_room_locked(weights, index, &item->is_kept, error);
    if (status != MBR_OK) {
        set_state_locked(weights, index, MBR_ITEM_OUT);
        return status;
    }
    count_locked(weights, index, 1);
    mbr_lock_drop(&weights->lock);
    status = load(weights, index, stream, &is_there, refusal, error);
    mbr_lock_take(&weights->lock);
    if (status == MBR_OK)
        count_page_in_locked(weights, index);
    if (!is_there)
        count_locked(weights, index, -1);
    mbr_item_state loaded = item->is_kept ? MBR_ITEM_RESIDENT : MBR_ITEM_PASSING;
    set_state_locked(weights, index, is_there ? loaded : MBR_ITEM_OUT);
    return status;
}

/* What an earlier use has left empty. */
static mbr_status refill_locked(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    mbr_error *error) MBR_REQUIRES(&weights->lock)
{
    mbr_item_state state = weights->items[index].state;
    set_state_locked(weights, index, MBR_ITEM_MOVING);
    mbr_lock_drop(&weights->lock);
    mbr_status status = fill(weights, index, stream, error);
    mbr_lock_take(&weights->lock);
    if (status == MBR_OK)
        count_page_in_locked(weights, index);
    set_state_locked(weights, index, state);
    return status;
}

/* ---- Uses */

static void begin_use_locked(mbr_weights *weights, uint32_t index) MBR_REQUIRES(&weights->lock)
{
    weights->figures.used_count += weights->items[index].user_count++ == 0;
    weights->views[index].is_busy = 1;
    weights->views[index].last_use = ++weights->use_serial;
}

/* What another stream pages in is awaited on the host; the use keeps the item meanwhile. */
static mbr_status await_loading_locked(mbr_weights *weights, mbr_item *item,
    mbr_stream_handle stream, mbr_error *error) MBR_REQUIRES(&weights->lock)
{
    mbr_stream_handle loading = item->loading;
    if (loading.value == 0 || loading.value == stream.value)
        return MBR_OK;
    mbr_lock_drop(&weights->lock);
    mbr_status status = mbr_ep_synchronize(weights->manager, loading, UINT64_MAX, error);
    mbr_lock_take(&weights->lock);
    if (status == MBR_OK && item->loading.value == loading.value)
        item->loading.value = 0;
    return status;
}

static void end_use_locked(mbr_weights *weights, uint32_t index) MBR_REQUIRES(&weights->lock)
{
    mbr_item *item = &weights->items[index];
    if (--item->user_count != 0)
        return;
    weights->figures.used_count--;
    set_state_locked(weights, index, item->state);
    if (item->state == MBR_ITEM_PASSING) /* else a later one's, for want of room */
        mbr_weights_page_out_locked(weights, index, false, NULL);
}

mbr_status mbr_weights_use(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    uint64_t *address, mbr_refusal *refusal, mbr_error *error)
{
    *address = 0;
    if (index >= weights->item_count)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "item %u of %u", index, weights->item_count);
    mbr_item *item = &weights->items[index];
    mbr_status status = MBR_OK;
    mbr_lock_take(&weights->lock);
    await_move_locked(weights, item);
    bool is_hit = item->state != MBR_ITEM_OUT && !item->is_empty;
    if (item->state == MBR_ITEM_OUT)
        status = page_in_locked(weights, index, stream, refusal, error);
    else if (!is_hit)
        status = refill_locked(weights, index, stream, error);
    if (status == MBR_OK) {
        weights->figures.hit_count += is_hit;
        begin_use_locked(weights, index);
        status = await_loading_locked(weights, item, stream, error);
        *address = status == MBR_OK ? item->address : 0;
        if (status != MBR_OK)
            end_use_locked(weights, index);
    }
    mbr_lock_drop(&weights->lock);
    return status;
}

static bool knows(const mbr_item *item, mbr_stream_handle stream)
{
    for (uint32_t i = 0; i < item->stream_count; i++) {
        if (item->streams[i].value == stream.value)
            return true;
    }
    return stream.value == 0;
}

/* A fifth stream takes the place of the first, whose work is awaited: the use keeps the item. */
static void note_stream_locked(mbr_weights *weights, mbr_item *item, mbr_stream_handle stream)
    MBR_REQUIRES(&weights->lock)
{
    while (!knows(item, stream)) {
        if (item->stream_count < MBR_ITEM_STREAM_COUNT) {
            item->streams[item->stream_count++] = stream;
            return;
        }
        mbr_stream_handle first = item->streams[0];
        mbr_lock_drop(&weights->lock);
        mbr_ep_synchronize(weights->manager, first, UINT64_MAX, NULL);
        mbr_lock_take(&weights->lock);
        if (item->streams[0].value == first.value)
            item->streams[0] = item->streams[--item->stream_count];
    }
}

void mbr_weights_done(mbr_weights *weights, uint32_t index, mbr_stream_handle stream)
{
    mbr_lock_take(&weights->lock);
    if (index < weights->item_count && weights->items[index].user_count != 0) {
        note_stream_locked(weights, &weights->items[index], stream);
        end_use_locked(weights, index);
    }
    mbr_lock_drop(&weights->lock);
}

/* ---- Giving */

/* Its work is done. The lock is dropped meanwhile, and the item marked. */
static bool is_quiet_locked(mbr_weights *weights, uint32_t index) MBR_REQUIRES(&weights->lock)
{
    mbr_item *item = &weights->items[index];
    mbr_item_state state = item->state;
    bool is_quiet = true;
    set_state_locked(weights, index, MBR_ITEM_MOVING);
    mbr_lock_drop(&weights->lock);
    is_quiet = mbr_stream_is_quiet(weights->manager, item->loading);
    for (uint32_t i = 0; i < item->stream_count && is_quiet; i++)
        is_quiet = mbr_stream_is_quiet(weights->manager, item->streams[i]);
    mbr_lock_take(&weights->lock);
    set_state_locked(weights, index, state);
    return is_quiet;
}

uint64_t mbr_weights_could_give(mbr_weights *weights, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    mbr_lock_take(&weights->lock);
    for (uint32_t i = 0; i < weights->item_count && bytes < wanted_bytes; i++) {
        if (weights->items[i].state == MBR_ITEM_RESIDENT && weights->items[i].user_count == 0 &&
            is_quiet_locked(weights, i))
            bytes += weights->views[i].bytes;
    }
    mbr_lock_drop(&weights->lock);
    return mbr_min(bytes, wanted_bytes);
}

uint64_t mbr_weights_give(mbr_weights *weights, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    mbr_lock_take(&weights->lock);
    for (uint32_t tries = weights->item_count; tries != 0 && bytes < wanted_bytes; tries--) {
        uint32_t victim = mbr_weights_choose_locked(weights, MBR_WEIGHTS_NONE);
        if (victim == MBR_WEIGHTS_NONE || !is_quiet_locked(weights, victim))
            break;
        if (weights->items[victim].state != MBR_ITEM_RESIDENT ||
            weights->items[victim].user_count != 0)
            continue; /* found meanwhile */
        if (mbr_weights_page_out_locked(weights, victim, true, NULL) != MBR_OK)
            break;
        bytes += weights->views[victim].bytes;
    }
    mbr_lock_drop(&weights->lock);
    return bytes;
}
