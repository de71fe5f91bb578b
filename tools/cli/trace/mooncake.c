/* Mooncake traces: a JSON object a line, with the ids of the prompt's blocks. Never follows a line
 * into the next one: the object of a line ends on it. */
#include "tools/cli/trace/reader.h"

#include "abi/base/checked.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_JSON_BYTES 160

static const char *const hash_ids_name = "hash_ids";

/* A JSON value as it may be shown: its first bytes. */
typedef struct shown_json {
    char text[SHOWN_JSON_BYTES];
    size_t length_bytes;
} shown_json;

/* json_dumpb would write nothing of a piece that does not fit, and count it all the same. */
static int keep_first(const char *piece, size_t bytes, void *context)
{
    shown_json *shown = context;
    size_t kept = (size_t)mbr_min(bytes, SHOWN_JSON_BYTES - shown->length_bytes);
    memcpy(shown->text + shown->length_bytes, piece, kept);
    shown->length_bytes += kept;
    return 0;
}

static mbr_trace_place place_of(
    const mbr_trace_loading *loading, const char *key, const json_t *value, shown_json *shown)
{
    shown->length_bytes = 0;
    json_dump_callback(value, keep_first, shown, JSON_ENCODE_ANY | JSON_COMPACT);
    return (mbr_trace_place){.line = loading->line.number,
        .column = key,
        .value = shown->text,
        .value_bytes = shown->length_bytes};
}

static mbr_trace_status refuse_syntax(mbr_trace_loading *loading, const json_error_t *error)
{
    const mbr_trace_line *line = &loading->line;
    mbr_trace_place place = {
        .line = line->number, .value = line->text, .value_bytes = line->length_bytes};
    enum json_error_code code = json_error_code(error);
    /* jansson 2.14 has no text when its heap is exhausted, whatever the code; inside a string it
     * calls that a syntax error, and then so do we. */
    if (code == json_error_out_of_memory || error->text[0] == '\0')
        return mbr_trace_refuse_memory(loading);
    bool is_at_end = code == json_error_premature_end_of_input ||
        (error->position >= 0 && (size_t)error->position >= line->length_bytes);
    if (!line->has_newline && is_at_end)
        return mbr_trace_refuse(loading, MBR_TRACE_TRUNCATED, place,
            "is not whole: the file ends inside its last line; fetch it again or delete this line");
    if (code == json_error_duplicate_key)
        return mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE, place,
            "has a key twice, before column %d; remove one of them", error->column);
    if (code == json_error_numeric_overflow)
        return mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE, place,
            "has a number that is too large, before column %d; whole numbers end at %" PRId64,
            error->column, INT64_MAX);
    return mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE, place,
        "is not a JSON object in one line, from column %d on; such as {\"timestamp\": 0, "
        "\"input_length\": 600, \"output_length\": 20, \"hash_ids\": [0, 1]}",
        error->column);
}

static mbr_trace_status find_key(
    mbr_trace_loading *loading, const json_t *object, const char *key, const json_t **out)
{
    *out = json_object_get(object, key);
    if (*out != NULL)
        return MBR_TRACE_OK;
    return mbr_trace_refuse(loading, MBR_TRACE_MISSING_COLUMN,
        (mbr_trace_place){.line = loading->line.number, .column = key},
        "is not a key of this object; the mooncake format needs timestamp, input_length, "
        "output_length and hash_ids");
}

static mbr_trace_status read_tokens(
    mbr_trace_loading *loading, const json_t *object, const char *key, uint32_t *out)
{
    const json_t *value;
    mbr_trace_status status = find_key(loading, object, key, &value);
    if (status != MBR_TRACE_OK)
        return status;
    json_int_t tokens = json_integer_value(value);
    mbr_number_status number = MBR_NUMBER_OK;
    if (!json_is_number(value))
        number = MBR_NUMBER_NOT_A_NUMBER;
    else if (!json_is_integer(value))
        number = MBR_NUMBER_NOT_WHOLE;
    else if (tokens < 0)
        number = MBR_NUMBER_NEGATIVE;
    else if (tokens > MBR_TRACE_MAX_TOKENS)
        number = MBR_NUMBER_TOO_LARGE;
    if (number == MBR_NUMBER_OK) {
        *out = (uint32_t)tokens;
        return MBR_TRACE_OK;
    }
    shown_json shown;
    return mbr_trace_refuse_tokens(loading, number, place_of(loading, key, value, &shown));
}

/* Milliseconds, whole or not: resampled traces have fractions of one. */
static mbr_number_status parse_time(const json_t *value, uint64_t *out_ns)
{
    const double max_ms = (double)MBR_TRACE_MAX_TIME_SECONDS * 1e3;
    if (!json_is_number(value))
        return MBR_NUMBER_NOT_A_NUMBER;
    double milliseconds = json_number_value(value);
    if (milliseconds < 0)
        return MBR_NUMBER_NEGATIVE;
    if (milliseconds > max_ms)
        return MBR_NUMBER_TOO_LARGE;
    if (json_is_integer(value))
        *out_ns = (uint64_t)json_integer_value(value) * UINT64_C(1000000);
    else
        *out_ns = (uint64_t)(milliseconds * 1e6 + 0.5);
    return MBR_NUMBER_OK;
}

static mbr_trace_status read_time(const mbr_trace_reader *reader, mbr_trace_loading *loading,
    const json_t *object, uint64_t *out_ns)
{
    const json_t *value;
    const char *key = reader->field_name[MBR_TRACE_ARRIVAL];
    mbr_trace_status status = find_key(loading, object, key, &value);
    if (status != MBR_TRACE_OK)
        return status;
    mbr_number_status number = parse_time(value, out_ns);
    if (number == MBR_NUMBER_OK)
        return MBR_TRACE_OK;
    shown_json shown;
    return mbr_trace_refuse_time(
        loading, number, place_of(loading, key, value, &shown), reader->time_kind);
}

static mbr_trace_status copy_hash_ids(
    mbr_trace_loading *loading, const json_t *array, uint32_t count, uint64_t *ids)
{
    for (uint32_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(array, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0) {
            shown_json shown;
            return mbr_trace_refuse(loading, MBR_TRACE_BAD_VALUE,
                place_of(loading, hash_ids_name, id, &shown),
                "at index %" PRIu32 " is not a block id; a whole number from 0 to %" PRId64
                " is expected",
                i, INT64_MAX);
        }
        ids[i] = (uint64_t)json_integer_value(id);
    }
    return MBR_TRACE_OK;
}

static mbr_trace_status read_hash_ids(
    mbr_trace_loading *loading, const json_t *object, mbr_trace_request *request)
{
    const json_t *array;
    shown_json shown;
    mbr_trace_status status = find_key(loading, object, hash_ids_name, &array);
    if (status != MBR_TRACE_OK)
        return status;
    if (!json_is_array(array))
        return mbr_trace_refuse(loading, MBR_TRACE_BAD_VALUE,
            place_of(loading, hash_ids_name, array, &shown), "is not an array of block ids");
    uint32_t expected =
        (request->prompt_tokens + MBR_TRACE_BLOCK_TOKENS - 1) / MBR_TRACE_BLOCK_TOKENS;
    if (json_array_size(array) != expected)
        return mbr_trace_refuse(loading, MBR_TRACE_BAD_VALUE,
            (mbr_trace_place){.line = loading->line.number, .column = hash_ids_name},
            "has %zu ids, and an input_length of %" PRIu32 " needs %" PRIu32
            ", one for each %" PRIu32 " tokens",
            json_array_size(array), request->prompt_tokens, expected, MBR_TRACE_BLOCK_TOKENS);
    uint64_t *ids;
    status = mbr_trace_take_hash_ids(loading, expected, &ids);
    if (status == MBR_TRACE_OK)
        status = copy_hash_ids(loading, array, expected, ids);
    request->hash_ids = ids;
    request->hash_count = expected;
    return status;
}

static mbr_trace_status read_object(
    const mbr_trace_reader *reader, mbr_trace_loading *loading, const json_t *object)
{
    mbr_trace_request request = {0};
    mbr_trace_status status = read_time(reader, loading, object, &request.arrival_ns);
    if (status == MBR_TRACE_OK)
        status = read_tokens(
            loading, object, reader->field_name[MBR_TRACE_PROMPT], &request.prompt_tokens);
    if (status == MBR_TRACE_OK)
        status = read_tokens(
            loading, object, reader->field_name[MBR_TRACE_OUTPUT], &request.output_tokens);
    if (status == MBR_TRACE_OK)
        status = read_hash_ids(loading, object, &request);
    if (status == MBR_TRACE_OK)
        status = mbr_trace_append(loading, &request);
    return status;
}

static mbr_trace_status read_line(const mbr_trace_reader *reader, mbr_trace_loading *loading)
{
    const mbr_trace_line *line = &loading->line;
    json_error_t error;
    json_t *object = json_loadb(line->text, line->length_bytes, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL)
        return refuse_syntax(loading, &error);
    mbr_trace_status status;
    if (json_is_object(object))
        status = read_object(reader, loading, object);
    else
        status = mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE,
            (mbr_trace_place){
                .line = line->number, .value = line->text, .value_bytes = line->length_bytes},
            "is not a JSON object; each line of the mooncake format is one");
    json_decref(object);
    return status;
}

const mbr_trace_reader mbr_trace_reader_mooncake = {
    .format = MBR_TRACE_MOONCAKE,
    .name = "mooncake",
    .field_name = {"timestamp", "input_length", "output_length"},
    .has_hash_ids = true,
    .time_kind = "a number of milliseconds from 0 to 9000000000000",
    .read_line = read_line,
};
