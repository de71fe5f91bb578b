/* Responsible for the options and the two outputs of `membrane plugins`. The search and the reasons
 * are the loader's. */
#include "tools/cli/plugins.h"

#include "host/loader/loader.h"
#include "tools/cli/args.h"
#include "tools/cli/note_json.h"
#include "tools/cli/probe.h"
#include "tools/cli/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "membrane plugins"
#define PROBE_BYTES 512

enum { KEY_EXPLAIN = 0x100, KEY_PROBE, KEY_FORMAT };

static const struct argp_option option_table[] = {
    {"explain", KEY_EXPLAIN, NULL, 0, "Also list what is not used, with the reason", 0},
    {"probe", KEY_PROBE, NULL, 0, "Load each plugin that would be used, in a child process", 0},
    {"format", KEY_FORMAT, "human|json", 0, "Output (default human)", 0},
    {0},
};

typedef struct options {
    bool explain, probe, json;
} options;

/* One candidate and what its probe said. */
typedef struct line {
    const mbr_candidate *candidate;
    bool was_probed, loads;
    char probe[PROBE_BYTES];
} line;

static error_t parse(int key, char *text, struct argp_state *state)
{
    static const char *const formats[] = {"human", "json"};
    options *o = state->input;
    uint64_t index;
    error_t error;
    switch (key) {
    case KEY_EXPLAIN:
        o->explain = true;
        return 0;
    case KEY_PROBE:
        o->probe = true;
        return 0;
    case KEY_FORMAT:
        error = mbr_args_choice_option(state, "--format", text, formats, 2, &index);
        o->json = index == 1;
        return error;
    case ARGP_KEY_ARG:
        return mbr_args_bad(state,
            "unexpected argument '%s'; 'membrane inspect %s' looks at one plugin", text, text);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void probe(line *item)
{
    item->was_probed = true;
    if (!mbr_probe(item->candidate->path, &item->loads, item->probe, sizeof item->probe))
        snprintf(item->probe, sizeof item->probe, "no child process: %s", strerror(errno));
}

static void print_line(const line *item)
{
    const mbr_candidate *candidate = item->candidate;
    char path[MBR_LOADER_PATH_BYTES], detail[MBR_LOADER_REASON_BYTES];
    mbr_text_printable(path, sizeof path, candidate->path);
    mbr_text_printable(detail, sizeof detail, candidate->detail);
    if (candidate->reason != MBR_REASON_USED) {
        printf("%-16s  %s\n%18s%s: %s\n", candidate->name[0] == '\0' ? "-" : candidate->name, path,
            "", mbr_reason_word(candidate->reason), detail);
        return;
    }
    const mbr_note_facts *note = &candidate->note;
    printf("%-16s  %s\n%18sused: %s, contract %u.%u", candidate->name, path, "", note->vendor,
        note->major, note->minor_min);
    if (note->minor_max != note->minor_min)
        printf(" to %u.%u", note->major, note->minor_max);
    if (mbr_pin_text(note)[0] != '\0')
        printf("; warning: never unloaded (%s%s%s)", mbr_pin_text(note),
            note->has_unique_symbol ? " " : "", note->unique_symbol);
    printf("\n");
    if (item->was_probed)
        printf("%18sprobe: %s\n", "", item->probe);
}

static void print_human(const options *o, const line *lines, uint32_t count)
{
    uint32_t unused = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_used = lines[i].candidate->reason == MBR_REASON_USED;
        unused += !is_used;
        if (is_used || o->explain)
            print_line(&lines[i]);
    }
    if (count == 0)
        printf("no plugin found; MEMBRANE_PLUGIN_PATH=FOLDER names a folder with one\n");
    else if (unused > 0 && !o->explain)
        printf("%u more %s not used; --explain says why\n", unused, unused == 1 ? "is" : "are");
}

static json_t *line_json(const line *item)
{
    json_t *object = mbr_candidate_json(item->candidate);
    if (object == NULL || !item->was_probed)
        return object;
    json_t *result =
        json_pack("{s:b,s:o}", "loads", item->loads, "text", mbr_text_json(item->probe));
    if (json_object_set_new(object, "probe", result) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static bool print_json(const options *o, const line *lines, uint32_t count)
{
    json_t *list = json_array();
    bool is_whole = list != NULL;
    for (uint32_t i = 0; is_whole && i < count; i++)
        if (o->explain || lines[i].candidate->reason == MBR_REASON_USED)
            is_whole = json_array_append_new(list, line_json(&lines[i])) == 0;
    json_t *root = is_whole ? json_pack("{s:O}", "plugins", list) : NULL;
    is_whole =
        root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    json_decref(root);
    json_decref(list);
    return is_whole;
}

static int print(const options *o, const mbr_candidate *candidates, uint32_t count)
{
    line *lines = calloc(count == 0 ? 1 : count, sizeof *lines);
    if (lines == NULL)
        return mbr_args_refuse(NAME, "memory for %u lines is exhausted", count);
    int code = MBR_EXIT_OK;
    for (uint32_t i = 0; i < count; i++) {
        lines[i].candidate = &candidates[i];
        if (!o->probe || candidates[i].reason != MBR_REASON_USED)
            continue;
        probe(&lines[i]);
        if (!lines[i].loads)
            code = MBR_EXIT_REFUSED;
    }
    if (!o->json)
        print_human(o, lines, count);
    else if (!print_json(o, lines, count) && ferror(stdout) == 0)
        code = mbr_args_refuse(NAME, "memory for the JSON object is exhausted");
    free(lines);
    return code;
}

int mbr_cli_plugins(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse, NULL,
        "Lists the plugins of the search path in search order, loading none.", NULL, NULL, NULL};
    options o = {0};
    int code;
    if (!mbr_args_run(NAME, &argp, argc, argv, &o, &code))
        return code;
    mbr_candidate *candidates;
    uint32_t count;
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (mbr_loader_list(NULL, NULL, &candidates, &count, &error) != MBR_OK)
        return mbr_args_refuse(NAME, "%s", error.text);
    code = print(&o, candidates, count);
    mbr_loader_list_release(NULL, candidates);
    return code;
}
