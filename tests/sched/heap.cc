// Responsible for the memory of schedules: one region, in pages that a release closes.
#include "tests/sched/heap.h"

#include <cstring>
#include <sys/mman.h>

namespace sched_test
{

namespace
{

constexpr size_t kRegionBytes = UINT64_C(16) << 20;
constexpr size_t kPageBytes = 4096;

size_t WholePages(size_t bytes)
{
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// One schedule after another has the same memory at the same addresses.
unsigned char *Region()
{
    static void *const region =
        mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SCHED_REQUIRE(region != MAP_FAILED);
    return static_cast<unsigned char *>(region);
}

void Protect(unsigned char *memory, size_t bytes, int access)
{
    SCHED_REQUIRE(bytes == 0 || mprotect(memory, bytes, access) == 0);
}

} // namespace

GuardedHeap::GuardedHeap() = default;

GuardedHeap::~GuardedHeap()
{
    if (any_closed_)
        Protect(Region(), used_bytes_, PROT_READ | PROT_WRITE);
    memset(Region(), 0, used_bytes_);
}

void *GuardedHeap::Allocate(void *context, size_t bytes)
{
    auto *self = static_cast<GuardedHeap *>(context);
    unsigned char *memory = Region() + self->used_bytes_;
    self->used_bytes_ += WholePages(bytes);
    SCHED_REQUIRE(self->used_bytes_ <= kRegionBytes, "a schedule needs more memory than there is");
    self->blocks_.push_back({memory, bytes, false});
    return memory;
}

void GuardedHeap::Release(void *context, void *memory)
{
    auto *self = static_cast<GuardedHeap *>(context);
    for (Block &block : self->blocks_) {
        if (block.memory == memory) {
            SCHED_REQUIRE(!block.released, "a block was released twice");
            block.released = true;
            if (sched_is_outside())
                return;
            Protect(block.memory, WholePages(block.bytes), PROT_NONE);
            self->any_closed_ = true;
            return;
        }
    }
    SCHED_REQUIRE(memory == nullptr, "a block that nobody has was released");
}

} // namespace sched_test
