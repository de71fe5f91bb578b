/* The queue of those who wait: a ring of requests in order of arrival. Asks the library for
 * nothing. */
#include "tools/cli/replay/simulate.h"

#include <stdio.h>

void replay_wait_push(replay_tenant *tenant, uint64_t index)
{
    uint64_t room = tenant->trace->request_count;
    tenant->waiting[(tenant->waiting_first + tenant->waiting_count) % room] = index;
    tenant->waiting_count++;
}

void replay_wait_push_front(replay_tenant *tenant, uint64_t index)
{
    uint64_t room = tenant->trace->request_count;
    tenant->waiting_first = (tenant->waiting_first + room - 1) % room;
    tenant->waiting[tenant->waiting_first] = index;
    tenant->waiting_count++;
    tenant->head_tried = 0;
}

void replay_wait_pop(replay_tenant *tenant)
{
    tenant->waiting_first = (tenant->waiting_first + 1) % tenant->trace->request_count;
    tenant->waiting_count--;
    tenant->head_tried = 0;
}

uint64_t replay_wait_head(const replay_tenant *tenant)
{
    return tenant->waiting[tenant->waiting_first];
}

void replay_refuse_head(replay_tenant *tenant, const char *why)
{
    mbr_replay_tenant_report *report = tenant->report;
    const mbr_trace_request *request = &tenant->trace->requests[replay_wait_head(tenant)];
    if (report->refused++ == 0)
        snprintf(report->refusal, sizeof(report->refusal),
            "line %llu of the trace (%u + %u tokens): %s", (unsigned long long)request->source_line,
            request->prompt_tokens, request->output_tokens, why);
    tenant->done_count++;
    replay_wait_pop(tenant);
}

/* The newest are at the back, not counted yet. */
void replay_count_waiting(replay_tenant *tenant)
{
    for (uint64_t i = tenant->waiting_count; i-- > 0;) {
        uint64_t at = (tenant->waiting_first + i) % tenant->trace->request_count;
        uint64_t index = tenant->waiting[at];
        if (tenant->has_waited[index])
            break;
        tenant->report->waited++;
        tenant->has_waited[index] = true;
    }
}
