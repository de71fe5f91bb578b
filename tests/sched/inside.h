/* What engine.c and shim.c share: the fibers of the schedule at work. */
#ifndef MEMBRANE_TESTS_SCHED_INSIDE_H
#define MEMBRANE_TESTS_SCHED_INSIDE_H

#include "tests/sched/fiber.h"
#include "tests/sched/shim.h"

#define SCHED_KEY_LIMIT 4
#define SCHED_STORE_LIMIT 16

typedef enum sched_state {
    SCHED_READY,
    SCHED_LOCKED_OUT, /* until the mutex is free */
    SCHED_WAITING,    /* until a signal, its deadline, or for no reason at all */
    SCHED_ENDED
} sched_state;

typedef struct sched_waiting_store {
    void *object;
    uint64_t value;
    size_t bytes;
} sched_waiting_store;

typedef struct sched_thread {
    sched_fiber fiber;
    sched_state state;
    const void *waits_for;
    uint64_t deadline_ns; /* of a wait; UINT64_MAX: none */
    uint64_t fires_at_step, wakes_at_step;
    bool timed_out;
    void *values[SCHED_KEY_LIMIT];
    sched_waiting_store stores[SCHED_STORE_LIMIT]; /* the oldest first */
    int store_count;
    void *(*start)(void *argument); /* of a thread that the product started; NULL: a body */
    sched_body body;
} sched_thread;

typedef struct sched_world {
    sched_thread outside; /* code outside of all bodies */
    sched_thread threads[SCHED_FIBER_LIMIT];
    int thread_count;
    sched_thread *current;
    uint64_t step, now_ns, hash;
    bool looking;
    sched_rules rules;
    sched_choice *choice;
    sched_report *report;
    sched_fault fault;
} sched_world;

extern sched_world sched;

/* The number of the thread at work; SCHED_NOBODY outside. */
uint8_t sched_number(const sched_thread *thread);
/* The thread at work has a state in which it cannot go on, until somebody changes it. */
void sched_leave(void);
void sched_run_key_ends(sched_thread *thread);
void sched_make_ready(const void *waited_for, sched_state state);
/* Runs from now on, or from the beginning of the schedule that is being set up. */
sched_thread *sched_begin_product_thread(void *(*start)(void *), void *argument);

#endif
