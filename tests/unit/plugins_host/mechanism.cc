#include "tests/unit/plugins_host/mechanism.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace host_test
{

void expect_legal(const Result &result)
{
    EXPECT_EQ(result.error.status, result.status);
    EXPECT_EQ(result.ok(), result.outcome.state == MBR_STATE_DONE) << result.error.text;
    EXPECT_LE(result.outcome.state, (uint32_t)MBR_STATE_QUARANTINED);
    if (!result.ok()) {
        EXPECT_GE(MBR_STATUS_CLASS(result.status), MBR_CLASS_CALLER);
        EXPECT_LE(MBR_STATUS_CLASS(result.status), MBR_CLASS_LOST);
        EXPECT_NE(result.error.text[0], 0);
    }
    if (result.outcome.state == MBR_STATE_UNCHANGED) {
        EXPECT_EQ(result.outcome.address + result.outcome.newly_mapped_bytes +
                result.outcome.newly_owned_bytes + result.outcome.unmapped_bytes +
                result.outcome.released_bytes + result.outcome.residual_mapped_bytes +
                result.outcome.residual_owned_bytes,
            0u);
    }
}

const mbr_plugin_vtable *plugin_from_file(const char *path)
{
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        ADD_FAILURE() << dlerror();
        return nullptr;
    }
    auto entry = reinterpret_cast<mbr_entry_function>(dlsym(file, MBR_ENTRY_SYMBOL));
    auto hello = sized<mbr_hello>();
    auto reply = sized<mbr_reply>();
    auto error = sized<mbr_error>();
    EXPECT_NE(entry, nullptr);
    EXPECT_EQ(entry(&hello, &reply, &error), MBR_OK) << error.text;
    return reply.plugin;
}

Mechanism::Mechanism(const mbr_plugin_vtable *plugin, mbr_instance *instance, bool has_virtual)
    : plugin(plugin), instance(instance)
{
    auto fetch = [&](const char *id) {
        auto request = sized<mbr_capability_request>();
        auto outcome = sized<mbr_capability_outcome>();
        auto error = sized<mbr_error>();
        request.id = id;
        EXPECT_EQ(plugin->capability(instance, &request, &outcome, &error), MBR_OK) << error.text;
        return outcome.table;
    };
    allocator = reinterpret_cast<const mbr_allocator_vtable *>(fetch(MBR_ID_ALLOCATOR));
    if (!has_virtual)
        return;
    virtual_ = reinterpret_cast<const mbr_virtual_vtable *>(fetch(MBR_ID_VIRTUAL));
    auto request = sized<mbr_capability_request>();
    auto outcome = sized<mbr_capability_outcome>();
    request.id = MBR_ID_SHARED;
    if (plugin->capability(instance, &request, &outcome, nullptr) == MBR_OK)
        shared = reinterpret_cast<const mbr_shared_vtable *>(outcome.table);
}

mbr_status Mechanism::open_with(const mbr_plugin_vtable *plugin, const char *mechanism,
    const Options &options, mbr_instance **instance, mbr_error *error)
{
    std::vector<mbr_option> list;
    for (const auto &[key, value] : options)
        list.push_back({key.c_str(), value.c_str()});
    auto request = sized<mbr_open_request>();
    request.option_count = (uint32_t)list.size();
    request.mechanism = mechanism;
    request.options = list.data();
    request.log = [](void *, uint32_t, const char *, uint64_t) {};
    auto outcome = sized<mbr_open_outcome>();
    mbr_status status = plugin->open(nullptr, &request, &outcome, error);
    EXPECT_EQ(status == MBR_OK, outcome.instance != nullptr);
    *instance = outcome.instance;
    return status;
}

Mechanism Mechanism::open(const Options &options)
{
    const mbr_plugin_vtable *plugin = plugin_from_file();
    mbr_instance *instance;
    auto error = sized<mbr_error>();
    EXPECT_EQ(open_with(plugin, "host", options, &instance, &error), MBR_OK) << error.text;
    return {plugin, instance};
}

Mechanism Mechanism::open_first(const char *path, const Options &options)
{
    const mbr_plugin_vtable *plugin = plugin_from_file(path);
    auto request = sized<mbr_mechanisms_request>();
    auto first = sized<mbr_mechanism_description>();
    auto error = sized<mbr_error>();
    mbr_instance *instance = nullptr;
    EXPECT_EQ(plugin->mechanisms(nullptr, &request, &first, &error), MBR_OK) << error.text;
    EXPECT_EQ(open_with(plugin, first.name, options, &instance, &error), MBR_OK) << error.text;
    return {plugin, instance};
}

Result Mechanism::close()
{
    return call(plugin->close, instance, sized<mbr_close_request>());
}

Result Mechanism::allocate(
    uint64_t id, uint64_t bytes, uint64_t align, uint64_t budget, uint32_t flags)
{
    auto request = sized<mbr_allocate_request>();
    request.flags = flags;
    request.allocation_id = id;
    request.bytes = bytes;
    request.align_bytes = align;
    request.max_owned_bytes = budget;
    return call(allocator->allocate, instance, request);
}

Result Mechanism::release(uint64_t id, uint64_t address)
{
    auto request = sized<mbr_release_request>();
    request.allocation_id = id;
    request.address = address;
    return call(allocator->release, instance, request);
}

Result Mechanism::reserve(uint64_t id, uint64_t bytes, uint64_t align)
{
    auto request = sized<mbr_reserve_request>();
    request.reservation_id = id;
    request.bytes = bytes;
    request.align_bytes = align;
    return call(virtual_->reserve, instance, request);
}

Result Mechanism::unreserve(uint64_t id)
{
    auto request = sized<mbr_unreserve_request>();
    request.reservation_id = id;
    return call(virtual_->unreserve, instance, request);
}

Result Mechanism::create(uint64_t id, uint64_t bytes, uint64_t budget, uint32_t flags)
{
    auto request = sized<mbr_extent_create_request>();
    request.flags = flags;
    request.extent_id = id;
    request.bytes = bytes;
    request.max_owned_bytes = budget;
    return call(virtual_->extent_create, instance, request);
}

Result Mechanism::destroy(uint64_t id)
{
    auto request = sized<mbr_extent_destroy_request>();
    request.extent_id = id;
    return call(virtual_->extent_destroy, instance, request);
}

Result Mechanism::map(uint64_t reservation, uint64_t offset, uint64_t extent)
{
    auto request = sized<mbr_map_request>();
    request.reservation_id = reservation;
    request.offset_bytes = offset;
    request.extent_id = extent;
    return call(virtual_->map, instance, request);
}

Result Mechanism::map_shared(
    uint64_t reservation, uint64_t offset, uint64_t extent, uint32_t access)
{
    const mbr_access list[] = {{0, access}};
    auto request = sized<mbr_map_shared_request>();
    request.access_count = 1;
    request.reservation_id = reservation;
    request.offset_bytes = offset;
    request.extent_id = extent;
    request.access = list;
    return call(shared->map_shared, instance, request);
}

Result Mechanism::protect(uint64_t reservation, uint64_t offset, uint64_t bytes, uint32_t access)
{
    const mbr_access list[] = {{0, access}};
    auto request = sized<mbr_protect_request>();
    request.access_count = 1;
    request.reservation_id = reservation;
    request.offset_bytes = offset;
    request.bytes = bytes;
    request.access = list;
    return call(virtual_->protect, instance, request);
}

Result Mechanism::unmap(uint64_t reservation, uint64_t offset, uint64_t bytes)
{
    auto request = sized<mbr_unmap_request>();
    request.reservation_id = reservation;
    request.offset_bytes = offset;
    request.bytes = bytes;
    return call(virtual_->unmap, instance, request);
}

mbr_status Mechanism::query(uint64_t reservation, uint64_t offset, mbr_query_outcome *outcome)
{
    auto request = sized<mbr_query_request>();
    request.reservation_id = reservation;
    request.offset_bytes = offset;
    *outcome = sized<mbr_query_outcome>();
    return virtual_->query(instance, &request, outcome, nullptr);
}

uint64_t Mechanism::fact(uint32_t number)
{
    auto request = sized<mbr_fact_request>();
    request.fact = number;
    auto outcome = sized<mbr_fact_outcome>();
    EXPECT_EQ(allocator->fact(instance, &request, &outcome, nullptr), MBR_OK) << number;
    return outcome.value;
}

mbr_mechanism_stats Mechanism::stats()
{
    auto request = sized<mbr_stats_request>();
    auto outcome = sized<mbr_mechanism_stats>();
    EXPECT_EQ(allocator->stats(instance, &request, &outcome, nullptr), MBR_OK);
    return outcome;
}

mbr_report Mechanism::report()
{
    auto request = sized<mbr_report_request>();
    auto outcome = sized<mbr_report>();
    EXPECT_EQ(plugin->report(instance, &request, &outcome, nullptr), MBR_OK);
    return outcome;
}

void expect_empty_and_close(Mechanism &mechanism)
{
    mbr_mechanism_stats stats = mechanism.stats();
    EXPECT_EQ(stats.owned_bytes, 0u);
    EXPECT_EQ(stats.mapped_bytes, 0u);
    EXPECT_EQ(stats.reserved_bytes, 0u);
    EXPECT_EQ(mechanism.report().mapping_count, 0u);
    Result result = mechanism.close();
    EXPECT_TRUE(result.ok()) << result.error.text;
}

// ---- Oracles --------------------------------------------------------------------------------

namespace
{

std::vector<int> descriptors(const char *name)
{
    std::vector<int> found;
    DIR *folder = opendir("/proc/self/fd");
    while (dirent *entry = readdir(folder)) {
        char target[256];
        ssize_t got = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target));
        int number = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);
        if (number >= 0 && number != dirfd(folder) && got > 0 &&
            std::string(target, (size_t)got).find(name) != std::string::npos)
            found.push_back(number);
    }
    closedir(folder);
    return found;
}

} // namespace

std::vector<int> memory_files()
{
    return descriptors("/memfd:membrane-host");
}

uint64_t file_bytes()
{
    uint64_t bytes = 0;
    for (int file : memory_files()) {
        struct stat facts;
        EXPECT_EQ(fstat(file, &facts), 0);
        bytes += (uint64_t)facts.st_blocks * 512;
    }
    return bytes;
}

int open_descriptor_count()
{
    return (int)descriptors("").size();
}

std::vector<Mapping> mappings_in(uint64_t start, uint64_t end)
{
    std::vector<Mapping> found;
    std::ifstream smaps("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
        unsigned long long low, high, bytes;
        char access[8], name[256] = "";
        if (sscanf(line.c_str(), "%llx-%llx %7s %*x %*x:%*x %*u %255[^\n]", &low, &high, access,
                name) >= 3) {
            inside = low < end && high > start;
            if (inside)
                found.push_back({low, high, access, name, "", 0, 0});
        } else if (inside && sscanf(line.c_str(), "Rss: %llu", &bytes) == 1) {
            found.back().rss_bytes = bytes * 1024;
        } else if (inside && sscanf(line.c_str(), "Pss: %llu", &bytes) == 1) {
            found.back().pss_bytes = bytes * 1024;
        } else if (inside && line.rfind("VmFlags:", 0) == 0) {
            found.back().flags = line.substr(8) + " ";
        }
    }
    return found;
}

uint64_t resident_bytes(uint64_t address, uint64_t bytes)
{
    std::vector<unsigned char> pages(bytes / 4096);
    EXPECT_EQ(mincore(reinterpret_cast<void *>(address), bytes, pages.data()), 0);
    uint64_t resident = 0;
    for (unsigned char page : pages)
        resident += page & 1 ? 4096 : 0;
    return resident;
}

} // namespace host_test
