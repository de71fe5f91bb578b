/* The attention of tools/bench/gpu/kernels.ptx and the numbers it reads, as a device would leave
 * them but for rounding. Touches memory through the device's own addresses, as all of run.c. */
#include "tests/standin/model.h"

#include <math.h>

#define HEAD_DIM 128
#define DEVICE_EYES __attribute__((no_sanitize("thread"), noinline))

/* struct mbr_attend_job of tools/bench/gpu/kernels.h. */
struct job {
    uint64_t query, table, out;
    uint64_t tokens, page_tokens, token_bytes, head_bytes, plane_bytes;
    uint64_t heads, pages, sequences;
};

struct place {
    uint32_t device;
    const struct job *job;
    uint64_t offset;
    uint64_t sequence, head;
};

DEVICE_EYES static float get(uint32_t device, uint64_t address)
{
    return *(volatile float *)sim_pointer(sim_view(device, address));
}

DEVICE_EYES static void put(uint32_t device, uint64_t address, float value)
{
    *(volatile float *)sim_pointer(sim_view(device, address)) = value;
}

DEVICE_EYES static uint64_t get_word(uint32_t device, uint64_t address)
{
    return *(volatile uint64_t *)sim_pointer(sim_view(device, address));
}

/* Of one token's keys or, a plane further, values. */
static uint64_t row_of(const struct place *at, uint64_t token)
{
    const struct job *job = at->job;
    uint64_t page = at->sequence * job->pages + token / job->page_tokens;
    return get_word(at->device, job->table + 8 * page) + at->offset +
        token % job->page_tokens * job->token_bytes + at->head * job->head_bytes;
}

static float score(const struct place *at, uint64_t query, uint64_t row)
{
    float sum = 0;
    for (uint64_t i = 0; i < HEAD_DIM; i++)
        sum += get(at->device, query + 4 * i) * get(at->device, row + 4 * i);
    return sum;
}

static void attend_head(const struct place *at)
{
    const struct job *job = at->job;
    uint64_t shift = (at->sequence * job->heads + at->head) * HEAD_DIM * 4;
    float values[HEAD_DIM] = {0}, best = -INFINITY, sum = 0;
    for (uint64_t token = 0; token < job->tokens; token++) {
        uint64_t row = row_of(at, token);
        float one = score(at, job->query + shift, row);
        float next = fmaxf(best, one), keep = exp2f(best - next), weight = exp2f(one - next);
        best = next;
        sum = sum * keep + weight;
        for (uint64_t i = 0; i < HEAD_DIM; i++)
            values[i] = values[i] * keep + weight * get(at->device, row + job->plane_bytes + 4 * i);
    }
    for (uint64_t i = 0; i < HEAD_DIM; i++)
        put(at->device, job->out + shift + 4 * i, values[i] / sum);
}

int sim_run_attend(uint32_t device, const uint64_t *arguments)
{
    struct job job;
    for (uint64_t i = 0; i < sizeof job / 8; i++)
        ((uint64_t *)&job)[i] = get_word(device, arguments[0] + 8 * i);
    struct place at = {.device = device, .job = &job, .offset = arguments[1]};
    for (at.sequence = 0; at.sequence < job.sequences; at.sequence++)
        for (at.head = 0; at.head < job.heads; at.head++)
            attend_head(&at);
    return SIM_OK;
}

int sim_run_write_floats(uint32_t device, const uint64_t *arguments)
{
    for (uint64_t i = 0; i < arguments[1]; i++) {
        uint32_t hash = ((uint32_t)i + (uint32_t)arguments[2]) * UINT32_C(2654435761);
        hash = (hash ^ hash >> 15) * UINT32_C(2246822519);
        put(device, arguments[0] + 4 * i, (float)(hash >> 9) * 0x1p-22F - 1);
    }
    return SIM_OK;
}
