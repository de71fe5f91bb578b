/* `membrane replay`: a request trace served by real memory through the host library, in simulated
 * time.
 *
 * The service model (docs/replay.md): one step is 1 / decode_rate seconds. A request that is
 * admitted computes its prompt for prompt / prefill_rate seconds, then appends one token a step
 * until its output is done. Requests are admitted in order of arrival; what the budget refuses
 * waits for a release. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_REPLAY_H
#define MEMBRANE_TOOLS_CLI_REPLAY_REPLAY_H

#include "membrane/membrane.h"
#include "tools/cli/plot.h"
#include "tools/cli/quantile.h"
#include "tools/cli/replay/compare.h"
#include "tools/cli/trace/trace.h"

#include <signal.h>
#include <stdbool.h>

#define MBR_REPLAY_NAME "membrane replay"
#define MBR_REPLAY_STREAM_COUNT 2
#define MBR_REPLAY_TEXT_BYTES 512
#define MBR_REPLAY_CHECKPOINT_LIMIT_COUNT 1000
#define MBR_REPLAY_SHOWN_BYTES 4096         /* of a path or a model in the report */
#define MBR_REPLAY_POINT_LIMIT_COUNT 200000 /* of each series of the plot */

typedef struct mbr_replay_options {
    const char *trace_path;
    mbr_trace_format format;
    const char *plugin;
    const char *model;
    const char *layout;
    const char *shared;        /* a ledger's name; NULL: none */
    const char *shared_folder; /* NULL: the default one */
    uint64_t budget_bytes;     /* UINT64_MAX: what is measured */
    uint64_t extent_bytes;     /* 0: by offset */
    uint64_t max_tokens;       /* 0: the longest request of the trace */
    uint64_t max_requests;     /* 0: all */
    uint64_t seed;
    uint64_t decode_rate;  /* tokens a second of one sequence */
    uint64_t prefill_rate; /* tokens a second */
    uint64_t checkpoint_count;
    double speed;
    uint32_t eager; /* MBR_KV_… */
    bool prefix_declared;
    bool trusted;
    bool json;
    const char *plot_path; /* NULL: none */
} mbr_replay_options;

/* A quantity over simulated time. */
typedef struct mbr_replay_series {
    uint64_t peak;
    double integral; /* bytes * seconds */
    uint64_t last;
    mbr_plot_point *points;
    uint64_t point_count;
} mbr_replay_series;

typedef struct mbr_replay_report {
    uint64_t total, served, waited, refused, preempted;
    mbr_replay_series live, mapped, owned;
    double simulated_seconds, wall_seconds, call_seconds;
    uint64_t ledger_calls, quiet_appends; /* inside what is committed: no call below */
    uint64_t plugin_calls;                /* slots of the mechanism */
    mbr_quantiles growth_ns;
    uint64_t prefix_requests, prefix_tokens, prefix_bytes; /* attached */
    uint64_t committed_bytes, created_prefixes, evicted_prefixes;
    uint64_t touched_count, verified_count;
    uint64_t oracle_points, oracle_difference_bytes, largest_extent_bytes;
    bool oracle_known; /* the plugin's memory can be asked of the system */
    uint64_t limit_bytes, token_bytes, max_tokens, granule_bytes;
    uint64_t max_prealloc_bytes, grow_and_copy_bytes, paged16_bytes; /* computed peaks */
    uint64_t final_charged, final_mapped, final_owned, final_reservations;
    char audit[MBR_REPLAY_TEXT_BYTES];
    char refusal[MBR_REPLAY_TEXT_BYTES]; /* why the first one was refused for good */
    char note[MBR_REPLAY_TEXT_BYTES];    /* what the reader should know */
    bool interrupted;
    mbr_replay_stay *stays;
    uint64_t stay_count, stay_capacity;
} mbr_replay_report;

/* Set by a signal handler: the run stops at the next step, cleanly. */
extern volatile sig_atomic_t mbr_replay_interrupted;

/* Runs the whole replay. On failure *text is one line: what, where, what would work. */
int mbr_replay_run(const mbr_replay_options *options, const mbr_trace *trace,
    mbr_replay_report *report, char text[MBR_REPLAY_TEXT_BYTES]);
void mbr_replay_report_finish(mbr_replay_report *report);

/* The report as text, as one JSON object, as a picture. */
void mbr_replay_print_human(
    const mbr_replay_options *options, const mbr_trace *trace, mbr_replay_report *report);
bool mbr_replay_print_json(
    const mbr_replay_options *options, const mbr_trace *trace, mbr_replay_report *report);
bool mbr_replay_plot(const mbr_replay_options *options, const mbr_replay_report *report,
    char text[MBR_REPLAY_TEXT_BYTES]);

/* The command. */
int mbr_cli_replay(int argc, char **argv);

#endif
