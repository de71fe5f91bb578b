// The driver's library: what a process without one is told, and which devices one with it is told.
#include "tests/unit/plugins_gpu/world.h"

namespace gpu_test
{

namespace
{

TEST(Library, NoDevice_SaysSo)
{
    Knobs options = usual();
    options.device_count = 0;
    Told told = ask(options);
    EXPECT_EQ(told.status, MBR_NO_DEVICE);
    const char *code = is_hip() ? "hipErrorInvalidDevice (101)" : "CUDA_ERROR_NO_DEVICE (100)";
    EXPECT_NE(told.text.find(code), std::string::npos) << told.text;
}

TEST(Library, StartRefusedOnce_WorksLater)
{
    mbr_mechanism_description description;
    mbr_error error;
    Knobs options = usual();
    options.start_code = MBR_GPU_OUT_OF_MEMORY;
    standin().restart(&options);
    const mbr_plugin_vtable *patient = fresh_plugin();
    EXPECT_EQ(describe(patient, 0, &description, &error), MBR_OUT_OF_MEMORY);
    options.start_code = 0;
    standin().restart(&options);
    EXPECT_EQ(describe(patient, 0, &description, &error), MBR_OK) << error.text;
}

// Last in this file's life of the library: a hidden function stays hidden.
TEST(LibraryZ, FunctionMissing_IsNamed)
{
    ASSERT_TRUE(standin().hide(name().get_access));
    Told told = ask(usual());
    EXPECT_EQ(told.status, MBR_UNSUPPORTED);
    EXPECT_NE(told.text.find(std::string("lacks ") + name().get_access), std::string::npos)
        << told.text;
}

TEST(Library, SeveralDevices_EachHasItsMechanisms)
{
    Knobs options = usual();
    options.device_count = 3;
    standin().restart(&options);
    const mbr_plugin_vtable *fresh = fresh_plugin();
    const char *const names[] = {"device0", "pinned0", "unified0", "device1", "pinned1", "unified1",
        "device2", "pinned2", "unified2"};
    const uint32_t domains[] = {MBR_DOMAIN_DEVICE, MBR_DOMAIN_PINNED, MBR_DOMAIN_UNIFIED};
    mbr_mechanism_description it, first = sized<mbr_mechanism_description>();
    mbr_error error;
    for (uint32_t i = 0; i < 9; i++) {
        ASSERT_EQ(describe(fresh, i, &it, &error), MBR_OK) << error.text;
        EXPECT_STREQ(it.name, names[i]);
        EXPECT_EQ(it.domain, domains[i % 3]);
        EXPECT_EQ(it.tier, (uint32_t)(i % 3 == 1 ? MBR_TIER_HOST : MBR_TIER_DEVICE));
        EXPECT_EQ(it.device_index, i / 3);
        EXPECT_EQ(it.count, 9u);
        mbr_gpu_uuid uuid;
        char pci[16] = {};
        ASSERT_EQ(driver().device_uuid(&uuid, (int)it.device_index), MBR_GPU_SUCCESS);
        ASSERT_EQ(driver().device_pci(pci, sizeof(pci), (int)it.device_index), MBR_GPU_SUCCESS);
        EXPECT_EQ(memcmp(it.uuid, uuid.bytes, 16), 0);
        EXPECT_STREQ(it.pci, pci);
        EXPECT_EQ(memcmp(it.uuid, first.uuid, 16) != 0, i % 3 == 0) << "each device has its own";
        first = it;
    }
    EXPECT_EQ(describe(fresh, 9, &it, &error), MBR_OUT_OF_RANGE);
    EXPECT_EQ(it.count, 9u);
    EXPECT_EQ(ledger().retain_count, 0u) << "enumerating makes no context";
}

TEST(Library, NoManagedMemory_HasNoUnifiedMechanism)
{
    Knobs options = usual();
    options.device_count = 1;
    options.has_no_managed_memory = true;
    standin().restart(&options);
    mbr_mechanism_description it;
    mbr_error error;
    ASSERT_EQ(describe(fresh_plugin(), 1, &it, &error), MBR_OK) << error.text;
    EXPECT_EQ(it.count, 2u);
    EXPECT_STREQ(it.name, "pinned0");
}

} // namespace

} // namespace gpu_test
