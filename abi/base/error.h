/* Filling in mbr_error: within the size that its owner stated, one line, terminated. */
#ifndef MEMBRANE_BASE_ERROR_H
#define MEMBRANE_BASE_ERROR_H

#include "membrane/base.h"

/* Writes the error (NULL is allowed) and returns `status`, so that a refusal is one statement:
 *     return mbr_fail(error, MBR_MISALIGNED, "offset %lu is no multiple of %lu", …);
 * The text says what, where, which value, and what would work. */
mbr_status mbr_fail(mbr_error *error, mbr_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same where one field is to blame; `argument_index` as in mbr_error: 1 is the first field
 * after struct_size, or the first argument after the object. */
mbr_status mbr_fail_argument(mbr_error *error, mbr_status status, uint32_t argument_index,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same with the code of the system's or driver's own failure; `domain` is MBR_NATIVE_…. */
mbr_status mbr_fail_native(mbr_error *error, mbr_status status, uint32_t domain, int64_t code,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The same with the figures of a refused request. */
mbr_status mbr_fail_bytes(mbr_error *error, mbr_status status, uint64_t asked_bytes,
    uint64_t free_bytes, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Copies a full-size error to one whose owner may know fewer or more fields (rule 12). */
void mbr_error_copy(mbr_error *to, const mbr_error *from);

/* Puts a text on one line: each control character of ASCII becomes a blank. */
void mbr_text_one_line(char *text);

/* An ending that a text of `bytes` may be cut at without splitting a UTF-8 character. */
uint64_t mbr_utf8_whole_bytes(const char *text, uint64_t bytes);

#endif
