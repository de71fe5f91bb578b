/* The manager: registries of plugins, mechanisms, authorities, holders, EPs and bindings. Any
 * number of managers may live side by side; nothing is a mutable global.
 *
 * Removal of anything that is still referred to is refused with MBR_IN_USE and counts by class. */
#ifndef MEMBRANE_MANAGER_H
#define MEMBRANE_MANAGER_H

#include "membrane/budget.h"
#include "membrane/handle.h"
#include "membrane/plugin.h"
#include "membrane/pressure.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MBR_THREADS_NONE 0     /* the caller polls */
#define MBR_THREADS_INTERNAL 1 /* one reaper for each EP, asleep while its queue is empty */

typedef struct mbr_manager_options {
    uint32_t struct_size;
    uint32_t threads; /* MBR_THREADS_… */
    /* NULL: dropped. It gets one printable line of at most 511 bytes, at most 500 a second (the
     * number of those dropped is said), from any thread, with no lock of Membrane's held: one that
     * waits delays its own thread alone. It calls neither the host nor a plugin; a line that it
     * causes is dropped. After mbr_manager_destroy it is not running and not called again. */
    mbr_log_function log;
    void *log_context;
    const char *plugin_path; /* replaces MEMBRANE_PLUGIN_PATH; NULL: the environment's */
} mbr_manager_options;

MBR_API mbr_status mbr_manager_create(
    const mbr_manager_options *options, mbr_manager **manager, mbr_error *error);

/* Refused with MBR_IN_USE and counts while an allocation, range, prefix, queued release, binding,
 * EP or opened plugin lives. What was leaked on purpose is counted in the log, not refused: the
 * holders and authorities that pay for it, which cannot be destroyed, go with the manager. In a
 * shared ledger such an authority's bytes stay leased until the process ends. */
MBR_API mbr_status mbr_manager_destroy(mbr_manager *manager, mbr_error *error);

/* Reaps completed releases, closes epochs that are due, samples limits at most once a second, times
 * out tickets, asks holders again for those that wait, and tells whose ticket has settled. The
 * whole work of a manager without threads. Calls clients back, so the caller holds no lock of
 * theirs. */
MBR_API void mbr_manager_poll(mbr_manager *manager);

/* ---- Plugins and mechanisms ------------------------------------------------------------------ */
#define MBR_PLUGIN_TRUSTED 1 /* owner and mode of the file are not asked */

typedef struct mbr_plugin_open_request {
    uint32_t struct_size;
    uint32_t flags;   /* MBR_PLUGIN_… */
    const char *name; /* "host", or a path (with a '/') */
} mbr_plugin_open_request;

/* Errors: MBR_NOT_A_PLUGIN, MBR_UNTRUSTED, MBR_VERSION_MISMATCH, MBR_CONTRACT_BROKEN; the text says
 * what was tried and what would work. */
MBR_API mbr_status mbr_manager_open_plugin(mbr_manager *manager,
    const mbr_plugin_open_request *request, mbr_plugin_handle *plugin, mbr_error *error);
MBR_API mbr_status mbr_manager_close_plugin(
    mbr_manager *manager, mbr_plugin_handle plugin, mbr_error *error);

typedef struct mbr_mechanism_open_request {
    uint32_t struct_size;
    uint32_t option_count;
    mbr_plugin_handle plugin;
    const char *mechanism;     /* NULL: the plugin's first */
    const mbr_option *options; /* of the plugin's own */
    mbr_native native_context; /* kind MBR_NATIVE_STREAM_NONE: the plugin finds its own */
    /* Further devices that reach ranges and prefixes of the mechanism, whenever they grow:
     * peer_count of them, each named once, none the mechanism's own; what is read-only is so for
     * them too. Needs membrane.virtual. One that cannot reach the memory refuses growth with the
     * plugin's own answer. */
    const mbr_access *peers;
    uint32_t peer_count; /* at most 63 */
    uint32_t reserved_0;
} mbr_mechanism_open_request;

MBR_API mbr_status mbr_manager_open_mechanism(mbr_manager *manager,
    const mbr_mechanism_open_request *request, mbr_mechanism_handle *mechanism, mbr_error *error);
MBR_API mbr_status mbr_manager_close_mechanism(
    mbr_manager *manager, mbr_mechanism_handle mechanism, mbr_error *error);

typedef struct mbr_mechanism_figures {
    uint32_t struct_size;
    uint32_t tier;
    uint32_t domain;
    uint32_t capabilities; /* MBR_CAPABILITY_… */
    uint64_t granule_min_bytes;
    uint64_t granule_recommended_bytes;
    uint64_t total_bytes; /* as the plugin says, or MBR_UNKNOWN_BYTES */
    uint64_t free_bytes;
    uint64_t owned_bytes; /* the host's own count */
    uint64_t mapped_bytes;
    uint64_t reserved_bytes;
    uint64_t plugin_owned_bytes; /* the plugin's count, for comparison */
    uint64_t pooled_bytes;       /* unmapped extents kept; part of owned */
    uint64_t parked_bytes;       /* mapped extents kept; part of owned */
    uint64_t held_bytes;         /* unmapped extents that prefixes alone keep; part of owned */
    uint64_t reservation_count;
    uint64_t extent_count;
    uint64_t quarantined_count; /* extents, places and ranges withheld, also those that a trim tries
                                 * once more */
    uint64_t call_count;        /* slots called since open */
    uint64_t violation_count;
    char name[64];
    uint64_t extent_max_bytes;      /* the largest extent that it makes */
    uint64_t reservation_max_bytes; /* the largest range of addresses */
    uint64_t ahead_bytes;           /* of parked: mapped ahead of need */
} mbr_mechanism_figures;

#define MBR_CAPABILITY_VIRTUAL 1
#define MBR_CAPABILITY_SHARED 2
#define MBR_CAPABILITY_ORDER 4
#define MBR_CAPABILITY_TRANSFER 8

MBR_API mbr_status mbr_manager_read_mechanism(mbr_manager *manager, mbr_mechanism_handle mechanism,
    mbr_mechanism_figures *figures, mbr_error *error);

/* Gives cached extents (pooled, parked, idle slabs) back to the system until at most keep_bytes are
 * cached, and tries once more what was refused before and is quarantined; *released_bytes says how
 * much went. MBR_BUSY while a graph is being captured on its device. */
MBR_API mbr_status mbr_manager_trim(mbr_manager *manager, mbr_mechanism_handle mechanism,
    uint64_t keep_bytes, uint64_t *released_bytes, mbr_error *error);

/* ---- Budget ---------------------------------------------------------------------------------- */
typedef struct mbr_authority_request {
    uint32_t struct_size;
    uint32_t tier;                 /* MBR_TIER_… */
    const char *name;              /* unique in the manager, at most 47 bytes */
    uint64_t limit_bytes;          /* UINT64_MAX: only the measured limit */
    uint64_t margin_bytes;         /* kept free of what is measured */
    mbr_mechanism_handle measured; /* whose free bytes bound the limit, beside the machine's and the
                                    * cgroups' for MBR_TIER_HOST; 0: nothing is measured */
    /* Of the shared ledger by which several processes of one user divide one limit, at most 47
     * letters, digits, '.', '_' or '-'; NULL: none. The first process brings the ledger's limit:
     * limit_bytes, or what is measured less the margin. `membrane limit` changes it for all. */
    const char *shared;
    const char *shared_folder; /* NULL: /dev/shm */
} mbr_authority_request;

/* With a shared ledger also: MBR_INVALID_ARGUMENT (its name), MBR_UNTRUSTED, MBR_VERSION_MISMATCH,
 * MBR_OUT_OF_DESCRIPTORS and MBR_SYSTEM where a ledger may be there that cannot be joined. Where
 * the folder takes none (missing, full, read-only), the authority goes on alone, a warning in the
 * log says so, and leased_bytes of its figures is unknown. A process that shares polls its manager
 * at least once a second: that is when it gives back what others wait for. */

MBR_API mbr_status mbr_manager_create_authority(mbr_manager *manager,
    const mbr_authority_request *request, mbr_authority_handle *authority, mbr_error *error);
/* MBR_IN_USE while a holder or a binding refers to it, and so in every callback that one of its
 * calls makes. Waits for the calls of other threads that found it before: without holders they end
 * by themselves. A call by its handle that comes later is MBR_STALE. MBR_IN_USE for good, too,
 * where memory was leaked under it; without bindings it then lets go of the mechanism that it
 * measures, whose free bytes stay as they were measured last. */
MBR_API mbr_status mbr_manager_destroy_authority(
    mbr_manager *manager, mbr_authority_handle authority, mbr_error *error);

/* Lowering revokes nothing; *over_bytes (may be NULL) is what is claimed above the new limit. */
MBR_API mbr_status mbr_manager_set_limit(mbr_manager *manager, mbr_authority_handle authority,
    uint64_t limit_bytes, uint64_t *over_bytes, mbr_error *error);

typedef struct mbr_holder_request {
    uint32_t struct_size;
    uint32_t role; /* MBR_ROLE_… */
    mbr_authority_handle authority;
    const char *name;         /* at most 47 bytes */
    uint64_t allowance_bytes; /* MBR_NO_ALLOWANCE: bounded by the authority alone */
    /* With MBR_HOLDER_BORROWS the allowance is a share that others do not press, not a bound. */
    uint32_t flags;
    uint32_t reserved_0;
    /* What the client answers when the holder is asked for bytes. Both NULL: whoever stands on it
     * answers by itself: weights, workspaces, kernel caches, paged stores, the arena of a sleeper,
     * registries for the prefixes that it pays for, KV caches for what is offered ahead. Set, they
     * are the whole answer, and pass the question on by the mbr_…_could_give and mbr_…_give of
     * those. */
    mbr_pressure_callbacks pressed;
} mbr_holder_request;

#define MBR_HOLDER_BORROWS 0x1U /* critical: leases past its allowance what others leave */

MBR_API mbr_status mbr_manager_create_holder(mbr_manager *manager,
    const mbr_holder_request *request, mbr_holder_handle *holder, mbr_error *error);
MBR_API mbr_status mbr_manager_destroy_holder(
    mbr_manager *manager, mbr_holder_handle holder, mbr_error *error);

/* Exact for threads at rest: tallies and credit are folded in first. */
MBR_API mbr_status mbr_manager_read_authority(mbr_manager *manager, mbr_authority_handle authority,
    mbr_authority_figures *figures, mbr_error *error);
/* Up to `capacity` lines; each line's struct_size set by the caller, that of the first is the
 * stride; *count is the true number. */
MBR_API mbr_status mbr_manager_read_holders(mbr_manager *manager, mbr_authority_handle authority,
    mbr_holder_figures *lines, uint32_t capacity, uint32_t *count, mbr_error *error);
MBR_API mbr_status mbr_manager_read_holder(
    mbr_manager *manager, mbr_holder_handle holder, mbr_holder_figures *figures, mbr_error *error);

/* Recomputes every total from its entries and compares the host's books with each plugin's report.
 * MBR_OK, or MBR_INTERNAL with the first equation that does not hold. Call it with threads at rest.
 */
MBR_API mbr_status mbr_manager_audit(mbr_manager *manager, mbr_error *error);

/* ---- Binding --------------------------------------------------------------------------------- */
typedef struct mbr_bind_request {
    uint32_t struct_size;
    /* Bytes never pass from one group to another unfilled, on whichever mechanisms of one device
     * that this manager has. */
    uint32_t isolation_group;
    mbr_mechanism_handle mechanism;
    mbr_ep_handle ep;
    mbr_authority_handle authority;
    uint64_t cache_keep_bytes; /* watermark: cached bytes above it (pooled and parked extents, idle
                                * slabs; threads' own blocks beside them) go back on release.
                                * UINT64_MAX: keep all that the limit leaves room for */
    uint64_t ahead_bytes; /* the most that stands mapped ahead of need, beside the watermark, paid
                           * by the cache and the first to go under pressure: MBR_GROW_AHEAD, KV
                           * caches (membrane/kv.h). 0: nothing does */
} mbr_bind_request;

/* Mechanism, EP context, authority and fact snapshot under one identity that is never used again.
 */
MBR_API mbr_status mbr_manager_bind(mbr_manager *manager, const mbr_bind_request *request,
    mbr_binding_handle *binding, mbr_error *error);

/* Changes what later calls get: *next is the new generation of the same binding, and calls through
 * the old handle answer MBR_STALE. What was allocated goes home to its creator. */
MBR_API mbr_status mbr_manager_switch(mbr_manager *manager, mbr_binding_handle binding,
    const mbr_bind_request *request, mbr_binding_handle *next, mbr_error *error);

typedef struct mbr_binding_figures {
    uint32_t struct_size;
    uint32_t isolation_group;
    mbr_mechanism_handle mechanism;
    mbr_authority_handle authority;
    mbr_ep_handle ep;
    uint64_t range_count;
    uint64_t prefix_count;
    uint64_t ahead_bytes; /* the bound that was given last for its mechanism and authority */
} mbr_binding_figures;

/* What the binding's present generation stands for. MBR_STALE after a switch. */
MBR_API mbr_status mbr_manager_read_binding(mbr_manager *manager, mbr_binding_handle binding,
    mbr_binding_figures *figures, mbr_error *error);

/* Gives the binding's caches back. MBR_IN_USE with counts while allocations or ranges live;
 * MBR_BUSY while a graph is being captured on the mechanism's device. */
MBR_API mbr_status mbr_manager_unbind(
    mbr_manager *manager, mbr_binding_handle binding, mbr_error *error);

/* For whoever cannot free what it has allocated any more: ends the binding, with all its
 * generations, whatever lives of it. The handle names nothing from then on; no other call of it is
 * inside, but frees may be.
 *   - Allocations that live are quarantined: charged to their holders as before, counted there and
 *     in *quarantined_count (may be NULL), their addresses in nobody's use. Each is released by an
 *     mbr_free that comes after all, or when the end of their EP's device is confirmed
 * (mbr_ep_lost, mbr_ep_destroy).
 *   - Releases that are queued go on. Ranges and prefixes stay as they are, and end by their
 * handles.
 *   - Until nothing is left of it, its mechanism, authority and EP are referred to as by any
 *     binding; whoever removes one of those looks for that first, as mbr_manager_poll does.
 * Errors: MBR_STALE, MBR_BUSY (in a callback of a holder that is asked for bytes). */
MBR_API mbr_status mbr_manager_abandon(mbr_manager *manager, mbr_binding_handle binding,
    uint64_t *quarantined_count, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
