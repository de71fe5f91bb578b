/* What fails at its nth call: a heap, and the slots of libmembrane-faulty.so. */
#ifndef MEMBRANE_TESTS_SUPPORT_FAULTY_FAILING_H
#define MEMBRANE_TESTS_SUPPORT_FAULTY_FAILING_H

#include "membrane/manager.h"
#include "tests/support/faulty/faults.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

extern "C" {
#include "abi/base/seam.h"
}

namespace membrane
{

struct FailingHeap {
    mbr_heap heap;
    uint64_t calls = 0, fail_at = 0;
    int64_t live = 0;
    FailingHeap()
    {
        heap.allocate = [](void *context, size_t bytes) -> void * {
            auto *self = static_cast<FailingHeap *>(context);
            if (++self->calls == self->fail_at)
                return nullptr;
            self->live++;
            return std::calloc(1, bytes);
        };
        heap.release = [](void *context, void *memory) {
            static_cast<FailingHeap *>(context)->live -= memory != nullptr;
            std::free(memory);
        };
        heap.context = this;
    }
};

class Faulty
{
  public:
    Faulty()
    {
        std::snprintf(text_, sizeof(text_), "%" PRIxPTR, reinterpret_cast<uintptr_t>(&plan));
        plan.status = MBR_SYSTEM;
    }
    std::vector<mbr_option> options() const { return {{"granule", "4096"}, {"faults", text_}}; }
    void fail(uint32_t slot, uint64_t nth, uint64_t count = 1)
    {
        plan.fail_from[slot] = plan.calls[slot] + nth;
        plan.fail_count[slot] = count;
    }
    bool stop()
    {
        for (uint64_t &count : plan.fail_count)
            count = 0;
        return std::exchange(plan.met, 0) != 0;
    }
    faulty_plan plan = {};

  private:
    char text_[24];
};

} // namespace membrane

#endif
