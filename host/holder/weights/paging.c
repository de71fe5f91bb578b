/* Paging: an item's way in and out, uses and their ends, and what can be given. Chooses nothing:
 * the policy does. */
#include "host/holder/common/quiet.h"
#include "host/holder/common/streams.h"
#include "host/holder/weights/internal.h"

/* More than slabs align to: an item has a span of its own, whose bytes are everybody's once it is
 * out. Blocks of a slab would stay the slab's until the last of them is free. */
#define ITEM_ALIGN_BYTES (UINT64_C(4) << 20)

/* ---- States */

static void set_busy_locked(mbr_weights *weights, uint32_t index) MBR_REQUIRES(&weights->lock)
{
    const mbr_item *item = &weights->items[index];
    weights->views[index].is_busy = item->state == MBR_ITEM_MOVING || item->user_count != 0;
}

static void set_state_locked(mbr_weights *weights, uint32_t index, mbr_item_state state)
    MBR_REQUIRES(&weights->lock)
{
    mbr_item *item = &weights->items[index];
    item->state = state;
    weights->views[index].is_resident = state == MBR_ITEM_RESIDENT;
    set_busy_locked(weights, index);
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

void mbr_weights_await_move_locked(mbr_weights *weights, const mbr_item *item)
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

/* One more goes, for want of bytes in the ledger. Those whose work is not done yet are late. */
static bool give_one_up(mbr_weights *weights, uint64_t *late_bytes, mbr_busy_streams *busy)
{
    mbr_item was = {0};
    mbr_lock_take(&weights->lock);
    uint32_t victim = mbr_weights_choose_locked(weights, MBR_WEIGHTS_NONE);
    if (victim != MBR_WEIGHTS_NONE)
        was = weights->items[victim];
    bool gave = victim != MBR_WEIGHTS_NONE &&
        mbr_weights_page_out_locked(weights, victim, false, NULL) == MBR_OK;
    mbr_lock_drop(&weights->lock);
    bool is_late = false;
    for (uint32_t i = 0; gave && i < was.stream_count && !is_late; i++)
        is_late = !mbr_stream_is_quiet_again(weights->manager, was.streams[i], busy);
    if (is_late)
        *late_bytes += weights->views[victim].bytes;
    return gave;
}

/* As long as the ledger has not the bytes, and the policy gives something up for them; no more than
 * that while enough is on its way back. */
static mbr_status allocate(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    mbr_alloc_result *result, mbr_refusal *refusal, mbr_error *error)
{
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = weights->binding,
        .holder = weights->holder, .stream = stream, .bytes = weights->views[index].bytes,
        .align_bytes = ITEM_ALIGN_BYTES, .tag = index, .refusal = refusal};
    mbr_busy_streams busy = {0};
    for (uint64_t late_bytes = 0;;) {
        mbr_status status = mbr_alloc(weights->manager, &request, result, error);
        if (MBR_STATUS_CLASS(status) != MBR_CLASS_EXHAUSTED)
            return status;
        if (late_bytes >= request.bytes)
            return mbr_fail(error, MBR_BUSY,
                "%llu bytes were paged out for item %u, and work still runs on them; try again "
                "once "
                "it is done",
                (unsigned long long)late_bytes, index);
        if (!give_one_up(weights, &late_bytes, &busy))
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

static uint32_t find_stream(const mbr_item *item, mbr_stream_handle stream)
{
    return mbr_stream_index(item->streams, item->stream_count, stream);
}

/* Forgets a stream that no use is on, whose work is awaited. A use meanwhile may have submitted
 * more to it: then it is looked at again. */
static mbr_status free_place_locked(mbr_weights *weights, uint32_t index, mbr_error *error)
    MBR_REQUIRES(&weights->lock)
{
    mbr_item *item = &weights->items[index];
    uint64_t use = weights->views[index].last_use;
    uint32_t at = 0;
    while (at < item->stream_count && item->stream_uses[at] != 0)
        at++;
    if (at == item->stream_count)
        return mbr_fail(error, MBR_BUSY, "item %u is used on %u other streams; end one use first",
            index, item->stream_count);
    mbr_stream_handle idle = item->streams[at];
    mbr_lock_drop(&weights->lock);
    mbr_status status = mbr_ep_synchronize(weights->manager, idle, UINT64_MAX, error);
    mbr_lock_take(&weights->lock);
    if (status != MBR_OK && MBR_STATUS_CLASS(status) != MBR_CLASS_LOST)
        return status;
    /* Another use that waited for the same one may have been first. */
    if (weights->views[index].last_use == use && at < item->stream_count &&
        item->streams[at].value == idle.value) {
        uint32_t last = --item->stream_count;
        item->streams[at] = item->streams[last];
        item->stream_uses[at] = item->stream_uses[last];
    }
    return MBR_OK;
}

/* Before anything is submitted: here it can still be refused. The use keeps the item meanwhile. */
static mbr_status note_stream_locked(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    mbr_error *error) MBR_REQUIRES(&weights->lock)
{
    mbr_item *item = &weights->items[index];
    mbr_status status = MBR_OK;
    uint32_t at;
    if (stream.value == 0)
        return MBR_OK;
    while ((at = find_stream(item, stream)) == MBR_ITEM_STREAM_COUNT) {
        status = free_place_locked(weights, index, error);
        if (status != MBR_OK)
            return status;
    }
    if (at == item->stream_count) {
        item->streams[item->stream_count++] = stream;
        item->stream_uses[at] = 0;
    }
    item->stream_uses[at]++;
    return MBR_OK;
}

/* It stays noted: its work goes on. */
static void leave_stream(mbr_item *item, mbr_stream_handle stream)
{
    uint32_t at = find_stream(item, stream);
    if (at < item->stream_count && item->stream_uses[at] != 0)
        item->stream_uses[at]--;
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
    mbr_weights_await_move_locked(weights, item);
    bool is_hit = item->state != MBR_ITEM_OUT && !item->is_empty;
    if (item->state == MBR_ITEM_OUT)
        status = page_in_locked(weights, index, stream, refusal, error);
    else if (!is_hit)
        status = refill_locked(weights, index, stream, error);
    if (status == MBR_OK) {
        weights->figures.hit_count += is_hit;
        begin_use_locked(weights, index);
        status = note_stream_locked(weights, index, stream, error);
        if (status == MBR_OK) {
            status = await_loading_locked(weights, item, stream, error);
            if (status != MBR_OK)
                leave_stream(item, stream);
        }
        *address = status == MBR_OK ? item->address : 0;
        if (status != MBR_OK)
            end_use_locked(weights, index);
    }
    mbr_lock_drop(&weights->lock);
    return status;
}

void mbr_weights_done(mbr_weights *weights, uint32_t index, mbr_stream_handle stream)
{
    mbr_lock_take(&weights->lock);
    if (index < weights->item_count && weights->items[index].user_count != 0) {
        leave_stream(&weights->items[index], stream);
        end_use_locked(weights, index);
    }
    mbr_lock_drop(&weights->lock);
}

/* ---- Giving */

/* Its work is done. The lock is dropped meanwhile, and the item marked. */
static bool is_quiet_locked(mbr_weights *weights, uint32_t index, mbr_busy_streams *busy)
    MBR_REQUIRES(&weights->lock)
{
    mbr_item *item = &weights->items[index];
    mbr_item_state state = item->state;
    bool is_quiet = true;
    set_state_locked(weights, index, MBR_ITEM_MOVING);
    mbr_lock_drop(&weights->lock);
    is_quiet = mbr_stream_is_quiet_again(weights->manager, item->loading, busy);
    for (uint32_t i = 0; i < item->stream_count && is_quiet; i++)
        is_quiet = mbr_stream_is_quiet_again(weights->manager, item->streams[i], busy);
    mbr_lock_take(&weights->lock);
    set_state_locked(weights, index, state);
    return is_quiet;
}

uint64_t mbr_weights_could_give(mbr_weights *weights, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    mbr_busy_streams busy = {0};
    mbr_lock_take(&weights->lock);
    for (uint32_t i = 0; i < weights->item_count && bytes < wanted_bytes; i++) {
        if (weights->items[i].state == MBR_ITEM_RESIDENT && weights->items[i].user_count == 0 &&
            is_quiet_locked(weights, i, &busy))
            bytes += weights->views[i].bytes;
    }
    mbr_lock_drop(&weights->lock);
    return mbr_min(bytes, wanted_bytes);
}

/* The policy's choice among what this give has not found in flight yet. */
static uint32_t choose_quiet_locked(mbr_weights *weights, uint64_t give)
    MBR_REQUIRES(&weights->lock)
{
    for (uint32_t i = 0; i < weights->item_count; i++)
        weights->views[i].is_busy |= weights->items[i].passed == give;
    uint32_t victim = mbr_weights_choose_locked(weights, MBR_WEIGHTS_NONE);
    for (uint32_t i = 0; i < weights->item_count; i++)
        set_busy_locked(weights, i);
    return victim;
}

uint64_t mbr_weights_give(mbr_weights *weights, uint64_t wanted_bytes)
{
    uint64_t bytes = 0;
    mbr_busy_streams busy = {0};
    mbr_lock_take(&weights->lock);
    uint64_t give = ++weights->give_serial;
    for (uint32_t tries = weights->item_count; tries != 0 && bytes < wanted_bytes; tries--) {
        uint32_t victim = choose_quiet_locked(weights, give);
        if (victim == MBR_WEIGHTS_NONE)
            break;
        if (!is_quiet_locked(weights, victim, &busy)) {
            weights->items[victim].passed = give;
            continue;
        }
        if (mbr_weights_page_out_locked(weights, victim, true, NULL) != MBR_OK)
            break;
        bytes += weights->views[victim].bytes;
    }
    mbr_lock_drop(&weights->lock);
    return bytes;
}
