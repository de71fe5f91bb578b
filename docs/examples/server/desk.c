/* Responsible for who is in: the one place that admits, grows and ends sequences, and that keeps
 * the line of those who wait. A thread wakes for the next thing that is due, never to look whether
 * something is. Never speaks HTTP and never touches a connection. */
#include "desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* 2 KiB a token, 64 KiB a window; an extent is a window, so that what a sequence will have at its
 * end is known beforehand to the byte. Tokens are made eight at a time. */
#define GEOMETRY "layers=4,heads=2,dim=64,bytes=2,planes=2"
#define WINDOW_TOKENS UINT64_C(32)
#define TOKEN_BYTES UINT64_C(2048)
#define STEP_TOKENS UINT64_C(8)

/* Retry-After has whole seconds, so its owner may be one second late, and another in good faith. */
#define ROUNDING_NS NS_PER_SECOND
#define PLACE_GRACE_NS (2 * NS_PER_SECOND)
/* Nothing is promised for later than this. */
#define PROMISE_LIMIT_NS (600 * NS_PER_SECOND)
/* Places expire, and the manager is polled where nothing ends, this often. */
#define TICK_NS (NS_PER_SECOND / 4)

typedef struct list {
    request *first, *last;
    uint32_t count;
} list;

struct desk {
    desk_options options;
    mbr_admission_handle admission;
    mbr_kv *kv;
    pthread_t thread;
    pthread_mutex_t lock;   /* guards all below */
    pthread_cond_t earlier; /* something is due before what the thread waits for */
    list running;           /* by due_ns */
    list standing;          /* by number */
    line *line;
    mbr_refusal refusal; /* the last of one that has to wait */
    bool freed;          /* somebody left since the line was served */
    uint64_t tick_ns, wake_ns, close_ns;
    bool closing;
    uint64_t opened_ns, counted_ns;
    desk_figures figures;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_SECOND;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Lists */
static uint64_t rank(const request *request)
{
    return request->state == REQUEST_RUNNING ? request->due_ns : request->number;
}

/* From the end, where nearly all belong. */
static void insert(list *list, request *added)
{
    request *before = list->last;
    while (before != NULL && rank(before) > rank(added))
        before = before->prev;
    added->prev = before;
    added->next = before != NULL ? before->next : list->first;
    *(before != NULL ? &before->next : &list->first) = added;
    *(added->next != NULL ? &added->next->prev : &list->last) = added;
    list->count++;
}

static void take_out(list *list, request *taken)
{
    *(taken->prev != NULL ? &taken->prev->next : &list->first) = taken->next;
    *(taken->next != NULL ? &taken->next->prev : &list->last) = taken->prev;
    list->count--;
}

/* ---- Figures */
/* Before anything changes: what was until now counts for the time that it was. */
static void count_time(desk *desk, uint64_t now)
{
    double passed = seconds(now - desk->counted_ns);
    desk->figures.admitted_byte_seconds += (double)desk->figures.admitted_bytes * passed;
    desk->figures.committed_byte_seconds += (double)desk->figures.committed_bytes * passed;
    desk->counted_ns = now;
}

static void count_committed(desk *desk, request *request)
{
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    if (mbr_sequence_read(request->sequence, &figures, NULL) != MBR_OK)
        return;
    desk->figures.committed_bytes += figures.committed_bytes - request->committed_bytes;
    request->committed_bytes = figures.committed_bytes;
}

/* ---- Answers */
static void answer(desk *desk, request *request, answer_kind kind)
{
    bool parked = request->state != REQUEST_NEW;
    request->state = REQUEST_ANSWERED;
    request->answer = kind;
    desk->figures.answer_counts[kind]++;
    if (request->returned && kind == ANSWER_SERVED)
        desk->figures.returned_served_count++;
    if (parked)
        desk->options.hooks.wake(request);
}

/* When the running requests will have given back `bytes`, if nobody else takes them: the earliest
 * end by which those that have ended by then had as many. UINT64_MAX: they have not as many. */
static uint64_t freed_in_ns(const desk *desk, uint64_t bytes, uint64_t now)
{
    uint64_t best = UINT64_MAX;
    for (const request *end = desk->running.first; end != NULL; end = end->next) {
        uint64_t freed = 0;
        for (const request *other = desk->running.first; other != NULL; other = other->next)
            freed += other->ended_ns <= end->ended_ns ? other->most_bytes : 0;
        if (freed >= bytes)
            best = earlier(best, end->ended_ns);
    }
    return best == UINT64_MAX ? best : best - earlier(best, now);
}

/* The ends of the requests are known here. Where these do not free enough, because others under the
 * authority have it, the governor advises from the rate at which those release. All that are ahead
 * are served before, so many bytes x time within the limit. */
static uint64_t wait_ns(const desk *desk, uint64_t now)
{
    const mbr_refusal *refusal = &desk->refusal;
    uint64_t missing =
        refusal->asked_bytes - earlier(refusal->asked_bytes, refusal->available_bytes);
    uint64_t first = freed_in_ns(desk, missing, now);
    if (first == UINT64_MAX)
        first = refusal->retry_after_ns;
    if (first == MBR_UNKNOWN_BYTES)
        first = NS_PER_SECOND;
    double ahead = desk->line->work_byte_seconds / (double)(refusal->limit_bytes | 1);
    double wait = (double)first + ahead * (double)NS_PER_SECOND;
    return wait < (double)PROMISE_LIMIT_NS ? (uint64_t)wait : PROMISE_LIMIT_NS;
}

/* It keeps its number, so that whoever comes meanwhile is behind it. */
static void send_away(desk *desk, request *request, uint64_t wait, uint64_t now)
{
    uint64_t random = 0;
    place given = {.number = request->number,
        .work_byte_seconds = request->work_byte_seconds,
        .due_ns = now + wait,
        .expires_ns = now + wait + ROUNDING_NS + PLACE_GRACE_NS};
    request->retry_after_ns = wait;
    request->key = 0;
    if (wait < PROMISE_LIMIT_NS && getrandom(&random, sizeof(random), GRND_NONBLOCK) > 0)
        request->key = line_keep(desk->line, &given, random);
    answer(desk, request, ANSWER_COME_AGAIN);
}

/* ---- In and out */
/* MBR_OK: it is in, with all that it will need. MBR_BUSY: not now; the refusal says why. Others:
 * not at all. */
static mbr_status let_in(desk *desk, request *request, mbr_error *error)
{
    const desk_options *with = &desk->options;
    mbr_refusal *refusal = &desk->refusal;
    mbr_status status = mbr_manager_admit(
        with->manager, desk->admission, request->most_bytes, &request->member, refusal, error);
    if (status == MBR_OVER_BUDGET && refusal->reason == MBR_REFUSED_LIMIT)
        return MBR_BUSY;
    if (status != MBR_OK)
        return status;
    status = mbr_manager_grow_member(
        with->manager, desk->admission, request->member, request->most_bytes, refusal, error);
    if (status != MBR_OK)
        goto dismiss;
    mbr_sequence_request prompt = {
        MBR_SIZED(mbr_sequence_request), .tokens = request->prompt_tokens, .refusal = refusal};
    status = mbr_sequence_create(desk->kv, &prompt, &request->sequence, error);
    if (status == MBR_OK)
        return MBR_OK;
    if (status == MBR_OVER_BUDGET) /* others under the authority have it, or the limit fell */
        status = MBR_BUSY;
dismiss:
    mbr_manager_dismiss(with->manager, desk->admission, request->member, NULL);
    return status;
}

static uint64_t tokens_ns(const desk *desk, uint64_t tokens)
{
    return tokens * NS_PER_SECOND / desk->options.tokens_per_second;
}

static uint64_t next_step_tokens(const request *request)
{
    uint64_t left = request->output_tokens - request->made_tokens;
    return left < STEP_TOKENS ? left : STEP_TOKENS;
}

static void schedule(desk *desk, request *request)
{
    request->due_ns =
        request->began_ns + tokens_ns(desk, request->made_tokens + next_step_tokens(request));
    insert(&desk->running, request);
}

static void begin(desk *desk, request *request, uint64_t now)
{
    request->state = REQUEST_RUNNING;
    request->began_ns = now;
    request->ended_ns = now + tokens_ns(desk, request->output_tokens);
    desk->figures.admitted_bytes += request->most_bytes;
    count_committed(desk, request);
    schedule(desk, request);
}

static bool is_done(const request *request)
{
    return request->made_tokens == request->output_tokens;
}

/* It is out of the list of those that run. Nothing reads the bytes but the host, so nothing has to
 * be waited for. One whose end fails for lack of something ends a little later. */
static void finish(desk *desk, request *request, answer_kind kind, uint64_t now)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (mbr_sequence_destroy(request->sequence, NULL, 0, &error) != MBR_OK) {
        request->due_ns = now + TICK_NS;
        insert(&desk->running, request);
        return;
    }
    mbr_manager_dismiss(desk->options.manager, desk->admission, request->member, NULL);
    request->ended_ns = now;
    desk->figures.admitted_bytes -= request->most_bytes;
    desk->figures.committed_bytes -= request->committed_bytes;
    desk->freed = true;
    if (kind == ANSWER_COME_AGAIN)
        send_away(desk, request, NS_PER_SECOND, now);
    else
        answer(desk, request, kind);
}

static answer_kind failure(mbr_status status, const mbr_error *error)
{
    if (status == MBR_OVER_BUDGET)
        return ANSWER_NEVER;
    if (MBR_STATUS_CLASS(status) != MBR_CLASS_EXHAUSTED) /* that is counted, and enough */
        fprintf(stderr, "a request is not served: %s\n", error->text);
    return ANSWER_NO_MEMORY;
}

/* The next tokens of one that runs; at the last ones it ends. */
static void step(desk *desk, request *request, uint64_t now)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    uint64_t tokens = next_step_tokens(request);
    take_out(&desk->running, request);
    mbr_status status =
        tokens == 0 ? MBR_OK : mbr_sequence_append(request->sequence, tokens, NULL, &error);
    if (status != MBR_OK) {
        finish(desk, request,
            status == MBR_OVER_BUDGET ? ANSWER_COME_AGAIN : failure(status, &error), now);
        return;
    }
    request->made_tokens += tokens;
    count_committed(desk, request);
    if (is_done(request))
        finish(desk, request, ANSWER_SERVED, now);
    else
        schedule(desk, request);
}

/* ---- Those that stand in line */
static void leave_line(desk *desk, request *request)
{
    take_out(&desk->standing, request);
    desk->line->work_byte_seconds -= request->work_byte_seconds;
}

/* In the order of their places, until one has to wait. */
static void serve_line(desk *desk, uint64_t now)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    request *first;
    desk->freed = false;
    while ((first = desk->standing.first) != NULL) {
        mbr_status status = let_in(desk, first, &error);
        if (status == MBR_BUSY)
            return;
        leave_line(desk, first);
        if (status == MBR_OK)
            begin(desk, first, now);
        else
            answer(desk, first, failure(status, &error));
    }
}

static void send_tired_away(desk *desk, uint64_t now)
{
    for (request *at = desk->standing.first, *next; at != NULL; at = next) {
        next = at->next;
        if (at->due_ns > now)
            continue;
        leave_line(desk, at);
        send_away(desk, at, wait_ns(desk, now), now);
    }
}

/* One that cannot be in now: it stands, if its turn comes soon, else it is told when. One that
 * comes before its time is told the rest of it. */
static void stand_or_go(desk *desk, request *request, const place *before, uint64_t now)
{
    uint64_t wait = wait_ns(desk, now);
    uint64_t until = now + desk->options.stand_ns;
    if (request->returned) {
        wait = before->due_ns > now ? before->due_ns - now : 0;
        until += ROUNDING_NS;
    }
    if (wait > desk->options.stand_ns) {
        send_away(desk, request, wait, now);
        return;
    }
    request->state = REQUEST_STANDING;
    request->due_ns = until;
    desk->line->work_byte_seconds += request->work_byte_seconds;
    insert(&desk->standing, request);
    desk->options.hooks.park(request);
}

/* Its own place where it has one, else a new one behind all others. */
static void take_place(desk *desk, request *request, place *before)
{
    request->returned = line_take(desk->line, request->key, before);
    request->number = request->returned ? before->number : line_join(desk->line);
    desk->figures.returned_count += request->returned;
}

/* Nobody overtakes one that stands. */
static mbr_status let_in_unless_others(desk *desk, request *request, mbr_error *error)
{
    const struct request *first = desk->standing.first;
    return first != NULL && first->number < request->number ? MBR_BUSY
                                                            : let_in(desk, request, error);
}

static void enter(desk *desk, request *request, uint64_t now)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    place before = {0};
    take_place(desk, request, &before);
    mbr_status status = let_in_unless_others(desk, request, &error);
    if (status == MBR_OK) {
        begin(desk, request, now);
        desk->options.hooks.park(request);
    } else if (status == MBR_BUSY) {
        stand_or_go(desk, request, &before, now);
    } else {
        answer(desk, request, failure(status, &error));
    }
}

bool desk_enter(desk *desk, request *request)
{
    uint64_t tokens = request->prompt_tokens + request->output_tokens;
    request->most_bytes =
        (tokens + WINDOW_TOKENS - 1) / WINDOW_TOKENS * WINDOW_TOKENS * TOKEN_BYTES;
    request->work_byte_seconds =
        (double)request->most_bytes * seconds(tokens_ns(desk, request->output_tokens));
    pthread_mutex_lock(&desk->lock);
    uint64_t now = now_ns();
    request->entered_ns = now;
    count_time(desk, now);
    if (desk->closing)
        answer(desk, request, ANSWER_CLOSING);
    else
        enter(desk, request, now);
    bool answered = request->state == REQUEST_ANSWERED;
    if (!answered && request->due_ns < desk->wake_ns)
        pthread_cond_signal(&desk->earlier);
    pthread_mutex_unlock(&desk->lock);
    return answered;
}

/* ---- The thread */
static void tick(desk *desk, uint64_t now)
{
    desk->tick_ns = now + TICK_NS;
    desk->freed = true; /* others under the authority may have given something back */
    line_expire(desk->line, now);
}

static void cut_off(desk *desk, uint64_t now)
{
    for (uint32_t left = desk->running.count; left != 0; left--) {
        request *first = desk->running.first;
        take_out(&desk->running, first);
        finish(desk, first, ANSWER_CLOSING, now);
    }
    desk->close_ns = now + TICK_NS; /* for those whose end failed */
}

static void do_what_is_due(desk *desk, uint64_t now)
{
    count_time(desk, now);
    while (desk->running.first != NULL && desk->running.first->due_ns <= now)
        step(desk, desk->running.first, now);
    if (desk->closing && desk->close_ns <= now)
        cut_off(desk, now);
    if (desk->tick_ns <= now)
        tick(desk, now);
    if (desk->freed) {
        mbr_manager_poll(desk->options.manager); /* what was queued for release is given back */
        serve_line(desk, now);
    }
    send_tired_away(desk, now);
}

static uint64_t next_due_ns(const desk *desk)
{
    uint64_t due = desk->tick_ns;
    if (desk->running.first != NULL)
        due = earlier(due, desk->running.first->due_ns);
    if (desk->closing)
        due = earlier(due, desk->close_ns);
    for (const request *at = desk->standing.first; at != NULL; at = at->next)
        due = earlier(due, at->due_ns);
    return due;
}

static void *run(void *context)
{
    desk *desk = context;
    pthread_mutex_lock(&desk->lock);
    while (!desk->closing || desk->running.count != 0) {
        do_what_is_due(desk, now_ns());
        desk->wake_ns = next_due_ns(desk);
        struct timespec until = {.tv_sec = (time_t)(desk->wake_ns / NS_PER_SECOND),
            .tv_nsec = (long)(desk->wake_ns % NS_PER_SECOND)};
        if (!desk->closing || desk->running.count != 0)
            pthread_cond_timedwait(&desk->earlier, &desk->lock, &until);
    }
    pthread_mutex_unlock(&desk->lock);
    return NULL;
}

/* ---- Opening and closing */
static mbr_status open_books(desk *desk, mbr_error *error)
{
    const desk_options *with = &desk->options;
    mbr_kv_request cache = {MBR_SIZED(mbr_kv_request), .binding = with->binding,
        .holder = with->holder, .geometry = GEOMETRY, .max_tokens = with->max_tokens,
        .window_tokens = WINDOW_TOKENS, .extent_bytes = WINDOW_TOKENS * TOKEN_BYTES};
    mbr_status status = mbr_kv_create(with->manager, &cache, &desk->kv, error);
    if (status != MBR_OK)
        return status;
    status = mbr_manager_create_admission(with->manager, with->holder, &desk->admission, error);
    if (status != MBR_OK)
        mbr_kv_destroy(desk->kv, NULL);
    return status;
}

static mbr_status close_books(desk *desk, mbr_error *error)
{
    mbr_status status =
        mbr_manager_destroy_admission(desk->options.manager, desk->admission, error);
    return status == MBR_OK ? mbr_kv_destroy(desk->kv, error) : status;
}

static bool start_thread(desk *desk)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&desk->earlier, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&desk->lock, NULL);
    return pthread_create(&desk->thread, NULL, run, desk) == 0;
}

static mbr_status no_memory(mbr_error *error, const char *what)
{
    snprintf(error->text, sizeof(error->text), "no host memory for %s", what);
    return MBR_OUT_OF_HOST_MEMORY;
}

mbr_status desk_open(const desk_options *options, desk **opened, mbr_error *error)
{
    *opened = NULL;
    desk *made = calloc(1, sizeof(*made));
    line *places = calloc(1, sizeof(*places));
    mbr_status status = no_memory(error, "the desk");
    if (made == NULL || places == NULL)
        goto release;
    made->options = *options;
    made->line = places;
    made->refusal.struct_size = sizeof(made->refusal);
    made->opened_ns = made->counted_ns = made->tick_ns = now_ns();
    status = open_books(made, error);
    if (status != MBR_OK)
        goto release;
    if (start_thread(made)) {
        *opened = made;
        return MBR_OK;
    }
    status = no_memory(error, "a thread");
    close_books(made, NULL);
release:
    free(places);
    free(made);
    return status;
}

void desk_close(desk *desk, uint64_t drain_ns)
{
    pthread_mutex_lock(&desk->lock);
    desk->closing = true;
    desk->close_ns = now_ns() + drain_ns;
    while (desk->standing.first != NULL) {
        request *first = desk->standing.first;
        leave_line(desk, first);
        answer(desk, first, ANSWER_CLOSING);
    }
    pthread_cond_signal(&desk->earlier);
    pthread_mutex_unlock(&desk->lock);
    pthread_join(desk->thread, NULL);
}

mbr_status desk_destroy(desk *desk, mbr_error *error)
{
    mbr_status status = close_books(desk, error);
    if (status != MBR_OK)
        return status;
    pthread_cond_destroy(&desk->earlier);
    pthread_mutex_destroy(&desk->lock);
    free(desk->line);
    free(desk);
    return MBR_OK;
}

mbr_status desk_read(desk *desk, desk_figures *figures, mbr_error *error)
{
    pthread_mutex_lock(&desk->lock);
    uint64_t now = now_ns();
    count_time(desk, now);
    *figures = desk->figures;
    figures->running_count = desk->running.count;
    figures->standing_count = desk->standing.count;
    figures->away_count = desk->line->away_count;
    figures->uptime_seconds = seconds(now - desk->opened_ns);
    pthread_mutex_unlock(&desk->lock);
    figures->authority = (mbr_authority_figures){MBR_SIZED(mbr_authority_figures)};
    return mbr_manager_read_authority(
        desk->options.manager, desk->options.authority, &figures->authority, error);
}
