// The Mooncake format: a JSON object a line.
#include "tests/unit/trace/support.h"

#include <jansson.h>

namespace
{

const std::string good =
    "{\"timestamp\": 27, \"input_length\": 600, \"output_length\": 20, \"hash_ids\": [46, 47]}\n";

std::string line(const std::string &timestamp, const std::string &input, const std::string &output,
    const std::string &ids)
{
    return "{\"timestamp\": " + timestamp + ", \"input_length\": " + input +
        ", \"output_length\": " + output + ", \"hash_ids\": " + ids + "}\n";
}

std::string ids_of(uint64_t count)
{
    std::string ids = "[";
    for (uint64_t i = 0; i < count; i++)
        ids += (i == 0 ? "" : ",") + std::to_string(i);
    return ids + "]";
}

TEST(Trace, Mooncake_GoodFile_IdsAndTimesAreRead)
{
    Loaded loaded = load_text(good + line("1027", "512", "0", "[46]") +
        line("1027.25", "513", "3", "[46, 9223372036854775807]") + line("2000", "0", "3", "[]"));
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    const mbr_trace &trace = *loaded.trace;
    EXPECT_EQ(trace.format, MBR_TRACE_MOONCAKE);
    EXPECT_TRUE(trace.has_hash_ids);
    ASSERT_EQ(trace.request_count, 4u);
    EXPECT_EQ(trace.requests[0].arrival_ns, 0u);
    EXPECT_EQ(trace.requests[1].arrival_ns, 1000000000u);
    EXPECT_EQ(trace.requests[2].arrival_ns, 1000250000u);
    EXPECT_EQ(trace.requests[3].arrival_ns, 1973000000u);
    ASSERT_EQ(trace.requests[0].hash_count, 2u);
    EXPECT_EQ(trace.requests[0].hash_ids[0], 46u);
    EXPECT_EQ(trace.requests[0].hash_ids[1], 47u);
    ASSERT_EQ(trace.requests[1].hash_count, 1u);
    EXPECT_EQ(trace.requests[1].hash_ids[0], 46u);
    ASSERT_EQ(trace.requests[2].hash_count, 2u);
    EXPECT_EQ(trace.requests[2].hash_ids[1], UINT64_C(9223372036854775807));
    EXPECT_EQ(trace.requests[3].hash_count, 0u);
    EXPECT_EQ(trace.requests[3].hash_ids, nullptr);
    EXPECT_EQ(trace.requests[2].prompt_tokens, 513u);
    EXPECT_EQ(trace.requests[2].output_tokens, 3u);
    EXPECT_EQ(trace.requests[2].source_line, 3u);
}

TEST(Trace, Mooncake_OtherKeysAndOrder_AreAccepted)
{
    Loaded loaded = load_text("  {\"hash_ids\":[7],\"session\":{\"id\":[1,{}]},\"output_length\":1,"
                              "\"input_length\":5,\"timestamp\":0}  \r\n");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->requests[0].hash_ids[0], 7u);
}

TEST(Trace, Mooncake_LongestPrompt_FitsALineAndIsRead)
{
    const uint64_t blocks = MBR_TRACE_MAX_TOKENS / MBR_TRACE_BLOCK_TOKENS;
    std::string content;
    for (int i = 0; i < 3; i++)
        content += line("5", "16777216", "16777216", ids_of(blocks)) + good;
    Loaded loaded = load_text(content);
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    ASSERT_EQ(loaded.trace->request_count, 6u);
    for (uint64_t i = 0; i < 3; i++) {
        ASSERT_EQ(loaded.trace->requests[i].hash_count, blocks);
        for (uint64_t id = 0; id < blocks; id++)
            ASSERT_EQ(loaded.trace->requests[i].hash_ids[id], id);
    }
}

// A chunk of ids holds those of the longest prompt: filled exactly, and with one that is too many.
TEST(Trace, Mooncake_IdsThatFillAChunk_AreKeptApart)
{
    const uint64_t blocks = MBR_TRACE_MAX_TOKENS / MBR_TRACE_BLOCK_TOKENS;
    for (uint64_t second : {UINT64_C(1), UINT64_C(2), UINT64_C(3)}) {
        std::string content;
        for (uint64_t count : {blocks - 2, second, UINT64_C(2)})
            content += line("1", std::to_string(count * 512), "1", ids_of(count));
        MemoryFile file(content);
        TestHeap heap;
        mbr_trace_options options = {};
        options.path = "test.trace";
        options.os = file.os();
        options.heap = heap.heap();
        Loaded loaded = load(options);
        ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
        for (uint64_t i = 0; i < 3; i++)
            for (uint64_t id = 0; id < loaded.trace->requests[i].hash_count; id++)
                ASSERT_EQ(loaded.trace->requests[i].hash_ids[id], id) << "request " << i;
        loaded.trace.reset(); // before its heap
    }
}

TEST(Trace, Mooncake_MissingKey_IsNamed)
{
    const char *keys[] = {"timestamp", "input_length", "output_length", "hash_ids"};
    for (const char *key : keys) {
        std::string content = line("27", "600", "20", "[46, 47]");
        content.replace(content.find(key), 1, "X");
        expect_refused(good + content, MBR_TRACE_MISSING_COLUMN, 2, key,
            {"not a key", "timestamp, input_length, output_length and hash_ids"});
    }
    expect_refused("{}\n", MBR_TRACE_MISSING_COLUMN, 1, "timestamp", {"not a key"});
}

TEST(Trace, Mooncake_BadTokens_AreRefused)
{
    struct {
        const char *value;
        const char *problem;
    } rows[] = {{"-5", "'-5' is negative"}, {"3.5", "'3.5' is not a whole number"},
        {"600.0", "'600.0' is not a whole number"}, {"\"600\"", "is not a number"},
        {"null", "'null' is not a number"}, {"true", "'true' is not a number"},
        {"[600]", "'[600]' is not a number"}, {"16777217", "is too large"},
        {"9223372036854775807", "is too large"}};
    for (const auto &row : rows) {
        expect_refused(good + line("1", row.value, "1", "[1, 2]"), MBR_TRACE_BAD_VALUE, 2,
            "input_length", {row.problem, "from 0 to 16777216"});
        expect_refused(good + line("1", "600", row.value, "[1, 2]"), MBR_TRACE_BAD_VALUE, 2,
            "output_length", {row.problem});
    }
}

TEST(Trace, Mooncake_BadTimestamp_IsRefused)
{
    struct {
        const char *value;
        const char *problem;
    } rows[] = {{"-1", "is negative"}, {"-0.5", "is negative"}, {"9000000000001", "is too large"},
        {"1e200", "is too large"}, {"\"0\"", "not a timestamp"}, {"null", "not a timestamp"}};
    for (const auto &row : rows)
        expect_refused(good + line(row.value, "1", "1", "[1]"), MBR_TRACE_BAD_VALUE, 2, "timestamp",
            {row.problem, "milliseconds from 0 to 9000000000000"});
    EXPECT_EQ(load_text(line("9000000000000", "1", "1", "[1]")).status, MBR_TRACE_OK);
}

// The parser hands out a long string in one piece, which is larger than what is shown of it.
TEST(Trace, Mooncake_LongValue_IsShownByItsFirstBytes)
{
    for (uint64_t length : {150, 157, 158, 159, 160, 161, 5000, 900000})
        expect_refused(good + line('"' + std::string(length, 'x') + '"', "1", "1", "[1]"),
            MBR_TRACE_BAD_VALUE, 2, "timestamp",
            {("'\"" + std::string(47, 'x') + "...' is not a timestamp").c_str()});
}

TEST(Trace, Mooncake_NumbersThatJsonCannotHold_AreBadLines)
{
    for (const char *value : {"1e999", "-1e999", "99999999999999999999999", "9223372036854775808"})
        expect_refused(good + line(value, "1", "1", "[1]"), MBR_TRACE_BAD_LINE, 2, "",
            {"a number that is too large, before column", "9223372036854775807"});
    for (const char *value : {"NaN", "nan", "Infinity", "0x10", "01", "+1", "1.", ".5"}) {
        expect_refused(good + line(value, "1", "1", "[1]"), MBR_TRACE_BAD_LINE, 2, "",
            {"not a JSON object in one line"});
        expect_refused(good + line("1", "1", "1", "[" + std::string(value) + "]"),
            MBR_TRACE_BAD_LINE, 2, "", {"not a JSON object in one line"});
    }
}

TEST(Trace, Mooncake_IdsThatDoNotMatchThePrompt_SayHowManyAreNeeded)
{
    struct {
        const char *input;
        uint64_t given;
        const char *needed;
    } rows[] = {{"0", 1, "needs 0"}, {"1", 0, "needs 1"}, {"1", 2, "needs 1"},
        {"512", 2, "needs 1"}, {"513", 1, "needs 2"}, {"1024", 3, "needs 2"},
        {"1024", 1, "needs 2"}, {"16777216", 32767, "needs 32768"}};
    for (const auto &row : rows)
        expect_refused(good + line("1", row.input, "1", ids_of(row.given)), MBR_TRACE_BAD_VALUE, 2,
            "hash_ids", {row.needed, "512 tokens", std::to_string(row.given).c_str()});
}

TEST(Trace, Mooncake_BadIds_AreRefusedWithTheirIndex)
{
    for (const char *id : {"-1", "1.5", "\"a\"", "null", "[1]", "{}"})
        expect_refused(good + line("1", "600", "1", std::string("[5, ") + id + "]"),
            MBR_TRACE_BAD_VALUE, 2, "hash_ids", {"at index 1 is not a block id", id});
    for (const char *ids : {"5", "null", "\"a\"", "{\"0\": 5}"})
        expect_refused(good + line("1", "600", "1", ids), MBR_TRACE_BAD_VALUE, 2, "hash_ids",
            {"not an array"});
}

TEST(Trace, Mooncake_DuplicateKey_IsRefused)
{
    expect_refused(good +
            "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, "
            "\"input_length\": 2, \"hash_ids\": [1]}\n",
        MBR_TRACE_BAD_LINE, 2, "", {"has a key twice, before column"});
}

TEST(Trace, Mooncake_NotAnObject_IsRefused)
{
    for (const char *text : {"[1, 2]\n", "[]\n"})
        expect_refused(good + text, MBR_TRACE_BAD_LINE, 2, "", {"not a JSON object", "each line"});
    for (const char *text : {"5\n", "\"a\"\n", "{\n", "}\n", "{} {}\n", "{\"a\": 1,}\n", "text\n",
             "{\"timestamp\": \"\xff\xfe\"}\n"})
        expect_refused(good + text, MBR_TRACE_BAD_LINE, 2, "", {"not a JSON object in one line"});
    expect_refused(
        "a,b\n1,2\n", MBR_TRACE_BAD_LINE, 1, "", {"not a JSON object"}, MBR_TRACE_MOONCAKE);
}

TEST(Trace, Mooncake_DeepNesting_IsRefusedAndNotAnOverflow)
{
    expect_refused(good + "{\"a\": " + std::string(100000, '[') + "\n", MBR_TRACE_BAD_LINE, 2, "",
        {"not a JSON object in one line"});
}

TEST(Trace, Mooncake_CutAnywhere_IsTruncatedAtItsLine)
{
    const std::string last = good.substr(0, good.size() - 1);
    for (size_t cut = 1; cut < last.size(); cut++)
        expect_refused(
            good + last.substr(0, cut), MBR_TRACE_TRUNCATED, 2, "", {"ends inside its last line"});
    EXPECT_EQ(load_text(good + last).trace->request_count, 2u);
}

TEST(Trace, Mooncake_OneIdMoreThanTheLimit_IsRefused)
{
    mbr_trace_limits limits = {MBR_TRACE_MAX_REQUESTS, 5};
    for (uint64_t last_ids : {UINT64_C(1), UINT64_C(2)}) {
        MemoryFile file(
            good + good + line("30", std::to_string(512 * last_ids), "1", ids_of(last_ids)));
        mbr_trace_options options = {};
        options.path = "test.trace";
        options.os = file.os();
        options.limits = &limits;
        Loaded loaded = load(options);
        EXPECT_EQ(loaded.status, last_ids == 1 ? MBR_TRACE_OK : MBR_TRACE_OVER_LIMIT);
        if (last_ids == 2) {
            EXPECT_EQ(loaded.error.line, 3u);
            EXPECT_NE(loaded.text().find("more than 5 block ids"), std::string::npos);
        }
    }
}

// jansson's own heap is a global of the process: it is failed here, and only here.
uint64_t json_call_count;
uint64_t json_fail_at;

void *json_allocate(size_t bytes)
{
    return ++json_call_count == json_fail_at ? nullptr : std::malloc(bytes);
}

TEST(Trace, Mooncake_JsonParserOutOfMemory_IsSaidAtEachOfItsAllocations)
{
    json_set_alloc_funcs(json_allocate, std::free);
    json_fail_at = 0;
    json_call_count = 0;
    EXPECT_EQ(load_text(good).status, MBR_TRACE_OK);
    const uint64_t total = json_call_count;
    EXPECT_GT(total, 10u);
    uint64_t out_of_memory = 0;
    uint64_t called_syntax = 0; // jansson's word for it inside a string: one for each key
    for (json_fail_at = 1; json_fail_at <= total; json_fail_at++) {
        json_call_count = 0;
        Loaded loaded = load_text(good);
        EXPECT_NE(loaded.status, MBR_TRACE_OK) << "allocation " << json_fail_at;
        out_of_memory += loaded.status == MBR_TRACE_OUT_OF_MEMORY ? 1 : 0;
        called_syntax += loaded.status == MBR_TRACE_BAD_LINE ? 1 : 0;
    }
    json_set_alloc_funcs(std::malloc, std::free);
    EXPECT_EQ(out_of_memory + called_syntax, total);
    EXPECT_EQ(called_syntax, 4u);
}

} // namespace
