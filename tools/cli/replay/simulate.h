/* The state of one run, for the files of this folder alone. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_SIMULATE_H
#define MEMBRANE_TOOLS_CLI_REPLAY_SIMULATE_H

#include "tools/cli/progress.h"
#include "tools/cli/replay/arena.h"
#include "tools/cli/replay/pages.h"
#include "tools/cli/replay/reuse.h"
#include "tools/cli/replay/store.h"
#include "tools/cli/replay/touch.h"
#include "tools/cli/replay/weights.h"

/* One request's stay, from admission to its end or preemption. */
typedef struct replay_run {
    replay_contents contents;
    replay_leaf *leaf;   /* of a paged store; NULL: none */
    replay_entry *entry; /* the prefix it came with, while it runs */
    const mbr_kv_prefix *prefix;
    uint64_t index; /* of the request */
    uint64_t start_ns, decode_ns;
    uint64_t tokens, capacity_tokens, end_tokens;
    uint64_t member;         /* of the tenant's admission; 0 where there is none */
    uint64_t promised_bytes; /* that the member has grown to */
    uint64_t shared_bytes;   /* of a prefix, not its member's */
    uint64_t prefix_tokens;  /* of the prompt, as the store has them */
    bool is_fork;            /* a second answer to the same request; nobody waits for it */
    bool forked;
    bool stalled; /* its next token was refused; tried again after a release */
} replay_run;

typedef struct replay_sim replay_sim;

/* One model with its trace: a queue, sequences, prefixes, and a holder that pays for them. */
typedef struct replay_tenant {
    replay_sim *sim;
    const mbr_trace *trace;
    const char *model;
    mbr_replay_tenant_report *report;
    replay_seat *seat; /* in the world */
    replay_touch touch;
    replay_store *store;     /* NULL: prefixes are not shared */
    replay_reuse *reuse;     /* where there is a store */
    replay_origins *origins; /* of the store's prefixes, where there are stamps */
    uint64_t next_arrival;
    uint64_t *waiting; /* ring of request indices, oldest first */
    uint64_t waiting_first, waiting_count;
    bool *has_waited; /* one a request */
    replay_run *runs;
    uint64_t run_count, run_capacity;
    uint64_t done_count;
    uint64_t head_tried;      /* release_count at the last refusal of the head, + 1 */
    mbr_ticket_handle ticket; /* 0: none */
} replay_tenant;

struct replay_sim {
    const mbr_replay_options *options;
    mbr_replay_way way;
    mbr_replay_report *report;
    replay_world world;
    replay_tenant tenants[MBR_REPLAY_TENANT_LIMIT_COUNT];
    uint32_t tenant_count;
    replay_arena arena;     /* with --sleep-every */
    replay_weights weights; /* the same */
    replay_pages pages;     /* with --paged */
    uint64_t sleep_due;     /* requests that are done */
    mbr_progress progress;
    uint64_t now_ns, step_ns;
    uint64_t span_ns;       /* the last arrival of all: what is completed by then counts */
    uint64_t total_count;   /* requests of all tenants */
    uint64_t stay_count;    /* begun */
    uint64_t release_count; /* rises with each release: what was refused is tried again */
    bool is_stuck;          /* in the last step nobody got on: nobody is let in during the next */
    uint64_t last_sample_ns;
    char *text; /* the first failure */
};

/* Each that returns bool returns false after a failure that ends the run, with the text set. */

/* queue.c: who waits, in order of arrival. */
void replay_wait_push(replay_tenant *tenant, uint64_t index);
void replay_wait_push_front(replay_tenant *tenant, uint64_t index);
void replay_wait_pop(replay_tenant *tenant);
uint64_t replay_wait_head(const replay_tenant *tenant);
/* The head can never be served. */
void replay_refuse_head(replay_tenant *tenant, const char *why);
/* Counts those as waiting that were not let in. */
void replay_count_waiting(replay_tenant *tenant);

/* admit.c */
bool replay_admit_waiting(replay_tenant *tenant);

/* Who writes from now on what the run's sequence has. */
void replay_name_writer(replay_tenant *tenant, replay_run *run);
/* Room for one more run; false: no memory. */
bool replay_reserve_run(replay_tenant *tenant);

/* fork.c: second answers to prompts that are computed. */
bool replay_fork_due(replay_tenant *tenant);

/* decode.c: one step of all that decode in one tenant. *moves is set if any of them gets on. */
bool replay_decode(replay_tenant *tenant, bool *moves);

/* end.c */
bool replay_end_run(replay_tenant *tenant, uint64_t at);
/* Ends whatever still runs. */
bool replay_end_all(replay_tenant *tenant);
/* Takes from the youngest of the tenant, or of all (NULL); it is served again from its start.
 * *preempted is false if nobody runs. */
bool replay_preempt_youngest(replay_sim *sim, replay_tenant *tenant, bool *preempted);
/* All runs of all tenants. */
uint64_t replay_run_count(const replay_sim *sim);

/* press.c: what is refused asks for bytes, and what a tenant has is asked for. */

/* After a refusal: releases that are under way, then the tenant's cold prefixes, until something
 * could have changed. False: there is nothing to give. */
bool replay_make_room(replay_tenant *tenant, bool *drained);
/* Queued releases are settled first, so that a run does not depend on how fast the workers are. */
void replay_settle_releases(replay_sim *sim);
/* Waits for the bytes with a ticket. True: they, or what a ticket asked before, are set aside for
 * the tenant now. Always false where tenants have no admission. */
bool replay_wait_for_bytes(replay_tenant *tenant, uint64_t bytes);
/* True: its ticket was granted, and the bytes are set aside. One that is over in any way ends. */
bool replay_claim_ticket(replay_tenant *tenant);
/* What it waited for is there by other ways, or is not wanted any more. */
void replay_end_ticket(replay_tenant *tenant);
/* What a ticket brought and no growth took is for all again. */
void replay_return_aside(replay_tenant *tenant);
/* What the tenant leases, as a part of its share; 0 where it has none. */
double replay_share_used(const replay_tenant *tenant);
/* How others' tickets press the tenant. */
mbr_pressure_callbacks replay_pressed(replay_tenant *tenant);

/* rest.c: weights and caches sleep and wake as requests are done */
bool replay_open_rest(replay_sim *sim);
bool replay_rest_if_due(replay_sim *sim, uint64_t done_count);
bool replay_close_rest(replay_sim *sim);
bool replay_forget_rest(replay_sim *sim);

/* nap.c: all that the tenant's sequences have alone sleeps and wakes, and is checked. What does not
 * wake for want of room begins anew. */
bool replay_nap(replay_tenant *tenant);

/* leaves.c: the paged stores' sequences, which go along with the runs */
bool replay_open_pages(replay_sim *sim);
bool replay_begin_leaf(replay_tenant *tenant, replay_run *run);
/* A run that is a fork of another one. */
bool replay_fork_leaf(replay_tenant *tenant, replay_run *run, const replay_run *from);
bool replay_follow_leaf(replay_tenant *tenant, replay_run *run);
bool replay_end_leaf(replay_tenant *tenant, replay_run *run);
/* All of them, as far as there is room; and back, checked. */
bool replay_preempt_leaves(replay_tenant *tenant);
bool replay_restore_leaves(replay_tenant *tenant);
bool replay_close_pages(replay_sim *sim);
bool replay_forget_pages(replay_sim *sim);

/* sample.c */
void replay_sample(replay_sim *sim);
void replay_checkpoint(replay_sim *sim);

/* Sets the text once. Always false. */
bool replay_fail(replay_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline uint64_t replay_wall_ns(void)
{
    return mbr_clock_now(&mbr_clock_monotonic);
}

#endif
