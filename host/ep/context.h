/* One EP's device context: its state, its pins, its streams and lines, and its release queue.
 *
 * Nothing here knows what a release gives back: an entry is settled by its own function, with no
 * lock held, exactly once, as released (every line value that covers it was reached) or as lost.
 *
 * Context states: active -> retiring -> terminated; active or retiring -> lost.
 *   active      new pins, streams and entries are taken
 *   retiring    releases go on, nothing new is pinned
 *   lost        no call into the device any more; queued entries settle as lost
 *   terminated  every pin is gone and the queue is empty
 *
 * An epoch is a run of entries behind one signal for each of their streams. It closes at 64
 * entries, at 64 MiB, when an allocation finds no free bytes (mbr_context_reap), on poll, or 1 ms
 * after its first entry. An entry is settled when the values of its own streams are reached, unless
 * new work takes it out of the queue before (mbr_context_reactivate). */
#ifndef MEMBRANE_HOST_EP_CONTEXT_H
#define MEMBRANE_HOST_EP_CONTEXT_H

#include "abi/base/error.h"
#include "abi/base/fork.h"
#include "abi/base/growable.h"
#include "abi/base/seam.h"
#include "host/ep/gate.h"
#include "host/ep/thread.h"
#include "membrane/budget.h"
#include "membrane/ep.h"

#include <stdbool.h>

#define MBR_EPOCH_ENTRY_COUNT 64
#define MBR_EPOCH_BYTES (UINT64_C(64) << 20)
#define MBR_EPOCH_AGE_NS 1000000
#define MBR_CONTEXT_STREAM_COUNT 1024           /* open lines at once */
#define MBR_DEFER_STREAM_COUNT 64               /* streams of one entry, and of one epoch */
#define MBR_CONTEXT_QUEUE_ENTRIES 65536         /* the bound where the options say 0 */
#define MBR_REAP_PASS_BYTES (UINT64_C(1) << 30) /* destroying a large handle takes long (D32) */
#define MBR_REAPER_BACKOFF_MAX_NS 100000000
#define MBR_CONTEXT_GATE_COUNT 16 /* gates of one context: its own, and those of its devices */

typedef struct mbr_context mbr_context;

typedef enum mbr_settled {
    MBR_SETTLED_RELEASED = 0, /* the device is done with it */
    MBR_SETTLED_LOST,         /* nobody will ever know */
} mbr_settled;

/* Graphs by serial, [first, last]: those that may touch what was made while their captures were
 * open. first 0: none. It may name graphs in between, which then hold back what is not theirs. */
typedef struct mbr_graphs {
    uint64_t first, last;
} mbr_graphs;

struct mbr_epoch;

/* Queued entries of one kind, any of which could serve the same new work; its owner's memory, which
 * outlives them. All zero when it is made; touched by the context alone. */
typedef struct mbr_shelf {
    struct mbr_deferred *newest;
} mbr_shelf;

/* Embedded in whatever waits for its release; owned by the caller, untouched by it from defer until
 * it is settled or taken again. No allocation is made for an entry (I20). */
typedef struct mbr_deferred {
    uint64_t bytes; /* set by the caller: what it will give back */
    void (*settle)(struct mbr_deferred *entry, mbr_settled how); /* set by the caller */
    mbr_graphs graphs; /* set by the caller: it also waits until all of them are retired */
    mbr_shelf *shelf;  /* set by the caller; NULL: it is never taken again */
    /* The context's own. */
    struct mbr_deferred *next, *prev;
    struct mbr_deferred *shelf_next, *shelf_prev;
    struct mbr_epoch *epoch; /* while it waits */
    uint64_t epoch_streams;  /* set of its epoch's streams */
    bool is_claimed;         /* neither settled nor given until a call of the claimer's returns */
} mbr_deferred;

/* One capture, and then the graph that came of it. The caller's memory, untouched by it from a
 * successful begin until `gone`. */
typedef struct mbr_graph {
    struct mbr_graph *next, *prev; /* of the context, by serial */
    mbr_context *context;
    uint64_t serial;    /* rises, never used again */
    uint64_t stream_id; /* that is or was captured */
    uint32_t state;
    mbr_deferred *held_first, *held_last; /* releases whose streams are done */
    uint64_t held_count, held_bytes;
    mbr_deferred end;                      /* of its retirement */
    void (*gone)(struct mbr_graph *graph); /* set by the caller; called with no lock held */
} mbr_graph;

typedef struct mbr_context_options {
    const char *name;
    const mbr_order_vtable *order;       /* copied; required */
    const mbr_transfer_vtable *transfer; /* copied; NULL: fill and copy are MBR_UNSUPPORTED */
    mbr_instance *instance;
    uint32_t queue_entries; /* bound; 0: MBR_CONTEXT_QUEUE_ENTRIES */
    uint64_t queue_bytes;   /* bound; 0: none */
    /* Ids of streams rise from here, so that those of two contexts never meet; a line has the id of
     * its stream, so contexts that share an instance need ranges that do not meet. 0: 1 */
    uint64_t first_stream_id;
    bool reaper;                /* run a thread of its own */
    bool is_fork_safe;          /* a forked child may call the tables */
    const mbr_heap *heap;       /* NULL: libc */
    const mbr_clock *clock;     /* NULL: CLOCK_MONOTONIC */
    const mbr_threads *threads; /* NULL: the system's */
} mbr_context_options;

mbr_status mbr_context_create(
    const mbr_context_options *options, mbr_context **context, mbr_error *error);
/* Joins the reaper and closes the lines (not those of a lost context: no call into its device is
 * made any more). The caller has drained it: MBR_IN_USE with counts while a pin or an entry is
 * left. Waits for calls that are still inside. */
mbr_status mbr_context_destroy(mbr_context *context, mbr_error *error);

uint32_t mbr_context_state(const mbr_context *context); /* MBR_CONTEXT_… */
/* For paths that cannot afford a call: up only while the context is active, in the process that
 * made it. Where it is down, ask. Lives as long as the context. */
const mbr_fork_flag *mbr_context_serves(const mbr_context *context);

/* What every call that takes something new asks first: MBR_BUSY while it retires, MBR_DEVICE_LOST.
 */
static inline mbr_status mbr_context_check_active(const mbr_context *context, mbr_error *error)
{
    uint32_t state = mbr_context_state(context);
    if (__builtin_expect(state == MBR_CONTEXT_ACTIVE, 1))
        return MBR_OK;
    if (state == MBR_CONTEXT_LOST)
        return mbr_fail(error, MBR_DEVICE_LOST,
            "the EP's device is lost and gives nothing new; destroy what it held, then the EP");
    return mbr_fail(error, MBR_BUSY, "the EP is being retired and takes nothing new");
}
/* MBR_OK also where it is retiring or terminated; MBR_DEVICE_LOST. */
mbr_status mbr_context_retire(mbr_context *context, mbr_error *error);
/* Whether a capture of one of its streams begins or is open. */
bool mbr_context_is_capturing(const mbr_context *context);
/* Runs the chores that are due (host/ep/chore.h); nothing where the reaper does. */
void mbr_context_do_chores(mbr_context *context);
void mbr_context_lose(mbr_context *context); /* settles every queued entry as lost */
/* Whoever knows says that the lost device's own context is gone, and all its memory with it.
 * Before, what is lost stays charged; from now on it is refunded as it is given back. */
void mbr_context_confirm_end(mbr_context *context);
bool mbr_context_has_ended(const mbr_context *context); /* lost, and its end is confirmed */

/* A pin keeps the context from terminating. Refused with MBR_BUSY unless active; any number. */
mbr_status mbr_context_pin(mbr_context *context, mbr_error *error);
void mbr_context_unpin(mbr_context *context);

/* Stream ids rise and are never used again. id 0 is no stream. MBR_BUSY unless active;
 * MBR_OUT_OF_DESCRIPTORS at MBR_CONTEXT_STREAM_COUNT open lines. */
mbr_status mbr_context_attach_stream(
    mbr_context *context, mbr_native native, uint64_t *stream_id, mbr_error *error);
/* Closes the open epoch if entries of the stream are in it, so that the native stream may go when
 * this returns MBR_OK. A refused signal is returned (MBR_BUSY: the stream is being captured), and
 * the stream stays attached. */
mbr_status mbr_context_detach_stream(mbr_context *context, uint64_t stream_id, mbr_error *error);

/* ---- Graph capture (docs/ordering.md) ----
 * While a capture is open, the gates of the context are closed: entries stay queued, no line is
 * waited for, and drain and synchronize are MBR_BUSY. */

/* A device that the context works on: what is captured here closes its gate, too, and a capture of
 * any context on it closes this one's. Outlives the context. MBR_BUSY while a capture is open here,
 * MBR_OUT_OF_RANGE at MBR_CONTEXT_GATE_COUNT. */
mbr_status mbr_context_join_gate(mbr_context *context, mbr_gate *gate, mbr_error *error);

/* Waits until no gated call is inside. MBR_UNKNOWN_OBJECT (stream), MBR_ALREADY_EXISTS (it is being
 * captured), MBR_TIMED_OUT, MBR_BUSY unless active, MBR_DEVICE_LOST. A graph pins the context. */
mbr_status mbr_context_begin_capture(mbr_context *context, uint64_t stream_id, uint64_t deadline_ns,
    mbr_graph *graph, mbr_error *error);
/* By any thread. MBR_DEVICE_LOST: meanwhile; there is no graph, and `gone` was called. */
mbr_status mbr_context_end_capture(
    mbr_context *context, uint64_t stream_id, mbr_graph **graph, mbr_error *error);
/* No launch of it will be submitted any more; those that were are on the streams. Once they are
 * done it is gone, and what it held goes on. Failures of mbr_context_defer leave it as it was;
 * MBR_STALE if it is being retired. `graph` is one that
 * mbr_context_end_capture gave. */
mbr_status mbr_context_retire_graph(mbr_context *context, mbr_graph *graph,
    const uint64_t *stream_ids, uint32_t stream_count, mbr_error *error);
/* Of a lost context: every graph is let go, but for one whose retirement is inside at this moment,
 * which lets go of it. */
void mbr_context_forget_graphs(mbr_context *context);
void mbr_context_read_graph(
    mbr_context *context, const mbr_graph *graph, uint64_t *held_count, uint64_t *held_bytes);

/* Whose the memory is that is made now for a stream: of its capture, if it is being captured; else
 * of every capture that is open (0: no stream is known). One load where none is. */
mbr_graphs mbr_context_graphs_now(mbr_context *context, uint64_t stream_id);
/* Whether one of them is not yet gone. */
bool mbr_context_owns(mbr_context *context, mbr_graphs graphs);

static inline mbr_graphs mbr_graphs_join(mbr_graphs some, mbr_graphs others)
{
    if (some.first == 0 || others.first == 0)
        return some.first == 0 ? others : some;
    return (mbr_graphs){some.first < others.first ? some.first : others.first,
        some.last > others.last ? some.last : others.last};
}

/* Queues an entry behind all work submitted so far to the streams (stream_count of them, at most
 * MBR_DEFER_STREAM_COUNT; an entry with none is settled at the next reap). Detached and unknown ids
 * are MBR_UNKNOWN_OBJECT. Every failure hands the entry back untouched: MBR_QUEUE_FULL, MBR_BUSY
 * (terminated), MBR_DEVICE_LOST, MBR_OUT_OF_RANGE (too many streams), MBR_OUT_OF_HOST_MEMORY (more
 * epochs are open than ever before and the heap is exhausted). Settles nothing itself. */
mbr_status mbr_context_defer(mbr_context *context, const uint64_t *stream_ids,
    uint32_t stream_count, mbr_deferred *entry, mbr_error *error);

/* Reactivation: takes an entry of the shelf out of the queue for new work on the stream, without a
 * wait on the host; it is the caller's again and is not settled. One that waits for that stream
 * alone is taken at once: the new work comes after it. With behind_others also one that waits for
 * further streams; the new work is then put behind them on the device (order.stream_wait). `fits`
 * says whether an entry would serve; it is called under the queue's lock and only looks. NULL:
 * there is none among the last MBR_REACTIVATE_SEEN_COUNT, the stream is not attached, the context
 * is not active or a graph is being captured, or a wait was refused, and then everything is as it
 * was. What a graph owns is never taken. */
#define MBR_REACTIVATE_SEEN_COUNT 64
mbr_deferred *mbr_context_reactivate(mbr_context *context, mbr_shelf *shelf, uint64_t stream_id,
    bool behind_others, bool (*fits)(const mbr_deferred *entry, const void *wanted),
    const void *wanted);

/* Whether new work on the stream runs after all that the entry, which its owner keeps queued, waits
 * for. Once it does, it stays so. */
bool mbr_context_is_before(mbr_context *context, const mbr_deferred *entry, uint64_t stream_id);

/* Closes the open epoch if it is due (at once if `now`), asks the lines and settles what is done,
 * up to MBR_REAP_PASS_BYTES. Returns the bytes settled. Called on allocation, poll and by the
 * reaper. */
uint64_t mbr_context_reap(mbr_context *context, bool now);

/* Closes the epoch and waits until every entry queued before the call is settled. MBR_TIMED_OUT, or
 * what the lines answered where no later attempt would help; the entries then stay queued. Not from
 * a settle function. */
mbr_status mbr_context_drain(mbr_context *context, uint64_t deadline_ns, mbr_error *error);

/* Waits until all work submitted so far to a stream is done; never elided: always one signal and
 * one wait of its own. MBR_BUSY: the stream is being captured. Settles nothing itself. */
mbr_status mbr_context_synchronize(
    mbr_context *context, uint64_t stream_id, uint64_t deadline_ns, mbr_error *error);

/* A native stream of the transfer table's own making, not attached; and back, once it is detached.
 * MBR_UNSUPPORTED without that table. A lost device's stream stays as it is: MBR_DEVICE_LOST. */
mbr_status mbr_context_create_stream(mbr_context *context, mbr_native *native, mbr_error *error);
mbr_status mbr_context_destroy_stream(mbr_context *context, mbr_native native, mbr_error *error);

/* Enqueued on a stream. MBR_UNSUPPORTED without a transfer table; MBR_UNKNOWN_OBJECT; MBR_BUSY: the
 * stream is being captured. A copy of 0 bytes asks for the last alone. */
mbr_status mbr_context_fill(mbr_context *context, uint64_t stream_id, uint64_t address,
    uint8_t value, uint64_t bytes, mbr_error *error);
mbr_status mbr_context_copy(mbr_context *context, uint64_t stream_id, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error);

void mbr_context_read(mbr_context *context, mbr_ep_figures *figures);

/* A refusal to its caller, with the bytes that wait here; `to` may be NULL or know fewer fields. */
static inline void mbr_context_give_refusal(
    mbr_context *context, const mbr_refusal *refusal, mbr_refusal *to)
{
    if (to == NULL)
        return;
    mbr_refusal full = *refusal;
    mbr_ep_figures figures;
    figures.struct_size = sizeof(figures);
    mbr_context_read(context, &figures);
    full.deferred_bytes = figures.queued_bytes;
    mbr_growable_give(to, &full, sizeof(full));
}

#endif
