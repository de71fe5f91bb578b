// Every system call and every heap call of a scenario fails: once and for good, before and after
// its effect, alone and while nobody can look into the address space. After each answer the books
// equal st_blocks, and once the fault is gone everything can be given back and the scenario works.
#include "tests/unit/plugins_host/mechanism.h"

extern "C" {
#include "plugins/host/core.h"
}

#include <fcntl.h>
#include <sys/mman.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>

using namespace host_test;

namespace
{

constexpr uint64_t G = 65536;

enum Call {
    kMmap,
    kMunmap,
    kMprotect,
    kMadvise,
    kFileCreate,
    kFileClose,
    kFileTruncate,
    kFileAllocate,
    kFileOwned,
    kFileSizeLimit,
    kMemory,
    kInspect,
    kHeap,
    kCallCount
};

enum Scope {
    kOnce,     // the nth call
    kSameKind, // and every later one of its kind
    kAll       // and every later one
};

struct Plan {
    int nth = -1; // of all calls, from 0; -1: none fails
    Scope scope = kOnce;
    bool after_effect = false;
    int code = ENOMEM;
    bool blind = false; // what looks at the state fails as well

    // The system can be asked what is left.
    bool can_look() const { return !blind && scope != kAll; }
};

// Linux with a plan of faults, and a count of what was called.
class FaultyOs
{
  public:
    FaultyOs()
    {
        mbr_host_os_linux(&real);
        os.context = this;
        os.page_bytes = real.page_bytes;
        os.mmap = [](void *self, uint64_t *address, uint64_t bytes, int protection, int flags,
                      int file, uint64_t offset) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(kMmap, [&] {
                int code = me.real.mmap(nullptr, address, bytes, protection, flags, file, offset);
                // A place that nobody was told of cannot be given back: such a fault is "before".
                if (me.failing && code == 0 && !(flags & MAP_FIXED))
                    me.real.munmap(nullptr, *address, bytes);
                return code;
            });
        };
        os.munmap = [](void *self, uint64_t address, uint64_t bytes) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(kMunmap, [&] { return me.real.munmap(nullptr, address, bytes); });
        };
        os.mprotect = [](void *self, uint64_t address, uint64_t bytes, int protection) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(
                kMprotect, [&] { return me.real.mprotect(nullptr, address, bytes, protection); });
        };
        os.madvise = [](void *self, uint64_t address, uint64_t bytes, int advice) {
            auto &me = *static_cast<FaultyOs *>(self);
            if (me.old_kernel && advice >= MADV_POPULATE_READ)
                return EINVAL;
            return me.call(
                kMadvise, [&] { return me.real.madvise(nullptr, address, bytes, advice); });
        };
        os.file_create = [](void *self, int *file, uint64_t *inode) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(kFileCreate, [&] {
                int code = me.real.file_create(nullptr, file, inode);
                if (me.failing && code == 0)
                    me.real.file_close(nullptr, *file);
                return code;
            });
        };
        os.file_close = [](void *self, int file) {
            auto &me = *static_cast<FaultyOs *>(self);
            me.real.file_close(nullptr, file); // whatever close answers
            return me.call(kFileClose, [] { return 0; });
        };
        os.file_truncate = [](void *self, int file, uint64_t bytes) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(
                kFileTruncate, [&] { return me.real.file_truncate(nullptr, file, bytes); });
        };
        os.file_allocate = [](void *self, int file, int mode, uint64_t offset, uint64_t bytes) {
            auto &me = *static_cast<FaultyOs *>(self);
            if (mode == 0 && me.interrupted_above && bytes > me.interrupted_above)
                return EINTR;
            return me.call(kFileAllocate,
                [&] { return me.real.file_allocate(nullptr, file, mode, offset, bytes); });
        };
        os.file_owned = [](void *self, int file, uint64_t *bytes) {
            auto &me = *static_cast<FaultyOs *>(self);
            if (me.plan.nth >= 0 && me.plan.blind)
                return EMFILE;
            return me.call(kFileOwned, [&] { return me.real.file_owned(nullptr, file, bytes); });
        };
        os.file_size_limit = [](void *self, uint64_t *limit) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(kFileSizeLimit, [&] { return me.real.file_size_limit(nullptr, limit); });
        };
        os.memory = [](void *self, uint64_t *total, uint64_t *available) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(kMemory, [&] {
                // Asked after each step: /proc/meminfo would be most of the test's time.
                if (me.total == 0 && me.real.memory(nullptr, &me.total, &me.available) != 0)
                    return EIO;
                *total = me.total;
                *available = me.available;
                return 0;
            });
        };
        os.inspect = [](void *self, uint64_t address, uint64_t bytes, uint64_t inode,
                         mbr_host_range *range) {
            auto &me = *static_cast<FaultyOs *>(self);
            if (me.plan.nth >= 0 && me.plan.blind)
                return EMFILE;
            return me.call(kInspect, [&] {
                int code = me.real.inspect(nullptr, address, bytes, inode, range);
                if (me.many_mappings)
                    range->mapping_count = range->mapping_count_limit;
                return code;
            });
        };
        heap.context = this;
        heap.allocate = [](void *self, size_t bytes) -> void * {
            auto &me = *static_cast<FaultyOs *>(self);
            if (me.call(kHeap, [] { return 0; }) != 0)
                return nullptr;
            me.blocks++;
            return calloc(1, bytes);
        };
        heap.release = [](void *self, void *memory) {
            static_cast<FaultyOs *>(self)->blocks -= memory != nullptr;
            free(memory);
        };
    }

    template <typename Effect> int call(Call kind, Effect effect)
    {
        int number = call_count++;
        called[kind]++;
        failing = plan.nth >= 0 &&
            (number == plan.nth ||
                (number > plan.nth &&
                    (plan.scope == kAll || (plan.scope == kSameKind && kind == hit))));
        if (!failing)
            return effect();
        hit = hit < 0 ? kind : hit;
        if (plan.after_effect)
            effect();
        failing = false;
        return plan.code;
    }

    void arm(const Plan &next)
    {
        plan = next;
        call_count = 0;
        hit = -1;
    }

    Mechanism open(const Options &options)
    {
        std::vector<mbr_option> list;
        for (const auto &[key, value] : options)
            list.push_back({key.c_str(), value.c_str()});
        auto request = sized<mbr_open_request>();
        request.mechanism = "host";
        request.option_count = (uint32_t)list.size();
        request.options = list.data();
        auto outcome = sized<mbr_open_outcome>();
        error = sized<mbr_error>();
        open_status = mbr_host_open(&os, &heap, &request, &outcome, &error);
        EXPECT_EQ(open_status == MBR_OK, outcome.instance != nullptr);
        if (open_status != MBR_OK)
            return {};
        return {&mbr_host_plugin, outcome.instance};
    }

    mbr_host_os real, os;
    mbr_heap heap;
    uint64_t total = 0, available = 0;
    Plan plan;
    int call_count = 0, hit = -1;
    long blocks = 0;
    std::map<int, int> called;
    bool failing = false;
    bool many_mappings = false;     // the process is at its limit
    bool old_kernel = false;        // without MADV_POPULATE_…
    uint64_t interrupted_above = 0; // fallocate of more bytes gives EINTR
    mbr_status open_status = MBR_OK;
    mbr_error error;
};

// The second set of books: kept from outcomes alone.
struct Books {
    uint64_t owned = 0, mapped = 0, file_owned = 0;
    std::map<uint64_t, uint64_t> extents;                          // what each still owns
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> allocations; // address, owned
    std::set<uint64_t> reservations;
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> mappings; // (reservation, offset): bytes
};

// Plays a scenario through the slots and keeps the books. Nothing here knows of faults.
class Player
{
  public:
    Player(FaultyOs &world, const Options &options) : world(world)
    {
        populated = options.empty() || options[0].first != "populate";
        host = world.open(options);
        is_open = world.open_status == MBR_OK;
    }

    bool scenario();
    void try_giving_back(); // while the fault may last
    void give_all_back();
    void close();

    FaultyOs &world;
    Mechanism host;
    Books books;
    bool is_open = false, populated = true;
    bool exact = true;              // no answer so far was an upper bound
    std::map<uint32_t, int> states; // of failed slots

  private:
    // Books an answer and compares them with the plugin's figures and the system's.
    bool settle(const Result &result)
    {
        const mbr_outcome &outcome = result.outcome;
        if (!result.ok()) {
            states[outcome.state]++;
            EXPECT_TRUE(result.status == MBR_RESIDUAL || outcome.state != MBR_STATE_QUARANTINED);
        }
        books.owned += outcome.newly_owned_bytes - outcome.released_bytes;
        books.mapped += outcome.newly_mapped_bytes - outcome.unmapped_bytes;
        Plan plan = world.plan; // the questions are not part of the scenario
        int call_count = world.call_count, hit = world.hit;
        world.plan = Plan();
        mbr_mechanism_stats stats = host.stats();
        EXPECT_EQ(stats.owned_bytes, books.owned) << result.error.text;
        EXPECT_EQ(stats.mapped_bytes, books.mapped) << result.error.text;
        // Exact as long as the system tells what is left; otherwise never below it.
        uint64_t physical = 0;
        EXPECT_EQ(world.real.file_owned(nullptr, host.instance->file, &physical), 0);
        if (populated && plan.can_look() && exact)
            EXPECT_EQ(physical, books.file_owned) << result.error.text;
        else
            EXPECT_LE(physical, books.file_owned) << result.error.text;
        exact = exact && plan.can_look();
        world.plan = plan;
        world.call_count = call_count;
        world.hit = hit;
        return result.ok();
    }

    bool create(uint64_t id, uint64_t bytes)
    {
        Result result = host.create(id, bytes);
        if (result.outcome.newly_owned_bytes > 0)
            books.extents[id] = result.outcome.newly_owned_bytes;
        books.file_owned += result.outcome.newly_owned_bytes;
        return settle(result);
    }
    bool destroy(uint64_t id)
    {
        Result result = host.destroy(id);
        books.file_owned -= result.outcome.released_bytes;
        books.extents[id] -= result.outcome.released_bytes;
        if (result.ok()) {
            EXPECT_EQ(books.extents[id], 0u);
            books.extents.erase(id);
        } else if (result.outcome.state == MBR_STATE_PARTIAL) {
            EXPECT_EQ(result.outcome.residual_owned_bytes, books.extents[id]);
        }
        return settle(result);
    }
    bool reserve(uint64_t id, uint64_t bytes, uint64_t align = 0)
    {
        Result result = host.reserve(id, bytes, align);
        if (result.ok()) {
            books.reservations.insert(id);
            base[id] = result.outcome.address;
        }
        return settle(result);
    }
    bool unreserve(uint64_t id)
    {
        Result result = host.unreserve(id);
        if (result.ok())
            books.reservations.erase(id);
        return settle(result);
    }
    bool mapped(uint64_t reservation, uint64_t offset, const Result &result)
    {
        uint64_t bytes = result.outcome.newly_mapped_bytes;
        if (bytes > 0)
            books.mappings[{reservation, offset}] = bytes;
        return settle(result);
    }
    bool map(uint64_t reservation, uint64_t offset, uint64_t extent)
    {
        return mapped(reservation, offset, host.map(reservation, offset, extent));
    }
    bool share(uint64_t reservation, uint64_t offset, uint64_t extent, uint32_t access)
    {
        return mapped(reservation, offset, host.map_shared(reservation, offset, extent, access));
    }
    bool protect(uint64_t reservation, uint64_t offset, uint64_t bytes, uint32_t access)
    {
        Result result = host.protect(reservation, offset, bytes, access);
        // All or nothing, unless it says PARTIAL: the MMU holds what query tells.
        mbr_query_outcome at;
        EXPECT_EQ(host.query(reservation, offset, &at), MBR_OK);
        if (result.outcome.state != MBR_STATE_PARTIAL) {
            EXPECT_EQ(can_read(base[reservation] + offset), at.access != MBR_ACCESS_NONE);
            EXPECT_EQ(can_write(base[reservation] + offset), at.access == MBR_ACCESS_READ_WRITE);
        }
        return settle(result);
    }
    bool unmap(uint64_t reservation, uint64_t offset, uint64_t bytes)
    {
        Result result = host.unmap(reservation, offset, bytes);
        if (result.ok())
            for (auto at = books.mappings.lower_bound({reservation, offset});
                 at != books.mappings.end() && at->first < std::pair(reservation, offset + bytes);)
                at = books.mappings.erase(at);
        return settle(result);
    }
    bool allocate(uint64_t id, uint64_t bytes, uint64_t align)
    {
        Result result = host.allocate(id, bytes, align);
        if (result.outcome.newly_owned_bytes > 0)
            books.allocations[id] = {result.outcome.address, result.outcome.newly_owned_bytes};
        if (result.ok())
            memset(reinterpret_cast<void *>(result.outcome.address), 1, bytes);
        return settle(result);
    }
    bool release(uint64_t id)
    {
        Result result = host.release(id, books.allocations[id].first);
        if (result.ok())
            books.allocations.erase(id);
        return settle(result);
    }
    bool write(uint64_t reservation, uint64_t offset, uint64_t value)
    {
        word(base[reservation] + offset) = value;
        return true;
    }
    bool reads(uint64_t reservation, uint64_t offset, uint64_t value)
    {
        EXPECT_EQ(word(base[reservation] + offset), value);
        return true;
    }

    std::map<uint64_t, uint64_t> base;
};

// Everything that the plugin can do; ends at the first failure. Ids rise.
bool Player::scenario()
{
    return is_open && reserve(1, 16 * G) && reserve(2, 16 * G, 1 << 20) && create(10, G) &&
        create(11, 2 * G) && create(12, G) && map(1, 0, 10) && map(1, G, 11) && map(1, 3 * G, 12) &&
        protect(1, 0, 4 * G, MBR_ACCESS_READ_WRITE) && write(1, 0, 10) && write(1, G, 11) &&
        write(1, 3 * G, 12) && share(2, 0, 10, MBR_ACCESS_READ) &&
        share(2, G, 11, MBR_ACCESS_READ_WRITE) && reads(2, 0, 10) && reads(2, G, 11) &&
        protect(1, G, 2 * G, MBR_ACCESS_READ) && protect(1, G, 3 * G, MBR_ACCESS_NONE) &&
        unmap(1, G, 2 * G) && reads(2, G, 11) && unmap(2, 0, 3 * G) && destroy(11) &&
        create(13, 3 * G) && map(2, 0, 13) && protect(2, 0, 3 * G, MBR_ACCESS_READ_WRITE) &&
        reads(2, 0, 0) && write(2, 0, 13) && allocate(20, 3 * G, 0) &&
        allocate(21, 5000, 1 << 20) && unmap(1, 0, G) && map(2, 3 * G, 10) &&
        protect(2, 3 * G, G, MBR_ACCESS_READ) && reads(2, 3 * G, 10) && release(20) &&
        release(21) && unmap(1, 3 * G, G) && unreserve(1) && unmap(2, 0, 4 * G) && destroy(10) &&
        destroy(12) && destroy(13) && unreserve(2);
}

void Player::try_giving_back()
{
    Books held = books;
    for (const auto &[place, bytes] : held.mappings)
        unmap(place.first, place.second, bytes);
    for (uint64_t id : held.reservations)
        unreserve(id);
    for (const auto &[id, bytes] : held.extents)
        destroy(id);
    for (const auto &[id, allocation] : held.allocations)
        release(id);
}

void Player::give_all_back()
{
    while (!books.mappings.empty()) {
        auto [place, bytes] = *books.mappings.begin();
        ASSERT_TRUE(unmap(place.first, place.second, bytes));
    }
    while (!books.reservations.empty())
        ASSERT_TRUE(unreserve(*books.reservations.begin()));
    while (!books.extents.empty())
        ASSERT_TRUE(destroy(books.extents.begin()->first));
    while (!books.allocations.empty())
        ASSERT_TRUE(release(books.allocations.begin()->first));
    EXPECT_EQ(file_bytes(), 0u);
}

void Player::close()
{
    if (is_open) {
        Result result = host.close();
        EXPECT_TRUE(result.ok()) << result.error.text;
    }
    EXPECT_EQ(world.blocks, 0);
    EXPECT_TRUE(memory_files().empty());
}

struct Tally {
    int faults = 0;
    std::map<int, int> hits; // by kind of call
    std::map<uint32_t, int> states;
};

// One fault, everything checked. False once the plan lies behind the scenario's end.
bool play(const Options &options, const Plan &plan, Tally &tally)
{
    const char *scopes[] = {"", " and later ones like it", " and all later"};
    SCOPED_TRACE("call " + std::to_string(plan.nth) + scopes[plan.scope] +
        (plan.after_effect ? " after" : " before") + (plan.blind ? ", blind" : "") + " with " +
        strerrorname_np(plan.code));
    FaultyOs world;
    world.arm(plan);
    Player player(world, options);
    bool worked = player.scenario();
    int hit = world.hit;
    if (player.is_open && !worked) {
        // Some of it may fail again while the fault lasts; without it nothing may.
        player.try_giving_back();
        world.arm(Plan());
        player.give_all_back();
        EXPECT_TRUE(player.scenario()) << "the scenario does not work after the fault";
        for (const auto &[state, count] : player.states)
            tally.states[state] += count;
    }
    if (hit < 0 && player.is_open) { // a fault of close counts too
        player.close();
        hit = world.hit;
    } else {
        world.arm(Plan());
        player.close();
    }
    if (hit < 0)
        return false;
    tally.faults++;
    tally.hits[hit]++;
    return !testing::Test::HasFailure();
}

void sweep(const Options &options, Tally &tally)
{
    for (int code : {ENOMEM, EPERM})
        for (Scope scope : {kOnce, kSameKind, kAll})
            for (bool after_effect : {false, true})
                for (bool blind : {false, true})
                    for (int nth = 0; play(options, {nth, scope, after_effect, code, blind}, tally);
                         nth++)
                        ;
}

} // namespace

TEST(HostFaults, EveryCallFailing_LeavesExactBooksAndAUsableMechanism)
{
    Tally tally;
    sweep({}, tally);
    ASSERT_FALSE(HasFailure());
    std::cout << tally.faults << " faults\n";
    EXPECT_GE(tally.faults, 1968); // 82 calls in 24 ways
    // Every kind of call was failed, except those that only this mode does not make.
    for (int kind = 0; kind < kCallCount; kind++)
        if (kind != kFileTruncate && kind != kInspect && kind != kFileOwned) {
            EXPECT_GT(tally.hits[kind], 0) << kind;
        }
    EXPECT_GT(tally.states[MBR_STATE_UNCHANGED], 0);
    EXPECT_GT(tally.states[MBR_STATE_PARTIAL], 0);
    EXPECT_GT(tally.states[MBR_STATE_QUARANTINED], 0);
}

TEST(HostFaults, EveryCallFailingWithoutPopulate_LeavesExactBooks)
{
    Tally tally;
    sweep({{"populate", "0"}, {"huge", "advise"}}, tally);
    ASSERT_FALSE(HasFailure());
    EXPECT_GE(tally.faults, 1992); // 83 calls in 24 ways
    EXPECT_GT(tally.hits[kFileTruncate], 0);
}

// ---- What a failure means -------------------------------------------------------------------

namespace
{

// A mechanism in which exactly one kind of call fails from now on.
class HostErrors : public testing::Test
{
  protected:
    void SetUp() override
    {
        host = world.open({});
        ASSERT_EQ(world.open_status, MBR_OK);
        ASSERT_TRUE(host.reserve(1, 16 * G).ok());
        ASSERT_TRUE(host.create(10, 2 * G).ok());
        ASSERT_TRUE(host.create(11, G).ok());
        Result first = host.allocate(12, 1); // the tables have their memory from now on
        ASSERT_TRUE(host.release(12, first.outcome.address).ok());
    }
    void TearDown() override
    {
        heal();
        mbr_query_outcome at;
        for (uint64_t offset = 0; host.query(1, offset, &at) == MBR_OK;
             offset = at.offset_bytes + at.bytes)
            if (at.extent_id) {
                EXPECT_TRUE(host.unmap(1, at.offset_bytes, at.bytes).ok());
            }
        EXPECT_TRUE(host.unreserve(1).ok());
        EXPECT_TRUE(host.destroy(10).ok());
        EXPECT_TRUE(host.destroy(11).ok());
        expect_empty_and_close(host);
        EXPECT_EQ(world.blocks, 0);
    }
    void fail_next(int code, Scope scope = kOnce, bool after_effect = false)
    {
        world.arm({0, scope, after_effect, code, false});
    }
    void heal() { world.arm(Plan()); }

    FaultyOs world;
    Mechanism host;
};

} // namespace

TEST_F(HostErrors, NoMemoryAtTheLimitOfMappings_IsAStatusOfItsOwn)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    world.many_mappings = true;
    auto expect = [&](const Result &result) {
        EXPECT_EQ(result.status, MBR_OUT_OF_MAPPINGS) << result.error.text;
        EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
        EXPECT_NE(strstr(result.error.text, "max_map_count"), nullptr) << result.error.text;
        EXPECT_EQ(result.error.native_code, ENOMEM);
        heal();
    };
    // The heap's records come first in these slots: they are call 0, the system call is call 1.
    world.arm({1, kOnce, false, ENOMEM, false});
    expect(host.reserve(2, G));
    world.arm({1, kOnce, false, ENOMEM, false});
    expect(host.map(1, 4 * G, 11));
    world.arm({1, kOnce, false, ENOMEM, false});
    expect(host.map_shared(1, 4 * G, 10, MBR_ACCESS_READ));
    world.arm({1, kOnce, false, ENOMEM, false});
    expect(host.allocate(20, 1));
    fail_next(ENOMEM);
    expect(host.protect(1, 0, 2 * G, MBR_ACCESS_READ));
    fail_next(ENOMEM);
    expect(host.unmap(1, 0, 2 * G));
    EXPECT_TRUE(host.unmap(1, 0, 2 * G).ok());
    fail_next(ENOMEM);
    expect(host.unreserve(1));
}

TEST_F(HostErrors, NoMemoryBelowTheLimitOfMappings_SaysWhatIsExhausted)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    world.arm({1, kOnce, false, ENOMEM, false});
    EXPECT_EQ(host.reserve(2, G).status, MBR_OUT_OF_ADDRESSES);
    world.arm({1, kOnce, false, ENOMEM, false});
    EXPECT_EQ(host.map(1, 4 * G, 11).status, MBR_OUT_OF_MEMORY);
    world.arm({1, kOnce, false, ENOMEM, false});
    EXPECT_EQ(host.allocate(20, 1).status, MBR_OUT_OF_MEMORY);
    fail_next(ENOMEM);
    EXPECT_EQ(host.protect(1, 0, 2 * G, MBR_ACCESS_READ).status, MBR_OUT_OF_MEMORY);
    fail_next(EPERM);
    Result result = host.unmap(1, 0, 2 * G);
    EXPECT_EQ(result.status, MBR_SYSTEM);
    EXPECT_EQ(result.error.native_code, EPERM);
    EXPECT_EQ(result.error.native_domain, (uint32_t)MBR_NATIVE_ERRNO);
    EXPECT_NE(strstr(result.error.text, "EPERM"), nullptr);
}

TEST_F(HostErrors, FallocateFailures_HaveTheirStatusAlsoAtTheLimitOfMappings)
{
    world.many_mappings = true;
    const struct {
        int code;
        mbr_status status;
    } cases[] = {{ENOMEM, MBR_OUT_OF_MEMORY}, {ENOSPC, MBR_OUT_OF_MEMORY},
        {EFBIG, MBR_FILE_SIZE_LIMIT}, {EPERM, MBR_SYSTEM}, {12345, MBR_SYSTEM}};
    for (const auto &one : cases) {
        world.arm({2, kOnce, false, one.code, false}); // after the record and RLIMIT_FSIZE
        Result result = host.create(20, G);
        EXPECT_EQ(result.status, one.status) << result.error.text;
        EXPECT_EQ(result.error.asked_bytes, G);
        EXPECT_EQ(host.destroy(20).status, MBR_UNKNOWN_OBJECT);
    }
    heal();
}

TEST_F(HostErrors, CreateWhoseUndoFails_LeavesABrokenExtentThatOnlyDestroyTakes)
{
    world.arm({2, kAll, true, EPERM, false}); // pages taken, and the hole's blocks cannot be asked
    Result result = host.create(20, 2 * G);
    heal();
    EXPECT_EQ(result.status, MBR_RESIDUAL);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_PARTIAL);
    EXPECT_EQ(result.outcome.residual_owned_bytes, 2 * G); // nobody could tell
    EXPECT_EQ(host.stats().owned_bytes, 5 * G);
    EXPECT_EQ(host.map(1, 0, 20).status, MBR_BUSY);
    result = host.destroy(20);
    EXPECT_TRUE(result.ok());
    EXPECT_EQ(result.outcome.released_bytes, 2 * G);
    EXPECT_EQ(file_bytes(), 3 * G);
}

TEST_F(HostErrors, DestroyThatFailedBeforeItsEffect_ChangesNothing)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    ASSERT_TRUE(host.unmap(1, 0, 2 * G).ok());
    fail_next(EPERM);
    Result result = host.destroy(10);
    EXPECT_EQ(result.status, MBR_SYSTEM);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    EXPECT_TRUE(host.map(1, 0, 10).ok()); // as good as before
    ASSERT_TRUE(host.unmap(1, 0, 2 * G).ok());
    fail_next(EPERM, kOnce, true); // after its effect: it is gone, and that is what was asked
    EXPECT_TRUE(host.destroy(10).ok());
    ASSERT_TRUE(host.create(10, 2 * G).ok());
}

TEST_F(HostErrors, UnmapThatFailedInTheDark_IsQuarantinedUntilSomebodyCanLook)
{
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.map(1, 2 * G, 11).ok());
    world.arm({0, kAll, false, ENOMEM, true});
    Result result = host.unmap(1, 0, 3 * G);
    EXPECT_EQ(result.status, MBR_RESIDUAL);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    EXPECT_EQ(host.destroy(10).status, MBR_BUSY);
    EXPECT_EQ(host.unreserve(1).status, MBR_BUSY);
    // The call would work by now, but without a look it is not even tried.
    world.arm({1 << 20, kOnce, false, ENOMEM, true});
    EXPECT_EQ(host.unmap(1, 2 * G, G).status, MBR_RESIDUAL);
    heal();
    EXPECT_TRUE(host.unmap(1, 0, 3 * G).ok());
    EXPECT_EQ(host.stats().mapped_bytes, 0u);
}

TEST_F(HostErrors, QuarantinedRangeTakenBySomebodyElse_IsNeverTouched)
{
    Result reserved = host.reserve(2, G);
    ASSERT_TRUE(reserved.ok());
    ASSERT_TRUE(host.map(2, 0, 11).ok());
    world.arm({0, kAll, false, ENOMEM, true});
    EXPECT_EQ(host.unmap(2, 0, G).outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    heal();
    // An older kernel may have left a hole, which another thread was then given.
    uint64_t address = reserved.outcome.address;
    ASSERT_EQ(mmap(reinterpret_cast<void *>(address), G, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        reinterpret_cast<void *>(address));
    word(address) = 99;
    Result result = host.unmap(2, 0, G);
    EXPECT_EQ(result.status, MBR_RESIDUAL);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    EXPECT_EQ(word(address), 99u);
    EXPECT_EQ(host.stats().mapped_bytes, G); // still on the books
    // Put the kernel's view right by hand, so that the test can end clean.
    uint64_t place = address;
    ASSERT_EQ(world.real.mmap(nullptr, &place, G, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
        0);
    EXPECT_TRUE(host.unmap(2, 0, G).ok());
    EXPECT_TRUE(host.unreserve(2).ok());
}

TEST_F(HostErrors, ProtectThatFails_RestoresWhatItChanged)
{
    uint64_t base = 0;
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.map(1, 2 * G, 11).ok());
    ASSERT_TRUE(host.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    Result result = host.protect(1, 2 * G, G, MBR_ACCESS_READ);
    ASSERT_TRUE(result.ok());
    world.arm({1, kOnce, false, ENOMEM, false}); // mprotect works, populating does not
    result = host.protect(1, 0, 3 * G, MBR_ACCESS_READ);
    EXPECT_EQ(result.status, MBR_OUT_OF_MEMORY);
    EXPECT_EQ(result.outcome.state, (uint32_t)MBR_STATE_UNCHANGED);
    heal();
    for (const Mapping &mapping : mappings_in(0, UINT64_MAX))
        if (mapping.name.find("memfd:membrane-host") != std::string::npos && base == 0)
            base = mapping.start;
    EXPECT_TRUE(can_write(base));
    EXPECT_FALSE(can_write(base + 2 * G));
    EXPECT_TRUE(can_read(base + 2 * G));
}

TEST_F(HostErrors, KernelWithoutPopulate_IsTouchedByHand)
{
    world.old_kernel = true;
    Result allocation = host.allocate(20, 3 * G);
    ASSERT_TRUE(allocation.ok()) << allocation.error.text;
    EXPECT_EQ(resident_bytes(allocation.outcome.address, 3 * G), 3 * G);
    EXPECT_TRUE(host.release(20, allocation.outcome.address).ok());
    ASSERT_TRUE(host.map(1, 0, 10).ok());
    ASSERT_TRUE(host.protect(1, 0, 2 * G, MBR_ACCESS_READ_WRITE).ok());
    ASSERT_TRUE(host.map_shared(1, 4 * G, 10, MBR_ACCESS_READ).ok());
    uint64_t rss = 0;
    for (const Mapping &mapping : mappings_in(0, UINT64_MAX))
        if (mapping.name.find("memfd:membrane-host") != std::string::npos)
            rss += mapping.rss_bytes;
    EXPECT_EQ(rss, 4 * G);
}

TEST_F(HostErrors, InterruptedFallocate_GoesOnInSmallerStepsUpToALimit)
{
    world.interrupted_above = 3 * 4096;
    ASSERT_TRUE(host.create(20, 4 * G).ok());
    EXPECT_EQ(file_bytes(), 7 * G);
    world.interrupted_above = 1; // nothing comes through
    Result result = host.create(21, G);
    world.interrupted_above = 0;
    EXPECT_EQ(result.status, MBR_SYSTEM);
    EXPECT_EQ(result.error.native_code, EINTR);
    EXPECT_EQ(file_bytes(), 7 * G);
    ASSERT_TRUE(host.destroy(20).ok());
}

TEST_F(HostErrors, UnknownFreeMemory_IsSaidSo)
{
    fail_next(EMFILE);
    mbr_mechanism_stats stats = host.stats();
    EXPECT_EQ(stats.free_bytes, MBR_UNKNOWN_BYTES);
    EXPECT_GT(stats.total_bytes, 0u);
    EXPECT_EQ(stats.owned_bytes, 3 * G);
    heal();
    stats = host.stats();
    EXPECT_GT(stats.free_bytes, 0u);
    EXPECT_LE(stats.free_bytes, stats.total_bytes);
}

TEST(HostInspect, TellsHolesReservationsTheFileAndOtherThings)
{
    mbr_host_os os;
    mbr_host_os_linux(&os);
    int file, other;
    uint64_t inode, other_inode;
    ASSERT_EQ(os.file_create(nullptr, &file, &inode), 0);
    ASSERT_EQ(os.file_create(nullptr, &other, &other_inode), 0);
    uint64_t address = 0;
    ASSERT_EQ(os.mmap(nullptr, &address, 8 * G, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
        0);
    auto kind = [&](uint64_t offset, uint64_t bytes) {
        mbr_host_range range;
        EXPECT_EQ(os.inspect(nullptr, address + offset, bytes, inode, &range), 0);
        EXPECT_GT(range.mapping_count, 10u);
        EXPECT_GT(range.mapping_count_limit, range.mapping_count);
        return range.kind;
    };
    auto put = [&](uint64_t offset, uint64_t bytes, int flags, int source) {
        uint64_t place = address + offset;
        ASSERT_EQ(os.mmap(nullptr, &place, bytes, PROT_NONE, flags | MAP_FIXED, source, 0), 0);
    };
    EXPECT_EQ(kind(0, 8 * G), MBR_HOST_RANGE_RESERVED);
    put(2 * G, 2 * G, MAP_SHARED, file);
    EXPECT_EQ(kind(2 * G, 2 * G), MBR_HOST_RANGE_FILE);
    EXPECT_EQ(kind(3 * G, G), MBR_HOST_RANGE_FILE);
    EXPECT_EQ(kind(0, 2 * G), MBR_HOST_RANGE_RESERVED);
    EXPECT_EQ(kind(G, 2 * G), MBR_HOST_RANGE_OTHER); // a mixture
    put(4 * G, G, MAP_SHARED, other);
    EXPECT_EQ(kind(4 * G, G), MBR_HOST_RANGE_OTHER);
    EXPECT_EQ(kind(3 * G, 2 * G), MBR_HOST_RANGE_OTHER);
    put(5 * G, G, MAP_PRIVATE, file);
    EXPECT_EQ(kind(5 * G, G), MBR_HOST_RANGE_OTHER);
    ASSERT_EQ(os.mprotect(nullptr, address + 6 * G, G, PROT_READ), 0);
    EXPECT_EQ(kind(6 * G, G), MBR_HOST_RANGE_OTHER);
    ASSERT_EQ(os.munmap(nullptr, address, 2 * G), 0);
    EXPECT_EQ(kind(0, 2 * G), MBR_HOST_RANGE_HOLE);
    EXPECT_EQ(kind(G, 2 * G), MBR_HOST_RANGE_OTHER); // half a hole
    ASSERT_EQ(os.munmap(nullptr, address + 2 * G, 6 * G), 0);
    EXPECT_EQ(kind(2 * G, 6 * G), MBR_HOST_RANGE_HOLE);
    EXPECT_EQ(os.file_close(nullptr, file), 0);
    EXPECT_EQ(os.file_close(nullptr, other), 0);
    EXPECT_EQ(os.file_close(nullptr, other), EBADF);
}
