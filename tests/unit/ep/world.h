// One context over the fake order table, with every seam in the test's hand, and entries that check
// when they are settled: once, with no lock held, and released only after the work before them.
#ifndef MEMBRANE_TESTS_UNIT_EP_WORLD_H
#define MEMBRANE_TESTS_UNIT_EP_WORLD_H

#include "tests/unit/ep/fake_order.h"

extern "C" {
#include "host/ep/audit.h"
#include "host/ep/context.h"
}

#include <cstring>
#include <deque>

namespace ep_test
{

struct Entry {
    mbr_deferred deferred = {}; // first: settle gets its address
    FakeOrder *fake = nullptr;
    std::vector<std::pair<uint64_t, uint64_t>> needs; // (native stream, work that must be done)
    std::atomic<int> settled{0};
    int taken = 0; // out of the queue again; it is settled or taken once
    mbr_settled how = MBR_SETTLED_LOST;
    std::function<void(Entry *)> then;

    static void settle(mbr_deferred *deferred, mbr_settled how)
    {
        mbr_lock_assert_none_held();
        Entry *entry = reinterpret_cast<Entry *>(deferred);
        entry->how = how;
        EXPECT_EQ(0, entry->settled.load()) << "settled twice";
        EXPECT_EQ(0, entry->taken) << "settled although it was taken again";
        if (how == MBR_SETTLED_RELEASED) {
            for (auto [native, work] : entry->needs)
                EXPECT_GE(entry->fake->done(native), work) << "before its values";
        }
        entry->settled++; // last: the test may look now
        if (entry->then)
            entry->then(entry);
    }
};

struct Options {
    uint32_t queue_entries = 0;
    uint64_t queue_bytes = 0;
    bool reaper = false;
    bool real_clock = false;
    bool transfer = true;
    uint64_t first_stream_id = 0;
};

class World
{
  public:
    explicit World(const Options &wanted = Options())
    {
        mbr_context_options options = {};
        options.name = "fake";
        options.order = fake.order();
        options.transfer = wanted.transfer ? fake.transfer() : nullptr;
        options.instance = &fake;
        options.queue_entries = wanted.queue_entries;
        options.queue_bytes = wanted.queue_bytes;
        options.reaper = wanted.reaper;
        options.first_stream_id = wanted.first_stream_id;
        options.heap = heap.seam();
        if (!wanted.real_clock) {
            options.clock = clock.seam();
            fake.clock = &clock;
        }
        options.threads = threads.seam();
        EXPECT_EQ(MBR_OK, mbr_context_create(&options, &context, nullptr));
    }
    ~World() { finish(); }
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    // Drains and ends; a lost context's lines stay open in the table.
    void finish()
    {
        if (context == nullptr)
            return;
        bool lost = state() == MBR_CONTEXT_LOST;
        if (!lost) {
            std::lock_guard<std::mutex> lock(fake.mutex); // a reaper may be inside
            fake.captured.clear();
            for (mbr_status &status : fake.answer)
                status = MBR_OK;
            fake.finish_in_wait = true;
        }
        mbr_error error = sized<mbr_error>();
        EXPECT_EQ(MBR_OK, mbr_context_drain(context, kForever, &error)) << error.text;
        audit();
        EXPECT_EQ(MBR_OK, mbr_context_destroy(context, &error)) << error.text;
        context = nullptr;
        EXPECT_EQ(0, heap.live);
        if (!lost) {
            EXPECT_EQ(0u, fake.open_lines());
        }
        for (Entry &entry : entries)
            EXPECT_EQ(1, entry.settled.load() + entry.taken);
        EXPECT_EQ(nullptr, shelf.newest);
        EXPECT_LE(fake.lost_answers, 1u) << "called after the device was lost";
    }

    uint64_t attach(uint64_t native)
    {
        uint64_t id = 0;
        EXPECT_EQ(MBR_OK, mbr_context_attach_stream(context, {1, 0, native}, &id, nullptr));
        natives[id] = native;
        return id;
    }
    // A new entry, not yet deferred; the world keeps it if it is queued.
    Entry *defer(
        const std::vector<uint64_t> &ids, uint64_t bytes = 4096, mbr_status expected = MBR_OK)
    {
        Entry *entry = &entries.emplace_back();
        entry->deferred.bytes = bytes;
        entry->deferred.settle = Entry::settle;
        entry->deferred.shelf = &shelf;
        entry->fake = &fake;
        for (uint64_t id : ids)
            entry->needs.push_back({natives[id], fake.submitted(natives[id])});
        mbr_deferred before = entry->deferred;
        mbr_status status = mbr_context_defer(
            context, ids.data(), static_cast<uint32_t>(ids.size()), &entry->deferred, nullptr);
        EXPECT_EQ(expected, status);
        if (status != MBR_OK) {
            EXPECT_EQ(0, memcmp(&before, &entry->deferred, sizeof before)) << "not handed back";
            entries.pop_back();
            return nullptr;
        }
        return entry;
    }
    // An entry of the shelf out of the queue again, for work on the stream; of those bytes if not
    // 0.
    Entry *take(uint64_t id, bool behind_others = false, uint64_t bytes = 0)
    {
        auto fits = [](const mbr_deferred *entry, const void *wanted) {
            uint64_t bytes = *static_cast<const uint64_t *>(wanted);
            return bytes == 0 || bytes == entry->bytes;
        };
        Entry *entry = reinterpret_cast<Entry *>(
            mbr_context_reactivate(context, &shelf, id, behind_others, fits, &bytes));
        if (entry != nullptr) {
            EXPECT_EQ(0, entry->settled.load());
            EXPECT_EQ(0, entry->taken++);
        }
        return entry;
    }
    uint64_t reap(bool now = true) { return mbr_context_reap(context, now); }
    mbr_ep_figures read()
    {
        mbr_ep_figures figures = sized<mbr_ep_figures>();
        mbr_context_read(context, &figures);
        return figures;
    }
    uint32_t state() { return mbr_context_state(context); }
    void audit() { EXPECT_EQ(nullptr, mbr_context_audit(context)) << mbr_context_audit(context); }

    Clock clock;
    Heap heap;
    Threads threads;
    FakeOrder fake;
    mbr_context *context = nullptr;
    mbr_shelf shelf = {};
    std::map<uint64_t, uint64_t> natives; // by stream id
    std::deque<Entry> entries;            // queued ones, at addresses that stay
};

} // namespace ep_test

#endif
