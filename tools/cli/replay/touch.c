/* Walks what a sequence holds, to mark and to check it. Reads and writes no byte itself. */
#include "tools/cli/replay/touch.h"

#include "abi/base/checked.h"

#include <stdlib.h>

static mbr_sequence_figures figures_of(const mbr_sequence *sequence)
{
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    mbr_sequence_read(sequence, &figures, NULL);
    return figures;
}

/* The group whose reservation holds the address. */
static bool find_group(
    const mbr_sequence *sequence, uint64_t address, uint32_t *group, mbr_kv_strides *strides)
{
    uint32_t groups = figures_of(sequence).group_count;
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

/* A check of [address, address + bytes). */
static bool make_job(replay_touch *touch, const replay_contents *contents, uint64_t address,
    uint64_t bytes, replay_mark_job *job)
{
    *job = (replay_mark_job){.touch = touch,
        .request = contents->request,
        .tag = contents->tag,
        .writer = contents->origin.own,
        .low = address,
        .known = address,
        .end = address + bytes};
    return find_group(contents->sequence, address, &job->group, &job->strides);
}

/* One job for each writer's part of the range. */
static bool check_parts(
    const replay_contents *contents, const replay_origin *from, const replay_mark_job *all)
{
    uint64_t base = all->strides.address;
    for (uint64_t at = all->low; at < all->end;) {
        replay_part part = replay_origin_at(from, all->group, at - base);
        replay_mark_job job = *all;
        job.low = job.known = at;
        job.end = at = part.end - (at - base) < all->end - at ? base + part.end : all->end;
        job.writer = part.writer;
        if (!replay_mark_submit(&job, contents->stream))
            return false;
    }
    return true;
}

/* ---- What came with a prefix */

/* Who wrote the shared extents is noted as it is read of `from`. */
static bool inherit(
    replay_contents *contents, const replay_origin *from, const replay_mark_job *job)
{
    uint64_t base = job->strides.address, end = job->end - base;
    for (uint64_t at = job->low - base; at < end;) {
        replay_part part = replay_origin_at(from, job->group, at);
        part.start = at;
        part.end = at = mbr_min(part.end, end);
        if (!replay_origin_add(&contents->origin, &part))
            return false;
    }
    return true;
}

static bool walk_shared(replay_touch *touch, replay_contents *contents, const replay_origin *from)
{
    uint64_t cursor = 0, address, bytes;
    for (;;) {
        replay_mark_job job;
        mbr_sequence_next_shared(contents->sequence, &cursor, &address, &bytes, NULL);
        if (bytes == 0)
            return true;
        if (!make_job(touch, contents, address, bytes, &job) ||
            (from != NULL && !inherit(contents, from, &job)) ||
            !check_parts(contents, &contents->origin, &job))
            return false;
    }
}

/* Rows around the shared extents that were copied from the prefix's source. */
static bool check_copied(replay_touch *touch, const replay_contents *contents,
    const replay_origin *from, uint64_t prefix_tokens)
{
    uint64_t valid_tokens = figures_of(contents->sequence).valid_tokens;
    uint64_t cursor = 0, address, bytes;
    while (valid_tokens != 0) {
        replay_mark_job job;
        mbr_sequence_next_private(contents->sequence, &cursor, &address, &bytes, NULL);
        if (bytes == 0)
            break;
        if (!make_job(touch, contents, address, bytes, &job))
            return false;
        job.is_of_rows = true;
        job.token_first =
            mbr_layer_group_first_live(&touch->geometry.groups[job.group], prefix_tokens);
        job.token_end = valid_tokens;
        if (!check_parts(contents, from, &job))
            return false;
    }
    return true;
}

/* ---- What it has alone */

/* A walk over the private ranges of now beside those that were marked; both ascend. */
typedef struct private_walk {
    replay_contents *contents;
    uint64_t next; /* of the marked ones */
    replay_touched fresh;
} private_walk;

/* The marked range that the start of this one lies in; NULL: it is all new, or lies elsewhere. */
static const replay_range *find_marked(private_walk *walk, const replay_mark_job *range)
{
    const replay_touched *touched = &walk->contents->touched;
    uint64_t offset = range->low - range->strides.address;
    for (; walk->next < touched->count; walk->next++) {
        const replay_range *marked = &touched->ranges[walk->next];
        if (marked->group > range->group ||
            (marked->group == range->group && marked->offset > offset))
            return NULL;
        if (marked->group == range->group && marked->end > offset)
            return marked;
    }
    return NULL;
}

static bool add_range(replay_touched *touched, const replay_mark_job *range)
{
    if (touched->count == touched->capacity) {
        uint64_t capacity = mbr_max(4, 2 * touched->capacity);
        replay_range *grown = realloc(touched->ranges, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        touched->ranges = grown;
        touched->capacity = capacity;
    }
    uint64_t base = range->strides.address;
    touched->ranges[touched->count++] =
        (replay_range){range->group, base, range->low - base, range->end - base};
    return true;
}

/* Eager growth copies rows to other memory, where they are checked before they are marked anew. All
 * but the first fragment have other offsets there, and so their marks at other places. */
static bool check_moved(
    const replay_contents *contents, const replay_range *marked, const replay_mark_job *range)
{
    if (!range->touch->has_stamps || marked->offset != 0 || range->low != range->strides.address)
        return true;
    replay_mark_job job = *range;
    job.is_of_rows = true;
    job.token_end = contents->touched.tokens;
    return replay_mark_submit(&job, contents->stream);
}

static bool mark_range(private_walk *walk, const replay_range *marked, const replay_mark_job *range)
{
    replay_mark_job job = *range;
    uint64_t base = range->strides.address;
    if (marked != NULL && marked->base != base) {
        if (!check_moved(walk->contents, marked, range))
            return false;
    } else if (marked != NULL)
        job.known = mbr_min(base + marked->end, range->end);
    job.write = true;
    return add_range(&walk->fresh, range) &&
        (job.known == job.end || replay_mark_submit(&job, walk->contents->stream));
}

static bool check_range(
    const private_walk *walk, const replay_range *marked, const replay_mark_job *range)
{
    replay_mark_job job = *range;
    if (marked == NULL || marked->base != range->strides.address)
        return true;
    job.end = mbr_min(marked->base + marked->end, range->end);
    job.meddles = true;
    return replay_mark_submit(&job, walk->contents->stream);
}

static bool walk_ranges(replay_touch *touch, private_walk *walk, bool write)
{
    replay_contents *contents = walk->contents;
    uint64_t cursor = 0, address, bytes;
    for (;;) {
        replay_mark_job range;
        mbr_sequence_next_private(contents->sequence, &cursor, &address, &bytes, NULL);
        if (bytes == 0)
            return true;
        if (!make_job(touch, contents, address, bytes, &range))
            return false;
        const replay_range *marked = find_marked(walk, &range);
        if (!(write ? mark_range(walk, marked, &range) : check_range(walk, marked, &range)))
            return false;
    }
}

static bool mark_private(replay_touch *touch, replay_contents *contents)
{
    private_walk walk = {.contents = contents};
    bool good = walk_ranges(touch, &walk, true);
    free(contents->touched.ranges);
    contents->touched = walk.fresh;
    contents->touched.tokens = figures_of(contents->sequence).tokens;
    return good;
}

static bool check_private(replay_touch *touch, replay_contents *contents)
{
    private_walk walk = {.contents = contents};
    return walk_ranges(touch, &walk, false);
}

/* ---- The whole */

bool replay_touch_begin(replay_touch *touch, replay_contents *contents, const replay_origin *from,
    uint64_t prefix_tokens)
{
    return walk_shared(touch, contents, from) &&
        (from == NULL || check_copied(touch, contents, from, prefix_tokens)) &&
        mark_private(touch, contents);
}

bool replay_touch_grown(replay_touch *touch, replay_contents *contents)
{
    return (!touch->has_stamps || replay_verify_all(touch, contents)) &&
        mark_private(touch, contents);
}

bool replay_verify_all(replay_touch *touch, replay_contents *contents)
{
    return contents->is_lost ||
        (check_private(touch, contents) && walk_shared(touch, contents, NULL));
}

void replay_contents_finish(replay_contents *contents)
{
    free(contents->touched.ranges);
    contents->touched = (replay_touched){0};
    replay_origin_finish(&contents->origin);
}
