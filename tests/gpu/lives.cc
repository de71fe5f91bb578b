// Sequences that begin, grow and end while kernels work on them. No end waits for a stream: whether
// memory was given to somebody else too early, kernels say that read every byte before it is let
// go.
#include "tests/gpu/world.h"

#include <array>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace membrane
{
namespace
{

constexpr uint64_t kMostGranules = 6;  // of one life
constexpr uint64_t kRoomGranules = 24; // of all: half of what they would take

class Lives : public GpuTest
{
  protected:
    struct Piece {
        mbr_cuda_address address;
        uint64_t bytes;
        uint32_t seed;
    };
    struct Life {
        mbr_range_handle range{};
        mbr_cuda_address address = 0;
        uint64_t bytes = 0;
        std::vector<Piece> pieces;
        size_t lane = 0;
    };
    struct Lane {
        mbr_cuda_stream stream;
        mbr_stream_handle attached;
    };

    void SetUp() override
    {
        GpuTest::SetUp();
        if (HasFatalFailure())
            return;
        lanes[0] = {device.stream, device.attached};
        ASSERT_DID(mbr_hand_did(hand(),
            hand()->call.stream_create(&lanes[1].stream, MBR_CUDA_STREAM_NON_BLOCKING),
            "cuStreamCreate"));
        ASSERT_OK(mbr_ep_attach_stream(manager(), device.world.ep,
            mbr_bench_native(&device, lanes[1].stream), &lanes[1].attached, error()));
        ASSERT_OK(mbr_manager_set_limit(
            manager(), device.world.authority, kRoomGranules * granule(), nullptr, error()));
        const char *wished = std::getenv("MEMBRANE_SEED");
        seed = wished != nullptr ? static_cast<unsigned>(std::strtoul(wished, nullptr, 0)) : 1;
        random.seed(seed);
    }
    void TearDown() override
    {
        if (lanes[1].attached.value != 0) {
            EXPECT_EQ(mbr_ep_detach_stream(manager(), lanes[1].attached, error()), MBR_OK);
        }
        if (lanes[1].stream != nullptr)
            hand()->call.stream_destroy(lanes[1].stream);
        GpuTest::TearDown();
    }

    uint64_t draw(uint64_t below) { return random() % below; }
    void begin(Life *life)
    {
        life->range = reserve(kMostGranules * granule(), granule());
        life->address = address_of(life->range);
        life->lane = draw(lanes.size());
    }
    bool grow(Life *life, uint64_t bytes)
    {
        const Lane &lane = lanes[life->lane];
        mbr_piece piece{life->range, life->bytes, bytes};
        mbr_range_grow_request request{};
        request.struct_size = sizeof(request);
        request.holder = device.world.holder;
        request.stream = lane.attached;
        request.pieces = &piece;
        request.piece_count = 1;
        mbr_range_grow_result result{};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_range_grow(manager(), &request, &result, error());
        if (status != MBR_OK) {
            EXPECT_EQ(MBR_STATUS_CLASS(status), MBR_CLASS_EXHAUSTED) << error()->text;
            refused_count++;
            return false;
        }
        Piece fresh{life->address + life->bytes, bytes, ++last_seed};
        EXPECT_TRUE(mbr_kernels_write(
            hand(), &kernels, fresh.address, fresh.bytes, fresh.seed, lane.stream));
        life->pieces.push_back(fresh);
        life->bytes += bytes;
        return true;
    }
    void look(const Life &life)
    {
        for (const Piece &piece : life.pieces)
            EXPECT_TRUE(mbr_kernels_check(
                hand(), &kernels, piece.address, piece.bytes, piece.seed, lanes[life.lane].stream));
    }
    // Its memory is somebody else's as soon as the kernels above are done, and not before.
    void end(Life *life)
    {
        look(*life);
        mbr_range_release_request request{};
        request.struct_size = sizeof(request);
        request.piece.range = life->range;
        request.streams = &lanes[life->lane].attached;
        request.stream_count = 1;
        EXPECT_EQ(mbr_range_release(manager(), &request, error()), MBR_OK) << error()->text;
        *life = Life{};
        ended_count++;
    }
    void step(Life *life)
    {
        if (life->range.value == 0)
            begin(life);
        uint64_t left = kMostGranules - life->bytes / granule();
        if (left == 0 || draw(8) == 0 || !grow(life, (1 + draw(left)) * granule()))
            end(life);
    }

    std::array<Lane, 2> lanes{};
    std::array<Life, 8> lives;
    std::mt19937 random;
    unsigned seed = 0;
    uint32_t last_seed = 0;
    uint64_t refused_count = 0, ended_count = 0;
};

TEST_F(Lives, BegunGrownAndEndedUnderKernels_KeepEveryByte)
{
    SCOPED_TRACE("MEMBRANE_SEED=" + std::to_string(seed));
    for (int i = 0; i < 600 && !HasFailure(); i++) {
        uint64_t refused_before = refused_count;
        step(&lives[draw(lives.size())]);
        look(lives[draw(lives.size())]);
        if (refused_count > refused_before && draw(3) == 0) { // else nearly all are refused
            ASSERT_OK(mbr_ep_drain(manager(), device.world.ep, UINT64_MAX, error()));
        }
    }
    for (Life &life : lives)
        if (life.range.value != 0)
            end(&life);
    ASSERT_OK(mbr_ep_drain(manager(), device.world.ep, UINT64_MAX, error()));
    EXPECT_EQ(*kernels.seen, 0U) << "words of " << last_seed << " pieces";
    EXPECT_GT(ended_count, 50U);
    EXPECT_GT(refused_count, 10U) << "the room was never short";
    EXPECT_GT(last_seed, 4 * kRoomGranules) << "too little was served again";
    EXPECT_EQ(ep_figures().queued_count, 0U);
    ASSERT_OK(mbr_manager_audit(manager(), error()));
}

} // namespace
} // namespace membrane
