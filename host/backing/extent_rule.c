/* Responsible for the one question how large the extent at an offset is, in closed form.
 * Never knows a geometry, a mechanism or a reservation, and never holds state. */
#include "host/backing/extent_rule.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

bool mbr_extent_rule_is_valid(const mbr_extent_rule *rule)
{
    return rule->granule_bytes != 0 && rule->unit_bytes != 0 && rule->max_bytes != 0 &&
        rule->unit_bytes % rule->granule_bytes == 0;
}

mbr_extent_rule mbr_extent_rule_fixed(uint64_t granule_bytes, uint64_t extent_bytes)
{
    mbr_extent_rule rule = {granule_bytes, extent_bytes, extent_bytes, 0};
    MBR_ASSERT(mbr_extent_rule_is_valid(&rule));
    return rule;
}

mbr_extent_rule mbr_extent_rule_growing(uint64_t granule_bytes, uint64_t unit_bytes)
{
    mbr_extent_rule rule = {granule_bytes, unit_bytes, MBR_EXTENT_RULE_DEFAULT_MAX_BYTES,
        MBR_EXTENT_RULE_DEFAULT_DIVISOR};
    MBR_ASSERT(mbr_extent_rule_is_valid(&rule));
    return rule;
}

/* Floor of the binary logarithm; 0 for 0, because the smallest class has no lower neighbour. */
static uint32_t log2_floor(uint64_t value)
{
    return value == 0 ? 0 : 63U - (uint32_t)__builtin_clzll(value);
}

/* The class of the largest extents. A unit above the limit leaves a single class. */
static uint32_t class_last(const mbr_extent_rule *rule)
{
    return rule->divisor == 0 ? 0 : log2_floor(rule->max_bytes / rule->unit_bytes);
}

/* The class k of the extent around the unit with this index: floor(unit_index / divisor) is at
 * least 2^k exactly where unit * 2^k <= offset / divisor, and it needs no product that overflows.
 */
static uint32_t class_of(const mbr_extent_rule *rule, uint64_t unit_index)
{
    if (rule->divisor == 0)
        return 0;
    uint32_t grown = log2_floor(unit_index / rule->divisor);
    uint32_t last = class_last(rule);
    return grown < last ? grown : last;
}

/* Units before the first extent of this class; class 0 starts the reservation. The caller's class
 * comes from an existing unit index, so the product is at most that index. */
static uint64_t class_start_units(const mbr_extent_rule *rule, uint32_t class)
{
    return class == 0 ? 0 : rule->divisor << class;
}

/* Extents before the first one of this class: 2 * divisor in class 0, then divisor in each. */
static uint64_t class_start_index(const mbr_extent_rule *rule, uint32_t class)
{
    return class == 0 ? 0 : rule->divisor * (1 + (uint64_t) class);
}

uint64_t mbr_extent_rule_size_at(const mbr_extent_rule *rule, uint64_t offset)
{
    MBR_ASSERT(mbr_extent_rule_is_valid(rule));
    return rule->unit_bytes << class_of(rule, offset / rule->unit_bytes);
}

uint64_t mbr_extent_rule_start_at(const mbr_extent_rule *rule, uint64_t offset)
{
    return mbr_align_down(offset, mbr_extent_rule_size_at(rule, offset));
}

bool mbr_extent_rule_next_boundary(const mbr_extent_rule *rule, uint64_t offset, uint64_t *boundary)
{
    *boundary = 0;
    return mbr_align_up(offset, mbr_extent_rule_size_at(rule, offset), boundary);
}

uint64_t mbr_extent_rule_count(const mbr_extent_rule *rule, uint64_t bytes)
{
    MBR_ASSERT(mbr_extent_rule_is_valid(rule));
    if (bytes == 0)
        return 0;
    uint64_t unit_index = (bytes - 1) / rule->unit_bytes;
    uint32_t class = class_of(rule, unit_index);
    uint64_t inside = (unit_index - class_start_units(rule, class)) >> class;
    return class_start_index(rule, class) + inside + 1;
}

/* The class of the extent with this index, the inverse of class_start_index. */
static uint32_t class_of_index(const mbr_extent_rule *rule, uint64_t index)
{
    uint32_t last = class_last(rule);
    if (last == 0 || index / rule->divisor < 2)
        return 0;
    return (uint32_t)mbr_min(index / rule->divisor - 1, last);
}

bool mbr_extent_rule_offset_of(const mbr_extent_rule *rule, uint64_t index, uint64_t *offset)
{
    MBR_ASSERT(mbr_extent_rule_is_valid(rule));
    *offset = 0;
    uint32_t class = class_of_index(rule, index);
    uint64_t inside = index - class_start_index(rule, class);
    uint64_t start, units, bytes;
    bool fits = mbr_mul(class == 0 ? 0 : rule->divisor, UINT64_C(1) << class, &start) &&
        mbr_mul(inside, UINT64_C(1) << class, &units) && mbr_add(start, units, &units) &&
        mbr_mul(units, rule->unit_bytes, &bytes);
    if (fits)
        *offset = bytes;
    return fits;
}
