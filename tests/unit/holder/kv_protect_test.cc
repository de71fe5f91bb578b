// Caches whose prefixes are protected: a source may only read what it shares, goes on with the
// rest, and has all of it again once it shares no more.
#include "tests/unit/holder/kv_world.h"

#include "tests/support/access.h"
#include "tests/support/faulty/failing.h"

namespace membrane
{
namespace
{

Shape shape(const char *layout, uint32_t flags = MBR_KV_PROTECT_PREFIXES)
{
    return {kTwoGroups, layout, 400, 0, 8192, MBR_KV_GROWING, 0, flags};
}

using Next = mbr_status (*)(
    const mbr_sequence *, uint64_t *cursor, uint64_t *address, uint64_t *bytes, mbr_error *);

// Of what `next` lists, the bytes of pages that may be written, and of those that may not.
struct Pages {
    uint64_t writable = 0, other = 0;
};

Pages pages(KvWorld &world, const Tracked &tracked, Next next)
{
    Pages found;
    uint64_t cursor = 0, address, bytes;
    while (
        next(tracked.sequence, &cursor, &address, &bytes, &world.error) == MBR_OK && bytes != 0) {
        bool can = can_write(reinterpret_cast<uint64_t>(view_of(address)));
        for (uint64_t at = address; at < address + bytes; at += 4096)
            EXPECT_EQ(can, can_write(reinterpret_cast<uint64_t>(view_of(at))));
        (can ? found.writable : found.other) += bytes;
    }
    return found;
}

TEST(KvProtect, Source_MayOnlyReadWhatItSharesAndGoesOnBehindIt)
{
    for (const char *layout : {"window-major", "token-major", "seq-major", "head-major"}) {
        SCOPED_TRACE(layout);
        KvWorld world(shape(layout));
        Tracked source, sharer;
        TrackedPrefix prefix;
        ASSERT_EQ(MBR_OK, world.create(&source, 200));
        ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
        auto figures = world.read(prefix);
        EXPECT_LT(0u, figures.shared_bytes);
        EXPECT_EQ(figures.shared_bytes, figures.protected_bytes);
        EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_shared).writable);
        ASSERT_EQ(MBR_OK, world.create(&sharer, 230, &prefix, 200)) << world.error.text;
        ASSERT_EQ(MBR_OK, world.append(&source, 100));
        EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_private).other);
        world.end(&prefix);
        EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_shared).writable);
        ASSERT_TRUE(world.holds(source) && world.holds(sharer));
        ASSERT_EQ(MBR_OK, world.destroy(&sharer));
        world.settle();
        EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_shared).other);
        EXPECT_TRUE(world.holds(source));
        ASSERT_EQ(MBR_OK, world.destroy(&source));
        world.settle();
        ASSERT_EQ(MBR_OK, world.create(&source, 400)); // written anew, where that was parked
        EXPECT_TRUE(world.holds(source));
        ASSERT_EQ(MBR_OK, world.destroy(&source));
    }
}

TEST(KvProtect, WithoutTheFlag_NothingIsProtected)
{
    KvWorld world(shape("token-major", 0));
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix));
    EXPECT_EQ(0u, world.read(prefix).protected_bytes);
    EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_shared).other);
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

TEST(KvProtect, UnknownFlag_IsRefused)
{
    KvWorld world(shape("token-major"));
    auto request = sized<mbr_kv_request>();
    request.binding = world.binding;
    request.holder = world.holder;
    request.geometry = kTwoGroups;
    request.max_tokens = 100;
    request.flags = 2;
    mbr_kv *kv;
    EXPECT_EQ(MBR_UNSUPPORTED, mbr_kv_create(world.manager, &request, &kv, &world.error));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "0x2")) << world.error.text;
}

// The source's stream may still write what the prefix is to hold.
TEST(KvProtect, WorkOfTheSourceIsUnderWay_IsWaitedFor)
{
    KvWorld world(shape("token-major"));
    Tracked source;
    TrackedPrefix prefix;
    ASSERT_EQ(MBR_OK, world.create(&source, 200));
    Gate gate(world);
    auto made = std::async(std::launch::async, [&] { return world.share(&source, 200, &prefix); });
    EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_private).other);
    gate.open();
    ASSERT_EQ(MBR_OK, made.get()) << world.error.text;
    EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_shared).writable);
    world.end(&prefix);
    ASSERT_EQ(MBR_OK, world.destroy(&source));
}

// Each call of protect is refused once: no prefix, the figures as before, all of it writable; and
// then it works.
TEST(KvProtect, ProtectIsRefusedAtEachCall_NoPrefixAndNothingIsProtected)
{
    uint64_t met = 0;
    for (uint64_t nth = 1;; nth++) {
        Faulty faulty;
        KvWorld world(shape("seq-major"), 64 * kMiB, nullptr, "tests/support/libmembrane-faulty.so",
            faulty.options());
        Tracked source;
        TrackedPrefix prefix;
        ASSERT_EQ(MBR_OK, world.create(&source, 200));
        auto before = world.read();
        faulty.fail(FAULTY_PROTECT, nth);
        mbr_status status = world.share(&source, 200, &prefix);
        if (!faulty.stop()) {
            ASSERT_EQ(MBR_OK, status);
            world.end(&prefix);
            ASSERT_EQ(MBR_OK, world.destroy(&source));
            break;
        }
        met++;
        ASSERT_EQ(MBR_SYSTEM, status) << nth;
        auto after = world.read();
        EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
        EXPECT_EQ(0u, world.paid(world.prefix_holder).charged_bytes);
        EXPECT_EQ(0u, pages(world, source, mbr_sequence_next_private).other);
        EXPECT_TRUE(world.clean());
        ASSERT_EQ(MBR_OK, world.share(&source, 200, &prefix)) << world.error.text;
        EXPECT_EQ(world.read(prefix).shared_bytes, world.read(prefix).protected_bytes);
        EXPECT_TRUE(world.holds(source));
        world.end(&prefix);
        ASSERT_EQ(MBR_OK, world.destroy(&source));
    }
    EXPECT_LT(3u, met);
}

} // namespace
} // namespace membrane
