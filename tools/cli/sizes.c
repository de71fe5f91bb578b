/* Responsible for reading and writing sizes and counts. Never prints, never guesses a unit. */
#include "tools/cli/args.h"

#include "abi/base/checked.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"KB", UINT64_C(1000)},
    {"MB", UINT64_C(1000000)},
    {"GB", UINT64_C(1000000000)},
    {"TB", UINT64_C(1000000000000)},
};

#define UNIT_COUNT (sizeof units / sizeof units[0])

const char *mbr_args_status_text(mbr_args_status status)
{
    static const char *const texts[MBR_ARGS_STATUS_COUNT] = {
        [MBR_ARGS_OK] = "is good",
        [MBR_ARGS_EMPTY] = "is empty",
        [MBR_ARGS_NEGATIVE] = "is negative",
        [MBR_ARGS_NOT_A_NUMBER] = "is not a number",
        [MBR_ARGS_NOT_WHOLE] = "is not a whole number",
        [MBR_ARGS_UNKNOWN_UNIT] = "has an unknown unit",
        [MBR_ARGS_TOO_LARGE] = "is too large",
    };
    return texts[status];
}

/* Reads the digits at *text and leaves *text behind them. */
static mbr_args_status read_digits(const char **text, uint64_t *value)
{
    const char *at = *text;
    bool fits = true;
    *value = 0;
    if (*at == '\0')
        return MBR_ARGS_EMPTY;
    if (*at == '-')
        return MBR_ARGS_NEGATIVE;
    if (*at < '0' || *at > '9')
        return MBR_ARGS_NOT_A_NUMBER;
    for (; *at >= '0' && *at <= '9'; at++)
        fits = fits && mbr_mul(*value, 10, value) && mbr_add(*value, (uint64_t)(*at - '0'), value);
    *text = at;
    if (*at == '.')
        return MBR_ARGS_NOT_WHOLE;
    return fits && *value <= MBR_ARGS_MAX ? MBR_ARGS_OK : MBR_ARGS_TOO_LARGE;
}

mbr_args_status mbr_args_parse_size(const char *text, uint64_t *bytes)
{
    uint64_t value, unit = 0;
    *bytes = 0;
    mbr_args_status status = read_digits(&text, &value);
    if (status != MBR_ARGS_OK)
        return status;
    if (text[0] == ' ' && text[1] != '\0')
        text++;
    while (unit < UNIT_COUNT && strcasecmp(text, units[unit].name) != 0)
        unit++;
    if (unit == UNIT_COUNT)
        return MBR_ARGS_UNKNOWN_UNIT;
    if (!mbr_mul(value, units[unit].bytes, &value) || value > MBR_ARGS_MAX)
        return MBR_ARGS_TOO_LARGE;
    *bytes = value;
    return MBR_ARGS_OK;
}

mbr_args_status mbr_args_parse_count(const char *text, uint64_t *count)
{
    uint64_t value;
    *count = 0;
    mbr_args_status status = read_digits(&text, &value);
    if (status != MBR_ARGS_OK)
        return status;
    if (*text != '\0')
        return MBR_ARGS_UNKNOWN_UNIT;
    *count = value;
    return MBR_ARGS_OK;
}

const char *mbr_args_format_bytes(char *out, size_t room, uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    uint32_t unit = 0;
    /* From 1023.95 on one decimal would read 1024.0. */
    while (value >= 1023.95 && unit < 6) {
        value /= 1024;
        unit++;
    }
    bool whole = value == (double)(uint64_t)value;
    snprintf(out, room, whole ? "%.0f %s" : "%.1f %s", value, names[unit]);
    return out;
}
