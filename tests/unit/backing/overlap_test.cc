/* Rule 24: addresses that overlap others that are out are refused and what came with them is
 * withheld, whoever was given the others; and what a plugin says that it gave back is believed only
 * as far as it was charged. */
#include "tests/unit/backing/world.h"

#include <map>
#include <random>

namespace membrane
{
namespace
{

struct Error : mbr_error {
    Error() : mbr_error{} { struct_size = sizeof(mbr_error); }
};

uint64_t violations(const World &world)
{
    mbr_port_figures figures;
    mbr_port_read(world.port, &figures);
    return figures.violation_count;
}

/* ---- The addresses that are out, against a walk over all of them */

TEST(Addresses, RandomWork_EqualsAWalkOverAll)
{
    mbr_addresses addresses;
    mbr_addresses_init(&addresses);
    struct Out {
        mbr_addresses_entry entry;
        uint64_t bytes;
    };
    std::map<uint64_t, Out> out;
    std::mt19937_64 random(24);
    int owners[2];
    uint64_t refused = 0;
    for (int step = 0; step < 20000; step++) {
        uint64_t start = random() % 4096, bytes = 1 + random() % 64, taken;
        if (random() % 3 == 0 && !out.empty()) {
            auto found = out.lower_bound(start);
            if (found == out.end())
                found = out.begin();
            const void *owner = found->second.entry.owner;
            const void *other = owner == &owners[0] ? &owners[1] : &owners[0];
            EXPECT_EQ(nullptr, mbr_addresses_leave(&addresses, other, found->first));
            EXPECT_EQ(&found->second.entry, mbr_addresses_leave(&addresses, owner, found->first));
            EXPECT_EQ(nullptr, mbr_addresses_leave(&addresses, owner, found->first));
            out.erase(found);
            continue;
        }
        bool overlaps = false;
        uint64_t expected = 0;
        for (const auto &[at, one] : out) {
            bool meets = at < start + bytes && start < at + one.bytes;
            /* The one around the start, or else the first behind it. */
            if (meets && !overlaps)
                expected = at;
            overlaps = overlaps || meets;
        }
        Out made = {{}, bytes};
        mbr_addresses_entry *entry = overlaps ? &made.entry : &out[start].entry;
        const void *owner = &owners[random() % 2];
        ASSERT_EQ(!overlaps, mbr_addresses_enter(&addresses, entry, owner, start, bytes, &taken));
        ASSERT_EQ(expected, taken);
        refused += overlaps;
        if (!overlaps)
            out[start].bytes = bytes;
    }
    EXPECT_GT(refused, 1000u);
    uint64_t left = 0;
    for (const int &owner : owners) {
        while (mbr_addresses_leave_first(&addresses, &owner) != nullptr)
            left++;
    }
    EXPECT_EQ(out.size(), left);
    mbr_addresses_finish(&addresses); /* ends the process if one is still in */
}

/* ---- Reservations */

constexpr uint64_t kGranules = 8;

TEST(Overlap, ReservationOverALiveOne_IsWithheldAndTheLiveOneWorksOn)
{
    const int64_t shifts[] = {0, 1, 7, -7, -1};
    for (int64_t shift : shifts) {
        SCOPED_TRACE(shift);
        World world;
        world.leaks = true;
        mbr_range *live = world.reserve(kGranules * kGranule);
        ASSERT_EQ(MBR_OK, world.grow(live, 0, 2 * kGranule));
        uint64_t address = mbr_range_address(live);
        world.fake.address_lie = address + static_cast<uint64_t>(shift) * kGranule;
        Error error;
        mbr_range *second =
            world.reserve(kGranules * kGranule, {kGranule, kGranule, 0}, 0, 0, &error);
        EXPECT_EQ(nullptr, second);
        EXPECT_EQ(MBR_CONTRACT_BROKEN, error.status);
        char where[32];
        snprintf(where, sizeof(where), "out at 0x%llx", static_cast<unsigned long long>(address));
        EXPECT_NE(nullptr, strstr(error.text, where)) << error.text;
        EXPECT_EQ(0u, world.fake.calls(Slot::kUnreserve)); /* a certain leak (rule 33) */
        EXPECT_EQ(1u, violations(world));
        EXPECT_EQ(1u, world.kept().quarantined_count);
        EXPECT_EQ(1u, world.books().violation_count);
        EXPECT_EQ(MBR_OK, world.grow(live, 0, 4 * kGranule));
        EXPECT_TRUE(world.agree());
        EXPECT_EQ(MBR_OK, world.end(live));
    }
}

TEST(Overlap, ReservationBesideALiveOne_IsTaken)
{
    for (int64_t shift : {8, -8}) {
        World world;
        mbr_range *live = world.reserve(kGranules * kGranule);
        world.fake.address_lie = mbr_range_address(live) + static_cast<uint64_t>(shift) * kGranule;
        mbr_range *second = world.reserve(kGranules * kGranule);
        ASSERT_NE(nullptr, second);
        EXPECT_EQ(0u, violations(world));
        EXPECT_EQ(MBR_OK, world.end(live));
        EXPECT_EQ(MBR_OK, world.end(second));
    }
}

TEST(Overlap, AddressesThatWereGivenBack_MayComeAgain)
{
    World world;
    mbr_range *first = world.reserve(kGranules * kGranule);
    uint64_t address = mbr_range_address(first);
    EXPECT_EQ(MBR_OK, world.end(first));
    world.fake.address_lie = address; /* the first one is in the cache: still out */
    Error error;
    EXPECT_EQ(nullptr, world.reserve(16 * kGranule, {kGranule, kGranule, 0}, 0, 0, &error));
    EXPECT_EQ(MBR_CONTRACT_BROKEN, error.status);
    EXPECT_EQ(MBR_RESIDUAL, mbr_backing_destroy(world.backing, nullptr)); /* gives the first back */
    EXPECT_EQ(1u, world.fake.calls(Slot::kUnreserve));
    world.fake.address_lie = address;
    mbr_range *third = world.reserve(16 * kGranule);
    ASSERT_NE(nullptr, third);
    EXPECT_EQ(address, mbr_range_address(third));
    EXPECT_EQ(MBR_OK, world.end(third));
    world.leaks = true;
}

/* The plugin's own unreserve, and what another thread is handed before it returns. */
mbr_status (*plain_unreserve)(
    mbr_instance *, const mbr_unreserve_request *, mbr_outcome *, mbr_error *);
std::function<void()> during_unreserve;

mbr_status slow_unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = plain_unreserve(instance, request, outcome, error);
    if (during_unreserve)
        during_unreserve();
    return status;
}

TEST(Overlap, AddressesThatComeAgainBeforeUnreserveReturns_AreTakenOrAreTheLie)
{
    for (bool fails : {false, true}) {
        World world;
        world.leaks = fails;
        auto *mechanism = world.mechanism();
        plain_unreserve = mechanism->virtual_.unreserve;
        mechanism->virtual_.unreserve = slow_unreserve;
        mbr_answer first, second;
        ASSERT_EQ(MBR_OK, mbr_port_reserve(world.port, 8 * kGranule, 0, &first, nullptr));
        during_unreserve = [&] {
            world.fake.address_lie = first.address;
            EXPECT_EQ(MBR_OK, mbr_port_reserve(world.port, 8 * kGranule, 0, &second, nullptr));
        };
        if (fails)
            world.fake.faults.push_back({Slot::kUnreserve, 1, FaultKind::kRefuse, MBR_BUSY});
        EXPECT_EQ(fails ? MBR_BUSY : MBR_OK,
            mbr_port_unreserve(world.port, first.id, first.address, 8 * kGranule, nullptr));
        EXPECT_EQ(fails ? 1u : 0u, violations(world)); /* it kept them, and handed them out */
        during_unreserve = nullptr;
        EXPECT_EQ(MBR_OK,
            mbr_port_unreserve(world.port, second.id, second.address, 8 * kGranule, nullptr));
        EXPECT_EQ(nullptr, world.addresses.root);
        world.leaks = false;
        world.fake.forget_all();
    }
}

TEST(Overlap, AddressesWhoseUnreserveFailed_StayOut)
{
    World world;
    mbr_answer first, second;
    ASSERT_EQ(MBR_OK, mbr_port_reserve(world.port, 8 * kGranule, 0, &first, nullptr));
    world.fake.faults.push_back({Slot::kUnreserve, 1, FaultKind::kRefuse, MBR_BUSY});
    EXPECT_EQ(
        MBR_BUSY, mbr_port_unreserve(world.port, first.id, first.address, 8 * kGranule, nullptr));
    world.fake.address_lie = first.address + kGranule;
    EXPECT_EQ(MBR_CONTRACT_BROKEN, mbr_port_reserve(world.port, kGranule, 0, &second, nullptr));
    EXPECT_TRUE(second.quarantined);
    EXPECT_EQ(
        MBR_OK, mbr_port_unreserve(world.port, first.id, first.address, 8 * kGranule, nullptr));
    world.fake.forget_all();
}

TEST(Overlap, ReservationOfALostContext_IsForgottenWithItsAddresses)
{
    World world;
    mbr_range *range = world.reserve(8 * kGranule);
    ASSERT_EQ(MBR_OK, world.grow(range, 0, kGranule));
    uint64_t address = mbr_range_address(range);
    mbr_context_lose(world.context);
    EXPECT_EQ(MBR_OK, world.end(range));
    world.fake.address_lie = address;
    mbr_answer answer;
    EXPECT_EQ(MBR_CONTRACT_BROKEN, mbr_port_reserve(world.port, kGranule, 0, &answer, nullptr));
    mbr_backing_confirm_lost(world.backing, world.context);
    EXPECT_EQ(nullptr, world.addresses.root);
    world.fake.forget_all();
}

/* ---- Allocations, and other mechanisms of the same manager */

TEST(Overlap, AllocationOverAnything_IsWithheldAndStaysCharged)
{
    for (bool over_range : {true, false}) {
        World world;
        world.leaks = true;
        mbr_answer live;
        ASSERT_EQ(MBR_OK,
            over_range
                ? mbr_port_reserve(world.port, 8 * kGranule, 0, &live, nullptr)
                : mbr_port_allocate(world.port, 8 * kGranule, 0, 8 * kGranule, 0, &live, nullptr));
        auto *mechanism = world.mechanism();
        mechanism->has_virtual = mechanism->has_shared = false;
        world.fake.address_lie = live.address + 7 * kGranule;
        mbr_span span;
        Error error;
        EXPECT_EQ(MBR_CONTRACT_BROKEN,
            mbr_backing_take_span(
                world.backing, world.context, 0, 0, 2 * kGranule, 256, &span, nullptr, &error));
        EXPECT_NE(nullptr, strstr(error.text, "overlap")) << error.text;
        EXPECT_EQ(0u, world.fake.calls(Slot::kRelease));
        EXPECT_EQ(1u, violations(world));
        EXPECT_EQ(2 * kGranule, world.cached());
        EXPECT_EQ(2 * kGranule, world.books().quarantined_bytes);
        world.fake.address_lie = live.address + 256; /* below a granule: not looked at */
        mbr_answer small;
        ASSERT_EQ(MBR_OK, mbr_port_allocate(world.port, 256, 0, 256, 0, &small, nullptr));
        EXPECT_EQ(1u, violations(world));
    }
}

TEST(Overlap, OfTwoMechanismsOfOneManager_IsRefused)
{
    World world;
    FakeMechanism other{kGranule}; /* its numbers begin where the first one's do */
    mbr_port *port = nullptr;
    ASSERT_EQ(MBR_OK,
        mbr_port_create(&other.mechanism, &world.addresses, &world.heap.heap, &port, nullptr));
    mbr_range *live = world.reserve(8 * kGranule);
    mbr_answer answer;
    EXPECT_EQ(MBR_CONTRACT_BROKEN, mbr_port_reserve(port, kGranule, 0, &answer, nullptr));
    mbr_port_figures figures;
    mbr_port_read(port, &figures);
    EXPECT_EQ(1u, figures.violation_count);
    EXPECT_EQ(0u, violations(world));
    other.address_lie = mbr_range_address(live) + 8 * kGranule;
    ASSERT_EQ(MBR_OK, mbr_port_reserve(port, kGranule, 0, &answer, nullptr));
    EXPECT_EQ(MBR_OK, mbr_port_unreserve(port, answer.id, answer.address, kGranule, nullptr));
    EXPECT_EQ(MBR_OK, world.end(live));
    mbr_heap_release(&world.heap.heap, port); /* closing it would close the fake by the loader */
}

TEST(Overlap, NoHostMemoryForTheEntry_NothingIsAskedOfThePlugin)
{
    World world;
    mbr_answer answer;
    world.heap.fail_at = world.heap.allocations + 1;
    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY, mbr_port_reserve(world.port, kGranule, 0, &answer, nullptr));
    EXPECT_FALSE(answer.quarantined);
    world.heap.fail_at = world.heap.allocations + 1;
    EXPECT_EQ(MBR_OUT_OF_HOST_MEMORY,
        mbr_port_allocate(world.port, kGranule, 0, kGranule, 0, &answer, nullptr));
    EXPECT_EQ(0u, answer.owned_bytes);
    EXPECT_EQ(0u, world.fake.all_calls());
    world.fake.faults.push_back({Slot::kReserve, 1});
    world.fake.faults.push_back({Slot::kAllocate, 1});
    EXPECT_EQ(MBR_OUT_OF_MEMORY, mbr_port_reserve(world.port, kGranule, 0, &answer, nullptr));
    EXPECT_EQ(MBR_OUT_OF_MEMORY,
        mbr_port_allocate(world.port, kGranule, 0, kGranule, 0, &answer, nullptr));
} /* the world finds a block of the heap that was left */

/* ---- Refunds */

TEST(Refund, OtherThanTheCharge_IsClampedCountedAndReported)
{
    for (int64_t skew : {INT64_C(4096), INT64_C(-4096)}) {
        World world;
        mbr_range *range = world.reserve(8 * kGranule, {kGranule, kGranule, 0});
        ASSERT_EQ(MBR_OK, world.grow(range, 0, 3 * kGranule));
        world.fake.released_skew = skew;
        EXPECT_EQ(MBR_OK, world.end(range));
        mbr_backing_evict(world.backing, UINT64_MAX); /* unmaps and destroys all three */
        EXPECT_EQ(6u, violations(world));
        EXPECT_EQ(0u, world.books().charged_bytes);
        EXPECT_EQ(0u, world.books().mapped_bytes);
        EXPECT_TRUE(world.agree());
        auto *mechanism = world.mechanism();
        mechanism->has_virtual = mechanism->has_shared = false;
        mbr_span span;
        ASSERT_EQ(MBR_OK,
            mbr_backing_take_span(
                world.backing, world.context, 0, 0, 2 * kGranule, 256, &span, nullptr, nullptr));
        mbr_backing_give_span(world.backing, &span);
        EXPECT_EQ(7u, violations(world));
        EXPECT_EQ(0u, world.books().charged_bytes);
        EXPECT_TRUE(world.agree());
        mechanism->has_virtual = mechanism->has_shared = true;
    }
}

mbr_status leave_too_much(
    mbr_instance *, const mbr_extent_create_request *request, mbr_outcome *outcome, mbr_error *)
{
    outcome->state = MBR_STATE_PARTIAL;
    outcome->residual_owned_bytes = 2 * request->bytes;
    return MBR_OUT_OF_MEMORY;
}

TEST(Refund, ResidualBeyondTheObject_IsClampedAndCounted)
{
    World world;
    auto *mechanism = world.mechanism();
    mechanism->virtual_.extent_create = leave_too_much;
    mbr_answer answer;
    EXPECT_EQ(MBR_OUT_OF_MEMORY,
        mbr_port_extent_create(world.port, kGranule, kGranule, 0, &answer, nullptr));
    EXPECT_EQ(kGranule, answer.owned_bytes);
    EXPECT_EQ(1u, violations(world));
}

} // namespace
} // namespace membrane
