// What the first use of the governor in a process does: slots of threads are counted when they are
// taken for the first time, and code outside of the bodies takes one for good.
#include "tests/sched/world.h"

namespace sched_test
{

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
