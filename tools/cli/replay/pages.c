/* Moves the sequences of the paged stores, and writes and checks their rows. Does not decide when:
 * the run does (leaves.c). */
#include "tools/cli/replay/pages.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"

#include <string.h>

#define EXTENT_BYTES (UINT64_C(256) << 10)
#define PAGE_ROWS 128                 /* 4 KiB */
#define MAX_PAGES (UINT64_C(1) << 19) /* addresses for 2 GiB; none of it is committed at first */
#define WINDOW_ROWS 1024
#define SINK_ROWS 192 /* a page, and a part of one */
#define REWRITE_ROWS 200

/* ---- Life */

static mbr_status open_holders(replay_pages *pages, mbr_error *error)
{
    replay_world *world = pages->touch->world;
    mbr_holder_request request = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_KV,
        .authority = world->authority, .name = "pages", .allowance_bytes = MBR_NO_ALLOWANCE};
    mbr_status status = mbr_manager_create_holder(world->manager, &request, &pages->holder, error);
    request.role = MBR_ROLE_STAGING;
    request.name = "saved pages";
    return status == MBR_OK
        ? mbr_manager_create_holder(world->manager, &request, &pages->saved_holder, error)
        : status;
}

mbr_status replay_pages_open(replay_pages *pages, replay_touch *touch,
    mbr_replay_pages_report *report, uint64_t max_tokens, mbr_error *error)
{
    replay_world *world = touch->world;
    *pages = (replay_pages){.touch = touch, .report = report};
    mbr_status status = open_holders(pages, error);
    mbr_paged_request request = {MBR_SIZED(mbr_paged_request), .binding = world->binding,
        .holder = pages->holder, .saved_binding = world->binding,
        .saved_holder = pages->saved_holder, .token_bytes = sizeof(replay_stamp),
        .page_tokens = PAGE_ROWS, .extent_bytes = EXTENT_BYTES, .max_pages = MAX_PAGES,
        .max_tokens = mbr_max(max_tokens, SINK_ROWS)};
    if (status == MBR_OK)
        status = mbr_paged_create(world->manager, &request, &pages->stores[0], error);
    request.window_tokens = WINDOW_ROWS;
    request.sink_tokens = SINK_ROWS;
    if (status == MBR_OK)
        status = mbr_paged_create(world->manager, &request, &pages->stores[1], error);
    return status;
}

mbr_status replay_pages_close(replay_pages *pages, mbr_error *error)
{
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < REPLAY_PAGES_STORE_COUNT && status == MBR_OK; i++) {
        mbr_paged_figures figures = {MBR_SIZED(mbr_paged_figures)};
        if (pages->stores[i] == NULL)
            continue;
        mbr_paged_read(pages->stores[i], &figures, NULL);
        pages->report->copied_bytes += figures.copied_bytes;
        pages->report->preempted_count += figures.preempted_count;
        status = mbr_paged_destroy(pages->stores[i], error);
        if (status == MBR_OK)
            pages->stores[i] = NULL;
    }
    return status;
}

mbr_status replay_pages_forget(replay_pages *pages, mbr_error *error)
{
    mbr_manager *manager = pages->touch->world->manager;
    mbr_status status = MBR_OK;
    if (pages->holder.value != 0)
        status = mbr_manager_destroy_holder(manager, pages->holder, error);
    if (status == MBR_OK && pages->saved_holder.value != 0)
        status = mbr_manager_destroy_holder(manager, pages->saved_holder, error);
    return status;
}

/* ---- Rows */

static replay_stamp stamp_of(const replay_pages *pages, replay_writer writer, uint64_t row)
{
    return (replay_stamp){.writer = writer,
        .index = row,
        .tokens = (row + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ pages->touch->seed};
}

/* Rows [first, end) that lie side by side, at an address. */
static void visit(replay_pages *pages, const replay_leaf *leaf, uint64_t first, uint64_t end,
    uint64_t address, bool write)
{
    const replay_touch *touch = pages->touch;
    uint64_t bytes = (end - first) * sizeof(replay_stamp);
    if (!write && touch->meddler != NULL)
        touch->meddler->meddle(touch->meddler->context, address, bytes);
    for (uint64_t row = first; row < end; row++, address += sizeof(replay_stamp)) {
        replay_stamp stamp = stamp_of(pages, replay_written_by(&leaf->written, row), row);
        void *place = (void *)(uintptr_t)address; // NOLINT: an address of the store
        if (write)
            memcpy(place, &stamp, sizeof(stamp));
        else
            replay_touch_judge(pages->touch, address, &stamp, place);
    }
    *(write ? &pages->report->written_count : &pages->report->verified_count) += end - first;
}

/* All rows of [first, end) that no window has dropped. */
static mbr_status visit_rows(replay_pages *pages, const replay_leaf *leaf, uint64_t first,
    uint64_t end, bool write, mbr_error *error)
{
    mbr_paged_sequence_figures figures = {MBR_SIZED(mbr_paged_sequence_figures)};
    mbr_status status = mbr_paged_read_sequence(leaf->store, leaf->sequence, &figures, error);
    while (status == MBR_OK && first < end) {
        uint64_t address, rows;
        if (first >= figures.sink_tokens && first < figures.first_token) {
            first = figures.first_token;
            continue;
        }
        status = mbr_paged_locate(leaf->store, leaf->sequence, first, &address, &rows, error);
        if (status != MBR_OK)
            break;
        rows = mbr_min(rows, end - first);
        visit(pages, leaf, first, first + rows, address, write);
        first += rows;
    }
    return status;
}

static mbr_status check_all(replay_pages *pages, const replay_leaf *leaf, mbr_error *error)
{
    return visit_rows(pages, leaf, 0, replay_written_tokens(&leaf->written), false, error);
}

/* No refusal of the library's, which would only drop the leaf. */
static mbr_status no_memory(mbr_error *error)
{
    return mbr_fail(error, MBR_SYSTEM, "out of memory for who wrote which rows");
}

/* ---- Moves */

static mbr_status append(replay_pages *pages, replay_leaf *leaf, uint64_t tokens, mbr_error *error)
{
    uint64_t before = replay_written_tokens(&leaf->written);
    if (tokens <= before)
        return MBR_OK;
    mbr_status status = mbr_paged_append(leaf->store, leaf->sequence, tokens - before, NULL, error);
    if (status != MBR_OK)
        return status;
    leaf->last_tokens = before;
    return replay_written_set(&leaf->written, before, tokens, leaf->writer)
        ? visit_rows(pages, leaf, before, tokens, true, error)
        : no_memory(error);
}

/* Back to what the last append began with, which a window has kept, and forward again. */
static mbr_status rewind_and_append(
    replay_pages *pages, replay_leaf *leaf, uint64_t tokens, mbr_error *error)
{
    mbr_status status = mbr_paged_rewind(leaf->store, leaf->sequence, leaf->last_tokens, error);
    if (status != MBR_OK)
        return status;
    pages->report->rewind_count++;
    replay_written_cut(&leaf->written, leaf->last_tokens);
    return append(pages, leaf, tokens, error);
}

/* Rows in the middle of what it has are written anew; where others have their pages, too, these
 * keep what they had. */
static mbr_status rewrite(replay_pages *pages, replay_leaf *leaf, mbr_error *error)
{
    uint64_t end = replay_written_tokens(&leaf->written);
    uint64_t first = end - mbr_min(end, REWRITE_ROWS + pages->step_count % PAGE_ROWS);
    uint64_t last = mbr_min(end, first + REWRITE_ROWS / 2);
    mbr_status status =
        mbr_paged_prepare(leaf->store, leaf->sequence, first, last - first, NULL, error);
    if (status != MBR_OK)
        return status;
    replay_writer again = {
        leaf->writer.allocation, leaf->writer.generation | ++pages->version_count << 32};
    return replay_written_set(&leaf->written, first, last, again)
        ? visit_rows(pages, leaf, first, last, true, error)
        : no_memory(error);
}

static mbr_status move(replay_pages *pages, replay_leaf *leaf, uint64_t tokens, mbr_error *error)
{
    uint64_t step = pages->step_count++;
    mbr_status status = step % 3 == 0 && leaf->last_tokens != 0
        ? rewind_and_append(pages, leaf, tokens, error)
        : append(pages, leaf, tokens, error);
    if (status == MBR_OK && step % 4 == 1)
        status = rewrite(pages, leaf, error);
    if (status == MBR_OK && step % 4 == 2)
        status = mbr_paged_offer(leaf->store, leaf->sequence, error);
    if (status == MBR_OK && step % 4 == 3)
        status = mbr_paged_preempt(leaf->store, leaf->sequence, NULL, error);
    return status;
}

/* The source is where it was, or resident. */
static mbr_status fork_leaf(replay_pages *pages, replay_leaf *leaf, const replay_leaf *source,
    uint64_t alike, mbr_error *error)
{
    mbr_status status = mbr_paged_restore(source->store, source->sequence, NULL, error);
    if (status == MBR_OK)
        status = mbr_paged_fork(source->store, source->sequence, &leaf->sequence, error);
    if (status != MBR_OK)
        return status;
    pages->report->fork_count++;
    uint64_t tokens = mbr_min(alike, replay_written_tokens(&source->written));
    if (mbr_paged_rewind(leaf->store, leaf->sequence, tokens, error) != MBR_OK)
        tokens = replay_written_tokens(&source->written); /* dropped by the window: all of it */
    return replay_written_copy(&leaf->written, &source->written, tokens) ? MBR_OK
                                                                         : no_memory(error);
}

mbr_status replay_leaf_begin(replay_pages *pages, replay_leaf *leaf, replay_leaf *source,
    uint64_t alike, uint64_t tokens, mbr_error *error)
{
    mbr_status status = MBR_OK;
    if (source != NULL)
        status = fork_leaf(pages, leaf, source, alike, error);
    else
        status = mbr_paged_begin(leaf->store, &leaf->sequence, error);
    if (status == MBR_OK && source != NULL)
        status = check_all(pages, leaf, error);
    if (status == MBR_OK)
        status = append(pages, leaf, tokens, error);
    if (status == MBR_OK)
        return MBR_OK;
    if (leaf->sequence.value != 0)
        mbr_paged_end(leaf->store, leaf->sequence, NULL);
    leaf->sequence.value = 0;
    replay_written_finish(&leaf->written);
    return status;
}

mbr_status replay_leaf_preempt(replay_pages *pages, replay_leaf *leaf, mbr_error *error)
{
    (void)pages;
    return mbr_paged_preempt(leaf->store, leaf->sequence, NULL, error);
}

mbr_status replay_leaf_restore(replay_pages *pages, replay_leaf *leaf, mbr_error *error)
{
    mbr_status status = mbr_paged_restore(leaf->store, leaf->sequence, NULL, error);
    return status == MBR_OK ? check_all(pages, leaf, error) : status;
}

mbr_status replay_leaf_follow(
    replay_pages *pages, replay_leaf *leaf, uint64_t tokens, mbr_error *error)
{
    mbr_status status = replay_leaf_restore(pages, leaf, error);
    return status == MBR_OK ? move(pages, leaf, tokens, error) : status;
}

mbr_status replay_leaf_end(replay_pages *pages, replay_leaf *leaf, mbr_error *error)
{
    mbr_status status = replay_leaf_restore(pages, leaf, error);
    mbr_status ended = mbr_paged_end(leaf->store, leaf->sequence, status == MBR_OK ? error : NULL);
    leaf->sequence.value = 0;
    replay_written_finish(&leaf->written);
    return status == MBR_OK ? ended : status;
}
