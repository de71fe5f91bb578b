/* Checked arithmetic on sizes. Every product, sum and rounding of bytes in Membrane goes through
 * these functions, so that an overflow is a refusal and never a small number (invariant I17).
 * Each returns false on overflow and leaves *out untouched. */
#ifndef MEMBRANE_BASE_CHECKED_H
#define MEMBRANE_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool mbr_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

static inline bool mbr_sub(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b > a)
        return false;
    *out = a - b;
    return true;
}

static inline bool mbr_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

static inline bool mbr_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Rounds down to a multiple of `unit`, which is any number above 0. */
static inline uint64_t mbr_align_down(uint64_t value, uint64_t unit)
{
    return value - value % unit;
}

/* Rounds up to a multiple of `unit`, which is any number above 0. */
static inline bool mbr_align_up(uint64_t value, uint64_t unit, uint64_t *out)
{
    uint64_t rest = value % unit;
    return mbr_add(value, rest == 0 ? 0 : unit - rest, out);
}

static inline uint64_t mbr_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t mbr_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
