// Two managers on one shared ledger, as two processes would be: one limit, refusals that name it,
// caches that give way; and a folder without ledgers.
#include "tests/unit/bind/host_world.h"

extern "C" {
#include "governor/shared.h"
}

#include <cstdlib>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace membrane
{
namespace
{

constexpr uint64_t kUnit = 65536;
constexpr uint64_t kLimit = 64 * kMiB;

class Shared : public testing::Test
{
  protected:
    void SetUp() override
    {
        folder = testing::TempDir() + "/ledger-XXXXXX";
        ASSERT_NE(mkdtemp(folder.data()), nullptr);
    }

    void TearDown() override { EXPECT_EQ(rmdir(folder.c_str()), 0); } // the last one removed it

    std::string folder;
};

TEST_F(Shared, TwoManagers_DivideOneLimitAndSayWhoseItIs)
{
    uint64_t now_ns = 1;
    mbr_clock clock = {[](void *context) { return *static_cast<uint64_t *>(context); }, &now_ns};
    mbr_manager_seams seams = {nullptr, &clock, nullptr, nullptr, nullptr};
    HostWorld a(kLimit, &seams, nullptr, {}, folder.c_str());
    HostWorld b(kLimit, &seams, nullptr, {}, folder.c_str());
    auto mine = a.reserve(kLimit, kUnit), theirs = b.reserve(kLimit, kUnit);
    ASSERT_EQ(a.grow(mine.range, 0, 40 * kMiB), MBR_OK) << a.error.text;
    EXPECT_EQ(a.books().leased_bytes, 40 * kMiB);
    EXPECT_EQ(b.grow(theirs.range, 0, 30 * kMiB), MBR_OVER_BUDGET);
    EXPECT_NE(strstr(b.error.text, "of the shared ledger's limit of 67108864"), nullptr)
        << b.error.text;
    EXPECT_EQ(b.books().charged_bytes, 0u);
    ASSERT_EQ(b.grow(theirs.range, 0, 24 * kMiB), MBR_OK) << b.error.text;
    EXPECT_EQ(a.release(mine.range), MBR_OK);
    EXPECT_EQ(a.books().charged_bytes, 40 * kMiB); // its cache keeps all that
    EXPECT_EQ(b.grow(theirs.range, 24 * kMiB, 20 * kMiB), MBR_OVER_BUDGET);
    now_ns += UINT64_C(1000000000); // a sample is due
    mbr_manager_poll(a.manager);    // and gives it up for the other one
    ASSERT_EQ(b.grow(theirs.range, 24 * kMiB, 20 * kMiB), MBR_OK) << b.error.text;
    EXPECT_TRUE(a.clean());
    EXPECT_TRUE(b.clean());
    EXPECT_EQ(b.release(theirs.range), MBR_OK);
}

void keep_line(void *context, uint32_t, const char *text, uint64_t bytes)
{
    static_cast<std::string *>(context)->append(text, bytes);
}

TEST_F(Shared, FolderThatTakesNone_GoesOnAloneAndSaysSo)
{
    std::string log;
    auto options = sized<mbr_manager_options>();
    options.log = keep_line;
    options.log_context = &log;
    mbr_manager *manager;
    mbr_error error = sized<mbr_error>();
    ASSERT_EQ(mbr_manager_create(&options, &manager, &error), MBR_OK);
    auto request = sized<mbr_authority_request>();
    request.tier = MBR_TIER_HOST;
    request.name = "pool";
    request.limit_bytes = kLimit;
    request.shared = "gpu0";
    request.shared_folder = "/proc/self/nothing";
    mbr_authority_handle authority;
    ASSERT_EQ(mbr_manager_create_authority(manager, &request, &authority, &error), MBR_OK);
    EXPECT_NE(log.find("authority 'pool' goes on alone: shared ledger: the folder takes none"),
        std::string::npos)
        << log;
    auto figures = sized<mbr_authority_figures>();
    ASSERT_EQ(mbr_manager_read_authority(manager, authority, &figures, &error), MBR_OK);
    EXPECT_EQ(figures.leased_bytes, MBR_UNKNOWN_BYTES);
    EXPECT_EQ(figures.limit_bytes, kLimit);
    EXPECT_EQ(mbr_manager_destroy_authority(manager, authority, &error), MBR_OK);
    EXPECT_EQ(mbr_manager_destroy(manager, &error), MBR_OK);
}

TEST_F(Shared, LedgerThatCannotBeJoined_RefusesTheAuthority)
{
    mbr_manager *manager;
    mbr_error error = sized<mbr_error>();
    ASSERT_EQ(mbr_manager_create(nullptr, &manager, &error), MBR_OK);
    auto request = sized<mbr_authority_request>();
    request.tier = MBR_TIER_HOST;
    request.name = "pool";
    request.limit_bytes = kLimit;
    request.shared = "no/name";
    request.shared_folder = folder.c_str();
    mbr_authority_handle authority;
    EXPECT_EQ(
        mbr_manager_create_authority(manager, &request, &authority, &error), MBR_INVALID_ARGUMENT);
    EXPECT_EQ(authority.value, 0u);
    EXPECT_NE(strstr(error.text, "a shared ledger's name"), nullptr) << error.text;
    request.shared = "gpu0";
    request.tier = 77; // joined already when this is seen
    EXPECT_EQ(
        mbr_manager_create_authority(manager, &request, &authority, &error), MBR_INVALID_ARGUMENT);
    request.tier = MBR_TIER_HOST;
    std::string path = folder + "/membrane-" + std::to_string(geteuid()) + "-gpu0";
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(mbr_manager_create_authority(manager, &request, &authority, &error), MBR_UNTRUSTED);
    ASSERT_EQ(rmdir(path.c_str()), 0);
    EXPECT_EQ(mbr_manager_destroy(manager, &error), MBR_OK);
}

// Without a limit of its own the first process brings what is free, less the margin.
TEST_F(Shared, OnlyMeasured_FoundsTheLedgerWithThat)
{
    HostWorld world(kLimit);
    auto request = sized<mbr_authority_request>();
    request.tier = MBR_TIER_HOST;
    request.name = "measured";
    request.limit_bytes = UINT64_MAX;
    request.margin_bytes = 64 * kMiB;
    request.measured = world.mechanism;
    request.shared = "gpu0";
    request.shared_folder = folder.c_str();
    mbr_authority_handle authority;
    ASSERT_EQ(
        mbr_manager_create_authority(world.manager, &request, &authority, &world.error), MBR_OK)
        << world.error.text;
    mbr_shared_place place = {"gpu0", folder.c_str(), nullptr, nullptr};
    mbr_shared_figures ledger;
    ASSERT_EQ(mbr_shared_read(&place, &ledger, &world.error), MBR_OK) << world.error.text;
    EXPECT_GT(ledger.limit_bytes, kMiB);
    EXPECT_LE(ledger.limit_bytes, world.figures().total_bytes - 64 * kMiB);
    EXPECT_EQ(mbr_manager_destroy_authority(world.manager, authority, &world.error), MBR_OK);
}

} // namespace
} // namespace membrane
