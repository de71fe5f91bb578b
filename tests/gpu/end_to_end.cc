// The promises of the library on a device, with kernels that really run: nothing is reused before
// the device is done with it, growth waits for nobody and loses nothing, a graph outlives the
// memory behind its addresses, and neither a full device nor a dead context ends the program.
#include "tests/gpu/world.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <vector>

namespace membrane
{
namespace
{

constexpr uint64_t kMib = UINT64_C(1) << 20;

class EndToEnd : public GpuTest
{
};

// ---- Deferred free

TEST_F(EndToEnd, DeferredFree_UnderARunningKernel_IsHadAgainOnlyAfterIt)
{
    mbr_alloc_result block;
    ASSERT_OK(allocate(4 * kMib, device.attached, &block));
    ASSERT_DID(mbr_kernels_hold(hand(), &kernels, device.stream));
    write(block.address, 4 * kMib, 1); // behind the kernel that spins
    ASSERT_OK(free_behind_stream(block.allocation));

    // For another stream the block is not there as long as the kernel runs.
    std::vector<mbr_allocation_handle> others;
    for (int i = 0; i < 8; i++) {
        mbr_alloc_result other;
        ASSERT_OK(allocate(4 * kMib, mbr_stream_handle{}, &other));
        bool apart =
            other.address + 4 * kMib <= block.address || block.address + 4 * kMib <= other.address;
        EXPECT_TRUE(apart) << "memory that a kernel still writes was handed out again";
        others.push_back(other.allocation);
    }
    EXPECT_EQ(ep_figures().released_count, 0U);
    mbr_kernels_let_go(&kernels);
    ASSERT_OK(mbr_ep_drain(manager(), device.world.ep, UINT64_MAX, error()));
    EXPECT_EQ(ep_figures().queued_count, 0U);
    uint64_t owned = mbr_bench_world_owned(&device.world);
    mbr_alloc_result again;
    ASSERT_OK(allocate(4 * kMib, mbr_stream_handle{}, &again));
    EXPECT_EQ(mbr_bench_world_owned(&device.world), owned) << "the block is there again";
    others.push_back(again.allocation);
    for (mbr_allocation_handle other : others) {
        mbr_free_request request{};
        request.struct_size = sizeof(request);
        request.flags = MBR_FREE_NOW;
        request.allocation = other;
        ASSERT_OK(mbr_free(manager(), &request, error()));
    }
}

TEST_F(EndToEnd, Release_UnderARunningKernel_KeepsItsMappingUntilTheEnd)
{
    uint64_t bytes = 8 * granule();
    mbr_range_handle range = reserve(bytes, granule());
    grow(range, 0, bytes);
    mbr_cuda_address address = address_of(range);
    ASSERT_DID(mbr_kernels_hold(hand(), &kernels, device.stream));
    write(address, bytes, 7);
    mbr_range_release_request request{};
    request.struct_size = sizeof(request);
    request.piece.range = range;
    request.streams = &device.attached;
    request.stream_count = 1;
    ASSERT_OK(mbr_range_release(manager(), &request, error()));
    mbr_kernels_let_go(&kernels);
    // Had it been unmapped, the write would have ended the context.
    synchronize();
    ASSERT_OK(mbr_ep_drain(manager(), device.world.ep, UINT64_MAX, error()));
}

// ---- Growth

TEST_F(EndToEnd, Growth_UnderARunningKernel_DoesNotWaitAndKeepsContents)
{
    uint64_t step = 4 * granule();
    mbr_range_handle range = reserve(8 * step, granule());
    grow(range, 0, step);
    mbr_cuda_address address = address_of(range);
    write(address, step, 3);
    ASSERT_DID(mbr_kernels_hold(hand(), &kernels, device.stream));
    for (uint64_t at = step; at < 8 * step; at += step)
        grow(range, at, step);
    EXPECT_EQ(
        hand()->call.stream_query(device.stream), static_cast<mbr_cuda_result>(MBR_CUDA_NOT_READY))
        << "growth waited for the kernel";
    mbr_kernels_let_go(&kernels);
    EXPECT_EQ(address_of(range), address);
    write(address + step, 7 * step, 4);
    EXPECT_EQ(wrong(address, step, 3), 0U);
    EXPECT_EQ(wrong(address + step, 7 * step, 4), 0U);
    release(range);
}

// ---- Graphs

TEST_F(EndToEnd, Graph_AcrossGrowthAndRemap_ReplaysOnWhatIsThereNow)
{
    uint64_t bytes = 8 * granule();
    mbr_range_handle range = reserve(2 * bytes, granule());
    grow(range, 0, bytes);
    mbr_cuda_address address = address_of(range);
    ASSERT_DID(mbr_hand_did(hand(),
        hand()->call.capture_begin(device.stream, MBR_CUDA_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture"));
    write(address, bytes, 11);
    mbr_cuda_graph graph;
    ASSERT_DID(mbr_hand_did(
        hand(), hand()->call.capture_end(device.stream, &graph), "cuStreamEndCapture"));
    mbr_cuda_graph_exec replayed;
    ASSERT_DID(mbr_hand_did(
        hand(), hand()->call.graph_instantiate(&replayed, graph, 0), "cuGraphInstantiate"));

    auto replay = [&] {
        ASSERT_DID(mbr_hand_did(
            hand(), hand()->call.graph_launch(replayed, device.stream), "cuGraphLaunch"));
        EXPECT_EQ(wrong(address, bytes, 11), 0U);
    };
    replay();
    grow(range, bytes, bytes);
    write(address, 2 * bytes, 0);
    replay();
    decommit(range, 0, bytes);
    ASSERT_TRUE(mbr_bench_trim(&device.world)) << error()->text;
    grow(range, 0, bytes); // other handles at the same addresses
    write(address, bytes, 0);
    replay();
    ASSERT_DID(
        mbr_hand_did(hand(), hand()->call.graph_exec_destroy(replayed), "cuGraphExecDestroy"));
    ASSERT_DID(mbr_hand_did(hand(), hand()->call.graph_destroy(graph), "cuGraphDestroy"));
    release(range);
}

TEST_F(EndToEnd, GlobalCapture_WhileFreesWait_IsNotDestroyed)
{
    mbr_alloc_result block;
    ASSERT_OK(allocate(kMib, device.attached, &block));
    ASSERT_OK(free_behind_stream(block.allocation));
    mbr_cuda_stream captured;
    ASSERT_DID(mbr_hand_did(hand(),
        hand()->call.stream_create(&captured, MBR_CUDA_STREAM_NON_BLOCKING), "cuStreamCreate"));
    mbr_range_handle range = reserve(4 * granule(), granule());
    ASSERT_DID(
        mbr_hand_did(hand(), hand()->call.capture_begin(captured, MBR_CUDA_CAPTURE_MODE_GLOBAL),
            "cuStreamBeginCapture"));
    // Queries of ours, and growth at fresh addresses, on the capturing thread.
    mbr_manager_poll(manager());
    grow(range, 0, 4 * granule());
    ASSERT_OK(mbr_ep_drain(manager(), device.world.ep, UINT64_MAX, error()));
    mbr_cuda_graph graph = nullptr;
    EXPECT_TRUE(
        mbr_hand_did(hand(), hand()->call.capture_end(captured, &graph), "cuStreamEndCapture"))
        << device.hand.text;
    if (graph != nullptr)
        hand()->call.graph_destroy(graph);
    hand()->call.stream_destroy(captured);
    release(range);
}

// ---- Sharing

TEST_F(EndToEnd, Prefix_OfTwoSharers_IsStoredOnceAndReadByBoth)
{
    uint64_t bytes = 8 * granule();
    mbr_range_handle owner = reserve(bytes, granule());
    grow(owner, 0, bytes);
    write(address_of(owner), bytes, 21);
    synchronize();
    mbr_piece piece{owner, 0, bytes};
    mbr_prefix_request request{};
    request.struct_size = sizeof(request);
    request.piece_count = 1;
    request.holder = device.world.holder;
    request.pieces = &piece;
    mbr_prefix_result made{};
    made.struct_size = sizeof(made);
    ASSERT_OK(mbr_prefix_create(manager(), &request, &made, error()));
    uint64_t owned = mbr_bench_world_owned(&device.world);
    std::vector<mbr_range_handle> sharers;
    for (int i = 0; i < 2; i++) {
        mbr_range_handle sharer = reserve(bytes, granule());
        mbr_prefix_attach_request attach{};
        attach.struct_size = sizeof(attach);
        attach.target_count = 1;
        attach.prefix = made.prefix;
        attach.holder = device.world.holder;
        attach.targets = &sharer;
        mbr_prefix_attach_result result{};
        result.struct_size = sizeof(result);
        ASSERT_OK(mbr_prefix_attach(manager(), &attach, &result, error()));
        EXPECT_EQ(result.shared_bytes, bytes);
        EXPECT_EQ(wrong(address_of(sharer), bytes, 21), 0U);
        sharers.push_back(sharer);
    }
    EXPECT_EQ(mbr_bench_world_owned(&device.world), owned);
    release(owner);
    for (mbr_range_handle sharer : sharers) {
        EXPECT_EQ(wrong(address_of(sharer), bytes, 21), 0U) << "it lives until its last user";
        release(sharer);
    }
    ASSERT_OK(mbr_prefix_release(manager(), made.prefix, error()));
}

// A kernel that stores to its read-only prefix ends its context: in a process of its own.
TEST(EndToEndAlone, Prefix_StoredToByAKernel_IsADeviceLostThatTheProgramSurvives)
{
    EXPECT_EQ(in_fresh_process("store"), 0);
}

class StoreToPrefix : public GpuTest
{
  public:
    void TestBody() override
    {
        SetUp();
        if (HasFatalFailure())
            return;
        uint64_t bytes = 4 * granule();
        mbr_range_handle owner = reserve(bytes, granule()), sharer = reserve(bytes, granule());
        grow(owner, 0, bytes);
        mbr_piece piece{owner, 0, bytes};
        mbr_prefix_request request{};
        request.struct_size = sizeof(request);
        request.piece_count = 1;
        request.holder = device.world.holder;
        request.pieces = &piece;
        mbr_prefix_result made{};
        made.struct_size = sizeof(made);
        ASSERT_OK(mbr_prefix_create(manager(), &request, &made, error()));
        mbr_prefix_attach_request attach{};
        attach.struct_size = sizeof(attach);
        attach.target_count = 1;
        attach.prefix = made.prefix;
        attach.holder = device.world.holder;
        attach.targets = &sharer;
        mbr_prefix_attach_result result{};
        result.struct_size = sizeof(result);
        ASSERT_OK(mbr_prefix_attach(manager(), &attach, &result, error()));
        mbr_alloc_result block;
        ASSERT_OK(allocate(kMib, device.attached, &block));
        const uint64_t charged = charged_bytes();

        is_lost = true;
        write(address_of(sharer), bytes, 5);
        EXPECT_EQ(hand()->call.stream_synchronize(device.stream),
            static_cast<mbr_cuda_result>(MBR_CUDA_ILLEGAL_ADDRESS));
        // Whatever comes back says so, and what was charged stays charged.
        mbr_status freed = free_behind_stream(block.allocation);
        mbr_status drained = mbr_ep_drain(manager(), device.world.ep, UINT64_MAX, error());
        EXPECT_TRUE(freed == MBR_OK || freed == MBR_DEVICE_LOST) << freed;
        EXPECT_TRUE(drained == MBR_OK || drained == MBR_DEVICE_LOST) << drained;
        EXPECT_EQ(ep_figures().context_state, static_cast<uint32_t>(MBR_CONTEXT_LOST));
        mbr_alloc_result none;
        EXPECT_EQ(allocate(kMib, device.attached, &none), MBR_DEVICE_LOST);
        EXPECT_EQ(charged_bytes(), charged);
        EXPECT_EQ(mbr_manager_audit(manager(), error()), MBR_OK) << error()->text;
    }

  private:
    uint64_t charged_bytes()
    {
        mbr_authority_figures figures{};
        figures.struct_size = sizeof(figures);
        EXPECT_EQ(mbr_manager_read_authority(manager(), device.world.authority, &figures, error()),
            MBR_OK)
            << error()->text;
        return figures.charged_bytes;
    }
};

// ---- A full device

TEST_F(EndToEnd, Exhaustion_BesideAnotherProcess_IsToldAndEndsWithIt)
{
    size_t before = 0, beside = 0, total = 0;
    ASSERT_DID(mbr_hand_did(hand(), hand()->call.memory_info(&before, &total), "cuMemGetInfo"));
    Beside other("hog");
    ASSERT_TRUE(other.wait_ready());
    ASSERT_DID(mbr_hand_did(hand(), hand()->call.memory_info(&beside, &total), "cuMemGetInfo"));
    if (before < beside + total / 4) {
        EXPECT_EQ(other.finish(), 0);
        GTEST_SKIP() << "this driver keeps the memory of processes apart";
    }
    // More than is left, and less than the budget: the device refuses, not the ledger.
    uint64_t extent = 512 * kMib;
    uint64_t wanted = beside / extent * extent + extent;
    mbr_range_handle range = reserve(wanted, extent);
    mbr_bench_world *world = &device.world;
    ASSERT_OK(mbr_manager_set_limit(manager(), world->authority, total, nullptr, error()));
    EXPECT_FALSE(mbr_bench_grow(world, range, 0, wanted));
    EXPECT_EQ(MBR_STATUS_CLASS(error()->status), MBR_CLASS_EXHAUSTED) << error()->text;
    EXPECT_EQ(ep_figures().context_state, static_cast<uint32_t>(MBR_CONTEXT_ACTIVE));
    ASSERT_OK(mbr_manager_audit(manager(), error()));
    EXPECT_EQ(other.finish(), 0);
    ASSERT_OK(mbr_manager_set_limit(manager(), world->authority, total, nullptr, error()));
    grow(range, 0, wanted);
    write(address_of(range), extent, 9);
    EXPECT_EQ(wrong(address_of(range), extent, 9), 0U);
    release(range);
    ASSERT_TRUE(mbr_bench_trim(world)) << error()->text;
}

// Takes three quarters of the device by plain calls, says so, and keeps it until its input ends.
int hog()
{
    mbr_bench_options options{};
    mbr_bench bench{};
    bench.options = &options;
    mbr_hand hand;
    if (!mbr_hand_open(&bench, &hand))
        return 1;
    size_t free_bytes = 0, total = 0;
    mbr_cuda_address taken = 0;
    bool done = mbr_hand_did(&hand, hand.call.memory_info(&free_bytes, &total), "cuMemGetInfo") &&
        mbr_hand_did(&hand, hand.call.device_allocate(&taken, free_bytes / 4 * 3), "cuMemAlloc");
    if (done) {
        char byte = 1;
        done = ::write(STDOUT_FILENO, &byte, 1) == 1 && ::read(STDIN_FILENO, &byte, 1) == 0;
    }
    if (taken != 0)
        hand.call.device_free(taken);
    mbr_hand_close(&hand);
    return done ? 0 : 1;
}

int store()
{
    StoreToPrefix test;
    test.TestBody();
    return ::testing::Test::HasFailure() ? 1 : 0;
}

} // namespace
} // namespace membrane

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    if (argc == 3 && std::strcmp(argv[1], "--as") == 0) {
        int code = std::strcmp(argv[2], "hog") == 0 ? membrane::hog() : membrane::store();
        std::fflush(nullptr);
        std::_Exit(code); // what a lost context held can be given back to nobody
    }
    return RUN_ALL_TESTS();
}
