// An order table that the test moves by hand: values are reached only when the test says so, a
// stream may be captured, and the device may be lost at the k-th call. It checks its caller: no
// lock held, whole requests, known lines, one call at a time where the slot is serial, none after a
// loss. It also keeps the work of each stream, the independent measure of "not before its values".
#ifndef MEMBRANE_TESTS_UNIT_EP_FAKE_ORDER_H
#define MEMBRANE_TESTS_UNIT_EP_FAKE_ORDER_H

#include "tests/unit/ep/seams.h"

extern "C" {
#include "abi/base/lock.h"
#include "membrane/order.h"
#include "membrane/transfer.h"
}

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

struct mbr_instance {
};

namespace ep_test
{

enum Slot { kOpen, kSignal, kReached, kWait, kStreamWait, kClose, kFill, kCopy, kSlots };

class FakeOrder : public mbr_instance
{
  public:
    struct Line {
        uint64_t native = 0;
        uint64_t signalled = 0;
        uint64_t reached = 0;
        bool in_call = false;          // of a slot that is serial for the line
        std::vector<uint64_t> work_at; // work of the stream when value index + 1 was signalled
    };

    FakeOrder() : tables_(make_order()), transfer_(make_transfer()) {}
    const mbr_order_vtable *order() const { return &tables_; }
    const mbr_transfer_vtable *transfer() const { return &transfer_; }

    // ---- the device, moved by the test ----
    uint64_t submit(uint64_t native)
    {
        std::lock_guard<std::mutex> lock(mutex);
        return ++work[native];
    }
    uint64_t submitted(uint64_t native)
    {
        std::lock_guard<std::mutex> lock(mutex);
        return work[native];
    }
    // Work of the stream that is known to be done: what a reached value covers.
    uint64_t done(uint64_t native)
    {
        std::lock_guard<std::mutex> lock(mutex);
        return done_work[native];
    }
    void reach(uint64_t native, uint64_t value)
    {
        std::lock_guard<std::mutex> lock(mutex);
        for (auto &[id, line] : lines)
            if (line.native == native)
                reach_line(line, value);
    }
    void reach_all(const std::set<uint64_t> &except = {})
    {
        std::lock_guard<std::mutex> lock(mutex);
        for (auto &[id, line] : lines)
            if (except.count(line.native) == 0)
                reach_line(line, line.signalled);
    }
    uint64_t count(Slot slot)
    {
        std::lock_guard<std::mutex> lock(mutex);
        return counts[slot];
    }
    uint64_t calls()
    {
        std::lock_guard<std::mutex> lock(mutex);
        return call_count;
    }
    size_t open_lines()
    {
        std::lock_guard<std::mutex> lock(mutex);
        return lines.size();
    }
    uint64_t signalled(uint64_t native)
    {
        std::lock_guard<std::mutex> lock(mutex);
        for (auto &[id, line] : lines)
            if (line.native == native)
                return line.signalled;
        return 0;
    }

    // Guards what follows while a reaper or another thread may be inside.
    std::mutex mutex;
    Clock *clock = nullptr;         // moved by a wait that times out
    std::set<uint64_t> captured;    // signal answers MBR_BUSY
    uint64_t lost_at = 0;           // this call and every later one answers MBR_DEVICE_LOST
    bool finish_in_wait = false;    // the device gets there while somebody waits
    bool reach_at_once = false;     // a value is reached when signal returns (S29)
    mbr_status answer[kSlots] = {}; // where not MBR_OK: of every call of the slot
    std::function<void(Slot, uint64_t)> before;     // called without the fake's mutex
    std::function<void(Slot, mbr_outcome *)> after; // last touch of a good answer
    uint32_t failed_state = MBR_STATE_UNCHANGED;    // what a refusal's outcome says
    uint64_t lost_answers = 0; // more than one: the context went on after it was told

  private:
    static FakeOrder *self(mbr_instance *instance) { return static_cast<FakeOrder *>(instance); }

    void reach_line(Line &line, uint64_t value)
    {
        EXPECT_LE(value, line.signalled);
        if (value <= line.reached)
            return;
        line.reached = value;
        uint64_t &known = done_work[line.native];
        known = std::max(known, line.work_at[value - 1]);
    }

    // Common to all slots. MBR_OK: go on with the mutex held by *lock.
    mbr_status enter(
        Slot slot, uint64_t line_id, mbr_outcome *outcome, std::unique_lock<std::mutex> *lock)
    {
        mbr_lock_assert_none_held();
        if (before)
            before(slot, line_id);
        *lock = std::unique_lock<std::mutex>(mutex);
        EXPECT_EQ(sizeof(mbr_outcome), outcome->struct_size);
        uint32_t struct_size = outcome->struct_size;
        *outcome = mbr_outcome();
        outcome->struct_size = struct_size;
        counts[slot]++;
        call_count++;
        if (lost_at != 0 && call_count >= lost_at) {
            lost_answers++;
            return MBR_DEVICE_LOST;
        }
        if (answer[slot] != MBR_OK) {
            outcome->state = failed_state;
            return answer[slot];
        }
        if (slot != kOpen && slot != kFill && slot != kCopy && lines.count(line_id) == 0) {
            ADD_FAILURE() << "slot " << slot << " with the unknown line " << line_id;
            return MBR_UNKNOWN_OBJECT;
        }
        return MBR_OK;
    }
    mbr_status good(Slot slot, mbr_outcome *outcome, uint64_t value)
    {
        outcome->state = MBR_STATE_DONE;
        outcome->value = value;
        if (after)
            after(slot, outcome);
        return MBR_OK;
    }

    static mbr_status line_open(mbr_instance *instance, const mbr_line_open_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        EXPECT_EQ(sizeof *request, request->struct_size);
        FakeOrder *fake = self(instance);
        std::unique_lock<std::mutex> lock;
        mbr_status status = fake->enter(kOpen, request->line_id, outcome, &lock);
        if (status != MBR_OK)
            return status;
        EXPECT_NE(0u, request->line_id);
        EXPECT_TRUE(fake->used_ids.insert(request->line_id).second) << "line id used again";
        fake->lines[request->line_id].native = request->stream.value;
        return fake->good(kOpen, outcome, 0);
    }
    static mbr_status signal(mbr_instance *instance, const mbr_line_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        EXPECT_EQ(sizeof *request, request->struct_size);
        FakeOrder *fake = self(instance);
        {
            std::lock_guard<std::mutex> lock(fake->mutex);
            auto found = fake->lines.find(request->line_id);
            if (found != fake->lines.end()) {
                EXPECT_FALSE(found->second.in_call) << "two calls at once for a serial line";
                found->second.in_call = true;
            }
        }
        std::unique_lock<std::mutex> lock;
        mbr_status status = fake->enter(kSignal, request->line_id, outcome, &lock);
        auto found = fake->lines.find(request->line_id);
        if (found != fake->lines.end())
            found->second.in_call = false;
        if (status != MBR_OK)
            return status;
        Line &line = found->second;
        if (fake->captured.count(line.native) != 0)
            return MBR_BUSY;
        line.signalled++;
        line.work_at.push_back(fake->work[line.native]);
        if (fake->reach_at_once)
            fake->reach_line(line, line.signalled);
        return fake->good(kSignal, outcome, line.signalled);
    }
    static mbr_status reached(mbr_instance *instance, const mbr_line_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        EXPECT_EQ(sizeof *request, request->struct_size);
        FakeOrder *fake = self(instance);
        std::unique_lock<std::mutex> lock;
        mbr_status status = fake->enter(kReached, request->line_id, outcome, &lock);
        if (status != MBR_OK)
            return status;
        return fake->good(kReached, outcome, fake->lines[request->line_id].reached);
    }
    static mbr_status wait(mbr_instance *instance, const mbr_line_wait_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        EXPECT_EQ(sizeof *request, request->struct_size);
        FakeOrder *fake = self(instance);
        std::unique_lock<std::mutex> lock;
        mbr_status status = fake->enter(kWait, request->line_id, outcome, &lock);
        if (status != MBR_OK)
            return status;
        Line &line = fake->lines[request->line_id];
        EXPECT_GE(line.signalled, request->value);
        EXPECT_NE(0u, request->value);
        if (fake->finish_in_wait)
            fake->reach_line(line, request->value);
        if (line.reached >= request->value)
            return fake->good(kWait, outcome, line.reached);
        if (fake->clock != nullptr)
            fake->clock->now = std::max(fake->clock->now.load(), request->deadline_ns);
        return MBR_TIMED_OUT;
    }
    static mbr_status stream_wait(mbr_instance *instance, const mbr_stream_wait_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        EXPECT_EQ(sizeof *request, request->struct_size);
        std::unique_lock<std::mutex> lock;
        FakeOrder *fake = self(instance);
        mbr_status status = fake->enter(kStreamWait, request->line_id, outcome, &lock);
        if (status != MBR_OK)
            return status;
        const Line &line = fake->lines[request->line_id];
        EXPECT_NE(0u, request->value);
        EXPECT_LE(request->value, line.signalled);
        fake->device_waits.push_back(
            {request->stream.value, line.native, line.work_at[request->value - 1]});
        return fake->good(kStreamWait, outcome, 0);
    }
    static mbr_status line_close(mbr_instance *instance, const mbr_line_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        EXPECT_EQ(sizeof *request, request->struct_size);
        FakeOrder *fake = self(instance);
        std::unique_lock<std::mutex> lock;
        mbr_status status = fake->enter(kClose, request->line_id, outcome, &lock);
        if (status != MBR_OK)
            return status;
        EXPECT_FALSE(fake->lines[request->line_id].in_call);
        fake->lines.erase(request->line_id);
        return fake->good(kClose, outcome, 0);
    }
    static mbr_status fill(mbr_instance *instance, const mbr_fill_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        FakeOrder *fake = self(instance);
        std::unique_lock<std::mutex> lock;
        mbr_status status = fake->enter(kFill, 0, outcome, &lock);
        if (status != MBR_OK)
            return status;
        fake->last_fill = *request;
        return fake->good(kFill, outcome, 0);
    }
    static mbr_status copy(mbr_instance *instance, const mbr_copy_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        (void)error;
        FakeOrder *fake = self(instance);
        std::unique_lock<std::mutex> lock;
        mbr_status status = fake->enter(kCopy, 0, outcome, &lock);
        if (status != MBR_OK)
            return status;
        fake->last_copy = *request;
        return fake->good(kCopy, outcome, 0);
    }
    static mbr_status never(
        mbr_instance *, const mbr_stream_create_request *, mbr_stream_create_outcome *, mbr_error *)
    {
        ADD_FAILURE() << "a context creates no stream";
        return MBR_INTERNAL;
    }
    static mbr_status never_destroy(
        mbr_instance *, const mbr_stream_destroy_request *, mbr_outcome *, mbr_error *)
    {
        ADD_FAILURE() << "a context destroys no stream";
        return MBR_INTERNAL;
    }

    static mbr_order_vtable make_order()
    {
        mbr_order_vtable table = {};
        table.struct_size = sizeof table;
        table.kind = MBR_KIND_ORDER;
        table.minor = MBR_MINOR_0;
        table.line_open = line_open;
        table.signal = signal;
        table.reached = reached;
        table.wait = wait;
        table.stream_wait = stream_wait;
        table.line_close = line_close;
        return table;
    }
    static mbr_transfer_vtable make_transfer()
    {
        mbr_transfer_vtable table = {};
        table.struct_size = sizeof table;
        table.kind = MBR_KIND_TRANSFER;
        table.minor = MBR_MINOR_0;
        table.stream_create = never;
        table.stream_destroy = never_destroy;
        table.fill = fill;
        table.copy = copy;
        return table;
    }

  public:
    struct DeviceWait {
        uint64_t on, behind, work; // native streams; what of the latter's work
    };
    std::vector<DeviceWait> device_waits;
    mbr_fill_request last_fill = {};
    mbr_copy_request last_copy = {};

  private:
    mbr_order_vtable tables_;
    mbr_transfer_vtable transfer_;
    std::map<uint64_t, Line> lines;               // by line id
    std::map<uint64_t, uint64_t> work, done_work; // by native value
    std::set<uint64_t> used_ids;
    uint64_t counts[kSlots] = {};
    uint64_t call_count = 0;
};

} // namespace ep_test

#endif
