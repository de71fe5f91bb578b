/* One backing over the fake mechanism, a context whose line is moved by hand, one authority, two
 * holders: what every test of the backing stands on. */
#ifndef MEMBRANE_TESTS_UNIT_BACKING_WORLD_H
#define MEMBRANE_TESTS_UNIT_BACKING_WORLD_H

#include "tests/support/fake_mechanism.h"
#include "tests/support/real_below.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

extern "C" {
#include "governor/governor.h"
#include "host/backing/backing.h"
#include "host/backing/port.h"
#include "host/ep/context.h"
}

namespace membrane
{

constexpr uint64_t kGranule = 4096;

/* A heap that fails its Nth allocation and knows what lives. Any thread. */
struct CountingHeap {
    mbr_heap heap;
    uint64_t allocations = 0;
    uint64_t fail_at = 0; /* 0: never */
    std::set<void *> live;
    std::mutex mutex;

    ~CountingHeap()
    {
        for (void *memory : live) /* of worlds that leak on purpose */
            std::free(memory);
    }
    CountingHeap()
    {
        heap.allocate = [](void *context, size_t bytes) -> void * {
            auto *counts = static_cast<CountingHeap *>(context);
            std::lock_guard<std::mutex> guard(counts->mutex);
            if (++counts->allocations == counts->fail_at)
                return nullptr;
            return *counts->live.insert(std::calloc(1, bytes)).first;
        };
        heap.release = [](void *context, void *memory) {
            auto *counts = static_cast<CountingHeap *>(context);
            std::lock_guard<std::mutex> guard(counts->mutex);
            counts->live.erase(memory);
            std::free(memory);
        };
        heap.context = this;
    }
};

/* Moved by the test. */
struct HandClock {
    std::atomic<uint64_t> now_ns{1};
    mbr_clock clock = {
        [](void *context) { return static_cast<HandClock *>(context)->now_ns.load(); }, this};
};

/* Lines whose values are reached when the test says so. */
struct ManualLine {
    std::atomic<uint64_t> signalled{0}, reached{0};
    // How often it was asked, and the question at which all is reached.
    std::atomic<uint64_t> asked_count{0}, reached_when_asked{UINT64_MAX};
    std::atomic<bool> automatic{true}, lost{false};
    bool works_while_waited = false; /* a wait reaches its value, as a device that works does */
    mbr_order_vtable table;
    mbr_transfer_vtable transfer;

    /* Fills that were enqueued and not yet done. `on_fill` does one. */
    struct Fill {
        uint64_t address, bytes;
    };
    std::vector<Fill> fills;
    std::function<void(const Fill &)> on_fill;
    std::function<void()> during_fill;         /* while it is enqueued */
    uint64_t fill_count = 0, fail_fill_at = 0; /* from 1; 0: none fails */

    void reach_all()
    {
        reached = signalled.load();
        std::vector<Fill> done;
        done.swap(fills);
        for (const Fill &fill : done) {
            if (on_fill)
                on_fill(fill);
        }
    }

    ManualLine()
    {
        table = mbr_order_vtable{};
        table.struct_size = sizeof(table);
        table.kind = MBR_KIND_ORDER;
        table.line_open = [](mbr_instance *, const mbr_line_open_request *, mbr_outcome *outcome,
                              mbr_error *) -> mbr_status {
            outcome->state = MBR_STATE_DONE;
            return MBR_OK;
        };
        table.signal = [](mbr_instance *instance, const mbr_line_request *, mbr_outcome *outcome,
                           mbr_error *) -> mbr_status {
            auto *line = reinterpret_cast<ManualLine *>(instance);
            outcome->state = MBR_STATE_DONE;
            outcome->value = ++line->signalled;
            if (line->automatic)
                line->reach_all();
            return MBR_OK;
        };
        table.reached = [](mbr_instance *instance, const mbr_line_request *, mbr_outcome *outcome,
                            mbr_error *) -> mbr_status {
            auto *line = reinterpret_cast<ManualLine *>(instance);
            if (line->asked_count++ == line->reached_when_asked)
                line->reach_all();
            if (line->lost)
                return MBR_DEVICE_LOST;
            outcome->state = MBR_STATE_DONE;
            outcome->value = line->reached;
            return MBR_OK;
        };
        table.wait = [](mbr_instance *instance, const mbr_line_wait_request *request,
                         mbr_outcome *outcome, mbr_error *) -> mbr_status {
            auto *line = reinterpret_cast<ManualLine *>(instance);
            if (line->works_while_waited)
                line->reach_all();
            if (line->reached < request->value)
                return MBR_TIMED_OUT;
            outcome->state = MBR_STATE_DONE;
            return MBR_OK;
        };
        table.stream_wait = [](mbr_instance *, const mbr_stream_wait_request *,
                                mbr_outcome *outcome, mbr_error *) -> mbr_status {
            outcome->state = MBR_STATE_DONE;
            return MBR_OK;
        };
        table.line_close = [](mbr_instance *, const mbr_line_request *, mbr_outcome *outcome,
                               mbr_error *) -> mbr_status {
            outcome->state = MBR_STATE_DONE;
            return MBR_OK;
        };
        transfer = mbr_transfer_vtable{};
        transfer.struct_size = sizeof(transfer);
        transfer.kind = MBR_KIND_TRANSFER;
        transfer.stream_create = [](mbr_instance *, const mbr_stream_create_request *,
                                     mbr_stream_create_outcome *,
                                     mbr_error *) -> mbr_status { return MBR_UNSUPPORTED; };
        transfer.stream_destroy = [](mbr_instance *, const mbr_stream_destroy_request *,
                                      mbr_outcome *,
                                      mbr_error *) -> mbr_status { return MBR_UNSUPPORTED; };
        transfer.copy = [](mbr_instance *, const mbr_copy_request *, mbr_outcome *,
                            mbr_error *) -> mbr_status { return MBR_UNSUPPORTED; };
        transfer.fill = [](mbr_instance *instance, const mbr_fill_request *request,
                            mbr_outcome *outcome, mbr_error *) -> mbr_status {
            auto *line = reinterpret_cast<ManualLine *>(instance);
            if (line->during_fill)
                line->during_fill();
            if (++line->fill_count == line->fail_fill_at)
                return MBR_SYSTEM;
            line->fills.push_back({request->address, request->bytes});
            outcome->state = MBR_STATE_DONE;
            return MBR_OK;
        };
    }
};

class World
{
  public:
    explicit World(uint64_t limit = UINT64_C(64) << 20, uint64_t keep = UINT64_MAX,
        uint64_t busy_wait_ns = 0, const mbr_probe *probe = nullptr,
        RealBelow *real = nullptr); /* to be put under the fake */
    ~World(); /* ends everything; asserts that all books are empty unless `leaks` */

    CountingHeap heap;
    HandClock clock; /* the governor's */
    FakeMechanism fake{kGranule};
    ManualLine line;
    mbr_governor *governor = nullptr;
    mbr_authority *authority = nullptr;
    mbr_holder *kv = nullptr, *prefix = nullptr;
    mbr_context *context = nullptr;
    uint64_t stream = 0;
    mbr_addresses addresses;
    mbr_port *port = nullptr;
    mbr_backing *backing = nullptr;
    bool leaks = false; /* a planted fault left something that is never given back */

    mbr_range *reserve(uint64_t bytes, mbr_growth growth = {kGranule, kGranule, 0},
        uint32_t flags = 0, uint32_t group = 0, mbr_error *error = nullptr);
    mbr_status grow(mbr_range *range, uint64_t offset, uint64_t bytes,
        mbr_range_grow_result *result = nullptr, mbr_error *error = nullptr);
    mbr_status ahead(mbr_range *range, uint64_t offset, uint64_t bytes,
        mbr_range_grow_result *result = nullptr, mbr_error *error = nullptr);
    /* One part, and else what `options` say; by `kv` where they name no holder. */
    mbr_status grow_with(mbr_grow_options options, mbr_range_part part,
        mbr_range_grow_result *result = nullptr, mbr_error *error = nullptr);
    mbr_status end(mbr_range *range, bool now = true);
    /* Of one part, paid by `prefix`. */
    mbr_prefix *make_prefix(mbr_range *range, uint64_t offset, uint64_t bytes);
    mbr_status attach(mbr_prefix *made, mbr_range *target, const uint64_t *limit = nullptr,
        mbr_error *error = nullptr);
    mbr_range_figures figures(mbr_range *range) const;
    /* As the port has it: its facts and slots are changed here. */
    mbr_mechanism *mechanism() const
    {
        return const_cast<mbr_mechanism *>(mbr_port_mechanism(port));
    }

    uint64_t charged(mbr_holder *holder) const;
    uint64_t mapped_by(mbr_holder *holder) const;
    uint64_t cached() const { return charged(mbr_backing_cache(backing)); }
    mbr_authority_figures books() const;
    mbr_backing_figures kept() const;
    /* Every oracle agrees: governor's audit, backing's audit, the fake's own books, no misuse. */
    ::testing::AssertionResult agree() const;

  private:
    void end_parts();
};

/* A backing whose only user is the world's context. */
struct Used : World {
    mbr_backing_user user = {};
    Used()
    {
        user.context = context;
        mbr_backing_add_user(backing, &user);
    }
};

/* Another EP, by default on a line of its own. */
struct SecondContext {
    ManualLine line;
    mbr_context *context = nullptr;
    uint64_t stream = 0;

    explicit SecondContext(World &world, ManualLine *on = nullptr)
    {
        ManualLine *one = on != nullptr ? on : &line;
        mbr_context_options options = {};
        options.name = "second";
        options.order = &one->table;
        options.transfer = &one->transfer;
        options.instance = reinterpret_cast<mbr_instance *>(one);
        options.queue_entries = 64;
        options.heap = &world.heap.heap;
        options.clock = &mbr_clock_monotonic;
        EXPECT_EQ(MBR_OK, mbr_context_create(&options, &context, nullptr));
        mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 2};
        EXPECT_EQ(MBR_OK, mbr_context_attach_stream(context, native, &stream, nullptr));
    }
    ~SecondContext()
    {
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(context, stream, nullptr));
        EXPECT_EQ(MBR_OK, mbr_context_destroy(context, nullptr));
    }
};

} // namespace membrane

#endif
