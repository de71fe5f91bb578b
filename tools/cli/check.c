/* Responsible for `membrane check`: turns a plugin's name into its path and hands over to
 * membrane-check, which lies beside this program and links nothing of the host. Judges nothing. */
#include "tools/cli/check.h"

#include "host/loader/loader.h"
#include "tools/cli/args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "membrane check"
#define PROGRAM "membrane-check"

/* As membrane-check answers them; its 1 means findings. */
enum { EXIT_NO_PLUGIN = 3, EXIT_TOOL = 5 };

__attribute__((format(printf, 2, 3))) static int refuse(int code, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mbr_args_refuse(NAME, "%s", text);
    return code;
}

/* Those whose value may stand as an argument of its own, which is then no plugin. */
static bool takes_value(const char *argument)
{
    static const char *const names[] = {"--level", "--only", "--skip", "--jobs", "--timeout",
        "--seed", "--device", "--waivers", "--format", "--output", "-o", "--repro", "--explain"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(argument, names[i]) == 0)
            return true;
    return false;
}

/* The argument that names the plugin; argc if there is none. */
static int find_plugin(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            return i;
        i += takes_value(argv[i]);
    }
    return argc;
}

static bool is_name(const char *text)
{
    return *text != '\0' && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text);
}

/* The file of that name that a host would use; else the first one, because what is wrong with it is
 * what the user wants to know. */
static int resolve(const char *name, char **path)
{
    mbr_candidate *candidates;
    uint32_t count, chosen = UINT32_MAX;
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (mbr_loader_list(NULL, NULL, &candidates, &count, &error) != MBR_OK)
        return refuse(EXIT_TOOL, "%s", error.text);
    for (uint32_t i = 0; i < count; i++) {
        bool is_used = candidates[i].reason == MBR_REASON_USED;
        if (strcmp(candidates[i].name, name) == 0 && (chosen == UINT32_MAX || is_used)) {
            chosen = i;
            if (is_used)
                break;
        }
    }
    *path = chosen == UINT32_MAX ? NULL : strdup(candidates[chosen].path);
    mbr_loader_list_release(NULL, candidates);
    if (chosen == UINT32_MAX)
        return refuse(EXIT_NO_PLUGIN,
            "no plugin '%s' is found; 'membrane plugins --explain' lists what is, and a path would "
            "work",
            name);
    return *path == NULL ? refuse(EXIT_TOOL, "no memory for a path") : MBR_EXIT_OK;
}

static void run_beside(char **argv)
{
    char own[4096], path[sizeof own + sizeof PROGRAM];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return;
    own[length] = '\0';
    *(strrchr(own, '/') + 1) = '\0';
    snprintf(path, sizeof path, "%s" PROGRAM, own);
    execv(path, argv);
}

int mbr_cli_check(int argc, char **argv)
{
    int at = find_plugin(argc, argv);
    char *path = NULL;
    if (at < argc && is_name(argv[at])) {
        int code = resolve(argv[at], &path);
        if (code != MBR_EXIT_OK)
            return code;
        argv[at] = path;
    }
    run_beside(argv);
    int error = errno;
    free(path);
    return refuse(
        EXIT_TOOL, PROGRAM " cannot be started from beside this program: %s", strerror(error));
}
