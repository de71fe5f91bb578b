/* Responsible for counting calls and naming the one that fails. Makes no call of the product. */
#include "tests/faults/fault.h"

#include <stdio.h>
#include <string.h>

#define CALL_LIMIT_COUNT 4096 /* of one kind in one run */

static struct {
    struct fault_plan plans[FAULT_PLAN_COUNT];
    uint32_t plan_count, plans_met;
    uint64_t met_count;
    uint64_t counts[FAULT_KIND_COUNT];
    bool has_after[FAULT_KIND_COUNT][CALL_LIMIT_COUNT];
    bool is_lifted;
} run;
static _Thread_local bool is_here;
static _Thread_local uint32_t pause_count;

void fault_begin(const struct fault_plan *plans, uint32_t plan_count)
{
    memset(run.counts, 0, sizeof run.counts);
    run.plans_met = 0;
    run.met_count = 0;
    run.is_lifted = false;
    run.plan_count = plan_count;
    for (uint32_t i = 0; i < plan_count; i++)
        run.plans[i] = plans[i];
    is_here = true;
    pause_count = 0;
}

static bool meets(const struct fault_plan *plan, int kind, uint64_t ordinal)
{
    if (plan->ordinal == 0 || plan->kind != kind)
        return false;
    return ordinal == plan->ordinal ||
        (plan->for_good && !run.is_lifted && ordinal > plan->ordinal);
}

enum fault_verdict fault_meet(int kind, bool has_after)
{
    if (!is_here || pause_count != 0)
        return FAULT_NONE;
    uint64_t ordinal = ++run.counts[kind];
    if (ordinal < CALL_LIMIT_COUNT)
        run.has_after[kind][ordinal] = has_after;
    for (uint32_t i = 0; i < run.plan_count; i++) {
        if (!meets(&run.plans[i], kind, ordinal))
            continue;
        run.plans_met |= 1U << i;
        run.met_count++;
        return run.plans[i].after && has_after ? FAULT_AFTER : FAULT_BEFORE;
    }
    return FAULT_NONE;
}

void fault_pause(void)
{
    pause_count++;
}

void fault_resume(void)
{
    pause_count--;
}

void fault_lift(void)
{
    run.is_lifted = true;
}

uint64_t fault_met_count(void)
{
    return run.met_count;
}

const struct fault_plan *fault_plan_met(uint32_t index)
{
    return (run.plans_met & 1U << index) != 0 ? &run.plans[index] : NULL;
}

uint64_t fault_call_count(int kind)
{
    return run.counts[kind];
}

bool fault_has_after(int kind, uint64_t ordinal)
{
    return ordinal < CALL_LIMIT_COUNT && run.has_after[kind][ordinal];
}

#define SLOT_NAME(table, slot, request, outcome, minor, serial)                                    \
    [FAULT_SLOT(table, slot)] = #table "." #slot,
#define CALL_NAME(kind, name) [kind] = name,
#define DRIVER_NAME(member, name, parameters) [FAULT_DRIVER(name)] = #name,

static const char *const names[FAULT_KIND_COUNT] = {
    FAULT_ALL_SLOTS(SLOT_NAME) FAULT_HOST_PLUGIN_CALLS(CALL_NAME) MBR_CUDA_FUNCTIONS(DRIVER_NAME)
        FAULT_HIP_FUNCTIONS(DRIVER_NAME) FAULT_HOST_CALLS(CALL_NAME)};

/* mbr_virtual_vtable.map is virtual.map. */
static void shorten(char name[64], const char *whole)
{
    const char *vtable = strstr(whole, "_vtable.");
    if (vtable == NULL)
        snprintf(name, 64, "%s", whole);
    else
        snprintf(
            name, 64, "%.*s.%s", (int)(vtable - whole - 4), whole + 4, vtable + strlen("_vtable."));
}

const char *fault_kind_name(int kind)
{
    static char shortened[FAULT_KIND_COUNT][64];
    if (shortened[kind][0] == '\0')
        shorten(shortened[kind], names[kind]);
    return shortened[kind];
}

int fault_kind_find(const char *name)
{
    for (int kind = 0; kind < FAULT_KIND_COUNT; kind++)
        if (strcmp(fault_kind_name(kind), name) == 0)
            return kind;
    return -1;
}
