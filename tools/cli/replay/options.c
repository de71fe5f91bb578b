/* The options of `membrane replay`, and the command from reading the trace to printing the report.
 */
#include "tools/cli/replay/tenants.h"
#include "tools/cli/replay/world.h"

#include "tools/cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE_LIMIT 100000000
#define DECODE_RATE_DEFAULT 30
#define PREFILL_RATE_DEFAULT 8000
#define CHECKPOINTS_DEFAULT 10
#define BUDGET_PERCENT_LIMIT 1000
#define WEIGHT_BYTES_DEFAULT (UINT64_C(64) << 20)

enum {
    KEY_PLUGIN = 0x100,
    KEY_MODEL,
    KEY_LAYOUT,
    KEY_BUDGET,
    KEY_SHARED,
    KEY_SHARED_FOLDER,
    KEY_EXTENT,
    KEY_PREFIX,
    KEY_EAGER,
    KEY_TRUST,
    KEY_MAX_REQUESTS,
    KEY_MAX_TOKENS,
    KEY_SPEED,
    KEY_SEED,
    KEY_FORMAT,
    KEY_TRACE_FORMAT,
    KEY_PLOT,
    KEY_DECODE_RATE,
    KEY_PREFILL_RATE,
    KEY_CHECKPOINTS,
    KEY_TENANT,
    KEY_ARMS,
    KEY_OPTION,
    KEY_KEEP,
    KEY_VERIFY,
    KEY_FORK_EVERY,
    KEY_SLEEP_EVERY,
    KEY_WEIGHTS,
    KEY_AHEAD,
    KEY_PAGED,
    KEY_PROTECT,
};

static const struct argp_option option_table[] = {
    {"plugin", KEY_PLUGIN, "NAME|PATH", 0, "The backend (default host)", 0},
    {"option", KEY_OPTION, "NAME=VALUE", 0,
        "An option of the plugin's own, such as the host plugin's granule=2097152; once for each",
        0},
    {"model", KEY_MODEL, "MODEL|GEOMETRY", 0,
        "A known model, or layers=N,heads=N,dim=N,bytes=N,planes=N (default qwen2.5-0.5b)", 0},
    {"layout", KEY_LAYOUT, "LAYOUT", 0,
        "head-major, seq-major, token-major or window-major (default)", 0},
    {"budget", KEY_BUDGET, "BYTES|PERCENT%", 0,
        "The limit (default: the free memory as measured); PERCENT% of the sum of the tenants' own "
        "peaks, which a run of each alone measures first",
        0},
    {"tenant", KEY_TENANT, "NAME=TRACE[,model=MODEL][,share=PERCENT]", 0,
        "Instead of TRACE, once for each of several tenants under one budget. A share is a part of "
        "the budget (default: an even part of what the others leave)",
        0},
    {"arms", KEY_ARMS, "elastic,static", 0,
        "With --tenant: shares that lend and take back, hard shares, or both to compare (default)",
        0},
    {"shared", KEY_SHARED, "NAME", 0,
        "Divide the limit with other processes through the shared ledger NAME", 0},
    {"shared-folder", KEY_SHARED_FOLDER, "PATH", 0, "Where the ledger is (default /dev/shm)", 0},
    {"keep", KEY_KEEP, "BYTES", 0,
        "What the cache keeps for reuse at most (default: all that the limit leaves room for)", 0},
    {"ahead", KEY_AHEAD, "BYTES", 0,
        "Map ahead of need, at most so much, at the rate that sequences grow in simulated time", 0},
    {"extent", KEY_EXTENT, "BYTES", 0, "Fixed extents (default: growing in window-major)", 0},
    {"prefix", KEY_PREFIX, "declared|auto|none", 0,
        "Share the prefixes that the trace declares (default), those that the library finds by the "
        "tokens alone, or none",
        0},
    {"eager", KEY_EAGER, "whole|copy", 0,
        "Without virtual memory: the maximum at once, or grow by copying", 0},
    {"trust", KEY_TRUST, NULL, 0, "Do not ask who may write the plugin's file and folder", 0},
    {"max-requests", KEY_MAX_REQUESTS, "COUNT", 0, "Only the first COUNT requests", 0},
    {"max-tokens", KEY_MAX_TOKENS, "COUNT", 0,
        "Longest sequence (default: the longest request of the trace)", 0},
    {"speed", KEY_SPEED, "FACTOR", 0, "Arrivals come FACTOR times as fast (default 1)", 0},
    {"decode-rate", KEY_DECODE_RATE, "COUNT", 0, "Tokens a second of each sequence (default 30)",
        0},
    {"prefill-rate", KEY_PREFILL_RATE, "COUNT", 0, "Prompt tokens a second (default 8000)", 0},
    {"verify", KEY_VERIFY, NULL, 0,
        "Stamp every page with who wrote it, when, and for which place, and check all of them when "
        "they come with a prefix, after growth and before their end; without it, a byte of each "
        "granule",
        0},
    {"paged", KEY_PAGED, NULL, 0,
        "With --verify: a row for each token in paged stores beside the caches, which are forked, "
        "written, rewound, preempted and restored as the requests go on",
        0},
    {"protect", KEY_PROTECT, NULL, 0,
        "Protect each prefix against the sequence that it was made of: a stray write faults", 0},
    {"fork-every", KEY_FORK_EVERY, "COUNT", 0,
        "Of one request in COUNT a second answer, by a sequence that shares the prompt", 0},
    {"sleep-every", KEY_SLEEP_EVERY, "COUNT", 0,
        "Keep weights beside the caches, which sleep and wake in turn after COUNT requests; at the "
        "same moments the caches sleep and wake at once, and sequences of paged stores, which no "
        "sleeper has, are preempted and restored. All of it is checked",
        0},
    {"weights", KEY_WEIGHTS, "BYTES", 0, "Of them (default 64MiB)", 0},
    {"seed", KEY_SEED, "NUMBER", 0, "Of the contents that are written and checked (default 1)", 0},
    {"checkpoints", KEY_CHECKPOINTS, "COUNT", 0,
        "Points at which the system is asked for its own figures (default 10)", 0},
    {"trace-format", KEY_TRACE_FORMAT, "FORMAT", 0,
        "azure, mooncake, vidur or burstgpt (default: told from the file)", 0},
    {"format", KEY_FORMAT, "human|json", 0, "Output (default human)", 0},
    {"plot", KEY_PLOT, "FILE", 0, "Bytes over time as FILE.svg or FILE.png", 0},
    {0},
};

static error_t parse_speed(const struct argp_state *state, const char *text, double *speed)
{
    char *end;
    errno = 0;
    *speed = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(*speed) || *speed < 1e-6 ||
        *speed > 1e6)
        return mbr_args_bad(state, "--speed: '%s' is no factor between 0.000001 and 1000000", text);
    return 0;
}

static error_t parse_choice(
    int key, const char *text, const struct argp_state *state, mbr_replay_options *options)
{
    static const char *const prefixes[] = {"none", "declared", "auto"};
    static const char *const modes[] = {"whole", "copy"};
    static const char *const formats[] = {"human", "json"};
    static const char *const traces[] = {"auto", "azure", "mooncake", "vidur", "burstgpt"};
    static const char *const layouts[] = {"head-major", "seq-major", "token-major", "window-major"};
    uint64_t index = 0;
    error_t error = 0;
    switch (key) {
    case KEY_PREFIX:
        error = mbr_args_choice_option(state, "--prefix", text, prefixes, 3, &index);
        options->prefixes = (mbr_replay_prefixes)index;
        return error;
    case KEY_EAGER:
        error = mbr_args_choice_option(state, "--eager", text, modes, 2, &index);
        options->eager = index == 0 ? MBR_KV_EAGER_WHOLE : MBR_KV_EAGER_COPY;
        return error;
    case KEY_FORMAT:
        error = mbr_args_choice_option(state, "--format", text, formats, 2, &index);
        options->json = index == 1;
        return error;
    case KEY_TRACE_FORMAT:
        error = mbr_args_choice_option(state, "--trace-format", text, traces, 5, &index);
        options->format = (mbr_trace_format)index;
        return error;
    default:
        error = mbr_args_choice_option(state, "--layout", text, layouts, 4, &index);
        options->layout = error == 0 ? layouts[index] : NULL;
        return error;
    }
}

static error_t parse_number(
    int key, const char *text, const struct argp_state *state, mbr_replay_options *options)
{
    const struct {
        int key;
        const char *name;
        uint64_t lowest, highest;
        uint64_t *value;
    } rows[] = {
        {KEY_MAX_REQUESTS, "--max-requests", 1, MBR_TRACE_MAX_REQUESTS, &options->max_requests},
        {KEY_MAX_TOKENS, "--max-tokens", 1, UINT64_C(1) << 32, &options->max_tokens},
        {KEY_DECODE_RATE, "--decode-rate", 1, RATE_LIMIT, &options->decode_rate},
        {KEY_PREFILL_RATE, "--prefill-rate", 1, RATE_LIMIT, &options->prefill_rate},
        {KEY_FORK_EVERY, "--fork-every", 1, MBR_TRACE_MAX_REQUESTS, &options->fork_every},
        {KEY_SLEEP_EVERY, "--sleep-every", 1, MBR_TRACE_MAX_REQUESTS, &options->sleep_every},
        {KEY_SEED, "--seed", 0, MBR_ARGS_MAX, &options->seed},
        {KEY_CHECKPOINTS, "--checkpoints", 0, MBR_REPLAY_CHECKPOINT_LIMIT_COUNT,
            &options->checkpoint_count},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].key == key)
            return mbr_args_count_option(
                state, rows[i].name, text, rows[i].lowest, rows[i].highest, rows[i].value);
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t parse_budget(const struct argp_state *state, char *text, mbr_replay_options *options)
{
    size_t length = strlen(text);
    options->budget_percent = 0;
    if (length == 0 || text[length - 1] != '%')
        return mbr_args_size_option(state, "--budget", text, 1, &options->budget_bytes);
    text[length - 1] = '\0';
    return mbr_args_count_option(
        state, "--budget", text, 1, BUDGET_PERCENT_LIMIT, &options->budget_percent);
}

static error_t parse_arms(const struct argp_state *state, char *text, mbr_replay_options *options)
{
    static const char *const names[] = {"elastic", "static"};
    options->arms[MBR_REPLAY_ELASTIC] = options->arms[MBR_REPLAY_STATIC] = false;
    for (char *next = text; next != NULL;) {
        char *name = next;
        uint64_t index;
        next = strchr(name, ',');
        if (next != NULL)
            *next++ = '\0';
        error_t error = mbr_args_choice_option(state, "--arms", name, names, 2, &index);
        if (error != 0)
            return error;
        options->arms[MBR_REPLAY_ELASTIC + index] = true;
    }
    return 0;
}

/* Cut up in place. */
static error_t parse_plugin_option(
    const struct argp_state *state, char *text, mbr_replay_options *options)
{
    char *value = strchr(text, '=');
    if (value == NULL || value == text)
        return mbr_args_bad(state, "--option: '%s' is no NAME=VALUE", text);
    if (options->plugin_option_count == MBR_REPLAY_OPTION_LIMIT_COUNT)
        return mbr_args_bad(
            state, "--option: '%s' is one more than %d", text, MBR_REPLAY_OPTION_LIMIT_COUNT);
    *value++ = '\0';
    options->plugin_options[options->plugin_option_count++] = (mbr_option){text, value};
    return 0;
}

/* What is wrong only together; and what nobody said. */
static error_t check_all(struct argp_state *state, mbr_replay_options *options)
{
    if (options->trace_path == NULL && options->tenant_count == 0)
        return mbr_args_bad(state, "no trace; membrane replay TRACE [OPTION...]");
    if (options->shared_folder != NULL && options->shared == NULL)
        return mbr_args_bad(state, "--shared-folder without --shared NAME names no ledger");
    if (options->fork_every + options->sleep_every != 0 &&
        (options->tenant_count != 0 || options->eager != MBR_KV_GROWING))
        return mbr_args_bad(state,
            "--fork-every and --sleep-every are for one trace on virtual memory; without "
            "--tenant and --eager they would work");
    if (options->sleep_every != 0 && !replay_is_resident(options))
        return mbr_args_bad(state,
            "--sleep-every copies all that sleeps, also what populate=0 has no pages for; without "
            "that option of the plugin it would work");
    if (options->protects && options->eager != MBR_KV_GROWING)
        return mbr_args_bad(state,
            "--protect is of prefixes, which eager caches do not have; without --eager it would "
            "work");
    if (options->has_pages && (!options->has_stamps || options->tenant_count != 0))
        return mbr_args_bad(state,
            "--paged is for one trace with --verify; with that and without --tenant it would "
            "work");
    if (options->weight_bytes != 0 && options->sleep_every == 0)
        return mbr_args_bad(
            state, "--weights are there to sleep; --sleep-every=100 beside it would work");
    if (options->weight_bytes == 0)
        options->weight_bytes = WEIGHT_BYTES_DEFAULT;
    return mbr_replay_check_tenants(state, options);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    mbr_replay_options *options = state->input;
    switch (key) {
    case KEY_PLUGIN:
        options->plugin = text;
        return 0;
    case KEY_MODEL:
        options->model = text;
        return 0;
    case KEY_PLOT:
        options->plot_path = text;
        return 0;
    case KEY_VERIFY:
        options->has_stamps = true;
        return 0;
    case KEY_PAGED:
        options->has_pages = true;
        return 0;
    case KEY_PROTECT:
        options->protects = true;
        return 0;
    case KEY_TRUST:
        options->trusted = true;
        return 0;
    case KEY_SHARED:
        options->shared = text;
        return 0;
    case KEY_SHARED_FOLDER:
        options->shared_folder = text;
        return 0;
    case KEY_BUDGET:
        return parse_budget(state, text, options);
    case KEY_OPTION:
        return parse_plugin_option(state, text, options);
    case KEY_TENANT:
        return mbr_replay_parse_tenant(state, text, options);
    case KEY_ARMS:
        return parse_arms(state, text, options);
    case KEY_AHEAD:
        return mbr_args_size_option(state, "--ahead", text, 1, &options->ahead_bytes);
    case KEY_WEIGHTS:
        return mbr_args_size_option(state, "--weights", text, 1, &options->weight_bytes);
    case KEY_KEEP:
        return mbr_args_size_option(state, "--keep", text, 0, &options->keep_bytes);
    case KEY_EXTENT:
        return mbr_args_size_option(state, "--extent", text, 1, &options->extent_bytes);
    case KEY_SPEED:
        return parse_speed(state, text, &options->speed);
    case KEY_PREFIX:
    case KEY_EAGER:
    case KEY_FORMAT:
    case KEY_TRACE_FORMAT:
    case KEY_LAYOUT:
        return parse_choice(key, text, state, options);
    case ARGP_KEY_ARG:
        if (options->trace_path != NULL)
            return mbr_args_bad(state, "one trace at a time; '%s' is a second one", text);
        options->trace_path = text;
        return 0;
    case ARGP_KEY_END:
        return check_all(state, options);
    default:
        return parse_number(key, text, state, options);
    }
}

static void interrupt(int signal_number)
{
    (void)signal_number;
    mbr_replay_interrupted = 1;
}

/* What whoever started us ignores (nohup, a shell's background) stays ignored. */
void mbr_replay_catch_interrupt(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND}, before;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

int mbr_replay_judge_end(const mbr_replay_report *report)
{
    if (strcmp(report->audit, "clean") != 0)
        return mbr_args_refuse(MBR_REPLAY_NAME, "the audit: %s", report->audit);
    uint64_t left = report->final_charged + report->final_mapped + report->final_owned +
        report->final_reservations;
    if (left == 0)
        return MBR_EXIT_OK;
    return mbr_args_refuse(MBR_REPLAY_NAME,
        "not everything was given back: %llu bytes charged, %llu mapped, %llu owned, "
        "%llu reservations",
        (unsigned long long)report->final_charged, (unsigned long long)report->final_mapped,
        (unsigned long long)report->final_owned, (unsigned long long)report->final_reservations);
}

static int print_report(
    const mbr_replay_options *options, const mbr_trace *trace, mbr_replay_report *report)
{
    char text[MBR_REPLAY_TEXT_BYTES];
    if (options->json) {
        if (!mbr_replay_print_json(options, trace, report))
            return mbr_args_refuse(MBR_REPLAY_NAME, "the report cannot be written as JSON");
    } else {
        mbr_replay_print_human(options, trace, report);
    }
    if (options->plot_path != NULL && !mbr_replay_plot(options, report, text))
        return mbr_args_refuse(MBR_REPLAY_NAME, "%s", text);
    int code = mbr_replay_judge_end(report);
    return code == MBR_EXIT_OK && report->interrupted ? MBR_REPLAY_EXIT_INTERRUPTED : code;
}

/* Before the run, which may take minutes. */
static int check_plot(const mbr_replay_options *options)
{
    mbr_plot_error error;
    if (options->plot_path == NULL)
        return MBR_EXIT_OK;
    switch (mbr_plot_probe(options->plot_path, NULL, &error)) {
    case MBR_PLOT_OK:
        return MBR_EXIT_OK;
    case MBR_PLOT_UNKNOWN_ENDING:
        return mbr_args_fail(MBR_REPLAY_NAME, "--plot: %s", error.text);
    default:
        return mbr_args_refuse(MBR_REPLAY_NAME, "--plot: %s", error.text);
    }
}

static int replay(const mbr_replay_options *options)
{
    mbr_trace *trace;
    mbr_trace_error trace_error;
    mbr_trace_options trace_options = {.path = options->trace_path,
        .format = options->format,
        .max_requests = options->max_requests};
    if (mbr_trace_load(&trace_options, &trace, &trace_error) != MBR_TRACE_OK)
        return mbr_args_refuse(MBR_REPLAY_NAME, "%s", trace_error.text);
    mbr_replay_catch_interrupt();
    mbr_replay_load load = {"replay", options->model, trace, MBR_NO_ALLOWANCE};
    mbr_replay_report report;
    char text[MBR_REPLAY_TEXT_BYTES];
    int code = mbr_replay_run(options, MBR_REPLAY_ALONE, &load, 1, &report, text);
    if (code == MBR_EXIT_USAGE)
        mbr_args_fail(MBR_REPLAY_NAME, "%s", text);
    else if (code == MBR_EXIT_REFUSED)
        mbr_args_refuse(MBR_REPLAY_NAME, "%s", text);
    else
        code = print_report(options, trace, &report);
    mbr_replay_report_finish(&report);
    mbr_trace_destroy(trace);
    return code;
}

int mbr_cli_replay(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse, "TRACE",
        "Serves a request trace, or those of several tenants, with real memory under a budget, in "
        "simulated time.",
        NULL, NULL, NULL};
    mbr_replay_options options = {.plugin = "host",
        .model = "qwen2.5-0.5b",
        .layout = "window-major",
        .budget_bytes = UINT64_MAX,
        .keep_bytes = UINT64_MAX,
        .speed = 1,
        .seed = 1,
        .decode_rate = DECODE_RATE_DEFAULT,
        .prefill_rate = PREFILL_RATE_DEFAULT,
        .checkpoint_count = CHECKPOINTS_DEFAULT,
        .eager = MBR_KV_GROWING,
        .arms = {[MBR_REPLAY_ELASTIC] = true, [MBR_REPLAY_STATIC] = true},
        .prefixes = MBR_REPLAY_PREFIX_DECLARED};
    int code;
    if (!mbr_args_run(MBR_REPLAY_NAME, &argp, argc, argv, &options, &code))
        return code;
    code = check_plot(&options);
    if (code != MBR_EXIT_OK)
        return code;
    return options.tenant_count == 0 ? replay(&options) : mbr_replay_run_tenants(&options);
}
