/* Responsible for starting and joining threads of our own on the system's pthreads. Never detaches
 * one: whoever starts a thread joins it. */
#include "host/ep/thread.h"

#include "abi/base/assert.h"

#include <signal.h>
#include <stddef.h>

static int system_start(
    void *context, pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
    (void)context;
    sigset_t all, before;
    sigfillset(&all);
    MBR_CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    int answer = pthread_create(thread, NULL, run, argument);
    MBR_CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (answer == 0)
        (void)pthread_setname_np(*thread, name); /* for people only: a failure changes nothing */
    return answer;
}

const mbr_threads mbr_threads_system = {system_start, NULL};

void mbr_threads_join(pthread_t thread)
{
    MBR_CHECK(pthread_join(thread, NULL) == 0);
}
