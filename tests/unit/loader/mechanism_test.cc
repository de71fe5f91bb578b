// Opening and closing mechanisms: what a plugin hands over is given back exactly once (I2), no
// number or text of it is believed, and nothing absent looks present (I1, I19).
#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <time.h>
#include <vector>

namespace
{

// What an empty mechanism is: a refusal leaves it so, whatever was in it.
bool is_empty(const mbr_mechanism &mechanism)
{
    mbr_mechanism none;
    memset(&none, 0, sizeof none);
    return memcmp(&mechanism, &none, sizeof none) == 0;
}

TEST(Describe, EveryMechanism_TextsBoundedAndPrintable)
{
    Specimen specimen;
    mbr_mechanism_description description;
    for (uint32_t index = 0; index < 2; index++) {
        ASSERT_EQ(mbr_module_describe(specimen.opened.module, index, &description, &specimen.error),
            MBR_OK);
        EXPECT_EQ(description.name, "unit" + std::to_string(index));
        EXPECT_STREQ(description.description, "specimen unit");
        EXPECT_EQ(description.count, 2u);
        EXPECT_EQ(description.domain, (uint32_t)MBR_DOMAIN_HOST);
    }
    EXPECT_EQ(mbr_module_describe(specimen.opened.module, 2, &description, &specimen.error),
        MBR_OUT_OF_RANGE);
    EXPECT_STREQ(description.name, "");
}

TEST(Describe, BrokenDescription_NamedAndNotHandedOut)
{
    struct {
        const char *fault, *part;
    } const rows[] = {{"describe-unterminated", "name"}, {"describe-nameless", "name"},
        {"describe-text-unterminated", "description"}, {"describe-pci-unterminated", "pci"},
        {"describe-domain=0", "domain"}, {"describe-domain=5", "domain"},
        {"describe-tier=0", "tier"}, {"describe-tier=3", "tier"}};
    for (auto &row : rows) {
        SCOPED_TRACE(row.fault);
        Specimen specimen;
        Fault fault(row.fault);
        mbr_mechanism_description description;
        memset(&description, 0xA5, sizeof description);
        EXPECT_EQ(mbr_module_describe(specimen.opened.module, 0, &description, &specimen.error),
            MBR_CONTRACT_BROKEN);
        EXPECT_NE(std::string(specimen.error.text).find(row.part), std::string::npos);
        EXPECT_STREQ(description.name, "");
        EXPECT_EQ(specimen.open(), MBR_CONTRACT_BROKEN);
        EXPECT_EQ(specimen.counts().opens, 0u);
    }
}

TEST(Open, First_TablesFactsAndLog)
{
    Specimen specimen;
    std::string log;
    specimen.options.log = [](void *context, uint32_t, const char *text, uint64_t bytes) {
        ((std::string *)context)->append(text, bytes);
    };
    specimen.options.log_context = &log;
    ASSERT_EQ(specimen.open(), MBR_OK) << specimen.error.text;
    const mbr_mechanism &m = specimen.mechanism;
    EXPECT_EQ(log, "opened");
    EXPECT_STREQ(m.description.name, "unit0");
    EXPECT_TRUE(m.has_virtual);
    EXPECT_TRUE(m.has_shared);
    EXPECT_FALSE(m.has_order);
    EXPECT_FALSE(m.has_transfer);
    EXPECT_EQ(m.virtual_.struct_size, sizeof m.virtual_);
    EXPECT_EQ(m.granule_min_bytes, 4096u);
    EXPECT_EQ(m.granule_recommended_bytes, 65536u);
    EXPECT_EQ(m.fresh_content, (uint32_t)MBR_CONTENT_ZERO);
    EXPECT_TRUE(m.host_accessible);
    // Unknown ones: what promises least.
    EXPECT_EQ(m.extent_max_bytes, UINT64_MAX);
    EXPECT_EQ(m.reservation_max_bytes, UINT64_MAX);
    EXPECT_EQ(m.allocation_align_bytes, 1u);
    EXPECT_EQ(m.allocation_round_bytes, 1u);
    EXPECT_EQ(m.past_physical_size, (uint32_t)MBR_PAST_KILL);
    EXPECT_EQ(m.descriptors_per_extent, 0u);
    EXPECT_FALSE(m.usable_after_protect);
    EXPECT_FALSE(m.unmap_spans_mappings);
    EXPECT_FALSE(m.unmap_waits_for_device);
    EXPECT_FALSE(m.protect_may_fail_spuriously);
    EXPECT_FALSE(m.aliasing);
    EXPECT_FALSE(m.read_only_enforced);
    EXPECT_FALSE(m.releasable_after_loss);
    EXPECT_FALSE(m.fork_safe);
    EXPECT_FALSE(m.populated);
    EXPECT_EQ(m.quirks, 0u);
    EXPECT_EQ(specimen.counts().last_minor, 0u);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, &specimen.error), MBR_OK);
    EXPECT_TRUE(is_empty(specimen.mechanism));
    EXPECT_EQ(specimen.counts().live, 0u);
}

TEST(Open, AbsentCapability_CallsRefuseThroughTheTable)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    mbr_line_request request = {};
    request.struct_size = sizeof request;
    mbr_outcome outcome;
    memset(&outcome, 0xA5, sizeof outcome);
    outcome.struct_size = sizeof outcome;
    mbr_mechanism &m = specimen.mechanism;
    EXPECT_EQ(m.order.signal(m.instance, &request, &outcome, &specimen.error), MBR_UNSUPPORTED);
    EXPECT_EQ(outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    EXPECT_EQ(outcome.value, 0u);
    EXPECT_EQ(mbr_mechanism_close(&m, nullptr), MBR_OK);
}

TEST(Open, ByName_TheNamedOneOrARefusalWithAdvice)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open("unit1"), MBR_OK);
    EXPECT_STREQ(specimen.mechanism.description.name, "unit1");
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
    memset(&specimen.mechanism, 0xA5, sizeof specimen.mechanism);
    EXPECT_EQ(specimen.open("unit2"), MBR_UNKNOWN_OBJECT);
    EXPECT_NE(std::string(specimen.error.text).find("\"unit2\" among its 2"), std::string::npos);
    EXPECT_TRUE(is_empty(specimen.mechanism));
}

TEST(Open, EnumerationOddities_Bounded)
{
    Specimen specimen;
    {
        Fault fault("describe-none");
        EXPECT_EQ(specimen.open(), MBR_NO_DEVICE);
        EXPECT_EQ(specimen.open("unit0"), MBR_UNKNOWN_OBJECT);
    }
    {
        Fault fault("describe-no-device");
        EXPECT_EQ(specimen.open(), MBR_NO_DEVICE);
        EXPECT_STREQ(specimen.error.text, "no driver library");
    }
    Fault fault("describe-endless");
    EXPECT_EQ(specimen.open("no such"), MBR_CONTRACT_BROKEN);
    EXPECT_NE(std::string(specimen.error.text).find("4096"), std::string::npos);
}

TEST(Open, TwiceOneFile_TwoIndependentInstances)
{
    Specimen specimen;
    mbr_mechanism other = {};
    ASSERT_EQ(specimen.open(), MBR_OK);
    ASSERT_EQ(
        mbr_mechanism_open(specimen.opened.module, &specimen.options, &other, &specimen.error),
        MBR_OK);
    EXPECT_NE(specimen.mechanism.instance, other.instance);
    Opened again(specimen.path);
    mbr_mechanism third = {};
    ASSERT_EQ(mbr_mechanism_open(again.module, &specimen.options, &third, nullptr), MBR_OK);
    EXPECT_EQ(specimen.counts().live, 3u);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
    EXPECT_EQ(specimen.counts().live, 2u);
    EXPECT_EQ(mbr_mechanism_close(&third, nullptr), MBR_OK);
    EXPECT_EQ(mbr_mechanism_close(&other, nullptr), MBR_OK);
    EXPECT_EQ(specimen.counts().live, 0u);
    EXPECT_EQ(specimen.counts().closes, 3u);
}

TEST(Open, Options_UnknownKeyIsThePluginsRefusal)
{
    Specimen specimen;
    mbr_option option = {"colour", "red"};
    specimen.options.options = &option;
    specimen.options.option_count = 1;
    EXPECT_EQ(specimen.open(), MBR_UNKNOWN_KEY);
    EXPECT_STREQ(specimen.error.text, "unknown option; known: size");
    EXPECT_EQ(specimen.counts().live, 0u);
    option = {"size", "1"};
    EXPECT_EQ(specimen.open(), MBR_OK);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

TEST(Open, PluginRefuses_NothingToGiveBack)
{
    struct {
        const char *fault;
        mbr_status status;
        const char *part;
    } const rows[] = {
        {"open-null", MBR_CONTRACT_BROKEN, "NULL instance"},
        {"open-fails", MBR_OUT_OF_MEMORY, "no memory for an instance"}, // on one line
        {"open-status=7", MBR_CONTRACT_BROKEN, "plugin.open answered 7"},
        {"open-status=458753", MBR_CONTRACT_BROKEN, "answered 458753"}, // class 7
        {"open-status=4294967295", MBR_CONTRACT_BROKEN, "answered -1"},
    };
    for (auto &row : rows) {
        SCOPED_TRACE(row.fault);
        Specimen specimen;
        Fault fault(row.fault);
        EXPECT_EQ(specimen.open(), row.status);
        EXPECT_EQ(specimen.error.status, row.status);
        EXPECT_NE(std::string(specimen.error.text).find(row.part), std::string::npos)
            << specimen.error.text;
        EXPECT_TRUE(is_empty(specimen.mechanism));
        EXPECT_EQ(specimen.counts().opens, 1u);
        EXPECT_EQ(specimen.counts().closes, 0u);
    }
}

// I2: what the plugin handed over with MBR_OK is closed once, whatever the host then finds wrong.
TEST(Open, HostRefuses_InstanceIsClosedOnce)
{
    struct {
        const char *fault;
        mbr_status status;
        const char *part;
    } const rows[] = {
        {"capability-fails", MBR_INTERNAL, "the driver broke"},
        {"capability-null", MBR_CONTRACT_BROKEN, "NULL table of membrane.virtual"},
        {"no-allocator", MBR_CONTRACT_BROKEN, "membrane.allocator"},
        {"shared-without-virtual", MBR_CONTRACT_BROKEN, "without membrane.virtual"},
        {"virtual-kind", MBR_CONTRACT_BROKEN, "states kind 5; that of membrane.virtual is 3"},
        {"virtual-null-slot", MBR_CONTRACT_BROKEN, "required slot unmap"},
        {"virtual-small", MBR_CONTRACT_BROKEN, "states 64 bytes"},
        {"fact-fails", MBR_INTERNAL, "no facts today"},
        {"no-facts", MBR_CONTRACT_BROKEN, "GRANULE_MIN_BYTES"},
        {"fact-1=0", MBR_CONTRACT_BROKEN, "fact GRANULE_MIN_BYTES (1) is 0"},
        {"fact-1=4095", MBR_CONTRACT_BROKEN, "is 4095, which is not a power of two"},
        {"fact-2=4097", MBR_CONTRACT_BROKEN, "GRANULE_RECOMMENDED_BYTES"},
        {"fact-2=0", MBR_CONTRACT_BROKEN, "GRANULE_RECOMMENDED_BYTES"},
        {"fact-3=0", MBR_CONTRACT_BROKEN, "EXTENT_MAX_BYTES"},
        {"fact-3=4095", MBR_CONTRACT_BROKEN, "EXTENT_MAX_BYTES"},
        {"fact-4=1", MBR_CONTRACT_BROKEN, "RESERVATION_MAX_BYTES"},
        {"fact-5=3", MBR_CONTRACT_BROKEN, "ALLOCATION_ALIGN_BYTES"},
        {"fact-6=0", MBR_CONTRACT_BROKEN, "ALLOCATION_ROUND_BYTES"},
        {"fact-7=2", MBR_CONTRACT_BROKEN, "FRESH_CONTENT"},
        {"fact-8=2", MBR_CONTRACT_BROKEN, "is 2, which is not 0 or 1"},
        {"fact-9=2", MBR_CONTRACT_BROKEN, "UNMAP_SPANS_MAPPINGS"},
        {"fact-10=9", MBR_CONTRACT_BROKEN, "PROTECT_MAY_FAIL_SPURIOUSLY"},
        {"fact-11=2", MBR_CONTRACT_BROKEN, "ALIASING"},
        {"fact-12=2", MBR_CONTRACT_BROKEN, "READ_ONLY_ENFORCED"},
        {"fact-13=2", MBR_CONTRACT_BROKEN, "UNMAP_WAITS_FOR_DEVICE"},
        {"fact-14=3", MBR_CONTRACT_BROKEN, "PAST_PHYSICAL_SIZE"},
        {"fact-15=2", MBR_CONTRACT_BROKEN, "RELEASABLE_AFTER_LOSS"},
        {"fact-16=2", MBR_CONTRACT_BROKEN, "HOST_ACCESSIBLE"},
        {"fact-17=0xffffffffffffffff", MBR_CONTRACT_BROKEN, "FORK_SAFE"},
        {"fact-19=2", MBR_CONTRACT_BROKEN, "POPULATED"},
    };
    for (auto &row : rows) {
        SCOPED_TRACE(row.fault);
        Specimen specimen;
        memset(&specimen.mechanism, 0xA5, sizeof specimen.mechanism);
        {
            Fault fault(row.fault);
            EXPECT_EQ(specimen.open(), row.status);
        }
        EXPECT_NE(std::string(specimen.error.text).find(row.part), std::string::npos)
            << specimen.error.text;
        EXPECT_TRUE(is_empty(specimen.mechanism));
        EXPECT_EQ(specimen.counts().opens, 1u);
        EXPECT_EQ(specimen.counts().quiesces, 1u);
        EXPECT_EQ(specimen.counts().closes, 1u);
        EXPECT_EQ(specimen.counts().live, 0u);
        // The module is unhurt: the same open then succeeds, and the file can go.
        EXPECT_EQ(specimen.open(), MBR_OK) << specimen.error.text;
        EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
        specimen.opened.close();
        EXPECT_EQ(mapping_count(specimen.path), 0u);
    }
}

TEST(Open, EachFactGiven_TakenAsGiven)
{
    struct {
        const char *fault;
        uint64_t (*read)(const mbr_mechanism &);
        uint64_t value;
    } const rows[] = {
        {"fact-1=8192", [](const mbr_mechanism &m) { return m.granule_min_bytes; }, 8192},
        {"fact-2=12288", [](const mbr_mechanism &m) { return m.granule_recommended_bytes; }, 12288},
        {"no-fact-2", [](const mbr_mechanism &m) { return m.granule_recommended_bytes; }, 4096},
        {"fact-3=4096", [](const mbr_mechanism &m) { return m.extent_max_bytes; }, 4096},
        {"fact-4=65536", [](const mbr_mechanism &m) { return m.reservation_max_bytes; }, 65536},
        {"fact-5=64", [](const mbr_mechanism &m) { return m.allocation_align_bytes; }, 64},
        {"fact-6=48", [](const mbr_mechanism &m) { return m.allocation_round_bytes; }, 48},
        {"fact-7=0", [](const mbr_mechanism &m) { return (uint64_t)m.fresh_content; }, 0},
        {"fact-8=1", [](const mbr_mechanism &m) { return (uint64_t)m.usable_after_protect; }, 1},
        {"fact-9=1", [](const mbr_mechanism &m) { return (uint64_t)m.unmap_spans_mappings; }, 1},
        {"fact-10=1",
            [](const mbr_mechanism &m) { return (uint64_t)m.protect_may_fail_spuriously; }, 1},
        {"fact-11=1", [](const mbr_mechanism &m) { return (uint64_t)m.aliasing; }, 1},
        {"fact-12=1", [](const mbr_mechanism &m) { return (uint64_t)m.read_only_enforced; }, 1},
        {"fact-13=1", [](const mbr_mechanism &m) { return (uint64_t)m.unmap_waits_for_device; }, 1},
        {"fact-14=1", [](const mbr_mechanism &m) { return (uint64_t)m.past_physical_size; }, 1},
        {"fact-15=1", [](const mbr_mechanism &m) { return (uint64_t)m.releasable_after_loss; }, 1},
        {"fact-16=0", [](const mbr_mechanism &m) { return (uint64_t)m.host_accessible; }, 0},
        {"fact-17=1", [](const mbr_mechanism &m) { return (uint64_t)m.fork_safe; }, 1},
        {"fact-18=3", [](const mbr_mechanism &m) { return m.descriptors_per_extent; }, 3},
        {"fact-19=1", [](const mbr_mechanism &m) { return (uint64_t)m.populated; }, 1},
        {"fact-20=0x8000000000000001", [](const mbr_mechanism &m) { return m.quirks; },
            0x8000000000000001},
        {"virtual-minor", [](const mbr_mechanism &m) { return (uint64_t)m.virtual_.minor; }, 0},
    };
    Specimen specimen;
    for (auto &row : rows) {
        SCOPED_TRACE(row.fault);
        Fault fault(row.fault);
        ASSERT_EQ(specimen.open(), MBR_OK) << specimen.error.text;
        EXPECT_EQ(row.read(specimen.mechanism), row.value);
        EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
    }
}

TEST(Open, WithoutVirtual_NoGranuleIsAsked)
{
    Specimen specimen;
    Fault fault("no-virtual");
    ASSERT_EQ(specimen.open(), MBR_OK) << specimen.error.text;
    EXPECT_FALSE(specimen.mechanism.has_virtual);
    EXPECT_FALSE(specimen.mechanism.has_shared);
    mbr_query_request request = {};
    mbr_query_outcome outcome = {};
    outcome.struct_size = sizeof outcome;
    EXPECT_EQ(
        specimen.mechanism.virtual_.query(specimen.mechanism.instance, &request, &outcome, nullptr),
        MBR_UNSUPPORTED);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

// ---- Closing ------------------------------------------------------------------------------------

TEST(Close, AnythingAlive_InUseWithTheTally)
{
    struct {
        const char *fault, *part;
    } const rows[] = {{"report-allocations=3", "3 allocations"},
        {"report-reservations=4", "4 reservations"}, {"report-extents=5", "5 extents"},
        {"report-mappings=6", "6 mappings"}, {"report-lines=7", "7 lines"},
        {"report-streams=18446744073709551615", "18446744073709551615 streams"}};
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    for (auto &row : rows) {
        SCOPED_TRACE(row.fault);
        Fault fault(row.fault);
        EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, &specimen.error), MBR_IN_USE);
        EXPECT_NE(std::string(specimen.error.text).find(row.part), std::string::npos)
            << specimen.error.text;
        EXPECT_NE(specimen.mechanism.instance, nullptr);
        EXPECT_EQ(specimen.counts().quiesces, 0u) << "what goes on is not disturbed";
    }
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, &specimen.error), MBR_OK);
    EXPECT_EQ(specimen.counts().closes, 1u);
}

TEST(Close, ThreadLeftAfterQuiesce_InUse)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    {
        Fault fault("report-threads=2");
        EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, &specimen.error), MBR_IN_USE);
        EXPECT_NE(std::string(specimen.error.text).find("2 threads"), std::string::npos);
        EXPECT_EQ(specimen.counts().quiesces, 1u);
        EXPECT_EQ(specimen.counts().closes, 0u);
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    EXPECT_GT(specimen.counts().last_deadline_ns, now_ns);
    EXPECT_LT(specimen.counts().last_deadline_ns, now_ns + 60000000000u);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

TEST(Close, EachStepRefuses_MechanismGoesOn)
{
    struct {
        const char *fault;
        mbr_status status;
    } const rows[] = {{"report-fails", MBR_INTERNAL}, {"quiesce-fails", MBR_TIMED_OUT},
        {"close-in-use", MBR_IN_USE}, {"close-lost", MBR_DEVICE_LOST}};
    for (auto &row : rows) {
        SCOPED_TRACE(row.fault);
        Specimen specimen;
        ASSERT_EQ(specimen.open(), MBR_OK);
        {
            Fault fault(row.fault);
            EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, &specimen.error), row.status);
        }
        EXPECT_NE(specimen.mechanism.instance, nullptr);
        EXPECT_EQ(specimen.counts().live, 1u);
        EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
        EXPECT_EQ(specimen.counts().live, 0u);
        specimen.opened.close();
        EXPECT_EQ(mapping_count(specimen.path), 0u);
    }
}

// MBR_OK beside another state than DONE: nobody knows whether the instance lives, so its code
// stays.
TEST(Close, IllegalOutcome_GivenUpAndCodeKept)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    {
        Fault fault("close-unchanged");
        EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, &specimen.error), MBR_CONTRACT_BROKEN);
    }
    EXPECT_TRUE(is_empty(specimen.mechanism));
    EXPECT_NE(std::string(specimen.error.text).find("state 0"), std::string::npos);
    specimen.opened.close();
    EXPECT_GT(mapping_count(specimen.path), 0u);
}

// The plugin itself does not know: no slot may be called with the instance any more.
TEST(Close, Quarantined_GivenUpAndCodeKept)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    {
        Fault fault("close-quarantined");
        EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, &specimen.error), MBR_SYSTEM);
    }
    EXPECT_TRUE(is_empty(specimen.mechanism));
    specimen.opened.close();
    EXPECT_GT(mapping_count(specimen.path), 0u);
}

TEST(Close, Abandoned_NoSlotIsCalledAndCodeKept)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    mbr_mechanism_abandon(&specimen.mechanism);
    EXPECT_TRUE(is_empty(specimen.mechanism));
    EXPECT_EQ(specimen.counts().quiesces, 0u);
    EXPECT_EQ(specimen.counts().closes, 0u);
    specimen.opened.close();
    EXPECT_GT(mapping_count(specimen.path), 0u);
}

// I3 after a refused open whose instance cannot be closed either.
TEST(Open, RefusedAndNotClosable_CodeKept)
{
    Specimen specimen;
    {
        Fault fault("open-and-quiesce-fail");
        EXPECT_EQ(specimen.open(), MBR_INTERNAL);
    }
    EXPECT_EQ(specimen.counts().live, 1u);
    EXPECT_EQ(specimen.counts().closes, 0u);
    specimen.opened.close();
    EXPECT_GT(mapping_count(specimen.path), 0u);
}

TEST(Close, ModuleWithAnOpenMechanism_EndsTheProcess)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            Specimen specimen;
            if (specimen.open() == MBR_OK)
                mbr_module_close(specimen.opened.module);
        },
        "open_count");
}

// A plugin without threads may say that it offers no quiesce; an instance that the host refuses is
// closed all the same.
TEST(Open, RefusedAndQuiesceUnsupported_Closed)
{
    Specimen specimen;
    {
        Fault fault("open-and-quiesce-unsupported");
        EXPECT_EQ(specimen.open(), MBR_INTERNAL);
    }
    EXPECT_EQ(specimen.counts().live, 0u);
    EXPECT_EQ(specimen.counts().closes, 1u);
}

// ---- Texts --------------------------------------------------------------------------------------

TEST(Answer, UnterminatedOrEmptyText_Bounded)
{
    Specimen specimen;
    mbr_option option = {"colour", "red"};
    specimen.options.options = &option;
    specimen.options.option_count = 1;
    {
        Fault fault("text-unterminated");
        EXPECT_EQ(specimen.open(), MBR_UNKNOWN_KEY);
        EXPECT_EQ(strnlen(specimen.error.text, sizeof specimen.error.text),
            sizeof specimen.error.text - 1);
    }
    Fault fault("text-empty");
    EXPECT_EQ(specimen.open(), MBR_UNKNOWN_KEY);
    EXPECT_NE(std::string(specimen.error.text).find("no text"), std::string::npos);
}

} // namespace
