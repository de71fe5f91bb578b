// A world whose streams are captured, and graphs that count how often they are let go.
#ifndef MEMBRANE_TESTS_UNIT_EP_CAPTURE_WORLD_H
#define MEMBRANE_TESTS_UNIT_EP_CAPTURE_WORLD_H

#include "tests/unit/ep/world.h"

extern "C" {
#include "host/ep/gate.h"
}

namespace ep_test
{

struct Graph : mbr_graph {
    Graph() : mbr_graph()
    {
        gone = [](mbr_graph *graph) {
            mbr_lock_assert_none_held();
            EXPECT_EQ(0, static_cast<Graph *>(graph)->gone_count++);
        };
    }
    std::atomic<int> gone_count{0};
};

class CaptureWorld : public World
{
  public:
    explicit CaptureWorld(const Options &wanted = Options()) : World(wanted) {}

    mbr_status begin(uint64_t id, Graph *graph, mbr_error *error = nullptr)
    {
        mbr_status status =
            mbr_context_begin_capture(context, id, clock.now + kSecond, graph, error);
        if (status == MBR_OK) {
            std::lock_guard<std::mutex> lock(fake.mutex);
            fake.captured.insert(natives[id]);
        }
        return status;
    }
    mbr_status end_capture(uint64_t id, mbr_error *error = nullptr)
    {
        {
            std::lock_guard<std::mutex> lock(fake.mutex);
            fake.captured.erase(natives[id]);
        }
        mbr_graph *graph = nullptr;
        return mbr_context_end_capture(context, id, &graph, error);
    }
    // A graph that was captured on the stream.
    void capture(uint64_t id, Graph *graph)
    {
        EXPECT_EQ(MBR_OK, begin(id, graph));
        EXPECT_EQ(MBR_OK, end_capture(id));
    }
    mbr_status retire(Graph *graph, std::vector<uint64_t> ids, mbr_error *error = nullptr)
    {
        return mbr_context_retire_graph(
            context, graph, ids.data(), static_cast<uint32_t>(ids.size()), error);
    }
    Entry *defer_owned(const std::vector<uint64_t> &ids, mbr_graphs graphs, uint64_t bytes = 4096)
    {
        Entry *entry = &entries.emplace_back();
        entry->deferred.bytes = bytes;
        entry->deferred.settle = Entry::settle;
        entry->deferred.graphs = graphs;
        entry->fake = &fake;
        for (uint64_t id : ids)
            entry->needs.push_back({natives[id], fake.submitted(natives[id])});
        EXPECT_EQ(MBR_OK,
            mbr_context_defer(
                context, ids.data(), static_cast<uint32_t>(ids.size()), &entry->deferred, nullptr));
        return entry;
    }
    void reap_all()
    {
        reap();
        fake.reach_all();
        while (reap() != 0)
            ;
    }
};

} // namespace ep_test

#endif
