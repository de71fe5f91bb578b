/* Writes and checks contents as operations of the sequences' streams. Allocates no device memory.
 */
#include "tools/cli/replay/touch.h"

#include "abi/base/checked.h"

#include <stdlib.h>
#include <string.h>

/* One stream operation over [address, address + bytes). */
typedef struct touch_job {
    replay_touch *touch;
    const mbr_trace_request *request;
    uint64_t tag;
    uint64_t address, bytes;
    uint64_t base; /* the group's address */
    uint32_t group;
    bool write;
    mbr_kv_strides strides;
} touch_job;

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 33)) * UINT64_C(0xFF51AFD7ED558CCD);
    value = (value ^ (value >> 29)) * UINT64_C(0xC4CEB9FE1A85EC53);
    return value ^ (value >> 32);
}

/* The first token whose row may lie at this offset: by window, by fragment, or in one run. */
static uint64_t token_at(const mbr_kv_strides *strides, uint64_t offset)
{
    if (strides->window_bytes != 0)
        return offset / strides->window_bytes * strides->window_tokens;
    uint64_t fragment = UINT64_MAX;
    const uint64_t steps[] = {strides->head_bytes, strides->plane_bytes, strides->layer_bytes};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i] > strides->token_bytes)
            fragment = mbr_min(fragment, steps[i]);
    }
    return offset % fragment / strides->token_bytes;
}

static uint8_t expected(const touch_job *job, uint64_t address)
{
    uint64_t offset = address - job->base;
    uint64_t token = token_at(&job->strides, offset);
    uint64_t block = token / MBR_TRACE_BLOCK_TOKENS;
    bool named = job->request->hash_ids != NULL &&
        (block + 1) * MBR_TRACE_BLOCK_TOKENS <= job->request->prompt_tokens;
    uint64_t who = named ? job->request->hash_ids[block] : ~job->tag;
    return (uint8_t)mix(mix(who ^ job->touch->seed) + offset + job->group);
}

static uint64_t first_granule(const touch_job *job)
{
    uint64_t granule = job->touch->granule_bytes;
    return (job->address + granule - 1) / granule * granule;
}

static void judge(const touch_job *job, uint64_t address, uint8_t found)
{
    replay_touch *touch = job->touch;
    if (found != expected(job, address) && atomic_fetch_add(&touch->wrong_count, 1) == 0)
        atomic_store(&touch->first_wrong_address, address);
}

static void count(const touch_job *job, uint64_t granules)
{
    replay_touch *touch = job->touch;
    atomic_fetch_add(job->write ? &touch->written_count : &touch->verified_count, granules);
}

/* ---- By the processor, on the stream's worker */
static void run_job(void *context)
{
    touch_job *job = context;
    uint64_t granules = 0, end = job->address + job->bytes;
    for (uint64_t at = first_granule(job); at < end; at += job->touch->granule_bytes, granules++) {
        uint8_t *byte = (uint8_t *)(uintptr_t)at;
        if (job->write)
            *byte = expected(job, at);
        else
            judge(job, at, *byte);
    }
    count(job, granules);
    free(job);
}

static bool submit_to_processor(replay_touch *touch, const touch_job *job, uint32_t stream)
{
    touch_job *kept = malloc(sizeof(*kept));
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
static mbr_status fill_granules(const touch_job *job, mbr_stream_handle stream, uint64_t *granules)
{
    replay_touch *touch = job->touch;
    uint64_t end = job->address + job->bytes;
    mbr_status status = MBR_OK;
    for (uint64_t at = first_granule(job); at < end && status == MBR_OK;
         at += touch->granule_bytes, ++*granules)
        status =
            mbr_ep_fill(touch->world->manager, stream, at, expected(job, at), 1, &touch->error);
    return status;
}

/* Copies one byte of each granule to `found`, and waits for them. */
static mbr_status fetch_granules(const touch_job *job, mbr_stream_handle stream, uint8_t *found,
    uint64_t *granules, bool *is_over)
{
    replay_touch *touch = job->touch;
    uint64_t end = job->address + job->bytes;
    mbr_status status = MBR_OK;
    for (uint64_t at = first_granule(job); at < end && status == MBR_OK;
         at += touch->granule_bytes, ++*granules)
        status = mbr_ep_copy(touch->world->manager, stream, (uint64_t)(uintptr_t)&found[*granules],
            at, 1, &touch->error);
    /* Also after a failure: what is under way still writes to `found`. */
    mbr_status waited = mbr_ep_synchronize(touch->world->manager, stream,
        replay_drain_deadline_ns(), status == MBR_OK ? &touch->error : NULL);
    *is_over = waited == MBR_OK;
    return status == MBR_OK ? waited : status;
}

static bool submit_to_device(replay_touch *touch, const touch_job *job, uint32_t stream)
{
    mbr_stream_handle handle = touch->world->streams[stream];
    uint64_t granules = 0;
    if (job->write) {
        mbr_status status = fill_granules(job, handle, &granules);
        count(job, status == MBR_OK ? granules : 0);
        return status == MBR_OK;
    }
    uint8_t *found = calloc(job->bytes / touch->granule_bytes + 1, 1);
    if (found == NULL)
        return false;
    bool is_over;
    mbr_status status = fetch_granules(job, handle, found, &granules, &is_over);
    for (uint64_t i = 0; i < granules && status == MBR_OK; i++)
        judge(job, first_granule(job) + i * touch->granule_bytes, found[i]);
    count(job, status == MBR_OK ? granules : 0);
    if (is_over) /* else nobody knows whether the device still writes there */
        free(found);
    return status == MBR_OK;
}

const char *replay_touch_reason(const replay_touch *touch)
{
    return touch->error.status != MBR_OK ? touch->error.text : "out of memory";
}

static bool submit(replay_touch *touch, replay_contents *contents, uint32_t group,
    const mbr_kv_strides *strides, uint64_t address, uint64_t bytes, bool write)
{
    touch_job job = {touch, contents->request, contents->tag, address, bytes, strides->address,
        group, write, *strides};
    touch->error = (mbr_error){MBR_SIZED(mbr_error)};
    return touch->world->cpu != NULL ? submit_to_processor(touch, &job, contents->stream)
                                     : submit_to_device(touch, &job, contents->stream);
}

/* The group whose reservation holds the address. */
static bool find_group(const mbr_sequence *sequence, uint64_t address, uint32_t groups,
    uint32_t *group, mbr_kv_strides *strides)
{
    uint64_t best = 0;
    for (uint32_t i = 0; i < groups; i++) {
        mbr_kv_strides candidate = {MBR_SIZED(mbr_kv_strides)};
        if (mbr_sequence_strides(sequence, i, &candidate, NULL) != MBR_OK)
            return false;
        if (candidate.address <= address && candidate.address >= best) {
            best = candidate.address;
            *group = i;
            *strides = candidate;
        }
    }
    return best != 0;
}

static bool remember(replay_touched *touched, uint64_t index, uint64_t address, uint64_t bytes)
{
    if (index >= touched->capacity) {
        uint64_t capacity = mbr_max(4, 2 * index);
        void *grown = realloc(touched->ranges, capacity * sizeof(*touched->ranges));
        if (grown == NULL)
            return false;
        touched->ranges = grown;
        memset(&touched->ranges[touched->capacity], 0,
            (capacity - touched->capacity) * sizeof(*touched->ranges));
        touched->capacity = capacity;
    }
    touched->ranges[index].address = address;
    touched->ranges[index].bytes = bytes;
    touched->count = mbr_max(touched->count, index + 1);
    return true;
}

/* [from, to) of one private range: what lies behind the end of the last walk to be written, or what
 * that wrote to be checked. */
static void choose_part(const replay_touched *touched, uint64_t index, uint64_t address,
    uint64_t bytes, bool write, uint64_t *from, uint64_t *to)
{
    uint64_t known = address;
    if (index < touched->count && touched->ranges[index].bytes != 0)
        known = touched->ranges[index].address + touched->ranges[index].bytes;
    known = known < address || known > address + bytes ? address : known;
    *from = write ? known : address;
    *to = write ? address + bytes : known;
}

static bool walk_private(
    replay_touch *touch, replay_contents *contents, uint32_t groups, bool write)
{
    uint64_t cursor = 0, address, bytes;
    for (uint64_t index = 0;; index++) {
        mbr_sequence_next_private(contents->sequence, &cursor, &address, &bytes, NULL);
        if (bytes == 0)
            return true;
        uint32_t group;
        mbr_kv_strides strides;
        uint64_t from, to;
        if (!find_group(contents->sequence, address, groups, &group, &strides))
            return false;
        choose_part(&contents->touched, index, address, bytes, write, &from, &to);
        if (to > from && !submit(touch, contents, group, &strides, from, to - from, write))
            return false;
        if (write && !remember(&contents->touched, index, address, bytes))
            return false;
    }
}

static uint32_t group_count(const mbr_sequence *sequence)
{
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    mbr_sequence_read(sequence, &figures, NULL);
    return figures.group_count;
}

bool replay_touch_new(replay_touch *touch, replay_contents *contents)
{
    return walk_private(touch, contents, group_count(contents->sequence), true);
}

bool replay_verify_shared(replay_touch *touch, replay_contents *contents)
{
    uint32_t groups = group_count(contents->sequence);
    uint64_t cursor = 0, address, bytes;
    for (;;) {
        mbr_sequence_next_shared(contents->sequence, &cursor, &address, &bytes, NULL);
        if (bytes == 0)
            return true;
        uint32_t group;
        mbr_kv_strides strides;
        if (!find_group(contents->sequence, address, groups, &group, &strides) ||
            !submit(touch, contents, group, &strides, address, bytes, false))
            return false;
    }
}

bool replay_verify_all(replay_touch *touch, replay_contents *contents)
{
    return walk_private(touch, contents, group_count(contents->sequence), false) &&
        replay_verify_shared(touch, contents);
}

void replay_touched_finish(replay_touched *touched)
{
    free(touched->ranges);
    *touched = (replay_touched){0};
}
