/* Turns digits into numbers. Never reads past length_bytes, never consults the locale: a trace
 * reads the same on every machine. */
#include "tools/cli/trace/number.h"

#include "abi/base/checked.h"

#include <stdbool.h>

/* Far above what a number in range needs, far below an overflow of int together with the digits of
 * the longest line. */
#define EXPONENT_BOUND 1000000

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

typedef struct decimal {
    uint64_t mantissa; /* the first 19 or so digits */
    int exponent;      /* of ten */
    bool negative;
    bool has_digits;
} decimal;

/* Takes digits into the mantissa until it is full; later ones only move the exponent. */
static size_t take_digits(
    const char *text, size_t at, size_t length, bool after_point, decimal *number)
{
    for (; at < length && is_digit(text[at]); at++) {
        number->has_digits = true;
        if (number->mantissa > (UINT64_MAX - 9) / 10) {
            number->exponent += after_point ? 0 : 1;
            continue;
        }
        number->mantissa = number->mantissa * 10 + (uint64_t)(text[at] - '0');
        number->exponent -= after_point ? 1 : 0;
    }
    return at;
}

/* Takes "e+12" and the like. False when no digit follows the e. */
static bool take_exponent(const char *text, size_t *at, size_t length, decimal *number)
{
    size_t i = *at + 1;
    bool negative = i < length && text[i] == '-';
    if (i < length && (text[i] == '-' || text[i] == '+'))
        i++;
    if (i == length || !is_digit(text[i]))
        return false;
    int exponent = 0;
    for (; i < length && is_digit(text[i]); i++)
        if (exponent < EXPONENT_BOUND)
            exponent = exponent * 10 + (text[i] - '0');
    number->exponent += negative ? -exponent : exponent;
    *at = i;
    return true;
}

static bool parse(const char *text, size_t length, decimal *number)
{
    size_t at = length != 0 && text[0] == '-' ? 1 : 0;
    *number = (decimal){.negative = at == 1};
    at = take_digits(text, at, length, false, number);
    if (at < length && text[at] == '.')
        at = take_digits(text, at + 1, length, true, number);
    if (!number->has_digits)
        return false;
    if (at < length && (text[at] == 'e' || text[at] == 'E'))
        if (!take_exponent(text, &at, length, number))
            return false;
    return at == length;
}

/* mantissa times ten to the power of exponent, rounded half up. */
static bool scale_up(uint64_t mantissa, int exponent, uint64_t *out)
{
    for (; exponent > 0 && mantissa != 0; exponent--)
        if (!mbr_mul(mantissa, 10, &mantissa))
            return false;
    uint64_t last_digit = 0;
    for (; exponent < 0 && (mantissa != 0 || last_digit != 0); exponent++) {
        last_digit = mantissa % 10;
        mantissa /= 10;
    }
    *out = mantissa + (last_digit >= 5 ? 1 : 0); /* a mantissa that was divided has room for 1 */
    return true;
}

mbr_number_status mbr_number_decimal(
    const char *text, size_t length_bytes, int scale, uint64_t maximum, uint64_t *out)
{
    *out = 0;
    if (length_bytes == 0)
        return MBR_NUMBER_EMPTY;
    decimal number;
    if (!parse(text, length_bytes, &number))
        return MBR_NUMBER_NOT_A_NUMBER;
    if (number.negative && number.mantissa != 0)
        return MBR_NUMBER_NEGATIVE;
    uint64_t value;
    if (!scale_up(number.mantissa, number.exponent + scale, &value) || value > maximum)
        return MBR_NUMBER_TOO_LARGE;
    *out = value;
    return MBR_NUMBER_OK;
}

mbr_number_status mbr_number_whole(
    const char *text, size_t length_bytes, uint64_t maximum, uint64_t *out)
{
    *out = 0;
    uint64_t value = 0;
    bool overflow = false;
    for (size_t i = 0; i < length_bytes; i++) {
        if (!is_digit(text[i])) {
            /* Not whole, or not a number at all: the decimal parser knows. */
            uint64_t ignored;
            mbr_number_status status =
                mbr_number_decimal(text, length_bytes, 0, UINT64_MAX, &ignored);
            bool is_number = status == MBR_NUMBER_OK || status == MBR_NUMBER_TOO_LARGE;
            return is_number ? MBR_NUMBER_NOT_WHOLE : status;
        }
        uint64_t digit = (uint64_t)(text[i] - '0');
        overflow = overflow || !mbr_mul(value, 10, &value) || !mbr_add(value, digit, &value);
    }
    if (length_bytes == 0)
        return MBR_NUMBER_EMPTY;
    if (overflow || value > maximum)
        return MBR_NUMBER_TOO_LARGE;
    *out = value;
    return MBR_NUMBER_OK;
}
