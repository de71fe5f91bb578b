// Linux with a plan of faults under the host plugin's core: the Nth system or heap call fails,
// before or after its effect.
#ifndef MEMBRANE_TESTS_UNIT_PLUGINS_HOST_FAULTY_OS_H
#define MEMBRANE_TESTS_UNIT_PLUGINS_HOST_FAULTY_OS_H

#include "tests/unit/plugins_host/mechanism.h"

extern "C" {
#include "plugins/host/core.h"
}

#include <sys/mman.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>

namespace host_test
{

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
    int also = -1;      // a kind of call that fails after the nth, before its effect

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
                uint64_t place = *address;
                int code = me.real.mmap(nullptr, &place, bytes, protection, flags, file, offset);
                if (code != 0 || (flags & MAP_FIXED))
                    return code;
                // A place that nobody was told of cannot be given back: such a fault is "before".
                if (me.failing)
                    return me.real.munmap(nullptr, place, bytes);
                *address = place;
                me.taken[place] = bytes;
                return code;
            });
        };
        os.munmap = [](void *self, uint64_t address, uint64_t bytes) {
            auto &me = *static_cast<FaultyOs *>(self);
            return me.call(kMunmap, [&] {
                int code = me.real.munmap(nullptr, address, bytes);
                if (code == 0 && me.taken.count(address)) {
                    EXPECT_EQ(me.taken[address], bytes);
                    me.taken.erase(address);
                }
                return code;
            });
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
                    range->mapping_count = range->mapping_count_limit - me.mappings_left;
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
        if (kind != kHeap)
            if (auto act = std::exchange(meanwhile, nullptr))
                act();
        int number = call_count++;
        called[kind]++;
        bool later = plan.nth >= 0 && number > plan.nth;
        failing = number == plan.nth ||
            (later &&
                (plan.scope == kAll || kind == plan.also ||
                    (plan.scope == kSameKind && kind == hit)));
        if (!failing)
            return effect();
        hit = hit < 0 ? kind : hit;
        if (plan.after_effect && !(later && kind == plan.also))
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
    bool many_mappings = false;         // the process is at its limit of mappings,
    uint64_t mappings_left = 0;         // or this close to it
    std::map<uint64_t, uint64_t> taken; // addresses and sizes that were not given back
    bool old_kernel = false;            // without MADV_POPULATE_…
    uint64_t interrupted_above = 0;     // fallocate of more bytes gives EINTR
    std::function<void()> meanwhile;    // runs once, inside the next system call
    mbr_status open_status = MBR_OK;
    mbr_error error;
};

} // namespace host_test

#endif
