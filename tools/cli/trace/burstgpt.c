/* BurstGPT: CSV with Timestamp in seconds since the trace's start. Its columns Model, Total tokens,
 * Log Type, and in later releases Session ID and Elapsed time, are not needed. A request that
 * failed has 0 response tokens and stays a request: its prompt took memory. */
#include "tools/cli/trace/reader.h"

static mbr_number_status parse_seconds(const char *text, size_t length_bytes, uint64_t *out_ns)
{
    return mbr_number_decimal(text, length_bytes, 9, MBR_TRACE_MAX_TIME_NS, out_ns);
}

const mbr_trace_reader mbr_trace_reader_burstgpt = {
    .format = MBR_TRACE_BURSTGPT,
    .name = "burstgpt",
    .field_name = {"Timestamp", "Request tokens", "Response tokens"},
    .has_header = true,
    .time_kind = "a number of seconds from 0 to 9000000000, such as 45,",
    .parse_time = parse_seconds,
    .read_line = mbr_trace_csv_line,
};
