// The audit itself: it is quiet on good books and finds each kind of wrong figure.
#include "tests/unit/ep/tamper.h"
#include "tests/unit/ep/world.h"

using namespace ep_test;

namespace
{

TEST(ContextAudit, EachWrongFigure_IsFoundAndNamed)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    world.defer({one});
    world.reap(); // signalled, and waits
    world.fake.captured.insert(2);
    world.defer({two});
    world.reap(); // could not be signalled
    world.defer({one, two}, 512);
    ASSERT_EQ(nullptr, mbr_context_audit(world.context));
    for (uint32_t fault = 0; fault < tamper_count(); fault++) {
        tamper(world.context, fault, 1000);
        EXPECT_NE(nullptr, mbr_context_audit(world.context)) << fault;
        tamper(world.context, fault, -1000);
        ASSERT_EQ(nullptr, mbr_context_audit(world.context)) << fault;
    }
}

} // namespace
