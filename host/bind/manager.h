/* The manager's records, for the files of this folder alone. Each record is referred to by counts
 * that are changed under the manager's lock; a record that is still referred to is not removed. No
 * slot is called under the lock: a record that is being closed is marked and refuses new references
 * meanwhile.
 *
 *   plugin <- mechanism <- backing (one for each authority) <- binding <- range, prefix, arena
 *   authority <- holder, backing        ep <- binding, stream        holder <- prefix */
#ifndef MEMBRANE_HOST_BIND_MANAGER_H
#define MEMBRANE_HOST_BIND_MANAGER_H

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "governor/admission.h"
#include "governor/governor.h"
#include "governor/ticket.h"
#include "host/alloc/arena.h"
#include "host/backing/backing.h"
#include "host/backing/groups.h"
#include "host/bind/giver.h"
#include "host/bind/log.h"
#include "host/bind/seams.h"
#include "host/bind/table.h"
#include "host/bind/walks.h"
#include "host/loader/loader.h"
#include "membrane/membrane.h"

#define MBR_STREAM_LIST_COUNT 64 /* streams of one release */
#define MBR_EP_STREAM_ID_BITS                                                                      \
    40 /* stream ids of EP n start at n << 40: ids of two EPs never meet */

typedef struct mbr_plugin_record {
    mbr_module *module;
    uint64_t handle;
    uint64_t mechanism_count;
    bool closing;
} mbr_plugin_record;

/* Who refers to a mechanism. */
typedef enum mbr_referrer {
    MBR_BINDINGS,
    MBR_EPS,         /* which use its lines */
    MBR_AUTHORITIES, /* which measure it */
    MBR_REFERRERS
} mbr_referrer;

typedef struct mbr_mechanism_record {
    mbr_port *port;
    mbr_plugin_record *plugin;
    uint64_t handle;
    uint64_t reference_counts[MBR_REFERRERS];
    bool closing;
} mbr_mechanism_record;

typedef struct mbr_authority_record {
    mbr_authority *authority;
    mbr_shared *shared;                     /* NULL: none */
    mbr_mechanism_record *_Atomic measured; /* NULL: none, or no longer */
    uint64_t handle;
    uint64_t holder_count, backing_count;
    uint64_t leak_count; /* backings whose memory could not be given back: it stays charged here */
    uint64_t caller_count; /* calls that may call clients back, which no walk covers */
    mbr_giver *savers;     /* in the order in which they joined */
    uint32_t tier;
    bool closing;
} mbr_authority_record;

typedef struct mbr_holder_record {
    mbr_holder *holder;
    mbr_authority_record *authority;
    uint64_t holder_id;
    uint64_t handle;
    uint64_t reference_count; /* prefixes, tickets and admissions that are the holder's */
    bool closing;             /* one call at a time tries to end it */
    bool client_answers;      /* when it is asked for bytes; else the givers do */
    mbr_manager *manager;
    mbr_giver *givers; /* in the order in which they joined */
} mbr_holder_record;

typedef struct mbr_ticket_record {
    mbr_ticket *ticket;
    mbr_holder_record *holder;
    uint64_t handle;
    uint64_t user_count; /* calls that work on it */
    bool has_ended;      /* the last of them frees it */
    void (*settled)(void *context, mbr_ticket_handle ticket);
    void *context;
} mbr_ticket_record;

typedef struct mbr_admission_record {
    mbr_admission *admission;
    mbr_holder_record *holder;
    uint64_t handle;
} mbr_admission_record;

typedef struct mbr_ep_record {
    mbr_context *context;
    mbr_mechanism_record *mechanism; /* NULL: lines of its own */
    uint64_t handle;
    uint64_t binding_count, stream_count;
    bool closing;
} mbr_ep_record;

typedef struct mbr_stream_record {
    mbr_ep_record *ep;
    uint64_t stream_id;
} mbr_stream_record;

typedef struct mbr_backing_record {
    mbr_backing *backing;
    mbr_mechanism_record *mechanism;
    mbr_authority_record *authority;
    uint64_t binding_count;
    struct mbr_backing_record *next;
} mbr_backing_record;

/* One generation of a binding. */
typedef struct mbr_binding_record {
    mbr_backing_record *backing;
    mbr_ep_record *ep;
    mbr_arena *arena;
    mbr_backing_user user; /* the EP's context, of the backing */
    uint64_t handle;
    uint32_t isolation_group;
    uint64_t range_count, prefix_count;
    bool closing;                     /* one call at a time tries to end it */
    struct mbr_binding_record *older; /* superseded, may still be referred to */
    struct mbr_binding_record *next;  /* in the manager's list of all generations */
    struct mbr_binding_record *next_abandoned;
} mbr_binding_record;

typedef struct mbr_range_record {
    mbr_range *range;
    mbr_binding_record *binding;
    uint64_t handle;
    uint64_t address, bytes;    /* the range's own may be of its next life already */
    uint64_t call_count;        /* calls that are inside with it: its end waits for them */
    bool closing;               /* one call at a time tries to end it */
    const void *_Atomic keeper; /* who alone may change it (kept.h); NULL: the client */
} mbr_range_record;

typedef struct mbr_prefix_record {
    mbr_prefix *prefix;
    mbr_binding_record *binding;
    mbr_holder_record *holder;
    uint64_t call_count; /* as of a range */
} mbr_prefix_record;

/* A device as captures and isolation see it: mechanisms of one UUID, or of one tier and index
 * without. It lives as long as the manager. */
typedef struct mbr_device_record {
    mbr_gate gate;
    mbr_groups groups;
    bool has_uuid;
    uint8_t uuid[16];
    uint32_t tier, index;
    struct mbr_device_record *next;
} mbr_device_record;

typedef struct mbr_graph_record {
    mbr_graph graph;
    mbr_manager *manager;
    mbr_ep_record *ep;
    uint64_t handle;
    uint64_t user_count; /* calls that work on it, and the context's own use */
    bool is_gone;        /* the last of them frees it */
} mbr_graph_record;

struct mbr_manager {
    mbr_heap heap;
    mbr_clock clock;
    const mbr_threads *reaper_threads; /* NULL: the system's */
    const mbr_loader_os *loader_os;
    const mbr_shared_os *shared_os; /* NULL: the system's */
    mbr_governor *governor;
    mbr_alloc_table *allocations;
    mbr_addresses addresses; /* of all mechanisms */
    mbr_log *log;            /* NULL: dropped */
    char *plugin_path;       /* NULL: the environment's */
    bool threads;
    mbr_lock lock;
    mbr_walks walks;       /* over all records but ranges and prefixes */
    mbr_walks range_walks; /* over those: short, so that no release waits for the others */
    mbr_condition closed; /* a call that tried to end a holder, binding or range is done, or was the
                           * last one inside with a range or prefix; a giver's call is over */
    mbr_backing_record *backings;
    mbr_binding_record *generations; /* of all bindings, the newest first */
    mbr_binding_record *abandoned;   /* of those that no handle names: the newest of each */
    mbr_device_record *devices;
    uint64_t ep_ordinal, backing_ordinal;
    uint64_t leak_count;         /* backings that are leaked on purpose (rule 33) */
    uint64_t leaked_owned_bytes; /* of mechanisms that were closed all the same: still charged */
    uint64_t last_sample_ns;
    mbr_table plugins, mechanisms, authorities, holders, eps, streams, bindings, ranges, prefixes;
    mbr_table tickets, admissions, graphs;
};

/* ---- Lookups: NULL, and *status says why. In line, because every call begins with some. ------ */
#define MBR_FIND_DEFINE(noun, tables)                                                              \
    static inline mbr_##noun##_record *mbr_find_##noun(                                            \
        mbr_manager *manager, uint64_t value, mbr_status *status, mbr_error *error)                \
    {                                                                                              \
        mbr_##noun##_record *found = mbr_table_find(&manager->tables, value);                      \
        *status = __builtin_expect(found != NULL, 1)                                               \
            ? MBR_OK                                                                               \
            : mbr_table_explain(&manager->tables, value, error);                                   \
        return found;                                                                              \
    }
MBR_FIND_DEFINE(plugin, plugins)
MBR_FIND_DEFINE(mechanism, mechanisms)
MBR_FIND_DEFINE(authority, authorities)
MBR_FIND_DEFINE(holder, holders)
MBR_FIND_DEFINE(ep, eps)
MBR_FIND_DEFINE(stream, streams)
MBR_FIND_DEFINE(binding, bindings)
MBR_FIND_DEFINE(range, ranges)
MBR_FIND_DEFINE(prefix, prefixes)
MBR_FIND_DEFINE(ticket, tickets)
MBR_FIND_DEFINE(admission, admissions)
MBR_FIND_DEFINE(graph, graphs)

/* The same for calls that end a record, under the manager's lock: of racing ones the first sets
 * `closing`, drops the lock and goes on; the others wait here for its answer, which decides theirs,
 * and then look again: the record is there, or its handle names nothing. */
#define MBR_AWAIT_DEFINE(noun)                                                                     \
    static inline mbr_##noun##_record *mbr_await_##noun##_locked(mbr_manager *manager,             \
        uint64_t value, mbr_status *status, mbr_error *error) MBR_REQUIRES(&manager->lock)         \
    {                                                                                              \
        mbr_##noun##_record *found;                                                                \
        while ((found = mbr_find_##noun(manager, value, status, error)) != NULL && found->closing) \
            mbr_condition_wait(&manager->closed, &manager->lock, UINT64_MAX);                      \
        return found;                                                                              \
    }
MBR_AWAIT_DEFINE(holder)
MBR_AWAIT_DEFINE(binding)
MBR_AWAIT_DEFINE(range)
/* MBR_BUSY: somebody else keeps the range to himself (kept.h). */
static inline mbr_status mbr_range_check_keeper(
    const mbr_range_record *record, const void *keeper, mbr_error *error)
{
    if (__builtin_expect(atomic_load(&record->keeper) == keeper, 1))
        return MBR_OK;
    return mbr_fail(error, MBR_BUSY,
        "the range is asleep, or on its way there or back; nothing was changed, wake its tag "
        "first");
}
/* A call that was inside with a range or prefix is done; its end waits for the last one. */
static inline void mbr_leave_call_locked(mbr_manager *manager, uint64_t *call_count)
    MBR_REQUIRES(&manager->lock)
{
    MBR_ASSERT(*call_count != 0);
    if (--*call_count == 0)
        mbr_condition_signal_all(&manager->closed);
}
/* The first one is done, whatever came of it. */
void mbr_end_close(mbr_manager *manager, bool *closing);

/* Stream handles of one context as its ids. `context` NULL: any one EP. */
mbr_status mbr_stream_ids(mbr_manager *manager, const mbr_context *context,
    const mbr_stream_handle *streams, uint32_t count, uint64_t *ids, mbr_error *error);
/* One stream, or 0. */
mbr_status mbr_stream_id(mbr_manager *manager, const mbr_context *context, mbr_stream_handle stream,
    uint64_t *id, mbr_error *error);

void mbr_manager_log(mbr_manager *manager, uint32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Tallies and credit of all threads are folded into the books. */
void mbr_manager_fold(mbr_manager *manager);

/* A walk may look at every record but ranges and prefixes that it finds in a table or list. */
mbr_walk mbr_begin_walk(mbr_manager *manager);
void mbr_end_walk(mbr_manager *manager, mbr_walk walk);
void mbr_await_walks(mbr_manager *manager);

/* Counts one more reference to a record, unless it is being closed: MBR_STALE with
 * `refusal` as its text then. `closing` and `reference_count` are the record's. */
mbr_status mbr_refer(mbr_manager *manager, const bool *closing, uint64_t *reference_count,
    const char *refusal, mbr_error *error);
void mbr_unrefer(mbr_manager *manager, uint64_t *reference_count);

/* During a walk: whether the mechanism is being closed. If not, its port stays until the walk ends,
 * which its end awaits; if so, it may be gone. */
bool mbr_is_closing(mbr_manager *manager, const mbr_mechanism_record *record);
/* Counts one more reference to the mechanism. NULL: *status. */
mbr_mechanism_record *mbr_refer_mechanism(mbr_manager *manager, mbr_mechanism_handle handle,
    mbr_referrer by, mbr_status *status, mbr_error *error);

/* During a walk: the backing after `last`, NULL to begin. */
mbr_backing_record *mbr_next_backing(mbr_manager *manager, const mbr_backing_record *last);
/* The same for bindings, superseded generations too. The table of handles would not do: who walks
 * it misses one that is switched to a place which it has passed. */
mbr_binding_record *mbr_next_binding(mbr_manager *manager, const mbr_binding_record *last);

/* An authority whose holders or waiters a call is about to call back: it is not destroyed
 * meanwhile, and no walk is open, so that the callbacks may end records. NULL: *status. */
mbr_authority_record *mbr_poll_begin(
    mbr_manager *manager, mbr_authority_handle handle, mbr_status *status, mbr_error *error);
void mbr_poll_end(mbr_manager *manager, mbr_authority_record *record);
/* MBR_BUSY inside a callback of a holder that is asked for bytes: what calls it makes or ends
 * things that the asking stands on. */
mbr_status mbr_refuse_in_callback(mbr_error *error);

/* Counts a prefix, ticket or admission on the holder, so that it is not destroyed before that.
 * NULL: *status. */
mbr_holder_record *mbr_refer_holder(
    mbr_manager *manager, mbr_holder_handle handle, mbr_status *status, mbr_error *error);
void mbr_unrefer_holder(mbr_manager *manager, mbr_holder_record *record);
/* The holder has ended: its givers and savers stand on none, and are not being called. */
void mbr_end_givers(mbr_manager *manager, mbr_holder_record *holder);

/* A mechanism's device; NULL: no host memory. */
mbr_device_record *mbr_find_device(
    mbr_manager *manager, const mbr_mechanism_description *description);
void mbr_finish_devices(mbr_manager *manager);
/* For calls that are refused with MBR_BUSY while a capture is open: none begins until
 * mbr_gate_leave. The gate outlives the mechanism. */
mbr_status mbr_enter_gate(const mbr_mechanism_record *mechanism, mbr_gate **gate, mbr_error *error);

/* Ends the abandoned bindings of which nothing is left: before a part is removed that they refer
 * to. Not in a callback of a holder that is asked for bytes. */
void mbr_end_abandoned(mbr_manager *manager);

/* One binding less; ends a backing that none uses any more. */
mbr_status mbr_drop_backing(
    mbr_manager *manager, mbr_backing_record *record, mbr_backing_user *user, mbr_error *error);

#endif
