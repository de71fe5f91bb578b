/* Responsible for the options of `membrane inspect` and for what it asks a plugin. Opens each
 * mechanism once and closes it again; uses none of its memory. The plugin is loaded in a child, so
 * that one that dies is reported. */
#include "tools/cli/inspect.h"

#include "tools/cli/args.h"
#include "tools/cli/probe.h"
#include "tools/cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "membrane inspect"
#define TIMEOUT_MS 60000 /* a driver may take long to start */

enum { KEY_TRUST = 0x100, KEY_NO_OPEN, KEY_FORMAT, KEY_REPORT };

static const struct argp_option option_table[] = {
    {"trust", KEY_TRUST, NULL, 0, "Do not ask who could have written the file", 0},
    {"no-open", KEY_NO_OPEN, NULL, 0, "Load it, but open none of its mechanisms", 0},
    {"format", KEY_FORMAT, "human|json", 0, "Output (default human)", 0},
    /* Of the child: loads the plugin itself, and writes its exit code there before it ends. */
    {"report-to", KEY_REPORT, "FD", OPTION_HIDDEN, NULL, 0},
    {0},
};

typedef struct options {
    const char *plugin;
    bool trust, no_open, json;
    bool is_child;
    uint64_t report_fd;
} options;

static error_t parse(int key, char *text, struct argp_state *state)
{
    static const char *const formats[] = {"human", "json"};
    options *o = state->input;
    uint64_t index;
    error_t error;
    switch (key) {
    case KEY_TRUST:
        o->trust = true;
        return 0;
    case KEY_NO_OPEN:
        o->no_open = true;
        return 0;
    case KEY_FORMAT:
        error = mbr_args_choice_option(state, "--format", text, formats, 2, &index);
        o->json = index == 1;
        return error;
    case KEY_REPORT:
        o->is_child = true;
        return mbr_args_count_option(state, "--report-to", text, 3, 1023, &o->report_fd);
    case ARGP_KEY_ARG:
        if (o->plugin != NULL)
            return mbr_args_bad(
                state, "'%s' and '%s': one plugin at a time would work", o->plugin, text);
        o->plugin = text;
        return 0;
    case ARGP_KEY_END:
        if (o->plugin == NULL)
            return mbr_args_bad(state,
                "no plugin is named; 'host' or './libmembrane-mine.so' would work, 'membrane "
                "plugins' lists names");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Opens the file. A breach of trust is kept in the answer and gone past, because who inspects a
 * file wants to know what it is. */
static mbr_status open_file(
    const options *o, mbr_inspection *answer, mbr_module **module, mbr_error *error)
{
    mbr_module_options request = {.name_or_path = o->plugin, .trusted = o->trust};
    mbr_status status = mbr_module_open(&request, module, &answer->candidate, error);
    if (status != MBR_UNTRUSTED || answer->candidate.reason == MBR_REASON_FILE_CHANGED)
        return status;
    char path[MBR_LOADER_PATH_BYTES];
    memcpy(path, answer->candidate.path, sizeof path);
    memcpy(answer->breach_text, answer->candidate.detail, sizeof answer->breach_text);
    answer->breach = answer->candidate.reason;
    request = (mbr_module_options){.name_or_path = path, .trusted = true};
    return mbr_module_open(&request, module, &answer->candidate, error);
}

static void take_error(mbr_inspected *item, mbr_status status, const mbr_error *error)
{
    item->status = status;
    mbr_text_printable(item->text, sizeof item->text, error->text);
}

static void open_mechanism(mbr_module *module, mbr_inspected *item)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_mechanism_options request = {.mechanism = item->description.name};
    mbr_mechanism mechanism;
    mbr_status status = mbr_mechanism_open(module, &request, &mechanism, &error);
    if (status != MBR_OK) {
        take_error(item, status, &error);
        return;
    }
    item->was_opened = true;
    item->facts = mechanism;
    item->facts.instance = NULL;
    item->facts.module = NULL;
    status = mbr_mechanism_close(&mechanism, &error);
    if (status == MBR_OK)
        return;
    take_error(item, status, &error);
    if (mechanism.instance != NULL)
        mbr_mechanism_abandon(&mechanism);
}

static void ask_mechanisms(mbr_module *module, bool no_open, mbr_inspection *answer)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    for (uint32_t i = 0; i < MBR_INSPECT_MECHANISMS_MAX; i++) {
        mbr_inspected *item = &answer->mechanisms[i];
        mbr_status status = mbr_module_describe(module, i, &item->description, &error);
        if (status != MBR_OK) {
            if (status != MBR_OUT_OF_RANGE || i == 0)
                mbr_text_printable(answer->enumeration, sizeof answer->enumeration, error.text);
            return;
        }
        answer->count = i + 1;
        if (!no_open)
            open_mechanism(module, item);
    }
    snprintf(answer->enumeration, sizeof answer->enumeration, "only the first %d are shown",
        MBR_INSPECT_MECHANISMS_MAX);
}

static int print(const options *o, const mbr_inspection *answer)
{
    if (!o->json)
        mbr_inspect_print_human(stdout, answer);
    else if (!mbr_inspect_print_json(stdout, answer) && ferror(stdout) == 0)
        return mbr_args_refuse(NAME, "memory for the JSON object is exhausted");
    for (uint32_t i = 0; i < answer->count; i++)
        if (answer->mechanisms[i].status != MBR_OK)
            return MBR_EXIT_REFUSED;
    return MBR_EXIT_OK;
}

static int inspect(const options *o, mbr_inspection *answer)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_module *module;
    if (open_file(o, answer, &module, &error) != MBR_OK) {
        const mbr_candidate *candidate = &answer->candidate;
        if (candidate->path[0] == '\0')
            return mbr_args_refuse(NAME, "%s", error.text);
        return mbr_args_refuse(NAME, "%s: %s: %s", candidate->path,
            mbr_reason_word(candidate->reason), candidate->detail);
    }
    snprintf(answer->version, sizeof answer->version, "%s", mbr_module_plugin(module)->version);
    answer->minor = mbr_module_minor(module);
    ask_mechanisms(module, o->no_open, answer);
    int code = print(o, answer);
    mbr_module_close(module);
    return code;
}

/* In the child. The report is the last step: what ends the process before did not end by itself. */
static int inspect_here(const options *o)
{
    int report = (int)o->report_fd;
    mbr_inspection answer = {.breach = MBR_REASON_USED};
    if (fcntl(report, F_SETFD, FD_CLOEXEC) != 0)
        return mbr_args_refuse(NAME, "--report-to: %s", strerror(errno));
    answer.mechanisms = calloc(MBR_INSPECT_MECHANISMS_MAX, sizeof *answer.mechanisms);
    if (answer.mechanisms == NULL)
        return mbr_args_refuse(NAME, "memory for the answer is exhausted");
    int code = inspect(o, &answer);
    free(answer.mechanisms);
    if (fflush(stdout) != 0 || ferror(stdout)) /* main says it */
        code = MBR_EXIT_REFUSED;
    unsigned char byte = (unsigned char)code;
    return write(report, &byte, 1) == 1 ? code : MBR_EXIT_REFUSED;
}

static int inspect_in_child(const options *o)
{
    const char *arguments[8];
    int count = 0, code;
    if (o->trust)
        arguments[count++] = "--trust";
    if (o->no_open)
        arguments[count++] = "--no-open";
    if (o->json)
        arguments[count++] = "--format=json";
    arguments[count++] = "--";
    arguments[count++] = o->plugin;
    arguments[count] = NULL;
    const mbr_child child = {arguments, STDOUT_FILENO, STDERR_FILENO, TIMEOUT_MS};
    char text[256];
    if (!mbr_child_run(&child, &code, text, sizeof text))
        return mbr_args_refuse(NAME, "no child process: %s", strerror(errno));
    return code >= 0 ? code
                     : mbr_args_refuse(NAME, "%s: loaded in a child process: %s", o->plugin, text);
}

int mbr_cli_inspect(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse, "NAME|PATH",
        "Loads one plugin and prints its file, mechanisms, capabilities and facts. A path has a "
        "'/'.",
        NULL, NULL, NULL};
    options o = {0};
    int code;
    if (!mbr_args_run(NAME, &argp, argc, argv, &o, &code))
        return code;
    return o.is_child ? inspect_here(&o) : inspect_in_child(&o);
}
