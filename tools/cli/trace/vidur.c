/* The vidur simulator's processed traces: CSV with arrived_at in seconds since the trace's start.
 */
#include "tools/cli/trace/reader.h"

static mbr_number_status parse_seconds(const char *text, size_t length_bytes, uint64_t *out_ns)
{
    return mbr_number_decimal(text, length_bytes, 9, MBR_TRACE_MAX_TIME_NS, out_ns);
}

const mbr_trace_reader mbr_trace_reader_vidur = {
    .format = MBR_TRACE_VIDUR,
    .name = "vidur",
    .field_name = {"arrived_at", "num_prefill_tokens", "num_decode_tokens"},
    .has_header = true,
    .time_kind = "a number of seconds from 0 to 9000000000, such as 4.314579,",
    .parse_time = parse_seconds,
    .read_line = mbr_trace_csv_line,
};
