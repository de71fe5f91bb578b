/* A world whose mechanism's device has a capture gate: begun, ended and caught up with as the
 * manager does. */
#ifndef MEMBRANE_TESTS_UNIT_BACKING_CAPTURE_WORLD_H
#define MEMBRANE_TESTS_UNIT_BACKING_CAPTURE_WORLD_H

#include "tests/unit/backing/world.h"

namespace membrane
{

struct Gate {
    mbr_gate gate;
    Gate() { mbr_gate_init(&gate); }
    ~Gate() { mbr_gate_finish(&gate); }
};

class CaptureWorld : public Gate, public World
{
  public:
    explicit CaptureWorld(uint64_t keep = UINT64_MAX, uint64_t limit = UINT64_C(64) << 20)
        : World(limit, keep)
    {
        mbr_port_set_gate(port, &gate);
        EXPECT_EQ(MBR_OK, mbr_context_join_gate(context, &gate, nullptr));
        graph.gone = [](mbr_graph *) {};
    }

    void begin()
    {
        EXPECT_EQ(MBR_OK, mbr_context_begin_capture(context, stream, UINT64_MAX, &graph, nullptr));
        gated_before_ = gated_calls();
    }
    // No gated slot was called since begin.
    void end_capture()
    {
        EXPECT_EQ(gated_before_, gated_calls());
        mbr_graph *ended = nullptr;
        EXPECT_EQ(MBR_OK, mbr_context_end_capture(context, stream, &ended, nullptr));
        EXPECT_EQ(&graph, ended);
        mbr_backing_catch_up(backing);
    }
    void retire()
    {
        EXPECT_EQ(MBR_OK, mbr_context_retire_graph(context, &graph, nullptr, 0, nullptr));
        reap();
    }
    void reap()
    {
        while (mbr_context_reap(context, true) != 0)
            ;
    }
    mbr_status decommit(mbr_range *range, uint64_t offset, uint64_t bytes, bool now = true,
        mbr_error *error = nullptr)
    {
        mbr_range_decommit_result result = {};
        result.struct_size = sizeof(result);
        return mbr_range_give_back(range, offset, bytes, now, &stream, now ? 0 : 1, &result, error);
    }
    uint64_t gated_calls() const
    {
        return fake.calls(Slot::kUnmap) + fake.calls(Slot::kDestroy) + fake.calls(Slot::kAllocate) +
            fake.calls(Slot::kRelease);
    }

    mbr_graph graph = {};

  private:
    uint64_t gated_before_ = 0;
};

inline mbr_error new_error()
{
    mbr_error error = {};
    error.struct_size = sizeof(error);
    return error;
}

} // namespace membrane

#endif
