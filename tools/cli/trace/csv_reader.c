/* What the CSV formats have in common: a header that names columns, and lines with as many fields.
 * Never knows a format's names; they come from its reader. */
#include "tools/cli/trace/reader.h"

#include <inttypes.h>
#include <string.h>

static bool is_named(const mbr_csv_field *field, const char *name)
{
    return field->length_bytes == strlen(name) &&
        memcmp(field->text, name, field->length_bytes) == 0;
}

uint32_t mbr_trace_csv_match(const mbr_trace_reader *reader, const mbr_csv_fields *header,
    uint32_t column_index[MBR_TRACE_FIELD_COUNT], const char **missing)
{
    uint32_t found_count = 0;
    *missing = NULL;
    for (uint32_t want = 0; want < MBR_TRACE_FIELD_COUNT; want++) {
        uint32_t at = 0;
        while (at < header->count && !is_named(&header->field[at], reader->field_name[want]))
            at++;
        column_index[want] = at;
        if (at < header->count)
            found_count++;
        else if (*missing == NULL)
            *missing = reader->field_name[want];
    }
    return found_count;
}

mbr_trace_status mbr_trace_csv_split(mbr_trace_loading *loading, mbr_csv_fields *out)
{
    mbr_trace_line *line = &loading->line;
    mbr_trace_place place = {
        .line = line->number, .value = line->text, .value_bytes = line->length_bytes};
    switch (mbr_csv_split(line->text, line->length_bytes, out)) {
    case MBR_CSV_OK:
        return MBR_TRACE_OK;
    case MBR_CSV_TOO_MANY_FIELDS:
        return mbr_trace_refuse(loading, MBR_TRACE_OVER_LIMIT, place,
            "has more than %" PRIu32 " fields (MBR_TRACE_MAX_COLUMNS); remove columns that are not "
            "needed",
            MBR_TRACE_MAX_COLUMNS);
    case MBR_CSV_OPEN_QUOTE:
        return mbr_trace_refuse(loading,
            line->has_newline ? MBR_TRACE_BAD_LINE : MBR_TRACE_TRUNCATED, place,
            "has a quote that does not end on this line; close or remove it");
    case MBR_CSV_TEXT_AFTER_QUOTE:
        break;
    }
    return mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE, place,
        "has text behind a closing quote; a comma must follow, and a quote inside is doubled");
}

mbr_trace_status mbr_trace_csv_header(
    const mbr_trace_reader *reader, mbr_trace_loading *loading, const mbr_csv_fields *header)
{
    const char *missing;
    mbr_trace_place place = {.line = loading->line.number};
    mbr_trace_csv_match(reader, header, loading->column_index, &missing);
    if (missing != NULL) {
        place.column = missing;
        return mbr_trace_refuse(loading, MBR_TRACE_MISSING_COLUMN, place,
            "is not a column of this header; the %s format needs the columns '%s', '%s', '%s', in "
            "any order",
            reader->name, reader->field_name[MBR_TRACE_ARRIVAL],
            reader->field_name[MBR_TRACE_PROMPT], reader->field_name[MBR_TRACE_OUTPUT]);
    }
    for (uint32_t want = 0; want < MBR_TRACE_FIELD_COUNT; want++)
        for (uint32_t at = loading->column_index[want] + 1; at < header->count; at++)
            if (is_named(&header->field[at], reader->field_name[want])) {
                place.column = reader->field_name[want];
                return mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE, place,
                    "is the name of two columns; rename or remove one");
            }
    loading->column_count = header->count;
    return MBR_TRACE_OK;
}

/* True when the file ends without a newline in a line that lacks fields, or that lacks the text of
 * one of ours which comes last. */
static bool is_cut_off(const mbr_trace_loading *loading, const mbr_csv_fields *fields)
{
    if (loading->line.has_newline)
        return false;
    if (fields->count != loading->column_count)
        return fields->count < loading->column_count;
    if (fields->field[fields->count - 1].length_bytes != 0)
        return false;
    for (uint32_t which = 0; which < MBR_TRACE_FIELD_COUNT; which++)
        if (loading->column_index[which] == fields->count - 1)
            return true;
    return false;
}

/* A line has as many fields as the header. */
static mbr_trace_status check_field_count(mbr_trace_loading *loading, const mbr_csv_fields *fields)
{
    const mbr_trace_line *line = &loading->line;
    mbr_trace_place place = {.line = line->number};
    if (is_cut_off(loading, fields))
        return mbr_trace_refuse(loading, MBR_TRACE_TRUNCATED, place,
            "the file ends inside its last line, in field %" PRIu32 " of %" PRIu32
            "; fetch the file again or delete this line",
            fields->count, loading->column_count);
    if (fields->count != loading->column_count)
        return mbr_trace_refuse(loading, MBR_TRACE_BAD_LINE, place,
            "the line has %" PRIu32 " fields and the header names %" PRIu32
            "; give it as many, with quotes around a field that holds a comma",
            fields->count, loading->column_count);
    return MBR_TRACE_OK;
}

static mbr_trace_place place_of(const mbr_trace_reader *reader, const mbr_trace_loading *loading,
    const mbr_csv_fields *fields, uint32_t which)
{
    const mbr_csv_field *field = &fields->field[loading->column_index[which]];
    return (mbr_trace_place){.line = loading->line.number,
        .column = reader->field_name[which],
        .value = field->text,
        .value_bytes = field->length_bytes};
}

static mbr_trace_status read_tokens(const mbr_trace_reader *reader, mbr_trace_loading *loading,
    const mbr_csv_fields *fields, uint32_t which, uint32_t *out)
{
    const mbr_csv_field *field = &fields->field[loading->column_index[which]];
    uint64_t tokens;
    mbr_number_status number =
        mbr_number_whole(field->text, field->length_bytes, MBR_TRACE_MAX_TOKENS, &tokens);
    *out = (uint32_t)tokens;
    if (number != MBR_NUMBER_OK)
        return mbr_trace_refuse_tokens(loading, number, place_of(reader, loading, fields, which));
    return MBR_TRACE_OK;
}

mbr_trace_status mbr_trace_csv_line(const mbr_trace_reader *reader, mbr_trace_loading *loading)
{
    mbr_csv_fields fields;
    mbr_trace_request request = {0};
    mbr_trace_status status = mbr_trace_csv_split(loading, &fields);
    if (status == MBR_TRACE_OK)
        status = check_field_count(loading, &fields);
    if (status != MBR_TRACE_OK)
        return status;

    const mbr_csv_field *time = &fields.field[loading->column_index[MBR_TRACE_ARRIVAL]];
    mbr_number_status number =
        reader->parse_time(time->text, time->length_bytes, &request.arrival_ns);
    if (number != MBR_NUMBER_OK)
        return mbr_trace_refuse_time(loading, number,
            place_of(reader, loading, &fields, MBR_TRACE_ARRIVAL), reader->time_kind);

    status = read_tokens(reader, loading, &fields, MBR_TRACE_PROMPT, &request.prompt_tokens);
    if (status == MBR_TRACE_OK)
        status = read_tokens(reader, loading, &fields, MBR_TRACE_OUTPUT, &request.output_tokens);
    if (status == MBR_TRACE_OK)
        status = mbr_trace_append(loading, &request);
    return status;
}
