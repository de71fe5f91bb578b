/* Words for what is wrong with a trace. Never decides that something is wrong, never prints a byte
 * of the file that could move a terminal's cursor. */
#include "tools/cli/trace/reader.h"

#include "abi/base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_VALUE_BYTES 48
#define SHOWN_PATH_BYTES 200

static const char *const number_problem[MBR_NUMBER_STATUS_COUNT] = {
    [MBR_NUMBER_OK] = "is right",
    [MBR_NUMBER_EMPTY] = "is empty",
    [MBR_NUMBER_NOT_A_NUMBER] = "is not a number",
    [MBR_NUMBER_NEGATIVE] = "is negative",
    [MBR_NUMBER_NOT_WHOLE] = "is not a whole number",
    [MBR_NUMBER_TOO_LARGE] = "is too large",
};

/* Text that is built up in a buffer of fixed size; what does not fit is cut. */
typedef struct writer {
    char *buffer;
    size_t capacity_bytes; /* with the NUL */
    size_t length_bytes;
} writer;

static void put_char(writer *to, char c)
{
    if (to->length_bytes + 1 >= to->capacity_bytes)
        return;
    to->buffer[to->length_bytes++] = c;
    to->buffer[to->length_bytes] = '\0';
}

static void put_text(writer *to, const char *text)
{
    for (; *text != '\0'; text++)
        put_char(to, *text);
}

static void put_escaped(writer *to, const char *text, size_t length, bool keep_high_bytes)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool is_plain = (c >= 0x20 && c < 0x7f) || (keep_high_bytes && c >= 0x80);
        if (is_plain) {
            put_char(to, (char)c);
            continue;
        }
        put_text(to, "\\x");
        put_char(to, hex[c >> 4]);
        put_char(to, hex[c & 15]);
    }
}

/* A path keeps its end, where the file's name is, and its letters of any script. */
static void put_path(writer *to, const char *path)
{
    size_t length = strlen(path);
    size_t skipped = length > SHOWN_PATH_BYTES ? length - SHOWN_PATH_BYTES : 0;
    if (skipped != 0)
        put_text(to, "...");
    put_escaped(to, path + skipped, length - skipped, true);
}

static void put_value(writer *to, const char *value, size_t length)
{
    size_t shown = length > SHOWN_VALUE_BYTES ? SHOWN_VALUE_BYTES : length;
    put_char(to, '\'');
    put_escaped(to, value, shown, false);
    put_text(to, shown < length ? "...' " : "' ");
}

static void put_place(writer *to, const char *path, const mbr_trace_place *place)
{
    put_path(to, path);
    if (place->line != 0) {
        char number[24];
        snprintf(number, sizeof number, ":%" PRIu64, place->line);
        put_text(to, number);
    }
    put_text(to, ": ");
    if (place->column != NULL) {
        put_text(to, place->column);
        put_char(to, ' ');
    }
    if (place->value != NULL)
        put_value(to, place->value, place->value_bytes);
}

mbr_trace_status mbr_trace_refuse(mbr_trace_loading *loading, mbr_trace_status status,
    mbr_trace_place place, const char *format, ...)
{
    MBR_ASSERT(status != MBR_TRACE_OK);
    mbr_trace_error *error = loading->error;
    *error = (mbr_trace_error){.status = status, .line = place.line};
    if (place.column != NULL)
        snprintf(error->column, sizeof error->column, "%s", place.column);

    writer to = {.buffer = error->text, .capacity_bytes = sizeof error->text};
    put_place(&to, loading->path, &place);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to.buffer + to.length_bytes, to.capacity_bytes - to.length_bytes, format, arguments);
    va_end(arguments);
    return status;
}

mbr_trace_status mbr_trace_refuse_memory(mbr_trace_loading *loading)
{
    return mbr_trace_refuse(loading, MBR_TRACE_OUT_OF_MEMORY,
        (mbr_trace_place){.line = loading->line.number},
        "no memory for the trace after %" PRIu64
        " requests; a smaller number of requests would need less",
        loading->trace == NULL ? 0 : loading->trace->request_count);
}

mbr_trace_status mbr_trace_refuse_tokens(
    mbr_trace_loading *loading, mbr_number_status number, mbr_trace_place place)
{
    return mbr_trace_refuse(loading, MBR_TRACE_BAD_VALUE, place,
        "%s; a whole number of tokens from 0 to %" PRIu32 " is expected", number_problem[number],
        MBR_TRACE_MAX_TOKENS);
}

mbr_trace_status mbr_trace_refuse_time(mbr_trace_loading *loading, mbr_number_status number,
    mbr_trace_place place, const char *time_kind)
{
    const char *problem =
        number == MBR_NUMBER_NOT_A_NUMBER ? "is not a timestamp" : number_problem[number];
    return mbr_trace_refuse(
        loading, MBR_TRACE_BAD_VALUE, place, "%s; %s is expected", problem, time_kind);
}
