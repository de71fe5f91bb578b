// What every request of the client interface is held to: its size (rule 12), its critical flags
// (rule 15), its outputs, which are set also by a refusal (rule 7). And what a refused free says.
#include "tests/unit/bind/host_world.h"

#include <functional>
#include <vector>

namespace membrane
{
namespace
{

/* Each request of the interface by a call that takes its address; `last` is the end of what its
 * first version has. The handles in them are 0, so that a request of the right size is refused, if
 * at all, by another status or text. */
struct Asked {
    const char *name;
    size_t least_bytes, bytes;
    std::function<mbr_status(HostWorld &, const void *)> call;
};

template <typename Request, typename Handle>
Asked maker(const char *name, size_t least_bytes,
    mbr_status (*call)(mbr_manager *, const Request *, Handle *, mbr_error *))
{
    return {name, least_bytes, sizeof(Request), [call](HostWorld &world, const void *request) {
                auto handle = Handle{};
                std::memset(&handle, 0xA5, sizeof(handle));
                if (sizeof(handle) > sizeof(uint64_t)) { /* a growable result */
                    uint32_t bytes = sizeof(handle);
                    std::memcpy(&handle, &bytes, sizeof(bytes));
                }
                mbr_status status = call(
                    world.manager, static_cast<const Request *>(request), &handle, &world.error);
                auto zero = Handle{};
                size_t head = sizeof(handle) > sizeof(uint64_t) ? sizeof(uint32_t) : 0;
                EXPECT_EQ(0,
                    std::memcmp(reinterpret_cast<char *>(&handle) + head,
                        reinterpret_cast<char *>(&zero) + head, sizeof(handle) - head))
                    << "an output is not set on entry";
                return status;
            }};
}

template <typename Request>
Asked doer(const char *name, size_t least_bytes,
    mbr_status (*call)(mbr_manager *, const Request *, mbr_error *))
{
    return {name, least_bytes, sizeof(Request), [call](HostWorld &world, const void *request) {
                return call(world.manager, static_cast<const Request *>(request), &world.error);
            }};
}

#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

std::vector<Asked> all_requests()
{
    return {
        maker("mbr_plugin_open_request", END_OF(mbr_plugin_open_request, name),
            mbr_manager_open_plugin),
        maker("mbr_mechanism_open_request", END_OF(mbr_mechanism_open_request, native_context),
            mbr_manager_open_mechanism),
        maker("mbr_authority_request", END_OF(mbr_authority_request, measured),
            mbr_manager_create_authority),
        maker("mbr_holder_request", END_OF(mbr_holder_request, allowance_bytes),
            mbr_manager_create_holder),
        maker("mbr_bind_request", END_OF(mbr_bind_request, cache_keep_bytes), mbr_manager_bind),
        maker("mbr_ep_request", END_OF(mbr_ep_request, instance), mbr_ep_create),
        maker("mbr_alloc_request", END_OF(mbr_alloc_request, refusal), mbr_alloc),
        doer("mbr_free_request", END_OF(mbr_free_request, stream_count), mbr_free),
        maker("mbr_range_reserve_request", END_OF(mbr_range_reserve_request, growth),
            mbr_range_reserve),
        maker("mbr_range_grow_request", END_OF(mbr_range_grow_request, refusal), mbr_range_grow),
        maker("mbr_range_release_request", END_OF(mbr_range_release_request, stream_count),
            mbr_range_decommit),
        doer("mbr_range_release_request", END_OF(mbr_range_release_request, stream_count),
            mbr_range_release),
        maker("mbr_prefix_request", END_OF(mbr_prefix_request, pieces), mbr_prefix_create),
        maker("mbr_prefix_attach_request", END_OF(mbr_prefix_attach_request, stream),
            mbr_prefix_attach),
        doer("mbr_prefix_protect_request", END_OF(mbr_prefix_protect_request, deadline_ns),
            mbr_prefix_protect),
    };
}

TEST(Request, ShorterThanItsFirstVersionOrNull_IsRefusedByName)
{
    HostWorld world;
    for (const Asked &asked : all_requests()) {
        SCOPED_TRACE(asked.name);
        for (size_t bytes : {size_t(0), sizeof(uint32_t), asked.least_bytes - 1}) {
            std::vector<uint64_t> room(asked.bytes / 8 + 1);
            auto stated = static_cast<uint32_t>(bytes);
            std::memcpy(room.data(), &stated, sizeof(stated));
            EXPECT_EQ(MBR_INVALID_ARGUMENT, asked.call(world, room.data())) << bytes;
            EXPECT_NE(nullptr, std::strstr(world.error.text, asked.name)) << world.error.text;
            EXPECT_NE(nullptr, std::strstr(world.error.text, "MBR_SIZED")) << world.error.text;
        }
    }
}

TEST(Request, OfItsFirstVersionAndOfALaterOne_AreRead)
{
    HostWorld world;
    for (const Asked &asked : all_requests()) {
        SCOPED_TRACE(asked.name);
        for (size_t bytes : {asked.least_bytes, asked.bytes + 64}) {
            std::vector<uint64_t> room(asked.bytes / 8 + 9);
            auto stated = static_cast<uint32_t>(bytes);
            std::memcpy(room.data(), &stated, sizeof(stated));
            std::memset(reinterpret_cast<char *>(room.data()) + asked.bytes, 0xA5, 64);
            world.error.text[0] = '\0';
            mbr_status status = asked.call(world, room.data());
            EXPECT_EQ(nullptr, std::strstr(world.error.text, "MBR_SIZED")) << world.error.text;
            EXPECT_NE(MBR_OK, status); /* it names nothing */
        }
    }
}

TEST(Request, OfALaterVersion_AllocatesGrowsAndFrees)
{
    struct LaterAlloc {
        mbr_alloc_request request;
        uint64_t newer[2];
    } alloc = {};
    struct LaterFree {
        mbr_free_request request;
        uint64_t newer[2];
    } release = {};
    HostWorld world;
    alloc.request.struct_size = sizeof(alloc);
    alloc.request.binding = world.binding;
    alloc.request.holder = world.holder;
    alloc.request.bytes = 1000;
    auto result = sized<mbr_alloc_result>();
    ASSERT_EQ(MBR_OK, mbr_alloc(world.manager, &alloc.request, &result, &world.error));
    release.request.struct_size = sizeof(release);
    release.request.flags = MBR_FREE_NOW;
    release.request.allocation = result.allocation;
    EXPECT_EQ(MBR_OK, mbr_free(world.manager, &release.request, &world.error));
}

TEST(Request, UnknownCriticalFlags_AreRefusedAndOptionalOnesIgnored)
{
    constexpr uint32_t kCritical = 0x8000, kOptional = 0x80000000;
    HostWorld world;
    auto reserve = sized<mbr_range_reserve_request>();
    reserve.binding = world.binding;
    reserve.bytes = 8 * kMiB;
    reserve.flags = kCritical;
    auto range = sized<mbr_range_reserve_result>();
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_range_reserve(world.manager, &reserve, &range, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "0x8000")) << world.error.text;
    reserve.flags = kOptional;
    ASSERT_EQ(MBR_OK, mbr_range_reserve(world.manager, &reserve, &range, &world.error));

    mbr_piece piece = {range.range, 0, 4 * kMiB};
    auto grow = sized<mbr_range_grow_request>();
    grow.holder = world.holder;
    grow.stream = world.stream;
    grow.pieces = &piece;
    grow.piece_count = 1;
    auto grown = sized<mbr_range_grow_result>();
    for (int committed = 0; committed < 2; committed++) { /* the way in a committed range, too */
        grow.flags = kCritical;
        EXPECT_EQ(MBR_UNSUPPORTED, mbr_range_grow(world.manager, &grow, &grown, &world.error));
        grow.flags = kOptional | MBR_GROW_ZEROED;
        EXPECT_EQ(MBR_OK, mbr_range_grow(world.manager, &grow, &grown, &world.error));
    }

    /* What fills it has run: MBR_FREE_NOW says so. */
    EXPECT_EQ(MBR_OK, mbr_ep_synchronize(world.manager, world.stream, kNever, &world.error));
    auto release = sized<mbr_range_release_request>();
    release.piece = piece;
    release.flags = kCritical | MBR_FREE_NOW;
    auto gone = sized<mbr_range_decommit_result>();
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_range_decommit(world.manager, &release, &gone, &world.error));
    release.flags = kOptional | MBR_FREE_NOW;
    EXPECT_EQ(MBR_OK, mbr_range_decommit(world.manager, &release, &gone, &world.error));
    release.piece = {range.range, 0, 0};
    release.flags = kCritical | MBR_FREE_NOW;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_range_release(world.manager, &release, &world.error));
    release.flags = kOptional | MBR_FREE_NOW;
    EXPECT_EQ(MBR_OK, mbr_range_release(world.manager, &release, &world.error));

    auto block = world.alloc(1000);
    auto request = sized<mbr_free_request>();
    request.allocation = block.allocation;
    request.flags = kCritical | MBR_FREE_NOW;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_free(world.manager, &request, &world.error));
    request.flags = kOptional | MBR_FREE_NOW;
    EXPECT_EQ(MBR_OK, mbr_free(world.manager, &request, &world.error));
}

template <typename Figures> void expect_cleared(const std::function<mbr_status(Figures *)> &read)
{
    Figures figures, zero = {};
    std::memset(&figures, 0xA5, sizeof(figures));
    zero.struct_size = figures.struct_size = sizeof(figures);
    EXPECT_NE(MBR_OK, read(&figures));
    EXPECT_EQ(0, std::memcmp(&figures, &zero, sizeof(zero)));
}

TEST(Figures, OfWhatIsNotThere_AreZero)
{
    HostWorld world;
    expect_cleared<mbr_mechanism_figures>([&](mbr_mechanism_figures *figures) {
        return mbr_manager_read_mechanism(world.manager, {77}, figures, nullptr);
    });
    expect_cleared<mbr_authority_figures>([&](mbr_authority_figures *figures) {
        return mbr_manager_read_authority(world.manager, {77}, figures, nullptr);
    });
    expect_cleared<mbr_holder_figures>([&](mbr_holder_figures *figures) {
        return mbr_manager_read_holder(world.manager, {77}, figures, nullptr);
    });
    expect_cleared<mbr_binding_figures>([&](mbr_binding_figures *figures) {
        return mbr_manager_read_binding(world.manager, {77}, figures, nullptr);
    });
    expect_cleared<mbr_ep_figures>([&](mbr_ep_figures *figures) {
        return mbr_ep_read(world.manager, {77}, figures, nullptr);
    });
    expect_cleared<mbr_allocation_figures>([&](mbr_allocation_figures *figures) {
        return mbr_alloc_read(world.manager, {77}, 0, figures, nullptr);
    });
    expect_cleared<mbr_range_figures>([&](mbr_range_figures *figures) {
        return mbr_range_read(world.manager, {77}, 0, figures, nullptr);
    });
    expect_cleared<mbr_prefix_figures>([&](mbr_prefix_figures *figures) {
        return mbr_prefix_read(world.manager, {77}, figures, nullptr);
    });
}

TEST(Figures, OfALongerStruct_EndInZeros)
{
    struct Later {
        mbr_range_figures figures;
        uint64_t newer[2];
    } later;
    std::memset(&later, 0xA5, sizeof(later));
    later.figures.struct_size = sizeof(later);
    HostWorld world;
    auto range = world.reserve(8 * kMiB);
    ASSERT_EQ(MBR_OK, mbr_range_read(world.manager, range.range, 0, &later.figures, &world.error));
    EXPECT_EQ(sizeof(later), later.figures.struct_size);
    EXPECT_EQ(range.address, later.figures.address);
    EXPECT_EQ(0u, later.newer[0] | later.newer[1]);
    EXPECT_EQ(MBR_OK, world.release(range.range));
}

TEST(Free, OfAnAllocationWhoseStreamIsDetached_IsStaleUntilTheCallerSaysItIsDone)
{
    HostWorld world;
    mbr_stream_handle first = world.stream, stream;
    mbr_native native = world.make_stream();
    ASSERT_EQ(MBR_OK, mbr_ep_attach_stream(world.manager, world.ep, native, &stream, &world.error));
    world.stream = stream;
    auto block = world.alloc(1000), other = world.alloc(1000);
    world.stream = first;
    ASSERT_EQ(MBR_OK, mbr_ep_detach_stream(world.manager, stream, &world.error));
    world.end_stream(native);
    auto request = sized<mbr_free_request>();
    request.allocation = block.allocation;
    EXPECT_EQ(MBR_STALE, mbr_free(world.manager, &request, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "MBR_FREE_NOW")) << world.error.text;
    request.streams = &stream; /* by name it is the same */
    request.stream_count = 1;
    EXPECT_EQ(MBR_STALE, mbr_free(world.manager, &request, &world.error));
    EXPECT_EQ(MBR_OK, world.free_now(block.allocation));
    request.allocation = other.allocation;
    request.streams = &first; /* another one, which waited for it */
    EXPECT_EQ(MBR_OK, mbr_free(world.manager, &request, &world.error)) << world.error.text;
}

} // namespace
} // namespace membrane
