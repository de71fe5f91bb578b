/* Starts children of a check and reaps them. Knows nothing of what they do. */
#include "tools/check/offspring.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t mbr_offspring_fork(mbr_trial *trial)
{
    pid_t child = fork();
    if (child < 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "fork: %s", strerror(errno));
    return child;
}

/* False at the deadline. A signal only begins the wait again. */
static bool await_end(int child_fd, uint64_t end_ns)
{
    struct pollfd ended = {.fd = child_fd, .events = POLLIN};
    for (;;) {
        uint64_t now_ns = mbr_now_ns();
        if (now_ns >= end_ns)
            return false;
        if (poll(&ended, 1, (int)((end_ns - now_ns) / 1000000 + 1)) > 0)
            return true;
    }
}

bool mbr_offspring_wait(mbr_trial *trial, pid_t child, uint64_t wait_ns, int *status)
{
    int child_fd = (int)syscall(SYS_pidfd_open, child, 0);
    int error = errno;
    bool has_ended = child_fd >= 0 && await_end(child_fd, mbr_now_ns() + wait_ns);
    if (!has_ended)
        kill(child, SIGKILL);
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
        continue;
    if (child_fd < 0)
        mbr_trial_give_up(trial, MBR_VERDICT_TOOL, "pidfd_open: %s", strerror(error));
    close(child_fd);
    return has_ended;
}
