/* Hands out a file's lines from one growing buffer. Never interprets them, never holds more of the
 * file than one line and what was read with it. */
#include "tools/cli/trace/lines.h"

#include "abi/base/checked.h"

#include <errno.h>
#include <string.h>

#define FIRST_CAPACITY_BYTES ((size_t)64 << 10)
#define MAX_CAPACITY_BYTES ((size_t)MBR_TRACE_MAX_LINE_BYTES + 1) /* a whole line, its newline */

void mbr_lines_init(mbr_lines *lines, const mbr_heap *heap, const mbr_trace_os *os, int file)
{
    *lines = (mbr_lines){.heap = heap, .os = os, .file = file};
}

void mbr_lines_finish(mbr_lines *lines)
{
    mbr_heap_release(lines->heap, lines->buffer);
    *lines = (mbr_lines){0};
}

static bool grow(mbr_lines *lines)
{
    size_t doubled = lines->capacity_bytes * 2;
    size_t capacity = (size_t)mbr_min(mbr_max(doubled, FIRST_CAPACITY_BYTES), MAX_CAPACITY_BYTES);
    char *buffer = mbr_heap_allocate(lines->heap, capacity + 1);
    if (buffer == NULL)
        return false;
    if (lines->end != 0)
        memcpy(buffer, lines->buffer, lines->end);
    mbr_heap_release(lines->heap, lines->buffer);
    lines->buffer = buffer;
    lines->capacity_bytes = capacity;
    return true;
}

/* Makes room behind `end` and reads into it once. The caller has seen that the line is not yet too
 * long, so that there is room or the buffer may grow. */
static mbr_lines_answer fill(mbr_lines *lines)
{
    if (lines->begin != 0) {
        memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
        lines->end -= lines->begin;
        lines->begin = 0;
    }
    if (lines->end == lines->capacity_bytes && !grow(lines))
        return MBR_LINES_OUT_OF_MEMORY;

    int64_t got;
    do {
        got = lines->os->read(lines->os->context, lines->file, lines->buffer + lines->end,
            lines->capacity_bytes - lines->end);
    } while (got == -EINTR);
    if (got < 0) {
        lines->failure_errno = (int)-got;
        return MBR_LINES_UNREADABLE;
    }
    lines->at_end = got == 0;
    lines->end += (size_t)got;
    return MBR_LINES_LINE;
}

/* Hands out buffer[begin, begin + length), and skips the newline behind it where there is one. */
static void take_line(mbr_lines *lines, size_t length, bool has_newline, mbr_trace_line *line)
{
    line->text = lines->buffer + lines->begin;
    line->text[length] = '\0';
    line->length_bytes = length;
    line->has_newline = has_newline;
    lines->begin += length + (has_newline ? 1 : 0);
}

/* Looks for a newline in buffer[begin + searched, end); *out_length is then the line's. */
static bool find_newline(const mbr_lines *lines, size_t searched, size_t *out_length)
{
    size_t held = lines->end - lines->begin;
    if (held <= searched)
        return false; /* and perhaps there is no buffer yet */
    const char *from = lines->buffer + lines->begin;
    const char *newline = memchr(from + searched, '\n', held - searched);
    if (newline == NULL)
        return false;
    *out_length = (size_t)(newline - from);
    return true;
}

mbr_lines_answer mbr_lines_next(mbr_lines *lines, mbr_trace_line *line)
{
    *line = (mbr_trace_line){.number = lines->line_count + 1};
    size_t searched = 0;
    for (;;) {
        size_t held = lines->end - lines->begin;
        size_t length = 0;
        if (find_newline(lines, searched, &length)) {
            take_line(lines, length, true, line);
            break;
        }
        searched = held;
        if (held > MBR_TRACE_MAX_LINE_BYTES)
            return MBR_LINES_TOO_LONG;
        if (lines->at_end && held == 0)
            return MBR_LINES_END;
        if (lines->at_end) {
            take_line(lines, held, false, line);
            break;
        }
        mbr_lines_answer answer = fill(lines);
        if (answer != MBR_LINES_LINE)
            return answer;
    }
    lines->line_count++;
    return MBR_LINES_LINE;
}
