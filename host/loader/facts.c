/* Reads and validates a mechanism's facts. An unknown fact gets the default that promises least; a
 * known one with an impossible value refuses the mechanism, because every size that the host ever
 * computes would stand on it. */
#include "host/loader/facts.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/lock.h"
#include "host/loader/call.h"

#include <inttypes.h>

#define FACT_COUNT (MBR_FACT_QUIRKS + 1)

typedef enum fact_rule {
    RULE_ANY,
    RULE_POWER_OF_TWO,
    RULE_ABOVE_ZERO,
    RULE_UP_TO, /* `most` */
} fact_rule;

static const struct {
    const char *name;
    fact_rule rule;
    uint64_t most;
    uint64_t otherwise; /* what an unknown one counts as */
} facts[FACT_COUNT] = {
    [MBR_FACT_GRANULE_MIN_BYTES] = {"GRANULE_MIN_BYTES", RULE_POWER_OF_TWO, 0, 0},
    [MBR_FACT_GRANULE_RECOMMENDED_BYTES] = {"GRANULE_RECOMMENDED_BYTES", RULE_ABOVE_ZERO, 0, 0},
    [MBR_FACT_EXTENT_MAX_BYTES] = {"EXTENT_MAX_BYTES", RULE_ABOVE_ZERO, 0, UINT64_MAX},
    [MBR_FACT_RESERVATION_MAX_BYTES] = {"RESERVATION_MAX_BYTES", RULE_ABOVE_ZERO, 0, UINT64_MAX},
    [MBR_FACT_ALLOCATION_ALIGN_BYTES] = {"ALLOCATION_ALIGN_BYTES", RULE_POWER_OF_TWO, 0, 1},
    [MBR_FACT_ALLOCATION_ROUND_BYTES] = {"ALLOCATION_ROUND_BYTES", RULE_ABOVE_ZERO, 0, 1},
    [MBR_FACT_FRESH_CONTENT] = {"FRESH_CONTENT", RULE_UP_TO, MBR_CONTENT_ZERO,
        MBR_CONTENT_UNDEFINED},
    [MBR_FACT_USABLE_AFTER_PROTECT] = {"USABLE_AFTER_PROTECT", RULE_UP_TO, 1, 0},
    [MBR_FACT_UNMAP_SPANS_MAPPINGS] = {"UNMAP_SPANS_MAPPINGS", RULE_UP_TO, 1, 0},
    [MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY] = {"PROTECT_MAY_FAIL_SPURIOUSLY", RULE_UP_TO, 1, 0},
    [MBR_FACT_ALIASING] = {"ALIASING", RULE_UP_TO, 1, 0},
    [MBR_FACT_READ_ONLY_ENFORCED] = {"READ_ONLY_ENFORCED", RULE_UP_TO, 1, 0},
    [MBR_FACT_UNMAP_WAITS_FOR_DEVICE] = {"UNMAP_WAITS_FOR_DEVICE", RULE_UP_TO, 1, 0},
    [MBR_FACT_PAST_PHYSICAL_SIZE] = {"PAST_PHYSICAL_SIZE", RULE_UP_TO, MBR_PAST_KILL,
        MBR_PAST_KILL},
    [MBR_FACT_RELEASABLE_AFTER_LOSS] = {"RELEASABLE_AFTER_LOSS", RULE_UP_TO, 1, 0},
    [MBR_FACT_HOST_ACCESSIBLE] = {"HOST_ACCESSIBLE", RULE_UP_TO, 1, 0},
    [MBR_FACT_FORK_SAFE] = {"FORK_SAFE", RULE_UP_TO, 1, 0},
    [MBR_FACT_DESCRIPTORS_PER_EXTENT] = {"DESCRIPTORS_PER_EXTENT", RULE_ANY, 0, 0},
    [MBR_FACT_POPULATED] = {"POPULATED", RULE_UP_TO, 1, 0},
    [MBR_FACT_QUIRKS] = {"QUIRKS", RULE_ANY, 0, 0},
};

static mbr_status refuse(uint32_t fact, uint64_t value, const char *allowed, mbr_error *error)
{
    return mbr_fail(error, MBR_CONTRACT_BROKEN, "fact %s (%u) is %" PRIu64 ", which is not %s",
        facts[fact].name, fact, value, allowed);
}

static mbr_status judge(uint32_t fact, uint64_t value, mbr_error *error)
{
    switch (facts[fact].rule) {
    case RULE_POWER_OF_TWO:
        return mbr_is_power_of_two(value) ? MBR_OK : refuse(fact, value, "a power of two", error);
    case RULE_ABOVE_ZERO:
        return value > 0 ? MBR_OK : refuse(fact, value, "above 0", error);
    case RULE_UP_TO:
        if (value <= facts[fact].most)
            return MBR_OK;
        return refuse(fact, value, facts[fact].most == 1 ? "0 or 1" : "a defined value", error);
    case RULE_ANY:
        break;
    }
    return MBR_OK;
}

static mbr_status read_fact(
    const mbr_mechanism *mechanism, uint32_t fact, uint64_t *value, mbr_error *error)
{
    mbr_fact_request request = {MBR_SIZED(mbr_fact_request), .fact = fact};
    mbr_fact_outcome outcome = {MBR_SIZED(mbr_fact_outcome)};
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_lock_assert_none_held();
    mbr_status status = mechanism->allocator.fact(mechanism->instance, &request, &outcome, &own);
    if (MBR_STATUS_CLASS(status) == MBR_CLASS_UNSUPPORTED) {
        *value = facts[fact].otherwise;
        return MBR_OK;
    }
    status = mbr_answer_take("allocator.fact", status, &own, error);
    if (status != MBR_OK)
        return status;
    *value = outcome.value;
    return judge(fact, *value, error);
}

/* A granule must be known where memory is mapped in granules; the other sizes hold at least one. */
static mbr_status judge_granules(bool has_virtual, uint64_t *value, mbr_error *error)
{
    uint64_t granule = value[MBR_FACT_GRANULE_MIN_BYTES];
    if (!has_virtual)
        return MBR_OK;
    if (granule == 0)
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "fact GRANULE_MIN_BYTES (%d) is unknown, and membrane.virtual is offered: it must be a "
            "power of two",
            MBR_FACT_GRANULE_MIN_BYTES);
    if (value[MBR_FACT_GRANULE_RECOMMENDED_BYTES] == 0)
        value[MBR_FACT_GRANULE_RECOMMENDED_BYTES] = granule;
    if (value[MBR_FACT_GRANULE_RECOMMENDED_BYTES] % granule != 0)
        return refuse(MBR_FACT_GRANULE_RECOMMENDED_BYTES, value[MBR_FACT_GRANULE_RECOMMENDED_BYTES],
            "a multiple of GRANULE_MIN_BYTES", error);
    static const uint32_t sizes[] = {MBR_FACT_EXTENT_MAX_BYTES, MBR_FACT_RESERVATION_MAX_BYTES};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (value[sizes[i]] < granule)
            return refuse(sizes[i], value[sizes[i]], "at least GRANULE_MIN_BYTES", error);
    return MBR_OK;
}

static void take_facts(mbr_mechanism *mechanism, const uint64_t *value)
{
    mechanism->granule_min_bytes = value[MBR_FACT_GRANULE_MIN_BYTES];
    mechanism->granule_recommended_bytes = value[MBR_FACT_GRANULE_RECOMMENDED_BYTES];
    mechanism->extent_max_bytes = value[MBR_FACT_EXTENT_MAX_BYTES];
    mechanism->reservation_max_bytes = value[MBR_FACT_RESERVATION_MAX_BYTES];
    mechanism->allocation_align_bytes = value[MBR_FACT_ALLOCATION_ALIGN_BYTES];
    mechanism->allocation_round_bytes = value[MBR_FACT_ALLOCATION_ROUND_BYTES];
    mechanism->fresh_content = (uint32_t)value[MBR_FACT_FRESH_CONTENT];
    mechanism->past_physical_size = (uint32_t)value[MBR_FACT_PAST_PHYSICAL_SIZE];
    mechanism->descriptors_per_extent = value[MBR_FACT_DESCRIPTORS_PER_EXTENT];
    mechanism->usable_after_protect = value[MBR_FACT_USABLE_AFTER_PROTECT] == 1;
    mechanism->unmap_spans_mappings = value[MBR_FACT_UNMAP_SPANS_MAPPINGS] == 1;
    mechanism->unmap_waits_for_device = value[MBR_FACT_UNMAP_WAITS_FOR_DEVICE] == 1;
    mechanism->protect_may_fail_spuriously = value[MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY] == 1;
    mechanism->aliasing = value[MBR_FACT_ALIASING] == 1;
    mechanism->read_only_enforced = value[MBR_FACT_READ_ONLY_ENFORCED] == 1;
    mechanism->releasable_after_loss = value[MBR_FACT_RELEASABLE_AFTER_LOSS] == 1;
    mechanism->host_accessible = value[MBR_FACT_HOST_ACCESSIBLE] == 1;
    mechanism->fork_safe = value[MBR_FACT_FORK_SAFE] == 1;
    mechanism->populated = value[MBR_FACT_POPULATED] == 1;
    mechanism->quirks = value[MBR_FACT_QUIRKS];
}

mbr_status mbr_facts_read(mbr_mechanism *mechanism, mbr_error *error)
{
    uint64_t value[FACT_COUNT] = {0};
    for (uint32_t fact = MBR_FACT_GRANULE_MIN_BYTES; fact < FACT_COUNT; fact++) {
        mbr_status status = read_fact(mechanism, fact, &value[fact], error);
        if (status != MBR_OK)
            return status;
    }
    mbr_status status = judge_granules(mechanism->has_virtual, value, error);
    if (status == MBR_OK)
        take_facts(mechanism, value);
    return status;
}
