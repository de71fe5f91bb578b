/* Group THR: many threads. Each slot is called as its thread tag allows and never otherwise: what
 * is [serial: OBJECT] is called at once for different objects only. Where a race must be met, it is
 * tried many times; a plugin that is right is right each time. */
#include "tools/check/flow.h"
#include "tools/check/steps.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#define THREADS_MAX 16u
#define PAGE_BYTES UINT64_C(4096)
#define FLOW (MBR_NEEDS_ORDER | MBR_NEEDS_TRANSFER)

/* ---- Threads ----------------------------------------------------------------------------------
 */

typedef struct team team;

typedef struct member {
    team *team;
    mbr_trial *trial;
    mbr_subject *self;
    uint32_t index;
    pthread_t thread;
    mbr_status status; /* a body's answer to the check */
} member;

struct team {
    member members[THREADS_MAX];
    uint32_t count;
    pthread_barrier_t barrier;
    void (*body)(member *self);
    const void *shared;
};

static void meet(member *self)
{
    pthread_barrier_wait(&self->team->barrier);
}

static void *run_member(void *argument)
{
    member *self = argument;
    meet(self);
    self->team->body(self);
    return NULL;
}

static void start(
    mbr_trial *trial, team *self, uint32_t count, void (*body)(member *), const void *shared)
{
    *self = (team){.count = count, .body = body, .shared = shared};
    pthread_barrier_init(&self->barrier, NULL, count);
    for (uint32_t i = 0; i < count; i++) {
        member *one = &self->members[i];
        *one = (member){.team = self, .trial = trial, .self = &trial->subject, .index = i};
        if (pthread_create(&one->thread, NULL, run_member, one) != 0)
            mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread %u", i);
    }
}

static void join(team *self)
{
    for (uint32_t i = 0; i < self->count; i++)
        pthread_join(self->members[i].thread, NULL);
    pthread_barrier_destroy(&self->barrier);
}

static void at_once(
    mbr_trial *trial, team *self, uint32_t count, void (*body)(member *), const void *shared)
{
    start(trial, self, count, body, shared);
    join(self);
}

static uint32_t ok_count(const team *self)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->count; i++)
        count += self->members[i].status == MBR_OK;
    return count;
}

/* ---- Counters ---------------------------------------------------------------------------------
 */

static mbr_report report_of(mbr_trial *trial)
{
    const mbr_report_request request = {MBR_SIZED(mbr_report_request)};
    mbr_report report = {MBR_SIZED(mbr_report)};
    mbr_need_ok(trial, mbr_drive_report(trial, &trial->subject, &request, &report), "report");
    return report;
}

static mbr_alc take_of(member *self, uint64_t bytes)
{
    mbr_alc taken;
    mbr_need_ok(self->trial,
        mbr_alc_ask(self->trial, self->self, mbr_alc_request(self->trial, bytes), &taken),
        "allocate");
    return taken;
}

static void give_of(member *self, const mbr_alc *taken)
{
    mbr_need_ok(self->trial,
        mbr_alc_release(self->trial, self->self, taken->id, taken->address, NULL), "release");
}

static void allocate_and_keep(member *self)
{
    mbr_alc live[4];
    for (uint32_t i = 0; i < 4; i++)
        live[i] = take_of(self, (self->index + 1) * PAGE_BYTES);
    for (uint32_t round = 0; round < 100; round++) {
        uint64_t pages = 1 + mbr_trial_random(self->trial) % 16;
        give_of(self, &live[round % 4]);
        live[round % 4] = take_of(self, pages * PAGE_BYTES);
    }
}

static void run_counters(mbr_trial *trial)
{
    team all;
    uint64_t owned = mbr_alc_stats(trial).owned_bytes, mapped = mbr_alc_stats(trial).mapped_bytes;
    at_once(trial, &all, THREADS_MAX, allocate_and_keep, NULL);
    mbr_mechanism_stats after = mbr_alc_stats(trial);
    const mbr_ledger *books = &trial->subject.ledger;
    MBR_EXPECT(trial, owned == MBR_UNKNOWN_BYTES || after.owned_bytes - owned == books->owned_bytes,
        "after 16 threads allocated and released, owned_bytes is what the outcomes say",
        "%lu grown from %lu, %lu by the outcomes", after.owned_bytes, owned, books->owned_bytes);
    MBR_EXPECT(trial,
        mapped == MBR_UNKNOWN_BYTES || after.mapped_bytes - mapped == books->mapped_bytes,
        "after 16 threads allocated and released, mapped_bytes is what the outcomes say",
        "%lu grown from %lu, %lu by the outcomes", after.mapped_bytes, mapped, books->mapped_bytes);
    uint64_t count = report_of(trial).allocation_count;
    MBR_EXPECT(trial, count == books->count[MBR_OBJECT_ALLOCATION],
        "after 16 threads allocated and released, report counts what lives", "%lu of %lu", count,
        books->count[MBR_OBJECT_ALLOCATION]);
}

static void map_and_unmap(member *self)
{
    mbr_trial *trial = self->trial;
    mbr_place place = mbr_step_reserve(trial, 2);
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t extent = mbr_step_commit(trial, &place, round % 2, 1);
        mbr_step_unmap(trial, &place, round % 2, 1);
        mbr_step_destroy(trial, extent);
    }
    mbr_need_ok(trial, mbr_try_unreserve(trial, self->self, place.id, NULL), "unreserve");
}

static void run_virtual_counters(mbr_trial *trial)
{
    team all;
    mbr_mechanism_stats before = mbr_step_stats(trial);
    at_once(trial, &all, THREADS_MAX, map_and_unmap, NULL);
    mbr_mechanism_stats after = mbr_step_stats(trial);
    MBR_EXPECT(trial,
        before.owned_bytes == after.owned_bytes && before.mapped_bytes == after.mapped_bytes &&
            before.reserved_bytes == after.reserved_bytes,
        "after 16 threads mapped and unmapped, the figures are as before",
        "owned %lu and %lu, mapped %lu and %lu, reserved %lu and %lu", before.owned_bytes,
        after.owned_bytes, before.mapped_bytes, after.mapped_bytes, before.reserved_bytes,
        after.reserved_bytes);
}

static void paint_and_look(member *self)
{
    for (uint32_t round = 0; round < 100; round++) {
        mbr_alc one = take_of(self, 2 * PAGE_BYTES);
        mbr_alc_paint(&one);
        sched_yield();
        uint64_t at = mbr_alc_first_changed(&one);
        MBR_EXPECT(self->trial, at == one.bytes, "what two threads allocate never overlaps",
            "allocation %lu at 0x%lx changed at offset %lu", one.id, one.address, at);
        give_of(self, &one);
    }
}

static void run_apart(mbr_trial *trial)
{
    team all;
    at_once(trial, &all, 8, paint_and_look, NULL);
}

/* ---- Races ------------------------------------------------------------------------------------
 */

static void release_shared(member *self)
{
    const mbr_alc *one = self->team->shared;
    self->status = mbr_alc_release(self->trial, self->self, one->id, one->address, NULL);
}

static void run_double_release(mbr_trial *trial)
{
    for (uint32_t round = 0; round < 100; round++) {
        team all;
        mbr_alc one = mbr_alc_take(trial, PAGE_BYTES);
        at_once(trial, &all, 4, release_shared, &one);
        MBR_EXPECT(trial, ok_count(&all) == 1,
            "of several releases of one allocation at once exactly one is done",
            "round %u: %u of 4 answered MBR_OK", round, ok_count(&all));
    }
}

static void allocate_shared(member *self)
{
    mbr_alc taken;
    mbr_allocate_request request = mbr_alc_request(self->trial, PAGE_BYTES);
    memcpy(&request.allocation_id, self->team->shared, sizeof request.allocation_id);
    self->status = mbr_alc_ask(self->trial, self->self, request, &taken);
}

static void run_doubled_id(mbr_trial *trial)
{
    for (uint32_t round = 0; round < 100; round++) {
        team all;
        uint64_t id = mbr_trial_id(trial);
        at_once(trial, &all, 4, allocate_shared, &id);
        MBR_EXPECT(trial, ok_count(&all) == 1,
            "of several allocations under one id at once exactly one is done",
            "round %u: %u of 4 answered MBR_OK", round, ok_count(&all));
    }
}

typedef struct contest {
    mbr_place places[4];
    uint64_t extent_id;
} contest;

static void map_shared_extent(member *self)
{
    const contest *it = self->team->shared;
    self->status =
        mbr_try_map(self->trial, self->self, it->places[self->index].id, 0, it->extent_id, NULL);
}

static void run_one_extent(mbr_trial *trial)
{
    contest it;
    for (uint32_t i = 0; i < 4; i++)
        it.places[i] = mbr_step_reserve(trial, 1);
    for (uint32_t round = 0; round < 100; round++) {
        team all;
        it.extent_id = mbr_step_create(trial, 1);
        at_once(trial, &all, 4, map_shared_extent, &it);
        MBR_EXPECT(trial, ok_count(&all) == 1,
            "of several maps of one extent at once exactly one is done",
            "round %u: %u of 4 answered MBR_OK", round, ok_count(&all));
        for (uint32_t i = 0; i < 4; i++)
            if (all.members[i].status == MBR_OK)
                mbr_step_unmap(trial, &it.places[i], 0, 1);
        mbr_step_destroy(trial, it.extent_id);
    }
}

/* Each gives back what the next one took. */
static mbr_alc handed[THREADS_MAX];
static void hand_on(member *self)
{
    for (uint32_t round = 0; round < 50; round++) {
        handed[self->index] = take_of(self, (1 + round % 3) * PAGE_BYTES);
        meet(self);
        const mbr_alc *other = &handed[(self->index + 1) % self->team->count];
        mbr_status status =
            mbr_alc_release(self->trial, self->self, other->id, other->address, NULL);
        MBR_EXPECT(self->trial, status == MBR_OK, "any thread may release",
            "thread %u releases what another one took: %s", self->index, mbr_status_name(status));
        meet(self);
    }
}

static void run_handed_on(mbr_trial *trial)
{
    team all;
    at_once(trial, &all, THREADS_MAX, hand_on, NULL);
}

/* ---- Answers ----------------------------------------------------------------------------------
 */

typedef struct span {
    uint64_t low, high;
} span;

static void stats_or_toggle(member *self)
{
    const span *it = self->team->shared;
    for (uint32_t round = 0; round < 300 && self->index == 0; round++) {
        mbr_alc one = take_of(self, 8 * PAGE_BYTES);
        give_of(self, &one);
    }
    for (uint32_t round = 0; round < 300 && self->index != 0; round++) {
        uint64_t owned = mbr_alc_stats(self->trial).owned_bytes;
        MBR_EXPECT(self->trial, owned >= it->low && owned <= it->high,
            "stats tells at least what is held, and at most what is being taken besides",
            "%lu owned; between %lu and %lu are possible", owned, it->low, it->high);
    }
}

static void run_stats(mbr_trial *trial)
{
    team all;
    (void)mbr_alc_take(trial, 32 * PAGE_BYTES);
    span possible = {.low = mbr_alc_stats(trial).owned_bytes};
    mbr_alc one = mbr_alc_take(trial, 8 * PAGE_BYTES);
    possible.high = mbr_alc_stats(trial).owned_bytes;
    mbr_alc_give(trial, &one);
    if (possible.low == MBR_UNKNOWN_BYTES)
        return;
    MBR_NEED(trial, mbr_alc_stats(trial).owned_bytes == possible.low, "release keeps memory");
    at_once(trial, &all, 6, stats_or_toggle, &possible);
}

static void query_own(member *self)
{
    mbr_trial *trial = self->trial;
    uint64_t granules = self->index + 1, granule = trial->granule_bytes;
    mbr_place place = mbr_step_reserve(trial, 2 * granules);
    uint64_t extent = mbr_step_create(trial, granules);
    for (uint32_t round = 0; round < 40; round++) {
        mbr_step_map(trial, &place, round % 2 * granules, extent);
        for (uint32_t i = 0; i < 5; i++) {
            mbr_query_outcome seen = mbr_step_query(trial, &place, round % 2 * granules);
            MBR_EXPECT(trial,
                seen.extent_id == extent && seen.bytes == granules * granule &&
                    seen.offset_bytes == round % 2 * granules * granule,
                "query tells of the reservation that it was asked of",
                "extent %lu, %lu bytes at %lu, where %lu with %lu bytes is mapped at %lu",
                seen.extent_id, seen.bytes, seen.offset_bytes, extent, granules * granule,
                round % 2 * granules * granule);
        }
        mbr_step_unmap(trial, &place, round % 2 * granules, granules);
    }
}

static void run_query(mbr_trial *trial)
{
    team all;
    at_once(trial, &all, 6, query_own, NULL);
}

/* ---- The log ----------------------------------------------------------------------------------
 */

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

static void log_and_sleep(void *context, uint32_t level, const char *text, uint64_t text_bytes)
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
    member *self = argument;
    mbr_alc taken;
    mbr_allocate_request wrong = mbr_alc_request(self->trial, PAGE_BYTES);
    wrong.max_owned_bytes = 1;
    (void)mbr_alc_ask(self->trial, self->self, wrong, &taken);
    (void)mbr_alc_ask(
        self->trial, self->self, mbr_alc_request(self->trial, UINT64_C(1) << 60), &taken);
    (void)mbr_alc_release(self->trial, self->self, 1, 4096, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        taken = take_of(self, (i + 1) * PAGE_BYTES);
        give_of(self, &taken);
    }
    mark(&sink.has_ended);
    return NULL;
}

static void *go_on(void *argument)
{
    member *self = argument;
    const mbr_stats_request request = {MBR_SIZED(mbr_stats_request)};
    mbr_mechanism_stats stats = {MBR_SIZED(mbr_mechanism_stats)};
    mbr_alc taken = take_of(self, PAGE_BYTES);
    give_of(self, &taken);
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
        MBR_SIZED(mbr_open_request), .mechanism = trial->mechanism, .log = log_and_sleep};
    mbr_open_outcome outcome = {MBR_SIZED(mbr_open_outcome)};
    second = trial->subject;
    mbr_ledger_init(&second.ledger);
    mark(&sink.is_over); /* open may say something, and nobody else knows the instance yet */
    mbr_need_ok(trial, mbr_drive_open(trial, &trial->subject, &request, &outcome), "open");
    second.instance = outcome.instance;
    sink.is_over = sink.is_inside = false;
    static member speaker, other;
    speaker = other = (member){.trial = trial, .self = &second};
    if (pthread_create(&speaker.thread, NULL, say_something, &speaker) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread");
    MBR_NEED(trial, await_flag(&sink.is_inside, &sink.has_ended, 8), "allocate and release hang");
    if (sink.has_ended)
        return; /* it says nothing */
    if (pthread_create(&other.thread, NULL, go_on, &other) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread");
    MBR_EXPECT(trial, await_flag(&sink.is_over, &sink.is_over, 2),
        "a log sink that sleeps lets other threads go on",
        "while the sink slept, allocate, release and stats did not return for 2 s");
}

/* ---- Signals, instances -----------------------------------------------------------------------
 */

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

static void use_own_instance(member *self)
{
    mbr_subject *subjects = (mbr_subject *)(uintptr_t)self->team->shared;
    self->self = &subjects[self->index % 2];
    for (uint32_t round = 0; round < 100; round++) {
        mbr_alc one = take_of(self, (1 + self->index % 2 * 7) * PAGE_BYTES);
        mbr_status status = mbr_alc_release(self->trial, self->self, one.id, one.address, NULL);
        MBR_EXPECT(self->trial, status == MBR_OK,
            "an instance knows what it granted, whatever another one does",
            "release in instance %u: %s", self->index % 2, mbr_status_name(status));
    }
}

static void run_two_instances(mbr_trial *trial)
{
    static mbr_subject subjects[2];
    team all;
    for (uint32_t i = 0; i < 2; i++)
        mbr_need_ok(trial, mbr_subject_open(trial, NULL, 0, &subjects[i], NULL), "open");
    at_once(trial, &all, 8, use_own_instance, subjects);
}

static void open_and_close(member *self)
{
    for (uint32_t round = 0; round < 10; round++) {
        mbr_subject one;
        mbr_error error = {MBR_SIZED(mbr_error)};
        mbr_status status = mbr_subject_open(self->trial, NULL, 0, &one, &error);
        MBR_EXPECT(self->trial, status == MBR_OK, "instances are opened on many threads at once",
            "open: %s: %.150s", mbr_status_name(status), error.text);
        self->self = &one;
        mbr_alc taken = take_of(self, PAGE_BYTES);
        give_of(self, &taken);
        const mbr_close_request request = {MBR_SIZED(mbr_close_request)};
        mbr_outcome outcome = {MBR_SIZED(mbr_outcome)};
        status = mbr_drive_close(self->trial, &one, &request, &outcome);
        MBR_EXPECT(self->trial, status == MBR_OK, "instances are closed on many threads at once",
            "close: %s", mbr_status_name(status));
    }
}

static void run_opens(mbr_trial *trial)
{
    team all;
    at_once(trial, &all, THREADS_MAX, open_and_close, NULL);
}

/* ---- Streams ----------------------------------------------------------------------------------
 */

typedef struct appointment {
    mbr_native stream;
    uint64_t line, value, address;
} appointment;

static void wait_together(member *self)
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
        team all;
        it.value = mbr_step_load_signal(trial, it.stream, it.line, it.address, round);
        at_once(trial, &all, 8, wait_together, &it);
    }
}

static void submit_together(member *self)
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
    team all;
    appointment it = {.stream = mbr_step_stream(trial)};
    it.address = mbr_alc_take(trial, 8 * PAGE_BYTES).address;
    at_once(trial, &all, 8, submit_together, &it);
}

static const mbr_check checks[] = {
    {"THR-001", 4, MBR_STAGE_OPENED, 0, "C25", "figures are exact after 16 threads allocated",
        "A byte that is lost in a race is missing for ever, or never there.", run_counters, 0, 0},
    {"THR-002", 4, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C25",
        "figures are exact after 16 threads mapped",
        "The host finds what leaks by comparing these figures with its own.", run_virtual_counters,
        0, 0},
    {"THR-003", 4, MBR_STAGE_OPENED, MBR_NEEDS_HOST_ACCESS, "C25",
        "what two threads allocate never overlaps",
        "One request's contents would appear in another's.", run_apart, 0, 0},
    {"THR-004", 4, MBR_STAGE_OPENED, 0, "C22, C25",
        "of several releases of one allocation exactly one is done",
        "The second one would free what a third thread has just been given.", run_double_release, 0,
        0},
    {"THR-005", 4, MBR_STAGE_OPENED, 0, "C22, C25",
        "of several allocations under one id one is done", "The others could never be released.",
        run_doubled_id, 0, 0},
    {"THR-006", 4, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C25",
        "of several maps of one extent exactly one is done",
        "Two tenants would share memory that each takes for its own.", run_one_extent, 0, 0},
    {"THR-007", 4, MBR_STAGE_OPENED, 0, "C25", "memory goes from thread to thread",
        "Runtimes release on other threads than they allocate.", run_handed_on, 0, 0},
    {"THR-008", 4, MBR_STAGE_OPENED, 0, "C25", "stats is never torn",
        "A figure from the middle of a call refuses or grants what it should not.", run_stats, 0,
        0},
    {"THR-009", 4, MBR_STAGE_OPENED, MBR_NEEDS_VIRTUAL, "C25", "query is never torn",
        "An answer about another reservation leads to an unmap of live memory.", run_query, 0, 0},
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

const mbr_group mbr_group_thr = MBR_GROUP("THR", "many threads, races", checks);
