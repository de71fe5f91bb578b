// What the tests on a device stand on: the client's world over a plugin, the driver by hand beside
// it, kernels, and a stream that both use.
#ifndef MEMBRANE_TESTS_GPU_WORLD_H
#define MEMBRANE_TESTS_GPU_WORLD_H

extern "C" {
#include "tools/bench/gpu/device.h"
#include "tools/bench/gpu/kernels.h"
}

#include <gtest/gtest.h>

namespace membrane
{

// The plugin under test: MEMBRANE_GPU_PLUGIN, a name or a path; `cuda` otherwise.
const char *gpu_plugin();

class GpuTest : public ::testing::Test
{
  protected:
    void SetUp() override;
    void TearDown() override;

    mbr_manager *manager() { return device.world.manager; }
    mbr_error *error() { return &device.world.error; }
    mbr_hand *hand() { return &device.hand; }
    uint64_t granule() { return device.hand.granule_bytes; }

    // A range of extents of that size, without memory.
    mbr_range_handle reserve(uint64_t bytes, uint64_t extent_bytes);
    void grow(mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes);
    void decommit(mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes);
    void release(mbr_range_handle range);
    mbr_cuda_address address_of(mbr_range_handle range);
    mbr_status allocate(uint64_t bytes, mbr_stream_handle stream, mbr_alloc_result *result);
    mbr_status free_behind_stream(mbr_allocation_handle allocation);
    mbr_ep_figures ep_figures();

    void write(mbr_cuda_address address, uint64_t bytes, uint32_t seed);
    // Words that are not as `write` left them; waits for the stream.
    uint32_t wrong(mbr_cuda_address address, uint64_t bytes, uint32_t seed);
    void synchronize();

    mbr_bench_options options{};
    mbr_bench bench{};
    mbr_bench_device device{};
    mbr_kernels kernels{};
    bool is_lost = false; // then what is left is not closed
};

// A driver lives in one process only and does not come along into a forked child: what may end a
// context runs in a fresh one of this program. `name`: what main does there. Its exit code.
int in_fresh_process(const char *name);
// The same, but it goes on beside us until `finish`; `wait_ready` returns once it has written to
// its standard output.
class Beside
{
  public:
    explicit Beside(const char *name);
    bool wait_ready();
    int finish(); // closes its standard input, which it waits for

  private:
    int pid_ = -1, to_ = -1, from_ = -1;
};

} // namespace membrane

#define ASSERT_DID(call) ASSERT_TRUE(call) << device.hand.text
#define ASSERT_OK(call) ASSERT_EQ((call), MBR_OK) << device.world.error.text

#endif
