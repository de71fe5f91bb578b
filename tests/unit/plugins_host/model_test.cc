// Random operations on the plugin that the suite runs on against a small model of the contract,
// with the contents of every extent as the second judge and, where the plugin's memory is a file of
// its own, the system: st_blocks of the file, Pss of the mappings.
#include "tests/support/plugin.h"
#include "tests/unit/plugins_host/mechanism.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

using namespace host_test;

namespace
{

constexpr uint64_t G = 4096;
constexpr uint64_t kReservationGranules = 24;

// The model knows rules, not mechanisms: naive containers, searched from end to end.
struct ModelMapping {
    uint64_t extent, bytes;
    uint32_t access;
    bool was_accessible; // its page tables are filled
};

struct ModelExtent {
    uint64_t bytes;
    uint64_t tag; // what its first word holds
    bool written;
};

struct ModelAllocation {
    uint64_t address, bytes, owned_bytes; // owned: padding in front and behind, too
};

using ModelReservation = std::map<uint64_t, ModelMapping>; // by offset

class Model
{
  public:
    std::map<uint64_t, ModelExtent> extents;
    std::map<uint64_t, ModelReservation> reservations;
    std::map<uint64_t, uint64_t> addresses; // of reservations
    std::map<uint64_t, ModelAllocation> allocations;

    int mappings_of(uint64_t extent) const
    {
        int count = 0;
        for (const auto &[id, reservation] : reservations)
            for (const auto &[offset, mapping] : reservation)
                count += mapping.extent == extent;
        return count;
    }
    bool is_free(uint64_t reservation, uint64_t offset, uint64_t bytes) const
    {
        for (const auto &[start, mapping] : reservations.at(reservation))
            if (start < offset + bytes && offset < start + mapping.bytes)
                return false;
        return true;
    }
    bool is_cover(uint64_t reservation, uint64_t offset, uint64_t bytes) const
    {
        uint64_t covered = 0;
        for (const auto &[start, mapping] : reservations.at(reservation)) {
            bool inside = start >= offset && start + mapping.bytes <= offset + bytes;
            bool outside = start + mapping.bytes <= offset || start >= offset + bytes;
            if (!inside && !outside)
                return false;
            covered += inside ? mapping.bytes : 0;
        }
        return covered == bytes;
    }
    uint64_t extent_bytes() const
    {
        uint64_t bytes = 0;
        for (const auto &[id, extent] : extents)
            bytes += extent.bytes;
        return bytes;
    }
    uint64_t allocation_bytes() const
    {
        uint64_t bytes = 0;
        for (const auto &[id, allocation] : allocations)
            bytes += allocation.owned_bytes;
        return bytes;
    }
    uint64_t mapped_bytes() const
    {
        uint64_t bytes = allocation_bytes();
        for (const auto &[id, reservation] : reservations)
            for (const auto &[offset, mapping] : reservation)
                bytes += mapping.bytes;
        return bytes;
    }
    // Bytes with a page-table entry somewhere, each once.
    uint64_t resident_bytes() const
    {
        std::set<uint64_t> seen;
        for (const auto &[id, reservation] : reservations)
            for (const auto &[offset, mapping] : reservation)
                if (mapping.was_accessible)
                    seen.insert(mapping.extent);
        uint64_t bytes = 0;
        for (uint64_t extent : seen)
            bytes += extents.at(extent).bytes;
        return bytes;
    }
};

class Session
{
  public:
    explicit Session(uint64_t seed) : random(seed)
    {
        std::vector<int> files = memory_files();
        file = files.empty() ? -1 : files[0];
        EXPECT_EQ(host.fact(MBR_FACT_GRANULE_MIN_BYTES), G);
    }

    void step();
    void check_figures();
    void check_residence();
    void check_contents();
    void end();
    bool has_file() const { return file >= 0; }
    uint64_t limit_bytes = 0;        // of the memory file; 0: none
    std::map<std::string, int> done; // "map ok", "map 196609" …

  private:
    uint64_t below(uint64_t limit) { return random() % limit; }
    // Mostly a live one, sometimes a released or unknown one.
    template <typename Map> uint64_t some_id(const Map &live)
    {
        if (live.empty() || below(12) == 0)
            return below(next_id + 3);
        auto at = live.begin();
        std::advance(at, below(live.size()));
        return at->first;
    }
    uint64_t some_offset()
    {
        uint64_t offset = below(kReservationGranules + 1) * G;
        return below(25) == 0 ? offset + 512 : offset;
    }
    uint32_t some_access()
    {
        return std::vector<uint32_t>{
            MBR_ACCESS_NONE, MBR_ACCESS_READ, MBR_ACCESS_READ_WRITE}[below(3)];
    }
    // The broken rules of one call; empty: it must work.
    using Broken = std::set<mbr_status>;
    bool judge(const char *what, const Broken &broken, const Result &result)
    {
        done[std::string(what) + (result.ok() ? " ok" : " " + std::to_string(result.status))]++;
        if (broken.empty())
            EXPECT_TRUE(result.ok()) << what << ": " << result.error.text;
        else
            EXPECT_TRUE(broken.count(result.status)) << what << ": " << result.error.text;
        return result.ok() && broken.empty();
    }
    Broken broken_span(uint64_t reservation, uint64_t offset, uint64_t bytes)
    {
        Broken broken;
        if (offset % G)
            broken.insert(MBR_MISALIGNED);
        if (!model.reservations.count(reservation))
            broken.insert(MBR_UNKNOWN_OBJECT);
        else if (offset + bytes > kReservationGranules * G)
            broken.insert(MBR_OUT_OF_RANGE);
        return broken;
    }

    void create();
    void destroy();
    void reserve();
    void unreserve();
    void map(bool further);
    void edit(bool unmap);
    void allocate();
    void release();

    std::mt19937_64 random;
    static Options options()
    {
        Options list;
        for (const mbr_option &option : membrane::plugin_under_test().page_granule)
            list.push_back({option.key, option.value});
        return list;
    }
    static uint64_t &seen(uint64_t address)
    {
        return *reinterpret_cast<uint64_t *>(membrane::view_of(address));
    }

    Mechanism host = Mechanism::open_first(membrane::plugin_under_test().path, options());
    uint64_t fresh = host.fact(MBR_FACT_FRESH_CONTENT);
    uint64_t round_bytes = host.fact(MBR_FACT_ALLOCATION_ROUND_BYTES);
    uint64_t own_align_bytes = host.fact(MBR_FACT_ALLOCATION_ALIGN_BYTES);
    bool unmap_spans = host.fact(MBR_FACT_UNMAP_SPANS_MAPPINGS) == 1;
    int file;
    Model model;
    uint64_t next_id = 1;
};

void Session::create()
{
    bool doubled = !model.extents.empty() && below(12) == 0;
    uint64_t id = doubled ? model.extents.begin()->first : next_id++;
    uint64_t bytes = (below(6) + 1) * G, budget = below(12) ? kAny : bytes - 1;
    Broken broken;
    if (doubled)
        broken.insert(MBR_ALREADY_EXISTS);
    if (budget < bytes)
        broken.insert(MBR_OVER_BUDGET);
    Result result = host.create(id, bytes, budget);
    if (result.status == MBR_FILE_SIZE_LIMIT && limit_bytes > 0) {
        // No hole is large enough: with a quarter of the file in use that can be.
        EXPECT_GT(model.extent_bytes() + bytes, limit_bytes / 4);
        broken.insert(MBR_FILE_SIZE_LIMIT);
    }
    if (judge("create", broken, result))
        model.extents[id] = {bytes, 0, false};
}

void Session::destroy()
{
    uint64_t id = some_id(model.extents);
    Broken broken;
    if (!model.extents.count(id))
        broken.insert(MBR_UNKNOWN_OBJECT);
    else if (model.mappings_of(id) > 0)
        broken.insert(MBR_BUSY);
    Result result = host.destroy(id);
    if (judge("destroy", broken, result)) {
        EXPECT_EQ(result.outcome.released_bytes, model.extents[id].bytes);
        model.extents.erase(id);
    }
}

void Session::reserve()
{
    if (model.reservations.size() > 6)
        return;
    uint64_t id = next_id++;
    Result result = host.reserve(id, kReservationGranules * G, below(2) ? 0 : G << below(6));
    if (judge("reserve", {}, result)) {
        model.reservations[id];
        model.addresses[id] = result.outcome.address;
    }
}

void Session::unreserve()
{
    uint64_t id = some_id(model.reservations);
    Broken broken;
    if (!model.reservations.count(id))
        broken.insert(MBR_UNKNOWN_OBJECT);
    else if (!model.reservations[id].empty())
        broken.insert(MBR_BUSY);
    if (judge("unreserve", broken, host.unreserve(id))) {
        model.reservations.erase(id);
        model.addresses.erase(id);
    }
}

void Session::map(bool further)
{
    uint64_t reservation = some_id(model.reservations), extent = some_id(model.extents);
    uint64_t offset = some_offset();
    uint32_t access = further ? some_access() : (uint32_t)MBR_ACCESS_NONE;
    // Mostly an extent that is mapped, else map_shared would be refused most of the time.
    if (further && below(4) > 0)
        for (const auto &[id, mappings] : model.reservations)
            if (!mappings.empty() && below(2))
                extent = mappings.begin()->second.extent;
    uint64_t bytes = model.extents.count(extent) ? model.extents[extent].bytes : G;
    Broken broken = broken_span(reservation, offset, bytes);
    if (!model.extents.count(extent))
        broken.insert(MBR_UNKNOWN_OBJECT);
    else if (further && model.mappings_of(extent) == 0)
        broken.insert(MBR_INVALID_ARGUMENT);
    else if (!further && model.mappings_of(extent) > 0)
        broken.insert(MBR_BUSY);
    if (broken.empty() && !model.is_free(reservation, offset, bytes))
        broken.insert(MBR_ALREADY_EXISTS);
    Result result = further ? host.map_shared(reservation, offset, extent, access)
                            : host.map(reservation, offset, extent);
    if (!judge(further ? "map_shared" : "map", broken, result))
        return;
    EXPECT_EQ(result.outcome.newly_mapped_bytes, bytes);
    ModelExtent &mapped = model.extents[extent];
    if (fresh == MBR_CONTENT_ZERO) { // else nobody keeps count
        EXPECT_EQ(result.outcome.content, mapped.written ? MBR_CONTENT_STALE : fresh);
    } else {
        EXPECT_NE(result.outcome.content, (uint32_t)MBR_CONTENT_ZERO);
    }
    mapped.written = mapped.written || access == MBR_ACCESS_READ_WRITE;
    model.reservations[reservation][offset] = {extent, bytes, access, access != MBR_ACCESS_NONE};
}

// protect or unmap: often exactly one mapping or a row of them, else anything.
void Session::edit(bool unmap)
{
    uint64_t reservation = some_id(model.reservations);
    uint64_t offset = some_offset(), bytes = (below(6) + 1) * G;
    uint32_t access = some_access();
    if (model.reservations.count(reservation) && !model.reservations[reservation].empty() &&
        below(5) > 0) {
        auto &mappings = model.reservations[reservation];
        auto at = mappings.begin();
        std::advance(at, below(mappings.size()));
        offset = at->first;
        bytes = at->second.bytes;
        for (auto next = std::next(at);
             next != mappings.end() && below(2) && next->first == offset + bytes; ++next)
            bytes += next->second.bytes;
    }
    Broken broken = broken_span(reservation, offset, bytes);
    if (broken.empty() && !model.is_cover(reservation, offset, bytes))
        broken.insert(MBR_INVALID_ARGUMENT);
    if (broken.empty() && unmap && !unmap_spans &&
        model.reservations[reservation][offset].bytes != bytes)
        broken.insert(MBR_INVALID_ARGUMENT); // several mappings
    Result result = unmap ? host.unmap(reservation, offset, bytes)
                          : host.protect(reservation, offset, bytes, access);
    if (!judge(unmap ? "unmap" : "protect", broken, result))
        return;
    auto &mappings = model.reservations[reservation];
    for (auto at = mappings.lower_bound(offset);
         at != mappings.end() && at->first < offset + bytes;) {
        ModelMapping &mapping = at->second;
        mapping.access = access;
        mapping.was_accessible = mapping.was_accessible || access != MBR_ACCESS_NONE;
        if (!unmap && access == MBR_ACCESS_READ_WRITE)
            model.extents[mapping.extent].written = true;
        at = unmap ? mappings.erase(at) : std::next(at);
    }
    EXPECT_EQ(result.outcome.unmapped_bytes, unmap ? bytes : 0);
}

void Session::allocate()
{
    if (model.allocations.size() > 20)
        return;
    uint64_t id = next_id++, bytes = below(3 * G) + 1;
    uint64_t align = below(2) ? 0 : 1ul << below(16);
    uint64_t least = (bytes + round_bytes - 1) / round_bytes * round_bytes;
    Result result = host.allocate(id, bytes, align);
    if (judge("allocate", {}, result)) {
        uint64_t owned = result.outcome.newly_owned_bytes;
        EXPECT_GE(owned, least);
        if (align <= own_align_bytes) { // else it may pad with memory of its own
            EXPECT_EQ(owned, least);
        }
        EXPECT_LE(owned, least + align);
        EXPECT_EQ(result.outcome.address % std::max<uint64_t>(align, 1), 0u);
        for (const auto &[other, allocation] : model.allocations)
            EXPECT_TRUE(result.outcome.address >= allocation.address + allocation.bytes ||
                result.outcome.address + least <= allocation.address);
        model.allocations[id] = {result.outcome.address, least, owned};
    }
}

void Session::release()
{
    uint64_t id = some_id(model.allocations);
    bool known = model.allocations.count(id) > 0, wrong = below(12) == 0;
    uint64_t address = (known ? model.allocations[id].address : G) + (wrong ? 8 : 0);
    Broken broken;
    if (!known || wrong)
        broken.insert(MBR_UNKNOWN_OBJECT);
    Result result = host.release(id, address);
    if (judge("release", broken, result)) {
        EXPECT_EQ(result.outcome.released_bytes, model.allocations[id].owned_bytes);
        model.allocations.erase(id);
    }
}

void Session::step()
{
    switch (below(16)) {
    case 0:
    case 1:
    case 2:
        return create();
    case 3:
        return destroy();
    case 4:
        return reserve();
    case 5:
        return unreserve();
    case 6:
    case 7:
        return map(false);
    case 8:
    case 9:
        return map(true);
    case 10:
    case 11:
        return edit(false);
    case 12:
    case 13:
        return edit(true);
    case 14:
        return allocate();
    default:
        return release();
    }
}

void Session::check_figures()
{
    mbr_mechanism_stats stats = host.stats();
    ASSERT_EQ(stats.owned_bytes, model.extent_bytes() + model.allocation_bytes());
    ASSERT_EQ(stats.mapped_bytes, model.mapped_bytes());
    ASSERT_EQ(stats.reserved_bytes, model.reservations.size() * kReservationGranules * G);
    struct stat facts;
    if (has_file()) {
        ASSERT_EQ(fstat(file, &facts), 0);
        ASSERT_EQ((uint64_t)facts.st_blocks * 512, model.extent_bytes());
    }
    mbr_report report = host.report();
    ASSERT_EQ(report.extent_count, model.extents.size());
    ASSERT_EQ(report.reservation_count, model.reservations.size());
    ASSERT_EQ(report.allocation_count, model.allocations.size());
}

void Session::check_residence()
{
    if (!has_file())
        return;
    uint64_t pss = 0, mappings = 0;
    for (const auto &[id, address] : model.addresses)
        for (const Mapping &mapping : mappings_in(address, address + kReservationGranules * G)) {
            pss += mapping.pss_bytes;
            mappings++;
        }
    // smaps rounds each mapping down to whole KiB.
    ASSERT_LE(pss, model.resident_bytes());
    ASSERT_GE(pss + mappings * 1024, model.resident_bytes());
}

// Every mapping tells what it is through query, lets through what its access says, and shows its
// extent's tag; a writable one then gets a new tag.
void Session::check_contents()
{
    for (auto &[id, reservation] : model.reservations)
        for (auto &[offset, mapping] : reservation) {
            uint64_t address = model.addresses[id] + offset;
            mbr_query_outcome at;
            ASSERT_EQ(host.query(id, offset + mapping.bytes - 1, &at), MBR_OK);
            ASSERT_EQ(at.extent_id, mapping.extent);
            ASSERT_EQ(at.offset_bytes, offset);
            ASSERT_EQ(at.access, mapping.access);
            auto view = reinterpret_cast<uint64_t>(membrane::view_of(address));
            ASSERT_EQ(can_read(view), mapping.access != MBR_ACCESS_NONE);
            ASSERT_EQ(can_write(view), mapping.access == MBR_ACCESS_READ_WRITE);
            ModelExtent &extent = model.extents[mapping.extent];
            if (mapping.access == MBR_ACCESS_NONE)
                continue;
            for (uint64_t granule = 0; granule < extent.bytes; granule += G)
                if (extent.tag || fresh == MBR_CONTENT_ZERO) {
                    ASSERT_EQ(seen(address + granule), extent.tag ? extent.tag + granule : 0);
                }
            if (mapping.access == MBR_ACCESS_READ_WRITE) {
                extent.tag = random() | 1;
                for (uint64_t granule = 0; granule < extent.bytes; granule += G)
                    seen(address + granule) = extent.tag + granule;
            }
        }
}

void Session::end()
{
    for (auto &[id, reservation] : model.reservations) {
        for (auto &[offset, mapping] : reservation)
            ASSERT_TRUE(host.unmap(id, offset, mapping.bytes).ok());
        ASSERT_TRUE(host.unreserve(id).ok());
    }
    for (auto &[id, extent] : model.extents)
        ASSERT_TRUE(host.destroy(id).ok());
    for (auto &[id, allocation] : model.allocations)
        ASSERT_TRUE(host.release(id, allocation.address).ok());
    EXPECT_EQ(file_bytes(), 0u);
    expect_empty_and_close(host);
}

} // namespace

TEST(HostModel, RandomOperations_AgreeWithTheModelAndTheSystem)
{
    // MEMBRANE_SEED repeats one run.
    const char *chosen = getenv("MEMBRANE_SEED");
    std::vector<uint64_t> seeds = {1, 2, 3, 4};
    if (chosen)
        seeds = {strtoull(chosen, nullptr, 10)};
    std::map<std::string, int> done;
    bool has_file = false;
    for (uint64_t seed : seeds) {
        SCOPED_TRACE("repeat with --test_env=MEMBRANE_SEED=" + std::to_string(seed));
        Session run(seed);
        // Every second run within a file that may not grow, so that holes are used again.
        rlimit old_limit, limit;
        ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
        limit = old_limit;
        if (seed % 2 == 0 && run.has_file())
            limit.rlim_cur = run.limit_bytes = 512 * G;
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        for (int i = 0; i < 5000 && !testing::Test::HasFailure(); i++) {
            run.step();
            run.check_figures();
            if (i % 50 == 0)
                run.check_contents();
            if (i % 250 == 0)
                run.check_residence();
        }
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
        if (testing::Test::HasFailure())
            return;
        has_file = run.has_file();
        run.end();
        for (const auto &[what, count] : run.done)
            done[what] += count;
    }
    // Every operation worked often and was refused for each of its reasons.
    for (const auto &[what, count] : done)
        std::cout << what << ": " << count << "\n";
    if (!chosen) {
        EXPECT_EQ(done.size(), has_file ? 36u : 35u); // the limit of a file is a reason
        for (const auto &[what, count] : done)
            EXPECT_GE(count, 5) << what;
    }
}
