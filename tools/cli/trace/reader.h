/* What the loader and the readers of the four formats share: the table of readers, the trace being
 * built, and refusals. */
#ifndef MEMBRANE_TOOLS_CLI_TRACE_READER_H
#define MEMBRANE_TOOLS_CLI_TRACE_READER_H

#include "tools/cli/trace/csv.h"
#include "tools/cli/trace/lines.h"
#include "tools/cli/trace/number.h"
#include "tools/cli/trace/trace.h"

#define MBR_TRACE_MAX_TIME_NS (MBR_TRACE_MAX_TIME_SECONDS * UINT64_C(1000000000))

/* The three columns that every format has, under its own names. */
enum { MBR_TRACE_ARRIVAL, MBR_TRACE_PROMPT, MBR_TRACE_OUTPUT, MBR_TRACE_FIELD_COUNT };

typedef struct mbr_trace_loading {
    const char *path;
    mbr_trace_limits limits;
    mbr_trace *trace; /* being built; published by mbr_trace_load alone */
    mbr_trace_error *error;
    mbr_trace_line line; /* the one being read */

    /* Of a CSV header: how many columns it has, and which of them are ours. */
    uint32_t column_count;
    uint32_t column_index[MBR_TRACE_FIELD_COUNT];

    uint64_t last_arrival_ns;
} mbr_trace_loading;

typedef struct mbr_trace_reader {
    mbr_trace_format format;
    const char *name;
    const char *field_name[MBR_TRACE_FIELD_COUNT]; /* columns of the header, or keys of an object */
    bool has_header;                               /* CSV */
    bool has_hash_ids;
    const char *time_kind; /* what a timestamp is, for refusals: "seconds, such as 4.25" */
    /* CSV only: a timestamp in nanoseconds since any zero, at most MBR_TRACE_MAX_TIME_NS. */
    mbr_number_status (*parse_time)(const char *text, size_t length_bytes, uint64_t *out_ns);
    /* Appends the request of loading->line to the trace, or refuses. */
    mbr_trace_status (*read_line)(
        const struct mbr_trace_reader *reader, mbr_trace_loading *loading);
} mbr_trace_reader;

extern const mbr_trace_reader mbr_trace_reader_azure;
extern const mbr_trace_reader mbr_trace_reader_mooncake;
extern const mbr_trace_reader mbr_trace_reader_vidur;
extern const mbr_trace_reader mbr_trace_reader_burstgpt;

/* csv_reader.c: finds the reader's columns in the header, which is loading->line already split; and
 * reads a line of requests. */
uint32_t mbr_trace_csv_match(const mbr_trace_reader *reader, const mbr_csv_fields *header,
    uint32_t column_index[MBR_TRACE_FIELD_COUNT], const char **missing);
mbr_trace_status mbr_trace_csv_split(mbr_trace_loading *loading, mbr_csv_fields *out);
mbr_trace_status mbr_trace_csv_header(
    const mbr_trace_reader *reader, mbr_trace_loading *loading, const mbr_csv_fields *header);
mbr_trace_status mbr_trace_csv_line(const mbr_trace_reader *reader, mbr_trace_loading *loading);

/* build.c: the growing trace. A request's arrival_ns is raw here, and its hash_ids come from
 * mbr_trace_take_hash_ids, which never moves them again. */
mbr_trace_status mbr_trace_take_hash_ids(
    mbr_trace_loading *loading, uint32_t count, uint64_t **out);
mbr_trace_status mbr_trace_append(mbr_trace_loading *loading, const mbr_trace_request *request);
mbr_trace_status mbr_trace_sort(mbr_trace_loading *loading);
void mbr_trace_release_chunks(mbr_trace *trace);

/* refuse.c: what a refusal names. A NULL column or value is left out; a value is shown cut and with
 * everything but printable ASCII escaped. */
typedef struct mbr_trace_place {
    uint64_t line; /* 0: the file as a whole */
    const char *column;
    const char *value;
    size_t value_bytes;
} mbr_trace_place;

/* Writes the error and returns `status`. */
mbr_trace_status mbr_trace_refuse(mbr_trace_loading *loading, mbr_trace_status status,
    mbr_trace_place place, const char *format, ...) __attribute__((format(printf, 4, 5)));
mbr_trace_status mbr_trace_refuse_memory(mbr_trace_loading *loading);
mbr_trace_status mbr_trace_refuse_tokens(
    mbr_trace_loading *loading, mbr_number_status number, mbr_trace_place place);
mbr_trace_status mbr_trace_refuse_time(mbr_trace_loading *loading, mbr_number_status number,
    mbr_trace_place place, const char *time_kind);

#endif
