// The three CSV formats: what is read from a good file, and what is said of a bad one.
#include "tests/unit/trace/support.h"

namespace
{

const std::string azure_header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const std::string vidur_header = "arrived_at,num_prefill_tokens,num_decode_tokens\n";
const std::string burst_header =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";

void expect_request(const mbr_trace &trace, uint64_t index, uint64_t arrival_ns, uint32_t prompt,
    uint32_t output, uint64_t line)
{
    ASSERT_LT(index, trace.request_count);
    const mbr_trace_request &request = trace.requests[index];
    EXPECT_EQ(request.arrival_ns, arrival_ns) << "request " << index;
    EXPECT_EQ(request.prompt_tokens, prompt) << "request " << index;
    EXPECT_EQ(request.output_tokens, output) << "request " << index;
    EXPECT_EQ(request.source_line, line) << "request " << index;
    EXPECT_EQ(request.hash_ids, nullptr);
    EXPECT_EQ(request.hash_count, 0u);
}

TEST(Trace, Azure_GoodFile_IsReadToTheNanosecond)
{
    Loaded loaded = load_text(azure_header +
        "2023-11-16 18:15:46.6805900,374,44\n"
        "2023-11-16 18:15:50.9951691,396,109\n"
        "2023-11-16 18:15:51.222467123,879,0\n"
        "2023-11-17 00:00:00,0,16\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->format, MBR_TRACE_AZURE);
    EXPECT_FALSE(loaded.trace->has_hash_ids);
    EXPECT_FALSE(loaded.trace->stopped_at_maximum);
    EXPECT_EQ(loaded.trace->out_of_order_count, 0u);
    ASSERT_EQ(loaded.trace->request_count, 4u);
    expect_request(*loaded.trace, 0, 0, 374, 44, 2);
    expect_request(*loaded.trace, 1, 4314579100, 396, 109, 3);
    expect_request(*loaded.trace, 2, 4541877123, 879, 0, 4);
    expect_request(*loaded.trace, 3, 20653319410000, 0, 16, 5);
}

TEST(Trace, Azure_FileOf2024_OffsetsAreSubtracted)
{
    Loaded loaded = load_text(azure_header +
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10T02:00:01Z,2399,6\n"
        "2024-05-10 09:30:02+05:30,76,15\n"
        "2024-05-09 20:00:03-09:00,76,15\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    ASSERT_EQ(loaded.trace->request_count, 4u);
    expect_request(*loaded.trace, 1, 7200990070000, 2399, 6, 3);
    expect_request(*loaded.trace, 2, 14401990070000, 76, 15, 4);
    expect_request(*loaded.trace, 3, 18002990070000, 76, 15, 5);
}

TEST(Trace, Azure_CalendarEdges_CountTheDaysOfTheCalendar)
{
    struct {
        const char *from;
        const char *to;
        uint64_t seconds;
    } rows[] = {
        {"2023-02-28 23:59:59", "2023-03-01 00:00:00", 1},
        {"2024-02-28 23:59:59", "2024-02-29 00:00:00", 1},
        {"2024-02-29 23:59:59", "2024-03-01 00:00:00", 1},
        {"2000-02-28 00:00:00", "2000-03-01 00:00:00", 172800},
        {"2100-02-28 00:00:00", "2100-03-01 00:00:00", 86400},
        {"2023-12-31 23:59:59", "2024-01-01 00:00:00", 1},
        {"2024-01-01 00:00:00", "2025-01-01 00:00:00", UINT64_C(366) * 86400},
        {"1970-01-01 00:00:00", "2001-09-09 01:46:40", 1000000000},
        {"1970-01-01 00:00:00", "2199-12-31 23:59:59", 7258118399},
    };
    for (const auto &row : rows) {
        Loaded loaded = load_text(azure_header + row.from + ",1,1\n" + row.to + ",1,1\n");
        ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
        expect_request(*loaded.trace, 1, row.seconds * 1000000000, 1, 1, 3);
    }
}

TEST(Trace, Azure_NotATimestamp_IsRefusedWithTheShape)
{
    const char *bad[] = {"2023-11-16", "2023-11-16 18:15", "2023-11-16_18:15:46",
        "2023-13-16 18:15:46", "2023-00-16 18:15:46", "2023-02-29 18:15:46", "2023-11-31 18:15:46",
        "2023-11-00 18:15:46", "2023-11-16 24:15:46", "2023-11-16 18:60:46", "2023-11-16 18:15:60",
        "2023-11-16 18:15:46.", "2023-11-16 18:15:46.1234567890", "2023-11-16 18:15:46 UTC",
        "2023-11-16 18:15:46+0", "2023-11-16 18:15:46+15:00", "2023-11-16 18:15:46+01:60",
        "1969-12-31 23:59:59", "2200-01-01 00:00:00", "16.11.2023 18:15:46", "1700158546", "nan",
        "-2023-11-16 18:15:46", "TIMESTAMP", "2023-1-16 18:15:46", "2023-11-1"};
    for (const char *value : bad)
        expect_refused(azure_header + value + ",1,1\n", MBR_TRACE_BAD_VALUE, 2, "TIMESTAMP",
            {"not a timestamp", "2023-11-16 18:15:46.6805900", value});
    expect_refused(azure_header + ",1,1\n", MBR_TRACE_BAD_VALUE, 2, "TIMESTAMP", {"is empty"});
    expect_refused(azure_header + "1970-01-01 00:00:00+01:00,1,1\n", MBR_TRACE_BAD_VALUE, 2,
        "TIMESTAMP", {"is negative"});
}

TEST(Trace, Vidur_GoodFile_SecondsAreExact)
{
    Loaded loaded = load_text(vidur_header +
        "0.0,374,44\n1e-05,2,93\n11.836632999999999,369,74\n"
        "138.57600300000001,4086,64\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->format, MBR_TRACE_VIDUR);
    ASSERT_EQ(loaded.trace->request_count, 4u);
    expect_request(*loaded.trace, 0, 0, 374, 44, 2);
    expect_request(*loaded.trace, 1, 10000, 2, 93, 3);
    expect_request(*loaded.trace, 2, 11836633000, 369, 74, 4);
    expect_request(*loaded.trace, 3, 138576003000, 4086, 64, 5);
}

TEST(Trace, BurstGpt_GoodFile_FailedRequestStaysAndArrivalIsRelative)
{
    Loaded loaded = load_text(burst_header +
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,230,1317,Conversation log\n"
        "118.5,GPT-4,417,0,417,API log\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->format, MBR_TRACE_BURSTGPT);
    ASSERT_EQ(loaded.trace->request_count, 3u);
    expect_request(*loaded.trace, 0, 0, 472, 18, 2);
    expect_request(*loaded.trace, 1, 40000000000, 1087, 230, 3);
    expect_request(*loaded.trace, 2, 113500000000, 417, 0, 4);
}

TEST(Trace, BurstGpt_LaterReleaseWithMoreColumns_IsRead)
{
    Loaded loaded = load_text("Timestamp,Session ID,Elapsed time,Model,Request tokens,"
                              "Response tokens,Total tokens,Log Type\n"
                              "5,17,2.5,\"ChatGPT, \"\"turbo\"\"\",472,18,490,Conversation log\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->format, MBR_TRACE_BURSTGPT);
    expect_request(*loaded.trace, 0, 0, 472, 18, 2);
}

TEST(Trace, Seconds_NotInRange_IsRefusedWithTheRange)
{
    struct {
        const char *value;
        const char *problem;
    } rows[] = {{"-1", "is negative"}, {"-0.5", "is negative"}, {"nan", "not a timestamp"},
        {"NaN", "not a timestamp"}, {"inf", "not a timestamp"}, {"-inf", "not a timestamp"},
        {"1,5", "fields"}, {"0x10", "not a timestamp"}, {"9000000001", "is too large"},
        {"1e300", "is too large"}, {"1e", "not a timestamp"}, {"", "is empty"},
        {"+1", "not a timestamp"}, {"1 2", "not a timestamp"}};
    for (const auto &row : rows) {
        bool splits = std::strchr(row.value, ',') != nullptr;
        auto status = splits ? MBR_TRACE_BAD_LINE : MBR_TRACE_BAD_VALUE;
        expect_refused(vidur_header + row.value + ",1,1\n", status, 2, splits ? "" : "arrived_at",
            {row.problem});
        expect_refused(burst_header + row.value + ",m,1,1,2,log\n", status, 2,
            splits ? "" : "Timestamp", {row.problem});
    }
}

TEST(Trace, Seconds_LargestAndNegativeZero_AreAccepted)
{
    Loaded loaded = load_text(vidur_header + "-0.0,1,1\n9000000000,1,1\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->requests[1].arrival_ns, UINT64_C(9000000000000000000));
}

TEST(Trace, Tokens_NotAWholeNumberInRange_AreRefusedInEveryFormat)
{
    struct {
        const char *value;
        const char *problem;
    } rows[] = {{"-5", "is negative"}, {"3.5", "not a whole number"}, {"374.0", "not a whole"},
        {"1e3", "not a whole number"}, {"nan", "not a number"}, {"inf", "not a number"},
        {"", "is empty"}, {"16777217", "is too large"}, {"99999999999999999999999", "is too large"},
        {"abc", "not a number"}, {"0x10", "not a number"}, {"+5", "not a number"},
        {"1 000", "not a number"}, {"\"1,000\"", "not a number"}};
    for (const auto &row : rows) {
        std::string value = row.value;
        expect_refused(azure_header + "2023-11-16 18:15:46," + value + ",1\n", MBR_TRACE_BAD_VALUE,
            2, "ContextTokens", {row.problem, "from 0 to 16777216"});
        expect_refused(azure_header + "2023-11-16 18:15:46,1," + value + "\n", MBR_TRACE_BAD_VALUE,
            2, "GeneratedTokens", {row.problem});
        expect_refused(vidur_header + "1,1,1\n2," + value + ",1\n", MBR_TRACE_BAD_VALUE, 3,
            "num_prefill_tokens", {row.problem});
        expect_refused(vidur_header + "1,1," + value + "\n", MBR_TRACE_BAD_VALUE, 2,
            "num_decode_tokens", {row.problem});
        expect_refused(burst_header + "1,m," + value + ",1,1,log\n", MBR_TRACE_BAD_VALUE, 2,
            "Request tokens", {row.problem});
        expect_refused(burst_header + "1,m,1," + value + ",1,log\n", MBR_TRACE_BAD_VALUE, 2,
            "Response tokens", {row.problem});
    }
}

TEST(Trace, Tokens_LargestOfBoth_AreAccepted)
{
    Loaded loaded = load_text(vidur_header + "1,16777216,16777216\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    expect_request(*loaded.trace, 0, 0, 16777216, 16777216, 2);
}

TEST(Trace, Tokens_NoneAtAll_AreRefused)
{
    expect_refused(vidur_header + "1,5,5\n1,0,0\n", MBR_TRACE_BAD_VALUE, 3, "",
        {"0 prompt and 0 output", "delete the line"});
}

TEST(Trace, Header_OtherOrderMoreColumnsBlanksAndQuotes_IsRead)
{
    Loaded loaded = load_text("note, num_decode_tokens ,\"arrived_at\",num_prefill_tokens\n"
                              "\"a, b\", 7 ,\"1.5\",\t9\t\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->format, MBR_TRACE_VIDUR);
    expect_request(*loaded.trace, 0, 0, 9, 7, 2);
}

TEST(Trace, Header_MissingColumn_IsNamedWithTheOnesNeeded)
{
    expect_refused("TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,1\n", MBR_TRACE_MISSING_COLUMN, 1,
        "GeneratedTokens", {"azure", "'TIMESTAMP'", "'ContextTokens'", "'GeneratedTokens'"});
    expect_refused("num_prefill_tokens,num_decode_tokens\n1,1\n", MBR_TRACE_MISSING_COLUMN, 1,
        "arrived_at", {"vidur"});
    expect_refused("Timestamp,Model,Request tokens,Total tokens\n", MBR_TRACE_MISSING_COLUMN, 1,
        "Response tokens", {"burstgpt"});
    expect_refused(vidur_header + "1,1,1\n", MBR_TRACE_MISSING_COLUMN, 1, "TIMESTAMP", {"azure"},
        MBR_TRACE_AZURE);
}

TEST(Trace, Header_ColumnTwice_IsRefused)
{
    expect_refused("arrived_at,num_prefill_tokens,num_decode_tokens,arrived_at\n1,1,1,1\n",
        MBR_TRACE_BAD_LINE, 1, "arrived_at", {"two columns"});
}

TEST(Trace, Header_Unknown_ListsTheFormats)
{
    expect_refused("time,in,out\n1,1,1\n", MBR_TRACE_UNKNOWN_FORMAT, 1, "",
        {"'time,in,out'", "azure", "mooncake", "vidur", "burstgpt"});
    expect_refused("[1, 2]\n", MBR_TRACE_UNKNOWN_FORMAT, 1, "", {"'[1, 2]'"});
}

TEST(Trace, Header_MoreColumnsThanTheLimit_IsRefused)
{
    std::string at_limit = vidur_header.substr(0, vidur_header.size() - 1);
    std::string values = "1,1,1";
    for (uint32_t column = 3; column < MBR_TRACE_MAX_COLUMNS; column++) {
        at_limit += ",c" + std::to_string(column);
        values += ",x";
    }
    EXPECT_EQ(load_text(at_limit + "\n" + values + "\n").status, MBR_TRACE_OK);
    expect_refused(at_limit + ",more\n", MBR_TRACE_OVER_LIMIT, 1, "",
        {"more than 64 fields", "MBR_TRACE_MAX_COLUMNS"});
}

TEST(Trace, CsvLine_OtherNumberOfFields_IsRefused)
{
    expect_refused(
        vidur_header + "1,1,1\n2,1\n3,1,1\n", MBR_TRACE_BAD_LINE, 3, "", {"2 fields", "names 3"});
    expect_refused(vidur_header + "1,1,1,1\n", MBR_TRACE_BAD_LINE, 2, "", {"4 fields"});
    expect_refused(vidur_header + "1,1,1,1", MBR_TRACE_BAD_LINE, 2, "", {"4 fields"});
}

TEST(Trace, CsvLine_BadQuotes_AreRefused)
{
    expect_refused(vidur_header + "\"1,1,1\n", MBR_TRACE_BAD_LINE, 2, "", {"does not end"});
    expect_refused(vidur_header + "\"1\"1,1,1\n", MBR_TRACE_BAD_LINE, 2, "", {"closing quote"});
    expect_refused(vidur_header + "1,1,\"1", MBR_TRACE_TRUNCATED, 2, "", {"does not end"});
}

TEST(Trace, CsvLine_CutAnywhere_IsNeverAnotherRequest)
{
    const std::string whole = azure_header + "2023-11-16 18:15:46.6805900,374,44\n";
    const std::string last = "2023-11-16 18:15:50.9951690,396,109";
    for (size_t cut = 1; cut < last.size(); cut++) {
        std::string content = whole + last.substr(0, cut);
        size_t second_comma = last.rfind(',');
        if (cut <= second_comma + 1) {
            expect_refused(content, MBR_TRACE_TRUNCATED, 3, "", {"ends inside its last line"});
            continue;
        }
        // Inside the digits of the last field nobody can tell: documented in trace.h.
        EXPECT_EQ(load_text(content).status, MBR_TRACE_OK);
    }
    EXPECT_EQ(load_text(whole + last).trace->request_count, 2u);
}

TEST(Trace, CsvLine_LastOneEndsInAnEmptyColumnOfNoUse_IsAccepted)
{
    EXPECT_EQ(load_text("arrived_at,num_prefill_tokens,num_decode_tokens,note\n1,1,1,").status,
        MBR_TRACE_OK);
    expect_refused("arrived_at,num_prefill_tokens,num_decode_tokens,note\n1,1,1",
        MBR_TRACE_TRUNCATED, 2, "", {"field 3 of 4"});
}

TEST(Trace, Times_OutOfOrder_AreSortedStablyAndCounted)
{
    Loaded loaded =
        load_text(vidur_header + "3,30,1\n1,10,1\n3,31,1\n2,20,1\n1,11,1\n3,32,1\n0.5,5,1\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->out_of_order_count, 4u); // 1, 2, 1, 0.5
    ASSERT_EQ(loaded.trace->request_count, 7u);
    expect_request(*loaded.trace, 0, 0, 5, 1, 8);
    expect_request(*loaded.trace, 1, 500000000, 10, 1, 3);
    expect_request(*loaded.trace, 2, 500000000, 11, 1, 6);
    expect_request(*loaded.trace, 3, 1500000000, 20, 1, 5);
    expect_request(*loaded.trace, 4, 2500000000, 30, 1, 2);
    expect_request(*loaded.trace, 5, 2500000000, 31, 1, 4);
    expect_request(*loaded.trace, 6, 2500000000, 32, 1, 7);
}

TEST(Trace, Times_ManyInReverse_AreSortedLikeAStableSort)
{
    for (uint32_t count : {1u, 2u, 3u, 4u, 5u, 1023u, 1024u, 1025u, 5000u}) {
        std::string content = vidur_header;
        for (uint32_t i = 0; i < count; i++)
            content += std::to_string((count - i) / 3) + "," + std::to_string(i + 1) + ",1\n";
        Loaded loaded = load_text(content);
        ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
        ASSERT_EQ(loaded.trace->request_count, count);
        for (uint32_t i = 1; i < count; i++) {
            const mbr_trace_request &before = loaded.trace->requests[i - 1];
            const mbr_trace_request &request = loaded.trace->requests[i];
            ASSERT_TRUE(before.arrival_ns < request.arrival_ns ||
                (before.arrival_ns == request.arrival_ns &&
                    before.source_line < request.source_line))
                << "at " << i << " of " << count;
        }
    }
}

} // namespace
