/* Group THR, second part: what many threads share with the host: its log, its signals, instances
 * and streams. */
#include "tools/check/flow.h"
#include "tools/check/steps.h"
#include "tools/check/team.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>

#define PAGE_BYTES UINT64_C(4096)
#define FLOW (MBR_NEEDS_ORDER | MBR_NEEDS_TRANSFER)

/* ---- The log --------------------------------------------------------------------------------- */

/* A sink that does not return before another thread's calls on the same instance did. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_inside, is_over, has_ended;
} sink = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, false};

static void mark(bool *flag)
{
    pthread_mutex_lock(&sink.lock);
    *flag = true;
    pthread_cond_broadcast(&sink.changed);
    pthread_mutex_unlock(&sink.lock);
}

static void log_and_wait(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context, (void)level, (void)text, (void)text_bytes;
    mark(&sink.is_inside);
    pthread_mutex_lock(&sink.lock);
    while (!sink.is_over)
        pthread_cond_wait(&sink.changed, &sink.lock);
    pthread_mutex_unlock(&sink.lock);
}

/* Whatever a plugin may find worth a line: uses, refusals, exhaustion. */
static void *say_something(void *argument)
{
    mbr_member *self = argument;
    mbr_alc taken;
    mbr_allocate_request wrong = mbr_alc_request(self->trial, PAGE_BYTES);
    wrong.max_owned_bytes = 1;
    (void)mbr_alc_ask(self->trial, self->self, wrong, &taken);
    (void)mbr_alc_ask(
        self->trial, self->self, mbr_alc_request(self->trial, UINT64_C(1) << 60), &taken);
    (void)mbr_alc_release(self->trial, self->self, 1, 4096, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        taken = mbr_team_take(self, (i + 1) * PAGE_BYTES);
        mbr_team_give(self, &taken);
    }
    mark(&sink.has_ended);
    return NULL;
}

static void *go_on(void *argument)
{
    mbr_member *self = argument;
    const mbr_stats_request request = {MBR_SIZED(mbr_stats_request)};
    mbr_mechanism_stats stats = {MBR_SIZED(mbr_mechanism_stats)};
    mbr_alc taken = mbr_team_take(self, PAGE_BYTES);
    mbr_team_give(self, &taken);
    mbr_need_ok(self->trial, mbr_drive_stats(self->trial, self->self, &request, &stats), "stats");
    mark(&sink.is_over);
    return NULL;
}

static bool await_flag(const bool *one, const bool *other, uint64_t patience_s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)patience_s;
    pthread_mutex_lock(&sink.lock);
    while (!*one && !*other)
        if (pthread_cond_timedwait(&sink.changed, &sink.lock, &until) != 0)
            break;
    bool is_set = *one || *other;
    pthread_mutex_unlock(&sink.lock);
    return is_set;
}

static void run_log(mbr_trial *trial)
{
    static mbr_subject second;
    const mbr_open_request request = {
        MBR_SIZED(mbr_open_request), .mechanism = trial->mechanism, .log = log_and_wait};
    mbr_open_outcome outcome = {MBR_SIZED(mbr_open_outcome)};
    second = trial->subject;
    mbr_ledger_init(&second.ledger);
    mark(&sink.is_over); /* open may say something, and nobody else knows the instance yet */
    mbr_need_ok(trial, mbr_drive_open(trial, &trial->subject, &request, &outcome), "open");
    second.instance = outcome.instance;
    sink.is_over = sink.is_inside = false;
    static mbr_member speaker, other;
    speaker = other = (mbr_member){.trial = trial, .self = &second};
    if (pthread_create(&speaker.thread, NULL, say_something, &speaker) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread");
    MBR_NEED(trial, await_flag(&sink.is_inside, &sink.has_ended, 8), "allocate and release hang");
    if (sink.has_ended) { /* it says nothing */
        pthread_join(speaker.thread, NULL);
        return;
    }
    if (pthread_create(&other.thread, NULL, go_on, &other) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread");
    MBR_EXPECT(trial, await_flag(&sink.is_over, &sink.is_over, 4),
        "a log sink that sleeps lets other threads go on",
        "while the sink slept, allocate, release and stats did not return for 4 s");
}

/* ---- Signals, instances ---------------------------------------------------------------------- */

#define ALARMS_ENOUGH 40u
static volatile sig_atomic_t alarm_count;
static void on_alarm(int signal)
{
    (void)signal;
    alarm_count++;
}

static void use_all(mbr_trial *trial)
{
    mbr_subject *self = &trial->subject;
    mbr_alc one;
    static const char *const rule = "a signal of the host's fails no call";
    mbr_status status = mbr_alc_ask(trial, self, mbr_alc_request(trial, 64 * PAGE_BYTES), &one);
    MBR_EXPECT(trial, status == MBR_OK, rule, "allocate: %s", mbr_status_name(status));
    if ((self->offered & MBR_NEEDS_VIRTUAL) != 0) {
        mbr_place place = mbr_step_reserve(trial, 1);
        uint64_t extent = mbr_trial_id(trial);
        status = mbr_try_create(trial, self, extent, trial->granule_bytes, 0, UINT64_MAX, NULL);
        MBR_EXPECT(trial, status == MBR_OK, rule, "extent_create: %s", mbr_status_name(status));
        status = mbr_try_map(trial, self, place.id, 0, extent, NULL);
        MBR_EXPECT(trial, status == MBR_OK, rule, "map: %s", mbr_status_name(status));
        status = mbr_try_unmap(trial, self, place.id, 0, trial->granule_bytes, NULL);
        MBR_EXPECT(trial, status == MBR_OK, rule, "unmap: %s", mbr_status_name(status));
        status = mbr_try_destroy(trial, self, extent, NULL);
        MBR_EXPECT(trial, status == MBR_OK, rule, "extent_destroy: %s", mbr_status_name(status));
        status = mbr_try_unreserve(trial, self, place.id, NULL);
        MBR_EXPECT(trial, status == MBR_OK, rule, "unreserve: %s", mbr_status_name(status));
    }
    if ((self->offered & FLOW) == FLOW) {
        mbr_native stream = mbr_step_stream(trial);
        mbr_step_fill(trial, stream, one.address, one.bytes, 1);
        uint64_t line = mbr_step_line(trial, stream), value = mbr_step_signal(trial, line);
        status = mbr_try_wait(trial, self, line, value, mbr_now_ns() + MBR_FLOW_PATIENCE_NS);
        MBR_EXPECT(trial, status == MBR_OK, rule, "wait: %s", mbr_status_name(status));
        mbr_step_line_close(trial, line);
        mbr_step_stream_end(trial, stream);
    }
    status = mbr_alc_release(trial, self, one.id, one.address, NULL);
    MBR_EXPECT(trial, status == MBR_OK, rule, "release: %s", mbr_status_name(status));
}

/* Handled without SA_RESTART: what the kernel interrupts answers EINTR. */
static void run_storm(mbr_trial *trial)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval storm = {{0, 400}, {0, 400}}, calm = {{0, 0}, {0, 0}};
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &storm, NULL);
    uint64_t end_ns = mbr_now_ns() + UINT64_C(1000000000);
    for (uint32_t round = 0;
         round < 50 || (alarm_count < (sig_atomic_t)ALARMS_ENOUGH && mbr_now_ns() < end_ns);
         round++)
        use_all(trial);
    setitimer(ITIMER_REAL, &calm, NULL);
    if (alarm_count == 0)
        mbr_trial_give_up(trial, MBR_VERDICT_TOOL, "no signal came");
}

static void use_own_instance(mbr_member *self)
{
    mbr_subject *subjects = (mbr_subject *)(uintptr_t)self->team->shared;
    self->self = &subjects[self->index % 2];
    for (uint32_t round = 0; round < 100; round++) {
        mbr_alc one = mbr_team_take(self, (1 + self->index % 2 * 7) * PAGE_BYTES);
        mbr_status status = mbr_alc_release(self->trial, self->self, one.id, one.address, NULL);
        MBR_EXPECT(self->trial, status == MBR_OK,
            "an instance knows what it granted, whatever another one does",
            "release in instance %u: %s", self->index % 2, mbr_status_name(status));
    }
}

static void run_two_instances(mbr_trial *trial)
{
    static mbr_subject subjects[2];
    mbr_team all;
    for (uint32_t i = 0; i < 2; i++)
        mbr_need_ok(trial, mbr_subject_open(trial, NULL, 0, &subjects[i], NULL), "open");
    mbr_team_run(trial, &all, 8, use_own_instance, subjects);
}

static void open_and_close(mbr_member *self)
{
    for (uint32_t round = 0; round < 10; round++) {
        mbr_subject one;
        mbr_error error = {MBR_SIZED(mbr_error)};
        mbr_status status = mbr_subject_open(self->trial, NULL, 0, &one, &error);
        MBR_EXPECT(self->trial, status == MBR_OK, "instances are opened on many threads at once",
            "open: %s: %.150s", mbr_status_name(status), error.text);
        self->self = &one;
        mbr_alc taken = mbr_team_take(self, PAGE_BYTES);
        mbr_team_give(self, &taken);
        status = mbr_subject_close(self->trial, &one);
        MBR_EXPECT(self->trial, status == MBR_OK, "instances are closed on many threads at once",
            "close: %s", mbr_status_name(status));
    }
}

static void run_opens(mbr_trial *trial)
{
    mbr_team all;
    mbr_team_run(trial, &all, MBR_TEAM_MAX, open_and_close, NULL);
}

/* ---- Streams --------------------------------------------------------------------------------- */

typedef struct appointment {
    mbr_native stream;
    uint64_t line, value, address;
} appointment;

static void wait_together(mbr_member *self)
{
    const appointment *it = self->team->shared;
    mbr_status status = mbr_try_wait(
        self->trial, self->self, it->line, it->value, mbr_now_ns() + MBR_FLOW_PATIENCE_NS);
    MBR_EXPECT(self->trial, status == MBR_OK, "all threads that wait for a value see it reached",
        "thread %u: %s", self->index, mbr_status_name(status));
}

static void run_waiters(mbr_trial *trial)
{
    appointment it = {.stream = mbr_step_stream(trial)};
    it.line = mbr_step_line(trial, it.stream);
    it.address = mbr_alc_take(trial, MBR_LOAD_BYTES).address;
    for (uint32_t round = 0; round < 4; round++) {
        mbr_team all;
        it.value = mbr_step_load_signal(trial, it.stream, it.line, it.address, round);
        mbr_team_run(trial, &all, 8, wait_together, &it);
    }
}

static void submit_together(mbr_member *self)
{
    const appointment *it = self->team->shared;
    uint64_t line = mbr_step_line(self->trial, it->stream);
    uint64_t own = it->address + self->index * PAGE_BYTES;
    for (uint32_t round = 0; round < 50; round++) {
        unsigned char last, pattern = (unsigned char)(self->index * 50 + round + 1);
        mbr_step_fill(self->trial, it->stream, own, PAGE_BYTES, pattern);
        mbr_step_wait(self->trial, line, mbr_step_signal(self->trial, line));
        mbr_step_read(self->trial, own + PAGE_BYTES - 1, &last, 1);
        MBR_EXPECT(self->trial, last == pattern,
            "work that many threads submit to one stream is all done",
            "thread %u, round %u: 0x%02x, not 0x%02x", self->index, round, last, pattern);
    }
}

static void run_submitters(mbr_trial *trial)
{
    mbr_team all;
    appointment it = {.stream = mbr_step_stream(trial)};
    it.address = mbr_alc_take(trial, 8 * PAGE_BYTES).address;
    mbr_team_run(trial, &all, 8, submit_together, &it);
}

static const mbr_check checks[] = {
    {"THR-010", 4, MBR_STAGE_OPENED, 0, "C8, C25", "a log sink that sleeps lets others go on",
        "A disk that is slow to take a line would stop all memory.", run_log, 0, 0},
    {"THR-011", 4, MBR_STAGE_OPENED, 0, "C26", "a storm of signals fails no call",
        "Profilers and runtimes send signals all the time.", run_storm, 0, 0},
    {"THR-012", 4, MBR_STAGE_OPENED, 0, "C22, C25", "two instances work in parallel",
        "They share a file, and nothing else.", run_two_instances, 0, 0},
    {"THR-013", 4, MBR_STAGE_OPENED, 0, "C25", "instances are opened and closed by many threads",
        "open is [any-thread].", run_opens, 0, 0},
    {"THR-014", 4, MBR_STAGE_OPENED, FLOW, "C25", "many threads wait for one value",
        "A waiter that is forgotten hangs its request.", run_waiters, 0, 0},
    {"THR-015", 4, MBR_STAGE_OPENED, FLOW, "C25", "many threads submit to one stream",
        "Work that is lost in a race leaves another tenant's bytes.", run_submitters, 0, 0},
};

const mbr_group mbr_group_thr_use =
    MBR_GROUP("THR", "many threads: log, signals, instances, streams", checks);
