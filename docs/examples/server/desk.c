/* Responsible for when: a thread wakes for the next thing that is due, never to look whether
 * something is. Opens and closes the desk; speaks no HTTP and never touches a connection. */
#include "desk_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t rank(const request *request)
{
    return request->state == REQUEST_RUNNING ? request->due_ns : request->number;
}

/* From the end, where nearly all belong. */
void list_insert(list *list, request *added)
{
    request *before = list->first == NULL ? NULL : list->first->prev; /* the last */
    while (before != NULL && rank(before) > rank(added))
        before = before == list->first ? NULL : before->prev;
    DL_APPEND_ELEM(list->first, before, added);
    list->count++;
}

void list_take_out(list *list, request *taken)
{
    DL_DELETE(list->first, taken);
    list->count--;
}

/* Before anything changes: what was until now counts for the time that it was. */
static void count_time(desk *desk, uint64_t now)
{
    double passed = seconds(now - desk->counted_ns);
    desk->figures.admitted_byte_seconds += (double)desk->figures.admitted_bytes * passed;
    desk->figures.committed_byte_seconds += (double)desk->figures.committed_bytes * passed;
    desk->counted_ns = now;
}

void desk_answer(desk *desk, request *request, answer_kind kind)
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
    take_place(desk, request, &before, now);
    mbr_status status = let_in_unless_others(desk, request, &error);
    if (status == MBR_OK) {
        begin(desk, request, now);
        desk->options.hooks.park(request);
    } else if (status == MBR_BUSY) {
        stand_or_go(desk, request, &before, now);
    } else {
        desk_answer(desk, request, answer_to(status, &error));
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
        desk_answer(desk, request, ANSWER_CLOSING);
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
    forget_absent(desk, now);
}

static void do_what_is_due(desk *desk, uint64_t now)
{
    count_time(desk, now);
    while (desk->running.first != NULL && desk->running.first->due_ns <= now)
        step(desk, desk->running.first, now);
    if (desk->closing && desk->close_ns <= now) {
        cut_off(desk, now);
        desk->close_ns = now + TICK_NS;
    }
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

static void finish_locks(desk *desk)
{
    pthread_cond_destroy(&desk->earlier);
    pthread_mutex_destroy(&desk->lock);
}

static bool start_thread(desk *desk)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&desk->earlier, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&desk->lock, NULL);
    if (pthread_create(&desk->thread, NULL, run, desk) == 0)
        return true;
    finish_locks(desk);
    return false;
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
        desk_answer(desk, first, ANSWER_CLOSING);
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
    finish_locks(desk);
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
