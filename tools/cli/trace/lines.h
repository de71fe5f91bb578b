/* Lines of a file, read as a stream, with a bound on the length of one. */
#ifndef MEMBRANE_TOOLS_CLI_TRACE_LINES_H
#define MEMBRANE_TOOLS_CLI_TRACE_LINES_H

#include "tools/cli/trace/trace.h"

typedef struct mbr_trace_line {
    char *text; /* NUL-terminated, without its newline; valid until the next call; may be changed */
    size_t length_bytes;
    uint64_t number;  /* from 1 */
    bool has_newline; /* false only for a last line without one */
} mbr_trace_line;

typedef enum mbr_lines_answer {
    MBR_LINES_LINE,
    MBR_LINES_END,
    MBR_LINES_TOO_LONG,   /* line->number says which */
    MBR_LINES_UNREADABLE, /* failure_errno says why */
    MBR_LINES_OUT_OF_MEMORY
} mbr_lines_answer;

/* buffer[begin, end) is read and not yet handed out; begin <= end <= capacity_bytes, and the buffer
 * has one byte more for the NUL. */
typedef struct mbr_lines {
    const mbr_heap *heap;
    const mbr_trace_os *os;
    int file;
    int failure_errno;
    char *buffer;
    size_t capacity_bytes;
    size_t begin;
    size_t end;
    uint64_t line_count;
    bool at_end;
} mbr_lines;

/* The caller owns `file` and closes it after mbr_lines_finish. */
void mbr_lines_init(mbr_lines *lines, const mbr_heap *heap, const mbr_trace_os *os, int file);
void mbr_lines_finish(mbr_lines *lines);
mbr_lines_answer mbr_lines_next(mbr_lines *lines, mbr_trace_line *line);

#endif
