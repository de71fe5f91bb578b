/* A context inside: lines, epochs, marks and the marks' way through a line.
 *
 *   defer   an entry joins the open epoch; for each of its streams the epoch has one mark
 *   seal    the open epoch takes no more entries; its marks stand at their lines, unsignalled
 *   signal  a line's unsignalled marks get the value of one signal and are pending
 *   ask     a line's pending marks up to the reached value are done and go; an entry whose marks
 *           are all done moves to `ready`; an epoch without entries goes
 *   take    new work on a stream takes an entry out of its epoch again (reactivate.c)
 *   settle  entries of `ready` are settled as released, entries of `lost` as lost, in that order
 *
 * One lock (rank QUEUE) guards everything here; functions named _locked need it, and those marked
 * "drops the lock" let it go around a slot or settle call. Three marks say that one thread is at a
 * job that drops the lock: `signalling` (line slots that are serial: signal), `asking`, `settling`.
 * Who finds asking or settling taken goes on without it (no reaper waits for another); who reaps
 * before a refusal asks all the same, since the other's answers may be older. call_count covers
 * every call that drops the lock and comes back: the end waits for it. */
#ifndef MEMBRANE_HOST_EP_INTERNAL_H
#define MEMBRANE_HOST_EP_INTERNAL_H

#include "abi/base/fork.h"
#include "abi/base/lock.h"
#include "abi/base/state.h"
#include "host/ep/chore.h"
#include "host/ep/context.h"
#include "host/ep/pool.h"

#include <sys/queue.h>

typedef struct mbr_epoch mbr_epoch;
typedef struct mbr_line mbr_line;
typedef struct mbr_mark mbr_mark;

/* One stream of one epoch. */
struct mbr_mark {
    TAILQ_ENTRY(mbr_mark) link;    /* in one of its line's three lists */
    TAILQ_ENTRY(mbr_mark) sibling; /* in its epoch's list, in order of joining */
    mbr_epoch *epoch; /* NULL: its entries were all taken again while it was in flight */
    mbr_line *line;
    bool is_inflight;
    uint64_t value; /* 0 until signalled */
    uint64_t bit;   /* its bit in entries' epoch_streams */
};
TAILQ_HEAD(mbr_mark_list, mbr_mark);
TAILQ_HEAD(mbr_sibling_list, mbr_mark);

typedef struct mbr_entry_list {
    mbr_deferred *first;
    mbr_deferred *last;
} mbr_entry_list;

/* An entry in it is settled when (epoch_streams & ~done) is 0. It goes with its last entry. */
struct mbr_epoch {
    TAILQ_ENTRY(mbr_epoch) link; /* in `live`, by sequence */
    uint64_t sequence;
    uint64_t opened_ns;
    uint64_t entry_count; /* in it */
    uint64_t bytes;       /* of them */
    uint64_t done;        /* bits of the marks that are reached */
    uint32_t mark_count;
    struct mbr_sibling_list marks; /* that are not reached */
    mbr_entry_list entries;
};
TAILQ_HEAD(mbr_epoch_list, mbr_epoch);

/* free -> opening -> attached -> detached -> closing -> free; opening -> free where the line is
 * refused, -> closing or detached where the context ended meanwhile. A detached line of a lost
 * context stays as it is. */
enum {
    MBR_LINE_FREE,
    MBR_LINE_OPENING,
    MBR_LINE_ATTACHED,
    MBR_LINE_DETACHED,
    MBR_LINE_CLOSING,
    MBR_LINE_STATES
};
/* capturing -> kept -> retiring -> gone; retiring -> kept where the queue refused; capturing ->
 * lost -> gone and kept -> gone with the context lost. */
enum {
    MBR_GRAPH_CAPTURING,
    MBR_GRAPH_KEPT,
    MBR_GRAPH_RETIRING,
    MBR_GRAPH_LOST, /* its capture was open */
    MBR_GRAPH_GONE,
    MBR_GRAPH_STATES
};
extern const mbr_state_table mbr_graph_table;
extern const mbr_state_table mbr_line_table;
extern const mbr_state_table mbr_context_table;

/* mark_count = its mark in the open epoch + the lengths of unsignalled, inflight and pending.
 * Values in pending rise and are above reached; reached <= signalled. */
struct mbr_line {
    _Atomic uint32_t state;
    uint32_t user_count;     /* calls that use it with the lock dropped */
    uint32_t transfer_count; /* of them, fills and copies: no capture begins under one */
    uint64_t id;             /* of the stream for our callers, of the line for the tables */
    mbr_native native;
    uint64_t signalled;
    uint64_t reached;
    uint64_t mark_count;
    mbr_mark *open_mark;
    struct mbr_mark_list unsignalled; /* not empty: the line is in `dirty` */
    struct mbr_mark_list inflight;    /* while its signal slot runs */
    struct mbr_mark_list pending;     /* not empty: the line is in `waiting` */
    mbr_status failure;               /* of its last signal */
    mbr_graph *capture;               /* NULL: it is not being captured */
    bool is_dirty;
    bool is_waiting;
    TAILQ_ENTRY(mbr_line) home_link; /* in `free_lines` or `closing` */
    TAILQ_ENTRY(mbr_line) dirty_link;
    TAILQ_ENTRY(mbr_line) waiting_link;
};
TAILQ_HEAD(mbr_line_list, mbr_line);

/* queued_count = entries of all live epochs but claimed ones + of ready + of lost + held by graphs.
 * ready_total - settled_total = entries of ready + of lost + those being settled.
 * Pins and the state are one word, so that a pin is one instruction and no pin can slip past a
 * retirement: life = pins * 4 + state. */
struct mbr_context {
    _Atomic uint64_t life;
    char name[48];
    mbr_order_vtable order;
    mbr_transfer_vtable transfer;
    bool has_transfer;
    mbr_instance *instance;
    uint32_t queue_entries;
    uint64_t queue_bytes;
    const mbr_heap *heap;
    const mbr_clock *clock;
    const mbr_threads *threads;
    _Atomic uint64_t violation_count;
    _Atomic bool end_is_confirmed; /* of a lost one */
    mbr_fork_guard fork;
    bool is_fork_safe;
    mbr_fork_flag *serves; /* in the guard's page; without one, `never` */
    mbr_fork_flag never;

    mbr_lock lock;
    mbr_condition changed; /* for callers that wait for another thread's step */
    uint32_t waiter_count; /* callers on `changed` */
    uint32_t call_count;   /* calls inside that come back to the lock */
    bool signalling;
    bool asking;
    bool settling;
    pthread_t settler;

    mbr_gate own_gate;
    mbr_gate *gates[MBR_CONTEXT_GATE_COUNT]; /* the first is its own; no other leaves or comes
                                              * while a capture is open here */
    uint32_t gate_count;
    _Atomic uint32_t capture_count; /* captures that begin or are open; changes under the lock */
    mbr_graph *graphs;              /* by serial */
    uint64_t graph_serial;          /* of the last one */

    mbr_line *lines[MBR_CONTEXT_STREAM_COUNT]; /* stream_id = first + serial * COUNT + place */
    uint64_t first_stream_id;
    uint32_t place_count;
    uint64_t stream_serial;
    uint64_t stream_count;
    uint64_t line_count;
    struct mbr_line_list free_lines;
    struct mbr_line_list dirty;
    struct mbr_line_list waiting;
    struct mbr_line_list closing;

    mbr_pool epochs;
    mbr_pool marks;
    mbr_epoch *open; /* the last of `live`, or NULL */
    struct mbr_epoch_list live;
    uint64_t epoch_sequence; /* of the last epoch opened */
    mbr_entry_list ready;
    mbr_entry_list lost;
    _Atomic uint64_t
        queued_count; /* changes under the lock; read without it to skip empty queues */
    uint64_t queued_bytes;
    uint64_t claimed_count; /* entries for which a device-side wait is being enqueued */
    uint64_t reactivated_count;
    uint64_t stream_wait_count; /* device-side waits for them */
    uint64_t ready_total;
    uint64_t settled_total;
    uint64_t released_count;
    uint64_t lost_count;
    uint64_t signal_count;
    uint64_t progress_count; /* marks signalled, marks reached, entries settled */

    bool has_reaper;
    bool reaper_stop;
    bool reaper_sleeping;
    uint64_t reaper_until_ns; /* while it sleeps; UINT64_MAX: until it is woken */
    /* When the last open epoch that was taken again whole would have been due. The reaper sleeps no
     * longer than that, so that who frees and takes again all the time wakes it once an age. */
    uint64_t emptied_due_ns;
    uint64_t wake_count;
    mbr_condition reaper_wake;
    pthread_t reaper;

    mbr_chore *chores; /* lock */
};

/* ---- context.c ---- */
uint32_t mbr_context_state_now(const mbr_context *context);
bool mbr_context_is_lost(const mbr_context *context);
void mbr_context_enter_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
void mbr_context_leave_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
void mbr_context_notify_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
/* Waits for a change by another thread, at most until until_ns of the context's clock and at most
 * MBR_REAPER_BACKOFF_MAX_NS: the caller looks again. False when the time has passed. Drops the
 * lock. */
bool mbr_context_await_locked(mbr_context *context, uint64_t until_ns) MBR_REQUIRES(&context->lock);
uint64_t mbr_context_real_ns(const mbr_context *context, uint64_t until_ns);
/* Waits for the right to signal; false when the deadline has passed. Drops the lock. */
bool mbr_context_claim_signalling_locked(mbr_context *context, uint64_t deadline_ns)
    MBR_REQUIRES(&context->lock);
void mbr_context_consider_termination_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
/* Ends the context and moves every entry that waits for a value to `lost`. */
void mbr_context_mark_lost_locked(mbr_context *context) MBR_REQUIRES(&context->lock);

/* ---- lines.c ---- */
mbr_line *mbr_context_find_line_locked(mbr_context *context, uint64_t stream_id)
    MBR_REQUIRES(&context->lock);
void mbr_line_set_state(mbr_line *line, uint32_t from, uint32_t to);
/* A claimed place in the state opening, with its ids. */
mbr_status mbr_context_claim_line_locked(mbr_context *context, mbr_native native, mbr_line **line,
    mbr_error *error) MBR_REQUIRES(&context->lock);
void mbr_context_free_line_locked(mbr_context *context, mbr_line *line)
    MBR_REQUIRES(&context->lock);
void mbr_context_hold_line_locked(mbr_context *context, mbr_line *line)
    MBR_REQUIRES(&context->lock);
void mbr_context_drop_line_locked(mbr_context *context, mbr_line *line)
    MBR_REQUIRES(&context->lock);
/* A detached line that nothing refers to goes to `closing`. */
void mbr_context_consider_closing_locked(mbr_context *context, mbr_line *line)
    MBR_REQUIRES(&context->lock);
/* Closes the lines in `closing`. Drops the lock. */
void mbr_context_close_lines_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
void mbr_context_finish_lines(mbr_context *context); /* at the end: closes and frees all of them */

/* ---- queue.c ---- */
void mbr_context_seal_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
/* The line, held by the caller, has reached `value`: its marks up to it are done. */
void mbr_context_reach_locked(mbr_context *context, mbr_line *line, uint64_t value)
    MBR_REQUIRES(&context->lock);
void mbr_context_lose_entries_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
void mbr_context_free_mark_locked(mbr_context *context, mbr_mark *mark)
    MBR_REQUIRES(&context->lock);
void mbr_entry_list_append(mbr_entry_list *list, mbr_deferred *entry);
void mbr_entry_list_remove(mbr_entry_list *list, mbr_deferred *entry);
mbr_deferred *mbr_entry_list_pop(mbr_entry_list *list);
/* Onto its shelf, if it has one and no graphs, and off it: an entry is there exactly while it waits
 * in an epoch and is not claimed. */
void mbr_entry_shelve(mbr_deferred *entry);
void mbr_entry_unshelve(mbr_deferred *entry);
void mbr_context_join_lost_locked(mbr_context *context, mbr_deferred *entry)
    MBR_REQUIRES(&context->lock);
/* Out of its epoch, which goes with its last entry; marks that are left stand for nobody. */
void mbr_context_leave_epoch_locked(mbr_context *context, mbr_deferred *entry)
    MBR_REQUIRES(&context->lock);

/* Its streams are done: to `ready`, or to the graph that still owns its memory. */
void mbr_context_make_ready_locked(mbr_context *context, mbr_deferred *entry)
    MBR_REQUIRES(&context->lock);

/* ---- capture.c ---- */
bool mbr_context_is_gated_locked(const mbr_context *context) MBR_REQUIRES(&context->lock);
/* Enters every gate; 0: one is closed. Leaving takes what it returned. */
uint32_t mbr_context_try_enter_gates_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
void mbr_context_leave_gates_locked(mbr_context *context, uint32_t entered)
    MBR_REQUIRES(&context->lock);
mbr_status mbr_context_refuse_gated(const mbr_context *context, mbr_error *error);
/* A graph that still owns memory of these, or NULL. */
mbr_graph *mbr_context_find_owner_locked(const mbr_context *context, mbr_graphs graphs)
    MBR_REQUIRES(&context->lock);
/* The context is lost: its captures are over, what graphs held is lost with it. */
void mbr_context_lose_graphs_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
void mbr_context_count_graphs_locked(const mbr_context *context, mbr_ep_figures *figures)
    MBR_REQUIRES(&context->lock);

/* ---- signal.c ---- */
/* One signal for each line that is dirty now. The caller has set `signalling`; it is cleared here.
 * Drops the lock. */
void mbr_context_signal_locked(mbr_context *context) MBR_REQUIRES(&context->lock);
/* Asks each waiting line for its value, unless another thread does; `now` asks in any case. Drops
 * the lock. */
void mbr_context_ask_locked(mbr_context *context, bool now) MBR_REQUIRES(&context->lock);
/* Whether a signal's answer is good: MBR_CONTRACT_BROKEN where the value does not rise. */
mbr_status mbr_context_judge_value_locked(mbr_context *context, mbr_line *line, mbr_status status,
    uint64_t value) MBR_REQUIRES(&context->lock);

/* ---- reap.c ---- */
/* Seals (if due, or `now`), signals, asks, closes lines, settles. Drops the lock. */
uint64_t mbr_context_pass_locked(mbr_context *context, bool now) MBR_REQUIRES(&context->lock);
uint64_t mbr_context_settle_locked(mbr_context *context) MBR_REQUIRES(&context->lock);

/* ---- reaper.c ---- */
mbr_status mbr_context_start_reaper(mbr_context *context, mbr_error *error);
void mbr_context_stop_reaper(mbr_context *context);
/* Wakes the reaper if it sleeps past until_ns. */
void mbr_context_poke_reaper_locked(mbr_context *context, uint64_t until_ns)
    MBR_REQUIRES(&context->lock);

/* ---- chore.c ---- */
/* When the next one is due; UINT64_MAX: when it is woken. */
uint64_t mbr_context_chores_due_locked(const mbr_context *context) MBR_REQUIRES(&context->lock);
/* Runs each that is due. Drops the lock. */
void mbr_context_do_chores_locked(mbr_context *context) MBR_REQUIRES(&context->lock);

/* MBR_STALE in a forked child (rule 27): precedes every slot, and every wait for another thread. */
mbr_status mbr_context_check_process(const mbr_context *context, mbr_error *error);

/* ---- slot.c: every call into the tables, with no lock held ---- */
mbr_status mbr_slot_line_open(
    mbr_context *context, uint64_t line_id, mbr_native native, mbr_error *error);
mbr_status mbr_slot_line_close(mbr_context *context, uint64_t line_id);
mbr_status mbr_slot_signal(
    mbr_context *context, uint64_t line_id, uint64_t *value, mbr_error *error);
mbr_status mbr_slot_reached(mbr_context *context, uint64_t line_id, uint64_t *value);
mbr_status mbr_slot_wait(
    mbr_context *context, uint64_t line_id, uint64_t value, uint64_t deadline_ns, mbr_error *error);
mbr_status mbr_slot_stream_wait(
    mbr_context *context, uint64_t line_id, uint64_t value, mbr_native native, mbr_error *error);
mbr_status mbr_slot_stream_create(mbr_context *context, mbr_native *native, mbr_error *error);
mbr_status mbr_slot_stream_destroy(mbr_context *context, mbr_native native, mbr_error *error);
mbr_status mbr_slot_fill(mbr_context *context, mbr_native native, uint64_t address, uint8_t value,
    uint64_t bytes, mbr_error *error);
mbr_status mbr_slot_copy(mbr_context *context, mbr_native native, uint64_t to_address,
    uint64_t from_address, uint64_t bytes, mbr_error *error);

#endif
