/* Everything that a replay stands on: manager, plugin, authority, holders, CPU EP with streams,
 * binding, KV cache. Opened in order, closed in reverse. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_WORLD_H
#define MEMBRANE_TOOLS_CLI_REPLAY_WORLD_H

#include "tools/cli/replay/replay.h"

typedef struct replay_world {
    mbr_manager *manager;
    mbr_plugin_handle plugin;
    mbr_mechanism_handle mechanism;
    mbr_authority_handle authority;
    mbr_holder_handle holder, prefix_holder;
    mbr_cpu *cpu;
    mbr_ep_handle ep;
    mbr_native natives[MBR_REPLAY_STREAM_COUNT];
    mbr_stream_handle streams[MBR_REPLAY_STREAM_COUNT];
    mbr_binding_handle binding;
    mbr_kv *kv;
    mbr_mechanism_figures mechanism_figures; /* as opened */
    uint32_t stream_count;                   /* attached */
} replay_world;

/* MBR_EXIT_…; on failure everything that was opened is closed again. */
int replay_world_open(replay_world *world, const mbr_replay_options *options, uint64_t max_tokens,
    char text[MBR_REPLAY_TEXT_BYTES]);
/* Waits for the streams, gives the caches back and reads the last figures; then closes everything.
 */
void replay_world_settle(replay_world *world, mbr_replay_report *report);
mbr_status replay_world_close(replay_world *world, mbr_error *error);

#endif
