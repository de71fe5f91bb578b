/* What a plugin can do to its judge: inputs of //tests/check, which wants a verdict and a clean end
 * for each. Their checks are found by what a run names, so that they are in no table. */
#include "tests/badplugins/bad.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BITE_BYTES (UINT64_C(32) << 20)

static void delete_own_file(void)
{
    Dl_info info;
    if (dladdr(&bad, &info) != 0)
        unlink(info.dli_fname);
}

static void eat_private_memory(void)
{
    for (;;) {
        char *bite = malloc(BITE_BYTES);
        if (bite == NULL)
            abort();
        memset(bite, 1, BITE_BYTES);
    }
}

/* Ignores what can be ignored, in a session of its own, and its children do the same. */
static void leave_group(void)
{
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            if (fork() == 0)
                setsid();
            for (;;)
                pause();
        }
}

static void print_without_end(void)
{
    for (;;)
        printf("the same line again and again, without an end\n");
}

/* Dies the first time, in whichever process that is. */
static void die_once(void)
{
    const char *path = getenv("MEMBRANE_BAD_ONCE");
    int file = path == NULL ? -1 : open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0)
        abort();
}

static void do_harm(void)
{
    if (bad_is("hostile_dies_once"))
        die_once();
    if (bad_is("hostile_dies"))
        raise(SIGSEGV);
    if (bad_is("hostile_hangs"))
        for (;;)
            pause();
    if (bad_is("hostile_spins"))
        for (;;)
            continue;
    if (bad_is("hostile_prints"))
        print_without_end();
    if (bad_is("hostile_forks"))
        leave_group();
    if (bad_is("hostile_exits"))
        _exit(0);
    if (bad_is("hostile_exits_with_handlers"))
        exit(0);
    if (bad_is("hostile_raises"))
        raise(SIGUSR2);
    if (bad_is("hostile_kills_group"))
        kill(0, SIGKILL);
    if (bad_is("hostile_stops"))
        raise(SIGSTOP);
    if (bad_is("hostile_locale"))
        setlocale(LC_ALL, "C.UTF-8");
    if (bad_is("hostile_eats_memory"))
        eat_private_memory();
    if (bad_is("hostile_deletes_itself"))
        delete_own_file();
}

static mbr_status open_and_harm(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    do_harm();
    return bad_good->plugin.open(none, request, outcome, error);
}

/* A second mechanism, which cannot be opened. */
static mbr_status mechanisms_two(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    mbr_mechanisms_request first = *request;
    first.index = request->index == 1 ? 0 : request->index;
    mbr_status status = bad_good->plugin.mechanisms(none, &first, outcome, error);
    outcome->count = 2;
    if (request->index == 1)
        strcpy(outcome->name, "second");
    return status;
}

void bad_install_hostile(void)
{
    if (bad_is("hostile_second_mechanism")) {
        bad.plugin.mechanisms = mechanisms_two;
        return;
    }
    if (bad_is_hostile())
        bad.plugin.open = open_and_harm;
}
