/* Starts the child of one check, captures what it prints, ends it at its time, and ends whatever it
 * left. Never loads the plugin: runs in the tool's own image, in a process that does nothing else.
 */
#include "tools/check/warden.h"

#include "tools/check/child.h"
#include "tools/check/strays.h"
#include "tools/cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCH_MS 50                            /* between two looks at the child's memory */
#define RESIDENT_MAX_BYTES (UINT64_C(2) << 30) /* of one child */
#define MACHINE_MIN_KIB (256u << 10)
#define HIGH_FD 64 /* out of the way of the child's 0 to 3 while they are put there */

typedef struct warden {
    const mbr_warden_orders *orders;
    mbr_result *result;
    mbr_page *page;
    int page_fd, output[2], signals, child_fd;
    pid_t child;
    char *printed; /* raw, MBR_RESULT_OUTPUT_BYTES */
    bool is_over_time, is_over_memory, is_machine_short, is_ended_by_user;
    siginfo_t end;
} warden;

extern char **environ;

static void fail_tool(mbr_result *result, const char *what)
{
    result->verdict = errno == ENOMEM || errno == EAGAIN || errno == EMFILE || errno == ENFILE
        ? MBR_VERDICT_RESOURCE
        : MBR_VERDICT_TOOL;
    snprintf(result->observed, sizeof result->observed, "%s: %s", what, strerror(errno));
}

static int raise_fd(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    close(fd);
    return high;
}

static bool make_page(warden *self)
{
    self->page_fd = memfd_create("membrane-check", MFD_CLOEXEC);
    if (self->page_fd < 0 || ftruncate(self->page_fd, sizeof *self->page) != 0)
        return false;
    self->page_fd = raise_fd(self->page_fd);
    self->page =
        mmap(NULL, sizeof *self->page, PROT_READ | PROT_WRITE, MAP_SHARED, self->page_fd, 0);
    if (self->page == MAP_FAILED)
        return false;
    mbr_page *page = self->page;
    snprintf(page->id, sizeof page->id, "%s", self->result->check->id);
    snprintf(page->path, sizeof page->path, "%s", self->orders->path);
    page->seed = self->orders->seed;
    page->device_index = self->orders->device_index;
    page->timeout_ms = self->orders->timeout_ms;
    page->slot = page->finding_slot = MBR_SLOT_COUNT;
    return true;
}

static bool make_output(warden *self)
{
    if (pipe2(self->output, O_CLOEXEC) != 0)
        return false;
    self->output[0] = raise_fd(self->output[0]);
    self->output[1] = raise_fd(self->output[1]);
    return fcntl(self->output[0], F_SETFL, O_NONBLOCK) == 0;
}

static bool catch_signals(warden *self)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return false;
    self->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return self->signals >= 0;
}

/* An own group, default signals, nothing open but stdin, stdout, stderr and the page. */
static int spawn(warden *self)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *arguments[] = {"membrane-check", MBR_CHILD_ARGUMENT, NULL};
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, self->output[1], 1);
    posix_spawn_file_actions_adddup2(&files, self->output[1], 2);
    posix_spawn_file_actions_adddup2(&files, self->page_fd, MBR_PAGE_FD);
    posix_spawn_file_actions_addclosefrom_np(&files, MBR_PAGE_FD + 1);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int code = posix_spawn(&self->child, "/proc/self/exe", &files, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    close(self->output[1]);
    self->output[1] = -1;
    return code;
}

static void drain(warden *self)
{
    char bytes[4096];
    ssize_t count;
    while ((count = read(self->output[0], bytes, sizeof bytes)) > 0) {
        uint64_t kept = self->result->output_bytes;
        for (ssize_t i = 0; i < count && kept < MBR_RESULT_OUTPUT_BYTES - 1; i++)
            self->printed[kept++] = bytes[i];
        self->result->output_bytes += (uint64_t)count;
        if (self->result->output_bytes > UINT64_C(64) << 20)
            return; /* the time limit ends who prints without end */
    }
}

static uint64_t resident_bytes(pid_t child)
{
    char path[64], text[128] = "";
    snprintf(path, sizeof path, "/proc/%d/statm", child);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    unsigned long size = 0, resident = 0;
    if (count <= 0 || sscanf(text, "%lu %lu", &size, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Memory files that nobody maps are in no figure of the child's: the machine's own is the last
 * resort. */
static bool is_machine_short(void)
{
    char text[512] = "";
    unsigned long available_kib;
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    const char *at = count > 0 ? strstr(text, "MemAvailable:") : NULL;
    return at != NULL && sscanf(at, "MemAvailable: %lu", &available_kib) == 1 &&
        available_kib < MACHINE_MIN_KIB;
}

static void await_child(warden *self)
{
    uint64_t start = mbr_now_ns(), end = start + self->orders->timeout_ms * UINT64_C(1000000);
    struct pollfd files[] = {
        {self->child_fd, POLLIN, 0}, {self->output[0], POLLIN, 0}, {self->signals, POLLIN, 0}};
    for (;;) {
        uint64_t now = mbr_now_ns();
        self->is_over_time = now >= end;
        self->is_over_memory = resident_bytes(self->child) > RESIDENT_MAX_BYTES;
        self->is_machine_short = is_machine_short();
        if (self->is_over_time || self->is_over_memory || self->is_machine_short)
            break;
        uint64_t left_ms = (end - now) / 1000000 + 1;
        if (poll(files, 3, (int)(left_ms < WATCH_MS ? left_ms : WATCH_MS)) < 0 && errno != EINTR)
            break;
        if ((files[1].revents & POLLIN) != 0)
            drain(self);
        else if (files[1].revents != 0)
            files[1].fd = -1;
        self->is_ended_by_user = files[2].revents != 0;
        if (files[0].revents != 0 || self->is_ended_by_user)
            break;
    }
    self->result->wall_ns = mbr_now_ns() - start;
}

static void judge(warden *self)
{
    mbr_result *result = self->result;
    static mbr_page page;
    mbr_page_read(self->page, &page);
    result->slot = page.verdict == MBR_VERDICT_FAIL ? page.finding_slot : page.slot;
    result->phase = page.phase;
    result->skip = page.skip;
    result->offered = page.offered;
    mbr_text_printable(result->mechanism, sizeof result->mechanism, page.mechanism);
    mbr_text_printable(result->plugin_name, sizeof result->plugin_name, page.plugin_name);
    mbr_text_printable(result->expected, sizeof result->expected, page.expected);
    mbr_text_printable(result->observed, sizeof result->observed, page.observed);
    mbr_text_printable(result->figures, sizeof result->figures, page.figures);
    if (self->is_ended_by_user) {
        result->verdict = MBR_VERDICT_RESOURCE;
        snprintf(result->observed, sizeof result->observed, "ended by a signal to the tool");
    } else if (self->is_machine_short) {
        result->verdict = MBR_VERDICT_RESOURCE;
        snprintf(result->observed, sizeof result->observed,
            "the machine had below %u MiB left, and the check was ended", MACHINE_MIN_KIB >> 10);
    } else if (self->is_over_memory) {
        result->verdict = MBR_VERDICT_FAIL;
        snprintf(result->expected, sizeof result->expected,
            "a check's process stays below %lu bytes resident", RESIDENT_MAX_BYTES);
        snprintf(result->observed, sizeof result->observed, "more, and it was ended");
    } else if (self->is_over_time) {
        result->verdict = MBR_VERDICT_TIMEOUT;
    } else if (self->end.si_code == CLD_EXITED) {
        result->verdict = page.verdict;
        if (page.verdict == MBR_VERDICT_NONE) {
            result->verdict = MBR_VERDICT_ABORT;
            result->exit_code = self->end.si_status;
        }
    } else {
        result->signal = self->end.si_status;
        result->verdict = result->signal == SIGABRT ? MBR_VERDICT_ABORT
            : result->signal == SIGXCPU             ? MBR_VERDICT_TIMEOUT
                                                    : MBR_VERDICT_CRASH;
    }
}

/* Ended on the way to the check's stage: the check that opens the stage has the finding. */
static void block_if_early(mbr_result *result)
{
    bool is_early = result->phase > MBR_PHASE_START && result->phase < MBR_PHASE_RUN;
    if (!is_early || !mbr_verdict_is_finding(result->verdict))
        return;
    char text[sizeof result->observed];
    mbr_result_text(result, text, sizeof text);
    memcpy(result->observed, text, sizeof text);
    result->verdict = MBR_VERDICT_SKIP;
    result->skip = MBR_SKIP_BLOCKED;
}

/* Two things that only their owners fail, and that everybody else notes. */
static void look_around(mbr_result *result)
{
    bool owns_output = (result->check->flags & MBR_CHECK_OUTPUT) != 0;
    bool owns_leftovers = (result->check->flags & MBR_CHECK_LEFTOVERS) != 0;
    if (result->verdict != MBR_VERDICT_PASS)
        return;
    if (result->output_bytes > 0) {
        result->verdict = owns_output ? MBR_VERDICT_FAIL : MBR_VERDICT_WARN;
        snprintf(
            result->expected, sizeof result->expected, "nothing is written to stdout or stderr");
        snprintf(result->observed, sizeof result->observed, "%lu bytes: %.200s",
            result->output_bytes, result->output);
    }
    if (result->leftover_count > 0 && result->verdict != MBR_VERDICT_FAIL) {
        result->verdict = owns_leftovers ? MBR_VERDICT_FAIL : MBR_VERDICT_WARN;
        snprintf(result->expected, sizeof result->expected, "no process is left behind");
        snprintf(
            result->observed, sizeof result->observed, "%u were ended", result->leftover_count);
    }
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
        a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void finish(warden *self)
{
    if (waitid(P_PIDFD, (id_t)self->child_fd, &self->end, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        self->end.si_pid == 0)
        kill(self->child, SIGKILL);
    self->result->leftover_count = mbr_strays_end(self->child);
    drain(self);
    self->printed[MBR_RESULT_OUTPUT_BYTES - 1] = '\0';
    mbr_text_printable(self->result->output, sizeof self->result->output, self->printed);
    judge(self);
    look_around(self->result);
    block_if_early(self->result);
}

void mbr_warden_run(const mbr_warden_orders *orders, mbr_result *result)
{
    char printed[MBR_RESULT_OUTPUT_BYTES] = "";
    warden self = {.orders = orders, .result = result, .printed = printed, .page_fd = -1};
    struct stat before, after;
    result->seed = orders->seed;
    result->has_run = true;
    result->output_bytes = 0;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || !make_page(&self) || !make_output(&self) ||
        !catch_signals(&self)) {
        fail_tool(result, "the child cannot be prepared");
        return;
    }
    if (stat(orders->path, &before) != 0)
        memset(&before, 0, sizeof before);
    errno = spawn(&self);
    if (errno != 0) {
        fail_tool(result, "posix_spawn");
        return;
    }
    self.child_fd = (int)syscall(SYS_pidfd_open, self.child, 0);
    if (self.child_fd < 0) {
        fail_tool(result, "pidfd_open");
        mbr_strays_end(self.child);
        return;
    }
    await_child(&self);
    finish(&self);
    result->file_changed = stat(orders->path, &after) != 0 || !is_same_file(&before, &after);
}
