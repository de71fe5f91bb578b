/* Many schedules of one small scenario: the product's own code on fibers of one thread, which may
 * be exchanged for another at each lock, condition, atomic operation and callback, and nowhere
 * else.
 *
 * One schedule: sched_run starts the bodies, and returns when all have ended. Code outside of a
 * body (set-up, checks) runs through without a switch. Any failure ends the process, after the
 * report was filled; the report lies in memory that the parent process shares.
 *
 * A store that is not sequentially consistent may stay in its fiber's buffer for a while, as the
 * processor's does: others see it late, in order, and at the latest at the fiber's next change,
 * fence or lock. What a processor with a weaker order than x86 may do besides is not shown. */
#ifndef MEMBRANE_TESTS_SCHED_ENGINE_H
#define MEMBRANE_TESTS_SCHED_ENGINE_H

#include "abi/base/seam.h"
#include "tests/sched/choice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCHED_STEPS_SHOWN 512    /* the last ones of a schedule that failed */
#define SCHED_STEP_LIMIT 1000000 /* more are a fiber that spins */
#define SCHED_NOBODY UINT8_MAX   /* code outside of a body */

typedef enum sched_kind {
    SCHED_LOAD,
    SCHED_STORE,
    SCHED_CHANGE, /* read, modify, write */
    SCHED_FENCE,
    SCHED_TAKE,
    SCHED_DROP,
    SCHED_WAIT,
    SCHED_SIGNAL,
    SCHED_CALLBACK,
    SCHED_KIND_COUNT
} sched_kind;

typedef struct sched_step {
    const char *file;
    const void *object;
    int line;
    uint8_t fiber;
    uint8_t kind; /* sched_kind */
} sched_step;

typedef struct sched_report {
    uint64_t schedule_count, different_count;
    uint64_t seed; /* of the schedule at work */
    bool failed;
    char text[512];  /* why it failed */
    char path[8192]; /* of an exhaustive search: the choices made */
    uint64_t step_count;
    sched_step steps[SCHED_STEPS_SHOWN]; /* a ring */
} sched_report;

/* A primitive that does not do its work: shows that a scenario would notice. */
typedef enum sched_fault {
    SCHED_NO_FAULT,
    SCHED_TORN_CHANGE, /* an atomic change is a load and a store */
    SCHED_OPEN_LOCK,   /* a lock lets everybody in */
    SCHED_LOST_SIGNAL  /* a signal wakes nobody */
} sched_fault;

typedef struct sched_body {
    void (*run)(void *context);
    void *context;
} sched_body;

typedef struct sched_rules {
    /* Called before each step with the fiber that made the one before. It only reads. Optional. */
    void (*look)(void *context, uint8_t fiber);
    void *context;
    /* No wait ends but by a signal: one that ends by its time alone has missed it. */
    bool waits_stay;
} sched_rules;

/* Before the first run; `report` stays. */
void sched_init(sched_report *report, sched_choice *choice, sched_fault fault);
void sched_run(const sched_body *bodies, int body_count, const sched_rules *rules);
/* Nobody is in a body: before the first one starts, and after the last one has ended. */
bool sched_is_outside(void);
/* Over the fibers of the last schedule: equal for equal schedules. */
uint64_t sched_schedule_hash(void);

void sched_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* A place where a body, or a callback of the product, may be left for another fiber. */
void sched_callback_point(const char *file, int line);
#define SCHED_CALLBACK_POINT() sched_callback_point(__FILE__, __LINE__)

/* The time of all waits: it moves only when a wait's deadline is its next event, or by hand. */
extern const mbr_clock sched_clock;
uint64_t sched_now_ns(void);
void sched_pass_time(uint64_t ns);

#ifdef __cplusplus
}
#endif

#endif
