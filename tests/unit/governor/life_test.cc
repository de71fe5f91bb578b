// The lives of governors, authorities and holders: what creation checks, what keeps destruction
// off, and that a failure anywhere leaves nothing behind.
#include "tests/unit/governor/world.h"

#include <cstring>
#include <vector>

using namespace governor_test;

namespace
{

const std::string kLongestName(47, 'n');
const std::string kTooLongName(48, 'n');

mbr_status CreateAuthority(
    World &world, const mbr_authority_options &options, mbr_authority **authority, mbr_error *error)
{
    *authority = reinterpret_cast<mbr_authority *>(1); // must be set on entry
    return mbr_authority_create(world.governor, &options, authority, error);
}

TEST(Governor_Life, CreateWithoutOptions_UsesDefaults)
{
    mbr_governor *governor = nullptr;
    ASSERT_EQ(mbr_governor_create(nullptr, &governor, nullptr), MBR_OK);
    mbr_governor_options none = {nullptr, nullptr};
    mbr_governor *second = nullptr;
    ASSERT_EQ(mbr_governor_create(&none, &second, nullptr), MBR_OK);
    mbr_authority_options options = {"host", MBR_TIER_HOST, 100, nullptr, 0, nullptr};
    mbr_authority *authority = nullptr;
    ASSERT_EQ(mbr_authority_create(second, &options, &authority, nullptr), MBR_OK);
    EXPECT_EQ(mbr_authority_destroy(authority, nullptr), MBR_OK);
    EXPECT_EQ(mbr_governor_destroy(governor, nullptr), MBR_OK);
    EXPECT_EQ(mbr_governor_destroy(second, nullptr), MBR_OK);
}

TEST(Governor_Life, DestroyOfNull_IsAllowed)
{
    EXPECT_EQ(mbr_holder_destroy(nullptr, nullptr), MBR_OK);
    EXPECT_EQ(mbr_authority_destroy(nullptr, nullptr), MBR_OK);
    EXPECT_EQ(mbr_governor_destroy(nullptr, nullptr), MBR_OK);
}

TEST(Governor_Life, HeapExhaustedAtAnyCall_TypedFailureAndNothingLeft)
{
    CountedHeap heap;
    mbr_heap seam = heap.Seam();
    mbr_governor_options options = {&seam, nullptr};
    mbr_authority_options pool = {"pool", MBR_TIER_DEVICE, 100, nullptr, 0, nullptr};
    mbr_holder_options kv = {"kv", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}};
    bool finished = false;
    int failures = 0;
    for (int fail_at = 1; !finished; fail_at++) {
        heap.calls = 0;
        heap.fail_at = fail_at;
        mbr_error error = NewError();
        mbr_governor *governor = nullptr;
        mbr_authority *authority = nullptr;
        mbr_holder *holder = nullptr;
        mbr_status status = mbr_governor_create(&options, &governor, &error);
        if (status == MBR_OK)
            status = mbr_authority_create(governor, &pool, &authority, &error);
        if (status == MBR_OK)
            status = mbr_holder_create(authority, &kv, &holder, &error);
        finished = status == MBR_OK;
        if (!finished) {
            failures++;
            EXPECT_EQ(status, MBR_OUT_OF_HOST_MEMORY);
            EXPECT_EQ(error.status, MBR_OUT_OF_HOST_MEMORY);
            EXPECT_NE(std::string(error.text).find("heap"), std::string::npos) << error.text;
            EXPECT_EQ(holder, nullptr);
        }
        EXPECT_EQ(mbr_holder_destroy(holder, nullptr), MBR_OK);
        EXPECT_EQ(mbr_authority_destroy(authority, nullptr), MBR_OK);
        EXPECT_EQ(mbr_governor_destroy(governor, nullptr), MBR_OK);
        EXPECT_EQ(heap.blocks_out, 0);
    }
    EXPECT_EQ(failures, 3); // one allocation of each create
}

TEST(Governor_Life, BookingAndReading_AllocateNothing)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holder = world.Holder(authority);
    int calls = world.heap.calls;
    mbr_refusal refusal = NewRefusal();
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(mbr_grant(holder, kMiB, &refusal), MBR_OK);
        mbr_charge(holder, kMiB);
        mbr_refund(holder, kMiB);
        ASSERT_EQ(mbr_grant(holder, 2 * kGiB, &refusal), MBR_OVER_BUDGET);
        Figures(authority);
        Figures(holder);
        mbr_authority_sample(authority, true);
        EXPECT_EQ(mbr_authority_audit(authority, nullptr), MBR_OK);
    }
    EXPECT_EQ(world.heap.calls, calls);
    End(authority, holder);
}

TEST(Authority_Life, OptionsOutOfRange_TypedRefusalsWithTheValue)
{
    World world;
    FakeProbe probe;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority;
    struct Row {
        mbr_authority_options options;
        mbr_status status;
        const char *says;
    } rows[] = {
        {{nullptr, MBR_TIER_DEVICE, 1, nullptr, 0, nullptr}, MBR_INVALID_ARGUMENT, "1 to 47"},
        {{"", MBR_TIER_DEVICE, 1, nullptr, 0, nullptr}, MBR_INVALID_ARGUMENT, "1 to 47"},
        {{kTooLongName.c_str(), MBR_TIER_DEVICE, 1, nullptr, 0, nullptr}, MBR_INVALID_ARGUMENT,
            "1 to 47"},
        {{"p", 0, 1, nullptr, 0, nullptr}, MBR_INVALID_ARGUMENT, "tier 0 of authority 'p'"},
        {{"p", 3, 1, nullptr, 0, nullptr}, MBR_INVALID_ARGUMENT, "tier 3 of authority 'p'"},
        {{"p", MBR_TIER_HOST, kNone, nullptr, 0, nullptr}, MBR_INVALID_ARGUMENT,
            "neither a limit nor"},
        {{"p", MBR_TIER_HOST, kNone - 1, &seam, 0, nullptr}, MBR_OUT_OF_RANGE,
            "18446744073709551614"},
        {{"p", MBR_TIER_HOST, UINT64_C(1) << 63, nullptr, 0, nullptr}, MBR_OUT_OF_RANGE, "above"},
    };
    for (const Row &row : rows) {
        mbr_error error = NewError();
        EXPECT_EQ(CreateAuthority(world, row.options, &authority, &error), row.status);
        EXPECT_EQ(authority, nullptr);
        EXPECT_EQ(error.status, row.status);
        EXPECT_NE(std::string(error.text).find(row.says), std::string::npos) << error.text;
        EXPECT_EQ(CreateAuthority(world, row.options, &authority, nullptr), row.status);
    }
    EXPECT_EQ(probe.calls, 0);
    EXPECT_EQ(world.heap.blocks_out, 1); // the governor
}

TEST(Authority_Life, BoundsThemselves_AreAccepted)
{
    World world;
    mbr_authority *authority;
    mbr_authority_options options = {
        kLongestName.c_str(), MBR_TIER_HOST, (UINT64_C(1) << 63) - 1, nullptr, 0, nullptr};
    ASSERT_EQ(CreateAuthority(world, options, &authority, nullptr), MBR_OK);
    mbr_authority_figures figures = Figures(authority);
    EXPECT_EQ(figures.name, kLongestName);
    EXPECT_EQ(figures.tier, static_cast<uint32_t>(MBR_TIER_HOST));
    EXPECT_EQ(figures.limit_bytes, (UINT64_C(1) << 63) - 1);
    EXPECT_EQ(mbr_authority_destroy(authority, nullptr), MBR_OK);
    options.limit_bytes = 0;
    ASSERT_EQ(CreateAuthority(world, options, &authority, nullptr), MBR_OK);
    mbr_holder *holder = world.Holder(authority);
    EXPECT_EQ(mbr_grant(holder, 0, nullptr), MBR_OK);
    EXPECT_EQ(mbr_grant(holder, 1, nullptr), MBR_OVER_BUDGET);
    End(authority, holder);
}

TEST(Authority_Life, NameTaken_RefusedUntilTheOtherIsGone)
{
    World world;
    mbr_authority *first, *second;
    mbr_authority_options options = {"gpu0", MBR_TIER_DEVICE, 1, nullptr, 0, nullptr};
    ASSERT_EQ(CreateAuthority(world, options, &first, nullptr), MBR_OK);
    mbr_error error = NewError();
    EXPECT_EQ(CreateAuthority(world, options, &second, &error), MBR_ALREADY_EXISTS);
    EXPECT_EQ(second, nullptr);
    EXPECT_NE(std::string(error.text).find("'gpu0'"), std::string::npos) << error.text;
    uint64_t id = mbr_authority_id(first);
    EXPECT_EQ(mbr_authority_destroy(first, nullptr), MBR_OK);
    ASSERT_EQ(CreateAuthority(world, options, &second, &error), MBR_OK);
    EXPECT_GT(mbr_authority_id(second), id); // never used again
    EXPECT_EQ(mbr_authority_destroy(second, nullptr), MBR_OK);
}

TEST(Authority_Life, OnlyMeasuredAndTheProbeIsSilent_Refused)
{
    World world;
    FakeProbe probe;
    probe.known = false;
    mbr_probe seam = probe.Seam();
    mbr_authority *authority;
    mbr_authority_options options = {"host", MBR_TIER_HOST, kNone, &seam, 0, nullptr};
    mbr_error error = NewError();
    EXPECT_EQ(CreateAuthority(world, options, &authority, &error), MBR_SYSTEM);
    EXPECT_EQ(authority, nullptr);
    EXPECT_EQ(probe.calls, 1);
    EXPECT_NE(std::string(error.text).find("set a limit"), std::string::npos) << error.text;
    options.limit_bytes = 100; // with a limit of its own the silence does not matter
    ASSERT_EQ(CreateAuthority(world, options, &authority, nullptr), MBR_OK);
    EXPECT_EQ(Figures(authority).limit_bytes, 100u);
    EXPECT_EQ(mbr_authority_destroy(authority, nullptr), MBR_OK);
}

TEST(Authority_Life, MoreThanTheGovernorMayHave_RefusedWithTheNumber)
{
    World world;
    std::vector<mbr_authority *> all;
    for (int i = 0; i < MBR_AUTHORITY_LIMIT_COUNT; i++)
        all.push_back(world.Authority(1));
    mbr_authority *more;
    mbr_authority_options options = {"more", MBR_TIER_DEVICE, 1, nullptr, 0, nullptr};
    mbr_error error = NewError();
    EXPECT_EQ(CreateAuthority(world, options, &more, &error), MBR_OUT_OF_DESCRIPTORS);
    EXPECT_EQ(more, nullptr);
    EXPECT_NE(std::string(error.text).find("64"), std::string::npos) << error.text;
    EXPECT_EQ(mbr_authority_destroy(all.back(), nullptr), MBR_OK);
    all.pop_back();
    ASSERT_EQ(CreateAuthority(world, options, &more, &error), MBR_OK);
    all.push_back(more);
    for (mbr_authority *authority : all)
        EXPECT_EQ(mbr_authority_destroy(authority, nullptr), MBR_OK);
}

TEST(Authority_Life, DestroyWithLiveObjects_RefusedWithCounts)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *first = world.Holder(authority);
    mbr_holder *second = world.Holder(authority);
    mbr_error error = NewError();
    EXPECT_EQ(mbr_authority_destroy(authority, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("2 holders"), std::string::npos) << error.text;
    EXPECT_NE(std::string(error.text).find(Figures(first).name), std::string::npos) << error.text;
    EXPECT_EQ(mbr_governor_destroy(world.governor, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find(Figures(authority).name), std::string::npos);
    EXPECT_NE(std::string(error.text).find("1 authorities"), std::string::npos) << error.text;
    EXPECT_EQ(mbr_grant(first, 1, nullptr), MBR_OK); // still alive
    mbr_grant_return(first, 1);
    End(authority, first, second);
}

TEST(Holder_Life, OptionsOutOfRange_TypedRefusals)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    auto ask = [](void *, const mbr_pressure *) { return uint64_t{0}; };
    auto give = [](void *, const mbr_pressure *, uint64_t) {};
    struct Row {
        mbr_holder_options options;
        const char *says;
    } rows[] = {
        {{nullptr, MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}}, "1 to 47"},
        {{"", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}}, "1 to 47"},
        {{kTooLongName.c_str(), MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}}, "1 to 47"},
        {{"h", MBR_ROLE_KV, MBR_NO_ALLOWANCE, true, {}}, "nothing to borrow beyond"},
        {{"h", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {ask, nullptr, nullptr}}, "both callbacks"},
        {{"h", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {nullptr, give, nullptr}}, "both callbacks"},
        {{"h", MBR_ROLE_COUNT, MBR_NO_ALLOWANCE, false, {}},
            "role 7 of holder 'h' is unknown; roles are 0 to 6"},
    };
    for (const Row &row : rows) {
        auto *holder = reinterpret_cast<mbr_holder *>(1);
        mbr_error error = NewError();
        EXPECT_EQ(
            mbr_holder_create(authority, &row.options, &holder, &error), MBR_INVALID_ARGUMENT);
        EXPECT_EQ(holder, nullptr);
        EXPECT_NE(std::string(error.text).find(row.says), std::string::npos) << error.text;
    }
    EXPECT_EQ(Figures(authority).holder_count, 0u);
    End<mbr_holder *>(authority, nullptr);
}

TEST(Holder_Life, LinesOfASnapshot_InOrderOfCreation)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    std::vector<mbr_holder *> holders;
    for (uint32_t role = 0; role < MBR_ROLE_COUNT; role++)
        holders.push_back(world.Holder(authority, 1000 + role, role));
    EXPECT_EQ(mbr_holder_destroy(holders[2], nullptr), MBR_OK);
    holders.erase(holders.begin() + 2);
    ASSERT_EQ(mbr_grant(holders[3], 7, nullptr), MBR_OK);

    std::vector<mbr_holder_figures> lines(holders.size() + 1);
    for (mbr_holder_figures &line : lines)
        line.struct_size = sizeof(line);
    for (uint32_t capacity = 0; capacity <= lines.size(); capacity++) {
        for (mbr_holder_figures &line : lines)
            line.holder_id = 0;
        uint32_t count = 99;
        mbr_authority_holders_read(authority, lines.data(), capacity, &count);
        EXPECT_EQ(count, holders.size());
        for (size_t i = 0; i < lines.size(); i++) {
            bool filled = i < capacity && i < holders.size();
            EXPECT_EQ(lines[i].holder_id, filled ? mbr_holder_id(holders[i]) : 0);
            if (filled) {
                EXPECT_STREQ(lines[i].name, Figures(holders[i]).name);
                EXPECT_EQ(lines[i].granted_bytes, i == 3 ? 7u : 0u);
                EXPECT_EQ(lines[i].allowance_bytes, 1000 + lines[i].role);
            }
        }
    }
    mbr_grant_return(holders[3], 7);
    for (mbr_holder *holder : holders) {
        EXPECT_EQ(mbr_holder_authority(holder), authority);
        EXPECT_EQ(mbr_holder_destroy(holder, nullptr), MBR_OK);
    }
    End<mbr_holder *>(authority, nullptr);
}

TEST(Holder_Life, LinesOfAnotherSize_LieOneBehindTheOther)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    mbr_holder *holders[] = {world.Holder(authority, 1), world.Holder(authority, 2)};
    constexpr uint32_t kShorter = offsetof(mbr_holder_figures, granted_bytes);
    for (uint32_t bytes : {kShorter, (uint32_t)sizeof(mbr_holder_figures) + 16}) {
        std::vector<unsigned char> room(3 * bytes, 0xA5);
        for (int i = 0; i < 2; i++)
            memcpy(room.data() + i * bytes, &bytes, sizeof(bytes));
        uint32_t count;
        mbr_authority_holders_read(
            authority, reinterpret_cast<mbr_holder_figures *>(room.data()), 2, &count);
        for (uint64_t i = 0; i < 2; i++) {
            uint64_t allowance_bytes;
            memcpy(&allowance_bytes,
                room.data() + i * bytes + offsetof(mbr_holder_figures, allowance_bytes), 8);
            EXPECT_EQ(allowance_bytes, i + 1);
        }
        for (size_t i = 2 * bytes; i < room.size(); i++)
            ASSERT_EQ(room[i], 0xA5) << i << " of lines of " << bytes;
    }
    End(authority, holders[0], holders[1]);
}

TEST(Holder_Life, MoreThanAnAuthorityMayHave_RefusedWithTheNumber)
{
    World world;
    mbr_authority *authority = world.Authority(kGiB);
    std::vector<mbr_holder *> all;
    for (int i = 0; i < MBR_HOLDER_LIMIT_COUNT; i++)
        all.push_back(world.Holder(authority));
    mbr_holder_options options = {"more", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}};
    mbr_holder *more = nullptr;
    mbr_error error = NewError();
    int blocks = world.heap.blocks_out;
    EXPECT_EQ(mbr_holder_create(authority, &options, &more, &error), MBR_OUT_OF_DESCRIPTORS);
    EXPECT_EQ(more, nullptr);
    EXPECT_NE(std::string(error.text).find("1024"), std::string::npos) << error.text;
    EXPECT_EQ(world.heap.blocks_out, blocks);
    for (mbr_holder *holder : all)
        EXPECT_EQ(mbr_holder_destroy(holder, nullptr), MBR_OK);
    End<mbr_holder *>(authority, nullptr);
}

TEST(Holder_Life, DestroyWithBytesOnAnyAxis_RefusedWithFigures)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority);
    mbr_error error = NewError();

    ASSERT_EQ(mbr_grant(holder, 11, nullptr), MBR_OK);
    EXPECT_EQ(mbr_holder_destroy(holder, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("11 bytes granted"), std::string::npos) << error.text;
    mbr_charge(holder, 11);
    EXPECT_EQ(mbr_holder_destroy(holder, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("11 charged"), std::string::npos) << error.text;
    mbr_refund(holder, 11);
    mbr_mapped_add(holder, 13);
    EXPECT_EQ(mbr_holder_destroy(holder, &error), MBR_IN_USE);
    EXPECT_NE(std::string(error.text).find("13 mapped"), std::string::npos) << error.text;
    mbr_mapped_sub(holder, 13);
    End(authority, holder);
}

// A struct of an older or newer caller: no byte beyond the stated size, the rest is zero.
TEST(Snapshot_Sizes, EveryStatedSize_IsRespected)
{
    World world;
    mbr_authority *authority = world.Authority(100);
    mbr_holder *holder = world.Holder(authority);
    ASSERT_EQ(mbr_grant(holder, 40, nullptr), MBR_OK);
    mbr_authority_figures whole = Figures(authority);
    constexpr size_t kRoom = sizeof(whole) + 64;
    for (uint32_t size = 0; size <= kRoom; size++) {
        alignas(8) unsigned char bytes[kRoom + 1];
        memset(bytes, 0xA5, sizeof(bytes));
        memcpy(bytes, &size, sizeof(size));
        mbr_authority_figures_read(authority, reinterpret_cast<mbr_authority_figures *>(bytes));
        uint32_t stated;
        memcpy(&stated, bytes, sizeof(stated));
        EXPECT_EQ(stated, size);
        for (uint32_t i = sizeof(size); i <= kRoom; i++) {
            unsigned char expected = i >= size ? 0xA5
                : i < sizeof(whole)            ? reinterpret_cast<unsigned char *>(&whole)[i]
                                               : 0;
            ASSERT_EQ(bytes[i], expected) << "byte " << i << " of a struct of " << size;
        }
    }
    mbr_grant_return(holder, 40);
    End(authority, holder);
}

} // namespace
