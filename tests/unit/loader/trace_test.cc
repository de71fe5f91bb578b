// The call trace: what a line holds, where lines go, and that nothing of it is there when it is
// off.
#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <regex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

struct Traced {
    explicit Traced(const char *word, const std::string &file = "", bool secure = false,
        const mbr_heap *heap = nullptr)
        : path(folder.put_specimen("good")), trace_file(file.empty() ? folder.at("calls") : file)
    {
        environment.trace = word;
        environment.trace_file = trace_file.c_str();
        environment.secure = secure;
        opened.emplace_back(new Opened(path, true, &environment, heap));
    }

    mbr_status open() { return mbr_mechanism_open(module(), &options, &mechanism, &error); }
    mbr_module *module() { return opened[0]->module; }

    std::vector<std::string> lines() const
    {
        std::vector<std::string> all;
        std::ifstream file(trace_file);
        for (std::string line; std::getline(file, line);)
            all.push_back(line);
        return all;
    }

    Folder folder;
    std::string path, trace_file;
    mbr_loader_environment environment = {};
    mbr_mechanism_options options = {};
    mbr_mechanism mechanism = {};
    Error error;
    std::vector<std::unique_ptr<Opened>> opened;
};

mbr_status allocate(mbr_mechanism &mechanism, uint64_t id, mbr_error *error)
{
    mbr_allocate_request request = {};
    request.struct_size = sizeof request;
    request.allocation_id = id;
    request.bytes = 100;
    mbr_outcome outcome = {};
    outcome.struct_size = sizeof outcome;
    return mechanism.allocator.allocate(mechanism.instance, &request, &outcome, error);
}

unsigned count_of(const std::vector<std::string> &lines, const std::string &part)
{
    unsigned count = 0;
    for (auto &line : lines)
        count += line.find(part) != std::string::npos;
    return count;
}

// H1: the host calls the plugin's own function, at the cost of one load.
TEST(Trace, Off_TablesHoldThePluginsOwnFunctions)
{
    Traced world(nullptr);
    ASSERT_EQ(world.open(), MBR_OK) << world.error.text;
    void *slots[3];
    memcpy(&slots[0], &world.mechanism.allocator.allocate, sizeof slots[0]);
    memcpy(&slots[1], &world.mechanism.virtual_.map, sizeof slots[1]);
    memcpy(&slots[2], &world.mechanism.plugin.report, sizeof slots[2]);
    for (void *slot : slots) {
        Dl_info object;
        ASSERT_NE(dladdr(slot, &object), 0);
        EXPECT_EQ(world.path, object.dli_fname);
    }
    EXPECT_EQ(world.mechanism.instance, world.mechanism.plugin_instance);
    EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);
    EXPECT_EQ(access(world.trace_file.c_str(), F_OK), -1);
}

TEST(Trace, Calls_OneLineEachWithNumbersStatusAndTime)
{
    Traced world("calls");
    ASSERT_EQ(world.open(), MBR_OK) << world.error.text;
    EXPECT_NE(world.mechanism.instance, world.mechanism.plugin_instance);
    errno = 77;
    EXPECT_EQ(allocate(world.mechanism, 7, &world.error), MBR_OUT_OF_MEMORY);
    EXPECT_EQ(errno, 77);
    EXPECT_STREQ(world.error.text, "the specimen has no memory to give");
    EXPECT_EQ(allocate(world.mechanism, 8, nullptr), MBR_OUT_OF_MEMORY);
    EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);

    auto lines = world.lines();
    std::string me = "[" + std::to_string(gettid()) + "] ";
    for (auto &line : lines) {
        EXPECT_EQ(line.compare(0, me.size() + 8, me + "specimen"), 0) << line;
        EXPECT_TRUE(std::regex_search(line, std::regex(" -> \\d+ .*\\d+ ns$"))) << line;
    }
    EXPECT_EQ(count_of(lines, "specimen plugin.mechanisms unit0 -> 0 "), 1u);
    EXPECT_EQ(count_of(lines, "specimen plugin.open unit0 -> 0 "), 1u);
    EXPECT_EQ(count_of(lines, "specimen plugin.capability membrane.order -> 262145 "), 1u);
    EXPECT_EQ(count_of(lines, "specimen/unit0 allocator.fact fact=1 -> 0 value=4096 "), 1u);
    EXPECT_EQ(count_of(lines,
                  "specimen/unit0 allocator.allocate flags=0 allocation_id=7 bytes=100 "
                  "align_bytes=0 max_owned_bytes=0 -> 131073 "
                  "\"the specimen has no memory to give\" "),
        1u);
    EXPECT_EQ(
        count_of(lines, "allocation_id=8 bytes=100 align_bytes=0 max_owned_bytes=0 -> 131073 "),
        1u);
    EXPECT_EQ(count_of(lines, "specimen/unit0 plugin.close flags=0 -> 0 state=1 "), 1u);
    EXPECT_EQ(count_of(lines, "plugin.report -> 0 "), 2u);
    struct stat file;
    ASSERT_EQ(stat(world.trace_file.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST(Trace, AbsentSlot_IsSeenRefusing)
{
    Traced world("calls");
    ASSERT_EQ(world.open(), MBR_OK);
    mbr_line_request request = {};
    mbr_outcome outcome = {};
    request.struct_size = sizeof request;
    outcome.struct_size = sizeof outcome;
    EXPECT_EQ(world.mechanism.order.signal(world.mechanism.instance, &request, &outcome, nullptr),
        MBR_UNSUPPORTED);
    EXPECT_EQ(count_of(world.lines(), "order.signal line_id=0 -> 262145 "), 1u);
    EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);
}

// Who runs an elevated process must not choose what it writes to.
TEST(Trace, Elevated_NothingIsWritten)
{
    Traced world("calls", "", true);
    ASSERT_EQ(world.open(), MBR_OK);
    EXPECT_EQ(world.mechanism.instance, world.mechanism.plugin_instance);
    EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);
    EXPECT_EQ(access(world.trace_file.c_str(), F_OK), -1);
}

TEST(Trace, ProcessEnvironment_IsReadAndFileAppendedTo)
{
    Folder folder;
    std::string path = folder.put_specimen("good"), file = folder.put("calls", "kept\n");
    Variable word("MEMBRANE_TRACE", "calls"), name("MEMBRANE_TRACE_FILE", file);
    Opened opened(path, true);
    mbr_mechanism_description description;
    ASSERT_EQ(mbr_module_describe(opened.module, 1, &description, nullptr), MBR_OK);
    std::ifstream text(file);
    std::string first, second;
    std::getline(text, first);
    std::getline(text, second);
    EXPECT_EQ(first, "kept");
    EXPECT_NE(second.find("plugin.mechanisms unit1 -> 0"), std::string::npos) << second;
}

TEST(Trace, FileThatCannotBeWritten_LinesGoToStderr)
{
    Folder folder;
    std::string link = folder.at("link");
    ASSERT_EQ(symlink("elsewhere", link.c_str()), 0);
    for (auto &file : {folder.path(), link, folder.at("none/calls")}) {
        testing::internal::CaptureStderr();
        {
            Traced world("calls", file);
            ASSERT_EQ(world.open(), MBR_OK);
            EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);
        }
        std::string said = testing::internal::GetCapturedStderr();
        EXPECT_NE(said.find("membrane trace: " + file + " cannot be written ("), std::string::npos);
        EXPECT_NE(said.find("specimen/unit0 plugin.close "), std::string::npos) << said;
    }
    EXPECT_EQ(access(folder.at("elsewhere").c_str(), F_OK), -1);
}

TEST(Trace, UnknownWord_SaysTheKnownOne)
{
    testing::internal::CaptureStderr();
    Traced world("everything");
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
        "membrane trace: MEMBRANE_TRACE is \"everything\"; known: calls\n");
    ASSERT_EQ(world.open(), MBR_OK);
    EXPECT_EQ(world.mechanism.instance, world.mechanism.plugin_instance);
    EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);
}

TEST(Trace, RefusedFile_OpensNoTraceFile)
{
    Folder folder;
    std::string path = folder.put_specimen("no_note"), file = folder.at("calls");
    mbr_loader_environment environment = {};
    environment.trace = "calls";
    environment.trace_file = file.c_str();
    unsigned before = descriptor_count();
    Opened refused(path, true, &environment);
    EXPECT_NE(refused.status, MBR_OK);
    EXPECT_EQ(access(file.c_str(), F_OK), -1);
    path = folder.put_specimen("no_entry");
    Opened halfway(path, true, &environment);
    EXPECT_NE(halfway.status, MBR_OK);
    EXPECT_EQ(descriptor_count(), before);
}

TEST(Trace, EightThreads_LinesAreWhole)
{
    Traced world("calls");
    ASSERT_EQ(world.open(), MBR_OK);
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < 8; thread++)
        threads.emplace_back([&world, thread] {
            for (uint64_t i = 0; i < 100; i++) {
                Error error;
                allocate(world.mechanism, 1000 * (thread + 1) + i, &error);
            }
        });
    for (auto &thread : threads)
        thread.join();
    EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);
    std::regex whole("\\[\\d+\\] specimen/unit0 allocator.allocate flags=0 allocation_id=\\d+ "
                     "bytes=100 .* -> 131073 \".*\" \\d+ ns");
    unsigned count = 0;
    for (auto &line : world.lines())
        count +=
            line.find("allocator.allocate") != std::string::npos && std::regex_match(line, whole);
    EXPECT_EQ(count, 800u);
}

TEST(Trace, EveryAllocationFails_InstanceIsClosedOnce)
{
    for (uint64_t fail_at = 1;; fail_at++) {
        ASSERT_LT(fail_at, 20u);
        CountedHeap heap(fail_at);
        Traced world("calls", "", false, &heap.heap);
        mbr_status status = world.opened[0]->status;
        if (status == MBR_OK) {
            status = world.open();
            auto &counts = counts_of(world.path);
            EXPECT_EQ(counts.opens - counts.closes, status == MBR_OK ? 1u : 0u);
            if (status == MBR_OK) {
                EXPECT_EQ(mbr_mechanism_close(&world.mechanism, nullptr), MBR_OK);
            }
        }
        world.opened.clear();
        EXPECT_EQ(heap.live_count, 0u);
        if (status == MBR_OK)
            break;
        EXPECT_EQ(status, MBR_OUT_OF_HOST_MEMORY);
    }
}

TEST(Trace, HostRefuses_InstanceIsClosedThroughTheTrace)
{
    Fault fault("fact-2=3"); // a granule that is no power of two
    Traced world("calls");
    EXPECT_EQ(world.open(), MBR_CONTRACT_BROKEN) << world.error.text;
    EXPECT_EQ(count_of(world.lines(), "plugin.close flags=0 -> 0 "), 1u);
    EXPECT_EQ(counts_of(world.path).live, 0u);
}

} // namespace
