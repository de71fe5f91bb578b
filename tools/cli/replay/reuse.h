/* How much of the prompts had been there before, how much of that whole extents can share, and how
 * much came shared. What had been there is judged by the blocks that the trace names, as if nothing
 * were ever given up; what whole extents allow, by the arithmetic of the holder's geometry. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_REUSE_H
#define MEMBRANE_TOOLS_CLI_REPLAY_REUSE_H

#include "tools/cli/replay/world.h"

typedef struct replay_reuse replay_reuse;

/* The cache's own layout again, from what it was asked for. NULL: out of memory, or no such layout
 * (the cache has refused it then). */
replay_reuse *replay_reuse_create(const mbr_replay_options *options, const char *model,
    uint64_t max_tokens, const mbr_mechanism_figures *mechanism);
void replay_reuse_destroy(replay_reuse *reuse);

/* A stay began: prefix_tokens of its prompt are those of a kept prefix (0: none), and shared_bytes
 * of whole extents came with it. Adds to *figures. False: out of memory. */
bool replay_reuse_count(replay_reuse *reuse, const mbr_trace_request *request,
    uint64_t prefix_tokens, uint64_t shared_bytes, mbr_replay_reuse *figures);

#endif
