/* Writes and checks marks. Allocates no device memory, and does not know which ranges a sequence
 * has. */
#include "tools/cli/replay/mark.h"

#include "abi/base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 33)) * UINT64_C(0xFF51AFD7ED558CCD);
    value = (value ^ (value >> 29)) * UINT64_C(0xC4CEB9FE1A85EC53);
    return value ^ (value >> 32);
}

static uint64_t mark_bytes(const replay_touch *touch)
{
    return touch->has_stamps ? sizeof(replay_stamp) : 1;
}

/* The token whose row lies at this offset: by window, by fragment, or in one run. In the padding of
 * a window, one of the window's. */
static uint64_t token_at(const mbr_kv_strides *strides, uint64_t offset)
{
    uint64_t fragment = UINT64_MAX, first = 0;
    const uint64_t steps[] = {strides->head_bytes, strides->plane_bytes, strides->layer_bytes};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i] > strides->token_bytes)
            fragment = mbr_min(fragment, steps[i]);
    }
    if (strides->window_bytes != 0) {
        first = offset / strides->window_bytes * strides->window_tokens;
        offset %= strides->window_bytes;
    }
    return first + offset % fragment / strides->token_bytes;
}

/* Whether [offset, offset + bytes) lies in rows of the job's tokens, in no padding. */
static bool is_in_rows(const replay_mark_job *job, uint64_t offset, uint64_t bytes)
{
    const mbr_kv_strides *strides = &job->strides;
    const mbr_layer_group *group = &job->touch->geometry.groups[job->group];
    uint64_t last = offset + bytes - 1;
    if (strides->window_bytes != 0) {
        uint64_t rows = strides->window_tokens * mbr_layer_group_token_bytes(group);
        if (offset % strides->window_bytes + bytes > rows)
            return false;
    }
    uint64_t first_token = token_at(strides, offset), last_token = token_at(strides, last);
    return mbr_min(first_token, last_token) >= job->token_first &&
        mbr_max(first_token, last_token) < job->token_end;
}

static replay_stamp stamp_at(const replay_mark_job *job, uint64_t address)
{
    uint64_t offset = address - job->strides.address;
    uint64_t block = token_at(&job->strides, offset) / MBR_TRACE_BLOCK_TOKENS;
    bool named = job->request->hash_ids != NULL &&
        (block + 1) * MBR_TRACE_BLOCK_TOKENS <= job->request->prompt_tokens;
    uint64_t who = named ? job->request->hash_ids[block] : ~job->tag;
    return (replay_stamp){.writer = job->writer,
        .index = offset / job->touch->step_bytes | (uint64_t)job->group << REPLAY_GROUP_SHIFT,
        .tokens = mix(mix(who ^ job->touch->seed) + offset + job->group)};
}

/* What of a stamp is the mark. */
static const void *mark_of(const replay_touch *touch, const replay_stamp *stamp)
{
    return touch->has_stamps ? (const void *)stamp : (const void *)&stamp->tokens;
}

/* ---- Walking and judging */

/* The first mark at or behind `address`, and every next one. False: none that is whole. */
static bool next_mark(const replay_mark_job *job, uint64_t *address)
{
    const replay_touch *touch = job->touch;
    uint64_t base = job->strides.address, bytes = mark_bytes(touch);
    for (uint64_t at = base +
             (*address - base + touch->step_bytes - 1) / touch->step_bytes * touch->step_bytes;
         at + bytes <= job->end; at += touch->step_bytes) {
        *address = at;
        if (!job->is_of_rows || is_in_rows(job, at - base, bytes))
            return true;
    }
    return false;
}

/* A mark that the end before cut in two was not written. */
static uint64_t first_address(const replay_mark_job *job)
{
    uint64_t bytes = mark_bytes(job->touch);
    return job->known - job->low < bytes ? job->low : job->known - bytes + 1;
}

void replay_touch_judge(
    replay_touch *touch, uint64_t address, const replay_stamp *expected, const void *found)
{
    if (memcmp(found, mark_of(touch, expected), mark_bytes(touch)) == 0 ||
        atomic_fetch_add(&touch->wrong_count, 1) != 0)
        return;
    touch->wrong_address = address;
    touch->expected = *expected;
    memcpy((void *)(uintptr_t)mark_of(touch, &touch->found), found, mark_bytes(touch));
    atomic_store(&touch->is_wrong, true);
}

static void judge(const replay_mark_job *job, uint64_t address, const void *found)
{
    replay_stamp expected = stamp_at(job, address);
    replay_touch_judge(job->touch, address, &expected, found);
}

static void count(const replay_mark_job *job, uint64_t marks)
{
    replay_touch *touch = job->touch;
    atomic_fetch_add(job->write ? &touch->written_count : &touch->verified_count, marks);
}

bool replay_touch_is_wrong(const replay_touch *touch, char text[MBR_REPLAY_TEXT_BYTES])
{
    if (!atomic_load(&touch->is_wrong))
        return false;
    const replay_stamp *expected = &touch->expected, *found = &touch->found;
    if (!touch->has_stamps)
        snprintf(text, MBR_REPLAY_TEXT_BYTES,
            "wrong contents at address %llx: expected byte %02x, found %02x",
            (unsigned long long)touch->wrong_address, (unsigned)(expected->tokens & 0xFF),
            (unsigned)(found->tokens & 0xFF));
    else
        snprintf(text, MBR_REPLAY_TEXT_BYTES,
            "wrong contents at address %llx: expected allocation %llx, generation %llu, index "
            "%llx, tokens %llx; found allocation %llx, generation %llu, index %llx, tokens %llx",
            (unsigned long long)touch->wrong_address,
            (unsigned long long)expected->writer.allocation,
            (unsigned long long)expected->writer.generation, (unsigned long long)expected->index,
            (unsigned long long)expected->tokens, (unsigned long long)found->writer.allocation,
            (unsigned long long)found->writer.generation, (unsigned long long)found->index,
            (unsigned long long)found->tokens);
    return true;
}

/* ---- By the processor, on the stream's worker */
static void run_job(void *context)
{
    replay_mark_job *job = context;
    const replay_touch *touch = job->touch;
    uint64_t marks = 0, at = first_address(job);
    if (job->meddles && touch->meddler != NULL)
        touch->meddler->meddle(touch->meddler->context, job->low, job->end - job->low);
    for (; next_mark(job, &at); at++, marks++) {
        void *place = (void *)(uintptr_t)at; // NOLINT: an address of the mechanism
        if (job->write) {
            replay_stamp stamp = stamp_at(job, at);
            memcpy(place, mark_of(touch, &stamp), mark_bytes(touch));
        } else
            judge(job, at, place);
    }
    count(job, marks);
    free(job);
}

static bool submit_to_processor(const replay_mark_job *job, uint32_t stream)
{
    replay_touch *touch = job->touch;
    replay_mark_job *kept = malloc(sizeof(*kept));
    if (kept == NULL)
        return false;
    *kept = *job;
    mbr_status status = mbr_cpu_host_function(
        touch->world->cpu, touch->world->natives[stream], run_job, kept, &touch->error);
    if (status != MBR_OK)
        free(kept);
    return status == MBR_OK;
}

/* ---- By the EP's fills and copies */
static bool fill_bytes(const replay_mark_job *job, mbr_stream_handle stream)
{
    replay_touch *touch = job->touch;
    uint64_t marks = 0;
    for (uint64_t at = first_address(job); next_mark(job, &at); at++, marks++) {
        uint8_t byte = (uint8_t)stamp_at(job, at).tokens;
        if (mbr_ep_fill(touch->world->manager, stream, at, byte, 1, &touch->error) != MBR_OK)
            return false;
    }
    count(job, marks);
    return true;
}

/* Copies marks to the device or from it, and waits for them. */
static mbr_status transfer(const replay_mark_job *job, mbr_stream_handle stream, uint8_t *marks,
    uint64_t *mark_count, bool *is_over)
{
    replay_touch *touch = job->touch;
    mbr_manager *manager = touch->world->manager;
    uint64_t bytes = mark_bytes(touch);
    mbr_status status = MBR_OK;
    for (uint64_t at = first_address(job); status == MBR_OK && next_mark(job, &at); at++) {
        uint8_t *mark = &marks[*mark_count * bytes];
        if (job->write) {
            replay_stamp stamp = stamp_at(job, at);
            memcpy(mark, mark_of(touch, &stamp), bytes);
        }
        uint64_t here = (uint64_t)(uintptr_t)mark;
        status = mbr_ep_copy(
            manager, stream, job->write ? at : here, job->write ? here : at, bytes, &touch->error);
        ++*mark_count;
    }
    /* Also after a failure: what is under way still uses `marks`. */
    mbr_status waited = mbr_ep_synchronize(manager, stream, replay_drain_deadline_ns(touch->world),
        status == MBR_OK ? &touch->error : NULL);
    *is_over = waited == MBR_OK;
    return status == MBR_OK ? waited : status;
}

static bool submit_to_device(const replay_mark_job *job, uint32_t stream)
{
    replay_touch *touch = job->touch;
    mbr_stream_handle handle = touch->world->streams[stream];
    if (job->write && !touch->has_stamps)
        return fill_bytes(job, handle);
    uint64_t bytes = mark_bytes(touch), mark_count = 0;
    uint8_t *marks = calloc((job->end - job->low) / touch->step_bytes + 1, bytes);
    if (marks == NULL)
        return false;
    bool is_over;
    mbr_status status = transfer(job, handle, marks, &mark_count, &is_over);
    uint64_t at = first_address(job);
    for (uint64_t i = 0; !job->write && i < mark_count && status == MBR_OK; i++, at++) {
        next_mark(job, &at);
        judge(job, at, &marks[i * bytes]);
    }
    count(job, status == MBR_OK ? mark_count : 0);
    if (is_over) /* else nobody knows whether the device still uses them */
        free(marks);
    return status == MBR_OK;
}

bool replay_mark_submit(const replay_mark_job *job, uint32_t stream)
{
    replay_touch *touch = job->touch;
    touch->error = (mbr_error){MBR_SIZED(mbr_error)};
    return touch->world->cpu != NULL ? submit_to_processor(job, stream)
                                     : submit_to_device(job, stream);
}

const char *replay_touch_reason(const replay_touch *touch)
{
    return touch->error.status != MBR_OK ? touch->error.text : "out of memory";
}
