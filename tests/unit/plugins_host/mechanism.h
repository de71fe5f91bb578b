// The host mechanism as its tests see it: one call a slot, through the tables alone; and the
// oracles, which ask the system and not the plugin.
#ifndef MEMBRANE_TESTS_UNIT_PLUGINS_HOST_MECHANISM_H
#define MEMBRANE_TESTS_UNIT_PLUGINS_HOST_MECHANISM_H

#include "membrane/membrane_plugin.h"
#include "tests/support/access.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace host_test
{

template <typename T> T sized()
{
    T value;
    memset(&value, 0, sizeof(value));
    value.struct_size = sizeof(value);
    return value;
}

constexpr uint64_t kAny = UINT64_MAX; // as a budget: no limit

struct Result {
    mbr_status status;
    mbr_outcome outcome;
    mbr_error error;
    bool ok() const { return status == MBR_OK; }
};

// What every slot owes: a failure is DONE by no means, an error only on failure.
void expect_legal(const Result &result);

template <typename Slot, typename Request>
Result call(Slot slot, mbr_instance *instance, const Request &request)
{
    Result result = {MBR_OK, sized<mbr_outcome>(), sized<mbr_error>()};
    memset(&result.outcome.state, 0xEE, sizeof(result.outcome) - sizeof(uint32_t));
    result.status = slot(instance, &request, &result.outcome, &result.error);
    expect_legal(result);
    return result;
}

using Options = std::vector<std::pair<std::string, std::string>>;

// A plugin's own table from the real file, loaded once a process.
const mbr_plugin_vtable *plugin_from_file(const char *path = "plugins/host/libmembrane-host.so");

class Mechanism
{
  public:
    Mechanism() = default;
    // Takes an opened instance over; its tables are fetched by id.
    Mechanism(const mbr_plugin_vtable *plugin, mbr_instance *instance, bool has_virtual = true);

    // Opens mechanism "host" of the real file; the test fails if that does.
    static Mechanism open(const Options &options = {});
    // The first mechanism of this file.
    static Mechanism open_first(const char *path, const Options &options);
    static mbr_status open_with(const mbr_plugin_vtable *plugin, const char *mechanism,
        const Options &options, mbr_instance **instance, mbr_error *error);

    Result close();
    Result allocate(uint64_t id, uint64_t bytes, uint64_t align = 0, uint64_t budget = kAny,
        uint32_t flags = 0);
    Result release(uint64_t id, uint64_t address);
    Result reserve(uint64_t id, uint64_t bytes, uint64_t align = 0);
    Result unreserve(uint64_t id);
    Result create(uint64_t id, uint64_t bytes, uint64_t budget = kAny, uint32_t flags = 0);
    Result destroy(uint64_t id);
    Result map(uint64_t reservation, uint64_t offset, uint64_t extent);
    Result map_shared(uint64_t reservation, uint64_t offset, uint64_t extent, uint32_t access);
    Result protect(uint64_t reservation, uint64_t offset, uint64_t bytes, uint32_t access);
    Result unmap(uint64_t reservation, uint64_t offset, uint64_t bytes);
    mbr_status query(uint64_t reservation, uint64_t offset, mbr_query_outcome *outcome);
    uint64_t fact(uint32_t number);
    mbr_mechanism_stats stats();
    mbr_report report();

    const mbr_plugin_vtable *plugin = nullptr;
    mbr_instance *instance = nullptr;
    const mbr_allocator_vtable *allocator = nullptr;
    const mbr_virtual_vtable *virtual_ = nullptr;
    const mbr_shared_vtable *shared = nullptr;
};

// Expects that nothing is left and closes.
void expect_empty_and_close(Mechanism &mechanism);

// ---- Oracles --------------------------------------------------------------------------------

// Descriptors of this process that are memory files of the host plugin.
std::vector<int> memory_files();
// Physical bytes of all of them, from st_blocks.
uint64_t file_bytes();
int open_descriptor_count();

struct Mapping {
    uint64_t start, end;
    std::string access, name, flags; // flags: as VmFlags of smaps
    uint64_t rss_bytes, pss_bytes;
};

// /proc/self/smaps, only what overlaps [start, end).
std::vector<Mapping> mappings_in(uint64_t start, uint64_t end);

// Of [address, address + bytes), private memory: what is in RAM now.
uint64_t resident_bytes(uint64_t address, uint64_t bytes);

using membrane::can_read;
using membrane::can_write;
inline uint64_t &word(uint64_t address)
{
    return *reinterpret_cast<uint64_t *>(address);
}

} // namespace host_test

#endif
