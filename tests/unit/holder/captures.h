/* Captures of one EP or another, while a holder is asked for bytes. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_CAPTURES_H
#define MEMBRANE_TESTS_UNIT_HOLDER_CAPTURES_H

#include "tests/unit/bind/host_world.h"

namespace membrane
{

/* Captures of the world's own EP, or of a second one on the same device. */
class Captures
{
  public:
    /* A binding sets the bound of what stands ahead: `ahead_bytes` is the world's own. */
    Captures(HostWorld &world, bool of_others, uint64_t ahead_bytes = 0)
        : world_(world), of_others_(of_others)
    {
        if (!of_others)
            return;
        auto request = world.ep_request("other");
        EXPECT_EQ(MBR_OK, mbr_ep_create(world.manager, &request, &ep_, &world.error));
        native_ = world.make_stream();
        EXPECT_EQ(
            MBR_OK, mbr_ep_attach_stream(world.manager, ep_, native_, &stream_, &world.error));
        auto bind = world.bind_request();
        bind.ep = ep_;
        bind.ahead_bytes = ahead_bytes;
        EXPECT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &binding_, &world.error));
    }
    ~Captures()
    {
        retire();
        if (!of_others_)
            return;
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(world_.manager, binding_, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_ep_detach_stream(world_.manager, stream_, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_ep_destroy(world_.manager, ep_, kNever, &world_.error));
        world_.end_stream(native_);
    }
    void begin()
    {
        EXPECT_EQ(MBR_OK, mbr_ep_capture_begin(world_.manager, stream(), kNever, &world_.error));
    }
    void end()
    {
        retire();
        EXPECT_EQ(MBR_OK, mbr_ep_capture_end(world_.manager, stream(), &graph_, &world_.error));
    }
    void retire()
    {
        if (graph_.value != 0) {
            EXPECT_EQ(
                MBR_OK, mbr_ep_graph_retire(world_.manager, graph_, nullptr, 0, &world_.error));
        }
        graph_.value = 0;
    }

  private:
    mbr_stream_handle stream() const { return of_others_ ? stream_ : world_.stream; }

    HostWorld &world_;
    bool of_others_;
    mbr_ep_handle ep_ = {0};
    mbr_native native_ = {};
    mbr_stream_handle stream_ = {0};
    mbr_binding_handle binding_ = {0};
    mbr_graph_handle graph_ = {0};
};

} // namespace membrane

#endif
