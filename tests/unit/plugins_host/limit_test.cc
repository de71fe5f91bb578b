// The real limit of mappings: the process runs into vm.max_map_count, is told so, and can give
// everything back.
#include "tests/unit/plugins_host/mechanism.h"

#include <dlfcn.h>

#include <gtest/gtest.h>

using namespace host_test;

TEST(HostLimit, AtMaxMapCount_IsAStatusOfItsOwnAndEverythingCanBeGivenBack)
{
    for (const char *runtime : {"__asan_init", "__tsan_init"})
        if (dlsym(RTLD_DEFAULT, runtime))
            GTEST_SKIP() << "a sanitizer's runtime ends the process when it cannot map";
    constexpr uint64_t G = 4096;
    constexpr uint64_t kMost = 100000; // above any usual vm.max_map_count / 2
    Mechanism host = Mechanism::open({{"granule", "4096"}, {"populate", "0"}});
    ASSERT_TRUE(host.reserve(1, 2 * kMost * G).ok());
    Result last = {};
    uint64_t count = 0;
    for (; count < kMost; count++) { // every second granule, so that nothing merges
        ASSERT_TRUE(host.create(count + 2, G).ok());
        last = host.map(1, count * 2 * G, count + 2);
        if (!last.ok())
            break;
    }
    EXPECT_EQ(last.status, MBR_OUT_OF_MAPPINGS) << last.error.text;
    EXPECT_EQ(last.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    EXPECT_EQ(host.stats().mapped_bytes, count * G);
    // One from the middle, and then a new one in its place.
    Result result = host.unmap(1, count / 2 * 2 * G, G);
    EXPECT_TRUE(result.ok()) << result.error.text;
    result = host.map(1, count / 2 * 2 * G, count + 2);
    EXPECT_TRUE(result.ok()) << result.error.text;
    for (uint64_t i = 0; i < count; i++) {
        result = host.unmap(1, i * 2 * G, G);
        ASSERT_TRUE(result.ok()) << i << " of " << count << ": " << result.error.text;
    }
    for (uint64_t i = 0; i <= count; i++)
        ASSERT_TRUE(host.destroy(i + 2).ok());
    ASSERT_TRUE(host.unreserve(1).ok());
    expect_empty_and_close(host);
}
