/* Responsible for the command line's manners: argp without its own messages, one line an error,
 * the same exit codes everywhere. Never knows what a command does. */
#include "tools/cli/args.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "host/holder/geometry/nearest.h"
#include "tools/cli/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 30
#define LINE_MAX_CHARS 1024
#define KEY_HELP 'h'

/* Input of the outer parser, which wraps a command's own. */
typedef struct outer {
    const struct argp *argp;
    void *input;
    const char *bad; /* the argument that getopt refused */
    bool help;
} outer;

/* One line, whatever a user's value holds. */
static void print_line(const char *name, const char *format, va_list arguments)
{
    char line[LINE_MAX_CHARS], shown[LINE_MAX_CHARS];
    vsnprintf(line, sizeof line, format, arguments);
    fprintf(stderr, "%s: %s\n", name, mbr_text_printable(shown, sizeof shown, line));
}

int mbr_args_fail(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(name, format, arguments);
    va_end(arguments);
    return MBR_EXIT_USAGE;
}

int mbr_args_refuse(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(name, format, arguments);
    va_end(arguments);
    return MBR_EXIT_REFUSED;
}

error_t mbr_args_bad(const struct argp_state *state, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(state->name, format, arguments);
    va_end(arguments);
    return ECANCELED;
}

static const char *name_at(const void *context, uint64_t index)
{
    return ((const char *const *)context)[index];
}

const char *mbr_args_nearest(const char *text, const char *const *names, uint64_t count)
{
    uint64_t index = mbr_nearest_name(text, count, name_at, names);
    return index < count ? names[index] : NULL;
}

error_t mbr_args_size_option(const struct argp_state *state, const char *option, const char *text,
    uint64_t lowest, uint64_t *bytes)
{
    mbr_args_status status = mbr_args_parse_size(text, bytes);
    if (status != MBR_ARGS_OK)
        return mbr_args_bad(state,
            "%s: '%s' %s; a whole number of bytes below 8 EiB such as 4096, 64KiB, 2MiB or 1GiB "
            "would work",
            option, text, mbr_args_status_text(status));
    if (*bytes < lowest)
        return mbr_args_bad(
            state, "%s: '%s' is too small; at least %lu would work", option, text, lowest);
    return 0;
}

error_t mbr_args_count_option(const struct argp_state *state, const char *option, const char *text,
    uint64_t lowest, uint64_t highest, uint64_t *count)
{
    mbr_args_status status = mbr_args_parse_count(text, count);
    if (status == MBR_ARGS_OK && *count < lowest)
        return mbr_args_bad(
            state, "%s: '%s' is too small; %lu to %lu would work", option, text, lowest, highest);
    if (status == MBR_ARGS_OK && *count > highest)
        status = MBR_ARGS_TOO_LARGE;
    if (status != MBR_ARGS_OK)
        return mbr_args_bad(state, "%s: '%s' %s; a whole number from %lu to %lu would work", option,
            text, mbr_args_status_text(status), lowest, highest);
    return 0;
}

error_t mbr_args_choice_option(const struct argp_state *state, const char *option, const char *text,
    const char *const *names, uint64_t count, uint64_t *index)
{
    char list[256] = "";
    for (*index = 0; *index < count; (*index)++)
        if (strcmp(text, names[*index]) == 0)
            return 0;
    for (uint64_t i = 0; i < count; i++) {
        size_t used = strlen(list);
        const char *separator = i + 1 == count ? " and " : ", ";
        snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : separator, names[i]);
    }
    const char *near = mbr_args_nearest(text, names, count);
    if (near == NULL)
        return mbr_args_bad(state, "%s: '%s' is unknown; %s would work", option, text, list);
    return mbr_args_bad(
        state, "%s: '%s' is unknown; %s would work (nearest: %s)", option, text, list, near);
}

/* The option that "--name" or "--name=value" names in full. */
static const struct argp_option *find_option(const struct argp *argp, const char *text)
{
    size_t length = strcspn(text, "=");
    for (const struct argp_option *o = argp->options; o->name != NULL || o->key != 0; o++)
        if (o->name != NULL && length > 2 && strncmp(text, "--", 2) == 0 &&
            strlen(o->name) == length - 2 && strncmp(o->name, text + 2, length - 2) == 0)
            return o;
    return NULL;
}

/* Could getopt have taken this argument? A value of the option before it counts too. */
static bool is_taken(const struct argp *argp, const char *text)
{
    const struct argp_option *known = find_option(argp, text);
    bool has_value = strchr(text, '=') != NULL;
    return text[0] != '-' || (known != NULL && (known->arg != NULL) == has_value);
}

static error_t parse_outer(int key, char *text, struct argp_state *state)
{
    outer *self = state->input;
    (void)text;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = self->input;
        return 0;
    case KEY_HELP:
        self->help = true;
        return ECANCELED;
    case ARGP_KEY_ERROR:
        self->bad = state->argv[state->next > 0 ? state->next - 1 : 0];
        /* A short option inside a group is refused before getopt moves on from the group. */
        if (state->next < state->argc && is_taken(self->argp, self->bad))
            self->bad = state->argv[state->next];
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* argp does not say what getopt disliked: read it off the argument. */
static int fail_option(const char *name, const struct argp *argp, const char *bad)
{
    const char *names[OPTIONS_MAX + 1];
    uint64_t count = 0;
    const struct argp_option *known = find_option(argp, bad);
    if (known != NULL && known->arg != NULL)
        return mbr_args_fail(name, "%s needs a value; %s=%s would work", bad, bad, known->arg);
    if (known != NULL || strncmp(bad, "--help=", 7) == 0)
        return mbr_args_fail(name, "'%s': the option takes no value; %.*s would work", bad,
            (int)strcspn(bad, "="), bad);
    for (const struct argp_option *o = argp->options; o->name != NULL || o->key != 0; o++)
        if (o->name != NULL && count < OPTIONS_MAX)
            names[count++] = o->name;
    names[count++] = "help";
    char typed[MBR_NEAREST_NAME_MAX + 1];
    const char *start = bad + strspn(bad, "-");
    snprintf(typed, sizeof typed, "%.*s", (int)mbr_min(strcspn(start, "="), MBR_NEAREST_NAME_MAX),
        start);
    const char *near = mbr_args_nearest(typed, names, count);
    if (near != NULL)
        return mbr_args_fail(
            name, "unknown option '%s'; did you mean --%s? --help lists them", bad, near);
    return mbr_args_fail(name, "unknown option '%s'; --help lists those that work", bad);
}

bool mbr_args_run(
    const char *name, const struct argp *argp, int argc, char **argv, void *input, int *exit_code)
{
    static const struct argp_option help[] = {
        {"help", KEY_HELP, NULL, 0, "Print this and exit", -1},
        {0},
    };
    /* Without its doc, which would be printed twice. */
    const struct argp inner = {argp->options, argp->parser, NULL, NULL, NULL, NULL, NULL};
    const struct argp_child children[] = {{&inner, 0, NULL, 0}, {0}};
    const struct argp wrapped = {
        help, parse_outer, argp->args_doc, argp->doc, children, NULL, NULL};
    outer self = {.argp = argp, .input = input};
    char *own_name = argv[0];
    *exit_code = MBR_EXIT_OK;
    /* argp takes its name for messages from argv[0]. */
    argv[0] = (char *)(uintptr_t)name;
    error_t error =
        argp_parse(&wrapped, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &self);
    argv[0] = own_name;
    if (error == 0)
        return true;
    if (self.help)
        argp_help(&wrapped, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK,
            (char *)(uintptr_t)name);
    else if (error == ECANCELED)
        *exit_code = MBR_EXIT_USAGE;
    else if (error == ENOMEM)
        *exit_code = mbr_args_refuse(name, "memory for reading the arguments is exhausted");
    else
        *exit_code = fail_option(name, argp, self.bad);
    return false;
}
