/* What runs on a device: fills, copies, and the kernels that the model has. Memory is touched
 * through the device's own part of the addresses, so that the processor says what is a fault: at a
 * device's address it becomes the work's answer, anywhere else it stays the crash that it is. Holds
 * no lock. */
#include "tests/standin/model.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A device is no thread of the process: what races on its memory is for the test to see, not for
 * ThreadSanitizer. */
#define DEVICE_EYES __attribute__((no_sanitize("thread"), noinline))

static _Thread_local sigjmp_buf *touching; /* where a fault goes on, or NULL */
static struct sigaction before;
static bool is_caught;

uint64_t sim_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- Faults ---- */

static void hand_on(int number, siginfo_t *info, void *machine)
{
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, machine);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        /* The instruction runs again, and the process ends as it would have. */
        signal(number, SIG_DFL);
    } else {
        before.sa_handler(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *machine)
{
    sigjmp_buf *way_out = touching;
    if (way_out && sim_is_fault((uintptr_t)info->si_addr)) {
        touching = NULL;
        siglongjmp(*way_out, 1);
    }
    hand_on(number, info, machine);
}

void sim_catch_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (is_caught && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
    is_caught = true;
}

/* ---- Touching ---- */

DEVICE_EYES static void move(uint64_t to, uint64_t from, uint64_t bytes)
{
    volatile uint8_t *target = sim_pointer(to);
    const volatile uint8_t *source = sim_pointer(from);
    if (((to | from) & 7) == 0)
        for (; bytes >= 8; bytes -= 8, target += 8, source += 8)
            *(volatile uint64_t *)target = *(const volatile uint64_t *)source;
    for (; bytes; bytes--)
        *target++ = *source++;
}

DEVICE_EYES static void store_repeated(uint64_t to, const uint8_t pattern[8], uint64_t bytes)
{
    volatile uint8_t *target = sim_pointer(to);
    uint64_t word;
    memcpy(&word, pattern, sizeof word);
    if ((to & 7) == 0)
        for (; bytes >= 8; bytes -= 8, target += 8)
            *(volatile uint64_t *)target = word;
    for (uint64_t i = 0; i < bytes; i++)
        target[i] = pattern[i % 8];
}

DEVICE_EYES static uint32_t load(uint64_t address)
{
    return *(volatile uint32_t *)sim_pointer(address);
}

DEVICE_EYES static void store(uint64_t address, uint32_t value)
{
    *(volatile uint32_t *)sim_pointer(address) = value;
}

static int fill(const struct sim_work *work)
{
    uint8_t pattern[8];
    for (uint32_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (uint8_t)(work->value >> (8 * (i % work->value_bytes)));
    store_repeated(sim_view(work->to_device, work->to), pattern, work->bytes);
    return SIM_OK;
}

static int copy(const struct sim_work *work)
{
    uint64_t from = work->staged ? (uintptr_t)work->staged : work->from;
    move(sim_view(work->to_device, work->to), sim_view(work->from_device, from), work->bytes);
    return SIM_OK;
}

static int run_touching(uint32_t device, const struct sim_work *work)
{
    switch (work->kind) {
    case SIM_FILL:
        return fill(work);
    case SIM_COPY:
        return copy(work);
    case SIM_KERNEL:
        return work->kernel->run(device, work->arguments);
    case SIM_HOST_FUNCTION:
        work->function(work->argument);
        return SIM_OK;
    case SIM_FREE: /* in its queue: it touches nothing */
    case SIM_NOTHING:
        return SIM_OK;
    }
    return SIM_OK;
}

int sim_run(uint32_t device, const struct sim_work *work)
{
    sigjmp_buf way_out;
    if (work->kind == SIM_HOST_FUNCTION)
        return run_touching(device, work);
    if (sigsetjmp(way_out, 1) != 0)
        return SIM_ILLEGAL_ADDRESS;
    touching = &way_out;
    int status = run_touching(device, work);
    touching = NULL;
    return status;
}

static bool move_or_fault(uint64_t to, uint64_t from, uint64_t bytes)
{
    sigjmp_buf way_out;
    if (sigsetjmp(way_out, 1) != 0)
        return false;
    touching = &way_out;
    move(to, from, bytes);
    touching = NULL;
    return true;
}

bool sim_look(void *to, uint64_t view, uint64_t bytes)
{
    return move_or_fault((uintptr_t)to, view, bytes);
}

bool sim_put(uint64_t view, const void *from, uint64_t bytes)
{
    return move_or_fault(view, (uintptr_t)from, bytes);
}

/* ---- Kernels, by the names of the contract table's and of the measurements' ---- */

/* Ordinary host memory is no memory of a device: what is neither is a fault. */
static bool reaches(uint64_t address)
{
    if (sim_is_device_address(address))
        return true;
    pthread_mutex_lock(&sim_lock);
    bool is_block = sim_host_find(address) != NULL;
    pthread_mutex_unlock(&sim_lock);
    return is_block;
}

static int run_store(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]))
        return SIM_ILLEGAL_ADDRESS;
    store(sim_view(device, arguments[0]), (uint32_t)arguments[1]);
    return SIM_OK;
}

static int run_fill(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]))
        return SIM_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < arguments[1]; i++)
        store(sim_view(device, arguments[0] + 4 * i), (uint32_t)arguments[2]);
    return SIM_OK;
}

static int run_verify(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]) || !reaches(arguments[3]))
        return SIM_ILLEGAL_ADDRESS;
    uint32_t wrong = 0;
    for (uint64_t i = 0; i < arguments[1]; i++)
        wrong += load(sim_view(device, arguments[0] + 4 * i)) != (uint32_t)arguments[2];
    store(sim_view(device, arguments[3]), wrong);
    return SIM_OK;
}

static bool is_let_go(uint64_t flag)
{
    return __atomic_load_n((uint32_t *)sim_pointer(flag), __ATOMIC_SEQ_CST) != 0;
}

static int run_spin(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]))
        return SIM_ILLEGAL_ADDRESS;
    uint64_t start = sim_now_ns();
    while (!is_let_go(sim_view(device, arguments[0])) && sim_now_ns() - start < SIM_SPIN_LIMIT_NS)
        sched_yield();
    return SIM_OK;
}

static bool spin_would_end(const uint64_t *arguments)
{
    return sim_is_device_address(arguments[0]) || !sim_host_find(arguments[0]) ||
        is_let_go(arguments[0]);
}

static int run_hammer(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]) || !reaches(arguments[1]) || !reaches(arguments[2]))
        return SIM_ILLEGAL_ADDRESS;
    uint64_t start = sim_now_ns();
    uint32_t count = 0;
    store(sim_view(device, arguments[0]), ++count);
    __atomic_store_n((uint32_t *)sim_pointer(arguments[2]), 1, __ATOMIC_SEQ_CST);
    while (!is_let_go(arguments[1]) && sim_now_ns() - start < SIM_SPIN_LIMIT_NS) {
        store(sim_view(device, arguments[0]), ++count);
        sched_yield();
    }
    return SIM_OK;
}

/* Pieces of four words, as in tools/bench/gpu/kernels.ptx: each word is the piece's number and the
 * seed exclusive-ored. */
static int run_write_all(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]))
        return SIM_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < 4 * arguments[1]; i++)
        store(sim_view(device, arguments[0] + 4 * i), (uint32_t)(i / 4) ^ (uint32_t)arguments[2]);
    return SIM_OK;
}

static int run_check_all(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]) || !reaches(arguments[3]))
        return SIM_ILLEGAL_ADDRESS;
    uint32_t wrong = 0;
    for (uint64_t i = 0; i < 4 * arguments[1]; i++)
        wrong += load(sim_view(device, arguments[0] + 4 * i)) !=
            ((uint32_t)(i / 4) ^ (uint32_t)arguments[2]);
    if (wrong == 0) /* others may add to it meanwhile */
        return SIM_OK;
    uint64_t result = sim_view(device, arguments[3]);
    store(result, load(result) + wrong);
    return SIM_OK;
}

static int run_read_all(uint32_t device, const uint64_t *arguments)
{
    if (!reaches(arguments[0]))
        return SIM_ILLEGAL_ADDRESS;
    for (uint64_t i = 0; i < 4 * arguments[1]; i++)
        (void)load(sim_view(device, arguments[0] + 4 * i));
    return SIM_OK;
}

static const struct sim_kernel kernels[] = {
    {"spin", 1, {8}, run_spin, spin_would_end},
    {"store", 2, {8, 4}, run_store, NULL},
    {"fill", 3, {8, 4, 4}, run_fill, NULL},
    {"verify", 4, {8, 4, 4, 8}, run_verify, NULL},
    {"hammer", 3, {8, 8, 8}, run_hammer, NULL},
    {"write_all", 3, {8, 8, 4}, run_write_all, NULL},
    {"check_all", 4, {8, 8, 4, 8}, run_check_all, NULL},
    {"read_all", 3, {8, 8, 8}, run_read_all, NULL},
    {"write_floats", 3, {8, 8, 4}, sim_run_write_floats, NULL},
    {"attend", 2, {8, 8}, sim_run_attend, NULL},
};

const struct sim_kernel *sim_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}
