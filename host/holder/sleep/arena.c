/* The arena of a sleeper: chunks that hold what sleeps, and the copies to and from them. Knows no
 * state of a tag, and changes no range. */
#include "host/bind/seams.h"
#include "host/holder/sleep/internal.h"

#include <utlist.h>

/* ---- Chunks */

static mbr_sleep_chunk *take_free(mbr_sleeper *sleeper)
{
    mbr_lock_take(&sleeper->lock);
    mbr_sleep_chunk *chunk = sleeper->free;
    if (chunk != NULL) {
        chunk = chunk->prev; /* the warmest */
        DL_DELETE(sleeper->free, chunk);
        sleeper->free_bytes -= chunk->charged_bytes;
    }
    mbr_lock_drop(&sleeper->lock);
    return chunk;
}

static void put_free(mbr_sleeper *sleeper, mbr_sleep_chunk *chunk)
{
    mbr_lock_take(&sleeper->lock);
    DL_APPEND(sleeper->free, chunk);
    sleeper->free_bytes += chunk->charged_bytes;
    mbr_lock_drop(&sleeper->lock);
}

static mbr_sleep_chunk *make_chunk(
    mbr_sleeper *sleeper, mbr_stream_handle stream, mbr_status *status, mbr_error *error)
{
    mbr_sleep_chunk *chunk = mbr_heap_allocate(&sleeper->heap, sizeof(*chunk));
    if (chunk == NULL) {
        *status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a chunk's record");
        return NULL;
    }
    mbr_alloc_request request = {MBR_SIZED(mbr_alloc_request), .binding = sleeper->arena,
        .holder = sleeper->holder, .stream = stream, .bytes = sleeper->chunk_bytes};
    mbr_alloc_result result = {MBR_SIZED(mbr_alloc_result)};
    *status = mbr_alloc(sleeper->manager, &request, &result, error);
    if (*status != MBR_OK) {
        mbr_heap_release(&sleeper->heap, chunk);
        return NULL;
    }
    *chunk = (mbr_sleep_chunk){.allocation = result.allocation,
        .address = result.address,
        .charged_bytes = result.charged_bytes};
    mbr_lock_take(&sleeper->lock);
    sleeper->arena_bytes += chunk->charged_bytes;
    mbr_lock_drop(&sleeper->lock);
    return chunk;
}

mbr_status mbr_chunks_take(
    mbr_sleeper *sleeper, mbr_tag *tag, mbr_stream_handle stream, mbr_error *error)
{
    mbr_status status = MBR_OK;
    mbr_sleep_chunk *chunk;
    uint64_t had_bytes = 0;
    DL_FOREACH(tag->chunks, chunk)
    had_bytes += sleeper->chunk_bytes;
    for (uint64_t room = had_bytes; room < tag->bytes; room += sleeper->chunk_bytes) {
        chunk = take_free(sleeper);
        if (chunk == NULL)
            chunk = make_chunk(sleeper, stream, &status, error);
        if (chunk == NULL) {
            mbr_chunks_return(sleeper, tag, had_bytes);
            return status;
        }
        DL_APPEND(tag->chunks, chunk);
    }
    return MBR_OK;
}

uint64_t mbr_chunks_free(mbr_sleeper *sleeper, uint64_t bytes, mbr_error *error)
{
    uint64_t freed = 0;
    mbr_sleep_chunk *chunk;
    while (freed < bytes && (chunk = take_free(sleeper)) != NULL) {
        mbr_free_request request = {
            MBR_SIZED(mbr_free_request), .flags = MBR_FREE_NOW, .allocation = chunk->allocation};
        if (mbr_free(sleeper->manager, &request, error) != MBR_OK) { /* the queue is full */
            put_free(sleeper, chunk);
            break;
        }
        freed += chunk->charged_bytes;
        mbr_lock_take(&sleeper->lock);
        sleeper->arena_bytes -= chunk->charged_bytes;
        mbr_lock_drop(&sleeper->lock);
        mbr_heap_release(&sleeper->heap, chunk);
    }
    return freed;
}

void mbr_chunks_return(mbr_sleeper *sleeper, mbr_tag *tag, uint64_t kept_bytes)
{
    mbr_sleep_chunk *chunk, *next;
    uint64_t room = 0;
    DL_FOREACH_SAFE(tag->chunks, chunk, next)
    {
        bool is_kept = room < kept_bytes;
        room += sleeper->chunk_bytes;
        if (is_kept)
            continue;
        DL_DELETE(tag->chunks, chunk);
        put_free(sleeper, chunk);
    }
    mbr_lock_take(&sleeper->lock);
    uint64_t excess = sleeper->free_bytes - mbr_min(sleeper->free_bytes, sleeper->keep_bytes);
    mbr_lock_drop(&sleeper->lock);
    mbr_chunks_free(sleeper, excess, NULL);
}

uint64_t mbr_sleeper_could_give(mbr_sleeper *sleeper, uint64_t wanted_bytes)
{
    if (mbr_manager_is_capturing(sleeper->manager, sleeper->arena))
        return 0;
    mbr_lock_take(&sleeper->lock);
    uint64_t bytes = mbr_min(sleeper->free_bytes, wanted_bytes);
    mbr_lock_drop(&sleeper->lock);
    return bytes;
}

uint64_t mbr_sleeper_give(mbr_sleeper *sleeper, uint64_t wanted_bytes)
{
    bool stays = mbr_manager_is_capturing(sleeper->manager, sleeper->arena);
    return stays ? 0 : mbr_chunks_free(sleeper, wanted_bytes, NULL);
}

/* ---- Copies */

/* What is left of a lost device copies nothing any more. */
static bool may_run_on(mbr_status waited)
{
    return waited != MBR_OK && MBR_STATUS_CLASS(waited) != MBR_CLASS_LOST;
}

mbr_status mbr_chunks_await_late(
    mbr_sleeper *sleeper, mbr_tag *tag, uint64_t deadline_ns, mbr_error *error)
{
    if (tag->late.value == 0)
        return MBR_OK;
    mbr_status status = mbr_ep_synchronize(sleeper->manager, tag->late, deadline_ns, error);
    if (may_run_on(status))
        return status;
    tag->late.value = 0;
    return MBR_OK;
}

/* The longest one that a single piece and a single chunk hold. */
static mbr_status copy_next(mbr_copies *copies, uint64_t most_bytes)
{
    const mbr_tag *tag = copies->tag;
    if (copies->chunk_bytes == copies->sleeper->chunk_bytes) {
        copies->chunk = copies->chunk->next;
        copies->chunk_bytes = 0;
    }
    while (copies->piece_bytes == tag->pieces[copies->piece].bytes) {
        copies->piece++;
        copies->piece_bytes = 0;
    }
    uint64_t bytes = mbr_min(most_bytes,
        mbr_min(tag->pieces[copies->piece].bytes - copies->piece_bytes,
            copies->sleeper->chunk_bytes - copies->chunk_bytes));
    uint64_t here = tag->addresses[copies->piece] + copies->piece_bytes;
    uint64_t there = copies->chunk->address + copies->chunk_bytes;
    mbr_status status = mbr_ep_copy(copies->sleeper->manager, copies->stream,
        copies->out ? there : here, copies->out ? here : there, bytes, copies->error);
    copies->has_enqueued |= status != MBR_BUSY; /* another failure may have enqueued it */
    if (status != MBR_OK)
        return status;
    copies->piece_bytes += bytes;
    copies->chunk_bytes += bytes;
    copies->done_bytes += bytes;
    copies->copied_bytes += bytes;
    return MBR_OK;
}

/* Behind the tag's first `from` bytes; the end of a piece, or of a chunk, is a place in it. */
static void begin_at(mbr_copies *copies, uint64_t from)
{
    const mbr_tag *tag = copies->tag;
    copies->copied_bytes = 0;
    copies->done_bytes = copies->piece_bytes = copies->chunk_bytes = from;
    copies->chunk = tag->chunks;
    for (; copies->chunk_bytes > copies->sleeper->chunk_bytes; copies->chunk = copies->chunk->next)
        copies->chunk_bytes -= copies->sleeper->chunk_bytes;
    copies->piece = 0;
    for (; copies->piece_bytes > tag->pieces[copies->piece].bytes; copies->piece++)
        copies->piece_bytes -= tag->pieces[copies->piece].bytes;
}

mbr_status mbr_chunks_copy(mbr_copies *copies, uint64_t from, uint64_t to)
{
    if (from == to)
        return MBR_OK;
    if (copies->chunk == NULL || copies->done_bytes != from)
        begin_at(copies, from);
    mbr_status status = MBR_OK;
    while (copies->done_bytes < to && status == MBR_OK)
        status = copy_next(copies, to - copies->done_bytes);
    return status;
}

mbr_status mbr_chunks_await(mbr_copies *copies, uint64_t deadline_ns, mbr_status status)
{
    mbr_sleeper *sleeper = copies->sleeper;
    if (!copies->has_enqueued)
        return status;
    mbr_status waited = mbr_ep_synchronize(
        sleeper->manager, copies->stream, deadline_ns, status == MBR_OK ? copies->error : NULL);
    if (may_run_on(waited))
        copies->tag->late = copies->stream;
    if (status == MBR_OK)
        status = waited;
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&sleeper->lock);
    sleeper->copied_bytes += copies->copied_bytes;
    mbr_lock_drop(&sleeper->lock);
    return MBR_OK;
}
