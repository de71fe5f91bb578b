/* Fibers of one thread: a stack, a place to go on, and an own copy of every thread-local variable
 * of the product, which is compiled with `_Thread_local` as a section of plain variables. */
#ifndef MEMBRANE_TESTS_SCHED_FIBER_H
#define MEMBRANE_TESTS_SCHED_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

#define SCHED_LOCALS_LIMIT_BYTES 512 /* of all thread-local variables together */

typedef struct sched_fiber {
    ucontext_t place; /* where it begins; with AddressSanitizer also where it goes on */
    void *left_at[5]; /* where it goes on: what __builtin_setjmp fills */
    bool has_begun;
    void *stack;  /* made once; NULL for the thread's own */
    void *shadow; /* AddressSanitizer's */
    bool ended;   /* set before the last switch away */
    unsigned char locals[SCHED_LOCALS_LIMIT_BYTES];
    void (*run)(void *argument);
    void *argument;
} sched_fiber;

/* The calling thread itself, so that fibers have somewhere to return to. */
void sched_fiber_init_thread(sched_fiber *thread);
/* Begins anew, with thread-local variables as a new thread has them; `run` never returns. */
void sched_fiber_begin(sched_fiber *fiber, void (*run)(void *argument), void *argument);
void sched_fiber_switch(sched_fiber *from, sched_fiber *to);
/* The first act of `run`. */
void sched_fiber_arrived(void);

#endif
