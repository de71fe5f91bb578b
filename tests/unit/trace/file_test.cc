// What holds for every format: the file, its lines, its end, its limits, memory.
#include "tests/unit/trace/support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

extern "C" {
#include "tools/cli/trace/lines.h"
}

namespace
{

const std::string header = "arrived_at,num_prefill_tokens,num_decode_tokens\n";

mbr_trace_options options_for(const char *path)
{
    mbr_trace_options options = {};
    options.path = path;
    return options;
}

std::string in_temp(const char *name)
{
    return testing::TempDir() + "/" + name;
}

TEST(Trace, Lines_CrLfBomBlankLinesAndNoLastNewline_AreAccepted)
{
    Loaded loaded = load_text("\xef\xbb\xbf\r\n \t\r\narrived_at,num_prefill_tokens,"
                              "num_decode_tokens\r\n1,2,3\r\n\r\n\n2,3,4");
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    ASSERT_EQ(loaded.trace->request_count, 2u);
    EXPECT_EQ(loaded.trace->requests[0].source_line, 4u);
    EXPECT_EQ(loaded.trace->requests[1].source_line, 7u);
    EXPECT_EQ(loaded.trace->requests[1].output_tokens, 4u);
    EXPECT_EQ(load_text("\xef\xbb\xbf" + header + "1,2,3\n").status, MBR_TRACE_OK);
    EXPECT_EQ(load_text("\xef\xbb\xbf{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
                        "\"hash_ids\":[1]}")
                  .status,
        MBR_TRACE_OK);
}

TEST(Trace, Lines_MarkAnywhereElse_IsNotSkipped)
{
    expect_refused("\n\xef\xbb\xbf" + header, MBR_TRACE_MISSING_COLUMN, 2, "arrived_at", {"vidur"});
}

TEST(Trace, Lines_OneByteReadsAndInterrupts_GiveTheSameTrace)
{
    MemoryFile file(header + "1,2,3\n\n2,3,4");
    file.read_bytes = 1;
    file.interrupt_each_read = true;
    mbr_trace_options options = options_for("test.trace");
    options.os = file.os();
    Loaded loaded = load(options);
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->request_count, 2u);
    EXPECT_EQ(loaded.trace->requests[1].source_line, 4u);
}

// Lines of random lengths, read in random pieces, come out as they went in.
TEST(Trace, Lines_RandomLengthsAndPieces_AreHandedOutWhole)
{
    const uint32_t seed = 20240607;
    std::mt19937 random(seed);
    for (int round = 0; round < 20; round++) {
        std::vector<std::string> lines;
        std::string content;
        for (int i = 0; i < 40; i++) {
            size_t length = random() % 5 == 0 ? random() % 200000 : random() % 50;
            lines.emplace_back(length, static_cast<char>('a' + i % 26));
            content += lines.back() + (i + 1 < 40 || round % 2 == 0 ? "\n" : "");
        }
        if (lines.back().empty() && round % 2 == 1)
            lines.pop_back();
        MemoryFile file(content);
        file.read_bytes = 1 + random() % 100000;
        TestHeap heap;
        int handle = file.os()->open(file.os()->context, "x");
        mbr_lines reader;
        mbr_lines_init(&reader, heap.heap(), file.os(), handle);
        mbr_trace_line line;
        for (size_t i = 0; i < lines.size(); i++) {
            ASSERT_EQ(mbr_lines_next(&reader, &line), MBR_LINES_LINE);
            ASSERT_EQ(std::string(line.text, line.length_bytes), lines[i]);
            ASSERT_EQ(line.text[line.length_bytes], '\0');
            ASSERT_EQ(line.number, i + 1);
            ASSERT_EQ(line.has_newline, i + 1 < lines.size() || round % 2 == 0 || i < 39)
                << "round " << round << " seed " << seed;
        }
        ASSERT_EQ(mbr_lines_next(&reader, &line), MBR_LINES_END);
        ASSERT_EQ(mbr_lines_next(&reader, &line), MBR_LINES_END);
        mbr_lines_finish(&reader);
        file.os()->close(file.os()->context, handle);
    }
}

TEST(Trace, Lines_LongestAndOneByteMore_AreAcceptedAndRefused)
{
    for (const char *end : {"\n", ""}) {
        std::string note(MBR_TRACE_MAX_LINE_BYTES - 6, 'n');
        std::string start = "arrived_at,num_prefill_tokens,num_decode_tokens,note\n";
        ASSERT_EQ(load_text(start + "1,1,1," + note + end).status, MBR_TRACE_OK);
        expect_refused(start + "1,1,1," + note + "n" + end, MBR_TRACE_OVER_LIMIT, 2, "",
            {"longer than 1048576 bytes", "MBR_TRACE_MAX_LINE_BYTES"});
    }
}

TEST(Trace, Lines_NulByte_IsRefusedWithItsLine)
{
    using namespace std::string_literals;
    expect_refused(header + "1,1,1\n2,\0,1\n"s, MBR_TRACE_BAD_LINE, 3, "", {"NUL byte"});
    expect_refused("\0"s, MBR_TRACE_BAD_LINE, 1, "", {"NUL byte"});
    // UTF-16 has NUL bytes in every letter of a header.
    expect_refused("\xff\xfe"
                   "a\0r\0"s,
        MBR_TRACE_BAD_LINE, 1, "", {"UTF-8"});
}

TEST(Trace, File_Empty_IsRefused)
{
    for (const char *content : {"", "\n", "\r\n\n", "\xef\xbb\xbf", " \t\n"})
        expect_refused(content, MBR_TRACE_EMPTY, 0, "", {"is empty"});
    expect_refused("", MBR_TRACE_EMPTY, 0, "", {"is empty"}, MBR_TRACE_MOONCAKE);
    for (const char *end : {"", "\n", "\n\n", "\r\n"})
        expect_refused("arrived_at,num_prefill_tokens,num_decode_tokens" + std::string(end),
            MBR_TRACE_EMPTY, 0, "", {"a header and no request"});
}

TEST(Trace, File_TenMegabytesOfNoise_IsRefusedInOneLine)
{
    const uint32_t seed = 4711;
    std::mt19937 random(seed);
    std::string noise(10 << 20, '\0');
    for (bool with_nul : {true, false}) {
        for (char &c : noise)
            c = static_cast<char>(random() % 255 + (with_nul ? 0 : 1));
        for (int format = MBR_TRACE_AUTO; format < MBR_TRACE_FORMAT_COUNT; format++)
            EXPECT_NE(load_text(noise, static_cast<mbr_trace_format>(format)).status, MBR_TRACE_OK)
                << "seed " << seed;
    }
    std::string one_line(10 << 20, 'x');
    expect_refused(one_line, MBR_TRACE_OVER_LIMIT, 1, "", {"text file with one request a line"});
}

TEST(Trace, File_ValueWithControlBytes_IsShownEscapedAndCut)
{
    expect_refused(header + "1,\x1b[31m\x07\xc3\xa4\x7f,1\n", MBR_TRACE_BAD_VALUE, 2,
        "num_prefill_tokens", {"'\\x1b[31m\\x07\\xc3\\xa4\\x7f' is not a number"});
    Loaded loaded = load_text(header + "1," + std::string(500000, 'y') + ",1\n");
    EXPECT_NE(loaded.text().find(std::string(48, 'y') + "...' is not a number"), std::string::npos)
        << loaded.text();
    EXPECT_EQ(loaded.text().find(std::string(49, 'y')), std::string::npos);
    // The worst of everything still leaves one line that ends.
    std::string path(5000, '\n');
    MemoryFile file(header + "1," + std::string(500000, '\x01') + ",1\n");
    mbr_trace_options options = options_for(path.c_str());
    options.os = file.os();
    EXPECT_EQ(load(options).status, MBR_TRACE_BAD_VALUE);
}

TEST(Trace, File_PathWithLettersOfAnyScript_IsShownAsItIs)
{
    MemoryFile file("");
    mbr_trace_options options = options_for("spur-\xc3\xa4\x01.csv");
    options.os = file.os();
    EXPECT_EQ(load(options).text().rfind("spur-\xc3\xa4\\x01.csv: the file is empty", 0), 0u);
    std::string long_path = std::string(300, 'd') + "/name.csv";
    options.path = long_path.c_str();
    EXPECT_EQ(
        load(options).text().rfind("..." + std::string(191, 'd') + "/name.csv: the file", 0), 0u);
}

TEST(Trace, File_CannotBeOpened_SaysWhy)
{
    for (int number : {ENOENT, EACCES, EMFILE, ENAMETOOLONG}) {
        MemoryFile file("");
        file.open_error = number;
        mbr_trace_options options = options_for("test.trace");
        options.os = file.os();
        Loaded loaded = load(options);
        EXPECT_EQ(loaded.status, MBR_TRACE_UNREADABLE);
        EXPECT_NE(loaded.text().find(strerror(number)), std::string::npos) << loaded.text();
        EXPECT_NE(loaded.text().find("check the path"), std::string::npos) << loaded.text();
    }
}

TEST(Trace, File_EachReadFails_SaysWhyAndAtWhichLine)
{
    const std::string content = header + "1,1,1\n2,1,1\n3,1,1\n";
    MemoryFile whole(content);
    whole.read_bytes = 16;
    mbr_trace_options options = options_for("test.trace");
    options.os = whole.os();
    ASSERT_EQ(load(options).status, MBR_TRACE_OK);
    ASSERT_GT(whole.read_count, 4u);
    for (uint64_t ordinal = 1; ordinal <= whole.read_count; ordinal++) {
        MemoryFile file(content);
        file.read_bytes = 16;
        file.read_error_at = ordinal;
        file.read_error = EIO;
        options.os = file.os();
        Loaded loaded = load(options);
        EXPECT_EQ(loaded.status, MBR_TRACE_UNREADABLE) << "read " << ordinal;
        // 16 bytes a read, and the header has 48: until it is whole, no line is meant.
        EXPECT_EQ(loaded.error.line == 0, ordinal <= 3) << loaded.text();
        EXPECT_NE(loaded.text().find(strerror(EIO)), std::string::npos) << loaded.text();
    }
}

TEST(Trace, File_Real_IsReadThroughTheSystem)
{
    std::string path = in_temp("real.csv");
    FILE *out = fopen(path.c_str(), "w");
    ASSERT_NE(out, nullptr);
    fputs((header + "1,2,3\n").c_str(), out);
    fclose(out);
    Loaded loaded = load(options_for(path.c_str()));
    ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    EXPECT_EQ(loaded.trace->request_count, 1u);
    mbr_trace_options options = options_for(path.c_str());
    mbr_trace *trace = nullptr;
    EXPECT_EQ(mbr_trace_load(&options, &trace, nullptr), MBR_TRACE_OK);
    mbr_trace_destroy(trace);
    ASSERT_EQ(unlink(path.c_str()), 0);
    EXPECT_EQ(load(options_for(path.c_str())).status, MBR_TRACE_UNREADABLE);
    EXPECT_EQ(mbr_trace_load(&options, &trace, nullptr), MBR_TRACE_UNREADABLE);
    EXPECT_EQ(trace, nullptr);
    mbr_trace_destroy(nullptr);
}

TEST(Trace, File_Directory_IsRefusedAsOne)
{
    std::string folder = testing::TempDir();
    Loaded loaded = load(options_for(folder.c_str()));
    EXPECT_EQ(loaded.status, MBR_TRACE_UNREADABLE);
    EXPECT_NE(loaded.text().find("directory; name a file in it"), std::string::npos)
        << loaded.text();
}

TEST(Trace, File_ModeForbidsReading_IsRefused)
{
    std::string path = in_temp("secret.csv");
    int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0000);
    ASSERT_GE(file, 0);
    close(file);
    int probe = open(path.c_str(), O_RDONLY);
    if (probe >= 0) {
        close(probe);
        unlink(path.c_str());
        GTEST_SKIP() << "this user reads files of mode 000; File_CannotBeOpened_SaysWhy covers it";
    }
    Loaded loaded = load(options_for(path.c_str()));
    EXPECT_EQ(loaded.status, MBR_TRACE_UNREADABLE);
    EXPECT_NE(loaded.text().find(strerror(EACCES)), std::string::npos) << loaded.text();
    unlink(path.c_str());
}

TEST(Trace, File_Pipe_IsReadLikeAFile)
{
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    std::string content = header + "1,2,3\n2,3,4\n";
    ASSERT_EQ(write(ends[1], content.data(), content.size()), (ssize_t)content.size());
    close(ends[1]);
    std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
    Loaded loaded = load(options_for(path.c_str()));
    EXPECT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
    close(ends[0]);
}

TEST(Trace, MaxRequests_StopsThere_AndZeroReadsAll)
{
    const std::string content = header + "3,1,1\n2,1,1\n1,1,1\nrubbish\n";
    for (uint64_t maximum : {1u, 2u, 3u}) {
        Loaded loaded = load_text(content, MBR_TRACE_AUTO, maximum);
        ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
        EXPECT_EQ(loaded.trace->request_count, maximum);
        EXPECT_TRUE(loaded.trace->stopped_at_maximum);
        EXPECT_EQ(loaded.trace->out_of_order_count, maximum - 1);
        EXPECT_EQ(loaded.trace->requests[0].arrival_ns, 0u);
        EXPECT_EQ(loaded.trace->requests[0].source_line, maximum + 1);
    }
    expect_refused(content, MBR_TRACE_BAD_LINE, 5, "", {"1 fields"});
    EXPECT_EQ(load_text(content, MBR_TRACE_AUTO, 4).status, MBR_TRACE_BAD_LINE);
    Loaded all = load_text(header + "1,1,1\n", MBR_TRACE_AUTO, 0);
    EXPECT_FALSE(all.trace->stopped_at_maximum);
    Loaded json = load_text("{\"timestamp\":0,\"input_length\":1,\"output_length\":1,"
                            "\"hash_ids\":[1]}\nrubbish\n",
        MBR_TRACE_AUTO, 1);
    EXPECT_EQ(json.status, MBR_TRACE_OK) << json.text();
}

TEST(Trace, MaxRequests_OneMoreThanTheLimit_IsRefused)
{
    mbr_trace_limits limits = {2, 100};
    for (int count : {2, 3}) {
        MemoryFile file(header + "1,1,1\n2,1,1\n" + (count == 3 ? "3,1,1\n" : ""));
        mbr_trace_options options = options_for("test.trace");
        options.os = file.os();
        options.limits = &limits;
        Loaded loaded = load(options);
        EXPECT_EQ(loaded.status, count == 2 ? MBR_TRACE_OK : MBR_TRACE_OVER_LIMIT);
        if (count == 3) {
            EXPECT_NE(loaded.text().find("more than 2 requests"), std::string::npos);
        }
    }
}

TEST(Trace, Format_Names_GoBothWays)
{
    for (int i = MBR_TRACE_AUTO; i < MBR_TRACE_FORMAT_COUNT; i++) {
        auto format = static_cast<mbr_trace_format>(i);
        mbr_trace_format found;
        ASSERT_TRUE(mbr_trace_format_find(mbr_trace_format_name(format), &found));
        EXPECT_EQ(found, format);
    }
    mbr_trace_format found = MBR_TRACE_VIDUR;
    EXPECT_FALSE(mbr_trace_format_find("csv", &found));
    EXPECT_EQ(found, MBR_TRACE_AUTO);
    EXPECT_EQ(mbr_trace_format_name(MBR_TRACE_FORMAT_COUNT), nullptr);
    MemoryFile file(header + "1,1,1\n");
    mbr_trace_options options = options_for("test.trace");
    options.os = file.os();
    const int no_format = 17; // written as bytes: C++ has no such value of the enum
    std::memcpy(&options.format, &no_format, sizeof options.format);
    Loaded loaded = load(options);
    EXPECT_EQ(loaded.status, MBR_TRACE_UNKNOWN_FORMAT);
    EXPECT_NE(loaded.text().find("17"), std::string::npos);
}

// Every allocation fails once, in a load that needs all of them: the trace, the line buffer and
// its growth, the requests and theirs, the chunks of ids, the buffer of the sort.
TEST(Trace, Heap_EachAllocationFails_RefusesAndReleasesAll)
{
    std::string content;
    for (int i = 0; i < 3000; i++)
        content += "{\"timestamp\": " + std::to_string(i % 7) +
            ", \"input_length\": 20000, \"output_length\": 1, \"hash_ids\": [0,1,2,3,4,5,6,7,8,9,"
            "10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,"
            "38,39]" +
            (i == 2000 ? ", \"note\": \"" + std::string(300000, 'x') + "\"" : "") + "}\n";
    MemoryFile file(content);
    TestHeap heap;
    mbr_trace_options options = options_for("test.trace");
    options.os = file.os();
    options.heap = heap.heap();
    {
        Loaded loaded = load(options);
        ASSERT_EQ(loaded.status, MBR_TRACE_OK) << loaded.text();
        EXPECT_GT(heap.live_count(), 2u);
    }
    EXPECT_EQ(heap.live_count(), 0u);
    const uint64_t total = heap.call_count();
    EXPECT_GE(total, 11u);
    for (uint64_t ordinal = 1; ordinal <= total; ordinal++) {
        heap.restart();
        heap.fail_at(ordinal);
        Loaded loaded = load(options);
        EXPECT_EQ(loaded.status, MBR_TRACE_OUT_OF_MEMORY) << "allocation " << ordinal;
        EXPECT_NE(loaded.text().find("no memory"), std::string::npos);
        EXPECT_EQ(heap.live_count(), 0u) << "allocation " << ordinal;
    }
    heap.restart();
    heap.fail_at(0);
    EXPECT_EQ(load(options).status, MBR_TRACE_OK);
}

} // namespace
