// What the first use of a backing in a process does: nothing that a later one would not do.
#include "tests/sched/backing_world.h"

namespace sched_test
{

namespace
{

// Every fiber's slot in the governor is counted, and code outside of the bodies has one for good.
class EverySlot : public BackingScenario
{
  public:
    explicit EverySlot(Draw &draw) : BackingScenario(draw) { Live(0, 1); }

    std::vector<std::function<void()>> Bodies() override
    {
        return std::vector<std::function<void()>>(SCHED_FIBER_LIMIT, [this] { Live(0, 1); });
    }
};

} // namespace

MakeScenario FirstUse()
{
    return Make<EverySlot>();
}

} // namespace sched_test
