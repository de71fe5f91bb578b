/* Faults of loading and of constructors (group LOD). */
#include "tests/badplugins/bad.h"

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void *wait_for_ever(void *context)
{
    for (;;)
        pause();
    return context;
}

static void start_thread(void)
{
    pthread_t thread;
    (void)pthread_create(&thread, NULL, wait_for_ever, NULL);
}

static void change_limits(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur--;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void leave_process(void)
{
    if (fork() == 0) {
        setsid();
        wait_for_ever(NULL);
    }
}

__attribute__((constructor)) static void construct(void)
{
    if (bad_is("crashes_in_constructor"))
        abort();
    if (bad_is("thread_in_constructor"))
        start_thread();
    if (bad_is("descriptor_in_constructor"))
        (void)!dup(0);
    if (bad_is("environment_in_constructor"))
        setenv("MEMBRANE_BAD", "1", 1);
    if (bad_is("handler_in_constructor"))
        signal(SIGUSR1, SIG_IGN);
    if (bad_is("changes_locale"))
        setlocale(LC_NUMERIC, "C.UTF-8");
    if (bad_is("umask_in_constructor"))
        umask(0);
    if (bad_is("rounding_in_constructor"))
        fesetround(FE_UPWARD);
    if (bad_is("limits_in_constructor"))
        change_limits();
    if (bad_is("prints_in_constructor"))
        fprintf(stderr, "loaded\n");
    if (bad_is("process_in_constructor"))
        leave_process();
}
