// The eager plugin keeps the contract's promises for the one capability that it has.
#include "membrane/membrane_plugin.h"

#include <dlfcn.h>

#include <gtest/gtest.h>

#include <cstring>

namespace
{

template <typename T> T sized()
{
    T value;
    memset(&value, 0, sizeof(value));
    value.struct_size = sizeof(value);
    return value;
}

class Eager : public testing::Test
{
  protected:
    void SetUp() override
    {
        void *file = dlopen("tests/support/libmembrane-eager.so", RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(file, nullptr) << dlerror();
        auto entry = reinterpret_cast<mbr_entry_function>(dlsym(file, MBR_ENTRY_SYMBOL));
        auto hello = sized<mbr_hello>();
        auto reply = sized<mbr_reply>();
        ASSERT_EQ(entry(&hello, &reply, nullptr), MBR_OK);
        plugin = reply.plugin;
    }

    mbr_status open(const char *key, const char *value)
    {
        const mbr_option option = {key, value};
        auto request = sized<mbr_open_request>();
        auto outcome = sized<mbr_open_outcome>();
        request.mechanism = "eager";
        request.options = &option;
        request.option_count = key ? 1 : 0;
        mbr_status status = plugin->open(nullptr, &request, &outcome, &error);
        instance = outcome.instance;
        if (status == MBR_OK) {
            auto capability = sized<mbr_capability_request>();
            auto table = sized<mbr_capability_outcome>();
            capability.id = MBR_ID_ALLOCATOR;
            EXPECT_EQ(plugin->capability(instance, &capability, &table, nullptr), MBR_OK);
            allocator = reinterpret_cast<const mbr_allocator_vtable *>(table.table);
        }
        return status;
    }
    mbr_status close()
    {
        auto request = sized<mbr_close_request>();
        auto outcome = sized<mbr_outcome>();
        return plugin->close(instance, &request, &outcome, &error);
    }
    mbr_status allocate(uint64_t id, uint64_t bytes, uint64_t align = 0,
        uint64_t budget = UINT64_MAX, uint32_t flags = 0)
    {
        auto request = sized<mbr_allocate_request>();
        request.flags = flags;
        request.allocation_id = id;
        request.bytes = bytes;
        request.align_bytes = align;
        request.max_owned_bytes = budget;
        outcome = sized<mbr_outcome>();
        return allocator->allocate(instance, &request, &outcome, &error);
    }
    mbr_status release(uint64_t id, uint64_t address)
    {
        auto request = sized<mbr_release_request>();
        request.allocation_id = id;
        request.address = address;
        outcome = sized<mbr_outcome>();
        return allocator->release(instance, &request, &outcome, &error);
    }
    mbr_mechanism_stats stats()
    {
        auto request = sized<mbr_stats_request>();
        auto stats = sized<mbr_mechanism_stats>();
        EXPECT_EQ(allocator->stats(instance, &request, &stats, nullptr), MBR_OK);
        return stats;
    }

    const mbr_plugin_vtable *plugin = nullptr;
    const mbr_allocator_vtable *allocator = nullptr;
    mbr_instance *instance = nullptr;
    mbr_outcome outcome = sized<mbr_outcome>();
    mbr_error error = sized<mbr_error>();
};

} // namespace

TEST_F(Eager, AllocateAndRelease_OwnWholeLines)
{
    ASSERT_EQ(open(nullptr, nullptr), MBR_OK);
    uint64_t id = 0;
    for (uint64_t bytes : {1, 64, 65, 1000000})
        for (uint64_t align : {0, 1, 64, 4096}) {
            ASSERT_EQ(allocate(++id, bytes, align, UINT64_MAX, MBR_ALLOCATE_ZEROED), MBR_OK);
            EXPECT_EQ(outcome.newly_owned_bytes, (bytes + 63) / 64 * 64);
            EXPECT_EQ(outcome.content, (uint32_t)MBR_CONTENT_ZERO);
            uint64_t address = outcome.address;
            EXPECT_EQ(address % (align > 64 ? align : 64), 0u);
            EXPECT_EQ(*reinterpret_cast<char *>(address + bytes - 1), 0);
            EXPECT_EQ(stats().owned_bytes, outcome.newly_owned_bytes);
            EXPECT_EQ(close(), MBR_IN_USE);
            EXPECT_EQ(allocate(id, 1), MBR_ALREADY_EXISTS);
            EXPECT_EQ(release(id, address + 1), MBR_UNKNOWN_OBJECT);
            ASSERT_EQ(release(id, address), MBR_OK);
            EXPECT_EQ(outcome.released_bytes, (bytes + 63) / 64 * 64);
            EXPECT_EQ(release(id, address), MBR_UNKNOWN_OBJECT);
        }
    EXPECT_EQ(stats().owned_bytes, 0u);
    EXPECT_EQ(stats().free_bytes, MBR_UNKNOWN_BYTES);
    EXPECT_EQ(close(), MBR_OK);
}

TEST_F(Eager, Capacity_IsRefusedHonestlyAndRecovers)
{
    ASSERT_EQ(open("capacity", "4096"), MBR_OK);
    ASSERT_EQ(allocate(1, 3000), MBR_OK);
    uint64_t address = outcome.address;
    EXPECT_EQ(allocate(2, 1100), MBR_OUT_OF_MEMORY);
    EXPECT_EQ(error.asked_bytes, 1152u);
    EXPECT_EQ(error.free_bytes, 1088u);
    EXPECT_EQ(stats().free_bytes, 1088u);
    EXPECT_EQ(allocate(2, 1ul << 60), MBR_OUT_OF_MEMORY);
    ASSERT_EQ(release(1, address), MBR_OK);
    ASSERT_EQ(allocate(2, 4096), MBR_OK);
    ASSERT_EQ(release(2, outcome.address), MBR_OK);
    EXPECT_EQ(close(), MBR_OK);
}

TEST_F(Eager, WrongArguments_AreRefused)
{
    EXPECT_EQ(open("size", "1"), MBR_UNKNOWN_KEY);
    EXPECT_NE(strstr(error.text, "capacity"), nullptr);
    EXPECT_EQ(open("capacity", "4k"), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(open("capacity", nullptr), MBR_INVALID_ARGUMENT);
    ASSERT_EQ(open(nullptr, nullptr), MBR_OK);
    EXPECT_EQ(allocate(0, 1), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(allocate(1, 0), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(allocate(1, 1, 3), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(allocate(1, UINT64_MAX - 10), MBR_OVERFLOW);
    EXPECT_EQ(allocate(1, 65, 0, 127), MBR_OVER_BUDGET);
    EXPECT_EQ(allocate(1, 1, 0, 64, 4), MBR_UNSUPPORTED);
    for (const char *id : {MBR_ID_VIRTUAL, MBR_ID_SHARED, MBR_ID_ORDER, MBR_ID_TRANSFER}) {
        auto request = sized<mbr_capability_request>();
        auto table = sized<mbr_capability_outcome>();
        request.id = id;
        EXPECT_EQ(plugin->capability(instance, &request, &table, nullptr), MBR_UNSUPPORTED);
        EXPECT_EQ(table.table, nullptr);
    }
    EXPECT_EQ(close(), MBR_OK);
}
