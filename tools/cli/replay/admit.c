/* Admission: who is let in, and what its start asks of the library. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"

#include <stdlib.h>

/* ---- Starts */

/* What the prompt's whole blocks are now becomes a prefix for later requests. Not being able to
 * share is no failure: the request goes on alone. */
static bool keep_prefix(replay_tenant *tenant, replay_run *run)
{
    replay_sim *sim = tenant->sim;
    const mbr_trace_request *request = &tenant->trace->requests[run->index];
    uint32_t blocks = (uint32_t)(request->prompt_tokens / MBR_TRACE_BLOCK_TOKENS);
    if (tenant->store == NULL || request->hash_count == 0 ||
        replay_store_covers(tenant->store, request, blocks))
        return true;
    /* Others read it on streams of their own: it is a prefix once its last write is done. */
    mbr_error error = {MBR_SIZED(mbr_error)};
    if (mbr_ep_synchronize(sim->world.manager, sim->world.streams[run->contents.stream],
            replay_drain_deadline_ns(&sim->world), &error) != MBR_OK)
        return replay_fail(sim, "the writes of request %llu do not end: %s",
            (unsigned long long)run->index, error.text);
    mbr_kv_prefix *prefix;
    uint64_t before = replay_wall_ns();
    mbr_status status = mbr_kv_prefix_create(
        run->contents.sequence, (uint64_t)blocks * MBR_TRACE_BLOCK_TOKENS, &prefix, NULL);
    sim->report->call_seconds += (double)(replay_wall_ns() - before) / 1e9;
    if (status != MBR_OK)
        return true;
    sim->report->ledger_calls++;
    tenant->report->created_prefixes++;
    bool kept = !sim->options->has_stamps ||
        replay_origins_keep(&tenant->origins, prefix, &run->contents.origin);
    if (kept && replay_store_put(tenant->store, request, blocks, prefix))
        return true;
    mbr_kv_prefix_destroy(prefix, NULL);
    return replay_fail(sim, "out of memory for the prefix store");
}

static mbr_status create_sequence(replay_tenant *tenant, replay_run *run, mbr_error *error)
{
    const mbr_trace_request *request = &tenant->trace->requests[run->index];
    run->prefix_tokens = 0;
    run->prefix = NULL;
    run->entry = tenant->store == NULL
        ? NULL
        : replay_store_acquire(tenant->store, request, &run->prefix, &run->prefix_tokens);
    mbr_sequence_request asked = {MBR_SIZED(mbr_sequence_request),
        .stream = tenant->sim->world.streams[run->contents.stream],
        .tokens = request->prompt_tokens, .prefix = run->prefix,
        .prefix_tokens = run->prefix_tokens, .tag = run->index};
    uint64_t before = replay_wall_ns();
    mbr_status status =
        mbr_sequence_create(tenant->seat->kv, &asked, &run->contents.sequence, error);
    tenant->sim->report->call_seconds += (double)(replay_wall_ns() - before) / 1e9;
    if (status != MBR_OK && tenant->store != NULL) {
        replay_store_release(tenant->store, run->entry);
        run->entry = NULL;
    }
    return status;
}

void replay_name_writer(replay_tenant *tenant, replay_run *run)
{
    uint64_t number = (uint64_t)(tenant - tenant->sim->tenants) + 1;
    run->contents.origin.own =
        (replay_writer){number << REPLAY_TENANT_SHIFT | run->index, ++tenant->sim->stay_count};
}

static bool start_run(replay_tenant *tenant, replay_run *run)
{
    replay_sim *sim = tenant->sim;
    const mbr_trace_request *request = &tenant->trace->requests[run->index];
    mbr_replay_tenant_report *report = tenant->report;
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    sim->report->ledger_calls++;
    run->start_ns = sim->now_ns;
    run->decode_ns =
        sim->now_ns + request->prompt_tokens * UINT64_C(1000000000) / sim->options->prefill_rate;
    run->tokens = request->prompt_tokens;
    run->end_tokens = run->tokens + request->output_tokens;
    mbr_sequence_read(run->contents.sequence, &figures, NULL);
    run->capacity_tokens = figures.capacity_tokens;
    if (figures.shared_tokens != 0) {
        report->prefix_requests++;
        report->prefix_tokens += figures.shared_tokens;
        report->prefix_bytes += figures.shared_bytes;
    }
    tenant->runs[tenant->run_count++] = *run;
    run = &tenant->runs[tenant->run_count - 1];
    if (tenant->reuse != NULL &&
        !replay_reuse_count(
            tenant->reuse, request, run->prefix_tokens, figures.shared_bytes, &report->reuse))
        return replay_fail(sim, "out of memory for the blocks of %llu requests",
            (unsigned long long)tenant->trace->request_count);
    const replay_origin *from = sim->options->has_stamps && run->prefix != NULL
        ? replay_origins_find(tenant->origins, run->prefix)
        : NULL;
    replay_name_writer(tenant, run);
    if (!replay_touch_begin(&tenant->touch, &run->contents, from, run->prefix_tokens))
        return replay_fail(sim, "the contents of request %llu cannot be written: %s",
            (unsigned long long)run->index, replay_touch_reason(&tenant->touch));
    return replay_begin_leaf(tenant, run) && keep_prefix(tenant, run);
}

bool replay_reserve_run(replay_tenant *tenant)
{
    if (tenant->run_count < tenant->run_capacity)
        return true;
    uint64_t capacity = tenant->run_capacity == 0 ? 64 : 2 * tenant->run_capacity;
    replay_run *grown = realloc(tenant->runs, capacity * sizeof(*grown));
    if (grown == NULL)
        return replay_fail(
            tenant->sim, "out of memory for %llu running requests", (unsigned long long)capacity);
    tenant->runs = grown;
    tenant->run_capacity = capacity;
    return true;
}

/* ---- Admission */

static void dismiss(replay_tenant *tenant, replay_run *run)
{
    if (run->member != 0)
        mbr_manager_dismiss(tenant->sim->world.manager, tenant->seat->admission, run->member, NULL);
    run->member = 0;
}

/* Only where all that are in can finish, with the most that each will need. */
static mbr_status admit(replay_tenant *tenant, replay_run *run, uint64_t most_bytes,
    mbr_refusal *refusal, mbr_error *error)
{
    mbr_manager *manager = tenant->sim->world.manager;
    mbr_admission_handle admission = tenant->seat->admission;
    const mbr_trace_request *request = &tenant->trace->requests[run->index];
    if (admission.value == 0)
        return MBR_OK;
    uint64_t prompt_bytes;
    mbr_kv_need_bytes(tenant->seat->kv, request->prompt_tokens, &prompt_bytes, NULL);
    mbr_status status = mbr_manager_admit(
        manager, admission, most_bytes - run->shared_bytes, &run->member, refusal, error);
    if (status != MBR_OK || prompt_bytes <= run->shared_bytes)
        return status;
    run->promised_bytes = prompt_bytes - run->shared_bytes;
    return mbr_manager_grow_member(
        manager, admission, run->member, run->promised_bytes, refusal, error);
}

/* What came with a prefix is promised to the one that the prefix was made from. */
static void admit_without_shared(replay_tenant *tenant, replay_run *run, uint64_t most_bytes)
{
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    mbr_sequence_read(run->contents.sequence, &figures, NULL);
    if (run->member == 0 || figures.shared_bytes == 0 || figures.shared_bytes >= most_bytes)
        return;
    dismiss(tenant, run);
    run->shared_bytes = figures.shared_bytes;
    run->promised_bytes = 0;
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    if (admit(tenant, run, most_bytes, &refusal, NULL) != MBR_OK)
        dismiss(tenant, run); /* it grows without a promise, and is the first to be preempted */
}

typedef enum admitted { ADMITTED, WAITS, NEVER_FITS, FAILED } admitted;

/* With everything given back there is still no room: its own limits say so, or nobody has any. */
static admitted judge(
    replay_tenant *tenant, mbr_status status, const mbr_refusal *refusal, const mbr_error *error)
{
    bool later = MBR_STATUS_CLASS(status) == MBR_CLASS_EXHAUSTED || status == MBR_BUSY;
    bool never = status == MBR_OUT_OF_RANGE || refusal->reason == MBR_REFUSED_CAPACITY ||
        refusal->reason == MBR_REFUSED_ALLOWANCE;
    if (later && !never && replay_run_count(tenant->sim) != 0)
        return WAITS;
    if (later || never)
        return NEVER_FITS;
    replay_fail(
        tenant->sim, "request %llu: %s", (unsigned long long)replay_wait_head(tenant), error->text);
    return FAILED;
}

static admitted try_head(replay_tenant *tenant, uint64_t most_bytes, mbr_error *error)
{
    uint64_t index = replay_wait_head(tenant);
    replay_run run = {.index = index,
        .contents = {.request = &tenant->trace->requests[index],
            .tag = index,
            .stream = (uint32_t)(index % MBR_REPLAY_STREAM_COUNT)}};
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    bool drained = false;
    mbr_status status;
    do {
        status = admit(tenant, &run, most_bytes, &refusal, error);
        if (status == MBR_OK)
            status = create_sequence(tenant, &run, error);
        if (status != MBR_OK)
            dismiss(tenant, &run);
    } while (status == MBR_OVER_BUDGET && replay_make_room(tenant, &drained));
    if (status != MBR_OK)
        return judge(tenant, status, &refusal, error);
    admit_without_shared(tenant, &run, most_bytes);
    replay_wait_pop(tenant);
    return start_run(tenant, &run) ? ADMITTED : FAILED;
}

/* The most that the head will ever lease; 0 where nobody asks. */
static uint64_t most_of_head(const replay_tenant *tenant)
{
    const mbr_trace_request *request = &tenant->trace->requests[replay_wait_head(tenant)];
    uint64_t tokens = (uint64_t)request->prompt_tokens + request->output_tokens, bytes = 0;
    if (tenant->seat->admission.value != 0)
        mbr_kv_need_bytes(
            tenant->seat->kv, mbr_min(tokens, tenant->report->max_tokens), &bytes, NULL);
    return bytes;
}

/* What its ticket brings is the head's, or everybody's again. */
static admitted try_head_with_ticket(replay_tenant *tenant, mbr_error *error)
{
    uint64_t most_bytes = most_of_head(tenant);
    bool claimed = replay_claim_ticket(tenant);
    admitted answer = try_head(tenant, most_bytes, error);
    if (answer == WAITS && !claimed && replay_wait_for_bytes(tenant, most_bytes)) {
        claimed = true;
        answer = try_head(tenant, most_bytes, error);
    }
    replay_return_aside(tenant);
    if (answer == WAITS && claimed) /* extents that are adopted need the allowance itself */
        answer = try_head(tenant, most_bytes, error);
    if (answer != WAITS)
        replay_end_ticket(tenant);
    return answer;
}

/* A head that was refused is tried again after a release, or when its ticket has settled. */
static bool is_due(const replay_tenant *tenant)
{
    uint32_t state;
    if (tenant->head_tried != tenant->sim->release_count + 1)
        return true;
    return tenant->ticket.value != 0 &&
        mbr_manager_read_ticket(tenant->sim->world.manager, tenant->ticket, &state, NULL) ==
        MBR_OK &&
        state != MBR_TICKET_WAITING;
}

bool replay_admit_waiting(replay_tenant *tenant)
{
    while (tenant->waiting_count != 0 && is_due(tenant)) {
        mbr_error error = {MBR_SIZED(mbr_error)};
        if (!replay_reserve_run(tenant))
            return false;
        uint64_t index = replay_wait_head(tenant);
        admitted answer = try_head_with_ticket(tenant, &error);
        if (answer == FAILED)
            return false;
        if (answer == NEVER_FITS)
            replay_refuse_head(tenant, error.text);
        if (answer != WAITS)
            continue;
        tenant->head_tried = tenant->sim->release_count + 1;
        tenant->report->waited += !tenant->has_waited[index];
        tenant->has_waited[index] = true;
    }
    return true;
}
