/* Responsible for exchanging one fiber for another, with their stacks and thread-local variables.
 * Never decides which one is next. */
#include "tests/sched/fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_SHADOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_SHADOW 1
#endif
#endif
#ifdef HAS_SHADOW
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES ((size_t)256 * 1024)

/* The linker's names for the section that holds the product's thread-local variables; a program
 * without one has none. */
extern unsigned char __start_fiber_local[] __attribute__((weak));
extern unsigned char __stop_fiber_local[] __attribute__((weak));

static unsigned char first_locals[SCHED_LOCALS_LIMIT_BYTES];

static size_t locals_bytes(void)
{
    size_t bytes = (size_t)(__stop_fiber_local - __start_fiber_local);
    if (bytes > SCHED_LOCALS_LIMIT_BYTES) {
        fprintf(stderr, "sched: %zu bytes of thread-local variables, more than %d\n", bytes,
            SCHED_LOCALS_LIMIT_BYTES);
        abort();
    }
    return bytes;
}

static sched_fiber *thread_itself;

void sched_fiber_init_thread(sched_fiber *thread)
{
    thread_itself = thread;
    thread->has_begun = true;
    memcpy(first_locals, __start_fiber_local, locals_bytes());
}

static void enter(unsigned high, unsigned low)
{
    sched_fiber *self = (sched_fiber *)((uintptr_t)high << 32 | low);
    self->run(self->argument);
    abort();
}

void sched_fiber_begin(sched_fiber *fiber, void (*run)(void *argument), void *argument)
{
    if (fiber->stack == NULL && (fiber->stack = malloc(STACK_BYTES)) == NULL)
        abort();
    fiber->run = run;
    fiber->argument = argument;
    memcpy(fiber->locals, first_locals, sizeof(fiber->locals));
    fiber->shadow = NULL;
    fiber->ended = false;
    fiber->has_begun = false;
    getcontext(&fiber->place);
    fiber->place.uc_stack.ss_sp = fiber->stack;
    fiber->place.uc_stack.ss_size = STACK_BYTES;
    fiber->place.uc_link = NULL;
    uintptr_t self = (uintptr_t)fiber;
    makecontext(&fiber->place, (void (*)(void))enter, 2, (unsigned)(self >> 32), (unsigned)self);
}

#ifdef HAS_SHADOW
static const void *thread_stack;
static size_t thread_stack_bytes;
static sched_fiber *left;

static void leave_shadow(sched_fiber *from, sched_fiber *to)
{
    left = from;
    const void *stack = to->stack != NULL ? to->stack : thread_stack;
    size_t bytes = to->stack != NULL ? STACK_BYTES : thread_stack_bytes;
    __sanitizer_start_switch_fiber(from->ended ? NULL : &from->shadow, stack, bytes);
}

static void enter_shadow(sched_fiber *self)
{
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(self == NULL ? NULL : self->shadow, &stack, &bytes);
    if (left == thread_itself) {
        thread_stack = stack;
        thread_stack_bytes = bytes;
    }
}

static void exchange(sched_fiber *from, sched_fiber *to)
{
    leave_shadow(from, to);
    swapcontext(&from->place, &to->place);
    enter_shadow(from);
}
#else

static void enter_shadow(sched_fiber *self)
{
    (void)self;
}

/* In a function of its own: no function may set and take the same jump. */
static __attribute__((noinline, noreturn)) void go_to(sched_fiber *to)
{
    if (to->has_begun)
        __builtin_longjmp(to->left_at, 1);
    to->has_begun = true;
    setcontext(&to->place);
    abort();
}

/* Without a system call, which swapcontext makes for the mask of signals. */
static __attribute__((noinline)) void exchange(sched_fiber *from, sched_fiber *to)
{
    if (__builtin_setjmp(from->left_at) == 0)
        go_to(to);
}
#endif

void sched_fiber_switch(sched_fiber *from, sched_fiber *to)
{
    size_t bytes = locals_bytes();
    memcpy(from->locals, __start_fiber_local, bytes);
    memcpy(__start_fiber_local, to->locals, bytes);
    exchange(from, to);
}

void sched_fiber_arrived(void)
{
    enter_shadow(NULL);
}
