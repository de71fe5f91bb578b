/* Azure LLM inference traces: CSV with TIMESTAMP as a date and time. The files of 2023 write
 * 2023-11-16 18:15:46.6805900, those of 2024 add +00:00; both are taken, and a time without an
 * offset is UTC. */
#include "tools/cli/trace/reader.h"

#include "abi/base/checked.h"

#define FIRST_YEAR 1970
#define LAST_YEAR 2199 /* below MBR_TRACE_MAX_TIME_SECONDS */

typedef struct cursor {
    const char *text;
    size_t length;
    size_t at;
} cursor;

static bool take_char(cursor *from, char c)
{
    if (from->at == from->length || from->text[from->at] != c)
        return false;
    from->at++;
    return true;
}

/* Exactly `digit_count` digits with a value from `least` to `most`. */
static bool take_number(
    cursor *from, uint32_t digit_count, uint32_t least, uint32_t most, uint32_t *out)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < digit_count; i++, from->at++) {
        char c = from->at < from->length ? from->text[from->at] : '\0';
        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (uint32_t)(c - '0');
    }
    *out = value;
    return value >= least && value <= most;
}

static bool is_leap(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static uint32_t days_in_month(uint32_t year, uint32_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year) ? 1u : 0u);
}

static bool take_date(cursor *from, uint64_t *out_days)
{
    uint32_t year;
    uint32_t month;
    uint32_t day;
    if (!take_number(from, 4, FIRST_YEAR, LAST_YEAR, &year) || !take_char(from, '-') ||
        !take_number(from, 2, 1, 12, &month) || !take_char(from, '-') ||
        !take_number(from, 2, 1, days_in_month(year, month), &day))
        return false;
    uint64_t days = day - 1;
    for (uint32_t before = FIRST_YEAR; before < year; before++)
        days += is_leap(before) ? 366 : 365;
    for (uint32_t before = 1; before < month; before++)
        days += days_in_month(year, before);
    *out_days = days;
    return true;
}

static bool take_time_of_day(cursor *from, uint64_t *out_seconds)
{
    uint32_t hour;
    uint32_t minute;
    uint32_t second;
    if (!take_number(from, 2, 0, 23, &hour) || !take_char(from, ':') ||
        !take_number(from, 2, 0, 59, &minute) || !take_char(from, ':') ||
        !take_number(from, 2, 0, 59, &second))
        return false;
    *out_seconds = (uint64_t)hour * 3600 + minute * 60 + second;
    return true;
}

/* Nothing, or a point and one to nine digits. */
static bool take_fraction(cursor *from, uint64_t *out_ns)
{
    *out_ns = 0;
    if (!take_char(from, '.'))
        return true;
    uint64_t unit_ns = UINT64_C(1000000000);
    uint32_t digit;
    while (unit_ns > 1 && take_number(from, 1, 0, 9, &digit)) {
        unit_ns /= 10;
        *out_ns += digit * unit_ns;
    }
    return unit_ns < UINT64_C(1000000000);
}

/* Nothing, Z, or +HH:MM or -HH:MM, which is how far local time is ahead of UTC. */
static bool take_offset(cursor *from, int64_t *out_seconds)
{
    *out_seconds = 0;
    if (from->at == from->length || take_char(from, 'Z'))
        return true;
    bool is_behind = take_char(from, '-');
    if (!is_behind && !take_char(from, '+'))
        return false;
    uint32_t hours;
    uint32_t minutes;
    if (!take_number(from, 2, 0, 14, &hours) || !take_char(from, ':') ||
        !take_number(from, 2, 0, 59, &minutes))
        return false;
    int64_t seconds = (int64_t)hours * 3600 + (int64_t)minutes * 60;
    *out_seconds = is_behind ? -seconds : seconds;
    return true;
}

static mbr_number_status parse_timestamp(const char *text, size_t length_bytes, uint64_t *out_ns)
{
    *out_ns = 0;
    if (length_bytes == 0)
        return MBR_NUMBER_EMPTY;
    cursor from = {.text = text, .length = length_bytes};
    uint64_t days;
    uint64_t seconds;
    uint64_t fraction_ns;
    int64_t offset_seconds;
    if (!take_date(&from, &days) || (!take_char(&from, ' ') && !take_char(&from, 'T')) ||
        !take_time_of_day(&from, &seconds) || !take_fraction(&from, &fraction_ns) ||
        !take_offset(&from, &offset_seconds) || from.at != from.length)
        return MBR_NUMBER_NOT_A_NUMBER;
    int64_t since_1970 = (int64_t)(days * 86400 + seconds) - offset_seconds;
    if (since_1970 < 0)
        return MBR_NUMBER_NEGATIVE;
    *out_ns = (uint64_t)since_1970 * UINT64_C(1000000000) + fraction_ns;
    return MBR_NUMBER_OK;
}

const mbr_trace_reader mbr_trace_reader_azure = {
    .format = MBR_TRACE_AZURE,
    .name = "azure",
    .field_name = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
    .has_header = true,
    .time_kind = "a date and time from 1970 to 2199, such as 2023-11-16 18:15:46.6805900,",
    .parse_time = parse_timestamp,
    .read_line = mbr_trace_csv_line,
};
