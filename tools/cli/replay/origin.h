/* Who wrote what a sequence or a prefix holds: itself, but for what came with a prefix. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_ORIGIN_H
#define MEMBRANE_TOOLS_CLI_REPLAY_ORIGIN_H

#include "tools/cli/replay/mark.h"

typedef struct replay_part {
    uint32_t group;
    uint64_t start, end; /* offsets in the group's memory */
    replay_writer writer;
} replay_part;

typedef struct replay_origin {
    replay_writer own;
    replay_part *parts; /* of others, in no order; disjoint */
    uint64_t part_count, part_capacity;
} replay_origin;

/* Of prefixes, by their addresses. One whose prefix has gone stays until the address serves again,
 * or the end. */
typedef struct replay_origins replay_origins;

/* The part around the offset, or what the owner wrote from there up to the next part. */
replay_part replay_origin_at(const replay_origin *origin, uint32_t group, uint64_t offset);
/* False: out of memory. */
bool replay_origin_add(replay_origin *origin, const replay_part *part);
void replay_origin_finish(replay_origin *origin);

/* What stands there of the prefix is what `from` has now. False: out of memory. */
bool replay_origins_keep(
    replay_origins **origins, const mbr_kv_prefix *prefix, const replay_origin *from);
/* Of a prefix that was kept. */
const replay_origin *replay_origins_find(
    const replay_origins *origins, const mbr_kv_prefix *prefix);
void replay_origins_finish(replay_origins **origins);

#endif
