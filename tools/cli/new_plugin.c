/* Responsible for the options of `membrane new-plugin` and for the folder that it writes: all files
 * of it, or none. Never touches a file that was there before. */
#include "tools/cli/new_plugin.h"

#include "membrane/note.h"
#include "tools/build/embed.h"
#include "tools/cli/args.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "membrane new-plugin"
#define HEADERS "membrane/membrane_plugin.h"

#define USUAL_INCLUDE "/usr/local/include"

extern const mbr_embedded mbr_plugin_template[];

enum { KEY_INCLUDE = 0x100, KEY_FOLDER };

static const struct argp_option option_table[] = {
    {"include", KEY_INCLUDE, "DIR", 0,
        "Where the headers are installed (default: include beside this program's folder, else "
        "/usr/local/include)",
        0},
    {"folder", KEY_FOLDER, "DIR", 0, "The folder to write, which must not exist (default NAME)", 0},
    {0},
};

typedef struct options {
    const char *name;
    const char *folder;
    char include[PATH_MAX];
} options;

/* ---- Options -------------------------------------------------------------------------------- */
static bool is_name(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return length != 0 && length < MBR_NOTE_NAME_BYTES && text[length] == 0 && text[0] != '-' &&
        text[length - 1] != '-';
}

static error_t take_include(const struct argp_state *state, options *o, const char *text)
{
    if (realpath(text, o->include) != NULL)
        return strpbrk(o->include, "\"\\\n") == NULL
            ? 0
            : mbr_args_bad(state, "--include '%s' has a quote or a backslash", text);
    return mbr_args_bad(state, "--include '%s': %s", text, strerror(errno));
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case KEY_INCLUDE:
        return take_include(state, o, text);
    case KEY_FOLDER:
        if (text[0] == 0)
            return mbr_args_bad(state, "--folder is empty; a new folder's name would work");
        o->folder = text;
        return 0;
    case ARGP_KEY_ARG:
        if (o->name != NULL)
            return mbr_args_bad(
                state, "'%s' and '%s': one name at a time would work", o->name, text);
        if (!is_name(text))
            return mbr_args_bad(state,
                "'%s' is no plugin's name: up to %d of a-z, 0-9 and '-' inside, such as 'acme-gpu'",
                text, MBR_NOTE_NAME_BYTES - 1);
        o->name = text;
        return 0;
    case ARGP_KEY_END:
        return o->name != NULL ? 0 : mbr_args_bad(state, "no name; 'acme-gpu' would work");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Headers that were installed together with this program, or where they usually are. */
static void guess_include(char include[PATH_MAX])
{
    char path[PATH_MAX + sizeof "/../include/" HEADERS];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length > 0) {
        path[length] = 0;
        char *slash = strrchr(path, '/');
        strcpy(slash, "/../include/" HEADERS);
        if (access(path, R_OK) == 0) {
            strcpy(slash, "/../include");
            if (realpath(path, include) != NULL)
                return;
        }
    }
    strcpy(include, USUAL_INCLUDE);
}

/* ---- Files ---------------------------------------------------------------------------------- */
typedef struct replacement {
    const char *from;
    const char *to;
} replacement;

/* The row whose `from` is at the beginning of the text, or the last one, which has none. */
static const replacement *replacement_at(const replacement *row, const char *text)
{
    while (row->from != NULL && strncmp(text, row->from, strlen(row->from)) != 0)
        row++;
    return row;
}

/* Copies text with what stands in the files for the new plugin's own replaced. False: the file
 * cannot be written. */
static bool write_text(FILE *file, const char *text, const options *o)
{
    const replacement table[] = {
        {"template", o->name},
        {USUAL_INCLUDE, o->include},
        {"//plugins:", "//:"}, /* the Bazel package of what this tree's plugins share */
        {0},
    };
    while (*text != 0) {
        const replacement *row = replacement_at(table, text);
        if (row->from != NULL) {
            fputs(row->to, file);
            text += strlen(row->from);
        } else {
            putc(*text++, file);
        }
    }
    return fflush(file) == 0 && !ferror(file);
}

static bool write_file(const char *folder, const mbr_embedded *from, const options *o)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, from->name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    FILE *file = fopen(path, "wxe");
    if (file == NULL)
        return false;
    bool done = write_text(file, from->text, o);
    return fclose(file) == 0 && done;
}

/* Removes the first `count` files and the folder: what is left of an attempt that failed. */
static void take_back(const char *folder, size_t count)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < count; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, mbr_plugin_template[i].name) <
            (int)sizeof path)
            unlink(path);
    rmdir(folder);
}

static int write_folder(const options *o)
{
    if (mkdir(o->folder, 0777) != 0)
        return mbr_args_refuse(NAME, "'%s': %s; a new folder %s, --folder DIR names another",
            o->folder, strerror(errno),
            errno == EEXIST ? "would work" : "in one that is there and yours would work");
    for (size_t i = 0; mbr_plugin_template[i].name != NULL; i++) {
        if (write_file(o->folder, &mbr_plugin_template[i], o))
            continue;
        int code = errno;
        take_back(o->folder, i + 1);
        return mbr_args_refuse(NAME, "'%s/%s': %s; nothing is left of it", o->folder,
            mbr_plugin_template[i].name, strerror(code));
    }
    printf("%s: a plugin that builds and passes as it is\n"
           "  cd %s\n"
           "  make            builds libmembrane-%s.so, with the headers in %s\n"
           "  make check      membrane check ./libmembrane-%s.so --level 3\n"
           "  bazel build //...\n",
        o->folder, o->folder, o->name, o->include, o->name);
    return MBR_EXIT_OK;
}

int mbr_cli_new_plugin(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse, "NAME",
        "Writes the first files of a backend plugin: a source that is complete and conformant, a "
        "Makefile, Bazel files, a version script.",
        NULL, NULL, NULL};
    options o = {0};
    int code;
    if (!mbr_args_run(NAME, &argp, argc, argv, &o, &code))
        return code;
    if (o.folder == NULL)
        o.folder = o.name;
    if (o.include[0] == 0)
        guess_include(o.include);
    return write_folder(&o);
}
