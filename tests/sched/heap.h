// The heap of a schedule, which nobody can look into after a release.
#ifndef MEMBRANE_TESTS_SCHED_HEAP_H
#define MEMBRANE_TESTS_SCHED_HEAP_H

#include "tests/sched/explore.h"

extern "C" {
#include "abi/base/seam.h"
}

namespace sched_test
{

// Memory of a schedule, in pages of its own: those of a block that is released while bodies run
// cannot be read or written any more. Afterwards nobody else is there, and closing is what costs
// most.
class GuardedHeap
{
  public:
    GuardedHeap();
    ~GuardedHeap();

    void Judge()
    {
        for (const Block &block : blocks_)
            SCHED_REQUIRE(block.released, "a block of %zu bytes was not released", block.bytes);
    }

    mbr_heap Seam() { return {Allocate, Release, this}; }

  private:
    struct Block {
        unsigned char *memory;
        size_t bytes;
        bool released;
    };

    static void *Allocate(void *context, size_t bytes);
    static void Release(void *context, void *memory);

    size_t used_bytes_ = 0;
    bool any_closed_ = false;
    std::vector<Block> blocks_;
};

} // namespace sched_test

#endif
