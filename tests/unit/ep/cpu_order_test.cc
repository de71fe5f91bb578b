// The slots of the CPU EP against the contract: values, waits, every refusal, and the rules of
// struct_size on both sides.
#include "tests/unit/ep/cpu_fixture.h"

#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ep_test;

namespace
{

uint64_t address_of(const void *memory)
{
    return reinterpret_cast<uint64_t>(memory);
}

// A copy of the first `bytes` of an object, aligned, that ends at an unreadable page or at most
// seven bytes before it; those bytes are the object's own, so that reading them as a field is
// noticed too.
template <typename T> class AtTheEdge
{
  public:
    AtTheEdge(const T &object, size_t bytes)
    {
        page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        base_ = static_cast<char *>(
            mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        EXPECT_NE(MAP_FAILED, static_cast<void *>(base_));
        EXPECT_EQ(0, mprotect(base_ + page_, page_, PROT_NONE));
        size_t room = (bytes + 7) / 8 * 8;
        memcpy(base_ + page_ - room, &object, room);
        object_ = reinterpret_cast<T *>(base_ + page_ - room);
        object_->struct_size = static_cast<uint32_t>(bytes);
    }
    ~AtTheEdge() { munmap(base_, 2 * page_); }
    AtTheEdge(const AtTheEdge &) = delete;
    AtTheEdge &operator=(const AtTheEdge &) = delete;
    T *get() const { return object_; }

  private:
    size_t page_;
    char *base_;
    T *object_;
};

TEST(CpuOrder, Table_StatesKindMinorAndSize)
{
    Cpu ep;
    EXPECT_EQ(sizeof(mbr_order_vtable), ep.order->struct_size);
    EXPECT_EQ(MBR_KIND_ORDER, ep.order->kind);
    EXPECT_EQ(MBR_MINOR_0, ep.order->minor);
    EXPECT_EQ(sizeof(mbr_transfer_vtable), ep.transfer->struct_size);
    EXPECT_EQ(MBR_KIND_TRANSFER, ep.transfer->kind);
    EXPECT_EQ(MBR_MINOR_0, ep.transfer->minor);
}

TEST(CpuOrder, Values_RiseFromOneAndAreReachedOnlyAfterTheWork)
{
    Cpu ep;
    Gate gate;
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    EXPECT_EQ(0u, ep.reached(1));
    ep.call(stream, Gate::pass, &gate);
    for (uint64_t expected = 1; expected <= 3; expected++) {
        uint64_t value = 0;
        EXPECT_EQ(MBR_OK, ep.signal(1, &value));
        EXPECT_EQ(expected, value);
        EXPECT_EQ(uint32_t{MBR_STATE_DONE}, ep.outcome.state);
    }
    gate.await_arrival();
    EXPECT_EQ(0u, ep.reached(1));
    EXPECT_EQ(MBR_TIMED_OUT, ep.wait(1, 1, 0));
    EXPECT_EQ(MBR_TIMED_OUT, ep.wait(1, 3, now_ns() + 1000000));
    EXPECT_EQ(uint32_t{MBR_STATE_UNCHANGED}, ep.outcome.state);
    gate.open();
    EXPECT_EQ(MBR_OK, ep.wait(1, 3, kForever));
    EXPECT_EQ(3u, ep.reached(1));
    EXPECT_EQ(MBR_OK, ep.wait(1, 2, 0)); // an earlier value, with a deadline long past
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(CpuOrder, TwoLinesOfOneStream_EachHasItsOwnValues)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    ASSERT_EQ(MBR_OK, ep.line_open(257, stream)); // the same bucket
    uint64_t value = 0;
    EXPECT_EQ(MBR_OK, ep.signal(1, &value));
    EXPECT_EQ(MBR_OK, ep.signal(1, &value));
    EXPECT_EQ(2u, value);
    EXPECT_EQ(MBR_OK, ep.signal(257, &value));
    EXPECT_EQ(1u, value);
    EXPECT_EQ(MBR_OK, ep.wait(257, 1, soon()));
    EXPECT_EQ(2u, ep.reached(1));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    EXPECT_EQ(1u, ep.reached(257));
    EXPECT_EQ(MBR_OK, ep.line_close(257));
    ep.destroy(stream);
}

TEST(CpuOrder, StreamWait_HoldsBackLaterWorkOnlyAndNeverTheCaller)
{
    Cpu ep;
    Gate gate;
    mbr_native one = ep.stream(), two = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, one));
    ASSERT_EQ(MBR_OK, ep.line_open(2, two));
    ep.call(one, Gate::pass, &gate);
    uint64_t value = 0;
    ASSERT_EQ(MBR_OK, ep.signal(1, &value));
    uint64_t before = 0, after = 0;
    ASSERT_EQ(MBR_OK, ep.signal(2, &before));
    EXPECT_EQ(MBR_OK, ep.stream_wait(1, value, two));
    ASSERT_EQ(MBR_OK, ep.signal(2, &after));
    EXPECT_EQ(MBR_OK, ep.wait(2, before, soon()));
    gate.await_arrival();
    EXPECT_EQ(MBR_TIMED_OUT, ep.wait(2, after, now_ns() + 1000000));
    gate.open();
    EXPECT_EQ(MBR_OK, ep.wait(2, after, soon()));
    EXPECT_EQ(value, ep.reached(1));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    EXPECT_EQ(MBR_OK, ep.line_close(2));
    ep.destroy(one);
    ep.destroy(two);
}

TEST(CpuOrder, StreamWaitOnTheSameStream_PassesBecauseTheSignalStandsBeforeIt)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    ASSERT_EQ(MBR_OK, ep.signal(1));
    EXPECT_EQ(MBR_OK, ep.stream_wait(1, 1, stream));
    ep.synchronize(stream);
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(CpuOrder, StreamWaitOnAFullStream_QueueFullAtOnce)
{
    Cpu ep(2, 1);
    Gate gate;
    mbr_native one = ep.stream(), two = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, two));
    ASSERT_EQ(MBR_OK, ep.signal(1));
    ep.call(one, Gate::pass, &gate);
    EXPECT_EQ(MBR_QUEUE_FULL, ep.stream_wait(1, 1, one));
    EXPECT_EQ(uint32_t{MBR_STATE_UNCHANGED}, ep.outcome.state);
    gate.open();
    ep.synchronize(one);
    EXPECT_EQ(MBR_OK, ep.stream_wait(1, 1, one));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(one);
    ep.destroy(two);
}

TEST(CpuOrder, LineOfADestroyedStream_KeepsItsValuesAndRefusesSignals)
{
    Cpu ep(1);
    Gate gate;
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    ep.call(stream, Gate::pass, &gate);
    ASSERT_EQ(MBR_OK, ep.signal(1));
    ep.destroy(stream);
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.signal(1));
    EXPECT_EQ(0u, ep.reached(1));
    gate.open();
    EXPECT_EQ(MBR_OK, ep.wait(1, 1, soon()));
    // The next stream stands in the same place; the old line does not become its line.
    mbr_native next = {};
    while (mbr_cpu_stream_create(ep.cpu, &next, nullptr) != MBR_OK)
        std::this_thread::yield();
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.signal(1));
    EXPECT_EQ(MBR_OK, ep.line_open(2, next));
    EXPECT_EQ(MBR_OK, ep.signal(2));
    EXPECT_EQ(MBR_OK, ep.wait(2, 1, soon()));
    EXPECT_EQ(1u, ep.reached(1));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    EXPECT_EQ(MBR_OK, ep.line_close(2));
    ep.destroy(next);
}

TEST(CpuOrder, LineClosedWithValuesPending_WaitersStillReturn)
{
    Cpu ep(2);
    Gate gate;
    mbr_native stream = ep.stream(), other = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    ASSERT_EQ(MBR_OK, ep.line_open(2, other));
    ep.call(stream, Gate::pass, &gate);
    ASSERT_EQ(MBR_OK, ep.signal(1));
    ASSERT_EQ(MBR_OK, ep.stream_wait(1, 1, other));
    uint64_t after = 0;
    ASSERT_EQ(MBR_OK, ep.signal(2, &after));
    EXPECT_EQ(MBR_OK, ep.line_close(1)); // a signal and a wait are queued
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.line_close(1));
    gate.open();
    EXPECT_EQ(MBR_OK, ep.wait(2, after, soon()));
    EXPECT_EQ(MBR_OK, ep.line_open(1, stream)); // a new line: its values start again
    EXPECT_EQ(0u, ep.reached(1));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    EXPECT_EQ(MBR_OK, ep.line_close(2));
    ep.destroy(stream);
    ep.destroy(other);
}

TEST(CpuOrder, BadIds_RefusedByEverySlotWithoutEffect)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(MBR_INVALID_ARGUMENT, ep.line_open(0, stream, &error));
    EXPECT_EQ(2u, error.argument_index);
    ASSERT_EQ(MBR_OK, ep.line_open(7, stream));
    EXPECT_EQ(MBR_ALREADY_EXISTS, ep.line_open(7, stream, &error));
    EXPECT_STREQ("line 7 is open", error.text);
    for (uint64_t id : {UINT64_C(0), UINT64_C(8), UINT64_C(7) + 256, UINT64_MAX}) {
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.signal(id)) << id;
        EXPECT_EQ(uint32_t{MBR_STATE_UNCHANGED}, ep.outcome.state);
        EXPECT_EQ(0u, ep.outcome.value);
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.wait(id, 1, 0));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.stream_wait(id, 1, stream));
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.line_close(id));
        mbr_line_request request = sized<mbr_line_request>();
        request.line_id = id;
        mbr_outcome outcome = sized<mbr_outcome>();
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.order->reached(ep.instance, &request, &outcome, nullptr));
    }
    uint64_t value = 0;
    EXPECT_EQ(MBR_OK, ep.signal(7, &value));
    EXPECT_EQ(1u, value);
    EXPECT_EQ(MBR_OK, ep.line_close(7));
    ep.destroy(stream);
}

TEST(CpuOrder, ValuesThatWereNeverReturned_CannotBeWaitedFor)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    mbr_error error = sized<mbr_error>();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, ep.wait(1, 1, kForever, &error));
    ASSERT_EQ(MBR_OK, ep.signal(1));
    for (uint64_t value : {UINT64_C(0), UINT64_C(2), UINT64_MAX}) {
        EXPECT_EQ(MBR_INVALID_ARGUMENT, ep.wait(1, value, kForever, &error)) << value;
        EXPECT_EQ(3u, error.argument_index);
        EXPECT_EQ(MBR_INVALID_ARGUMENT, ep.stream_wait(1, value, stream)) << value;
    }
    EXPECT_EQ(MBR_OK, ep.wait(1, 1, soon()));
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.stream_wait(1, 1, {MBR_NATIVE_STREAM_CPU, 0, 1}));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, ep.stream_wait(1, 1, {MBR_NATIVE_STREAM_HIP, 0, stream.value}));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

struct WaitInside {
    Cpu *ep;
    uint64_t value;
    mbr_status late, early;
    static void run(void *context)
    {
        WaitInside *self = static_cast<WaitInside *>(context);
        mbr_line_wait_request request = sized<mbr_line_wait_request>();
        request.line_id = 1;
        request.deadline_ns = kForever;
        mbr_outcome outcome = sized<mbr_outcome>();
        request.value = self->value;
        self->late = self->ep->order->wait(self->ep->instance, &request, &outcome, nullptr);
        request.value = 1;
        self->early = self->ep->order->wait(self->ep->instance, &request, &outcome, nullptr);
    }
};

TEST(CpuOrder, HostFunctionWaitingForItsOwnStream_RefusedInsteadOfADeadlock)
{
    Cpu ep;
    Gate gate;
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    WaitInside inside = {&ep, 2, MBR_OK, MBR_INTERNAL};
    ASSERT_EQ(MBR_OK, ep.signal(1));
    ep.call(stream, Gate::pass, &gate); // so that the second signal is queued in time
    ep.call(stream, WaitInside::run, &inside);
    ASSERT_EQ(MBR_OK, ep.signal(1));
    gate.open();
    ep.synchronize(stream);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, inside.late);
    EXPECT_EQ(MBR_OK, inside.early);
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(CpuOrder, HostFunctionWaitingForAnotherStream_Waits)
{
    Cpu ep(2);
    Gate gate;
    mbr_native one = ep.stream(), two = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, one));
    ASSERT_EQ(MBR_OK, ep.signal(1));
    ep.call(one, Gate::pass, &gate);
    ASSERT_EQ(MBR_OK, ep.signal(1));
    WaitInside inside = {&ep, 2, MBR_INTERNAL, MBR_INTERNAL};
    ep.call(two, WaitInside::run, &inside);
    EXPECT_EQ(MBR_TIMED_OUT, mbr_cpu_synchronize(ep.cpu, two, now_ns() + 2000000, nullptr));
    gate.open();
    ep.synchronize(two);
    EXPECT_EQ(MBR_OK, inside.late);
    EXPECT_EQ(MBR_OK, inside.early);
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(one);
    ep.destroy(two);
}

TEST(CpuOrder, Flags_CriticalOnesRefusedOptionalOnesIgnored)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    mbr_line_open_request request = sized<mbr_line_open_request>();
    request.line_id = 1;
    request.stream = stream;
    mbr_outcome outcome = sized<mbr_outcome>();
    mbr_error error = sized<mbr_error>();
    for (uint32_t bit = 0; bit < 16; bit++) {
        request.flags = UINT32_C(1) << bit;
        EXPECT_EQ(MBR_UNSUPPORTED, ep.order->line_open(ep.instance, &request, &outcome, &error));
        EXPECT_EQ(1u, error.argument_index);
    }
    request.flags = UINT32_C(0xffff0000);
    EXPECT_EQ(MBR_OK, ep.order->line_open(ep.instance, &request, &outcome, &error));
    EXPECT_EQ(MBR_OK, ep.line_close(1));

    mbr_stream_create_request create = sized<mbr_stream_create_request>();
    mbr_stream_create_outcome made = sized<mbr_stream_create_outcome>();
    create.flags = 0x8000;
    EXPECT_EQ(MBR_UNSUPPORTED, ep.transfer->stream_create(ep.instance, &create, &made, &error));
    create.struct_size = sizeof(uint32_t); // short: the flags are not there
    EXPECT_EQ(MBR_OK, ep.transfer->stream_create(ep.instance, &create, &made, &error));
    ep.destroy(made.stream);
    create.struct_size = sizeof create;
    create.flags = UINT32_C(0xffff0000);
    EXPECT_EQ(MBR_OK, ep.transfer->stream_create(ep.instance, &create, &made, &error));
    ep.destroy(made.stream);
    ep.destroy(stream);
}

TEST(CpuOrder, NullRequestOrOutcome_RefusedByEverySlot)
{
    Cpu ep;
    mbr_outcome outcome = sized<mbr_outcome>();
    mbr_stream_create_outcome made = sized<mbr_stream_create_outcome>();
    mbr_line_open_request open = sized<mbr_line_open_request>();
    mbr_line_request line = sized<mbr_line_request>();
    mbr_line_wait_request wait = sized<mbr_line_wait_request>();
    mbr_stream_wait_request stream_wait = sized<mbr_stream_wait_request>();
    mbr_stream_create_request create = sized<mbr_stream_create_request>();
    mbr_stream_destroy_request destroy = sized<mbr_stream_destroy_request>();
    mbr_fill_request fill = sized<mbr_fill_request>();
    mbr_copy_request copy = sized<mbr_copy_request>();
    outcome.state = 99;
    const mbr_status bad = MBR_INVALID_ARGUMENT;
    EXPECT_EQ(bad, ep.order->line_open(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(uint32_t{MBR_STATE_UNCHANGED}, outcome.state);
    EXPECT_EQ(bad, ep.order->line_open(ep.instance, &open, nullptr, nullptr));
    EXPECT_EQ(bad, ep.order->signal(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.order->signal(ep.instance, &line, nullptr, nullptr));
    EXPECT_EQ(bad, ep.order->reached(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.order->reached(ep.instance, &line, nullptr, nullptr));
    EXPECT_EQ(bad, ep.order->wait(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.order->wait(ep.instance, &wait, nullptr, nullptr));
    EXPECT_EQ(bad, ep.order->stream_wait(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.order->stream_wait(ep.instance, &stream_wait, nullptr, nullptr));
    EXPECT_EQ(bad, ep.order->line_close(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.order->line_close(ep.instance, &line, nullptr, nullptr));
    mbr_error error = sized<mbr_error>();
    EXPECT_EQ(bad, ep.transfer->stream_create(ep.instance, nullptr, &made, &error));
    EXPECT_STREQ("the request is NULL", error.text);
    EXPECT_EQ(bad, ep.transfer->stream_create(ep.instance, &create, nullptr, &error));
    EXPECT_STREQ("the outcome is NULL", error.text);
    EXPECT_EQ(bad, ep.transfer->stream_destroy(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.transfer->stream_destroy(ep.instance, &destroy, nullptr, nullptr));
    EXPECT_EQ(bad, ep.transfer->fill(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.transfer->fill(ep.instance, &fill, nullptr, nullptr));
    EXPECT_EQ(bad, ep.transfer->copy(ep.instance, nullptr, &outcome, nullptr));
    EXPECT_EQ(bad, ep.transfer->copy(ep.instance, &copy, nullptr, nullptr));
}

TEST(CpuOrder, ShortRequests_FieldsThatAreNotWholeCountAsZero)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    mbr_line_open_request open = sized<mbr_line_open_request>();
    open.line_id = 1;
    open.stream = stream;
    // Every size short of the whole: no byte beyond it is read, and the stream counts as absent.
    for (size_t bytes = sizeof(uint32_t); bytes < sizeof open; bytes++) {
        AtTheEdge<mbr_line_open_request> edge(open, bytes);
        mbr_outcome outcome = sized<mbr_outcome>();
        EXPECT_EQ(
            MBR_INVALID_ARGUMENT, ep.order->line_open(ep.instance, edge.get(), &outcome, nullptr))
            << bytes;
    }
    AtTheEdge<mbr_line_open_request> whole(open, sizeof open);
    mbr_outcome outcome = sized<mbr_outcome>();
    EXPECT_EQ(MBR_OK, ep.order->line_open(ep.instance, whole.get(), &outcome, nullptr));

    mbr_line_request line = sized<mbr_line_request>();
    line.line_id = 1;
    for (size_t bytes = sizeof(uint32_t); bytes < sizeof line; bytes++) {
        AtTheEdge<mbr_line_request> edge(line, bytes);
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.order->signal(ep.instance, edge.get(), &outcome, nullptr));
        EXPECT_EQ(
            MBR_UNKNOWN_OBJECT, ep.order->reached(ep.instance, edge.get(), &outcome, nullptr));
        EXPECT_EQ(
            MBR_UNKNOWN_OBJECT, ep.order->line_close(ep.instance, edge.get(), &outcome, nullptr));
    }
    ASSERT_EQ(MBR_OK, ep.signal(1));
    ASSERT_EQ(MBR_OK, ep.wait(1, 1, soon()));

    mbr_line_wait_request wait = sized<mbr_line_wait_request>();
    wait.line_id = 1;
    wait.value = 1;
    wait.deadline_ns = kForever;
    for (size_t bytes = sizeof(uint32_t); bytes <= sizeof wait; bytes++) {
        AtTheEdge<mbr_line_wait_request> edge(wait, bytes);
        mbr_status expected = bytes < offsetof(mbr_line_wait_request, value) ? MBR_UNKNOWN_OBJECT
            : bytes < offsetof(mbr_line_wait_request, deadline_ns)           ? MBR_INVALID_ARGUMENT
                                                                             : MBR_OK;
        EXPECT_EQ(expected, ep.order->wait(ep.instance, edge.get(), &outcome, nullptr)) << bytes;
    }
    mbr_stream_wait_request stream_wait = sized<mbr_stream_wait_request>();
    stream_wait.line_id = 1;
    stream_wait.value = 1;
    stream_wait.stream = stream;
    for (size_t bytes = sizeof(uint32_t); bytes < sizeof stream_wait; bytes++) {
        AtTheEdge<mbr_stream_wait_request> edge(stream_wait, bytes);
        mbr_status expected = bytes < offsetof(mbr_stream_wait_request, value)
            ? MBR_UNKNOWN_OBJECT
            : MBR_INVALID_ARGUMENT;
        EXPECT_EQ(expected, ep.order->stream_wait(ep.instance, edge.get(), &outcome, nullptr))
            << bytes;
    }
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(CpuOrder, ShortOutcomesAndErrors_NothingIsWrittenPastTheirSize)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    ASSERT_EQ(MBR_OK, ep.line_open(1, stream));
    mbr_line_request line = sized<mbr_line_request>();
    line.line_id = 1;
    mbr_outcome blank = sized<mbr_outcome>();
    for (size_t bytes = sizeof(uint32_t); bytes <= sizeof blank; bytes++) {
        AtTheEdge<mbr_outcome> edge(blank, bytes);
        EXPECT_EQ(MBR_OK, ep.order->signal(ep.instance, &line, edge.get(), nullptr)) << bytes;
        if (MBR_HAS(mbr_outcome, edge.get(), state)) {
            EXPECT_EQ(uint32_t{MBR_STATE_DONE}, edge.get()->state);
        }
    }
    line.line_id = 99;
    mbr_error blank_error = sized<mbr_error>();
    for (size_t bytes = sizeof(uint32_t); bytes <= sizeof blank_error; bytes++) {
        AtTheEdge<mbr_error> edge(blank_error, bytes);
        EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.order->signal(ep.instance, &line, &blank, edge.get()));
        if (MBR_HAS(mbr_error, edge.get(), status)) {
            EXPECT_EQ(MBR_UNKNOWN_OBJECT, edge.get()->status);
        }
    }
    // A grown outcome: what is beyond the fields that this side knows stays as it was.
    struct {
        mbr_outcome known;
        uint64_t beyond;
    } grown = {sized<mbr_outcome>(), 0xabcdef};
    grown.known.struct_size = sizeof grown;
    line.line_id = 1;
    EXPECT_EQ(MBR_OK, ep.order->signal(ep.instance, &line, &grown.known, nullptr));
    EXPECT_EQ(0xabcdefu, grown.beyond);
    ep.synchronize(stream);
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(CpuOrder, ErrorOnSuccess_IsUntouched)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    mbr_error error;
    memset(&error, 0x5a, sizeof error);
    error.struct_size = sizeof error;
    mbr_error before = error;
    EXPECT_EQ(MBR_OK, ep.line_open(1, stream, &error));
    EXPECT_EQ(0, memcmp(&before, &error, sizeof error));
    EXPECT_EQ(MBR_OK, ep.line_close(1));
    ep.destroy(stream);
}

TEST(CpuTransfer, Slots_DoWhatTheirRequestsSay)
{
    Cpu ep;
    mbr_stream_create_request create = sized<mbr_stream_create_request>();
    mbr_stream_create_outcome made = sized<mbr_stream_create_outcome>();
    ASSERT_EQ(MBR_OK, ep.transfer->stream_create(ep.instance, &create, &made, nullptr));
    EXPECT_EQ(uint32_t{MBR_NATIVE_STREAM_CPU}, made.stream.kind);
    std::vector<uint8_t> a(300, 1), b(300, 2);
    mbr_outcome outcome = sized<mbr_outcome>();
    mbr_fill_request fill = sized<mbr_fill_request>();
    fill.pattern = 0x12345678; // its low byte
    fill.stream = made.stream;
    fill.address = address_of(a.data());
    fill.bytes = 299;
    EXPECT_EQ(MBR_OK, ep.transfer->fill(ep.instance, &fill, &outcome, nullptr));
    EXPECT_EQ(uint32_t{MBR_STATE_DONE}, outcome.state);
    mbr_copy_request copy = sized<mbr_copy_request>();
    copy.stream = made.stream;
    copy.to_address = address_of(b.data());
    copy.from_address = address_of(a.data());
    copy.bytes = 300;
    EXPECT_EQ(MBR_OK, ep.transfer->copy(ep.instance, &copy, &outcome, nullptr));
    ep.synchronize(made.stream);
    EXPECT_EQ(0x78, b[0]);
    EXPECT_EQ(0x78, b[298]);
    EXPECT_EQ(1, b[299]);

    copy.bytes = 0;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, ep.transfer->copy(ep.instance, &copy, &outcome, nullptr));
    EXPECT_EQ(uint32_t{MBR_STATE_UNCHANGED}, outcome.state);
    fill.bytes = UINT64_MAX;
    EXPECT_EQ(MBR_OVERFLOW, ep.transfer->fill(ep.instance, &fill, &outcome, nullptr));

    mbr_stream_destroy_request destroy = sized<mbr_stream_destroy_request>();
    destroy.stream = made.stream;
    EXPECT_EQ(MBR_OK, ep.transfer->stream_destroy(ep.instance, &destroy, &outcome, nullptr));
    EXPECT_EQ(
        MBR_UNKNOWN_OBJECT, ep.transfer->stream_destroy(ep.instance, &destroy, &outcome, nullptr));
    fill.bytes = 1;
    EXPECT_EQ(MBR_UNKNOWN_OBJECT, ep.transfer->fill(ep.instance, &fill, &outcome, nullptr));
}

TEST(CpuTransfer, ShortRequests_FieldsThatAreNotWholeCountAsZero)
{
    Cpu ep;
    mbr_native stream = ep.stream();
    uint8_t bytes_[8] = {0}, from_[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    mbr_outcome outcome = sized<mbr_outcome>();
    mbr_fill_request fill = sized<mbr_fill_request>();
    fill.stream = stream;
    fill.pattern = 9;
    fill.address = address_of(bytes_);
    fill.bytes = 8;
    for (size_t bytes = sizeof(uint32_t); bytes < sizeof fill; bytes++) {
        AtTheEdge<mbr_fill_request> edge(fill, bytes);
        EXPECT_EQ(
            MBR_INVALID_ARGUMENT, ep.transfer->fill(ep.instance, edge.get(), &outcome, nullptr))
            << bytes;
    }
    mbr_copy_request copy = sized<mbr_copy_request>();
    copy.stream = stream;
    copy.to_address = address_of(bytes_);
    copy.from_address = address_of(from_);
    copy.bytes = 8;
    for (size_t bytes = sizeof(uint32_t); bytes < sizeof copy; bytes++) {
        AtTheEdge<mbr_copy_request> edge(copy, bytes);
        EXPECT_EQ(
            MBR_INVALID_ARGUMENT, ep.transfer->copy(ep.instance, edge.get(), &outcome, nullptr))
            << bytes;
    }
    mbr_stream_destroy_request destroy = sized<mbr_stream_destroy_request>();
    destroy.stream = stream;
    for (size_t bytes = sizeof(uint32_t); bytes < sizeof destroy; bytes++) {
        AtTheEdge<mbr_stream_destroy_request> edge(destroy, bytes);
        EXPECT_EQ(MBR_INVALID_ARGUMENT,
            ep.transfer->stream_destroy(ep.instance, edge.get(), &outcome, nullptr))
            << bytes;
    }
    mbr_stream_create_request create = sized<mbr_stream_create_request>();
    mbr_stream_create_outcome blank = sized<mbr_stream_create_outcome>();
    for (size_t bytes = sizeof(uint32_t); bytes < sizeof blank; bytes++) {
        AtTheEdge<mbr_stream_create_outcome> edge(blank, bytes);
        EXPECT_EQ(MBR_INVALID_ARGUMENT,
            ep.transfer->stream_create(ep.instance, &create, edge.get(), nullptr))
            << bytes;
    }
    ep.synchronize(stream);
    EXPECT_EQ(0, bytes_[0]);
    ep.destroy(stream);
}

} // namespace
