/* The two transactions of a tag: to sleep, and awake again. Picks no victim: who sleeps is the
 * client's choice. */
#include "host/bind/kept.h"
#include "host/holder/sleep/internal.h"

#include <utlist.h>

/* ---- Keeping the ranges */

static void unkeep_until(mbr_sleeper *sleeper, const mbr_tag *tag, const mbr_sleep_range *end)
{
    for (const mbr_sleep_range *range = tag->ranges; range != end; range = range->next)
        mbr_range_unkeep(sleeper->manager, range->range);
}

static mbr_status keep_ranges(mbr_sleeper *sleeper, const mbr_tag *tag, mbr_error *error)
{
    const mbr_sleep_range *range;
    DL_FOREACH(tag->ranges, range)
    {
        mbr_status status = mbr_range_keep(sleeper->manager, range->range, sleeper, error);
        if (status == MBR_OK)
            continue;
        unkeep_until(sleeper, tag, range);
        return status;
    }
    return MBR_OK;
}

/* ---- What sleeps */

static bool is_committed(const mbr_range_run *run)
{
    return run->bytes != 0 && (run->flags & (MBR_RUN_LEAVING | MBR_RUN_STUCK)) == 0;
}

static mbr_status check_run(const mbr_range_run *run, mbr_error *error)
{
    if ((run->flags & MBR_RUN_OWNED) == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY,
        "at %llu a range of the tag is in part a graph's; retire the graph first",
        (unsigned long long)run->offset_bytes);
}

/* What a prefix or another range has, too, stays: to unmap it would give back nothing, and others
 * could end its bytes meanwhile. An alias that is left alone with its extent is like any other. */
static bool falls_asleep(const mbr_range_run *run)
{
    return is_committed(run) && (run->flags & MBR_RUN_SHARED) == 0;
}

/* Of the run, what is to be asleep already. */
static uint64_t bytes_in_pieces(
    const mbr_tag *tag, mbr_range_handle range, const mbr_range_run *run)
{
    uint64_t bytes = 0, run_end = run->offset_bytes + run->bytes;
    for (uint32_t i = 0; i < tag->piece_count; i++) {
        const mbr_piece *piece = &tag->pieces[i];
        uint64_t from = mbr_max(piece->offset_bytes, run->offset_bytes);
        uint64_t to = mbr_min(piece->offset_bytes + piece->bytes, run_end);
        if (piece->range.value == range.value && from < to)
            bytes += to - from;
    }
    return bytes;
}

/* Whether a piece holds the byte; *end is where that changes, if before what it was. */
static bool is_in_pieces(const mbr_tag *tag, mbr_range_handle range, uint64_t at, uint64_t *end)
{
    for (uint32_t i = 0; i < tag->piece_count; i++) {
        const mbr_piece *piece = &tag->pieces[i];
        uint64_t piece_end = piece->offset_bytes + piece->bytes;
        if (piece->range.value != range.value || piece_end <= at)
            continue;
        bool holds = piece->offset_bytes <= at;
        *end = mbr_min(*end, holds ? piece_end : piece->offset_bytes);
        if (holds)
            return true;
    }
    return false;
}

typedef struct mbr_piece_list {
    mbr_piece *pieces; /* NULL: they are counted */
    uint64_t *addresses;
    uint32_t count, room;
    uint64_t bytes;
} mbr_piece_list;

static void add_piece(
    mbr_piece_list *list, const mbr_sleep_range *range, uint64_t from, uint64_t to)
{
    if (list->pieces != NULL && list->count == list->room)
        return;
    if (list->pieces != NULL) {
        list->pieces[list->count] = (mbr_piece){range->range, from, to - from};
        list->addresses[list->count] = range->address + from;
    }
    list->count++;
    list->bytes += to - from;
}

/* What of the run does not sleep yet: what an earlier sleep left committed may lie beside it. */
static void add_run(mbr_piece_list *list, const mbr_tag *tag, const mbr_sleep_range *range,
    const mbr_range_run *run)
{
    uint64_t run_end = run->offset_bytes + run->bytes, end;
    for (uint64_t at = run->offset_bytes; at < run_end; at = end) {
        end = run_end;
        if (!is_in_pieces(tag, range->range, at, &end))
            add_piece(list, range, at, end);
    }
}

/* Counts what falls asleep, and lists it once there is room. Kept ranges do not change, but others
 * may stop sharing with them meanwhile: for what that adds there may be no room, and it stays. */
static mbr_status walk_runs(
    mbr_sleeper *sleeper, const mbr_tag *tag, mbr_piece_list *list, mbr_error *error)
{
    const mbr_sleep_range *range;
    DL_FOREACH(tag->ranges, range)
    {
        mbr_range_run run = {MBR_SIZED(mbr_range_run)};
        for (uint64_t from = 0;; from = run.offset_bytes + run.bytes) {
            mbr_status status =
                mbr_range_next_run(sleeper->manager, range->range, from, &run, error);
            if (status == MBR_OK && is_committed(&run))
                status = check_run(&run, error);
            if (status != MBR_OK)
                return status;
            if (run.bytes == 0)
                break;
            if (falls_asleep(&run))
                add_run(list, tag, range, &run);
        }
    }
    return MBR_OK;
}

static void forget_pieces(mbr_sleeper *sleeper, mbr_tag *tag)
{
    mbr_heap_release(&sleeper->heap, tag->pieces);
    mbr_heap_release(&sleeper->heap, tag->addresses);
    tag->pieces = NULL;
    tag->addresses = NULL;
    tag->piece_count = 0;
    tag->bytes = 0;
}

/* The tag's pieces, and behind them what falls asleep now: first in `list`, which the tag then has.
 */
static mbr_status extend_pieces(
    mbr_sleeper *sleeper, mbr_tag *tag, mbr_piece_list *list, mbr_error *error)
{
    if (list->pieces == NULL || list->addresses == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for %u pieces", list->room);
    for (; list->count < tag->piece_count; list->count++) {
        list->pieces[list->count] = tag->pieces[list->count];
        list->addresses[list->count] = tag->addresses[list->count];
    }
    list->bytes = tag->bytes;
    mbr_status status = walk_runs(sleeper, tag, list, error);
    if (status != MBR_OK)
        return status;
    forget_pieces(sleeper, tag);
    tag->pieces = list->pieces;
    tag->addresses = list->addresses;
    tag->piece_count = list->count;
    tag->bytes = list->bytes;
    return MBR_OK;
}

static mbr_status list_pieces(mbr_sleeper *sleeper, mbr_tag *tag, mbr_error *error)
{
    mbr_piece_list list = {0};
    mbr_status status = walk_runs(sleeper, tag, &list, error);
    if (status != MBR_OK || list.count == 0)
        return status;
    uint32_t room = tag->piece_count + list.count;
    list = (mbr_piece_list){.pieces = mbr_heap_allocate(&sleeper->heap, room * sizeof(mbr_piece)),
        .addresses = mbr_heap_allocate(&sleeper->heap, room * sizeof(uint64_t)),
        .room = room};
    status = extend_pieces(sleeper, tag, &list, error);
    if (status != MBR_OK) {
        mbr_heap_release(&sleeper->heap, list.pieces);
        mbr_heap_release(&sleeper->heap, list.addresses);
    }
    return status;
}

/* ---- Giving back */

/* What of the ranges is on its way back, what stays since others have it, and what is to be asleep
 * and is committed or stuck all the same. What was stuck elsewhere before is no concern of it. */
static void measure(mbr_sleeper *sleeper, const mbr_tag *tag, mbr_sleep_result *result)
{
    const mbr_sleep_range *range;
    DL_FOREACH(tag->ranges, range)
    {
        mbr_range_run run = {MBR_SIZED(mbr_range_run)};
        for (uint64_t from = 0;; from = run.offset_bytes + run.bytes) {
            if (mbr_range_next_run(sleeper->manager, range->range, from, &run, NULL) != MBR_OK ||
                run.bytes == 0)
                break;
            uint64_t slept = bytes_in_pieces(tag, range->range, &run);
            if ((run.flags & MBR_RUN_LEAVING) != 0)
                result->deferred_bytes += run.bytes;
            else
                result->residual_bytes += slept;
            if (is_committed(&run))
                result->shared_bytes += run.bytes - slept;
        }
    }
}

/* Each piece by itself: one that is refused keeps none of the others. Returns the bytes. */
static uint64_t give_back(
    mbr_sleeper *sleeper, const mbr_tag *tag, mbr_status *status, mbr_error *error)
{
    uint64_t given = 0;
    uint32_t late_count = tag->late.value != 0;
    *status = MBR_OK;
    for (uint32_t i = 0; i < tag->piece_count; i++) {
        mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
            .flags = late_count != 0 ? 0 : MBR_FREE_NOW, .piece = tag->pieces[i],
            .streams = &tag->late, .stream_count = late_count};
        mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
        mbr_status refused = mbr_range_decommit_kept(
            sleeper->manager, sleeper, &request, &result, *status == MBR_OK ? error : NULL);
        given += result.decommitted_bytes;
        if (*status == MBR_OK)
            *status = refused;
    }
    return given;
}

/* ---- Sleep */

static mbr_status await_streams(
    mbr_sleeper *sleeper, const mbr_sleep_request *request, mbr_error *error)
{
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < request->stream_count && status == MBR_OK; i++)
        status =
            mbr_ep_synchronize(sleeper->manager, request->streams[i], request->deadline_ns, error);
    /* At level 1 the copies run behind its work, and are waited for. */
    if (status == MBR_OK && request->level == MBR_SLEEP_DROP && request->stream.value != 0)
        status = mbr_ep_synchronize(sleeper->manager, request->stream, request->deadline_ns, error);
    return status;
}

/* The contents of the pieces behind the tag's first `kept_bytes`, which the arena has. */
static mbr_status copy_out(mbr_sleeper *sleeper, mbr_tag *tag, uint64_t kept_bytes,
    const mbr_sleep_request *request, mbr_error *error)
{
    mbr_copies copies = {
        .sleeper = sleeper, .tag = tag, .out = true, .stream = request->stream, .error = error};
    mbr_status status = mbr_chunks_take(sleeper, tag, request->stream, error);
    if (status != MBR_OK)
        return status;
    status = mbr_chunks_copy(&copies, kept_bytes, tag->bytes);
    return mbr_chunks_await(&copies, request->deadline_ns, status);
}

/* The first half, behind which nothing was given back yet. The ranges are kept, and the tag has its
 * pieces of before, with their contents at level 1. */
static mbr_status prepare(
    mbr_sleeper *sleeper, mbr_tag *tag, const mbr_sleep_request *request, mbr_error *error)
{
    uint64_t kept_bytes = tag->bytes;
    mbr_status status = list_pieces(sleeper, tag, error);
    if (status == MBR_OK)
        status = await_streams(sleeper, request, error);
    if (status == MBR_OK && request->level == MBR_SLEEP_KEEP)
        status = copy_out(sleeper, tag, kept_bytes, request, error);
    return status;
}

static void stay_awake(mbr_sleeper *sleeper, mbr_tag *tag)
{
    if (tag->late.value == 0) /* else they are still written */
        mbr_chunks_return(sleeper, tag, 0);
    forget_pieces(sleeper, tag);
    unkeep_until(sleeper, tag, NULL);
}

/* The second half: what was decided is carried out as far as it goes. */
static mbr_status settle_down(mbr_sleeper *sleeper, mbr_tag *tag, mbr_tag_state *state,
    mbr_sleep_result *result, mbr_error *error)
{
    mbr_status status;
    mbr_error why = {MBR_SIZED(mbr_error)};
    uint64_t given = give_back(sleeper, tag, &status, &why);
    if (status != MBR_OK && given == 0 && *state == MBR_TAG_AWAKE) {
        mbr_error_copy(error, &why);
        return status;
    }
    *state = MBR_TAG_ASLEEP;
    result->slept_bytes = tag->bytes;
    result->released_bytes = mbr_range_evict_cache(sleeper->manager, tag->ranges->range, given);
    measure(sleeper, tag, result);
    if (result->residual_bytes == 0) /* also where what had gone before was refused */
        return MBR_OK;
    if (status == MBR_OK)
        return mbr_fail(error, MBR_RESIDUAL,
            "the mechanism refused to unmap %llu bytes of the tag, which stay charged; sleep again "
            "to try once more",
            (unsigned long long)result->residual_bytes);
    why.status = MBR_RESIDUAL;
    mbr_error_copy(error, &why);
    return MBR_RESIDUAL;
}

static mbr_status fall_asleep(mbr_sleeper *sleeper, mbr_tag *tag, const mbr_sleep_request *request,
    mbr_tag_state *state, mbr_sleep_result *result, mbr_error *error)
{
    mbr_chunks_return(sleeper, tag, 0); /* of a call that timed out */
    mbr_status status = keep_ranges(sleeper, tag, error);
    if (status != MBR_OK)
        return status;
    tag->keeps = request->level == MBR_SLEEP_KEEP;
    status = prepare(sleeper, tag, request, error);
    if (status == MBR_OK)
        status = settle_down(sleeper, tag, state, result, error);
    if (*state == MBR_TAG_AWAKE)
        stay_awake(sleeper, tag);
    else if (tag->keeps)
        result->copied_bytes = tag->bytes;
    return status;
}

/* The tag sleeps as it did: `bytes` in so many pieces. */
static void stay_asleep(mbr_sleeper *sleeper, mbr_tag *tag, uint32_t piece_count, uint64_t bytes)
{
    tag->piece_count = piece_count;
    tag->bytes = bytes;
    if (tag->late.value == 0)
        mbr_chunks_return(sleeper, tag, bytes);
}

/* What others have stopped sharing since falls asleep, too. */
static mbr_status sleep_on(mbr_sleeper *sleeper, mbr_tag *tag, const mbr_sleep_request *request,
    mbr_tag_state *state, mbr_sleep_result *result, mbr_error *error)
{
    if (request->level == MBR_SLEEP_KEEP && !tag->keeps)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the tag %llu sleeps without contents; they cannot be kept any more",
            (unsigned long long)request->tag);
    uint32_t piece_count = tag->piece_count;
    uint64_t bytes = tag->bytes;
    mbr_status status = prepare(sleeper, tag, request, error);
    if (status != MBR_OK) {
        stay_asleep(sleeper, tag, piece_count, bytes);
        return status;
    }
    tag->keeps = request->level == MBR_SLEEP_KEEP;
    if (tag->keeps)
        result->copied_bytes = tag->bytes - bytes;
    else
        mbr_chunks_return(sleeper, tag, 0);
    return settle_down(sleeper, tag, state, result, error);
}

/* The tag is MOVING; *state is what it was, and then what it is. */
static mbr_status sleep_tag(mbr_sleeper *sleeper, mbr_tag *tag, const mbr_sleep_request *request,
    mbr_tag_state *state, mbr_sleep_result *result, mbr_error *error)
{
    mbr_status status = mbr_chunks_await_late(sleeper, tag, request->deadline_ns, error);
    if (status != MBR_OK)
        return status;
    return *state == MBR_TAG_AWAKE ? fall_asleep(sleeper, tag, request, state, result, error)
                                   : sleep_on(sleeper, tag, request, state, result, error);
}

mbr_status mbr_sleeper_sleep(mbr_sleeper *sleeper, const mbr_sleep_request *request,
    mbr_sleep_result *result, mbr_error *error)
{
    mbr_sleep_result whole = {MBR_SIZED(mbr_sleep_result)};
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_sleep_request own;
    mbr_tag_state state;
    mbr_status status = MBR_TAKE(&own, mbr_sleep_request, deadline_ns, request, error);
    if (status != MBR_OK)
        return status;
    if (own.level != MBR_SLEEP_KEEP && own.level != MBR_SLEEP_DROP)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 1,
            "level %u is neither MBR_SLEEP_KEEP nor MBR_SLEEP_DROP", own.level);
    if (own.level == MBR_SLEEP_KEEP && sleeper->arena.value == 0)
        return mbr_fail(error, MBR_UNSUPPORTED,
            "the sleeper has no arena to keep contents in; MBR_SLEEP_DROP would work");
    mbr_tag *tag = mbr_tag_begin_move(sleeper, own.tag, &state, &status, error);
    if (tag == NULL)
        return status;
    status = sleep_tag(sleeper, tag, &own, &state, &whole, error);
    mbr_tag_end_move(sleeper, tag, state);
    mbr_growable_give(result, &whole, sizeof(whole));
    return status;
}

/* ---- Wake */

/* A stretch of new memory is mapped while the copies into the one before run. It is as long as it
 * must be so that what each costs by itself does not count: the driver's calls are a few tens of
 * microseconds for each extent, however large, a copy's start some ten; at 50 GB/s, as much as
 * PCIe 5 has, 16 MiB take 340. A copy ends with its chunk anyway. */
#define STRETCH_LEAST_BYTES (UINT64_C(16) << 20)

static mbr_status copy_in(void *context, uint64_t from, uint64_t to, bool *has_enqueued)
{
    mbr_copies *copies = context;
    mbr_status status = mbr_chunks_copy(copies, from, to);
    *has_enqueued = copies->has_enqueued;
    return status;
}

/* All of the memory; with contents, also their copies behind it. */
static mbr_status grow(mbr_sleeper *sleeper, const mbr_tag *tag, const mbr_wake_request *request,
    mbr_copies *copies, mbr_wake_result *result, mbr_error *error)
{
    if (tag->piece_count == 0)
        return MBR_OK;
    mbr_range_grow_request growth = {MBR_SIZED(mbr_range_grow_request),
        .flags = tag->keeps ? 0 : request->flags & MBR_WAKE_ZEROED, .holder = tag->holder,
        .stream = request->stream, .pieces = tag->pieces, .piece_count = tag->piece_count,
        .refusal = request->refusal};
    mbr_growth_watch watch = {mbr_min(STRETCH_LEAST_BYTES, sleeper->chunk_bytes), copy_in, copies};
    mbr_range_grow_result grown = {MBR_SIZED(mbr_range_grow_result)};
    mbr_status status = mbr_range_grow_kept(
        sleeper->manager, sleeper, &growth, tag->keeps ? &watch : NULL, &grown, error);
    result->content = grown.content;
    return status;
}

/* What a sleep that was refused in part has left committed goes first: else, after level 2, its old
 * bytes would come back as if they were new, and at level 1 an alias that was left alone with its
 * extent, or a sealed place, would be copied into, which may only be read. */
static mbr_status give_back_rest(mbr_sleeper *sleeper, const mbr_tag *tag, mbr_error *error)
{
    mbr_status status;
    mbr_sleep_result before = {MBR_SIZED(mbr_sleep_result)}, left = before;
    measure(sleeper, tag, &before);
    if (before.residual_bytes == 0)
        return MBR_OK;
    give_back(sleeper, tag, &status, error);
    mbr_range_evict_cache(sleeper->manager, tag->ranges->range, 0); /* what is stuck, once more */
    if (status != MBR_OK || tag->keeps) /* what cannot be unmapped is in the growth's way */
        return status;
    measure(sleeper, tag, &left);
    if (left.residual_bytes == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY,
        "%llu bytes of the tag are still committed, with contents that were given up; sleep again "
        "first",
        (unsigned long long)left.residual_bytes);
}

/* All is there: what was asleep is the client's again. */
static void open_eyes(mbr_sleeper *sleeper, mbr_tag *tag)
{
    mbr_chunks_return(sleeper, tag, 0);
    forget_pieces(sleeper, tag);
    unkeep_until(sleeper, tag, NULL);
}

/* Before anything is mapped: copies would be refused on a stream that is captured, and nothing that
 * was mapped in vain is unmapped meanwhile. */
static mbr_status prepare_to_wake(
    mbr_sleeper *sleeper, mbr_tag *tag, const mbr_wake_request *request, mbr_error *error)
{
    mbr_status status = mbr_chunks_await_late(sleeper, tag, request->deadline_ns, error);
    if (status == MBR_OK && tag->keeps && tag->bytes != 0)
        status = mbr_ep_copy(sleeper->manager, request->stream, 0, 0, 0, error);
    return status == MBR_OK ? give_back_rest(sleeper, tag, error) : status;
}

static mbr_status wake(mbr_sleeper *sleeper, mbr_tag *tag, const mbr_wake_request *request,
    mbr_wake_result *result, mbr_error *error)
{
    mbr_copies copies = {.sleeper = sleeper, .tag = tag, .stream = request->stream, .error = error};
    mbr_status ignored, status = prepare_to_wake(sleeper, tag, request, error);
    if (status == MBR_OK)
        status = grow(sleeper, tag, request, &copies, result, error);
    bool has_grown = status == MBR_OK;
    status = mbr_chunks_await(&copies, request->deadline_ns, status);
    if (has_grown && status != MBR_OK) {
        uint64_t given = give_back(sleeper, tag, &ignored, NULL);
        if (tag->late.value == 0)
            mbr_range_evict_cache(sleeper->manager, tag->ranges->range, given);
    }
    if (status != MBR_OK)
        return status;
    result->woken_bytes = tag->bytes;
    result->copied_bytes = copies.copied_bytes;
    open_eyes(sleeper, tag);
    return MBR_OK;
}

/* NULL: *status says why. */
static mbr_tag *begin_asleep(
    mbr_sleeper *sleeper, uint64_t name, mbr_status *status, mbr_error *error)
{
    mbr_tag_state state;
    mbr_tag *tag = mbr_tag_begin_move(sleeper, name, &state, status, error);
    if (tag == NULL || state == MBR_TAG_ASLEEP)
        return tag;
    mbr_tag_end_move(sleeper, tag, state);
    *status =
        mbr_fail(error, MBR_UNKNOWN_OBJECT, "the tag %llu is awake", (unsigned long long)name);
    return NULL;
}

mbr_status mbr_sleeper_wake(mbr_sleeper *sleeper, const mbr_wake_request *request,
    mbr_wake_result *result, mbr_error *error)
{
    mbr_wake_result whole = {MBR_SIZED(mbr_wake_result)};
    mbr_growable_give(result, &whole, sizeof(whole));
    mbr_wake_request own;
    mbr_status status = MBR_TAKE(&own, mbr_wake_request, refusal, request, error);
    if (status == MBR_OK)
        status = mbr_flags_check(own.flags, MBR_WAKE_ZEROED, "mbr_wake_request", error);
    if (status != MBR_OK)
        return status;
    mbr_tag *tag = begin_asleep(sleeper, own.tag, &status, error);
    if (tag == NULL)
        return status;
    status = wake(sleeper, tag, &own, &whole, error);
    mbr_tag_end_move(sleeper, tag, status == MBR_OK ? MBR_TAG_AWAKE : MBR_TAG_ASLEEP);
    mbr_growable_give(result, &whole, sizeof(whole));
    return status;
}

mbr_status mbr_sleeper_drop(
    mbr_sleeper *sleeper, uint64_t name, uint64_t deadline_ns, mbr_error *error)
{
    mbr_status status;
    mbr_tag *tag = begin_asleep(sleeper, name, &status, error);
    if (tag == NULL)
        return status;
    status = mbr_chunks_await_late(sleeper, tag, deadline_ns, error);
    if (status == MBR_OK)
        open_eyes(sleeper, tag);
    mbr_tag_end_move(sleeper, tag, status == MBR_OK ? MBR_TAG_AWAKE : MBR_TAG_ASLEEP);
    return status;
}
