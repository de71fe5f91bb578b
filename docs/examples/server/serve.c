/* Responsible for those that are in: admits them, grows their sequences, ends them. Keeps nobody
 * waiting and decides no order. */
#include "desk_internal.h"

#include <stdio.h>

static void count_committed(desk *desk, request *request)
{
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    if (mbr_sequence_read(request->sequence, &figures, NULL) != MBR_OK)
        return;
    desk->figures.committed_bytes += figures.committed_bytes - request->committed_bytes;
    request->committed_bytes = figures.committed_bytes;
}

mbr_status let_in(desk *desk, request *request, mbr_error *error)
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

uint64_t tokens_ns(const desk *desk, uint64_t tokens)
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
    list_insert(&desk->running, request);
}

void begin(desk *desk, request *request, uint64_t now)
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
        list_insert(&desk->running, request);
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
        desk_answer(desk, request, kind);
}

answer_kind answer_to(mbr_status status, const mbr_error *error)
{
    if (status == MBR_OVER_BUDGET)
        return ANSWER_NEVER;
    if (MBR_STATUS_CLASS(status) != MBR_CLASS_EXHAUSTED) /* that is counted, and enough */
        fprintf(stderr, "a request is not served: %s\n", error->text);
    return ANSWER_NO_MEMORY;
}

void step(desk *desk, request *request, uint64_t now)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    uint64_t tokens = next_step_tokens(request);
    list_take_out(&desk->running, request);
    mbr_status status =
        tokens == 0 ? MBR_OK : mbr_sequence_append(request->sequence, tokens, NULL, &error);
    if (status != MBR_OK) {
        finish(desk, request,
            status == MBR_OVER_BUDGET ? ANSWER_COME_AGAIN : answer_to(status, &error), now);
        return;
    }
    request->made_tokens += tokens;
    count_committed(desk, request);
    if (is_done(request))
        finish(desk, request, ANSWER_SERVED, now);
    else
        schedule(desk, request);
}

void cut_off(desk *desk, uint64_t now)
{
    for (uint32_t left = desk->running.count; left != 0; left--) {
        request *first = desk->running.first;
        list_take_out(&desk->running, first);
        finish(desk, first, ANSWER_CLOSING, now);
    }
}
