/* `membrane replay`: request traces served by real memory through the host library, in simulated
 * time: one trace, or those of several tenants under one budget.
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
#define MBR_REPLAY_EXIT_INTERRUPTED 130
#define MBR_REPLAY_STREAM_COUNT 2
#define MBR_REPLAY_TEXT_BYTES 512
#define MBR_REPLAY_CHECKPOINT_LIMIT_COUNT 1000
#define MBR_REPLAY_SHOWN_BYTES 4096        /* of a path or a model in the report */
#define MBR_REPLAY_POINT_LIMIT_COUNT 65536 /* of each series of the plot, an even number */
#define MBR_REPLAY_TENANT_LIMIT_COUNT 7    /* two series of the plot for each, and the limit */
#define MBR_REPLAY_OPTION_LIMIT_COUNT 8    /* of the plugin's own */

/* How the tenants of a run share its budget. */
typedef enum mbr_replay_way {
    MBR_REPLAY_ALONE = 0, /* one tenant, bounded by the budget alone */
    MBR_REPLAY_ELASTIC,   /* each lends what it does not use of its share, and gets it back */
    MBR_REPLAY_STATIC,    /* each has its share and no more */
    MBR_REPLAY_WAY_COUNT
} mbr_replay_way;

/* As `--tenant` says it. */
typedef struct mbr_replay_tenant_options {
    const char *name, *trace_path, *model;
    uint64_t share_percent; /* of the budget; 0: an even part of what the others leave */
} mbr_replay_tenant_options;

typedef enum mbr_replay_prefixes {
    MBR_REPLAY_PREFIX_NONE = 0,
    MBR_REPLAY_PREFIX_DECLARED, /* two blocks of one id are alike: the trace says so */
    MBR_REPLAY_PREFIX_AUTO,     /* only their tokens say it */
} mbr_replay_prefixes;

/* For tests of --verify: `meddle` is called before what a sequence holds alone is checked, on a
 * worker of its stream, and may write there; `rest` while the caches sleep (NULL: nobody is). */
typedef struct mbr_replay_meddler {
    void (*meddle)(void *context, uint64_t address, uint64_t bytes);
    void *context;
    void (*rest)(void *context);
} mbr_replay_meddler;

typedef struct mbr_replay_options {
    const char *trace_path;
    mbr_trace_format format;
    const char *plugin;
    mbr_option plugin_options[MBR_REPLAY_OPTION_LIMIT_COUNT];
    uint32_t plugin_option_count;
    const char *model;
    const char *layout;
    const char *shared;        /* a ledger's name; NULL: none */
    const char *shared_folder; /* NULL: the default one */
    uint64_t budget_bytes;     /* UINT64_MAX: what is measured */
    uint64_t budget_percent;   /* of the sum of the tenants' peaks; 0: budget_bytes counts */
    mbr_replay_tenant_options tenants[MBR_REPLAY_TENANT_LIMIT_COUNT];
    uint32_t tenant_count; /* 0: the one trace */
    bool arms[MBR_REPLAY_WAY_COUNT];
    uint64_t keep_bytes;   /* that the cache keeps for reuse at most */
    uint64_t ahead_bytes;  /* that stand mapped ahead of need at most; 0: nothing */
    uint64_t extent_bytes; /* 0: by offset */
    uint64_t max_tokens;   /* 0: the longest request of the trace */
    uint64_t max_requests; /* 0: all */
    uint64_t seed;
    uint64_t decode_rate;  /* tokens a second of one sequence */
    uint64_t prefill_rate; /* tokens a second */
    uint64_t checkpoint_count;
    double speed;
    uint32_t eager; /* MBR_KV_… */
    mbr_replay_prefixes prefixes;
    bool has_stamps;      /* --verify */
    bool has_pages;       /* --paged */
    bool protects;        /* --protect: prefixes, against their sources */
    uint64_t fork_every;  /* one request in so many; 0: none */
    uint64_t sleep_every; /* weights and caches sleep or wake after so many requests; 0: never */
    uint64_t weight_bytes;
    const mbr_replay_meddler *meddler; /* NULL: nobody */
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
    uint64_t change_count, keep_every; /* so many changes make one point; it doubles when full */
} mbr_replay_series;

/* What one tenant brings into a run. */
typedef struct mbr_replay_load {
    const char *name, *model;
    const mbr_trace *trace;
    uint64_t share_bytes; /* MBR_NO_ALLOWANCE: none */
} mbr_replay_load;

/* Bytes of rows in prompts, each stay of its own. */
typedef struct mbr_replay_reuse {
    uint64_t exact_bytes;  /* of tokens whose blocks an earlier prompt began with, too */
    uint64_t whole_bytes;  /* of those, in whole extents */
    uint64_t shared_bytes; /* that came with a prefix and are stored once */
} mbr_replay_reuse;

/* What became of one tenant's trace. */
typedef struct mbr_replay_tenant_report {
    uint64_t total, served, waited, refused, preempted;
    uint64_t completed_tokens; /* output of requests that were done within the traces' time */
    mbr_quantiles wait_ns;     /* simulated, from the arrival to the stay that was completed */
    mbr_replay_series live, owned;
    uint64_t share_bytes, borrowed_peak_bytes, given_bytes;
    uint64_t peak_bytes; /* of its own sequences and prefixes, without what is cached */
    uint64_t prefix_requests, prefix_tokens, prefix_bytes; /* attached */
    uint64_t created_prefixes, evicted_prefixes;
    mbr_replay_reuse reuse; /* where prefixes are shared */
    uint64_t token_bytes, max_tokens, largest_extent_bytes;
    char refusal[MBR_REPLAY_TEXT_BYTES]; /* why the first one was refused for good */
    char note[MBR_REPLAY_TEXT_BYTES];    /* what the reader should know */
    mbr_replay_stay *stays;
    uint64_t stay_count, stay_capacity;
} mbr_replay_tenant_report;

/* Of the KV caches' sleep, with --sleep-every. */
typedef struct mbr_replay_caches_report {
    uint64_t sleep_count;   /* and awake again, with what they had */
    uint64_t slept_bytes;   /* that fell asleep, in all */
    uint64_t refused_count; /* the arena had no room for them: they stayed awake */
    uint64_t lost_count;    /* others had taken their bytes meanwhile: all began anew */
} mbr_replay_caches_report;

/* Of paged stores, where there are some. */
typedef struct mbr_replay_pages_report {
    uint64_t written_count, verified_count; /* rows */
    uint64_t fork_count, rewind_count, preempted_count;
    uint64_t copied_bytes;  /* before writes to pages that others have, too */
    uint64_t dropped_count; /* sequences that there was no room for */
} mbr_replay_pages_report;

typedef struct mbr_replay_report {
    mbr_replay_tenant_report tenants[MBR_REPLAY_TENANT_LIMIT_COUNT];
    uint32_t tenant_count;
    mbr_replay_series mapped, owned; /* of all, with what is cached */
    double simulated_seconds, wall_seconds, call_seconds;
    uint64_t growth_count,
        adopted_count; /* past capacity; of those, without a call of the plugin */
    uint64_t ledger_calls, quiet_appends; /* inside what is committed: no call below */
    uint64_t plugin_calls;                /* slots of the mechanism */
    mbr_quantiles growth_ns;
    uint64_t mark_step_bytes, touched_count, verified_count;
    uint64_t ahead_peak_bytes;
    uint64_t sleep_count, wake_count, refused_wake_count; /* of weights */
    uint64_t fork_count, refused_fork_count; /* refused: no room for one, or no extent to share */
    mbr_replay_caches_report caches;
    mbr_replay_pages_report pages;
    uint64_t oracle_points, oracle_difference_bytes;
    bool oracle_known; /* the plugin's memory can be asked of the system */
    uint64_t limit_bytes, granule_bytes;
    uint64_t max_prealloc_bytes, grow_and_copy_bytes, paged16_bytes; /* computed peaks */
    uint64_t final_charged, final_mapped, final_owned, final_reservations;
    char audit[MBR_REPLAY_TEXT_BYTES];
    bool interrupted;
} mbr_replay_report;

/* Set by a signal handler: the run stops at the next step, cleanly. */
extern volatile sig_atomic_t mbr_replay_interrupted;

/* From now on. What whoever started us ignores stays ignored. */
void mbr_replay_catch_interrupt(void);

/* Runs `count` tenants, at least 1, one way. On failure *text is one line: what, where, what would
 * work. */
int mbr_replay_run(const mbr_replay_options *options, mbr_replay_way way,
    const mbr_replay_load *loads, uint32_t count, mbr_replay_report *report,
    char text[MBR_REPLAY_TEXT_BYTES]);
void mbr_replay_report_finish(mbr_replay_report *report);

/* MBR_EXIT_OK if the audit is clean and everything was given back; else it has said what is not. */
int mbr_replay_judge_end(const mbr_replay_report *report);

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
