// The release queue: when an epoch closes, what settles when, captured streams, bounds.
#include "tests/unit/ep/world.h"

#include <random>

using namespace ep_test;

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;

// ---- closing epochs ----

TEST(QueueEpoch, SixtyFourEntries_OneSignal)
{
    World world;
    uint64_t id = world.attach(1);
    for (int i = 0; i < 63; i++)
        world.defer({id});
    EXPECT_EQ(0u, world.fake.count(kSignal));
    world.defer({id});
    EXPECT_EQ(1u, world.fake.count(kSignal));
    for (int i = 0; i < 64; i++)
        world.defer({id});
    EXPECT_EQ(2u, world.fake.count(kSignal));
    EXPECT_EQ(2u, world.read().signal_count);
    EXPECT_EQ(0u, world.fake.count(kReached)); // a defer asks nothing
    world.audit();
}

TEST(QueueEpoch, SixtyFourMebibytes_OneSignal)
{
    World world;
    uint64_t id = world.attach(1);
    world.defer({id}, 64 * kMiB - 1);
    EXPECT_EQ(0u, world.fake.count(kSignal));
    world.defer({id}, 1);
    EXPECT_EQ(1u, world.fake.count(kSignal));
    world.defer({id}, 64 * kMiB);
    EXPECT_EQ(2u, world.fake.count(kSignal));
}

TEST(QueueEpoch, AllocationThatFindsNothing_ClosesAtOnce)
{
    World world;
    uint64_t id = world.attach(1);
    world.defer({id});
    EXPECT_EQ(0u, world.reap(false));
    EXPECT_EQ(0u, world.fake.count(kSignal));
    EXPECT_EQ(0u, world.reap(true));
    EXPECT_EQ(1u, world.fake.count(kSignal));
    EXPECT_EQ(0u, world.reap(true));
    EXPECT_EQ(1u, world.fake.count(kSignal)); // no second signal for the same epoch
}

TEST(QueueEpoch, OneMillisecondAfterItsFirstEntry_ClosesOnTheNextReap)
{
    World world;
    uint64_t id = world.attach(1);
    world.clock.now = 5000000;
    world.defer({id});
    world.clock.now += MBR_EPOCH_AGE_NS - 1;
    world.defer({id}); // does not renew the age
    world.reap(false);
    EXPECT_EQ(0u, world.fake.count(kSignal));
    world.clock.now += 1;
    world.reap(false);
    EXPECT_EQ(1u, world.fake.count(kSignal));
    world.defer({id});
    world.reap(false);
    EXPECT_EQ(1u, world.fake.count(kSignal)); // the next epoch has its own age
}

TEST(QueueEpoch, SeveralStreams_OneSignalForEachOfThem)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2), idle = world.attach(3);
    (void)idle;
    for (int i = 0; i < 32; i++) {
        world.defer({one, two});
        world.defer({two, two, one}); // doubled ids are one stream
    }
    EXPECT_EQ(1u, world.fake.signalled(1));
    EXPECT_EQ(1u, world.fake.signalled(2));
    EXPECT_EQ(0u, world.fake.signalled(3));
    EXPECT_EQ(2u, world.read().signal_count);
    world.fake.reach_all();
    EXPECT_EQ(64 * 4096u, world.reap());
    EXPECT_EQ(2u, world.fake.count(kReached)); // each line asked once, not each epoch or entry
}

TEST(QueueEpoch, SixtyFifthStream_ClosesTheEpoch)
{
    World world;
    std::vector<uint64_t> ids;
    for (uint64_t native = 1; native <= 70; native++)
        ids.push_back(world.attach(native));
    for (int i = 0; i < 32; i++)
        world.defer({ids[static_cast<size_t>(2 * i)], ids[static_cast<size_t>(2 * i + 1)]});
    EXPECT_EQ(0u, world.fake.count(kSignal));
    world.defer({ids[0]}); // known to the epoch
    EXPECT_EQ(0u, world.fake.count(kSignal));
    world.defer({ids[0], ids[64]});
    EXPECT_EQ(64u, world.fake.count(kSignal));
    world.audit();
    std::vector<uint64_t> all(ids.begin(), ids.begin() + 64);
    world.defer(all);
    EXPECT_EQ(66u, world.fake.count(kSignal)); // the epoch of 0 and 64 was closed for it
    all.push_back(ids[64]);
    world.defer(all, 1, MBR_OUT_OF_RANGE);
    world.fake.reach_all();
    world.reap();
    world.fake.reach_all();
    world.reap();
    EXPECT_EQ(0u, world.read().queued_count);
}

TEST(QueueEpoch, OneSignalPerStreamAndEpoch_CountedOverManyEpochs)
{
    World world;
    std::vector<uint64_t> ids;
    for (uint64_t native = 1; native <= 8; native++)
        ids.push_back(world.attach(native));
    std::mt19937 random(20260101);
    uint64_t expected = 0;
    std::set<uint64_t> streams;
    for (int i = 1; i <= 6400; i++) {
        std::vector<uint64_t> some;
        for (uint64_t id : ids)
            if (random() % 3 == 0)
                some.push_back(id);
        if (some.empty())
            some.push_back(ids[0]);
        streams.insert(some.begin(), some.end());
        world.defer(some);
        if (i % 64 == 0) {
            expected += streams.size();
            streams.clear();
            EXPECT_EQ(expected, world.fake.count(kSignal));
        }
    }
    EXPECT_EQ(expected, world.read().signal_count);
    world.audit();
}

// ---- settling ----

TEST(Queue, EntryWithoutStreams_SettledAtTheNextReap)
{
    World world;
    Entry *entry = world.defer({}, 10);
    EXPECT_EQ(0, entry->settled);
    EXPECT_EQ(1u, world.read().queued_count);
    EXPECT_EQ(10u, world.reap(false));
    EXPECT_EQ(1, entry->settled);
    EXPECT_EQ(MBR_SETTLED_RELEASED, entry->how);
    EXPECT_EQ(0u, world.fake.calls());
}

TEST(Queue, Entries_WaitForTheirOwnStreamsOnly)
{
    World world;
    uint64_t stalled = world.attach(1), quick = world.attach(2);
    world.fake.submit(1);
    std::vector<Entry *> held, free;
    for (int i = 0; i < 200; i++) {
        world.fake.submit(2);
        held.push_back(world.defer(
            i % 2 == 0 ? std::vector<uint64_t>{stalled} : std::vector<uint64_t>{quick, stalled}));
        free.push_back(world.defer({quick}));
    }
    world.reap();
    world.fake.reach_all({1});
    EXPECT_EQ(200 * 4096u, world.reap());
    for (Entry *entry : free)
        EXPECT_EQ(1, entry->settled);
    for (Entry *entry : held)
        EXPECT_EQ(0, entry->settled);
    world.audit();
    world.fake.reach_all();
    EXPECT_EQ(200 * 4096u, world.reap());
    for (Entry *entry : held)
        EXPECT_EQ(1, entry->settled);
}

TEST(Queue, ValuesReachedOneByOne_SettleEpochByEpoch)
{
    World world;
    uint64_t id = world.attach(1);
    std::vector<Entry *> entries;
    for (int i = 0; i < 640; i++)
        entries.push_back(world.defer({id}));
    for (uint64_t value = 1; value <= 10; value++) {
        world.fake.reach(1, value);
        EXPECT_EQ(64 * 4096u, world.reap(false));
        for (size_t i = 0; i < entries.size(); i++)
            ASSERT_EQ(i < 64 * value ? 1 : 0, entries[i]->settled) << i;
    }
}

TEST(Queue, ValueReachedWhenSignalReturns_CountsExact)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    for (int i = 0; i < 130; i++)
        world.defer({id});
    EXPECT_EQ(130u, world.read().queued_count);
    EXPECT_EQ(130 * 4096u, world.reap());
    mbr_ep_figures figures = world.read();
    EXPECT_EQ(0u, figures.queued_count);
    EXPECT_EQ(0u, figures.queued_bytes);
    EXPECT_EQ(130u, figures.released_count);
    EXPECT_EQ(3u, figures.signal_count);
}

TEST(Queue, ReachedAnswersThatLie_NeverCoverALaterSignal)
{
    World world;
    uint64_t id = world.attach(1);
    world.defer({id});
    world.reap();
    // Far too high: counts as what was signalled so far, and as nothing beyond.
    world.fake.after = [](Slot slot, mbr_outcome *outcome) {
        if (slot == kReached)
            outcome->value = UINT64_MAX;
    };
    world.fake.reach_all(); // so that the entry's own check holds
    EXPECT_EQ(4096u, world.reap());
    world.fake.after = nullptr;
    world.fake.submit(1);
    Entry *later = world.defer({id});
    EXPECT_EQ(0u, world.reap());
    EXPECT_EQ(0, later->settled);
    // Backwards: what was reached stays reached, and nothing else happens.
    world.fake.after = [](Slot slot, mbr_outcome *outcome) {
        if (slot == kReached)
            outcome->value = 0;
    };
    EXPECT_EQ(0u, world.reap());
    world.fake.after = nullptr;
    world.fake.reach_all();
    EXPECT_EQ(4096u, world.reap());
    world.audit();
}

TEST(Queue, PassOfOneGibibyte_TheRestInTheNext)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    for (int i = 0; i < 5; i++)
        world.defer({id}, MBR_REAP_PASS_BYTES / 2 - 1);
    EXPECT_EQ(3 * (MBR_REAP_PASS_BYTES / 2 - 1), world.reap());
    EXPECT_EQ(2u, world.read().queued_count);
    EXPECT_EQ(2 * (MBR_REAP_PASS_BYTES / 2 - 1), world.reap(false));
    world.defer({id}, 10 * MBR_REAP_PASS_BYTES); // larger than a pass: it goes alone
    world.defer({id}, 1);
    EXPECT_EQ(10 * MBR_REAP_PASS_BYTES, world.reap());
    EXPECT_EQ(1u, world.reap());
}

TEST(Queue, EntryQueuedAgainByItsSettle_IsSettledAgain)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    Entry *entry = world.defer({id});
    int rounds = 3;
    entry->then = [&](Entry *self) {
        if (--rounds == 0)
            return;
        self->settled = 0;
        EXPECT_EQ(MBR_OK, mbr_context_defer(world.context, &id, 1, &self->deferred, nullptr));
        EXPECT_EQ(0u, world.reap()); // a pass inside a pass settles nothing
    };
    EXPECT_EQ(3 * 4096u, world.reap());
    EXPECT_EQ(0, rounds);
    world.audit();
}

TEST(Queue, TenThousandEntriesBehindAStalledStream_OthersGoOn)
{
    World world;
    uint64_t stalled = world.attach(1), quick = world.attach(2);
    for (int i = 0; i < 10000; i++)
        world.defer({stalled});
    EXPECT_EQ(10000u, world.read().queued_count);
    EXPECT_EQ(10000u * 4096, world.read().queued_bytes);
    world.fake.reach_at_once = false;
    for (int i = 0; i < 100; i++) {
        Entry *entry = world.defer({quick});
        world.reap();
        world.fake.reach_all({1});
        world.reap();
        EXPECT_EQ(1, entry->settled);
    }
    world.audit();
    uint64_t before = world.heap.calls;
    world.fake.reach_all();
    EXPECT_EQ(10000u * 4096, world.reap());
    EXPECT_EQ(before, world.heap.calls);
}

TEST(Queue, SteadyState_NoAllocation)
{
    World world;
    uint64_t one = world.attach(1), two = world.attach(2);
    world.fake.reach_at_once = true;
    uint64_t warm = 0;
    for (int i = 0; i < 10000; i++) {
        world.defer(i % 3 == 0 ? std::vector<uint64_t>{one, two} : std::vector<uint64_t>{one});
        if (i % 100 == 99)
            world.reap();
        if (i == 999)
            warm = world.heap.calls;
    }
    EXPECT_EQ(warm, world.heap.calls);
}

// ---- captured streams and failing signals ----

TEST(QueueBusy, CapturedStream_KeepsItsEntriesOnlyAndIsAskedAgain)
{
    World world;
    uint64_t captured = world.attach(1), other = world.attach(2);
    world.fake.captured.insert(1);
    Entry *held = world.defer({captured});
    Entry *both = world.defer({captured, other});
    Entry *free = world.defer({other});
    world.fake.reach_at_once = true;
    EXPECT_EQ(4096u, world.reap());
    EXPECT_EQ(1, free->settled);
    uint64_t tries = world.fake.count(kSignal);
    world.reap();
    EXPECT_EQ(tries + 1, world.fake.count(kSignal)); // once a pass, for the captured one alone
    world.defer({}, 0);
    EXPECT_EQ(tries + 1, world.fake.count(kSignal)); // a defer that closes nothing asks nothing
    EXPECT_EQ(0, held->settled);
    world.audit();
    world.fake.captured.clear();
    EXPECT_EQ(2 * 4096u, world.reap());
    EXPECT_EQ(1, held->settled);
    EXPECT_EQ(1, both->settled);
    EXPECT_EQ(2u, world.read().signal_count); // one for each stream, as without the capture
}

TEST(QueueBusy, ManyEpochsDuringACapture_OneSignalCoversThemAfterwards)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.captured.insert(1);
    for (int i = 0; i < 64 * 20; i++)
        world.defer({id});
    EXPECT_EQ(20u, world.fake.count(kSignal)); // tried once an epoch
    EXPECT_EQ(0u, world.read().signal_count);
    world.audit();
    world.fake.captured.clear();
    world.reap();
    EXPECT_EQ(1u, world.read().signal_count);
    world.fake.reach_all();
    world.reap();
    EXPECT_EQ(0u, world.read().queued_count);
}

TEST(QueueBusy, SignalWithAnOldValueOrWithoutDone_IsRefusedAndTriedAgain)
{
    World world;
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    world.defer({id});
    EXPECT_EQ(4096u, world.reap());
    Entry *entry = world.defer({id});
    world.fake.after = [](Slot slot, mbr_outcome *outcome) {
        if (slot == kSignal)
            outcome->value = 1; // reached already: would release at once
    };
    EXPECT_EQ(0u, world.reap());
    world.fake.after = [](Slot slot, mbr_outcome *outcome) {
        if (slot == kSignal)
            outcome->state = 77;
    };
    EXPECT_EQ(0u, world.reap());
    EXPECT_EQ(2u, world.read().violation_count);
    EXPECT_EQ(0, entry->settled);
    world.audit();
    world.fake.after = nullptr;
    EXPECT_EQ(4096u, world.reap());
}

TEST(QueueBusy, SealedWhileItsSignalIsRefused_BothEpochsStayInOrder)
{
    World world;
    uint64_t id = world.attach(1);
    Entry *first = world.defer({id});
    bool nested = false;
    world.fake.captured.insert(1);
    world.fake.before = [&](Slot slot, uint64_t) {
        if (slot != kSignal || nested)
            return;
        nested = true;
        for (int i = 0; i < 64; i++) // a whole epoch while the first one's signal runs
            world.defer({id});
    };
    EXPECT_EQ(0u, world.reap());
    world.fake.before = nullptr;
    EXPECT_EQ(65u, world.read().queued_count);
    world.audit();
    world.fake.captured.clear();
    world.reap();
    EXPECT_EQ(1u, world.read().signal_count);
    world.fake.reach_all();
    EXPECT_EQ(65 * 4096u, world.reap());
    EXPECT_EQ(1, first->settled);
}

TEST(QueueBusy, FailingSignalAndQuestion_NoProgressAndNoHarm)
{
    World world;
    uint64_t id = world.attach(1);
    world.defer({id});
    world.fake.answer[kSignal] = MBR_INTERNAL;
    world.reap();
    EXPECT_EQ(0u, world.read().violation_count); // a plain failure
    for (uint32_t state : {uint32_t{MBR_STATE_DONE}, UINT32_C(77)}) {
        world.fake.failed_state = state; // a failure that claims otherwise
        uint64_t before = world.read().violation_count;
        world.reap();
        EXPECT_EQ(before + 1, world.read().violation_count);
    }
    world.fake.failed_state = MBR_STATE_QUARANTINED; // allowed with a failure
    world.reap();
    EXPECT_EQ(2u, world.read().violation_count);
    EXPECT_EQ(0u, world.read().signal_count);
    world.fake.answer[kReached] = MBR_INTERNAL;
    world.fake.answer[kSignal] = MBR_OK;
    world.reap(); // signalled; the question fails: no progress, no harm
    EXPECT_EQ(0u, world.read().released_count);
    world.fake.answer[kReached] = MBR_OK;
    world.fake.reach_all();
    EXPECT_EQ(4096u, world.reap());
}

// ---- bounds and hand-back ----

TEST(QueueBounds, Entries_HandedBackAtTheBoundAndTakenAfterAReap)
{
    World world({.queue_entries = 3});
    uint64_t id = world.attach(1);
    world.fake.reach_at_once = true;
    for (int i = 0; i < 3; i++)
        world.defer({id});
    world.defer({id}, 1, MBR_QUEUE_FULL);
    world.defer({}, 1, MBR_QUEUE_FULL);
    EXPECT_EQ(3u, world.read().queued_count);
    world.reap();
    world.defer({id});
    world.audit();
}

TEST(QueueBounds, Bytes_ExactlyTheBoundAndNotOneMore)
{
    World world({.queue_bytes = 1000});
    uint64_t id = world.attach(1);
    world.defer({id}, 999);
    world.defer({id}, 2, MBR_QUEUE_FULL);
    world.defer({id}, 1);
    world.defer({id}, 1, MBR_QUEUE_FULL);
    world.defer({id}, 0); // no bytes: fits
    EXPECT_EQ(1000u, world.read().queued_bytes);
    mbr_error error = sized<mbr_error>();
    mbr_deferred entry = {};
    entry.bytes = 1;
    entry.settle = Entry::settle;
    EXPECT_EQ(MBR_QUEUE_FULL, mbr_context_defer(world.context, &id, 1, &entry, &error));
    EXPECT_NE(nullptr, strstr(error.text, "3 releases queued")) << error.text;
}

TEST(QueueBounds, BytesBeyond64Bits_Overflow)
{
    World world;
    uint64_t id = world.attach(1);
    world.defer({id}, UINT64_MAX - 10);
    world.defer({id}, 11, MBR_OVERFLOW);
    world.defer({id}, 10);
    EXPECT_EQ(UINT64_MAX, world.read().queued_bytes);
    world.fake.reach_all();
    world.reap();
    world.audit();
}

TEST(QueueBounds, DefaultBound_Is65536Entries)
{
    World world;
    uint64_t id = world.attach(1);
    for (int i = 0; i < 65536; i++)
        world.defer({id}, 1);
    world.defer({id}, 1, MBR_QUEUE_FULL);
    world.audit();
}

TEST(QueueBounds, HeapExhausted_HandedBackBeforeAnythingChanged)
{
    World world;
    std::vector<uint64_t> ids;
    for (uint64_t native = 1; native <= 64; native++)
        ids.push_back(world.attach(native));
    world.heap.fail_after = true;
    world.heap.fail_at = world.heap.calls + 1; // the first chunk of marks
    world.defer(ids, 1, MBR_OUT_OF_HOST_MEMORY);
    world.heap.fail_at = world.heap.calls + 2; // the first chunk of epochs
    world.defer(ids, 1, MBR_OUT_OF_HOST_MEMORY);
    EXPECT_EQ(0u, world.read().queued_count);
    world.audit();
    world.heap.fail_at = 0;
    Entry *entry = world.defer(ids, 1);
    world.heap.fail_at = world.heap.calls + 1;
    world.defer({ids[0]}, 1, MBR_OUT_OF_HOST_MEMORY); // no mark is left, though it needs none
    world.fake.reach_at_once = true;
    world.reap();
    EXPECT_EQ(1, entry->settled);
    world.defer({ids[0]}, 1); // what came back is used again
    world.defer({}, 1);       // needs neither
    world.heap.fail_at = 0;
    world.audit();
}

} // namespace
