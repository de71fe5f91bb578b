// What is not to be trusted of a shared ledger: pages, files and folders; and system calls that
// fail.
#include "tests/unit/governor/shared_world.h"

using namespace governor_test;

namespace
{

std::vector<unsigned char> Bytes(const std::string &path)
{
    std::vector<unsigned char> bytes(8192);
    int file = open(path.c_str(), O_RDONLY);
    ssize_t got = read(file, bytes.data(), bytes.size());
    close(file);
    bytes.resize(static_cast<size_t>(got));
    return bytes;
}

void Put(const std::string &path, const std::vector<unsigned char> &bytes)
{
    int file = open(path.c_str(), O_WRONLY);
    EXPECT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes.size())), 0);
    close(file);
}

void ExpectRefused(SharedWorld &world, mbr_status status, const char *says)
{
    mbr_shared *shared;
    mbr_shared_figures figures;
    uint64_t over;
    mbr_shared_place place = world.Place();
    std::vector<unsigned char> before = Bytes(world.folder.File(kLedger));
    EXPECT_EQ(world.TryJoin(kLimit, &shared), status) << world.error.text;
    EXPECT_NE(strstr(world.error.text, says), nullptr) << world.error.text;
    EXPECT_EQ(strchr(world.error.text, '\n'), nullptr);
    EXPECT_EQ(shared, nullptr);
    EXPECT_EQ(mbr_shared_read(&place, &figures, &world.error), status);
    EXPECT_EQ(figures.leased_bytes, 0u);
    EXPECT_EQ(mbr_shared_set_limit(&place, 1, &over, &world.error), status);
    EXPECT_EQ(Bytes(world.folder.File(kLedger)), before); // it is not ours to mend
}

TEST(Shared_Page, OneBitFlippedAnywhere_Refused)
{
    SharedWorld world;
    LeaseAndDie(world, kChunk);
    const std::vector<unsigned char> good = Bytes(world.folder.File(kLedger));
    ASSERT_EQ(good.size(), sizeof(mbr_shared_page));
    mbr_shared_page page;
    memcpy(&page, good.data(), sizeof(page));
    ASSERT_EQ(mbr_shared_page_check(&page, sizeof(page), "", nullptr), MBR_OK);
    for (size_t bit = 0; bit < 8 * sizeof(page); bit++) {
        unsigned char *byte = reinterpret_cast<unsigned char *>(&page) + bit / 8;
        *byte = static_cast<unsigned char>(*byte ^ 1 << bit % 8);
        mbr_status status = mbr_shared_page_check(&page, sizeof(page), "", nullptr);
        EXPECT_TRUE(status == MBR_UNTRUSTED || status == MBR_VERSION_MISMATCH) << bit;
        *byte = good[bit / 8];
    }
}

TEST(Shared_Page, OtherSizesVersionsAndNoise_RefusedInOneLine)
{
    SharedWorld world;
    LeaseAndDie(world, kChunk);
    std::string path = world.folder.File(kLedger);
    const std::vector<unsigned char> good = Bytes(path);
    for (size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{2048}, size_t{4095}}) {
        Put(path, std::vector<unsigned char>(good.begin(), good.begin() + static_cast<long>(size)));
        ExpectRefused(world, MBR_UNTRUSTED, "bytes instead of 4096");
    }
    std::vector<unsigned char> bad = good;
    bad.push_back(0);
    Put(path, bad);
    ExpectRefused(world, MBR_UNTRUSTED, "4097 bytes instead of 4096");
    Put(path, std::vector<unsigned char>(4096, 0));
    ExpectRefused(world, MBR_UNTRUSTED, "no shared ledger");
    for (unsigned seed = 1; seed < 200; seed++) {
        srand(seed);
        for (unsigned char &byte : bad)
            byte = static_cast<unsigned char>(rand());
        bad.resize(4096);
        Put(path, bad);
        ExpectRefused(world, MBR_UNTRUSTED, "no shared ledger");
        std::copy(good.begin(), good.begin() + 64, bad.begin()); // a good head
        Put(path, bad);
        ExpectRefused(world, MBR_UNTRUSTED, "record 0 makes no sense");
    }
    mbr_shared_page page;
    for (int i = 0; i < 2; i++) { // a later version knows how to sum
        memcpy(&page, good.data(), sizeof(page));
        (i == 0 ? page.head.version : page.head.page_bytes)++;
        mbr_shared_head_seal(&page.head);
        auto *first = reinterpret_cast<unsigned char *>(&page);
        Put(path, std::vector<unsigned char>(first, first + sizeof(page)));
        ExpectRefused(world, MBR_VERSION_MISMATCH, "let all members run one version");
    }
}

// With right checksums, and no sense all the same.
TEST(Shared_Page, SealedButImpossible_Refused)
{
    SharedWorld world;
    LeaseAndDie(world, kChunk);
    std::string path = world.folder.File(kLedger);
    std::vector<unsigned char> good = Bytes(path);
    const std::function<void(mbr_shared_page *)> wrongs[] = {
        [](mbr_shared_page *page) { page->head.limit_bytes = UINT64_C(1) << 63; },
        [](mbr_shared_page *page) { page->records[0].leased_bytes = UINT64_C(1) << 63; },
        [](mbr_shared_page *page) { page->records[0].leased_bytes = UINT64_MAX; },
        [](mbr_shared_page *page) { page->records[5].leased_bytes = 1; }, // nobody's
        [](mbr_shared_page *page) { page->records[0].reserved = 1; },
        [](mbr_shared_page *page) { // each is possible, their sum is not
            for (int i = 0; i < 2; i++) {
                page->records[i].member = 1;
                page->records[i].leased_bytes = UINT64_C(3) << 61;
            }
        },
        [](mbr_shared_page *page) { page->records[7] = page->records[0]; }, // at another's place
    };
    for (size_t i = 0; i < std::size(wrongs); i++) {
        mbr_shared_page page;
        memcpy(&page, good.data(), sizeof(page));
        wrongs[i](&page);
        mbr_shared_head_seal(&page.head);
        for (uint32_t at = 0; at < MBR_SHARED_MEMBER_LIMIT_COUNT; at++)
            if (i != 6 || at != 7)
                mbr_shared_record_seal(&page.records[at], at);
        auto *first = reinterpret_cast<unsigned char *>(&page);
        Put(path, std::vector<unsigned char>(first, first + sizeof(page)));
        ExpectRefused(world, MBR_UNTRUSTED, "a damaged shared ledger");
    }
}

TEST(Shared_File, OwnerModeAndKind_Refused)
{
    SharedWorld world;
    mbr_shared *member = world.Join(kLimit), *shared;
    std::string path = world.folder.File(kLedger);
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
    ExpectRefused(world, MBR_UNTRUSTED, "open to others (mode 640); 600 would be trusted");
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
    world.os.after_stat = [](struct stat *status) { status->st_uid++; };
    ExpectRefused(world, MBR_UNTRUSTED, "only its creator may use");
    world.os.after_stat = nullptr;
    mbr_shared_leave(member);
    ASSERT_EQ(symlink("/etc/hostname", path.c_str()), 0);
    EXPECT_EQ(world.TryJoin(kLimit, &shared), MBR_UNTRUSTED) << world.error.text;
    ASSERT_EQ(unlink(path.c_str()), 0);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(world.TryJoin(kLimit, &shared), MBR_UNTRUSTED) << world.error.text;
    mbr_shared_figures figures;
    mbr_shared_place place = world.Place();
    EXPECT_EQ(mbr_shared_read(&place, &figures, nullptr), MBR_UNTRUSTED); // and does not wait
    ASSERT_EQ(unlink(path.c_str()), 0);
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(world.TryJoin(kLimit, &shared), MBR_UNTRUSTED) << world.error.text;
    ASSERT_EQ(rmdir(path.c_str()), 0);
}

TEST(Shared_File, FolderThatTakesNone_UnsupportedAndNothingLeft)
{
    SharedWorld world;
    mbr_shared *shared;
    mbr_shared_place place = world.Place();
    place.folder = "/proc/self/nothing";
    EXPECT_EQ(mbr_shared_join(&place, nullptr, 1, &shared, &world.error), MBR_UNSUPPORTED);
    EXPECT_NE(strstr(world.error.text, "/proc/self/nothing/membrane-"), nullptr);
    EXPECT_EQ(world.error.native_code, ENOENT);
    for (int error : {EROFS, EACCES, ENOSPC, EDQUOT}) {
        world.os.calls = 0;
        world.os.at = 1; // open
        world.os.what = OsSeam::kFail;
        world.os.error = error;
        EXPECT_EQ(world.TryJoin(kLimit, &shared), MBR_UNSUPPORTED) << world.error.text;
        EXPECT_EQ(world.error.native_code, error);
        EXPECT_NE(strstr(world.error.text, "the folder takes none"), nullptr) << world.error.text;
    }
    world.os.calls = 0;
    world.os.at = 7; // open; lock, stat, unlock; lock, stat and the first write
    world.os.error = ENOSPC;
    EXPECT_EQ(world.TryJoin(kLimit, &shared), MBR_UNSUPPORTED) << world.error.text;
    EXPECT_NE(strstr(world.error.text, "cannot be written"), nullptr) << world.error.text;
    EXPECT_TRUE(world.folder.Files().empty());
}

// While it runs: what is leased stays, more is refused with the reason, nobody is misled.
TEST(Shared_File, DamagedOrRemovedWhileAMemberRuns_NoMoreIsLeased)
{
    SharedWorld world;
    mbr_shared_view view;
    std::string path = world.folder.File(kLedger);
    mbr_shared *shared = world.Join(kLimit);
    ASSERT_EQ(mbr_shared_lease(shared, 1, 0, &view, nullptr), MBR_OK);
    std::vector<unsigned char> good = Bytes(path), bad = good;
    bad[64] ^= 1;
    Put(path, bad);
    EXPECT_EQ(mbr_shared_lease(shared, 1, 0, &view, &world.error), MBR_UNTRUSTED);
    EXPECT_EQ(view.own_bytes, 0u);
    Put(path, good);
    ASSERT_EQ(mbr_shared_lease(shared, kChunk + 1, 0, &view, &world.error), MBR_OK);
    EXPECT_EQ(view.own_bytes, 3 * kChunk);
    Put(path, good); // an old state: a sound page, but not what this member wrote
    EXPECT_EQ(mbr_shared_return(shared, 1, 0, &view, &world.error), MBR_UNTRUSTED);
    EXPECT_NE(strstr(world.error.text, "record 0 is not what this member wrote"), nullptr);
    EXPECT_EQ(truncate(path.c_str(), 100), 0);
    EXPECT_EQ(mbr_shared_look(shared, kAny, 0, &view, nullptr), MBR_UNTRUSTED);
    ASSERT_EQ(unlink(path.c_str()), 0);
    EXPECT_EQ(mbr_shared_look(shared, kAny, 0, &view, &world.error), MBR_STALE);
    EXPECT_NE(strstr(world.error.text, "was removed"), nullptr) << world.error.text;
    mbr_shared *other = world.Join(kLimit); // a ledger of its own
    mbr_shared_leave(shared);
    EXPECT_EQ(world.Read().member_count, 1u); // the old one's leave did not touch it
    mbr_shared_leave(other);
}

// Every system call fails once: what the member believes is what stands in the page, and after it
// all goes on.
TEST(Shared_Fault, EachCallFailsOnce_PageAndMemberAgree)
{
    int failures = 0;
    for (int at = 1;; at++) {
        SharedWorld world;
        mbr_shared *other = world.Join(kLimit);
        LeaseAndDie(world, kChunk);
        world.os.calls = 0;
        world.os.at = at;
        world.os.what = OsSeam::kFail;
        mbr_shared *shared = nullptr;
        mbr_shared_view view;
        bool good = world.TryJoin(kLimit, &shared) == MBR_OK;
        uint64_t believed = 0;
        auto track = [&](mbr_status status, uint64_t after) {
            good &= status == MBR_OK;
            if (status == MBR_OK)
                believed = after;
        };
        if (shared != nullptr) {
            mbr_status leased = mbr_shared_lease(shared, 3 * kChunk, 0, &view, nullptr);
            track(leased, view.own_bytes);
            track(mbr_shared_look(shared, kAny, 1, &view, nullptr), believed);
            if (leased == MBR_OK)
                track(mbr_shared_return(shared, kChunk, 0, &view, nullptr), believed - kChunk);
        }
        world.os.what = OsSeam::kNothing;
        bool reached = world.os.calls >= at;
        EXPECT_EQ(world.Read().leased_bytes, believed + kChunk) << at;
        world.os.what = OsSeam::kFail;
        mbr_shared_leave(shared);
        reached |= world.os.calls >= at;
        world.os.what = OsSeam::kNothing;
        world.clock.now_ns += MBR_SHARED_GONE_NS;
        for (int i = 0; i < 2; i++) { // see those who left without a word, then wait a second
            EXPECT_EQ(mbr_shared_look(other, kAny, 0, &view, &world.error), MBR_OK) << at;
            world.clock.now_ns += MBR_SHARED_GONE_NS;
        }
        EXPECT_EQ(world.Leasable(other), kLimit) << at;
        mbr_shared_leave(other);
        failures += !good;
        if (!reached)
            break;
        ASSERT_LT(at, 200);
    }
    EXPECT_GE(failures, 15);
}

} // namespace
