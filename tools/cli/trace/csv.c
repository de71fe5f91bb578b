/* Splits CSV lines. Never knows what a column means, never allocates. */
#include "tools/cli/trace/csv.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static size_t skip_blanks(const char *text, size_t at, size_t length)
{
    while (at < length && is_blank(text[at]))
        at++;
    return at;
}

/* A field from `*at` to the next comma or the end. */
static void take_plain(const char *text, size_t *at, size_t length, mbr_csv_field *field)
{
    size_t begin = *at;
    const char *comma = memchr(text + begin, ',', length - begin);
    size_t end = comma == NULL ? length : (size_t)(comma - text);
    *at = end;
    while (end > begin && is_blank(text[end - 1]))
        end--;
    *field = (mbr_csv_field){.text = text + begin, .length_bytes = end - begin};
}

/* A field whose opening quote is at `*at`; a doubled quote inside is one quote. */
static mbr_csv_status take_quoted(char *text, size_t *at, size_t length, mbr_csv_field *field)
{
    size_t begin = *at + 1;
    size_t to = begin;
    size_t from = begin;
    for (;; from++) {
        if (from == length)
            return MBR_CSV_OPEN_QUOTE;
        if (text[from] == '"') {
            if (from + 1 == length || text[from + 1] != '"')
                break;
            from++;
        }
        text[to++] = text[from];
    }
    *field = (mbr_csv_field){.text = text + begin, .length_bytes = to - begin};
    *at = skip_blanks(text, from + 1, length);
    return *at == length || text[*at] == ',' ? MBR_CSV_OK : MBR_CSV_TEXT_AFTER_QUOTE;
}

mbr_csv_status mbr_csv_split(char *text, size_t length_bytes, mbr_csv_fields *out)
{
    out->count = 0;
    for (size_t at = 0;; at++) {
        if (out->count == MBR_TRACE_MAX_COLUMNS)
            return MBR_CSV_TOO_MANY_FIELDS;
        mbr_csv_field *field = &out->field[out->count];
        at = skip_blanks(text, at, length_bytes);
        if (at < length_bytes && text[at] == '"') {
            mbr_csv_status status = take_quoted(text, &at, length_bytes, field);
            if (status != MBR_CSV_OK)
                return status;
        } else {
            take_plain(text, &at, length_bytes, field);
        }
        out->count++;
        if (at == length_bytes)
            return MBR_CSV_OK;
    }
}
