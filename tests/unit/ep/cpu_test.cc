// The CPU EP's streams: order, bounds, life, and every refusal of the functions that a client
// calls.
#include "tests/unit/ep/cpu_fixture.h"

#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace ep_test;

namespace
{

uint64_t address_of(const void *memory)
{
    return reinterpret_cast<uint64_t>(memory);
}

// Appends a number; runs on the stream's worker only, so that the vector needs no lock.
struct Note {
    std::vector<int> *list;
    int number;
    static void run(void *context)
    {
        Note *note = static_cast<Note *>(context);
        note->list->push_back(note->number);
    }
};

TEST(Cpu, DefaultOptions_CreatesAndDestroysWithoutAThread)
{
    mbr_cpu *cpu = nullptr;
    ASSERT_EQ(MBR_OK, mbr_cpu_create(nullptr, &cpu, nullptr));
    EXPECT_NE(nullptr, mbr_cpu_order(cpu));
    EXPECT_NE(nullptr, mbr_cpu_transfer(cpu));
    EXPECT_NE(nullptr, mbr_cpu_instance(cpu));
    EXPECT_EQ(MBR_OK, mbr_cpu_destroy(cpu, nullptr));
}

TEST(Cpu, LimitsPastTheLargest_OutOfRangeWithNothingMade)
{
    mbr_cpu *cpu = reinterpret_cast<mbr_cpu *>(1);
    mbr_cpu_options options = sized<mbr_cpu_options>();
    mbr_error error = sized<mbr_error>();
    options.stream_limit = 4097;
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_cpu_create(&options, &cpu, &error));
    EXPECT_EQ(nullptr, cpu);
    EXPECT_EQ(1u, error.argument_index);
    options.stream_limit = 1;
    options.operation_limit = (1 << 20) + 1;
    EXPECT_EQ(MBR_OUT_OF_RANGE, mbr_cpu_create(&options, &cpu, &error));
    EXPECT_EQ(2u, error.argument_index);
    EXPECT_NE(nullptr, strstr(error.text, "1048577")) << error.text;
    options.stream_limit = 4096; // the largest of both
    options.operation_limit = 1 << 20;
    ASSERT_EQ(MBR_OK, mbr_cpu_create(&options, &cpu, nullptr));
    EXPECT_EQ(MBR_OK, mbr_cpu_destroy(cpu, nullptr));
}

TEST(Cpu, OptionsOfAnOlderCaller_FieldsBeyondItsSizeAreDefaults)
{
    mbr_cpu_options options = sized<mbr_cpu_options>();
    mbr_cpu *cpu = nullptr;
    options.stream_limit = UINT32_MAX; // beyond struct_size: must not be read
    options.struct_size = sizeof(uint32_t);
    ASSERT_EQ(MBR_OK, mbr_cpu_create(&options, &cpu, nullptr));
    EXPECT_EQ(MBR_OK, mbr_cpu_destroy(cpu, nullptr));
    options.stream_limit = 1;
    options.operation_limit = UINT32_MAX;
    options.struct_size = offsetof(mbr_cpu_options, operation_limit);
    ASSERT_EQ(MBR_OK, mbr_cpu_create(&options, &cpu, nullptr));
    mbr_native one, two;
    EXPECT_EQ(MBR_OK, mbr_cpu_stream_create(cpu, &one, nullptr));
    EXPECT_EQ(MBR_OUT_OF_DESCRIPTORS, mbr_cpu_stream_create(cpu, &two, nullptr));
    EXPECT_EQ(0u, two.value);
    EXPECT_EQ(MBR_OK, mbr_cpu_stream_destroy(cpu, one, nullptr));
    EXPECT_EQ(MBR_OK, mbr_cpu_destroy(cpu, nullptr));
}

TEST(Cpu, OneStream_RunsInOrderOfSubmission)
{
    Cpu ep(1, 8);
    mbr_native stream = ep.stream();
    std::vector<int> seen;
    std::vector<Note> notes;
    for (int i = 0; i < 1000; i++)
        notes.push_back({&seen, i});
    for (Note &note : notes)
        ep.call(stream, Note::run, &note);
    ep.synchronize(stream);
    std::vector<int> expected(1000);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(expected, seen);
    ep.destroy(stream);
}

TEST(Cpu, CopyAndFill_MoveTheBytesInOrder)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    std::vector<uint8_t> a(4096, 1), b(4096, 2);
    EXPECT_EQ(MBR_OK,
        mbr_cpu_fill(ep.cpu, stream, address_of(a.data()) + 1, 0xab, a.size() - 2, nullptr));
    EXPECT_EQ(MBR_OK,
        mbr_cpu_copy(ep.cpu, stream, address_of(b.data()), address_of(a.data()), 4095, nullptr));
    EXPECT_EQ(MBR_OK, mbr_cpu_fill(ep.cpu, stream, address_of(a.data()), 0, a.size(), nullptr));
    ep.synchronize(stream);
    EXPECT_EQ(std::vector<uint8_t>(4096, 0), a);
    std::vector<uint8_t> expected(4096, 0xab);
    expected[0] = 1;
    expected[4095] = 2;
    EXPECT_EQ(expected, b);
    ep.destroy(stream);
}

TEST(Cpu, AdjacentRanges_AreNoOverlap)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    std::vector<uint8_t> bytes(64);
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    uint64_t start = address_of(bytes.data());
    EXPECT_EQ(MBR_OK, mbr_cpu_copy(ep.cpu, stream, start + 32, start, 32, nullptr));
    ep.synchronize(stream);
    EXPECT_EQ(31, bytes[63]);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_copy(ep.cpu, stream, start + 31, start, 32, nullptr));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_copy(ep.cpu, stream, start, start + 31, 32, nullptr));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_copy(ep.cpu, stream, start, start, 1, nullptr));
    ep.destroy(stream);
}

TEST(Cpu, BadRanges_RefusedAndNothingRuns)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    uint8_t bytes[16] = {7};
    uint64_t at = address_of(bytes);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_fill(ep.cpu, stream, at, 0, 0, nullptr));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_fill(ep.cpu, stream, 0, 0, 1, nullptr));
    EXPECT_EQ(MBR_OVERFLOW, mbr_cpu_fill(ep.cpu, stream, at, 0, UINT64_MAX - 10, nullptr));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_copy(ep.cpu, stream, at, at + 8, 0, nullptr));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_copy(ep.cpu, stream, 0, at, 8, nullptr));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, mbr_cpu_copy(ep.cpu, stream, at, 0, 8, nullptr));
    EXPECT_EQ(MBR_OVERFLOW, mbr_cpu_copy(ep.cpu, stream, at, 8, UINT64_MAX, nullptr));
    EXPECT_EQ(MBR_OVERFLOW, mbr_cpu_copy(ep.cpu, stream, 8, at, UINT64_MAX - 8, nullptr));
    EXPECT_EQ(
        MBR_INVALID_ARGUMENT, mbr_cpu_host_function(ep.cpu, stream, nullptr, nullptr, nullptr));
    ep.synchronize(stream);
    EXPECT_EQ(7, bytes[0]);
    ep.destroy(stream);
}

TEST(Cpu, UnknownStreams_RefusedByEveryCall)
{
    Cpu ep(2);
    mbr_native gone = ep.stream();
    ep.destroy(gone);
    mbr_native open = ep.stream();
    uint8_t byte = 0;
    auto nothing = [](void *) {};
    struct {
        mbr_native native;
        mbr_status status;
    } const rows[] = {
        {gone, MBR_UNKNOWN_OBJECT},
        {{MBR_NATIVE_STREAM_CPU, 0, 0}, MBR_UNKNOWN_OBJECT},
        {{MBR_NATIVE_STREAM_CPU, 0, open.value + 2}, MBR_UNKNOWN_OBJECT},
        {{MBR_NATIVE_STREAM_CPU, 0, UINT64_MAX}, MBR_UNKNOWN_OBJECT},
        {{MBR_NATIVE_STREAM_CUDA, 0, open.value}, MBR_INVALID_ARGUMENT},
        {{MBR_NATIVE_STREAM_NONE, 0, open.value}, MBR_INVALID_ARGUMENT},
    };
    for (const auto &row : rows) {
        EXPECT_EQ(row.status, mbr_cpu_fill(ep.cpu, row.native, address_of(&byte), 1, 1, nullptr));
        EXPECT_EQ(row.status,
            mbr_cpu_copy(ep.cpu, row.native, address_of(&byte), address_of(&ep), 1, nullptr));
        EXPECT_EQ(row.status, mbr_cpu_host_function(ep.cpu, row.native, nothing, nullptr, nullptr));
        EXPECT_EQ(row.status, mbr_cpu_synchronize(ep.cpu, row.native, soon(), nullptr));
        EXPECT_EQ(row.status, mbr_cpu_stream_destroy(ep.cpu, row.native, nullptr));
        EXPECT_EQ(row.status, ep.line_open(1, row.native));
    }
    ep.destroy(open);
}

TEST(Cpu, ValuesOfStreams_AreNeverUsedAgain)
{
    Cpu ep(2);
    std::set<uint64_t> values;
    for (int i = 0; i < 200; i++) {
        mbr_native one = ep.stream(), two = ep.stream();
        for (mbr_native stream : {one, two}) {
            EXPECT_NE(0u, stream.value);
            EXPECT_TRUE(values.insert(stream.value).second) << stream.value;
            ep.synchronize(stream);
            ep.destroy(stream); // idle: the place is free at once
        }
    }
    EXPECT_LE(ep.threads.calls, 2u); // a place keeps its worker
}

TEST(Cpu, DestroyedStream_FinishesItsQueueAndCountsUntilThen)
{
    Cpu ep(1);
    Gate gate;
    std::vector<int> seen;
    Note note = {&seen, 5};
    mbr_native stream = ep.stream();
    ep.call(stream, Gate::pass, &gate);
    ep.call(stream, Note::run, &note);
    ep.destroy(stream);
    mbr_native next;
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_OUT_OF_DESCRIPTORS, mbr_cpu_stream_create(ep.cpu, &next, &error));
    EXPECT_NE(nullptr, strstr(error.text, "stream_limit")) << error.text;
    gate.open();
    while (mbr_cpu_stream_create(ep.cpu, &next, nullptr) != MBR_OK)
        std::this_thread::yield();
    EXPECT_EQ(std::vector<int>{5}, seen);
    ep.destroy(next);
}

TEST(Cpu, DestroyWithOpenObjects_InUseWithCountsThenGoesOn)
{
    mbr_cpu *cpu = nullptr;
    ASSERT_EQ(MBR_OK, mbr_cpu_create(nullptr, &cpu, nullptr));
    mbr_native stream;
    ASSERT_EQ(MBR_OK, mbr_cpu_stream_create(cpu, &stream, nullptr));
    mbr_line_open_request request = sized<mbr_line_open_request>();
    request.line_id = 9;
    request.stream = stream;
    mbr_outcome outcome = sized<mbr_outcome>();
    const mbr_order_vtable *order = mbr_cpu_order(cpu);
    ASSERT_EQ(MBR_OK, order->line_open(mbr_cpu_instance(cpu), &request, &outcome, nullptr));
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_IN_USE, mbr_cpu_destroy(cpu, &error));
    EXPECT_STREQ("1 streams and 1 lines are open; destroy and close them first", error.text);
    EXPECT_EQ(MBR_OK, mbr_cpu_stream_destroy(cpu, stream, nullptr));
    EXPECT_EQ(MBR_IN_USE, mbr_cpu_destroy(cpu, &error));
    mbr_line_request line = sized<mbr_line_request>();
    line.line_id = 9;
    EXPECT_EQ(MBR_OK, order->line_close(mbr_cpu_instance(cpu), &line, &outcome, nullptr));
    EXPECT_EQ(MBR_OK, mbr_cpu_destroy(cpu, nullptr));
}

TEST(Cpu, DestroyOfTheEp_LetsQueuedWorkFinish)
{
    std::vector<int> seen;
    std::vector<Note> notes(100, Note{&seen, 1});
    {
        Cpu ep(1);
        mbr_native stream = ep.stream();
        for (Note &note : notes)
            ep.call(stream, Note::run, &note);
        ep.destroy(stream);
    }
    EXPECT_EQ(100u, seen.size());
}

TEST(Cpu, FullStream_SubmitterWaitsForRoom)
{
    Cpu ep(1, 2);
    Gate gate;
    mbr_native stream = ep.stream();
    std::vector<int> seen;
    Note first = {&seen, 1}, second = {&seen, 2};
    ep.call(stream, Gate::pass, &gate);
    gate.await_arrival();
    ep.call(stream, Note::run, &first); // the running one and this one fill the stream
    std::atomic<bool> submitted{false};
    std::thread submitter([&] {
        ep.call(stream, Note::run, &second);
        submitted = true;
    });
    EXPECT_FALSE(submitted); // whether or not it has begun to wait
    gate.open();
    submitter.join();
    EXPECT_TRUE(submitted);
    ep.synchronize(stream);
    EXPECT_EQ((std::vector<int>{1, 2}), seen);
    ep.destroy(stream);
}

TEST(Cpu, DestroyedWhileASubmitterWaits_SubmitterIsRefused)
{
    std::vector<int> seen;
    Note note = {&seen, 1};
    for (int round = 0; round < 50; round++) { // before and after the submitter began to wait
        Cpu ep(1, 1);
        Gate gate;
        mbr_native stream = ep.stream();
        ep.call(stream, Gate::pass, &gate);
        gate.await_arrival();
        std::atomic<bool> begun{false};
        std::thread submitter([&] {
            begun = true;
            EXPECT_EQ(MBR_UNKNOWN_OBJECT,
                mbr_cpu_host_function(ep.cpu, stream, Note::run, &note, nullptr));
        });
        for (int i = 0; i < round || !begun; i++)
            std::this_thread::yield();
        ep.destroy(stream);
        submitter.join();
        gate.open();
    }
    EXPECT_TRUE(seen.empty());
}

struct Resubmit {
    Cpu *ep;
    mbr_native own;
    mbr_native target;
    std::vector<mbr_status> statuses;
    mbr_status synchronized;
    static void run(void *context)
    {
        Resubmit *self = static_cast<Resubmit *>(context);
        for (int i = 0; i < 3; i++)
            self->statuses.push_back(mbr_cpu_host_function(
                self->ep->cpu, self->target, [](void *) {}, nullptr, nullptr));
        self->synchronized = mbr_cpu_synchronize(self->ep->cpu, self->own, kForever, nullptr);
    }
};

TEST(Cpu, HostFunctionOnItsOwnFullStream_QueueFullInsteadOfADeadlock)
{
    Cpu ep(1, 2);
    mbr_native stream = ep.stream();
    Resubmit resubmit = {&ep, stream, stream, {}, MBR_OK};
    ep.call(stream, Resubmit::run, &resubmit);
    ep.synchronize(stream);
    EXPECT_EQ((std::vector<mbr_status>{MBR_OK, MBR_QUEUE_FULL, MBR_QUEUE_FULL}), resubmit.statuses);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, resubmit.synchronized);
    ep.destroy(stream);
}

TEST(Cpu, HostFunctionsOfTwoFullStreams_NeitherWaitsForTheOther)
{
    Cpu ep(2, 1);
    Gate gate;
    mbr_native one = ep.stream(), two = ep.stream();
    Resubmit resubmit = {&ep, one, two, {}, MBR_OK};
    ep.call(two, Gate::pass, &gate);
    gate.await_arrival();
    ep.call(one, Resubmit::run, &resubmit);
    ep.synchronize(one);
    EXPECT_EQ(std::vector<mbr_status>(3, MBR_QUEUE_FULL), resubmit.statuses);
    gate.open();
    ep.synchronize(two);
    ep.destroy(one);
    ep.destroy(two);
}

TEST(Cpu, SynchronizePastItsDeadline_TimesOutAndWorkGoesOn)
{
    Cpu ep(1);
    Gate gate;
    mbr_native stream = ep.stream();
    ep.synchronize(stream); // nothing submitted: at once
    ep.call(stream, Gate::pass, &gate);
    EXPECT_EQ(MBR_TIMED_OUT, mbr_cpu_synchronize(ep.cpu, stream, 0, nullptr));
    uint64_t deadline = now_ns() + 1000000;
    EXPECT_EQ(MBR_TIMED_OUT, mbr_cpu_synchronize(ep.cpu, stream, deadline, nullptr));
    EXPECT_GE(now_ns(), deadline);
    gate.open();
    ep.synchronize(stream);
    ep.destroy(stream);
}

TEST(Cpu, SteadyState_NoAllocationForOperationsAndSignals)
{
    Cpu ep(2, 16);
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    uint8_t bytes[64];
    uint64_t before = ep.heap.calls;
    for (int i = 0; i < 1000; i++) {
        EXPECT_EQ(MBR_OK, mbr_cpu_fill(ep.cpu, stream, address_of(bytes), 1, 64, nullptr));
        EXPECT_EQ(MBR_OK, ep.signal(1));
    }
    ep.synchronize(stream);
    EXPECT_EQ(before, ep.heap.calls);
    EXPECT_EQ(1000u, ep.reached(1));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(Cpu, EachAllocationAndThreadStartRefused_TypedAndRepeatable)
{
    for (uint64_t fail_at = 1; fail_at <= 2; fail_at++) {
        Heap heap;
        heap.fail_at = fail_at;
        mbr_cpu_seams seams = {heap.seam(), nullptr};
        mbr_cpu *cpu = reinterpret_cast<mbr_cpu *>(1);
        EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, mbr_cpu_create_with(nullptr, &seams, &cpu, nullptr));
        EXPECT_EQ(nullptr, cpu);
        EXPECT_EQ(0, heap.live);
        EXPECT_EQ(fail_at, heap.calls);
    }
    Cpu ep(1);
    mbr_native stream;
    mbr_error error = sized<mbr_error>();
    ep.heap.fail_at = ep.heap.calls + 1; // the ring
    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, mbr_cpu_stream_create(ep.cpu, &stream, &error));
    ep.threads.fail_at = ep.threads.calls + 1;
    EXPECT_EQ(MBR_SYSTEM, mbr_cpu_stream_create(ep.cpu, &stream, &error));
    EXPECT_EQ(uint32_t{MBR_NATIVE_ERRNO}, error.native_domain);
    EXPECT_EQ(EAGAIN, error.native_code);
    stream = ep.stream(); // the place was given back both times
    ep.heap.fail_at = ep.heap.calls + 1;
    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, ep.line_open(1, stream));
    EXPECT_EQ(MBR_OK, ep.line_open(1, stream));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(Cpu, WorkersBlockEverySignal_HandlersOfTheApplicationRunElsewhere)
{
    Cpu ep(1);
    mbr_native stream = ep.stream();
    int blocked = 0;
    ep.call(
        stream,
        [](void *context) {
            sigset_t set;
            sigemptyset(&set);
            pthread_sigmask(SIG_SETMASK, nullptr, &set);
            *static_cast<int *>(context) = sigismember(&set, SIGUSR1) + sigismember(&set, SIGINT);
        },
        &blocked);
    ep.synchronize(stream);
    EXPECT_EQ(2, blocked);
    ep.destroy(stream);
}

} // namespace
