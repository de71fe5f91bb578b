/* Request traces: what arrived when, with how many tokens, and which blocks of its prompt it shares
 * with others. Four public formats are read:
 *
 *   azure     Azure LLM inference 2023 and 2024, CSV with TIMESTAMP (a date and time),
 *             ContextTokens, GeneratedTokens
 *   mooncake  one JSON object a line with timestamp (milliseconds), input_length, output_length and
 *             hash_ids: one id for each MBR_TRACE_BLOCK_TOKENS of the prompt, the last block may be
 *             part-filled; equal ids at the head of two requests are a shared prefix
 *   vidur     CSV with arrived_at (seconds), num_prefill_tokens, num_decode_tokens
 *   burstgpt  CSV with Timestamp (seconds), Request tokens, Response tokens
 *
 * CSV columns are found by the header's names, in any order, and further columns are ignored. A
 * UTF-8 byte order mark, CRLF line ends, blank lines and a last line without a newline are
 * accepted. Anything else that is wrong is refused with one line that says where. What cannot be
 * seen is a CSV file cut inside the digits of its last field.
 *
 * Thread rule: a trace is immutable after loading and may be read by any thread. */
#ifndef MEMBRANE_TOOLS_CLI_TRACE_TRACE_H
#define MEMBRANE_TOOLS_CLI_TRACE_TRACE_H

#include "abi/base/seam.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MBR_TRACE_BLOCK_TOKENS UINT32_C(512)            /* of the prompt for one of hash_ids */
#define MBR_TRACE_MAX_TOKENS (UINT32_C(16) << 20)       /* prompt, and output, of one request */
#define MBR_TRACE_MAX_REQUESTS (UINT64_C(16) << 20)     /* in one trace */
#define MBR_TRACE_MAX_HASH_IDS (UINT64_C(64) << 20)     /* in one trace: 512 MiB of them */
#define MBR_TRACE_MAX_LINE_BYTES (UINT32_C(1) << 20)    /* without the newline */
#define MBR_TRACE_MAX_COLUMNS UINT32_C(64)              /* of a CSV file */
#define MBR_TRACE_MAX_TIME_SECONDS UINT64_C(9000000000) /* a timestamp, since its own zero */
#define MBR_TRACE_ERROR_BYTES 1024
#define MBR_TRACE_COLUMN_BYTES 64

typedef enum mbr_trace_format {
    MBR_TRACE_AUTO = 0, /* told from the first line that is not blank */
    MBR_TRACE_AZURE,
    MBR_TRACE_MOONCAKE,
    MBR_TRACE_VIDUR,
    MBR_TRACE_BURSTGPT,
    MBR_TRACE_FORMAT_COUNT
} mbr_trace_format;

typedef enum mbr_trace_status {
    MBR_TRACE_OK = 0,
    MBR_TRACE_UNREADABLE,     /* the file cannot be opened or read: fix the path or its mode */
    MBR_TRACE_EMPTY,          /* no request in it */
    MBR_TRACE_UNKNOWN_FORMAT, /* the first line is none of the four: name the format, or convert */
    MBR_TRACE_MISSING_COLUMN, /* a column of the header or a key of a line is absent */
    MBR_TRACE_BAD_LINE,       /* a line that is not CSV with the header's columns, or not JSON */
    MBR_TRACE_TRUNCATED,      /* the file ends inside its last line: fetch it again */
    MBR_TRACE_BAD_VALUE,      /* a value of the wrong kind or out of range */
    MBR_TRACE_OVER_LIMIT,     /* more than a MBR_TRACE_MAX_... allows */
    MBR_TRACE_OUT_OF_MEMORY,
    MBR_TRACE_STATUS_COUNT
} mbr_trace_status;

typedef struct mbr_trace_request {
    uint64_t arrival_ns;      /* since the earliest request of the trace */
    const uint64_t *hash_ids; /* hash_count of them, owned by the trace; NULL when there are none */
    uint64_t source_line;     /* from 1 */
    uint32_t prompt_tokens;   /* 0 to MBR_TRACE_MAX_TOKENS */
    uint32_t output_tokens;   /* the same range; not both 0 */
    uint32_t hash_count;      /* ceil(prompt_tokens / MBR_TRACE_BLOCK_TOKENS), or 0 without ids */
} mbr_trace_request;

typedef struct mbr_trace {
    mbr_trace_request *requests; /* in order of arrival; equal arrivals in order of the file */
    uint64_t request_count;      /* at least 1 */
    uint64_t out_of_order_count; /* lines that were earlier than a line before them */
    mbr_trace_format format;     /* never MBR_TRACE_AUTO */
    bool has_hash_ids;           /* the format says which blocks are shared */
    bool stopped_at_maximum;     /* max_requests was reached: the rest of the file was not read */

    /* The loader's own. */
    mbr_heap heap;
    uint64_t capacity_count;
    uint64_t hash_id_count;
    struct mbr_trace_chunk *chunks;
} mbr_trace;

/* Why a trace was refused. `text` is one line without a newline: the file, the line, the column or
 * key, the value (cut and escaped), and what would work. */
typedef struct mbr_trace_error {
    mbr_trace_status status;
    uint64_t line;                       /* from 1; 0 when the file as a whole is meant */
    char column[MBR_TRACE_COLUMN_BYTES]; /* "" when no column or key is meant */
    char text[MBR_TRACE_ERROR_BYTES];
} mbr_trace_error;

/* The operating system's part. Every call answers a negative errno on failure. */
typedef struct mbr_trace_os {
    int (*open)(void *context, const char *path); /* for reading; 0 or more on success */
    int64_t (*read)(void *context, int file, void *buffer, size_t bytes); /* 0 at the end */
    void (*close)(void *context, int file);
    void *context;
} mbr_trace_os;

extern const mbr_trace_os mbr_trace_os_default;

typedef struct mbr_trace_limits {
    uint64_t max_requests_count;
    uint64_t max_hash_ids_count;
} mbr_trace_limits;

typedef struct mbr_trace_options {
    const char *path;        /* a file, or anything that reads like one, such as a pipe */
    mbr_trace_format format; /* MBR_TRACE_AUTO, or the format that it must be */
    uint64_t max_requests;   /* stop after so many lines of requests; 0 reads all */

    const mbr_heap *heap;           /* NULL: the C library's */
    const mbr_trace_os *os;         /* NULL: the system's */
    const mbr_trace_limits *limits; /* NULL: MBR_TRACE_MAX_REQUESTS, MBR_TRACE_MAX_HASH_IDS */
} mbr_trace_options;

/* Reads a trace. *out is NULL unless the answer is MBR_TRACE_OK, and then the caller's to destroy;
 * the heap of the options must outlive it. *error (NULL is allowed) is always written. */
mbr_trace_status mbr_trace_load(
    const mbr_trace_options *options, mbr_trace **out, mbr_trace_error *error);

void mbr_trace_destroy(mbr_trace *trace); /* NULL is allowed */

/* "azure" and so on; "auto" for MBR_TRACE_AUTO; NULL for no format. */
const char *mbr_trace_format_name(mbr_trace_format format);

/* The reverse of it. False and MBR_TRACE_AUTO for any other name. */
bool mbr_trace_format_find(const char *name, mbr_trace_format *out);

#endif
