/* Responsible for one schedule: its steps, who goes on after each, waits that end by themselves,
 * and the report of a failure. Never touches what the fibers work on. */
#include "tests/sched/inside.h"

#include "abi/base/assert.h"
#include "tests/sched/journal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

sched_world sched;

/* ---- Failure. What follows the path that is to be tried is always its first option. */
static void note_path(void)
{
    size_t at = 0;
    sched.report->path[0] = '\0';
    for (int i = 0; i < sched.choice->path_length && at + 8 < sizeof(sched.report->path); i++)
        at += (size_t)snprintf(sched.report->path + at, sizeof(sched.report->path) - at, "%s%d",
            i == 0 ? "" : ".", sched.choice->path[i]);
}

void sched_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sched.report->text, sizeof(sched.report->text), format, arguments);
    va_end(arguments);
    sched.report->failed = true;
    _exit(1);
}

/* In place of abi/base/assert.c: an assertion of the product ends the schedule like a check. */
void mbr_assert_failed(const char *expression, const char *file, int line)
{
    sched_fail("%s:%d: assertion failed: %s", file, line, expression);
}

/* ---- Time */
static uint64_t clock_now(void *context)
{
    (void)context;
    return sched.now_ns;
}

const mbr_clock sched_clock = {clock_now, NULL};

uint64_t sched_now_ns(void)
{
    return sched.now_ns;
}

void sched_pass_time(uint64_t ns)
{
    sched.now_ns += ns;
}

static void end_wait(sched_thread *thread, bool timed_out)
{
    thread->state = SCHED_READY;
    thread->timed_out = timed_out;
    if (timed_out && sched.now_ns < thread->deadline_ns)
        sched.now_ns = thread->deadline_ns;
}

static void end_due_waits(void)
{
    for (int i = 0; i < sched.thread_count; i++) {
        sched_thread *thread = &sched.threads[i];
        if (thread->state != SCHED_WAITING)
            continue;
        if (sched.step >= thread->fires_at_step || sched.now_ns >= thread->deadline_ns)
            end_wait(thread, true);
        else if (sched.step >= thread->wakes_at_step)
            end_wait(thread, false);
    }
}

/* Those whose deadline is a choice like any other, which counts as a preemption: two who wait for
 * others by time would let each other's pass for ever. */
static uint32_t timed_waits(void)
{
    uint32_t candidates = 0;
    if (!sched.choice->exhaustive || sched.choice->preemptions == sched.choice->preemption_limit)
        return candidates;
    for (int i = 0; i < sched.thread_count; i++) {
        if (sched.threads[i].state == SCHED_WAITING && sched.threads[i].deadline_ns != UINT64_MAX)
            candidates |= UINT32_C(1) << i;
    }
    return candidates;
}

/* Nobody can run: time passes to the next deadline. */
static bool end_earliest_wait(void)
{
    sched_thread *earliest = NULL;
    for (int i = 0; i < sched.thread_count; i++) {
        sched_thread *thread = &sched.threads[i];
        if (thread->state == SCHED_WAITING && thread->deadline_ns != UINT64_MAX &&
            (earliest == NULL || thread->deadline_ns < earliest->deadline_ns))
            earliest = thread;
    }
    if (earliest != NULL)
        end_wait(earliest, true);
    return earliest != NULL;
}

/* ---- Who goes on */
uint8_t sched_number(const sched_thread *thread)
{
    return thread == &sched.outside ? SCHED_NOBODY : (uint8_t)(thread - sched.threads);
}

static uint32_t ready(void)
{
    uint32_t candidates = 0;
    for (int i = 0; i < sched.thread_count; i++) {
        if (sched.threads[i].state == SCHED_READY)
            candidates |= UINT32_C(1) << i;
    }
    return candidates;
}

static bool all_ended(void)
{
    for (int i = 0; i < sched.thread_count; i++) {
        if (sched.threads[i].state != SCHED_ENDED)
            return false;
    }
    return true;
}

static void fail_deadlock(void)
{
    char text[128] = "";
    for (int i = 0; i < sched.thread_count; i++) {
        sched_state state = sched.threads[i].state;
        const char *what = state == SCHED_LOCKED_OUT ? "at a lock"
            : state == SCHED_WAITING                 ? "in a wait"
                                                     : "ended";
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c %s", i == 0 ? "" : ", ",
            'A' + i, what);
    }
    sched_fail("nobody can go on: %s", text);
}

static sched_thread *choose(void)
{
    end_due_waits();
    uint32_t candidates = ready();
    if (candidates == 0)
        sched_journal_line("rest"); /* nobody is in the middle of anything */
    while (candidates == 0) {
        if (all_ended())
            return &sched.outside;
        if (!end_earliest_wait())
            fail_deadlock();
        candidates = ready();
    }
    int current = sched.current == &sched.outside ? -1 : sched_number(sched.current);
    bool may_stay = current >= 0 && (candidates >> current & 1) != 0;
    candidates |= timed_waits();
    sched_thread *chosen = &sched.threads[sched_choice_make(
        sched.choice, sched.step, current, candidates, sched.thread_count)];
    if (sched.choice->differs)
        sched_fail("the same choices led to another schedule");
    if (chosen->state == SCHED_WAITING) {
        sched.choice->preemptions += !may_stay;
        end_wait(chosen, true);
    }
    return chosen;
}

static void go_on(void)
{
    if (++sched.step > SCHED_STEP_LIMIT)
        sched_fail("no end after %d steps: a fiber spins", SCHED_STEP_LIMIT);
    sched_thread *from = sched.current, *next = choose();
    if (next == from)
        return;
    sched.hash =
        (sched.hash ^ sched.step ^ (uint64_t)sched_number(next) << 32) * UINT64_C(0x100000001b3);
    sched.current = next;
    sched_fiber_switch(&from->fiber, &next->fiber);
}

void sched_leave(void)
{
    go_on();
}

/* ---- Steps */
static void note_step(sched_kind kind, const void *object, const char *file, int line)
{
    sched_report *report = sched.report;
    report->steps[report->step_count++ % SCHED_STEPS_SHOWN] = (sched_step){.file = file,
        .object = object,
        .line = line,
        .fiber = sched_number(sched.current),
        .kind = (uint8_t)kind};
}

static void look(void)
{
    if (sched.rules.look == NULL)
        return;
    sched.looking = true;
    sched.rules.look(sched.rules.context, sched_number(sched.current));
    sched.looking = false;
}

void sched_point(sched_kind kind, const void *object, const char *file, int line)
{
    if (sched.current == &sched.outside || sched.looking)
        return;
    look();
    go_on();
    note_step(kind, object, file, line);
}

void sched_callback_point(const char *file, int line)
{
    sched_point(SCHED_CALLBACK, NULL, file, line);
}

bool sched_is_outside(void)
{
    return sched.current == &sched.outside;
}

uint64_t sched_schedule_hash(void)
{
    return sched.hash;
}

/* ---- One schedule */
static void live(void *argument)
{
    sched_thread *self = argument;
    sched_fiber_arrived();
    if (self->start != NULL)
        (void)self->start(self->body.context);
    else
        self->body.run(self->body.context);
    sched_run_key_ends(self);
    sched_land_stores();
    look();
    self->state = SCHED_ENDED;
    self->fiber.ended = true;
    sched_make_ready(self, SCHED_LOCKED_OUT);
    sched_leave();
}

static sched_thread *begin_thread(void *(*start)(void *), const sched_body *body)
{
    MBR_CHECK(sched.thread_count < SCHED_FIBER_LIMIT);
    sched_thread *thread = &sched.threads[sched.thread_count++];
    thread->state = SCHED_READY;
    thread->start = start;
    thread->body = *body;
    thread->store_count = 0;
    memset(thread->values, 0, sizeof(thread->values));
    sched_fiber_begin(&thread->fiber, live, thread);
    return thread;
}

sched_thread *sched_begin_product_thread(void *(*start)(void *), void *argument)
{
    return begin_thread(start, &(sched_body){NULL, argument});
}

void sched_init(sched_report *report, sched_choice *choice, sched_fault fault)
{
    sched.report = report;
    sched.choice = choice;
    sched.fault = fault;
    sched.current = &sched.outside;
    sched.now_ns = UINT64_C(5000000000);
    sched_fiber_init_thread(&sched.outside.fiber);
}

/* A broken primitive is whole again outside of the bodies. */
static void set_fault(sched_fault fault)
{
    sched_changes_are_torn = fault == SCHED_TORN_CHANGE;
}

void sched_run(const sched_body *bodies, int body_count, const sched_rules *rules)
{
    MBR_CHECK(body_count > 0);
    for (int i = 0; i < body_count; i++)
        (void)begin_thread(NULL, &bodies[i]);
    sched.step = 0;
    sched.hash = UINT64_C(0xcbf29ce484222325);
    sched.report->step_count = 0;
    note_path();
    sched.rules = *rules;
    set_fault(sched.fault);
    go_on();
    set_fault(SCHED_NO_FAULT);
    sched.thread_count = 0;
}
