/* Responsible for leaving nothing running. A stray may have left the group (setsid); it still comes
 * to the sub-reaper when its parent ends. */
#include "tools/check/strays.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t parent_of(pid_t process)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    if (count <= 0)
        return 0;
    /* The name in parentheses may hold anything. */
    const char *after = strrchr(text, ')');
    char state;
    int parent = 0;
    return after != NULL && sscanf(after + 1, " %c %d", &state, &parent) == 2 ? parent : 0;
}

static void kill_children(void)
{
    DIR *all = opendir("/proc");
    if (all == NULL)
        return;
    const struct dirent *entry;
    pid_t self = getpid();
    while ((entry = readdir(all)) != NULL) {
        pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);
        if (process > 1 && parent_of(process) == self)
            kill(process, SIGKILL);
    }
    closedir(all);
}

uint32_t mbr_strays_end(pid_t child)
{
    uint32_t others_count = 0;
    bool is_child_gone = false;
    /* The child is still there as a zombie at least, so that its group's number is nobody else's.
     */
    kill(-child, SIGKILL);
    for (;;) {
        pid_t ended = waitpid(is_child_gone ? -1 : child, NULL, is_child_gone ? WNOHANG : 0);
        if (ended < 0 && errno == EINTR)
            continue;
        if (ended < 0)
            return others_count;
        if (ended == 0) {
            kill_children();
            ended = waitpid(-1, NULL, 0);
        }
        is_child_gone |= ended == child;
        others_count += ended > 0 && ended != child;
    }
}
