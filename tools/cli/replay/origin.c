/* Keeps who wrote what. Reads and writes no contents. */
#include "tools/cli/replay/origin.h"

#include "abi/base/checked.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct replay_origins {
    const mbr_kv_prefix *prefix;
    replay_origin origin;
    UT_hash_handle hh;
};

replay_part replay_origin_at(const replay_origin *origin, uint32_t group, uint64_t offset)
{
    replay_part own = {group, offset, UINT64_MAX, origin->own};
    for (uint64_t i = 0; i < origin->part_count; i++) {
        const replay_part *part = &origin->parts[i];
        if (part->group != group || part->end <= offset)
            continue;
        if (part->start <= offset)
            return *part;
        own.end = mbr_min(own.end, part->start);
    }
    return own;
}

/* Parts of one writer that touch become one, so that a list is no longer than the writers before.
 */
bool replay_origin_add(replay_origin *origin, const replay_part *part)
{
    replay_part *last = origin->part_count == 0 ? NULL : &origin->parts[origin->part_count - 1];
    if (last != NULL && last->group == part->group && last->end == part->start &&
        memcmp(&last->writer, &part->writer, sizeof(part->writer)) == 0) {
        last->end = part->end;
        return true;
    }
    if (origin->part_count == origin->part_capacity) {
        uint64_t capacity = mbr_max(4, 2 * origin->part_capacity);
        replay_part *grown = realloc(origin->parts, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        origin->parts = grown;
        origin->part_capacity = capacity;
    }
    origin->parts[origin->part_count++] = *part;
    return true;
}

void replay_origin_finish(replay_origin *origin)
{
    free(origin->parts);
    *origin = (replay_origin){0};
}

static bool copy_parts(replay_origin *to, const replay_origin *from)
{
    to->own = from->own;
    to->part_count = 0;
    for (uint64_t i = 0; i < from->part_count; i++)
        if (!replay_origin_add(to, &from->parts[i]))
            return false;
    return true;
}

static replay_origins *find(const replay_origins *origins, const mbr_kv_prefix *prefix)
{
    replay_origins *found;
    HASH_FIND_PTR((replay_origins *)origins, &prefix, found);
    return found;
}

bool replay_origins_keep(
    replay_origins **origins, const mbr_kv_prefix *prefix, const replay_origin *from)
{
    replay_origins *kept = find(*origins, prefix);
    if (kept == NULL) {
        kept = calloc(1, sizeof(*kept));
        if (kept == NULL)
            return false;
        kept->prefix = prefix;
        HASH_ADD_PTR(*origins, prefix, kept);
        if (kept->hh.tbl == NULL) {
            free(kept);
            return false;
        }
    }
    return copy_parts(&kept->origin, from);
}

const replay_origin *replay_origins_find(const replay_origins *origins, const mbr_kv_prefix *prefix)
{
    return &find(origins, prefix)->origin;
}

void replay_origins_finish(replay_origins **origins)
{
    replay_origins *kept, *next;
    HASH_ITER(hh, *origins, kept, next)
    {
        HASH_DEL(*origins, kept);
        replay_origin_finish(&kept->origin);
        free(kept);
    }
}
