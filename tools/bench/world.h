/* What the rows stand on: a manager with a plugin, a CPU EP, an authority, a holder and a binding;
 * and, for rows that look below the client's calls, a mechanism with an arena of its own. */
#ifndef MEMBRANE_TOOLS_BENCH_WORLD_H
#define MEMBRANE_TOOLS_BENCH_WORLD_H

#include "governor/governor.h"
#include "host/alloc/arena.h"
#include "host/loader/loader.h"
#include "membrane/membrane.h"
#include "tools/bench/row.h"

#define MBR_BENCH_MIB (UINT64_C(1) << 20)
#define MBR_BENCH_GIB (UINT64_C(1) << 30)

/* ---- Through the client's calls */
typedef struct mbr_bench_world {
    mbr_manager *manager;
    mbr_plugin_handle plugin;
    mbr_mechanism_handle mechanism;
    mbr_authority_handle authority;
    mbr_holder_handle holder;
    mbr_cpu *cpu;
    mbr_ep_handle ep;
    mbr_binding_handle binding;
    uint64_t reading_calls; /* slots that reading the figures called */
    mbr_error error;
} mbr_bench_world;

typedef struct mbr_bench_world_options {
    uint64_t limit_bytes;
    uint64_t keep_bytes; /* of the cache */
    bool populate;       /* pages are there when memory is committed; else the plugin is opened with
                          * populate=0 */
    uint32_t queue_entries; /* bound of the EP's release queue; 0: the default */
    uint64_t ahead_bytes;   /* mapped ahead of need at most */
    bool has_threads;       /* the manager's own; else nothing runs beside the rows */
    bool on_device; /* memory of a device, whose mechanism orders its streams itself; else memory of
                     * the host, under a CPU EP */
} mbr_bench_world_options;

/* False: bench->text says why, and nothing is left open. */
bool mbr_bench_world_open(
    mbr_bench *bench, const mbr_bench_world_options *options, mbr_bench_world *world);
/* Audits the books, then closes in reverse. False: bench->text says what does not agree. */
bool mbr_bench_world_close(mbr_bench *bench, mbr_bench_world *world);

/* Tells the failure that the last of the client's calls left in world->error, if there is one and
 * nothing was told yet. Returns false. */
bool mbr_bench_fail_world(mbr_bench *bench, const char *what, const mbr_bench_world *world);

/* Slots called since the mechanism was opened, but for those that reading figures took; differences
 * of two answers count. And the bytes that it owns. */
uint64_t mbr_bench_world_calls(mbr_bench_world *world);
uint64_t mbr_bench_world_owned(mbr_bench_world *world);

/* ---- Below them */
typedef struct mbr_bench_core {
    mbr_module *module;
    mbr_mechanism mechanism; /* the port's; for reading */
    mbr_addresses addresses;
    mbr_port *port;
    mbr_governor *governor;
    mbr_authority *authority;
    mbr_holder *holder;
    mbr_cpu *cpu;
    mbr_context *context;
    mbr_backing *backing;
    mbr_alloc_table *table;
    mbr_arena *arena;
} mbr_bench_core;

bool mbr_bench_core_open(mbr_bench *bench, mbr_bench_core *core);
bool mbr_bench_core_close(mbr_bench *bench, mbr_bench_core *core);

#endif
