/* Responsible for the order of the checks and for how many run at once. A warden is a fork of this
 * process, so this process has one thread and never loads a plugin. */
#include "tools/check/runner.h"

#include "tools/check/trial.h"
#include "tools/check/warden.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 64

typedef struct runner {
    const mbr_check_options *options;
    mbr_run *run;
    mbr_warden_orders orders;
    struct {
        pid_t warden;
        uint32_t index;
    } jobs[JOBS_MAX];
    uint32_t job_count;
    mbr_stage blocked_stage; /* checks of this stage and later ones are not started */
    char blocked_text[160];
    sigset_t signals; /* blocked here and in the wardens, and taken one by one: none is missed */
    bool is_interrupted;
} runner;

/* ---- Planning -------------------------------------------------------------------------------- */

typedef struct planning {
    const mbr_check_options *options;
    mbr_run *run;
} planning;

static bool count_check(void *context, const mbr_check *check)
{
    const planning *self = context;
    self->run->count += mbr_check_options_choose(self->options, check);
    return true;
}

static bool place_check(void *context, const mbr_check *check)
{
    const planning *self = context;
    if (!mbr_check_options_choose(self->options, check))
        return true;
    mbr_result *result = &self->run->results[self->run->count++];
    result->check = check;
    result->slot = MBR_SLOT_COUNT;
    result->seed = self->options->seed;
    return true;
}

bool mbr_runner_plan(const mbr_check_options *options, mbr_run *run)
{
    planning self = {options, run};
    run->count = 0;
    mbr_check_each(count_check, &self);
    /* Shared with the wardens, which fill it in. */
    uint64_t bytes = (run->count + 1) * sizeof(mbr_result);
    run->results = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run->results == MAP_FAILED)
        return false;
    run->count = 0;
    mbr_check_each(place_check, &self);
    return true;
}

/* ---- One check ------------------------------------------------------------------------------- */

/* In the warden's process. A finding is looked at again: what passes then is flaky. A time-out is
 * not, it has cost enough. */
static void run_in_warden(const runner *self, mbr_result *result)
{
    mbr_warden_run(&self->orders, result);
    if (!mbr_verdict_is_finding(result->verdict) || result->verdict == MBR_VERDICT_TIMEOUT ||
        self->options->repro != NULL || result->file_changed)
        return;
    static mbr_result again;
    again.check = result->check;
    mbr_warden_run(&self->orders, &again);
    result->file_changed = again.file_changed;
    if (again.verdict != MBR_VERDICT_PASS && again.verdict != MBR_VERDICT_WARN)
        return;
    result->first_verdict = result->verdict;
    result->verdict = MBR_VERDICT_FLAKY;
}

static void start(runner *self, uint32_t index)
{
    mbr_result *result = &self->run->results[index];
    fflush(NULL);
    pid_t warden = fork();
    if (warden == 0) {
        run_in_warden(self, result);
        _exit(0);
    }
    if (warden < 0) {
        result->verdict = MBR_VERDICT_RESOURCE;
        snprintf(result->observed, sizeof result->observed, "fork: %s", strerror(errno));
        return;
    }
    self->jobs[self->job_count].warden = warden;
    self->jobs[self->job_count++].index = index;
}

static void block(runner *self, mbr_stage stage, const char *id, const char *text)
{
    if (stage >= self->blocked_stage)
        return;
    self->blocked_stage = stage;
    snprintf(self->blocked_text, sizeof self->blocked_text, "%s: %.120s", id, text);
}

/* What the end of a check means for those that have not started. */
static void take_note(runner *self, mbr_result *result)
{
    static const mbr_stage stages[MBR_PHASE_COUNT] = {[MBR_PHASE_LOAD] = MBR_STAGE_LOADED,
        [MBR_PHASE_ENTRY] = MBR_STAGE_GREETED,
        [MBR_PHASE_OPEN] = MBR_STAGE_OPENED};
    if (result->verdict == MBR_VERDICT_SKIP && result->skip == MBR_SKIP_NO_MECHANISM)
        block(self, MBR_STAGE_FILE, result->check->id, result->observed);
    bool has_passed = result->verdict == MBR_VERDICT_PASS || result->verdict == MBR_VERDICT_WARN;
    if (result->file_changed) {
        if (!mbr_verdict_is_finding(result->verdict)) {
            result->verdict = MBR_VERDICT_FAIL;
            snprintf(result->expected, sizeof result->expected, "a plugin leaves its file alone");
            snprintf(result->observed, sizeof result->observed,
                "the file was changed or removed during the check");
        }
        block(self, MBR_STAGE_FILE, result->check->id, "the plugin's file was changed or removed");
        return;
    }
    if ((result->check->flags & MBR_CHECK_OPENS) != 0 && !has_passed)
        block(self, result->check->stage + 1, result->check->id, "did not pass");
    else if (result->verdict == MBR_VERDICT_SKIP && result->skip == MBR_SKIP_BLOCKED)
        block(self, stages[result->phase], result->check->id, result->observed);
}

/* A warden that has ended, or 0 after a signal of the user's, which is passed on. */
static pid_t await_warden(runner *self, int *status)
{
    pid_t ended = waitpid(-1, status, WNOHANG);
    if (ended != 0)
        return ended;
    int signal = sigwaitinfo(&self->signals, NULL);
    if (signal <= 0 || signal == SIGCHLD)
        return 0;
    self->is_interrupted = true;
    for (uint32_t i = 0; i < self->job_count; i++)
        kill(self->jobs[i].warden, SIGTERM);
    return 0;
}

static void await_one(runner *self)
{
    int status;
    pid_t ended = await_warden(self, &status);
    for (uint32_t i = 0; i < self->job_count; i++) {
        if (self->jobs[i].warden != ended)
            continue;
        mbr_result *result = &self->run->results[self->jobs[i].index];
        self->jobs[i] = self->jobs[--self->job_count];
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            result->verdict = MBR_VERDICT_TOOL;
            snprintf(result->observed, sizeof result->observed,
                "the check's warden ended with wait status 0x%x", (unsigned)status);
        }
        take_note(self, result);
        return;
    }
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void skip_blocked(runner *self, mbr_result *result)
{
    result->verdict = MBR_VERDICT_SKIP;
    result->skip = MBR_SKIP_BLOCKED;
    snprintf(result->observed, sizeof result->observed, "%s",
        self->is_interrupted ? "the tool was interrupted" : self->blocked_text);
}

/* The checks of one stage with these flags, `at_once` at a time; returns when all have ended. */
static void run_wave(
    runner *self, mbr_stage stage, uint32_t flags_mask, uint32_t flags, uint32_t at_once)
{
    for (uint32_t i = 0; i < self->run->count; i++) {
        mbr_result *result = &self->run->results[i];
        if (result->check->stage != stage || (result->check->flags & flags_mask) != flags)
            continue;
        while (self->job_count >= at_once)
            await_one(self);
        if (self->is_interrupted || stage >= self->blocked_stage)
            skip_blocked(self, result);
        else
            start(self, i);
    }
    while (self->job_count > 0)
        await_one(self);
}

void mbr_runner_run(const mbr_check_options *options, const char *path, mbr_run *run)
{
    runner self = {.options = options, .run = run, .blocked_stage = MBR_STAGE_COUNT};
    const uint32_t apart = MBR_CHECK_OPENS | MBR_CHECK_ALONE;
    self.orders =
        (mbr_warden_orders){path, options->device_index, options->timeout_ms, options->seed};
    sigemptyset(&self.signals);
    sigaddset(&self.signals, SIGINT);
    sigaddset(&self.signals, SIGTERM);
    sigaddset(&self.signals, SIGHUP);
    sigaddset(&self.signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &self.signals, NULL);
    uint64_t start_ns = mbr_now_ns();
    for (int stage = MBR_STAGE_FILE; stage < MBR_STAGE_COUNT; stage++) {
        run_wave(&self, (mbr_stage)stage, MBR_CHECK_OPENS, MBR_CHECK_OPENS, 1);
        run_wave(&self, (mbr_stage)stage, apart, 0, options->job_count);
        run_wave(&self, (mbr_stage)stage, apart, MBR_CHECK_ALONE, 1);
    }
    run->wall_ns = mbr_now_ns() - start_ns;
}
