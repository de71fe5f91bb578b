/* Responsible for the options of `membrane bench`, for which groups run, and for the exit code.
 * Measures nothing. */
#include "tools/bench/bench.h"

#include "tools/bench/rival.h"
#include "tools/bench/row.h"
#include "tools/cli/args.h"
#include "tools/cli/progress.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the order of the output; NULL ends a list. */
static const mbr_bench_group *const host_groups[] = {
    &mbr_bench_slot,
    &mbr_bench_authority,
    &mbr_bench_books,
    &mbr_bench_allocate,
    &mbr_bench_grow_warm,
    &mbr_bench_grow_cold,
    &mbr_bench_grow_plain,
    &mbr_bench_commit,
    &mbr_bench_inside,
    &mbr_bench_ahead,
    &mbr_bench_size,
    &mbr_bench_many,
    &mbr_bench_press,
    &mbr_bench_replay,
    &mbr_bench_replay_populated,
    &mbr_bench_defer,
    &mbr_bench_find,
    &mbr_bench_paged,
    &mbr_bench_load,
    &mbr_bench_residency,
    NULL,
};
static const mbr_bench_group *const device_groups[] = {
    &mbr_bench_device_cold,
    &mbr_bench_device_warm,
    &mbr_bench_device_grow,
    &mbr_bench_device_ahead,
    &mbr_bench_device_allocate,
    &mbr_bench_device_crowd,
    &mbr_bench_device_defer,
    &mbr_bench_device_share,
    &mbr_bench_device_release,
    &mbr_bench_device_touch,
    &mbr_bench_device_attend,
    &mbr_bench_device_sleep,
    &mbr_bench_device_peers,
    NULL,
};

#define ROW_LIMIT_COUNT 64

/* ---- Options */
enum {
    KEY_ONLY = 0x100,
    KEY_ROUNDS,
    KEY_FORMAT,
    KEY_LIST,
    KEY_PLUGIN,
    KEY_TRUST,
    KEY_QUICK,
    KEY_DEVICE,
};

static const struct argp_option option_table[] = {
    {"only", KEY_ONLY, "GLOB", 0, "Only rows whose id matches, such as 'H4*' (quoted)", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Rounds of each row, 20 to 1000 (default 21)", 0},
    {"format", KEY_FORMAT, "human|json", 0, "Output (default human)", 0},
    {"list", KEY_LIST, NULL, 0, "Print the rows with their goals, and measure nothing", 0},
    {"device", KEY_DEVICE, NULL, 0,
        "The rows on a GPU, whose baselines call its driver by hand; without it those that any "
        "machine can measure",
        0},
    {"plugin", KEY_PLUGIN, "NAME|PATH", 0,
        "The plugin of host memory (default host), with --device that of the GPU (default cuda)",
        0},
    {"trust", KEY_TRUST, NULL, 0, "Do not ask who could have written the plugin's file", 0},
    {"quick", KEY_QUICK, NULL, 0,
        "Two small rounds: shows that every row runs. Its figures mean nothing, and none of them "
        "is an error",
        0},
    {0},
};

typedef struct parsed {
    mbr_bench_options options;
    bool rounds_given;
} parsed;

static error_t parse_value(int key, char *text, struct argp_state *state, parsed *into)
{
    static const char *const formats[] = {"human", "json"};
    uint64_t index;
    error_t error;
    switch (key) {
    case KEY_ONLY:
        into->options.only = text;
        return 0;
    case KEY_ROUNDS:
        into->rounds_given = true;
        return mbr_args_count_option(state, "--rounds", text, MBR_BENCH_MIN_ROUNDS_COUNT,
            MBR_BENCH_MAX_ROUNDS_COUNT, &into->options.rounds);
    case KEY_FORMAT:
        error = mbr_args_choice_option(state, "--format", text, formats, 2, &index);
        into->options.json = error == 0 && index == 1;
        return error;
    case KEY_PLUGIN:
        into->options.plugin = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    parsed *into = state->input;
    switch (key) {
    case KEY_LIST:
        into->options.list = true;
        return 0;
    case KEY_TRUST:
        into->options.trusted = true;
        return 0;
    case KEY_QUICK:
        into->options.quick = true;
        return 0;
    case KEY_DEVICE:
        into->options.device = true;
        return 0;
    case ARGP_KEY_ARG:
        return mbr_args_bad(state, "'%s' is not an option; '--only GLOB' chooses rows", text);
    case ARGP_KEY_END:
        if (into->options.quick && into->rounds_given)
            return mbr_args_bad(state, "--quick and --rounds: either of them would work");
        if (into->options.plugin == NULL)
            into->options.plugin = into->options.device ? "cuda" : "host";
        return 0;
    default:
        return parse_value(key, text, state, into);
    }
}

/* ---- Rows */
static bool is_chosen(const mbr_bench_options *options, const char *id)
{
    return options->only == NULL || fnmatch(options->only, id, 0) == 0;
}

static void prepare_row(
    mbr_bench_row *row, const mbr_bench_plan *plan, const mbr_bench_options *options)
{
    *row = (mbr_bench_row){.plan = plan,
        .against = plan->against,
        .rounds = options->rounds,
        .ours = {.calls = MBR_BENCH_UNKNOWN, .owned_bytes = MBR_BENCH_UNKNOWN},
        .theirs = {.calls = MBR_BENCH_UNKNOWN, .owned_bytes = MBR_BENCH_UNKNOWN}};
}

/* Without --only, what the machine cannot measure is said and left out. */
static bool may_go_on(mbr_bench *bench, const mbr_bench_group *group)
{
    if (!bench->left_out || bench->options->only != NULL)
        return false;
    fprintf(stderr, MBR_BENCH_NAME ": %s is left out: %s\n", group->plans[0].id, bench->text);
    bench->text[0] = '\0';
    bench->left_out = false;
    return true;
}

/* Every row of the group, and only then those that were asked for. */
static bool run_group(
    const mbr_bench_group *group, mbr_bench *bench, mbr_bench_row *chosen, uint32_t *chosen_count)
{
    mbr_bench_row rows[ROW_LIMIT_COUNT];
    for (uint32_t i = 0; i < group->plan_count; i++)
        prepare_row(&rows[i], &group->plans[i], bench->options);
    if (!bench->options->list && !group->run(bench, rows))
        return may_go_on(bench, group) ||
            mbr_bench_fail(bench, "a round of %s failed", group->plans[0].id);
    for (uint32_t i = 0; i < group->plan_count; i++) {
        if (!is_chosen(bench->options, rows[i].plan->id))
            continue;
        if (!bench->options->list && !rows[i].has_baseline)
            return mbr_bench_fail(bench, "%s has no baseline", rows[i].plan->id);
        rows[i].verdict = mbr_bench_judge(rows[i].plan, rows[i].value);
        chosen[(*chosen_count)++] = rows[i];
    }
    return true;
}

static bool has_chosen(const mbr_bench_options *options, const mbr_bench_group *group)
{
    for (uint32_t i = 0; i < group->plan_count; i++)
        if (is_chosen(options, group->plans[i].id))
            return true;
    return false;
}

static const mbr_bench_group *const *groups_of(const mbr_bench_options *options)
{
    return options->device ? device_groups : host_groups;
}

static bool run_groups(mbr_bench *bench, mbr_bench_row *rows, uint32_t *count)
{
    const mbr_bench_group *const *groups = groups_of(bench->options);
    uint64_t total = 0;
    while (groups[total] != NULL)
        total++;
    mbr_progress progress;
    mbr_progress_options shown = {.file = STDERR_FILENO,
        .term = getenv("TERM"),
        .label = "bench",
        .unit = "groups",
        .total_count = total};
    mbr_progress_init(&progress, &shown);
    bool done = true;
    for (size_t i = 0; i < total && done; i++) {
        mbr_progress_update(&progress, i, groups[i]->plans[0].id);
        if (has_chosen(bench->options, groups[i]))
            done = run_group(groups[i], bench, rows, count);
    }
    mbr_progress_finish(&progress);
    return done;
}

/* ---- The command */
static bool print(const mbr_bench_options *options, const mbr_bench_row *rows, uint32_t count)
{
    if (options->json)
        return options->list ? mbr_bench_list_json(rows, count) : mbr_bench_print_json(rows, count);
    if (options->list)
        mbr_bench_list_human(rows, count);
    else
        mbr_bench_print_human(rows, count);
    return true;
}

static int answer(const mbr_bench_options *options, const mbr_bench_row *rows, uint32_t count)
{
    if (!print(options, rows, count) && ferror(stdout) == 0)
        return mbr_args_refuse(MBR_BENCH_NAME, "memory for the JSON array is exhausted");
    uint32_t below = 0;
    const char *first = NULL;
    for (uint32_t i = 0; i < count && !options->list; i++) {
        if (rows[i].verdict != MBR_BENCH_BELOW)
            continue;
        first = below == 0 ? rows[i].plan->id : first;
        below++;
    }
    if (below == 0 || options->quick)
        return MBR_EXIT_OK;
    return mbr_args_refuse(MBR_BENCH_NAME, "%u of %u rows are below their floor, the first is %s",
        below, count, first);
}

int mbr_cli_bench(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse, NULL,
        "Measures the library, each row in turn with its baseline, and judges it by "
        "docs/performance.md.",
        NULL, NULL, NULL};
    parsed into = {.options = {.rounds = MBR_BENCH_MIN_ROUNDS_COUNT + 1}};
    int code;
    if (!mbr_args_run(MBR_BENCH_NAME, &argp, argc, argv, &into, &code))
        return code;
    if (into.options.quick)
        into.options.rounds = MBR_BENCH_QUICK_ROUNDS_COUNT;
    mbr_bench bench = {.options = &into.options};
    bool rivals = !into.options.device &&
        (has_chosen(&into.options, &mbr_bench_allocate) ||
            has_chosen(&into.options, &mbr_bench_size));
    if (!into.options.list && rivals)
        mbr_rivals_make_room(argc, argv);
    mbr_bench_row rows[ROW_LIMIT_COUNT];
    uint32_t count = 0;
    if (!run_groups(&bench, rows, &count))
        return mbr_args_refuse(MBR_BENCH_NAME, "%s", bench.text);
    if (count == 0)
        return mbr_args_fail(MBR_BENCH_NAME,
            "--only: no row's id matches '%s'; 'membrane bench --list' prints them",
            into.options.only);
    return answer(&into.options, rows, count);
}
