// The plugin's table, options, facts and limits, on the real file.
#include "tests/unit/plugins_host/fixture.h"

#include <sys/resource.h>
#include <sys/time.h>

#include <cerrno>
#include <csignal>

using namespace host_test;

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
        {"host", {{"pool", "1"}, {"populate", "1"}}, MBR_UNKNOWN_KEY, "granule"},
        {"host", {{"granule", "0"}}, MBR_INVALID_ARGUMENT, "power of two"},
        {"host", {{"granule", "18446744073709551616"}}, MBR_INVALID_ARGUMENT, "power of two"},
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
    for (const char *key : {"huge", "granule", "populate"}) {
        const mbr_option no_value = {key, nullptr};
        request.options = &no_value;
        EXPECT_EQ(plugin->open(nullptr, &request, &outcome, nullptr), MBR_INVALID_ARGUMENT);
    }
    EXPECT_EQ(plugin->open(nullptr, nullptr, &outcome, nullptr), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(plugin->open(nullptr, &request, nullptr, nullptr), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(plugin->mechanisms(nullptr, nullptr, nullptr, nullptr), MBR_INVALID_ARGUMENT);
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

TEST_F(HostSlots, NullRequestOrOutcome_IsRefusedByEverySlot)
{
    auto before = figures();
    mbr_instance *i = host.instance;
    auto expect = [&](auto slot, auto request, auto outcome) {
        EXPECT_EQ(slot(i, nullptr, &outcome, nullptr), MBR_INVALID_ARGUMENT);
        EXPECT_EQ(slot(i, &request, nullptr, nullptr), MBR_INVALID_ARGUMENT);
        request.struct_size = 0;
        EXPECT_EQ(slot(i, &request, &outcome, nullptr), MBR_INVALID_ARGUMENT);
    };
    auto outcome = sized<mbr_outcome>();
    expect(
        host.plugin->capability, sized<mbr_capability_request>(), sized<mbr_capability_outcome>());
    expect(host.plugin->close, sized<mbr_close_request>(), outcome);
    expect(host.plugin->report, sized<mbr_report_request>(), sized<mbr_report>());
    expect(host.plugin->quiesce, sized<mbr_quiesce_request>(), outcome);
    expect(host.allocator->fact, sized<mbr_fact_request>(), sized<mbr_fact_outcome>());
    expect(host.allocator->allocate, sized<mbr_allocate_request>(), outcome);
    expect(host.allocator->release, sized<mbr_release_request>(), outcome);
    expect(host.allocator->stats, sized<mbr_stats_request>(), sized<mbr_mechanism_stats>());
    expect(host.allocator->trim, sized<mbr_trim_request>(), outcome);
    expect(host.virtual_->reserve, sized<mbr_reserve_request>(), outcome);
    expect(host.virtual_->unreserve, sized<mbr_unreserve_request>(), outcome);
    expect(host.virtual_->extent_create, sized<mbr_extent_create_request>(), outcome);
    expect(host.virtual_->extent_destroy, sized<mbr_extent_destroy_request>(), outcome);
    expect(host.virtual_->map, sized<mbr_map_request>(), outcome);
    expect(host.virtual_->protect, sized<mbr_protect_request>(), outcome);
    expect(host.virtual_->unmap, sized<mbr_unmap_request>(), outcome);
    expect(host.virtual_->query, sized<mbr_query_request>(), sized<mbr_query_outcome>());
    expect(host.shared->map_shared, sized<mbr_map_shared_request>(), outcome);
    EXPECT_EQ(figures(), before);
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

TEST(HostPlugin, CloseWithOneObjectOfAnyClass_IsInUse)
{
    Mechanism host = Mechanism::open();
    for (int classes = 1; classes < 8; classes++) {
        Result allocation = {};
        if (classes & 1) {
            allocation = host.allocate(1, 1);
        }
        if (classes & 2) {
            EXPECT_TRUE(host.reserve(1, G).ok());
        }
        if (classes & 4) {
            EXPECT_TRUE(host.create(1, G).ok());
        }
        EXPECT_EQ(host.close().status, MBR_IN_USE) << classes;
        if (classes & 1) {
            EXPECT_TRUE(host.release(1, allocation.outcome.address).ok());
        }
        if (classes & 2) {
            EXPECT_TRUE(host.unreserve(1).ok());
        }
        if (classes & 4) {
            EXPECT_TRUE(host.destroy(1).ok());
        }
    }
    expect_empty_and_close(host);
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
