/* Caches whose release queue is soon full. */
#ifndef MEMBRANE_TESTS_UNIT_HOLDER_KV_SMALL_QUEUE_H
#define MEMBRANE_TESTS_UNIT_HOLDER_KV_SMALL_QUEUE_H

#include "tests/unit/holder/kv_world.h"

namespace membrane
{

/* A second EP with a queue of so many entries, one stream, and a cache bound to it. */
class SmallQueue
{
  public:
    SmallQueue(HostWorld &world, uint32_t entries, uint64_t ahead_bytes = 0) : world_(world)
    {
        auto request = world.ep_request("small");
        request.queue_entries = entries;
        EXPECT_EQ(MBR_OK, mbr_ep_create(world.manager, &request, &ep, &world.error));
        native = world.make_stream();
        EXPECT_EQ(MBR_OK, mbr_ep_attach_stream(world.manager, ep, native, &stream, &world.error));
        auto bind = world.bind_request();
        bind.ep = ep;
        bind.ahead_bytes = ahead_bytes;
        EXPECT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &binding, &world.error));
        auto kv_request = sized<mbr_kv_request>();
        kv_request.binding = binding;
        kv_request.holder = world.holder;
        kv_request.geometry = kTwoGroups;
        kv_request.max_tokens = 1000;
        EXPECT_EQ(MBR_OK, mbr_kv_create(world.manager, &kv_request, &kv, &world.error));
    }
    ~SmallQueue()
    {
        EXPECT_EQ(MBR_OK, mbr_kv_destroy(kv, &world_.error)) << world_.error.text;
        settle();
        EXPECT_EQ(MBR_OK, mbr_manager_unbind(world_.manager, binding, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_ep_detach_stream(world_.manager, stream, &world_.error));
        EXPECT_EQ(MBR_OK, mbr_ep_destroy(world_.manager, ep, kNever, &world_.error));
        world_.end_stream(native);
    }
    mbr_sequence *create(uint64_t tokens)
    {
        auto request = sized<mbr_sequence_request>();
        request.stream = stream;
        request.tokens = tokens;
        mbr_sequence *sequence;
        EXPECT_EQ(MBR_OK, mbr_sequence_create(kv, &request, &sequence, &world_.error))
            << world_.error.text;
        return sequence;
    }
    mbr_sequence_figures read(mbr_sequence *sequence)
    {
        auto figures = sized<mbr_sequence_figures>();
        EXPECT_EQ(MBR_OK, mbr_sequence_read(sequence, &figures, nullptr));
        return figures;
    }
    void settle() { EXPECT_EQ(MBR_OK, mbr_ep_drain(world_.manager, ep, kNever, &world_.error)); }
    // Takes an entry with an allocation that waits for the stream.
    void take_entry()
    {
        auto wanted = sized<mbr_alloc_request>();
        wanted.binding = binding;
        wanted.holder = world_.holder;
        wanted.stream = stream;
        wanted.bytes = 4096;
        auto made = sized<mbr_alloc_result>();
        ASSERT_EQ(MBR_OK, mbr_alloc(world_.manager, &wanted, &made, &world_.error));
        auto release = sized<mbr_free_request>();
        release.allocation = made.allocation;
        ASSERT_EQ(MBR_OK, mbr_free(world_.manager, &release, &world_.error));
    }
    void destroy_in_turn(mbr_sequence *sequence)
    {
        mbr_status status = MBR_QUEUE_FULL;
        for (int i = 0; i < 4 && status == MBR_QUEUE_FULL; i++, settle())
            status = mbr_sequence_destroy(sequence, nullptr, 0, &world_.error);
        EXPECT_EQ(MBR_OK, status) << world_.error.text;
    }

    mbr_ep_handle ep;
    mbr_native native;
    mbr_stream_handle stream;
    mbr_binding_handle binding;
    mbr_kv *kv;

  private:
    HostWorld &world_;
};

} // namespace membrane

#endif
