/* Everything that a replay stands on: manager, plugin, authority, EP with streams, binding; and
 * for each tenant a seat: holders, KV cache, admission. Opened in order, closed in reverse. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_WORLD_H
#define MEMBRANE_TOOLS_CLI_REPLAY_WORLD_H

#include "tools/cli/replay/replay.h"

#include <stdatomic.h>

/* What one tenant has of the world. Its share bounds its sequences and its prefixes together, so
 * one holder pays for both. */
typedef struct replay_seat {
    mbr_holder_handle holder;
    mbr_admission_handle admission; /* 0: whoever comes is let in */
    mbr_kv *kv;
} replay_seat;

typedef struct replay_world {
    _Atomic uint64_t simulated_ns; /* so much further is the manager's clock than the real one */
    mbr_manager *manager;
    mbr_plugin_handle plugin;
    mbr_mechanism_handle mechanism;
    mbr_authority_handle authority;
    mbr_cpu *cpu; /* of host memory alone */
    mbr_ep_handle ep;
    mbr_native natives[MBR_REPLAY_STREAM_COUNT];
    mbr_stream_handle streams[MBR_REPLAY_STREAM_COUNT];
    mbr_binding_handle binding;
    replay_seat seats[MBR_REPLAY_TENANT_LIMIT_COUNT];
    mbr_mechanism_figures mechanism_figures; /* as opened */
    uint32_t stream_count;                   /* attached */
} replay_world;

/* Until when releases and writes that are under way are waited for: in real time, since nothing is
 * simulated meanwhile. */
uint64_t replay_drain_deadline_ns(replay_world *world);

/* False where the plugin's option `populate` is 0, as the host plugin has it: what is owned has no
 * pages before it is touched, and the system knows of fewer bytes. */
bool replay_is_resident(const mbr_replay_options *options);

/* MBR_EXIT_…; on failure everything that was opened is closed again. */
int replay_world_open(
    replay_world *world, const mbr_replay_options *options, char text[MBR_REPLAY_TEXT_BYTES]);
/* The same for one tenant's seat. `pressed` is for the elastic way alone. */
int replay_world_seat(replay_world *world, replay_seat *seat, const mbr_replay_options *options,
    mbr_replay_way way, const mbr_replay_load *load, uint64_t max_tokens,
    const mbr_pressure_callbacks *pressed, char text[MBR_REPLAY_TEXT_BYTES]);
/* Waits for the streams, gives the caches back and reads the last figures; then closes everything.
 */
void replay_world_settle(replay_world *world, mbr_replay_report *report);
mbr_status replay_world_close(replay_world *world, mbr_error *error);

#endif
