/* Responsible for catching a thread's first system call and letting it happen all the same. */
#include "tools/bench/syscalls.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <ucontext.h>

#if defined(__x86_64__) && defined(PR_SET_SYSCALL_USER_DISPATCH)

#define SYSCALL_INSTRUCTION_BYTES 2

static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
static volatile sig_atomic_t was_seen;

/* The call has not happened: the handler opens the gate and sends the thread back to it. */
static void catch (int signal, siginfo_t *info, void *context)
{
    (void)signal;
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    was_seen = 1;
    ucontext_t *thread = context;
    thread->uc_mcontext.gregs[REG_RIP] -= SYSCALL_INSTRUCTION_BYTES;
    thread->uc_mcontext.gregs[REG_RAX] = info->si_syscall;
}

mbr_syscalls mbr_syscalls_watch(bool (*work)(void *context, uint32_t thread, uint64_t count),
    void *context, uint64_t count, bool *done)
{
    struct sigaction action = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO}, before;
    was_seen = 0;
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    bool watched = sigaction(SIGSYS, &action, &before) == 0;
    if (watched && prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) != 0) {
        sigaction(SIGSYS, &before, NULL);
        watched = false;
    }
    if (watched)
        selector = SYSCALL_DISPATCH_FILTER_BLOCK;
    *done = work(context, 0, count);
    selector = SYSCALL_DISPATCH_FILTER_ALLOW;
    if (!watched)
        return MBR_SYSCALLS_UNKNOWN;
    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, NULL);
    sigaction(SIGSYS, &before, NULL);
    return was_seen ? MBR_SYSCALLS_SOME : MBR_SYSCALLS_NONE;
}

#else

mbr_syscalls mbr_syscalls_watch(bool (*work)(void *context, uint32_t thread, uint64_t count),
    void *context, uint64_t count, bool *done)
{
    *done = work(context, 0, count);
    return MBR_SYSCALLS_UNKNOWN;
}

#endif
