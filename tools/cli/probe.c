/* Runs `membrane inspect --no-open` on a plugin in a child of its own process group, within a time
 * limit. Responsible for the child being gone at the end; knows nothing of plugins. */
#include "tools/cli/probe.h"

#include "tools/cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_MS 10000

extern char **environ;

/* The child's stderr goes to `err`; it reads and prints nothing else. */
static int spawn_child(const char *path, int err, pid_t *child)
{
    char *arguments[] = {(char *)"membrane", (char *)"inspect", (char *)"--no-open", (char *)"--",
        (char *)(size_t)path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, err, 2);
        code = posix_spawn(child, "/proc/self/exe", &actions, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Waits for the end, or ends the whole group. False after a time-out. */
static bool await_child(pid_t child, int *status)
{
    struct pollfd ready = {.fd = pidfd_open(child, 0), .events = POLLIN};
    bool is_over = false;
    if (ready.fd >= 0) {
        int answer;
        do
            answer = poll(&ready, 1, TIMEOUT_MS);
        while (answer < 0 && errno == EINTR);
        is_over = answer > 0;
        close(ready.fd);
    }
    /* The child is not reaped yet, so its number is still its own, and its group's. What it may
     * have started goes with it. */
    kill(-child, SIGKILL);
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
        continue;
    return is_over;
}

/* The first line of what the child said; it is over, so that its end of the pipe is closed. */
static void read_line(int from, char *line, size_t room)
{
    ssize_t bytes = read(from, line, room - 1);
    line[bytes > 0 ? bytes : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

bool mbr_probe(const char *path, bool *loads, char *text, size_t room)
{
    int ends[2];
    pid_t child;
    *loads = false;
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    int code = spawn_child(path, ends[1], &child);
    close(ends[1]);
    if (code != 0) {
        close(ends[0]);
        errno = code;
        return false;
    }
    int status = 0;
    char line[1024], said[1024];
    bool is_over = await_child(child, &status);
    read_line(ends[0], line, sizeof line);
    close(ends[0]);
    mbr_text_printable(said, sizeof said, line);
    *loads = is_over && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_over)
        snprintf(text, room, "timed out after %d s and was killed", TIMEOUT_MS / 1000);
    else if (WIFSIGNALED(status))
        snprintf(
            text, room, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, room, "%s", *loads ? "loads" : said);
    return true;
}
