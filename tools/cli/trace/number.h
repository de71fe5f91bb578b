/* Numbers of a trace, parsed without the locale and without a float's rounding. */
#ifndef MEMBRANE_TOOLS_CLI_TRACE_NUMBER_H
#define MEMBRANE_TOOLS_CLI_TRACE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

typedef enum mbr_number_status {
    MBR_NUMBER_OK = 0,
    MBR_NUMBER_EMPTY,
    MBR_NUMBER_NOT_A_NUMBER,
    MBR_NUMBER_NEGATIVE,
    MBR_NUMBER_NOT_WHOLE,
    MBR_NUMBER_TOO_LARGE,
    MBR_NUMBER_STATUS_COUNT
} mbr_number_status;

/* A whole number in digits alone, at most `maximum`. *out is 0 unless the answer is OK. */
mbr_number_status mbr_number_whole(
    const char *text, size_t length_bytes, uint64_t maximum, uint64_t *out);

/* A decimal number such as 12, 12.5 or 1.25e-05, times ten to the power of `scale`, rounded half up
 * to a whole number of at most `maximum`; exact in its first 19 digits. -0 is 0. *out is 0 unless
 * the answer is OK. */
mbr_number_status mbr_number_decimal(
    const char *text, size_t length_bytes, int scale, uint64_t maximum, uint64_t *out);

#endif
