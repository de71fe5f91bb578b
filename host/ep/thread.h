/* Threads of our own: the workers of the CPU EP and the reaper of a context. A seam, so that a
 * test can refuse the Nth start. */
#ifndef MEMBRANE_HOST_EP_THREAD_H
#define MEMBRANE_HOST_EP_THREAD_H

#include <pthread.h>

typedef struct mbr_threads {
    /* Starts `run(argument)` in a thread called `name` (at most 15 bytes). 0, or an errno. */
    int (*start)(
        void *context, pthread_t *thread, const char *name, void *(*run)(void *), void *argument);
    void *context;
} mbr_threads;

/* Threads that block every signal: a handler of the application never runs on a thread of ours. */
extern const mbr_threads mbr_threads_system;

static inline int mbr_threads_start(const mbr_threads *threads, pthread_t *thread, const char *name,
    void *(*run)(void *), void *argument)
{
    return threads->start(threads->context, thread, name, run, argument);
}

/* Waits for the thread's end. */
void mbr_threads_join(pthread_t thread);

#endif
