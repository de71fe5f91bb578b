/* Counts reusable, shareable and shared bytes of prompts. Shares nothing itself, and knows nothing
 * of what the store keeps. */
#include "tools/cli/replay/reuse.h"

#include "host/holder/geometry/sharing.h"

#include "abi/base/checked.h"

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* A block behind one path of blocks. */
typedef struct seen_block {
    uint64_t path;
    UT_hash_handle hh;
} seen_block;

struct replay_reuse {
    seen_block *seen;
    uint32_t group_count;
    mbr_extents groups[MBR_GEOMETRY_GROUPS_MAX];
};

static bool lay_out(mbr_extents *extents, const mbr_layer_group *group,
    const mbr_replay_options *options, uint64_t max_tokens, const mbr_mechanism_figures *mechanism)
{
    mbr_layout layout;
    mbr_layout_request request = {
        .max_tokens = max_tokens, .granule_bytes = mechanism->granule_min_bytes};
    uint64_t extent_bytes = options->extent_bytes;
    if (mbr_layout_parse(options->layout, &request.kind, NULL) != MBR_GEOMETRY_OK ||
        mbr_layout_init(&layout, group, &request, NULL) != MBR_GEOMETRY_OK)
        return false;
    if (extent_bytes == 0 && request.kind != MBR_LAYOUT_WINDOW_MAJOR)
        extent_bytes = mechanism->granule_recommended_bytes;
    if (mbr_extents_init(extents, &layout, extent_bytes, NULL) != MBR_GEOMETRY_OK)
        return false;
    mbr_extent_rule *rule = &extents->rule;
    rule->max_bytes = mbr_min(rule->max_bytes, mechanism->extent_max_bytes);
    return mbr_extent_rule_next_boundary(rule, layout.span_bytes, &extents->reservation_bytes);
}

replay_reuse *replay_reuse_create(const mbr_replay_options *options, const char *model,
    uint64_t max_tokens, const mbr_mechanism_figures *mechanism)
{
    mbr_geometry geometry;
    replay_reuse *reuse = calloc(1, sizeof(*reuse));
    bool good = reuse != NULL && mbr_geometry_parse(model, &geometry, NULL) == MBR_GEOMETRY_OK;
    for (uint32_t i = 0; good && i < geometry.group_count; i++)
        good = lay_out(&reuse->groups[i], &geometry.groups[i], options, max_tokens, mechanism);
    if (!good) {
        free(reuse);
        return NULL;
    }
    reuse->group_count = geometry.group_count;
    return reuse;
}

void replay_reuse_destroy(replay_reuse *reuse)
{
    seen_block *block, *next;
    if (reuse == NULL)
        return;
    HASH_ITER(hh, reuse->seen, block, next)
    {
        HASH_DEL(reuse->seen, block);
        free(block);
    }
    free(reuse);
}

static uint64_t extend(uint64_t path, uint64_t id)
{
    uint64_t value = path * UINT64_C(0x9E3779B97F4A7C15) + id + 1;
    value = (value ^ (value >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    return value ^ (value >> 32);
}

static bool add_block(replay_reuse *reuse, uint64_t path)
{
    seen_block *block = malloc(sizeof(*block));
    if (block == NULL)
        return false;
    block->path = path;
    HASH_ADD(hh, reuse->seen, path, sizeof(block->path), block);
    if (block->hh.tbl != NULL)
        return true;
    free(block);
    return false;
}

/* How many leading whole blocks an earlier prompt had too; the others are seen from now on. */
static bool see_blocks(replay_reuse *reuse, const mbr_trace_request *request, uint64_t *known_count)
{
    uint64_t count = request->hash_count == 0 ? 0 : request->prompt_tokens / MBR_TRACE_BLOCK_TOKENS;
    uint64_t path = 0;
    *known_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        seen_block *block;
        path = extend(path, request->hash_ids[i]);
        HASH_FIND(hh, reuse->seen, &path, sizeof(path), block);
        *known_count += block != NULL;
        if (block == NULL && !add_block(reuse, path))
            return false;
    }
    return true;
}

/* Of all groups together. */
static mbr_sharing sharing_of(const replay_reuse *reuse, uint64_t tokens)
{
    mbr_sharing all = {0};
    for (uint32_t i = 0; i < reuse->group_count; i++) {
        mbr_sharing one;
        mbr_sharing_compute(&reuse->groups[i], tokens, &one, NULL);
        all.prefix_bytes += one.prefix_bytes;
        all.shared_bytes += one.shared_bytes;
        all.boundary_bytes += one.boundary_bytes;
    }
    return all;
}

bool replay_reuse_count(replay_reuse *reuse, const mbr_trace_request *request,
    uint64_t prefix_tokens, uint64_t shared_bytes, mbr_replay_reuse *figures)
{
    uint64_t known_count;
    if (!see_blocks(reuse, request, &known_count))
        return false;
    mbr_sharing could = sharing_of(reuse, known_count * MBR_TRACE_BLOCK_TOKENS);
    mbr_sharing came = sharing_of(reuse, prefix_tokens);
    figures->exact_bytes += could.prefix_bytes;
    figures->whole_bytes += could.prefix_bytes - could.boundary_bytes;
    /* Rows in extents that did not come, although they could, are none. */
    uint64_t rows = came.prefix_bytes - came.boundary_bytes;
    uint64_t missing = came.shared_bytes - mbr_min(came.shared_bytes, shared_bytes);
    figures->shared_bytes += rows - mbr_min(rows, missing);
    return true;
}
