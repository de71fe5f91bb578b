/* Responsible for what must be true after each step: its status, the oracles, and that it works
 * once the fault is gone. Asks the product only through the client interface, while the engine
 * pauses. */
#include "tests/faults/rules.h"
#include "tests/faults/world.h"

#include "abi/base/lock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TRY_LIMIT_COUNT 4
#define LIMIT_BYTES (256 * MIB)
#define SAMPLE_NS UINT64_C(1100000000) /* after it a limit is measured anew */

void world_fail(struct world *world, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(world->failure, sizeof world->failure, format, arguments);
    va_end(arguments);
    longjmp(*world->failed, 1);
}

/* ---- Statuses -------------------------------------------------------------------------------- */

/* What the host plugin makes of a system call that wants memory, and the host of its plugin. */
static bool is_of_memory(mbr_status status)
{
    return status == MBR_OUT_OF_MEMORY || status == MBR_OUT_OF_ADDRESSES ||
        status == MBR_OUT_OF_MAPPINGS || status == MBR_SYSTEM;
}

static bool is_of_loader(mbr_status status)
{
    return status == MBR_NOT_A_PLUGIN || status == MBR_UNTRUSTED || status == MBR_SYSTEM ||
        status == MBR_UNKNOWN_OBJECT;
}

static bool is_of_ledger(mbr_status status)
{
    return status == MBR_SYSTEM || status == MBR_UNTRUSTED;
}

static bool is_documented(int kind, mbr_status status)
{
    if (status == MBR_OVER_BUDGET) /* out of memory lowers the limit in force for a while */
        return kind < FAULT_SLOT_COUNT ? fault_rules[kind].status == MBR_OUT_OF_MEMORY ||
                kind >= FAULT_SLOT(mbr_order_vtable, line_open) /* nothing was reaped */
                                       : kind <= FAULT_PLUGIN_HEAP || kind >= FAULT_SHARED_OPEN;
    if (kind < FAULT_SLOT_COUNT)
        return status == fault_rules[kind].status;
    if (kind == FAULT_HEAP || kind == FAULT_PLUGIN_HEAP)
        return status == MBR_OUT_OF_HOST_MEMORY;
    if (kind < FAULT_PLUGIN_HEAP)
        return is_of_memory(status);
    if (kind == FAULT_THREAD)
        return status == MBR_SYSTEM;
    return kind < FAULT_SHARED_OPEN ? is_of_loader(status) : is_of_ledger(status);
}

static void expect_documented(struct world *world, mbr_status status)
{
    bool is_met = false;
    for (uint32_t i = 0; i < FAULT_PLAN_COUNT; i++) {
        const struct fault_plan *plan = fault_plan_met(i);
        is_met |= plan != NULL;
        if (plan != NULL && is_documented(plan->kind, status))
            return;
    }
    bool is_left = status == MBR_RESIDUAL ||
        (world->has_residue &&
            (status == MBR_IN_USE || status == MBR_OVER_BUDGET || status == MBR_BUSY));
    if (!is_met || (!is_left && status != world->also_documented))
        world_fail(world, "%s: status %d, %s: %s", world->step.text, status,
            is_met ? "which is not documented for the fault" : "without a fault",
            world->error.text);
}

/* What the host gives up without a figure: a line, an instance whose end is in doubt, or one that
 * it refused and that then could not be closed. */
static bool leaves_residue(const struct fault_plan *plan)
{
    if (plan == NULL)
        return false;
    bool is_pair = fault_plan_met(0) != NULL && fault_plan_met(1) != NULL;
    switch (plan->kind) {
    case FAULT_SLOT(mbr_order_vtable, line_close):
        return true;
    case FAULT_SLOT(mbr_order_vtable, line_open):
        return plan->after;
    case FAULT_SLOT(mbr_plugin_vtable, close):
    case FAULT_SLOT(mbr_plugin_vtable, quiesce):
        return plan->after || is_pair;
    case FAULT_SLOT(mbr_transfer_vtable, stream_destroy):
    case FAULT_SLOT(mbr_plugin_vtable, report): /* it cannot be seen to be empty */
        return is_pair;
    case FAULT_OS_MUNMAP: /* of the plugin's own close */
        return is_pair;
    default:
        return fault_ends_stream(plan->kind);
    }
}

/* What an abandoned binding could not give back is leaked where it ends, and no call's status says
 * so. */
static bool is_leaked_in_silence(const struct world *world, const struct fault_plan *plan)
{
    if (plan == NULL || !world->has_abandoned)
        return false;
    return plan->kind == FAULT_SLOT(mbr_virtual_vtable, unmap) ||
        plan->kind == FAULT_SLOT(mbr_virtual_vtable, extent_destroy) ||
        plan->kind == FAULT_SLOT(mbr_virtual_vtable, unreserve) ||
        (plan->kind >= FAULT_OS_MMAP && plan->kind < FAULT_PLUGIN_HEAP);
}

/* ---- Oracles --------------------------------------------------------------------------------- */

static uint64_t stamp_of(const struct block *block, uint64_t offset)
{
    return block->seed * UINT64_C(0x9E3779B97F4A7C15) ^ offset;
}

uint64_t *word_at(uint64_t address)
{
    return (uint64_t *)(uintptr_t)fault_hooks.view(address);
}

/* Every granule of what grows; of large blocks a sample, since touching is most of a run's time. */
static uint64_t stride_of(const struct block *block)
{
    return block->bytes <= 64 * PAGE ? PAGE : 64 * PAGE;
}

struct block *block_write(struct world *world, uint64_t address, uint64_t bytes)
{
    struct block *block = world->blocks;
    while (block->bytes != 0)
        block++;
    CHECK(world, block < world->blocks + WORLD_BLOCK_COUNT);
    *block = (struct block){.address = address, .bytes = bytes, .seed = ++world->seed};
    for (uint64_t offset = 0; offset + sizeof(uint64_t) <= bytes; offset += stride_of(block))
        *word_at(address + offset) = stamp_of(block, offset);
    return block;
}

void block_forget(struct world *world, struct block *block)
{
    (void)world;
    if (block != NULL)
        *block = (struct block){0};
}

static void check_contents(struct world *world)
{
    for (const struct block *block = world->blocks; block < world->blocks + WORLD_BLOCK_COUNT;
         block++)
        for (uint64_t offset = 0; offset + sizeof(uint64_t) <= block->bytes;
             offset += stride_of(block))
            if (*word_at(block->address + offset) != stamp_of(block, offset))
                world_fail(world, "O3: %s: block %u lost its contents at %llu", world->step.text,
                    (unsigned)(block - world->blocks), (unsigned long long)offset);
}

/* What is owned is paid for, and is what the plugin's outcomes said; after a residual the host may
 * hold more for owned than there is, never less. */
static void check_ledger(struct world *world)
{
    if (world->mechanism.value == 0 || world->authority.value == 0)
        return;
    mbr_mechanism_figures mechanism = world_mechanism(world);
    mbr_authority_figures books = world_books(world);
    world->has_residue |= mechanism.quarantined_count != 0;
    if (books.charged_bytes != mechanism.owned_bytes)
        world_fail(world, "O1: %s: %llu bytes are owned, %llu charged", world->step.text,
            (unsigned long long)mechanism.owned_bytes, (unsigned long long)books.charged_bytes);
    bool is_forgotten = fault_hooks.is_lost && world->setup->dies; /* without a call */
    if ((mechanism.owned_bytes < fault_hooks.owned_bytes && !is_forgotten) ||
        (!world->has_residue && !is_forgotten && mechanism.owned_bytes != fault_hooks.owned_bytes))
        world_fail(world, "O1: %s: %llu bytes are owned, %llu by the outcomes", world->step.text,
            (unsigned long long)mechanism.owned_bytes, (unsigned long long)fault_hooks.owned_bytes);
    if (mechanism.violation_count != 0)
        world_fail(world, "%s: an honest answer counts as a violation", world->step.text);
    CHECK(world, fault_hooks.late_calls == 0);
}

void world_check(struct world *world)
{
    fault_pause();
    mbr_lock_assert_none_held();
    check_contents(world);
    if (world->manager != NULL) {
        if (world->setup->is_shared) { /* after a look that failed the books agree at the next */
            fault_clock_advance(SAMPLE_NS);
            mbr_manager_poll(world->manager);
        }
        check_ledger(world);
        if (mbr_manager_audit(world->manager, &world->error) != MBR_OK)
            world_fail(world, "O2: %s: %s", world->step.text, world->error.text);
    }
    fault_resume();
}

mbr_mechanism_figures world_mechanism(struct world *world)
{
    mbr_mechanism_figures figures = {MBR_SIZED(mbr_mechanism_figures)};
    fault_pause();
    mbr_status status =
        mbr_manager_read_mechanism(world->manager, world->mechanism, &figures, &world->error);
    fault_resume();
    CHECK(world, status == MBR_OK);
    return figures;
}

mbr_authority_figures world_books(struct world *world)
{
    mbr_authority_figures figures = {MBR_SIZED(mbr_authority_figures)};
    fault_pause();
    mbr_status status =
        mbr_manager_read_authority(world->manager, world->authority, &figures, &world->error);
    fault_resume();
    CHECK(world, status == MBR_OK);
    return figures;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static uint64_t holder_bytes(struct world *world)
{
    mbr_holder_figures figures = {MBR_SIZED(mbr_holder_figures)};
    if (world->holder.value != 0)
        CHECK(world,
            mbr_manager_read_holder(world->manager, world->holder, &figures, &world->error) ==
                MBR_OK);
    return figures.charged_bytes;
}

static uint64_t queued_count(struct world *world)
{
    mbr_ep_figures figures = {MBR_SIZED(mbr_ep_figures)};
    if (world->ep.value != 0)
        CHECK(world, mbr_ep_read(world->manager, world->ep, &figures, &world->error) == MBR_OK);
    return figures.queued_count;
}

static uint64_t quarantined_count(struct world *world)
{
    return world->mechanism.value != 0 ? world_mechanism(world).quarantined_count : 0;
}

void step_begin(struct world *world, const char *text)
{
    fault_pause();
    world->step = (struct step){.text = text,
        .met_before = fault_met_count(),
        .holder_bytes = holder_bytes(world),
        .queued_count = queued_count(world),
        .quarantined_count = quarantined_count(world)};
    fault_resume();
}

/* A step that was refused has changed nothing, but for releases that were due, and those of its own
 * that wait behind a stream. */
static void expect_unchanged(struct world *world)
{
    uint64_t bytes = holder_bytes(world);
    uint64_t queued = queued_count(world);
    if (quarantined_count(world) != world->step.quarantined_count)
        return; /* something is left, or what was left has gone after all */
    bool owes = world->step.may_owe && fault_plan_met(0) != NULL && fault_plan_met(1) != NULL;
    bool is_more = bytes > world->step.holder_bytes && queued <= world->step.queued_count && !owes;
    bool is_less = bytes < world->step.holder_bytes && queued >= world->step.queued_count &&
        !world->step.may_give;
    if (is_more || is_less)
        world_fail(world, "%s was refused, and the holder pays %llu instead of %llu bytes",
            world->step.text, (unsigned long long)bytes,
            (unsigned long long)world->step.holder_bytes);
}

/* What a residue keeps of a tight limit has to be made up for by somebody. */
static void make_up(struct world *world)
{
    uint64_t over_bytes;
    mbr_manager_set_limit(world->manager, world->authority, LIMIT_BYTES, &over_bytes, NULL);
}

static bool judge(struct world *world, mbr_status status)
{
    struct step *step = &world->step;
    for (uint32_t i = 0; i < FAULT_PLAN_COUNT; i++)
        world->has_residue |=
            leaves_residue(fault_plan_met(i)) || is_leaked_in_silence(world, fault_plan_met(i));
    if (status == MBR_RESIDUAL && fault_met_count() != 0)
        world->has_residue = step->was_residual = true;
    if (status == MBR_BUSY && world->has_residue) /* a place that is never used again */
        step->was_residual = true;
    step->status = status;
    if (fault_met_count() != 0)
        world_check(world);
    if (status == MBR_OK)
        return false;
    expect_documented(world, status);
    if (status != MBR_RESIDUAL)
        expect_unchanged(world);
    if (status == MBR_OVER_BUDGET && world->has_residue)
        make_up(world);
    fault_lift();
    fault_clock_advance(SAMPLE_NS); /* time passes, and streams go on */
    streams_run();
    if (++step->try_count == TRY_LIMIT_COUNT)
        world_fail(world, "%s fails without the fault, too: status %d: %s", step->text, status,
            world->error.text);
    return true;
}

bool step_again(struct world *world, mbr_status status)
{
    fault_pause();
    bool again = judge(world, status);
    fault_resume();
    return again;
}

bool end_again(struct world *world, mbr_status status)
{
    bool is_kept = status == MBR_RESIDUAL || (world->has_residue && status == MBR_IN_USE);
    if (!is_kept)
        return step_again(world, status);
    fault_pause();
    expect_documented(world, status);
    world->is_kept = world->has_residue = true;
    world_check(world);
    fault_resume();
    return false;
}
