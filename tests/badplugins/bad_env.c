/* Faults that change the process around the plugin (group ENV). */
#include "abi/base/error.h"
#include "tests/badplugins/bad_alc.h"

#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static pid_t first_process;
static int stale_file = -1, newest_file = -1; /* of the last close; of the last open */
static mbr_instance *last_instance;

static void block_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void raise_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = limit.rlim_cur / 2;
    setrlimit(RLIMIT_STACK, &limit);
}

static void leave_process(void)
{
    if (fork() == 0) {
        setsid();
        for (;;)
            pause();
    }
}

/* What slots do to the process, each in a slot where it could have a reason. */
static mbr_status trim(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    if (bad_is("changes_locale_in_slot"))
        setlocale(LC_ALL, "C.UTF-8");
    if (bad_is("rounding_in_slot"))
        fesetround(FE_TOWARDZERO);
    if (bad_is("stdout_chatter")) {
        printf("trimmed\n");
        fflush(stdout);
    }
    if (bad_is("limits_in_slot"))
        raise_limit();
    return bad_good->allocator.trim(instance, request, outcome, error);
}

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    if (bad_is("umask_in_slot"))
        umask(077);
    if (bad_is("blocks_signals_in_slot"))
        block_signal();
    if (bad_is("environment_in_slot"))
        setenv("MEMBRANE_BAD", "1", 1);
    if (bad_is("process_in_slot"))
        leave_process();
    return bad_good->plugin.quiesce(instance, request, outcome, error);
}

static mbr_status open_instance(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    if (bad_is("closes_stale_descriptor") && stale_file >= 0 && stale_file != newest_file)
        close(stale_file);
    mbr_status status = bad_good->plugin.open(none, request, outcome, error);
    if (status != MBR_OK)
        return status;
    last_instance = outcome->instance;
    newest_file = last_instance->file;
    if (bad_is("descriptor_crosses_exec"))
        (void)fcntl(last_instance->file, F_SETFD, 0);
    return status;
}

static mbr_status close_instance(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    int file = instance == NULL ? -1 : instance->file;
    mbr_status status = bad_good->plugin.close(instance, request, outcome, error);
    if (status != MBR_OK)
        return status;
    stale_file = file;
    if (newest_file == file)
        newest_file = -1;
    return status;
}

/* In a forked child: cleans up what is not the child's. */
static void clean_up(void)
{
    if (last_instance != NULL)
        (void)fallocate(last_instance->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
            (off_t)last_instance->file_bytes);
}

static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.fact(instance, request, outcome, error);
    if (status == MBR_OK && request->fact == MBR_FACT_FORK_SAFE)
        outcome->value = 1;
    return status;
}

static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    if (getpid() != first_process) {
        *outcome = (mbr_outcome){.struct_size = outcome->struct_size};
        return mbr_fail(error, MBR_DEVICE_LOST, "another process");
    }
    (void)bad_grant(instance, request, outcome, error, &status);
    return status;
}

void bad_install_env(void)
{
    static const char *const in_trim[] = {
        "changes_locale_in_slot", "rounding_in_slot", "stdout_chatter", "limits_in_slot", NULL};
    static const char *const in_quiesce[] = {
        "umask_in_slot", "blocks_signals_in_slot", "environment_in_slot", "process_in_slot", NULL};
    static const char *const in_open[] = {
        "descriptor_crosses_exec", "closes_stale_descriptor", "fork_child_cleans_up", NULL};
    first_process = getpid();
    if (bad_is_any(in_trim))
        bad.allocator.trim = trim;
    if (bad_is_any(in_quiesce))
        bad.plugin.quiesce = quiesce;
    if (bad_is_any(in_open))
        bad.plugin.open = open_instance;
    if (bad_is("closes_stale_descriptor"))
        bad.plugin.close = close_instance;
    if (bad_is("fork_child_cleans_up"))
        (void)pthread_atfork(NULL, NULL, clean_up);
    if (bad_is("fork_safe_lie")) {
        bad.allocator.fact = fact;
        bad.allocator.allocate = allocate;
    }
}
