// The note says that the code may be unmapped after the last close: here it is.
#include "tests/unit/plugins_host/mechanism.h"

#include <dlfcn.h>

#include <gtest/gtest.h>

using namespace host_test;

TEST(HostUnload, AfterTheLastClose_TheCodeLeavesTheProcess)
{
    auto mapped = [] {
        int count = 0;
        for (const Mapping &mapping : mappings_in(0, UINT64_MAX))
            count += mapping.name.find("host") != std::string::npos;
        return count;
    };
    int before = mapped(), descriptors = open_descriptor_count();
    for (int round = 0; round < 50; round++) {
        void *file = dlopen("plugins/host/libmembrane-host.so", RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(file, nullptr) << dlerror();
        auto entry = reinterpret_cast<mbr_entry_function>(dlsym(file, MBR_ENTRY_SYMBOL));
        auto hello = sized<mbr_hello>();
        auto reply = sized<mbr_reply>();
        auto error = sized<mbr_error>();
        ASSERT_EQ(entry(&hello, &reply, &error), MBR_OK);
        mbr_instance *instance;
        ASSERT_EQ(Mechanism::open_with(reply.plugin, "host", {}, &instance, &error), MBR_OK);
        Mechanism host(reply.plugin, instance);
        Result allocation = host.allocate(1, 100);
        ASSERT_TRUE(host.reserve(2, 65536).ok());
        ASSERT_TRUE(host.create(3, 65536).ok());
        ASSERT_TRUE(host.map(2, 0, 3).ok());
        ASSERT_TRUE(host.unmap(2, 0, 65536).ok());
        ASSERT_TRUE(host.destroy(3).ok());
        ASSERT_TRUE(host.unreserve(2).ok());
        ASSERT_TRUE(host.release(1, allocation.outcome.address).ok());
        EXPECT_GT(mapped(), before);
        expect_empty_and_close(host);
        ASSERT_EQ(dlclose(file), 0);
        ASSERT_EQ(mapped(), before) << "round " << round;
    }
    EXPECT_EQ(open_descriptor_count(), descriptors);
}
