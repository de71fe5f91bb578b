/* Responsible for the options of `membrane stats` and `membrane limit` and for printing a shared
 * ledger's figures. Never is a member of one. */
#include "tools/cli/ledger.h"

#include "abi/base/checked.h"
#include "governor/shared.h"
#include "tools/cli/args.h"

#include <jansson.h>
#include <stdio.h>

#define STATS_NAME "membrane stats"
#define LIMIT_NAME "membrane limit"

enum {
    KEY_FOLDER = 0x100,
    KEY_FORMAT,
};

typedef struct ledger_options {
    mbr_shared_place place;
    const char *limit_text;
    uint64_t limit_bytes;
    bool json;
} ledger_options;

static const char *folder_of(const ledger_options *options)
{
    return options->place.folder != NULL ? options->place.folder : MBR_SHARED_FOLDER;
}

/* ---- What both understand */
static error_t parse_common(int key, char *text, struct argp_state *state, ledger_options *options)
{
    switch (key) {
    case KEY_FOLDER:
        options->place.folder = text;
        return 0;
    case ARGP_KEY_ARG:
        if (options->place.name != NULL)
            return mbr_args_bad(state, "one ledger at a time; '%s' is too much", text);
        options->place.name = text;
        return 0;
    case ARGP_KEY_END:
        if (options->place.name == NULL)
            return mbr_args_bad(state, "which ledger? its name is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int refuse(const char *name, mbr_status status, const mbr_error *error)
{
    return status == MBR_INVALID_ARGUMENT ? mbr_args_fail(name, "%s", error->text)
                                          : mbr_args_refuse(name, "%s", error->text);
}

static uint64_t over_of(const mbr_shared_figures *figures)
{
    return figures->leased_bytes - mbr_min(figures->leased_bytes, figures->limit_bytes);
}

static uint64_t free_of(const mbr_shared_figures *figures)
{
    return figures->limit_bytes - mbr_min(figures->leased_bytes, figures->limit_bytes);
}

/* ---- membrane stats */
static json_t *member_object(const mbr_shared_line *member)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "member", (json_int_t)member->member, "pid",
        (json_int_t)member->pid, "leased_bytes", (json_int_t)member->leased_bytes, "claimed_bytes",
        (json_int_t)member->claimed_bytes, "wanted_bytes",
        (json_int_t)mbr_min(member->wanted_bytes, MBR_ARGS_MAX), "lives", (int)member->lives);
}

static bool print_json(const ledger_options *options, const mbr_shared_figures *figures)
{
    json_t *members = json_array();
    bool good = members != NULL;
    for (uint32_t i = 0; i < figures->member_count && good; i++)
        good = json_array_append_new(members, member_object(&figures->members[i])) == 0;
    json_t *root = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name",
        options->place.name, "folder", folder_of(options), "uid", (json_int_t)figures->uid,
        "limit_bytes", (json_int_t)figures->limit_bytes, "leased_bytes",
        (json_int_t)figures->leased_bytes, "free_bytes", (json_int_t)free_of(figures), "over_bytes",
        (json_int_t)over_of(figures), "chunk_bytes", (json_int_t)figures->chunk_bytes, "revision",
        (json_int_t)figures->revision, "members", members);
    good = good && root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 &&
        fputc('\n', stdout) != EOF;
    json_decref(root);
    return good;
}

static void print_human(const ledger_options *options, const mbr_shared_figures *figures)
{
    char limit[32], leased[32], free[32], chunk[32], over[32];
#define SIZE(text, bytes) mbr_args_format_bytes(text, sizeof(text), bytes)
    printf(
        "ledger     %s in %s, of user %u\n", options->place.name, folder_of(options), figures->uid);
    printf("limit      %s, leased in chunks of %s\n", SIZE(limit, figures->limit_bytes),
        SIZE(chunk, figures->chunk_bytes));
    printf("leased     %s, %s free, %s over\n", SIZE(leased, figures->leased_bytes),
        SIZE(free, free_of(figures)), SIZE(over, over_of(figures)));
    printf("members    %u\n", figures->member_count);
    if (figures->member_count != 0)
        printf("%10s %12s %12s %12s  %s\n", "pid", "leased", "claimed", "wanted", "state");
    for (uint32_t i = 0; i < figures->member_count; i++) {
        const mbr_shared_line *member = &figures->members[i];
        printf("%10u %12s %12s %12s  %s\n", member->pid, SIZE(leased, member->leased_bytes),
            SIZE(free, member->claimed_bytes), SIZE(over, member->wanted_bytes),
            member->lives ? "lives" : "gone, its chunks come back");
    }
#undef SIZE
}

static error_t parse_stats(int key, char *text, struct argp_state *state)
{
    static const char *const formats[] = {"human", "json"};
    ledger_options *options = state->input;
    if (key != KEY_FORMAT)
        return parse_common(key, text, state, options);
    uint64_t index;
    error_t error = mbr_args_choice_option(state, "--format", text, formats, 2, &index);
    options->json = error == 0 && index == 1;
    return error;
}

int mbr_cli_stats(int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"folder", KEY_FOLDER, "PATH", 0, "Where the ledger is (default " MBR_SHARED_FOLDER ")", 0},
        {"format", KEY_FORMAT, "human|json", 0, "Output (default human)", 0},
        {0},
    };
    static const struct argp argp = {table, parse_stats, "NAME",
        "Shows a shared ledger: its limit, and what each process has leased of it.", NULL, NULL,
        NULL};
    ledger_options options = {0};
    int code;
    if (!mbr_args_run(STATS_NAME, &argp, argc, argv, &options, &code))
        return code;
    mbr_shared_figures figures;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_shared_read(&options.place, &figures, &error);
    if (status != MBR_OK)
        return refuse(STATS_NAME, status, &error);
    if (!options.json)
        print_human(&options, &figures);
    else if (!print_json(&options, &figures))
        return mbr_args_refuse(STATS_NAME, "the figures cannot be written as JSON");
    return MBR_EXIT_OK;
}

/* ---- membrane limit */
static error_t parse_limit(int key, char *text, struct argp_state *state)
{
    ledger_options *options = state->input;
    if (key == ARGP_KEY_ARG && options->place.name != NULL && options->limit_text == NULL) {
        options->limit_text = text;
        return mbr_args_size_option(state, "BYTES", text, 0, &options->limit_bytes);
    }
    error_t error = parse_common(key, text, state, options);
    if (error == 0 && key == ARGP_KEY_END && options->limit_text == NULL)
        return mbr_args_bad(state, "which limit? '%s 16GiB' would work", options->place.name);
    return error;
}

int mbr_cli_limit(int argc, char **argv)
{
    static const struct argp_option table[] = {
        {"folder", KEY_FOLDER, "PATH", 0, "Where the ledger is (default " MBR_SHARED_FOLDER ")", 0},
        {0},
    };
    static const struct argp argp = {table, parse_limit, "NAME BYTES",
        "Sets the limit of a shared ledger while its processes run. Lowering it revokes nothing: "
        "no process gets another chunk until what is leased is below it.",
        NULL, NULL, NULL};
    ledger_options options = {0};
    int code;
    if (!mbr_args_run(LIMIT_NAME, &argp, argc, argv, &options, &code))
        return code;
    uint64_t over;
    char limit[32], text[32];
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_shared_set_limit(&options.place, options.limit_bytes, &over, &error);
    if (status != MBR_OK)
        return refuse(LIMIT_NAME, status, &error);
    printf("the limit of %s is %s; %s leased above it\n", options.place.name,
        mbr_args_format_bytes(limit, sizeof(limit), options.limit_bytes),
        mbr_args_format_bytes(text, sizeof(text), over));
    return MBR_EXIT_OK;
}
