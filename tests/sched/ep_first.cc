// What the first use of a context in a process does: nothing that a later one would not do.
#include "tests/sched/ep_world.h"

namespace sched_test
{

namespace
{

class Nothing : public EpScenario
{
  public:
    explicit Nothing(Draw &draw) : EpScenario(draw) { Create(&ep_); }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[] { SCHED_CALLBACK_POINT(); }};
    }
};

} // namespace

MakeScenario FirstUse()
{
    return Make<Nothing>();
}

} // namespace sched_test
