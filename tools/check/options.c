/* Reads the command line. Opens no file, runs nothing. */
#include "tools/check/options.h"

#include "tools/check/result.h"

#include <argp.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOBS_MAX 64
#define TIMEOUT_MAX_S 3600
#define DEVICES_MAX 1024
#define PROGRAM "membrane-check"

enum {
    KEY_LEVEL = 0x100,
    KEY_ONLY,
    KEY_SKIP,
    KEY_JOBS,
    KEY_TIMEOUT,
    KEY_SEED,
    KEY_DEVICE,
    KEY_WAIVERS,
    KEY_FORMAT,
    KEY_REPRO,
    KEY_IN_PROCESS,
    KEY_LIST,
    KEY_EXPLAIN,
    KEY_CONTRACT,
    KEY_SELF_TEST,
};

static const struct argp_option option_table[] = {
    {"level", KEY_LEVEL, "1..5", 0, "Run the checks up to this level (default 4)", 0},
    {"only", KEY_ONLY, "GLOB", 0, "Run only ids that match, such as 'VIR-*'; may be repeated", 0},
    {"skip", KEY_SKIP, "GLOB", 0, "Leave out ids that match; may be repeated", 0},
    {"jobs", KEY_JOBS, "N", 0, "Checks at a time (default: processors)", 0},
    {"timeout", KEY_TIMEOUT, "S", 0, "Seconds for one check, such as 0.5 (default 20)", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of the checks' random numbers (default 1)", 0},
    {"device", KEY_DEVICE, "N", 0, "Index of the mechanism (default 0)", 0},
    {"waivers", KEY_WAIVERS, "FILE", 0, "Lines 'ID reason': findings that are accepted", 0},
    {"format", KEY_FORMAT, "human|tap|junit|json", 0, "Output (default human)", 0},
    {"output", 'o', "FILE", 0, "Write the report there", 0},
    {"repro", KEY_REPRO, "ID:SEED", 0, "Run one check once, with the seed of its finding", 0},
    {"in-process", KEY_IN_PROCESS, NULL, 0, "With --repro: no child, for a debugger", 0},
    {"list", KEY_LIST, NULL, 0, "List all checks: id, level, group, rules, what is expected", 0},
    {"explain", KEY_EXPLAIN, "ID", 0, "A check, its reason, and the text of its rules; or one rule",
        0},
    {"contract", KEY_CONTRACT, NULL, 0, "The contract's rules, with the checks of each", 0},
    {"self-test", KEY_SELF_TEST, NULL, 0, "Show that the harness names a crash, a hang, an exit",
        0},
    {0},
};

__attribute__((format(printf, 1, 2))) static error_t bad(const char *format, ...)
{
    va_list arguments;
    fputs(PROGRAM ": ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return ECANCELED;
}

static bool read_number(const char *text, uint64_t low, uint64_t high, uint64_t *number)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *number >= low && *number <= high;
}

static error_t number_option(
    const char *option, const char *text, uint64_t low, uint64_t high, uint64_t *number)
{
    if (read_number(text, low, high, number))
        return 0;
    return bad("%s: '%s': a whole number from %lu to %lu would work", option, text, low, high);
}

static error_t count_option(
    const char *option, const char *text, uint32_t low, uint32_t high, uint32_t *count)
{
    uint64_t number = 0;
    error_t error = number_option(option, text, low, high, &number);
    *count = (uint32_t)number;
    return error;
}

static error_t timeout_option(const char *text, uint32_t *timeout_ms)
{
    char *end;
    double seconds = strtod(text, &end);
    if (*text >= '0' && *text <= '9' && *end == '\0' && seconds >= 0.05 &&
        seconds <= TIMEOUT_MAX_S) {
        *timeout_ms = (uint32_t)(seconds * 1000);
        return 0;
    }
    return bad("--timeout: '%s': seconds from 0.05 to %d would work", text, TIMEOUT_MAX_S);
}

static error_t pattern_option(
    const char *option, const char *text, const char **list, uint32_t *count)
{
    if (*count == MBR_PATTERNS_MAX)
        return bad("%s: more than %d patterns", option, MBR_PATTERNS_MAX);
    list[(*count)++] = text;
    return 0;
}

static error_t format_option(const char *text, mbr_format *format)
{
    static const char *const words[] = {"human", "tap", "junit", "json"};
    for (uint32_t i = 0; i < 4; i++)
        if (strcmp(text, words[i]) == 0) {
            *format = (mbr_format)i;
            return 0;
        }
    return bad("--format: '%s' is unknown; human, tap, junit and json would work", text);
}

static error_t repro_option(mbr_check_options *options, const char *text)
{
    char id[16] = "";
    const char *colon = strchr(text, ':');
    if (colon != NULL && (size_t)(colon - text) < sizeof id)
        memcpy(id, text, (size_t)(colon - text));
    options->repro = mbr_check_find(id);
    if (options->repro == NULL || !read_number(colon + 1, 0, UINT64_MAX, &options->seed))
        return bad("--repro: '%s': ID:SEED of a finding would work, such as ALC-001:1", text);
    return 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    mbr_check_options *o = state->input;
    switch (key) {
    case KEY_LEVEL:
        return count_option("--level", text, 1, 5, &o->level);
    case KEY_ONLY:
        return pattern_option("--only", text, o->only, &o->only_count);
    case KEY_SKIP:
        return pattern_option("--skip", text, o->skip, &o->skip_count);
    case KEY_JOBS:
        return count_option("--jobs", text, 1, JOBS_MAX, &o->job_count);
    case KEY_TIMEOUT:
        return timeout_option(text, &o->timeout_ms);
    case KEY_SEED:
        return number_option("--seed", text, 0, UINT64_MAX, &o->seed);
    case KEY_DEVICE:
        return count_option("--device", text, 0, DEVICES_MAX, &o->device_index);
    case KEY_WAIVERS:
        o->waivers = text;
        return 0;
    case KEY_FORMAT:
        return format_option(text, &o->format);
    case 'o':
        o->output = text;
        return 0;
    case KEY_REPRO:
        return repro_option(o, text);
    case KEY_IN_PROCESS:
        o->in_process = true;
        return 0;
    case KEY_LIST:
        o->list = true;
        return 0;
    case KEY_CONTRACT:
        o->contract = true;
        return 0;
    case KEY_EXPLAIN:
        o->explain = text;
        return 0;
    case KEY_SELF_TEST:
        o->self_test = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->plugin != NULL)
            return bad("one plugin at a time; '%s' is the second", text);
        o->plugin = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool check_together(const mbr_check_options *o)
{
    if (o->list || o->contract || o->explain != NULL || o->self_test)
        return true;
    if (o->plugin == NULL)
        return bad("no plugin; a path to libmembrane-NAME.so would work; --help lists options") ==
            0;
    if (o->in_process && o->repro == NULL)
        return bad("--in-process runs one check; add --repro ID:SEED") == 0;
    return true;
}

bool mbr_check_options_read(mbr_check_options *options, int argc, char **argv, int *exit_code)
{
    static const struct argp argp = {option_table, parse, "PLUGIN",
        "Judges a backend plugin of Membrane from outside.\vExit codes: 0 conformant, 1 findings, "
        "2 "
        "usage, 3 not a loadable plugin, 4 incomplete, 5 the tool itself failed.",
        NULL, NULL, NULL};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *options = (mbr_check_options){.level = 4, .timeout_ms = 20000, .seed = 1};
    options->job_count = processors < 1 ? 1
        : processors > JOBS_MAX         ? JOBS_MAX
                                        : (uint32_t)processors;
    argp_err_exit_status = MBR_CHECK_EXIT_USAGE;
    *exit_code = MBR_CHECK_EXIT_USAGE;
    if (argc < 1)
        return false;
    argv[0] = PROGRAM;
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0)
        return false;
    return check_together(options);
}

static bool matches(const char *const *patterns, uint32_t count, const char *id)
{
    for (uint32_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], id, 0) == 0)
            return true;
    return false;
}

bool mbr_check_options_choose(const mbr_check_options *options, const mbr_check *check)
{
    if (options->repro != NULL)
        return check == options->repro;
    if (check->level > options->level)
        return false;
    if (options->only_count > 0 && !matches(options->only, options->only_count, check->id))
        return false;
    return !matches(options->skip, options->skip_count, check->id);
}
