/* H9: pressure, from a refusal to the grant. Ten holders are asked and each gives a tenth of what
 * is missing. They do nothing of their own: what they take is the answer and the refund, which
 * counts. What brings the books back does not. The baseline has the same holders give with nobody
 * asked. */
#include "governor/ticket.h"
#include "tools/bench/rounds.h"

#define HOLDER_COUNT 10
#define PART_BYTES (UINT64_C(1) << 20)
#define ALL_BYTES (HOLDER_COUNT * PART_BYTES)
#define LIMIT_BYTES (UINT64_C(64) << 20)

typedef struct press_state {
    mbr_governor *governor;
    mbr_authority *authority;
    mbr_holder *waiter;
    mbr_holder *givers[HOLDER_COUNT];
    double apart_ns; /* of this round, not to be counted */
} press_state;

static uint64_t ask(void *context, const mbr_pressure *pressure)
{
    (void)context;
    return pressure->bytes < PART_BYTES ? pressure->bytes : PART_BYTES;
}

static void give(void *context, const mbr_pressure *pressure, uint64_t bytes)
{
    (void)pressure;
    mbr_refund(*(mbr_holder **)context, bytes);
}

/* Everybody has what it had, and the pool is full. */
static bool fill(press_state *state)
{
    bool done = true;
    for (int i = 0; i < HOLDER_COUNT && done; i++) {
        done = mbr_grant(state->givers[i], PART_BYTES, NULL) == MBR_OK;
        if (done)
            mbr_charge(state->givers[i], PART_BYTES);
    }
    return done;
}

static bool refill(press_state *state)
{
    double begin = mbr_bench_own_ns();
    mbr_grant_return(state->waiter, ALL_BYTES);
    bool done = fill(state);
    state->apart_ns += mbr_bench_own_ns() - begin;
    return done;
}

static bool press(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    press_state *state = context;
    mbr_ticket_options wish = {
        .holder = state->waiter, .bytes = ALL_BYTES, .deadline_ns = MBR_NO_DEADLINE};
    for (uint64_t i = 0; i < count; i++) {
        mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
        mbr_ticket *ticket;
        if (mbr_grant(state->waiter, ALL_BYTES, &refusal) != MBR_OVER_BUDGET ||
            mbr_ticket_submit(&wish, &ticket, &refusal, NULL) != MBR_OK)
            return false;
        bool claimed = mbr_ticket_claim(ticket) == MBR_OK;
        mbr_ticket_destroy(ticket);
        if (!claimed || !refill(state))
            return false;
    }
    return true;
}

static bool by_hand(void *context, uint32_t thread, uint64_t count)
{
    (void)thread;
    press_state *state = context;
    for (uint64_t i = 0; i < count; i++) {
        for (int k = 0; k < HOLDER_COUNT; k++)
            mbr_refund(state->givers[k], PART_BYTES);
        if (mbr_grant(state->waiter, ALL_BYTES, NULL) != MBR_OK || !refill(state))
            return false;
    }
    return true;
}

/* ---- The books */
static mbr_status open_holders(press_state *state, mbr_error *error)
{
    mbr_holder_options options = {
        .name = "waiter", .role = MBR_ROLE_KV, .allowance_bytes = MBR_NO_ALLOWANCE};
    mbr_status status = mbr_holder_create(state->authority, &options, &state->waiter, error);
    options.name = "giver";
    for (int i = 0; i < HOLDER_COUNT && status == MBR_OK; i++) {
        options.pressed = (mbr_pressure_callbacks){ask, give, &state->givers[i]};
        status = mbr_holder_create(state->authority, &options, &state->givers[i], error);
    }
    return status;
}

static bool open_books(mbr_bench *bench, press_state *state)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_authority_options options = {
        .name = "bench", .tier = MBR_TIER_HOST, .limit_bytes = LIMIT_BYTES};
    mbr_status status = mbr_governor_create(NULL, &state->governor, &error);
    if (status == MBR_OK)
        status = mbr_authority_create(state->governor, &options, &state->authority, &error);
    if (status == MBR_OK)
        status = open_holders(state, &error);
    if (status == MBR_OK)
        status = mbr_grant(state->waiter, LIMIT_BYTES - ALL_BYTES, NULL); /* of somebody at work */
    if (status != MBR_OK)
        return mbr_bench_fail_status(bench, "the books", status, &error);
    return fill(state) || mbr_bench_fail(bench, "the pool has less than its limit");
}

static bool close_books(mbr_bench *bench, press_state *state)
{
    if (bench->text[0] != '\0')
        return false;
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_grant_return(state->waiter, LIMIT_BYTES - ALL_BYTES);
    mbr_status status = mbr_holder_destroy(state->waiter, &error);
    for (int i = 0; i < HOLDER_COUNT && status == MBR_OK; i++) {
        mbr_refund(state->givers[i], PART_BYTES);
        status = mbr_holder_destroy(state->givers[i], &error);
    }
    if (status == MBR_OK)
        status = mbr_authority_audit(state->authority, &error);
    if (status == MBR_OK)
        status = mbr_authority_destroy(state->authority, &error);
    if (status == MBR_OK)
        status = mbr_governor_destroy(state->governor, &error);
    return status == MBR_OK || mbr_bench_fail_status(bench, "the books", status, &error);
}

static bool run(mbr_bench *bench, mbr_bench_row *rows)
{
    press_state state = {.governor = NULL};
    mbr_contestant sides[] = {
        {.context = &state, .work = press, .apart_ns = &state.apart_ns},
        {.context = &state, .work = by_hand, .apart_ns = &state.apart_ns},
    };
    if (open_books(bench, &state)) {
        if (mbr_bench_rounds(bench, sides, 2, bench->options->rounds))
            mbr_bench_take_time(&rows[0], &sides[0], &sides[1]);
        else
            mbr_bench_fail(bench, "ten holders that offer enough did not bring a grant");
    }
    return close_books(bench, &state);
}

static const mbr_bench_plan plans[] = {
    {"H9", "pressure: from a refusal to the grant, ten holders, without their own time", "ns", "ns",
        "the same ten refunds and a grant, with nobody asked", false, 20000, 50000},
};

const mbr_bench_group mbr_bench_press = {plans, 1, run};
