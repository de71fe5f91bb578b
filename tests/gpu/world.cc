#include "tests/gpu/world.h"

#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace membrane
{

const char *gpu_plugin()
{
    const char *named = std::getenv("MEMBRANE_GPU_PLUGIN");
    return named != nullptr ? named : "cuda";
}

void GpuTest::SetUp()
{
    options.plugin = gpu_plugin();
    options.trusted = true;
    bench.options = &options;
    ASSERT_TRUE(mbr_bench_device_open(&bench, UINT64_MAX, &device)) << bench.text;
    ASSERT_DID(mbr_kernels_open(hand(), &kernels));
}

void GpuTest::TearDown()
{
    if (is_lost || device.hand.library == nullptr)
        return;
    EXPECT_TRUE(mbr_kernels_close(hand(), &kernels)) << device.hand.text;
    EXPECT_TRUE(mbr_bench_device_close(&bench, &device, true)) << bench.text;
}

mbr_range_handle GpuTest::reserve(uint64_t bytes, uint64_t extent_bytes)
{
    mbr_range_handle range{};
    EXPECT_TRUE(mbr_bench_reserve(&device.world, bytes, extent_bytes, &range)) << error()->text;
    return range;
}

void GpuTest::grow(mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes)
{
    EXPECT_TRUE(mbr_bench_grow(&device.world, range, offset_bytes, bytes)) << error()->text;
}

void GpuTest::decommit(mbr_range_handle range, uint64_t offset_bytes, uint64_t bytes)
{
    EXPECT_TRUE(mbr_bench_decommit(&device.world, range, offset_bytes, bytes)) << error()->text;
}

void GpuTest::release(mbr_range_handle range)
{
    EXPECT_TRUE(mbr_bench_release(&device.world, &range)) << error()->text;
}

mbr_cuda_address GpuTest::address_of(mbr_range_handle range)
{
    mbr_range_figures figures{};
    figures.struct_size = sizeof(figures);
    EXPECT_EQ(mbr_range_read(manager(), range, 0, &figures, error()), MBR_OK) << error()->text;
    return figures.address;
}

mbr_status GpuTest::allocate(uint64_t bytes, mbr_stream_handle stream, mbr_alloc_result *result)
{
    mbr_alloc_request request{};
    request.struct_size = sizeof(request);
    request.binding = device.world.binding;
    request.holder = device.world.holder;
    request.stream = stream;
    request.bytes = bytes;
    *result = {};
    result->struct_size = sizeof(*result);
    return mbr_alloc(manager(), &request, result, error());
}

mbr_status GpuTest::free_behind_stream(mbr_allocation_handle allocation)
{
    mbr_free_request request{};
    request.struct_size = sizeof(request);
    request.allocation = allocation;
    return mbr_free(manager(), &request, error());
}

mbr_ep_figures GpuTest::ep_figures()
{
    mbr_ep_figures figures{};
    figures.struct_size = sizeof(figures);
    EXPECT_EQ(mbr_ep_read(manager(), device.world.ep, &figures, error()), MBR_OK);
    return figures;
}

void GpuTest::write(mbr_cuda_address address, uint64_t bytes, uint32_t seed)
{
    EXPECT_TRUE(mbr_kernels_write(hand(), &kernels, address, bytes, seed, device.stream))
        << device.hand.text;
}

void GpuTest::synchronize()
{
    EXPECT_TRUE(
        mbr_hand_did(hand(), hand()->call.stream_synchronize(device.stream), "cuStreamSynchronize"))
        << device.hand.text;
}

uint32_t GpuTest::wrong(mbr_cuda_address address, uint64_t bytes, uint32_t seed)
{
    synchronize();
    *kernels.seen = 0;
    EXPECT_TRUE(mbr_kernels_check(hand(), &kernels, address, bytes, seed, device.stream))
        << device.hand.text;
    synchronize();
    return *kernels.seen;
}

// ---- Other processes of this program

namespace
{

pid_t spawn(const char *name, int to, int from)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (to >= 0)
        posix_spawn_file_actions_adddup2(&actions, to, STDIN_FILENO);
    if (from >= 0)
        posix_spawn_file_actions_adddup2(&actions, from, STDOUT_FILENO);
    char program[] = "/proc/self/exe", option[] = "--as";
    std::string as = name;
    char *arguments[] = {program, option, &as[0], nullptr};
    pid_t pid = -1;
    if (posix_spawn(&pid, program, &actions, nullptr, arguments, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

int await(pid_t pid)
{
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        continue;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

int in_fresh_process(const char *name)
{
    return await(spawn(name, -1, -1));
}

Beside::Beside(const char *name)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        return;
    pid_ = spawn(name, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
}

bool Beside::wait_ready()
{
    char byte;
    return pid_ > 0 && read(from_, &byte, 1) == 1;
}

int Beside::finish()
{
    close(to_);
    close(from_);
    return await(pid_);
}

} // namespace membrane
