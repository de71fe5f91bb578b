/* Responsible for those that are not in: who stands in line, who is told when to come, and what is
 * known about when that is. Never touches a sequence. */
#include "desk_internal.h"

#include <sys/random.h>

/* How late one may be that comes when it was told, and how long its place is kept for it. */
#define LATE_NS (NS_PER_SECOND / 10)
#define GRACE_NS (2 * NS_PER_SECOND)

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

/* Above the wait, so that nobody comes early. */
static uint64_t retry_seconds(uint64_t wait)
{
    return wait / NS_PER_SECOND + 1;
}

/* It keeps its number, so that whoever comes meanwhile is behind it. */
void send_away(desk *desk, request *request, uint64_t wait, uint64_t now)
{
    uint64_t random = 0;
    place given = {.number = request->number,
        .work_byte_seconds = request->work_byte_seconds,
        .due_ns = now + wait,
        .return_ns = now + retry_seconds(wait) * NS_PER_SECOND};
    request->retry_after_ns = wait;
    request->retry_after_seconds = retry_seconds(wait);
    request->key = 0;
    if (wait < PROMISE_LIMIT_NS && getrandom(&random, sizeof(random), GRND_NONBLOCK) > 0)
        request->key = line_keep(desk->line, &given, random);
    desk_answer(desk, request, ANSWER_COME_AGAIN);
}

void leave_line(desk *desk, request *request)
{
    list_take_out(&desk->standing, request);
    desk->line->work_byte_seconds -= request->work_byte_seconds;
}

void serve_line(desk *desk, uint64_t now)
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
            desk_answer(desk, first, answer_to(status, &error));
    }
}

void send_tired_away(desk *desk, uint64_t now)
{
    for (request *at = desk->standing.first, *next; at != NULL; at = next) {
        next = at->next;
        if (at->due_ns > now)
            continue;
        leave_line(desk, at);
        send_away(desk, at, wait_ns(desk, now), now);
    }
}

/* One that comes before its time is told the rest of it. */
void stand_or_go(desk *desk, request *request, const place *before, uint64_t now)
{
    uint64_t wait = wait_ns(desk, now);
    uint64_t until = now + desk->options.stand_ns;
    if (request->returned) {
        wait = before->due_ns > now ? before->due_ns - now : 0;
        until += NS_PER_SECOND; /* it may come as much later than its turn, by rounding */
    }
    if (wait > desk->options.stand_ns) {
        send_away(desk, request, wait, now);
        return;
    }
    request->state = REQUEST_STANDING;
    request->due_ns = until;
    desk->line->work_byte_seconds += request->work_byte_seconds;
    list_insert(&desk->standing, request);
    desk->options.hooks.park(request);
}

/* One that shows no key, and comes when somebody was expected who asked for as much, is taken for
 * that one: a client that knows nothing of places has waited for nothing else. A guess takes
 * nothing from one that shows its key a moment later. */
void take_place(desk *desk, request *request, place *before, uint64_t now)
{
    request->returned = request->key != 0
        ? line_take(desk->line, request->key, before)
        : line_guess(desk->line, request->work_byte_seconds, now - LATE_NS, now, before);
    request->number = request->returned ? before->number : line_join(desk->line);
    desk->figures.returned_count += request->returned;
}

void forget_absent(desk *desk, uint64_t now)
{
    line_expire(desk->line, now - GRACE_NS);
}
