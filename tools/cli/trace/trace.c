/* Loads a trace: opens the file, tells its format, hands each line to the format's reader, and
 * publishes the trace when all of it was right. Never guesses a value and never drops a line: a
 * trace is the whole file, or the lines up to the caller's maximum, or a refusal. */
#include "tools/cli/trace/trace.h"

#include "tools/cli/trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const mbr_trace_reader *const readers[MBR_TRACE_FORMAT_COUNT] = {
    [MBR_TRACE_AUTO] = NULL,
    [MBR_TRACE_AZURE] = &mbr_trace_reader_azure,
    [MBR_TRACE_MOONCAKE] = &mbr_trace_reader_mooncake,
    [MBR_TRACE_VIDUR] = &mbr_trace_reader_vidur,
    [MBR_TRACE_BURSTGPT] = &mbr_trace_reader_burstgpt,
};

static int system_open(void *context, const char *path)
{
    (void)context;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return file < 0 ? -errno : file;
}

static int64_t system_read(void *context, int file, void *buffer, size_t bytes)
{
    (void)context;
    ssize_t got = read(file, buffer, bytes);
    return got < 0 ? -(int64_t)errno : got;
}

static void system_close(void *context, int file)
{
    (void)context;
    close(file);
}

const mbr_trace_os mbr_trace_os_default = {system_open, system_read, system_close, NULL};

const char *mbr_trace_format_name(mbr_trace_format format)
{
    if (format == MBR_TRACE_AUTO)
        return "auto";
    return format > MBR_TRACE_AUTO && format < MBR_TRACE_FORMAT_COUNT ? readers[format]->name
                                                                      : NULL;
}

bool mbr_trace_format_find(const char *name, mbr_trace_format *out)
{
    *out = MBR_TRACE_AUTO;
    for (int format = MBR_TRACE_AUTO; format < MBR_TRACE_FORMAT_COUNT; format++)
        if (strcmp(name, mbr_trace_format_name((mbr_trace_format)format)) == 0) {
            *out = (mbr_trace_format)format;
            return true;
        }
    return false;
}

static mbr_trace_status refuse_file(mbr_trace_loading *loading, uint64_t line, int number)
{
    char reason[128];
    const char *remedy = number == EISDIR ? "name a file in it" : "check the path and its mode";
    return mbr_trace_refuse(loading, MBR_TRACE_UNREADABLE, (mbr_trace_place){.line = line},
        "cannot be read: %s; %s", strerror_r(number, reason, sizeof reason), remedy);
}

/* Takes a byte order mark, a carriage return and blanks off the line. */
static void trim_line(mbr_trace_line *line)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t mark_bytes = sizeof mark - 1;
    if (line->number == 1 && line->length_bytes >= mark_bytes &&
        memcmp(line->text, mark, mark_bytes) == 0) {
        line->text += mark_bytes;
        line->length_bytes -= mark_bytes;
    }
    while (
        line->length_bytes != 0 && memchr(" \t\r", line->text[line->length_bytes - 1], 3) != NULL)
        line->length_bytes--;
    while (line->length_bytes != 0 && memchr(" \t", line->text[0], 2) != NULL) {
        line->text++;
        line->length_bytes--;
    }
}

/* The CSV reader whose columns the header has, or has most of; NULL when it has none of any. */
static const mbr_trace_reader *find_csv_reader(const mbr_csv_fields *header)
{
    const mbr_trace_reader *best = NULL;
    uint32_t best_count = 0;
    for (int format = MBR_TRACE_AUTO + 1; format < MBR_TRACE_FORMAT_COUNT; format++) {
        uint32_t column_index[MBR_TRACE_FIELD_COUNT];
        const char *missing;
        if (!readers[format]->has_header)
            continue;
        uint32_t count = mbr_trace_csv_match(readers[format], header, column_index, &missing);
        if (count > best_count) {
            best = readers[format];
            best_count = count;
        }
    }
    return best;
}

/* Reads the first line that is not blank: settles the reader, and takes the header of a CSV file or
 * the first request of a file without one. */
static mbr_trace_status read_first_line(
    mbr_trace_loading *loading, mbr_trace_format format, const mbr_trace_reader **reader)
{
    const mbr_trace_line *line = &loading->line;
    mbr_csv_fields header;
    *reader = readers[format];
    if (format == MBR_TRACE_AUTO && line->text[0] == '{')
        *reader = readers[MBR_TRACE_MOONCAKE];
    if (*reader != NULL && !(*reader)->has_header)
        return (*reader)->read_line(*reader, loading);

    mbr_trace_status status = mbr_trace_csv_split(loading, &header);
    if (status != MBR_TRACE_OK)
        return status;
    if (*reader == NULL)
        *reader = find_csv_reader(&header);
    if (*reader == NULL)
        return mbr_trace_refuse(loading, MBR_TRACE_UNKNOWN_FORMAT,
            (mbr_trace_place){
                .line = line->number, .value = line->text, .value_bytes = line->length_bytes},
            "is not the first line of a known trace; azure (header TIMESTAMP,ContextTokens,"
            "GeneratedTokens), mooncake (a JSON object a line), vidur (header arrived_at,"
            "num_prefill_tokens,num_decode_tokens) and burstgpt (header Timestamp,Request tokens,"
            "Response tokens) are");
    return mbr_trace_csv_header(*reader, loading, &header);
}

static mbr_trace_status refuse_answer(
    mbr_trace_loading *loading, mbr_lines_answer answer, int failure_errno)
{
    uint64_t number = loading->line.number;
    if (answer == MBR_LINES_OUT_OF_MEMORY)
        return mbr_trace_refuse_memory(loading);
    if (answer == MBR_LINES_UNREADABLE)
        return refuse_file(loading, number == 1 ? 0 : number, failure_errno);
    return mbr_trace_refuse(loading, MBR_TRACE_OVER_LIMIT, (mbr_trace_place){.line = number},
        "the line is longer than %" PRIu32
        " bytes (MBR_TRACE_MAX_LINE_BYTES); is this a text file with one request a line?",
        MBR_TRACE_MAX_LINE_BYTES);
}

static mbr_trace_status refuse_empty(mbr_trace_loading *loading, const mbr_trace_reader *reader)
{
    mbr_trace_place whole_file = {0};
    if (reader == NULL)
        return mbr_trace_refuse(loading, MBR_TRACE_EMPTY, whole_file,
            "the file is empty; a trace has at least one request");
    return mbr_trace_refuse(loading, MBR_TRACE_EMPTY, whole_file,
        "the file has a header and no request; add a line with %s, %s and %s",
        reader->field_name[MBR_TRACE_ARRIVAL], reader->field_name[MBR_TRACE_PROMPT],
        reader->field_name[MBR_TRACE_OUTPUT]);
}

static mbr_trace_status read_lines(
    mbr_trace_loading *loading, mbr_lines *lines, const mbr_trace_options *options)
{
    const mbr_trace_reader *reader = NULL;
    mbr_trace *trace = loading->trace;
    mbr_lines_answer answer;
    while ((answer = mbr_lines_next(lines, &loading->line)) == MBR_LINES_LINE) {
        mbr_trace_line *line = &loading->line;
        mbr_trace_status status;
        if (memchr(line->text, '\0', line->length_bytes) != NULL)
            return mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE,
                (mbr_trace_place){.line = line->number},
                "the line holds a NUL byte; a text file in UTF-8 or ASCII is expected");
        trim_line(line);
        if (line->length_bytes == 0)
            continue;
        if (reader == NULL)
            status = read_first_line(loading, options->format, &reader);
        else
            status = reader->read_line(reader, loading);
        if (status != MBR_TRACE_OK)
            return status;
        trace->stopped_at_maximum =
            options->max_requests != 0 && trace->request_count == options->max_requests;
        if (trace->stopped_at_maximum)
            break;
    }
    if (answer != MBR_LINES_END && answer != MBR_LINES_LINE)
        return refuse_answer(loading, answer, lines->failure_errno);
    if (trace->request_count == 0)
        return refuse_empty(loading, reader);
    trace->format = reader->format;
    trace->has_hash_ids = reader->has_hash_ids;
    return MBR_TRACE_OK;
}

static mbr_trace_status read_file(mbr_trace_loading *loading, const mbr_trace_options *options,
    const mbr_heap *heap, const mbr_trace_os *os)
{
    int file = os->open(os->context, options->path);
    if (file < 0)
        return refuse_file(loading, 0, -file);
    mbr_lines lines;
    mbr_lines_init(&lines, heap, os, file);
    mbr_trace_status status = read_lines(loading, &lines, options);
    mbr_lines_finish(&lines);
    os->close(os->context, file);
    return status;
}

mbr_trace_status mbr_trace_load(
    const mbr_trace_options *options, mbr_trace **out, mbr_trace_error *error)
{
    static const mbr_trace_limits default_limits = {MBR_TRACE_MAX_REQUESTS, MBR_TRACE_MAX_HASH_IDS};
    const mbr_heap *heap = options->heap == NULL ? &mbr_heap_libc : options->heap;
    mbr_trace_error unwanted;
    mbr_trace_loading loading = {
        .path = options->path,
        .limits = options->limits == NULL ? default_limits : *options->limits,
        .error = error == NULL ? &unwanted : error,
    };
    *out = NULL;
    *loading.error = (mbr_trace_error){0};
    if (mbr_trace_format_name(options->format) == NULL)
        return mbr_trace_refuse(&loading, MBR_TRACE_UNKNOWN_FORMAT, (mbr_trace_place){0},
            "the format %d is none; auto, azure, mooncake, vidur and burstgpt are",
            (int)options->format);

    loading.trace = mbr_heap_allocate(heap, sizeof *loading.trace);
    if (loading.trace == NULL)
        return mbr_trace_refuse_memory(&loading);
    loading.trace->heap = *heap;
    mbr_trace_status status = read_file(
        &loading, options, heap, options->os == NULL ? &mbr_trace_os_default : options->os);
    if (status == MBR_TRACE_OK)
        status = mbr_trace_sort(&loading);
    if (status != MBR_TRACE_OK) {
        mbr_trace_destroy(loading.trace);
        return status;
    }
    *out = loading.trace;
    return MBR_TRACE_OK;
}

void mbr_trace_destroy(mbr_trace *trace)
{
    if (trace == NULL)
        return;
    mbr_heap heap = trace->heap;
    mbr_trace_release_chunks(trace);
    mbr_heap_release(&heap, trace->requests);
    mbr_heap_release(&heap, trace);
}
