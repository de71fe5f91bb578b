/* The program `membrane`: finds the command and hands over. Responsible for the table of commands,
 * --help and --version; never for anything that a command does. */
#include "membrane/base.h"
#include "tools/bench/bench.h"
#include "tools/cli/args.h"
#include "tools/cli/check.h"
#include "tools/cli/inspect.h"
#include "tools/cli/ledger.h"
#include "tools/cli/new_plugin.h"
#include "tools/cli/plugins.h"
#include "tools/cli/replay/replay.h"
#include "tools/cli/share.h"
#include "tools/cli/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* argv[0] is the command's own name. */
typedef struct command {
    const char *name;
    const char *summary; /* below 60 characters */
    int (*run)(int argc, char **argv);
} command;

/* In the order of --help. A new command is one row. */
static const command commands[] = {
    {"plugins", "the plugins that are found, and why one is not used", mbr_cli_plugins},
    {"inspect", "one plugin's file, mechanisms, capabilities and facts", mbr_cli_inspect},
    {"replay", "serve a request trace with real memory under a budget", mbr_cli_replay},
    {"bench", "measure this machine against docs/performance.md", mbr_cli_bench},
    {"share", "what sharing a prefix saves, and from which length it works", mbr_cli_share},
    {"stats", "a shared ledger: its limit and who has leased what", mbr_cli_stats},
    {"limit", "set a shared ledger's limit while its processes run", mbr_cli_limit},
    {"check", "judge a plugin from outside, against the contract", mbr_cli_check},
    {"new-plugin", "the first files of a backend plugin, in a new folder", mbr_cli_new_plugin},
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static int print_help(void)
{
    printf("Usage: membrane COMMAND [OPTION...]\n"
           "Device memory for inference runtimes: plugins, budgets, growing and shared buffers.\n\n"
           "Commands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    printf("\n'membrane COMMAND --help' lists a command's options; 'membrane --version' prints the "
           "version.\nExit codes: 0 done, 1 refused with the reason, 2 not understood.\n");
    return MBR_EXIT_OK;
}

static int print_version(void)
{
    printf("membrane %s, plugin contract %d.%d\n", MBR_TOOLS_VERSION, MBR_MAJOR, MBR_MINOR_0);
    return MBR_EXIT_OK;
}

static int fail_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *near = mbr_args_nearest(name, names, COMMAND_COUNT);
    if (near != NULL)
        return mbr_args_fail("membrane", "unknown command '%s'; did you mean '%s'?", name, near);
    return mbr_args_fail("membrane", "unknown command '%s'; 'membrane --help' lists them", name);
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return mbr_args_fail("membrane", "no command; 'membrane --help' lists them");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return print_help();
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return print_version();
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return fail_command(name);
}

int main(int argc, char **argv)
{
    /* A limit of file sizes is an error of the write, after which everything is taken back. */
    signal(SIGXFSZ, SIG_IGN);
    int code = run(argc, argv);
    /* A full disk behind stdout must not look like a short answer. */
    if (fflush(stdout) != 0 || ferror(stdout))
        return mbr_args_refuse("membrane", "the output cannot be written: %s", strerror(errno));
    return code;
}
