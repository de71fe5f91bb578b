/* The state of one run, for the files of this folder alone. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_SIMULATE_H
#define MEMBRANE_TOOLS_CLI_REPLAY_SIMULATE_H

#include "tools/cli/progress.h"
#include "tools/cli/replay/store.h"
#include "tools/cli/replay/touch.h"

/* One request's stay, from admission to its end or preemption. */
typedef struct replay_run {
    replay_contents contents;
    replay_entry *entry; /* the prefix it came with, while it runs */
    uint64_t index;      /* of the request */
    uint64_t start_ns, decode_ns;
    uint64_t tokens, capacity_tokens, end_tokens;
    bool stalled; /* its next token was refused; tried again after a release */
} replay_run;

typedef struct replay_sim {
    const mbr_replay_options *options;
    const mbr_trace *trace;
    mbr_replay_report *report;
    replay_world world;
    replay_touch touch;
    replay_store *store; /* NULL: prefixes are not shared */
    mbr_progress progress;
    uint64_t now_ns, step_ns;
    uint64_t next_arrival;
    uint64_t *waiting; /* ring of request indices, oldest first */
    uint64_t waiting_first, waiting_count;
    bool *has_waited; /* one a request */
    replay_run *runs;
    uint64_t run_count, run_capacity;
    uint64_t done_count;
    uint64_t release_count; /* rises with each release: what was refused is tried again */
    uint64_t head_tried;    /* release_count at the last refusal of the head, + 1 */
    uint64_t last_sample_ns, live_changed_ns;
    uint64_t next_checkpoint;
    char *text; /* the first failure */
} replay_sim;

/* admit.c: admission, decode, ends. Each returns false after a failure that ends the run, with the
 * text set. */
bool replay_admit_waiting(replay_sim *sim);
bool replay_decode_all(replay_sim *sim);
/* Ends whatever still runs. */
bool replay_end_all(replay_sim *sim);
/* Nothing can go on but by taking from the youngest. False: there is nothing to take. */
bool replay_preempt_youngest(replay_sim *sim);
void replay_wait_push(replay_sim *sim, uint64_t index);
void replay_wait_push_front(replay_sim *sim, uint64_t index);

/* sample.c */
void replay_sample(replay_sim *sim);
void replay_checkpoint(replay_sim *sim);

/* Sets the text once. Always false. */
bool replay_fail(replay_sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
