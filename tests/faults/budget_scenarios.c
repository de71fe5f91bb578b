/* Scenarios of budgets: tickets, lending, limits, pressure, admission, the shared ledger. */
#include "tests/faults/world.h"

#include <stdlib.h>

static mbr_holder_handle make_holder(
    struct world *world, const char *name, uint64_t allowance_bytes, uint32_t flags)
{
    mbr_holder_request request = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_KV,
        .authority = world->authority, .name = name, .allowance_bytes = allowance_bytes,
        .flags = flags};
    mbr_holder_handle holder;
    STEP(world, mbr_manager_create_holder(world->manager, &request, &holder, &world->error));
    return holder;
}

/* One that still pays for a residue is ended with the world. */
static void end_holder(struct world *world, mbr_holder_handle holder)
{
    END(world, mbr_manager_destroy_holder(world->manager, holder, &world->error));
    mbr_holder_figures figures = {MBR_SIZED(mbr_holder_figures)};
    if (mbr_manager_read_holder(world->manager, holder, &figures, &world->error) == MBR_OK)
        world->late_holders[world->late_holder_count++] = holder;
}

static void fill_up(struct world *world, struct range *range, uint64_t bytes)
{
    range_reserve(world, range, 256 * KIB, PAGE);
    range_grow(world, range, bytes);
}

static mbr_ticket_handle submit(struct world *world, uint64_t bytes, uint64_t timeout_ns)
{
    mbr_ticket_request request = {MBR_SIZED(mbr_ticket_request), .holder = world->holder,
        .bytes = bytes, .timeout_ns = timeout_ns};
    mbr_ticket_handle ticket;
    mbr_refusal refusal = {MBR_SIZED(mbr_refusal)};
    STEP(world,
        mbr_manager_submit_ticket(world->manager, &request, &ticket, &refusal, &world->error));
    return ticket;
}

static uint32_t state_of(struct world *world, mbr_ticket_handle ticket)
{
    uint32_t state;
    STEP(world, mbr_manager_read_ticket(world->manager, ticket, &state, &world->error));
    return state;
}

static void end_ticket(struct world *world, mbr_ticket_handle ticket)
{
    STEP(world, mbr_manager_end_ticket(world->manager, ticket, &world->error));
}

/* A residue may keep the bytes that it waits for: then it never is granted. */
static void granted(struct world *world)
{
    struct range first = {0}, second = {0};
    fill_up(world, &first, 12 * PAGE);
    mbr_ticket_handle ticket = submit(world, 8 * PAGE, MBR_NO_DEADLINE);
    range_release(world, &first, 0);
    world_trim(world);
    world_poll(world);
    if (state_of(world, ticket) == MBR_TICKET_GRANTED) {
        STEP(world, mbr_manager_claim_ticket(world->manager, ticket, &world->error));
        range_reserve(world, &second, 256 * KIB, PAGE);
        range_grow(world, &second, 4 * PAGE);
        range_release(world, &second, 0);
    } else {
        CHECK(world, fault_met_count() != 0);
    }
    end_ticket(world, ticket);
    STEP(world, mbr_manager_return_aside(world->manager, world->holder, NULL, &world->error));
}

static void cancelled(struct world *world)
{
    struct range first = {0};
    fill_up(world, &first, 12 * PAGE);
    mbr_ticket_handle one = submit(world, 8 * PAGE, MBR_NO_DEADLINE);
    mbr_ticket_handle other = submit(world, PAGE, MBR_NO_DEADLINE);
    end_ticket(world, one);
    STEP(world, mbr_manager_retire_tickets(world->manager, world->authority, &world->error));
    end_ticket(world, other);
    range_release(world, &first, 0);
}

static void timed_out(struct world *world)
{
    struct range first = {0};
    fill_up(world, &first, 12 * PAGE);
    mbr_ticket_handle ticket = submit(world, 8 * PAGE, 50000000);
    fault_clock_advance(60000000);
    world_poll(world);
    uint32_t state = state_of(world, ticket);
    CHECK(world, state == MBR_TICKET_TIMED_OUT || fault_met_count() != 0);
    end_ticket(world, ticket);
    range_release(world, &first, 0);
}

/* A borrower takes what another's allowance leaves, and gives it back. */
static void lending(struct world *world)
{
    mbr_holder_handle lender = make_holder(world, "lender", 16 * PAGE, 0);
    mbr_holder_handle borrower = make_holder(world, "borrower", 4 * PAGE, MBR_HOLDER_BORROWS);
    mbr_holder_handle usual = world->holder;
    world->holder = borrower;
    struct range range = {0}, other = {0};
    fill_up(world, &range, 9 * PAGE);
    range_shrink(world, &range, 4 * PAGE, 0);
    world_trim(world);
    world->holder = lender;
    fill_up(world, &other, 6 * PAGE);
    range_release(world, &other, 0);
    world->holder = borrower;
    range_release(world, &range, 0);
    world->holder = usual;
    end_holder(world, borrower);
    end_holder(world, lender);
}

struct giver {
    struct world *world;
    struct range range;
};

static uint64_t ask(void *context, const mbr_pressure *pressure)
{
    (void)pressure;
    return ((struct giver *)context)->range.committed_bytes;
}

/* Inside another step: it only calls. What fails is given later. */
static void give(void *context, const mbr_pressure *pressure, uint64_t bytes)
{
    (void)pressure;
    (void)bytes;
    struct giver *giver = context;
    mbr_range_release_request request = {MBR_SIZED(mbr_range_release_request),
        .flags = MBR_FREE_NOW, .piece = {giver->range.handle, 0, giver->range.committed_bytes}};
    mbr_range_decommit_result result = {MBR_SIZED(mbr_range_decommit_result)};
    struct block kept = {0};
    if (giver->range.block != NULL)
        kept = *giver->range.block;
    block_forget(giver->world, giver->range.block);
    if (mbr_range_decommit(giver->world->manager, &request, &result, NULL) == MBR_OK)
        giver->range.committed_bytes = 0;
    else if (giver->range.block != NULL)
        *giver->range.block = kept;
    if (giver->range.committed_bytes == 0)
        giver->range.block = NULL;
}

static void lower(struct world *world, bool restores)
{
    struct giver giver = {.world = world};
    mbr_holder_request request = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_KV,
        .authority = world->authority, .name = "giver", .allowance_bytes = MBR_NO_ALLOWANCE,
        .pressed = {ask, give, &giver}};
    mbr_holder_handle holder, usual = world->holder;
    STEP(world, mbr_manager_create_holder(world->manager, &request, &holder, &world->error));
    world->holder = holder;
    fill_up(world, &giver.range, 12 * PAGE);
    world->holder = usual;
    mbr_limit_change change = {MBR_SIZED(mbr_limit_change),
        .flags = restores ? MBR_LIMIT_RESTORE : 0, .limit_bytes = 10 * PAGE,
        .expected_revision = MBR_ANY_REVISION};
    mbr_limit_answer answer = {MBR_SIZED(mbr_limit_answer)};
    STEP(world,
        mbr_manager_change_limit(
            world->manager, world->authority, &change, &answer, &world->error));
    CHECK(world, answer.kind == MBR_LIMIT_APPLIED || fault_met_count() != 0);
    uint64_t over_bytes;
    STEP(world,
        mbr_manager_set_limit(world->manager, world->authority, MIB, &over_bytes, &world->error));
    range_release(world, &giver.range, 0);
    world_trim(world);
    end_holder(world, holder);
}

static void lowered(struct world *world)
{
    lower(world, false);
}

static void restored(struct world *world)
{
    lower(world, true);
}

static void admitted(struct world *world)
{
    mbr_admission_handle admission;
    STEP(world,
        mbr_manager_create_admission(world->manager, world->holder, &admission, &world->error));
    uint64_t members[2];
    for (uint32_t i = 0; i < 2; i++) {
        STEP(world,
            mbr_manager_admit(
                world->manager, admission, 6 * PAGE, &members[i], NULL, &world->error));
        STEP(world,
            mbr_manager_grow_member(
                world->manager, admission, members[i], 2 * PAGE, NULL, &world->error));
    }
    STEP(world,
        mbr_manager_shrink_member(world->manager, admission, members[0], PAGE, &world->error));
    for (uint32_t i = 0; i < 2; i++)
        STEP(world, mbr_manager_dismiss(world->manager, admission, members[i], &world->error));
    STEP(world, mbr_manager_destroy_admission(world->manager, admission, &world->error));
}

static void shared_use(struct world *world)
{
    struct range range = {0};
    fill_up(world, &range, 8 * PAGE);
    struct block *block = alloc_now(world, 3 * MIB);
    fault_clock_advance(UINT64_C(1100000000));
    world_poll(world);
    free_now(world, block);
    range_release(world, &range, 0);
    world_trim(world);
    fault_clock_advance(UINT64_C(1100000000));
    world_poll(world);
}

/* A second member of the ledger, in the same process. */
static void shared_two(struct world *world)
{
    mbr_authority_request request = {MBR_SIZED(mbr_authority_request), .tier = MBR_TIER_HOST,
        .name = "second", .limit_bytes = 64 * MIB, .shared = "pool",
        .shared_folder = getenv("TEST_TMPDIR")};
    mbr_authority_handle second;
    STEP(world, mbr_manager_create_authority(world->manager, &request, &second, &world->error));
    struct range range = {0};
    fill_up(world, &range, 8 * PAGE);
    range_release(world, &range, 0);
    fault_clock_advance(UINT64_C(1100000000));
    world_poll(world);
    STEP(world, mbr_manager_destroy_authority(world->manager, second, &world->error));
}

const struct scenario budget_scenarios[] = {
    {.name = "ticket_granted", .run = granted, .setup = {.limit_bytes = 16 * PAGE}},
    {.name = "ticket_cancelled", .run = cancelled, .setup = {.limit_bytes = 16 * PAGE}},
    {.name = "ticket_timed_out", .run = timed_out, .setup = {.limit_bytes = 16 * PAGE}},
    {.name = "holder_lending", .run = lending, .setup = {.limit_bytes = 64 * PAGE}},
    {.name = "limit_lowered", .run = lowered, .setup = {.limit_bytes = 16 * PAGE}},
    {.name = "limit_restored", .run = restored, .setup = {.limit_bytes = 16 * PAGE}},
    {.name = "admission", .run = admitted},
    {.name = "shared_two", .run = shared_two, .setup = {.is_shared = true}},
    {.name = "shared_use", .run = shared_use, .setup = {.is_shared = true}},
    {0},
};
