/* One line of CSV into fields (RFC 4180, except that a quoted field ends on its line). */
#ifndef MEMBRANE_TOOLS_CLI_TRACE_CSV_H
#define MEMBRANE_TOOLS_CLI_TRACE_CSV_H

#include "tools/cli/trace/trace.h"

typedef struct mbr_csv_field {
    const char *text; /* inside the line; not NUL-terminated; without blanks around it */
    size_t length_bytes;
} mbr_csv_field;

typedef struct mbr_csv_fields {
    uint32_t count;
    mbr_csv_field field[MBR_TRACE_MAX_COLUMNS];
} mbr_csv_fields;

typedef enum mbr_csv_status {
    MBR_CSV_OK = 0,
    MBR_CSV_TOO_MANY_FIELDS,
    MBR_CSV_OPEN_QUOTE,       /* a quoted field that does not end */
    MBR_CSV_TEXT_AFTER_QUOTE, /* "a"b */
} mbr_csv_status;

/* Splits text[0, length_bytes), undoing doubled quotes in place. */
mbr_csv_status mbr_csv_split(char *text, size_t length_bytes, mbr_csv_fields *out);

#endif
