/* How the arithmetic of KV caches refuses: a typed status, the key and the value it is about, and
 * one line of text that says what would work. Nothing here prints. */
#ifndef MEMBRANE_HOLDER_GEOMETRY_ERROR_H
#define MEMBRANE_HOLDER_GEOMETRY_ERROR_H

#include <stdint.h>

typedef enum mbr_geometry_status {
    MBR_GEOMETRY_OK = 0,
    MBR_GEOMETRY_UNKNOWN_MODEL,   /* no model and no geometry text; `text` has the nearest */
    MBR_GEOMETRY_UNKNOWN_KEY,     /* `key` is none of the keys, or the pair has no '=' */
    MBR_GEOMETRY_DOUBLED_KEY,     /* `key` stands twice in one group */
    MBR_GEOMETRY_MISSING_KEY,     /* a group lacks `key` */
    MBR_GEOMETRY_NOT_A_NUMBER,    /* `value` is not a row of decimal digits */
    MBR_GEOMETRY_OUT_OF_RANGE,    /* zero, or beyond what any model has */
    MBR_GEOMETRY_TOO_MANY_GROUPS, /* more layer groups than MBR_GEOMETRY_GROUPS_MAX */
    MBR_GEOMETRY_NOT_DIVISIBLE,   /* a size or degree that does not divide what it must */
    MBR_GEOMETRY_OVERFLOW,        /* a number of bytes beyond 2^64 - 1 */
} mbr_geometry_status;

/* `would_work` is the value nearest to the refused one that is accepted; 0 where there is none or
 * where the answer is not a number. */
typedef struct mbr_geometry_error {
    mbr_geometry_status status;
    char key[24];
    char value[40];
    uint64_t would_work;
    char text[512];
} mbr_geometry_error;

/* Fills *error, which may be NULL, and returns `status`, so that a refusal is one statement. `key`
 * and `value` are cut to their room and stripped of control characters; the text is cut too. */
__attribute__((format(printf, 6, 7))) mbr_geometry_status mbr_geometry_refuse(
    mbr_geometry_error *error, mbr_geometry_status status, const char *key, const char *value,
    uint64_t would_work, const char *format, ...);

/* Sets *error, which may be NULL, to OK and no text. */
void mbr_geometry_error_clear(mbr_geometry_error *error);

/* Copies `text` into out[room] on one line: control characters become '?', a longer text is cut. */
void mbr_geometry_copy_printable(char *out, uint64_t room, const char *text, uint64_t length);

/* Writes `bytes` exactly, in the largest unit that divides it ("2 MiB", "2560 B"), and returns out.
 */
const char *mbr_geometry_format_bytes(char *out, uint64_t room, uint64_t bytes);

#endif
