/* Runs `membrane inspect` in a child of its own process group, within a time limit. Responsible for
 * the child being gone at the end; knows nothing of plugins. */
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

#define PROBE_TIMEOUT_MS 10000
#define REPORT_FD 3 /* of the child */
#define ARGUMENT_LIMIT_COUNT 12

extern char **environ;

static void point(posix_spawn_file_actions_t *actions, int to, int from)
{
    if (from >= 0)
        posix_spawn_file_actions_adddup2(actions, from, to);
    else
        posix_spawn_file_actions_addopen(
            actions, to, "/dev/null", to == 0 ? O_RDONLY : O_WRONLY, 0);
}

static int spawn_child(const mbr_child *child, int report, pid_t *pid)
{
    const char *arguments[ARGUMENT_LIMIT_COUNT + 1] = {"membrane", "inspect", "--report-to=3"};
    for (size_t i = 0; child->arguments[i] != NULL && i + 3 < ARGUMENT_LIMIT_COUNT; i++)
        arguments[i + 3] = child->arguments[i];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&attributes, 0);
        point(&actions, 0, -1);
        point(&actions, 1, child->out);
        point(&actions, 2, child->err);
        point(&actions, REPORT_FD, report);
        code = posix_spawn(pid, "/proc/self/exe", &actions, &attributes,
            (char *const *)(size_t)arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Waits for the end, or ends the whole group. False after a time-out. */
static bool await_child(pid_t child, int timeout_ms, int *status)
{
    struct pollfd ready = {.fd = pidfd_open(child, 0), .events = POLLIN};
    bool is_over = false;
    if (ready.fd >= 0) {
        int answer;
        do
            answer = poll(&ready, 1, timeout_ms);
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

static void describe_end(const mbr_child *child, bool is_over, int status, char *text, size_t room)
{
    if (!is_over)
        snprintf(text, room, "timed out after %d s and was killed", child->timeout_ms / 1000);
    else if (WIFSIGNALED(status))
        snprintf(
            text, room, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, room, "ended by the plugin with exit code %d", WEXITSTATUS(status));
}

bool mbr_child_run(const mbr_child *child, int *code, char *text, size_t room)
{
    int ends[2], status = 0;
    pid_t pid;
    *code = -1;
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    int refused = spawn_child(child, ends[1], &pid);
    close(ends[1]);
    if (refused != 0) {
        close(ends[0]);
        errno = refused;
        return false;
    }
    bool is_over = await_child(pid, child->timeout_ms, &status);
    unsigned char reported;
    bool has_reported = read(ends[0], &reported, 1) == 1;
    close(ends[0]);
    if (has_reported && is_over && WIFEXITED(status) && WEXITSTATUS(status) == reported)
        *code = reported;
    else
        describe_end(child, is_over, status, text, room);
    return true;
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
    const char *arguments[] = {"--no-open", "--", path, NULL};
    char line[1024];
    int ends[2], code;
    *loads = false;
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    const mbr_child child = {arguments, -1, ends[1], PROBE_TIMEOUT_MS};
    bool was_run = mbr_child_run(&child, &code, text, room);
    int refused = errno;
    close(ends[1]);
    read_line(ends[0], line, sizeof line);
    close(ends[0]);
    *loads = was_run && code == 0;
    if (was_run && code > 0)
        mbr_text_printable(text, room, line);
    else if (*loads)
        snprintf(text, room, "loads");
    errno = refused;
    return was_run;
}
