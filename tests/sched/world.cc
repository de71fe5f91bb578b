// The heap of schedules, and what the first use of the governor in a process does: slots of threads
// are counted when they are taken for the first time, and code outside of the bodies takes one for
// good.
#include "tests/sched/world.h"

#include <sys/mman.h>

namespace sched_test
{

// ---- The heap
namespace
{

constexpr size_t kRegionBytes = 16 * kMiB;
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
    for (Block &block : static_cast<GuardedHeap *>(context)->blocks_) {
        if (block.memory == memory) {
            SCHED_REQUIRE(!block.released, "a block was released twice");
            block.released = true;
            Protect(block.memory, WholePages(block.bytes), PROT_NONE);
            return;
        }
    }
    SCHED_REQUIRE(memory == nullptr, "a block that nobody has was released");
}

// ---- The first use

namespace
{

// As many slots as there can be fibers, all at once.
class EverySlot : public GovernorScenario
{
  public:
    explicit EverySlot(Draw &) : GovernorScenario(1), holder_(Holder())
    {
        mbr_mapped_add(holder_, 0);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return std::vector<std::function<void()>>(
            SCHED_FIBER_LIMIT, [this] { mbr_mapped_add(holder_, 0); });
    }

  private:
    mbr_holder *holder_;
};

} // namespace

MakeScenario FirstUse()
{
    return Make<EverySlot>();
}

} // namespace sched_test
