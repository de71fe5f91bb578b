// Every slot of the real file: what it does, and what it refuses without side effect.
#include "tests/unit/plugins_host/mechanism.h"

#include <sys/resource.h>
#include <sys/time.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <functional>

using namespace host_test;

namespace
{

constexpr uint64_t G = 65536; // the default granule

// A mechanism with a reservation of 16 granules (1) and extents of 1 (11), 2 (12) and 1 (13).
class HostSlots : public testing::Test
{
  protected:
    void SetUp() override
    {
        host = Mechanism::open();
        Result reserved = host.reserve(1, 16 * G);
        ASSERT_TRUE(reserved.ok()) << reserved.error.text;
        base = reserved.outcome.address;
        ASSERT_TRUE(host.create(11, G).ok());
        ASSERT_TRUE(host.create(12, 2 * G).ok());
        ASSERT_TRUE(host.create(13, G).ok());
    }

    void TearDown() override
    {
        mbr_query_outcome at;
        for (uint64_t id : {1, 2})
            for (uint64_t offset = 0; host.query(id, offset, &at) == MBR_OK;
                 offset = at.offset_bytes + at.bytes)
                if (at.extent_id) {
                    EXPECT_TRUE(host.unmap(id, at.offset_bytes, at.bytes).ok());
                }
        for (uint64_t id : {1, 2})
            host.unreserve(id);
        for (uint64_t id : {11, 12, 13})
            EXPECT_TRUE(host.destroy(id).ok());
        expect_empty_and_close(host);
        EXPECT_TRUE(memory_files().empty());
    }

    // The figures that no refusal may change.
    std::vector<uint64_t> figures()
    {
        mbr_mechanism_stats stats = host.stats();
        mbr_report report = host.report();
        return {stats.owned_bytes, stats.mapped_bytes, stats.reserved_bytes,
            report.allocation_count, report.reservation_count, report.extent_count,
            report.mapping_count, file_bytes()};
    }

    void expect_refusal(const std::function<Result()> &act, mbr_status status)
    {
        auto before = figures();
        Result result = act();
        EXPECT_EQ(result.status, status) << result.error.text;
        EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
        EXPECT_EQ(figures(), before);
    }

    Mechanism host;
    uint64_t base = 0;
};

} // namespace

#define EXPECT_REFUSED(status, call) expect_refusal([&] { return call; }, status)

// ---- The plugin's table ---------------------------------------------------------------------

TEST(HostPlugin, Mechanisms_DescribesOneAndRefusesASecond)
{
    const mbr_plugin_vtable *plugin = plugin_from_file();
    auto request = sized<mbr_mechanisms_request>();
    auto description = sized<mbr_mechanism_description>();
    ASSERT_EQ(plugin->mechanisms(nullptr, &request, &description, nullptr), MBR_OK);
    EXPECT_STREQ(description.name, "host");
    EXPECT_EQ(description.count, 1u);
    EXPECT_EQ(description.domain, (uint32_t)MBR_DOMAIN_HOST);
    EXPECT_EQ(description.tier, (uint32_t)MBR_TIER_HOST);
    request.index = 1;
    EXPECT_EQ(plugin->mechanisms(nullptr, &request, &description, nullptr), MBR_OUT_OF_RANGE);
    EXPECT_EQ(description.count, 1u);
    EXPECT_STREQ(description.name, "");
}

TEST(HostPlugin, OpenWithWrongArguments_IsRefusedAndLeavesNothing)
{
    const mbr_plugin_vtable *plugin = plugin_from_file();
    const struct {
        const char *mechanism;
        Options options;
        mbr_status status;
        const char *in_text;
    } cases[] = {
        {"device0", {}, MBR_INVALID_ARGUMENT, "host"},
        {nullptr, {}, MBR_INVALID_ARGUMENT, "host"},
        {"host", {{"pool", "1"}}, MBR_UNKNOWN_KEY, "granule"},
        {"host", {{"populate", "1"}, {"pool\xff\n", "1"}}, MBR_UNKNOWN_KEY, "populate"},
        {"host", {{"populate", "yes"}}, MBR_INVALID_ARGUMENT, "yes"},
        {"host", {{"huge", "always"}}, MBR_INVALID_ARGUMENT, "advise"},
        {"host", {{"granule", ""}}, MBR_INVALID_ARGUMENT, "power of two"},
        {"host", {{"granule", "65537"}}, MBR_INVALID_ARGUMENT, "65537"},
        {"host", {{"granule", "2048"}}, MBR_INVALID_ARGUMENT, "4096"},
        {"host", {{"granule", "2147483648"}}, MBR_INVALID_ARGUMENT, "1073741824"},
        {"host", {{"granule", "4096x"}}, MBR_INVALID_ARGUMENT, "4096x"},
        {"host", {{"granule", "73786976294838210560"}}, MBR_INVALID_ARGUMENT, "power"},
    };
    int descriptors = open_descriptor_count();
    for (const auto &one : cases) {
        auto error = sized<mbr_error>();
        mbr_instance *instance;
        EXPECT_EQ(
            Mechanism::open_with(plugin, one.mechanism, one.options, &instance, &error), one.status)
            << error.text;
        EXPECT_EQ(error.status, one.status);
        EXPECT_NE(strstr(error.text, one.in_text), nullptr) << error.text;
        for (const char *at = error.text; *at; at++)
            EXPECT_TRUE(*at >= ' ' && *at <= '~') << error.text;
    }
    EXPECT_EQ(open_descriptor_count(), descriptors);
}

TEST(HostPlugin, OpenWithBadPointers_IsRefused)
{
    const mbr_plugin_vtable *plugin = plugin_from_file();
    auto request = sized<mbr_open_request>();
    auto outcome = sized<mbr_open_outcome>();
    request.mechanism = "host";
    request.option_count = 1;
    EXPECT_EQ(plugin->open(nullptr, &request, &outcome, nullptr), MBR_INVALID_ARGUMENT);
    const mbr_option option = {nullptr, nullptr};
    request.options = &option;
    EXPECT_EQ(plugin->open(nullptr, &request, &outcome, nullptr), MBR_UNKNOWN_KEY);
    const mbr_option no_value = {"huge", nullptr};
    request.options = &no_value;
    EXPECT_EQ(plugin->open(nullptr, &request, &outcome, nullptr), MBR_INVALID_ARGUMENT);
    request.option_count = 0;
    request.native_context.kind = MBR_NATIVE_STREAM_CUDA;
    EXPECT_EQ(plugin->open(nullptr, &request, &outcome, nullptr), MBR_INVALID_ARGUMENT);
    request.native_context.kind = MBR_NATIVE_STREAM_NONE;
    outcome.struct_size = 8;
    EXPECT_EQ(plugin->open(nullptr, &request, &outcome, nullptr), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(outcome.instance, nullptr);
    EXPECT_TRUE(memory_files().empty());
}

TEST(HostPlugin, OpenOfAnOldHost_NeedsOnlyTheFieldsItUses)
{
    const mbr_plugin_vtable *plugin = plugin_from_file();
    auto request = sized<mbr_open_request>();
    auto outcome = sized<mbr_open_outcome>();
    request.mechanism = "host";
    request.option_count = 0;
    request.struct_size = offsetof(mbr_open_request, options);
    ASSERT_EQ(plugin->open(nullptr, &request, &outcome, nullptr), MBR_OK);
    Mechanism host(plugin, outcome.instance);
    expect_empty_and_close(host);
}

TEST(HostPlugin, Options_ShowInTheFacts)
{
    Mechanism host = Mechanism::open({{"granule", "4096"}, {"populate", "0"}, {"huge", "advise"}});
    EXPECT_EQ(host.fact(MBR_FACT_GRANULE_MIN_BYTES), 4096u);
    EXPECT_EQ(host.fact(MBR_FACT_GRANULE_RECOMMENDED_BYTES), 2u << 20);
    EXPECT_EQ(host.fact(MBR_FACT_POPULATED), 0u);
    expect_empty_and_close(host);
    host = Mechanism::open({{"granule", "4194304"}});
    EXPECT_EQ(host.fact(MBR_FACT_GRANULE_MIN_BYTES), 4u << 20);
    EXPECT_EQ(host.fact(MBR_FACT_GRANULE_RECOMMENDED_BYTES), 4u << 20);
    EXPECT_EQ(host.fact(MBR_FACT_POPULATED), 1u);
    expect_empty_and_close(host);
}

TEST(HostPlugin, WithoutAnInstance_EverySlotRefuses)
{
    const mbr_plugin_vtable *plugin = plugin_from_file();
    Mechanism host = Mechanism::open();
    Mechanism none = host;
    uint64_t zeros[4] = {0, 0, 0, 0};
    for (mbr_instance *wrong : {(mbr_instance *)nullptr, (mbr_instance *)zeros}) {
        none.instance = wrong;
        EXPECT_EQ(none.close().status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.allocate(1, 1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.release(1, 1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.reserve(1, G).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.unreserve(1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.create(1, G).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.destroy(1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.map(1, 0, 1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.map_shared(1, 0, 1, 1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.protect(1, 0, G, 1).status, MBR_INVALID_ARGUMENT);
        EXPECT_EQ(none.unmap(1, 0, G).status, MBR_INVALID_ARGUMENT);
        mbr_query_outcome at;
        EXPECT_EQ(none.query(1, 0, &at), MBR_INVALID_ARGUMENT);
        auto capability = sized<mbr_capability_request>();
        auto table = sized<mbr_capability_outcome>();
        EXPECT_EQ(plugin->capability(wrong, &capability, &table, nullptr), MBR_INVALID_ARGUMENT);
        auto report_request = sized<mbr_report_request>();
        auto report = sized<mbr_report>();
        EXPECT_EQ(plugin->report(wrong, &report_request, &report, nullptr), MBR_INVALID_ARGUMENT);
        auto quiesce = sized<mbr_quiesce_request>();
        auto trim = sized<mbr_trim_request>();
        auto outcome = sized<mbr_outcome>();
        EXPECT_EQ(plugin->quiesce(wrong, &quiesce, &outcome, nullptr), MBR_INVALID_ARGUMENT);
        EXPECT_EQ(host.allocator->trim(wrong, &trim, &outcome, nullptr), MBR_INVALID_ARGUMENT);
        auto fact_request = sized<mbr_fact_request>();
        auto fact = sized<mbr_fact_outcome>();
        EXPECT_EQ(host.allocator->fact(wrong, &fact_request, &fact, nullptr), MBR_INVALID_ARGUMENT);
        auto stats_request = sized<mbr_stats_request>();
        auto stats = sized<mbr_mechanism_stats>();
        EXPECT_EQ(
            host.allocator->stats(wrong, &stats_request, &stats, nullptr), MBR_INVALID_ARGUMENT);
    }
    expect_empty_and_close(host);
}

TEST_F(HostSlots, Capability_AnswersThreeAndRefusesTheRest)
{
    EXPECT_EQ(host.allocator->kind, MBR_KIND_ALLOCATOR);
    EXPECT_EQ(host.virtual_->kind, MBR_KIND_VIRTUAL);
    EXPECT_EQ(host.shared->kind, MBR_KIND_SHARED);
    for (const char *id : {MBR_ID_ORDER, MBR_ID_TRANSFER, "someone.else", ""}) {
        auto request = sized<mbr_capability_request>();
        auto outcome = sized<mbr_capability_outcome>();
        request.id = id;
        EXPECT_EQ(
            host.plugin->capability(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
        EXPECT_EQ(outcome.table, nullptr);
    }
    auto request = sized<mbr_capability_request>();
    auto outcome = sized<mbr_capability_outcome>();
    EXPECT_EQ(
        host.plugin->capability(host.instance, &request, &outcome, nullptr), MBR_INVALID_ARGUMENT);
}

TEST_F(HostSlots, Facts_AreThoseOfLinuxMemory)
{
    EXPECT_EQ(host.fact(MBR_FACT_GRANULE_MIN_BYTES), G);
    EXPECT_EQ(host.fact(MBR_FACT_GRANULE_RECOMMENDED_BYTES), 2u << 20);
    EXPECT_EQ(host.fact(MBR_FACT_ALLOCATION_ALIGN_BYTES), 4096u);
    EXPECT_EQ(host.fact(MBR_FACT_ALLOCATION_ROUND_BYTES), 4096u);
    EXPECT_EQ(host.fact(MBR_FACT_FRESH_CONTENT), (uint64_t)MBR_CONTENT_ZERO);
    EXPECT_EQ(host.fact(MBR_FACT_PAST_PHYSICAL_SIZE), (uint64_t)MBR_PAST_KILL);
    for (uint32_t yes : {MBR_FACT_USABLE_AFTER_PROTECT, MBR_FACT_UNMAP_SPANS_MAPPINGS,
             MBR_FACT_ALIASING, MBR_FACT_READ_ONLY_ENFORCED, MBR_FACT_HOST_ACCESSIBLE,
             MBR_FACT_POPULATED, MBR_FACT_RELEASABLE_AFTER_LOSS})
        EXPECT_EQ(host.fact(yes), 1u) << yes;
    for (uint32_t no : {MBR_FACT_PROTECT_MAY_FAIL_SPURIOUSLY, MBR_FACT_UNMAP_WAITS_FOR_DEVICE,
             MBR_FACT_FORK_SAFE, MBR_FACT_DESCRIPTORS_PER_EXTENT, MBR_FACT_QUIRKS})
        EXPECT_EQ(host.fact(no), 0u) << no;
    for (uint32_t unknown : {0, 21, 65536, -1}) {
        auto request = sized<mbr_fact_request>();
        auto outcome = sized<mbr_fact_outcome>();
        request.fact = unknown;
        outcome.value = 5;
        EXPECT_EQ(
            host.allocator->fact(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
        EXPECT_EQ(outcome.value, 0u);
    }
}

TEST_F(HostSlots, TrimAndQuiesce_HaveNothingToDo)
{
    auto trim = sized<mbr_trim_request>();
    auto quiesce = sized<mbr_quiesce_request>();
    auto outcome = sized<mbr_outcome>();
    auto before = figures();
    EXPECT_EQ(host.allocator->trim(host.instance, &trim, &outcome, nullptr), MBR_OK);
    EXPECT_EQ(outcome.state, (uint32_t)MBR_STATE_DONE);
    EXPECT_EQ(outcome.released_bytes, 0u);
    EXPECT_EQ(host.plugin->quiesce(host.instance, &quiesce, &outcome, nullptr), MBR_OK);
    EXPECT_EQ(figures(), before);
}

TEST_F(HostSlots, CloseWithLiveObjects_IsInUseAndTheInstanceGoesOn)
{
    EXPECT_REFUSED(MBR_IN_USE, host.close());
    auto close = sized<mbr_close_request>();
    close.flags = 1;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(host.plugin->close(host.instance, &close, &outcome, nullptr), MBR_UNSUPPORTED);
    EXPECT_TRUE(host.map(1, 0, 11).ok());
}

TEST_F(HostSlots, TwoInstances_RefuseEachOthersIds)
{
    Mechanism other = Mechanism::open();
    ASSERT_TRUE(other.reserve(2, G).ok());
    Result allocation = host.allocate(21, 100);
    ASSERT_TRUE(allocation.ok());
    EXPECT_EQ(other.map(2, 0, 11).status, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(other.map_shared(2, 0, 11, 1).status, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(other.destroy(11).status, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(other.unreserve(1).status, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(other.release(21, allocation.outcome.address).status, MBR_UNKNOWN_OBJECT);
    EXPECT_EQ(host.map(2, 0, 11).status, MBR_UNKNOWN_OBJECT);
    // The same number is another object there.
    ASSERT_TRUE(other.create(11, 4 * G).ok());
    EXPECT_EQ(host.stats().owned_bytes, 4 * G + 4096);
    EXPECT_EQ(other.stats().owned_bytes, 4 * G);
    EXPECT_EQ(memory_files().size(), 2u);
    ASSERT_TRUE(other.destroy(11).ok());
    ASSERT_TRUE(other.unreserve(2).ok());
    expect_empty_and_close(other);
    EXPECT_TRUE(host.release(21, allocation.outcome.address).ok());
}

// ---- allocate, release ----------------------------------------------------------------------

TEST_F(HostSlots, Allocate_EverySizeAndAlignment_OwnsWholePagesAndIsZeroAndPopulated)
{
    uint64_t id = 100;
    for (uint64_t bytes : {1ul, 7ul, 4096ul, 4097ul, G - 1, G + 1, 3ul << 20})
        for (uint64_t align : {0ul, 1ul, 64ul, 4096ul, 8192ul, 2ul << 20, 1ul << 30}) {
            uint64_t pages = (bytes + 4095) / 4096 * 4096;
            uint64_t before = host.stats().owned_bytes;
            Result result = host.allocate(++id, bytes, align, pages, MBR_ALLOCATE_ZEROED);
            ASSERT_TRUE(result.ok()) << result.error.text;
            uint64_t address = result.outcome.address;
            EXPECT_EQ(address % (align ? align : 4096), 0u);
            EXPECT_EQ(result.outcome.newly_owned_bytes, pages);
            EXPECT_EQ(result.outcome.newly_mapped_bytes, pages);
            EXPECT_EQ(result.outcome.content, (uint32_t)MBR_CONTENT_ZERO);
            EXPECT_EQ(result.outcome.granted_flags, (uint32_t)MBR_ALLOCATE_ZEROED);
            EXPECT_EQ(host.stats().owned_bytes, before + pages);
            EXPECT_EQ(resident_bytes(address, pages), pages);
            auto *first = reinterpret_cast<unsigned char *>(address);
            for (uint64_t at = 0; at < bytes; at += 509)
                ASSERT_EQ(first[at], 0);
            memset(first, 0xAB, bytes);
            Result released = host.release(id, address);
            ASSERT_TRUE(released.ok()) << released.error.text;
            EXPECT_EQ(released.outcome.released_bytes, pages);
            EXPECT_EQ(released.outcome.unmapped_bytes, pages);
            EXPECT_EQ(host.stats().owned_bytes, before);
        }
}

TEST_F(HostSlots, AllocateBeyondWhatIsAllowed_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.allocate(0, 1));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.allocate(100, 0));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.allocate(100, 1, 3));
    EXPECT_REFUSED(MBR_OVERFLOW, host.allocate(100, UINT64_MAX - 10));
    EXPECT_REFUSED(MBR_OVERFLOW, host.allocate(100, 1ul << 63, 1ul << 63));
    EXPECT_REFUSED(MBR_OVER_BUDGET, host.allocate(100, 4097, 0, 8191));
    EXPECT_REFUSED(MBR_OVER_BUDGET, host.allocate(100, 1, 0, 0));
    EXPECT_REFUSED(MBR_UNSUPPORTED, host.allocate(100, 1, 0, kAny, 2));
    EXPECT_REFUSED(MBR_OUT_OF_MEMORY, host.allocate(100, 1ul << 50));
    Result result = host.allocate(100, 1, 0, 4096, 0x80000000u); // optional: ignored
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result.outcome.granted_flags, 0u);
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.allocate(100, 1));
    EXPECT_TRUE(host.release(100, result.outcome.address).ok());
}

TEST_F(HostSlots, OverBudget_SaysWhatWasAskedAndWhatIsAllowed)
{
    Result result = host.allocate(100, 4097, 0, 5000);
    EXPECT_EQ(result.error.asked_bytes, 8192u);
    EXPECT_EQ(result.error.free_bytes, 5000u);
    result = host.create(100, 2 * G, G);
    EXPECT_EQ(result.status, MBR_OVER_BUDGET);
    EXPECT_EQ(result.error.asked_bytes, 2 * G);
    EXPECT_EQ(result.error.free_bytes, G);
}

TEST_F(HostSlots, ReleaseOfWrongIdOrAddress_IsRefusedAndTheRightOneStillWorks)
{
    Result first = host.allocate(100, 10), second = host.allocate(101, 10);
    uint64_t address = first.outcome.address;
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(102, address));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(0, address));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(100, address + 1));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(100, second.outcome.address));
    EXPECT_TRUE(host.release(100, address).ok());
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.release(100, address));
    EXPECT_TRUE(host.release(101, second.outcome.address).ok());
}

// ---- reserve, unreserve ---------------------------------------------------------------------

TEST_F(HostSlots, Reserve_CostsNothingAndHonoursTheAlignment)
{
    for (uint64_t align : {0ul, 1ul, G, 2ul << 20, 1ul << 30}) {
        auto before = host.stats();
        Result result = host.reserve(2, 3 * G, align);
        ASSERT_TRUE(result.ok()) << result.error.text;
        EXPECT_EQ(result.outcome.address % std::max(align, G), 0u);
        EXPECT_EQ(host.stats().owned_bytes, before.owned_bytes);
        EXPECT_EQ(host.stats().mapped_bytes, before.mapped_bytes);
        EXPECT_EQ(host.stats().reserved_bytes, before.reserved_bytes + 3 * G);
        EXPECT_FALSE(can_read(result.outcome.address));
        ASSERT_TRUE(host.unreserve(2).ok());
        for (const Mapping &mapping :
            mappings_in(result.outcome.address, result.outcome.address + 3 * G))
            EXPECT_EQ(mapping.name, "") << "a neighbour of the freed range";
    }
}

TEST_F(HostSlots, ReserveWithWrongArguments_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.reserve(0, G));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.reserve(2, 0));
    EXPECT_REFUSED(MBR_MISALIGNED, host.reserve(2, G + 1));
    EXPECT_REFUSED(MBR_MISALIGNED, host.reserve(2, 4096));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.reserve(2, G, 3 * G));
    EXPECT_REFUSED(MBR_OVERFLOW, host.reserve(2, UINT64_MAX - G + 1));
    EXPECT_REFUSED(MBR_OUT_OF_ADDRESSES, host.reserve(2, 1ul << 47));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.reserve(1, G));
    auto request = sized<mbr_reserve_request>();
    request.flags = 1;
    request.reservation_id = 2;
    request.bytes = G;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(host.virtual_->reserve(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
    request.flags = 0x10000; // optional: ignored
    EXPECT_EQ(host.virtual_->reserve(host.instance, &request, &outcome, nullptr), MBR_OK);
}

TEST_F(HostSlots, Unreserve_OnlyOnceAndOnlyEmpty)
{
    ASSERT_TRUE(host.map(1, 2 * G, 11).ok());
    EXPECT_REFUSED(MBR_BUSY, host.unreserve(1));
    ASSERT_TRUE(host.unmap(1, 2 * G, G).ok());
    EXPECT_TRUE(host.unreserve(1).ok());
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.unreserve(1));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map(1, 0, 11));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.protect(1, 0, G, 1));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.unmap(1, 0, G));
    mbr_query_outcome at;
    EXPECT_EQ(host.query(1, 0, &at), MBR_UNKNOWN_OBJECT);
}

// ---- extent_create, extent_destroy ----------------------------------------------------------

TEST_F(HostSlots, ExtentCreate_OwnsItsPagesAtOnce)
{
    uint64_t before = file_bytes();
    EXPECT_EQ(before, 4 * G);
    Result result = host.create(20, 5 * G, 5 * G, MBR_EXTENT_ZEROED | MBR_EXTENT_HUGE_PAGES);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.newly_owned_bytes, 5 * G);
    EXPECT_EQ(result.outcome.newly_mapped_bytes, 0u);
    EXPECT_EQ(result.outcome.granted_flags, (uint32_t)MBR_EXTENT_ZEROED);
    EXPECT_EQ(file_bytes(), before + 5 * G);
    result = host.destroy(20);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.released_bytes, 5 * G);
    EXPECT_EQ(file_bytes(), before);
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.destroy(20));
}

TEST_F(HostSlots, ExtentCreateWithWrongArguments_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.create(0, G));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.create(20, 0));
    EXPECT_REFUSED(MBR_MISALIGNED, host.create(20, G - 1));
    EXPECT_REFUSED(MBR_MISALIGNED, host.create(20, UINT64_MAX - 10));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.create(20, (1ul << 46) + G));
    EXPECT_REFUSED(MBR_OUT_OF_MEMORY, host.create(20, 1ul << 46)); // more than any machine's RAM
    EXPECT_REFUSED(MBR_OVER_BUDGET, host.create(20, 2 * G, 2 * G - 1));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.create(11, G));
    EXPECT_REFUSED(MBR_UNSUPPORTED, host.create(20, G, kAny, MBR_EXTENT_EXPORTABLE));
    EXPECT_REFUSED(MBR_UNSUPPORTED, host.create(20, G, kAny, 0x8000));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.destroy(20));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.destroy(0));
}

TEST_F(HostSlots, ExtentDestroyWhileMapped_IsBusyWithContentsIntact)
{
    ASSERT_TRUE(host.map(1, 0, 11).ok());
    ASSERT_TRUE(host.protect(1, 0, G, MBR_ACCESS_READ_WRITE).ok());
    word(base) = 42;
    EXPECT_REFUSED(MBR_BUSY, host.destroy(11));
    EXPECT_EQ(word(base), 42u);
}

// ---- map, map_shared ------------------------------------------------------------------------

TEST_F(HostSlots, Map_HasNoAccessUntilProtect)
{
    Result result = host.map(1, G, 12);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.newly_mapped_bytes, 2 * G);
    EXPECT_EQ(result.outcome.newly_owned_bytes, 0u);
    EXPECT_EQ(result.outcome.content, (uint32_t)MBR_CONTENT_ZERO);
    EXPECT_FALSE(can_read(base + G));
    result = host.protect(1, G, 2 * G, MBR_ACCESS_READ);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.newly_mapped_bytes, 0u);
    EXPECT_TRUE(can_read(base + G));
    EXPECT_FALSE(can_write(base + 3 * G - 1));
    ASSERT_TRUE(host.protect(1, G, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    EXPECT_TRUE(can_write(base + 3 * G - 1));
    ASSERT_TRUE(host.protect(1, G, 2 * G, MBR_ACCESS_NONE).ok());
    EXPECT_FALSE(can_read(base + G));
    EXPECT_FALSE(can_read(base));
    EXPECT_FALSE(can_read(base + 3 * G));
}

TEST_F(HostSlots, MapWithWrongArguments_IsRefused)
{
    ASSERT_TRUE(host.map(1, 4 * G, 12).ok());
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map(9, 0, 11));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map(1, 0, 99));
    EXPECT_REFUSED(MBR_MISALIGNED, host.map(1, 1, 11));
    EXPECT_REFUSED(MBR_MISALIGNED, host.map(1, 4096, 11));
    EXPECT_REFUSED(MBR_OUT_OF_RANGE, host.map(1, 16 * G, 11));
    EXPECT_REFUSED(MBR_OVERFLOW, host.map(1, UINT64_MAX - G + 1, 11));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, 4 * G, 11));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, 5 * G, 11));
    EXPECT_REFUSED(MBR_BUSY, host.map(1, 8 * G, 12)); // mapped already
    ASSERT_TRUE(host.create(20, 4 * G).ok());
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, 3 * G, 20)); // over the whole of it
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map(1, G, 20));     // its tail
    EXPECT_REFUSED(MBR_OUT_OF_RANGE, host.map(1, 13 * G, 20));
    EXPECT_TRUE(host.map(1, 12 * G, 20).ok()); // up to the last byte
    EXPECT_TRUE(host.unmap(1, 12 * G, 4 * G).ok());
    EXPECT_TRUE(host.map(1, 0, 20).ok()); // up to the neighbour
    EXPECT_TRUE(host.map(1, 6 * G, 11).ok());
    EXPECT_TRUE(host.unmap(1, 0, 4 * G).ok());
    EXPECT_TRUE(host.destroy(20).ok());
    auto request = sized<mbr_map_request>();
    request.flags = 1;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(host.virtual_->map(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
}

TEST_F(HostSlots, MapSharedWithWrongArguments_IsRefused)
{
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, 0, 11, MBR_ACCESS_READ)); // not mapped
    ASSERT_TRUE(host.map(1, 0, 11).ok());
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, G, 11, 2));
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, G, 11, 4));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map_shared(1, G, 99, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_UNKNOWN_OBJECT, host.map_shared(9, G, 11, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_ALREADY_EXISTS, host.map_shared(1, 0, 11, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_MISALIGNED, host.map_shared(1, G + 4096, 11, MBR_ACCESS_READ));
    EXPECT_REFUSED(MBR_OUT_OF_RANGE, host.map_shared(1, 16 * G, 11, MBR_ACCESS_READ));
    ASSERT_TRUE(host.unmap(1, 0, G).ok());
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.map_shared(1, G, 11, MBR_ACCESS_READ));
}

TEST_F(HostSlots, AccessLists_OfOtherDevicesOrShapes_AreRefused)
{
    ASSERT_TRUE(host.map(1, 0, 11).ok());
    const mbr_access device_one[] = {{1, MBR_ACCESS_READ}};
    const mbr_access twice[] = {{0, MBR_ACCESS_READ}, {0, MBR_ACCESS_READ}};
    const struct {
        const mbr_access *list;
        uint32_t count;
        mbr_status status;
    } cases[] = {
        {device_one, 1, MBR_OUT_OF_RANGE},
        {twice, 2, MBR_INVALID_ARGUMENT},
        {twice, 0, MBR_INVALID_ARGUMENT},
        {nullptr, 1, MBR_INVALID_ARGUMENT},
    };
    for (const auto &one : cases) {
        auto protect = sized<mbr_protect_request>();
        protect.reservation_id = 1;
        protect.bytes = G;
        protect.access = one.list;
        protect.access_count = one.count;
        auto outcome = sized<mbr_outcome>();
        EXPECT_EQ(host.virtual_->protect(host.instance, &protect, &outcome, nullptr), one.status);
        auto share = sized<mbr_map_shared_request>();
        share.reservation_id = 1;
        share.offset_bytes = G;
        share.extent_id = 11;
        share.access = one.list;
        share.access_count = one.count;
        EXPECT_EQ(host.shared->map_shared(host.instance, &share, &outcome, nullptr), one.status);
    }
    EXPECT_FALSE(can_read(base));
    EXPECT_EQ(host.report().mapping_count, 1u);
}

// ---- protect, unmap, query ------------------------------------------------------------------

TEST_F(HostSlots, ProtectAndUnmap_NeedAnExactCoverOfWholeMappings)
{
    ASSERT_TRUE(host.map(1, 2 * G, 12).ok()); // [2, 4)
    ASSERT_TRUE(host.map(1, 4 * G, 11).ok()); // [4, 5)
    ASSERT_TRUE(host.map(1, 6 * G, 13).ok()); // [6, 7)
    const struct {
        uint64_t offset, bytes;
        mbr_status status;
    } cases[] = {
        {2 * G, G, MBR_INVALID_ARGUMENT},     // the first half of one
        {3 * G, G, MBR_INVALID_ARGUMENT},     // the second half
        {3 * G, 2 * G, MBR_INVALID_ARGUMENT}, // begins inside one
        {4 * G, 3 * G, MBR_INVALID_ARGUMENT}, // a hole
        {G, 3 * G, MBR_INVALID_ARGUMENT},     // begins in a hole
        {5 * G, G, MBR_INVALID_ARGUMENT},     // only a hole
        {6 * G, 2 * G, MBR_INVALID_ARGUMENT}, // ends in a hole
        {15 * G, 2 * G, MBR_OUT_OF_RANGE},    // ends behind the reservation
        {16 * G, G, MBR_OUT_OF_RANGE},        // begins behind it
        {4 * G, 0, MBR_INVALID_ARGUMENT},     // nothing
        {4 * G, G - 1, MBR_MISALIGNED},       // no whole granules
        {4 * G + 1, G, MBR_MISALIGNED},       // between granules
        {4 * G, UINT64_MAX - G + 1, MBR_OVERFLOW},
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(std::to_string(one.offset / G) + " +" + std::to_string(one.bytes / G));
        EXPECT_REFUSED(one.status, host.unmap(1, one.offset, one.bytes));
        EXPECT_REFUSED(one.status, host.protect(1, one.offset, one.bytes, MBR_ACCESS_READ));
        EXPECT_FALSE(can_read(base + 4 * G));
    }
    EXPECT_TRUE(host.protect(1, 2 * G, 3 * G, MBR_ACCESS_READ).ok()); // two whole mappings
    EXPECT_TRUE(can_read(base + 2 * G) && can_read(base + 5 * G - 1));
    Result result = host.unmap(1, 2 * G, 3 * G);
    ASSERT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(result.outcome.unmapped_bytes, 3 * G);
    EXPECT_EQ(result.outcome.released_bytes, 0u);
    EXPECT_FALSE(can_read(base + 2 * G));
    EXPECT_EQ(host.report().mapping_count, 1u);
    EXPECT_REFUSED(MBR_INVALID_ARGUMENT, host.unmap(1, 2 * G, 3 * G)); // twice
    auto request = sized<mbr_unmap_request>();
    request.flags = 1;
    auto outcome = sized<mbr_outcome>();
    EXPECT_EQ(host.virtual_->unmap(host.instance, &request, &outcome, nullptr), MBR_UNSUPPORTED);
}

TEST_F(HostSlots, Query_TellsMappingsAndHoles)
{
    auto expect = [&](uint64_t offset, uint64_t extent, uint32_t access, uint64_t start,
                      uint64_t bytes) {
        mbr_query_outcome at;
        ASSERT_EQ(host.query(1, offset, &at), MBR_OK);
        EXPECT_EQ(at.extent_id, extent) << offset / G;
        EXPECT_EQ(at.access, access) << offset / G;
        EXPECT_EQ(at.offset_bytes, start) << offset / G;
        EXPECT_EQ(at.bytes, bytes) << offset / G;
    };
    expect(5, 0, 0, 0, 16 * G);
    ASSERT_TRUE(host.map(1, 2 * G, 12).ok());
    ASSERT_TRUE(host.map(1, 4 * G, 11).ok());
    ASSERT_TRUE(host.protect(1, 4 * G, G, MBR_ACCESS_READ).ok());
    expect(0, 0, 0, 0, 2 * G);
    expect(2 * G, 12, MBR_ACCESS_NONE, 2 * G, 2 * G);
    expect(4 * G - 1, 12, MBR_ACCESS_NONE, 2 * G, 2 * G);
    expect(4 * G, 11, MBR_ACCESS_READ, 4 * G, G);
    expect(5 * G, 0, 0, 5 * G, 11 * G);
    expect(16 * G - 1, 0, 0, 5 * G, 11 * G);
    mbr_query_outcome at;
    EXPECT_EQ(host.query(1, 16 * G, &at), MBR_OUT_OF_RANGE);
    EXPECT_EQ(at.bytes, 0u);
}

// ---- Limits of the process ------------------------------------------------------------------

TEST_F(HostSlots, FileSizeLimit_IsAStatusAndNoSignal)
{
    // The file has 4 granules. A limit below the next one leaves what is there usable.
    rlimit old_limit, limit;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 6 * G;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_REFUSED(MBR_FILE_SIZE_LIMIT, host.create(20, 3 * G));
    EXPECT_TRUE(host.create(20, 2 * G).ok()); // to the last byte
    EXPECT_REFUSED(MBR_FILE_SIZE_LIMIT, host.create(21, G));
    EXPECT_TRUE(host.destroy(12).ok()); // a hole of 2 granules, used again from its start
    EXPECT_TRUE(host.create(12, G).ok());
    EXPECT_REFUSED(MBR_FILE_SIZE_LIMIT, host.create(21, 2 * G));
    EXPECT_TRUE(host.create(21, G).ok());
    EXPECT_EQ(file_bytes(), 6 * G);
    limit.rlim_cur = 0; // the file is larger than the limit by now: its holes can still be filled
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_TRUE(host.destroy(20).ok());
    EXPECT_TRUE(host.create(20, 2 * G).ok());
    EXPECT_REFUSED(MBR_FILE_SIZE_LIMIT, host.create(22, G));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    EXPECT_TRUE(host.create(22, G).ok());
    for (uint64_t id : {20, 21, 22})
        EXPECT_TRUE(host.destroy(id).ok());
}

TEST(HostPlugin, DescriptorLimit_IsAStatusOfItsOwn)
{
    const mbr_plugin_vtable *plugin = plugin_from_file();
    rlimit old_limit, limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 0; // no further descriptor; open ones stay
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    mbr_instance *instance;
    auto error = sized<mbr_error>();
    mbr_status status = Mechanism::open_with(plugin, "host", {}, &instance, &error);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
    EXPECT_EQ(status, MBR_OUT_OF_DESCRIPTORS) << error.text;
    EXPECT_EQ(error.native_domain, (uint32_t)MBR_NATIVE_ERRNO);
    EXPECT_EQ(error.native_code, EMFILE);
}

TEST_F(HostSlots, StormOfSignals_DoesNotStopACreate)
{
    // fallocate gives up at each signal; 32 MiB take many times the period.
    static volatile sig_atomic_t signal_count;
    signal_count = 0;
    struct sigaction action = {}, old_action;
    action.sa_handler = [](int) { signal_count = signal_count + 1; };
    ASSERT_EQ(sigaction(SIGALRM, &action, &old_action), 0);
    itimerval period = {{0, 500}, {0, 500}}, none = {};
    ASSERT_EQ(setitimer(ITIMER_REAL, &period, nullptr), 0);
    Result result = host.create(20, 512 * G);
    ASSERT_EQ(setitimer(ITIMER_REAL, &none, nullptr), 0);
    sigaction(SIGALRM, &old_action, nullptr);
    EXPECT_TRUE(result.ok()) << result.error.text;
    EXPECT_EQ(file_bytes(), 516 * G);
    EXPECT_GT(signal_count, 0);
    EXPECT_TRUE(host.destroy(20).ok());
}
