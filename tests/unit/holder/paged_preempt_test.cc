// Paged stores whose sequences go and come back: what moves, what the store says it could give,
// what it gives under real pressure, and threads that do it all at once.
#include "tests/unit/holder/paged_world.h"

#include <atomic>
#include <thread>

namespace membrane
{
namespace
{

constexpr uint64_t kPage = 256, kExtent = 4096;

/* ---- Preemption */

/* S123 */
TEST(PagedPreempt, Preempt_WithASharedPrefix_MovesOnlyWhatIsItsOwnAndComesBackBitByBitTheSame)
{
    PagedWorld world({});
    Plain *parent = world.started(36);
    Plain *child = world.forked(parent);
    ASSERT_EQ(MBR_OK, world.append(child, 50));
    ASSERT_EQ(MBR_OK, world.overwrite(child, 7, 1));
    EXPECT_EQ(5u, world.read(child).shared_page_count);
    ASSERT_EQ(MBR_OK, world.preempt(child));
    world.check();
    EXPECT_EQ(5u, world.read(child).page_count) << "what is shared stays";
    EXPECT_EQ(10u, world.read(child).saved_page_count);
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.append(child, 1));
    EXPECT_NE(nullptr, std::strstr(world.error.text, "preempted")) << world.error.text;
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.rewind(child, 1));
    EXPECT_EQ(MBR_INVALID_ARGUMENT, world.fork(child));
    ASSERT_EQ(MBR_OK, world.append(parent, 30));
    ASSERT_EQ(MBR_OK, world.restore(child));
    world.check();
    EXPECT_EQ(0u, world.read().saved_bytes) << "nothing is kept there";
}

TEST(PagedPreempt, Preempt_OnceMoreWhenItIsTheLastWithAPage_MovesThatToo)
{
    PagedWorld world({});
    Plain *parent = world.started(30);
    Plain *child = world.forked(parent);
    ASSERT_EQ(MBR_OK, world.preempt(child));
    EXPECT_EQ(0u, world.read(child).saved_page_count);
    world.end(parent);
    EXPECT_EQ(5u, world.read(child).exclusive_page_count);
    ASSERT_EQ(MBR_OK, world.preempt(child));
    EXPECT_EQ(5u, world.read(child).saved_page_count);
    world.check();
    ASSERT_EQ(MBR_OK, world.restore(child));
    world.check();
    EXPECT_EQ(MBR_OK, world.restore(child)) << "it is back";
}

TEST(PagedPreempt, Preempt_WithoutRoomInTheSavedArea_ChangesNothingAndRestoreWithoutRoomNeither)
{
    PagedWorld world({}, 2 * kExtent, kExtent);
    Plain *large = world.started(17 * 6);
    EXPECT_EQ(MBR_OVER_BUDGET, world.preempt(large));
    world.check();
    ASSERT_EQ(MBR_OK, world.rewind(large, 16 * 6));
    ASSERT_EQ(MBR_OK, world.preempt(large));
    Plain *other = world.started(17 * 6);
    EXPECT_EQ(MBR_OVER_BUDGET, world.restore(large));
    world.check();
    world.end(other);
    ASSERT_EQ(MBR_OK, world.restore(large));
    world.check();
}

TEST(PagedPreempt, Preempt_WithoutASavedArea_IsUnsupportedAndOffersGiveNothing)
{
    PagedShape shape;
    shape.saves = false;
    PagedWorld world(shape);
    Plain *plain = world.started(10);
    EXPECT_EQ(MBR_UNSUPPORTED, world.preempt(plain));
    ASSERT_EQ(MBR_OK, world.offer(plain));
    EXPECT_EQ(0u, mbr_paged_could_give(world.store, UINT64_MAX));
    EXPECT_EQ(0u, mbr_paged_give(world.store, UINT64_MAX));
    ASSERT_EQ(MBR_OK, world.restore(plain));
    world.check();
}

/* ---- Pressure */

TEST(PagedPreempt, CouldGive_OfResidentSharedAndHalfExtents_IsTheTruth)
{
    PagedWorld world({});
    Plain *one = world.started(16 * 6); // a whole extent
    Plain *two = world.started(8 * 6);  // half of one
    EXPECT_EQ(0u, world.give(UINT64_MAX)) << "both are resident";
    ASSERT_EQ(MBR_OK, world.offer(two));
    ASSERT_EQ(MBR_OK, world.offer(one));
    EXPECT_EQ(2 * kExtent, mbr_paged_could_give(world.store, UINT64_MAX));
    EXPECT_EQ(100u, mbr_paged_could_give(world.store, 100));
    ASSERT_EQ(MBR_OK, world.restore(one));
    Plain *child = world.forked(one);
    ASSERT_EQ(MBR_OK, world.append(child, 7)); // shares two's extent
    ASSERT_EQ(MBR_OK, world.offer(one));
    EXPECT_EQ(0u, mbr_paged_could_give(world.store, UINT64_MAX));
    ASSERT_EQ(MBR_OK, world.offer(child));
    EXPECT_EQ(kExtent, mbr_paged_could_give(world.store, UINT64_MAX)) << "one's are shared";
    EXPECT_EQ(kExtent, world.give(UINT64_MAX));
    EXPECT_EQ(MBR_PAGED_OFFERED, static_cast<int>(world.read(one).state));
    EXPECT_EQ(MBR_PAGED_PREEMPTED, static_cast<int>(world.read(two).state));
    world.check();
    for (Plain *each : {one, two, child})
        ASSERT_EQ(MBR_OK, world.restore(each));
    world.check();
}

TEST(PagedPreempt, Keep_HoldsEmptyExtentsUntilTheyAreAskedFor)
{
    PagedShape shape;
    shape.keep_bytes = 2 * kExtent + 1;
    shape.max_tokens = 500;
    PagedWorld world(shape);
    Plain *plain = world.started(4 * 16 * 6);
    ASSERT_EQ(MBR_OK, world.rewind(plain, 1));
    EXPECT_EQ(3 * kExtent, world.read().committed_bytes) << "one with the page, and two kept";
    EXPECT_EQ(kExtent, world.give(kExtent - 1));
    EXPECT_EQ(2 * kExtent, world.read().committed_bytes);
    uint64_t slots = world.figures().call_count;
    uint64_t reading = world.figures().call_count - slots;
    ASSERT_EQ(MBR_OK, world.append(plain, 2 * 16 * 6 - 1));
    EXPECT_EQ(slots + 2 * reading, world.figures().call_count) << "it was there";
    world.check();
}

TEST(PagedPreempt, CouldGive_WithLittleRoomForSavedPages_CountsOnlyWhatFits)
{
    PagedWorld world({}, 64 * kMiB, kExtent);
    Plain *one = world.started(16 * 6), *two = world.started(16 * 6);
    ASSERT_EQ(MBR_OK, world.offer(one));
    ASSERT_EQ(MBR_OK, world.offer(two));
    EXPECT_EQ(kExtent, mbr_paged_could_give(world.store, UINT64_MAX));
    EXPECT_EQ(kExtent, world.give(UINT64_MAX));
    EXPECT_EQ(MBR_PAGED_OFFERED, static_cast<int>(world.read(two).state));
    world.check();
    world.end(one);
    ASSERT_EQ(MBR_OK, world.restore(two));
    ASSERT_EQ(MBR_OK, world.append(two, 1));
    ASSERT_EQ(MBR_OK, world.offer(two));
    world.give(kExtent); /* what was kept empty */
    EXPECT_EQ(0u, mbr_paged_could_give(world.store, UINT64_MAX)) << "17 pages, and room for 16";
}

TEST(PagedPreempt, CouldGive_WithAnAllowanceForSavedPages_CountsNoMoreThanThat)
{
    PagedShape shape;
    shape.saved_allowance = kExtent;
    PagedWorld world(shape);
    Plain *one = world.started(16 * 6), *two = world.started(16 * 6);
    ASSERT_EQ(MBR_OK, world.offer(one));
    ASSERT_EQ(MBR_OK, world.offer(two));
    EXPECT_EQ(kExtent, mbr_paged_could_give(world.store, UINT64_MAX));
    EXPECT_EQ(kExtent, world.give(UINT64_MAX));
    EXPECT_EQ(0u, mbr_paged_could_give(world.store, UINT64_MAX)) << "the allowance is used up";
    world.check();
}

/* Half-way through a preemption its growth asks a cache for room. There, the store says that what
 * moves gives nothing, and another thread ends the sequence: that waits until the move is over. */
TEST(PagedPreempt, End_WhileItIsBeingMoved_WaitsForTheMove)
{
    struct Asked {
        PagedWorld *world = nullptr;
        mbr_paged_sequence moving = {0};
        std::thread ender;
        std::atomic<bool> entered = false;
        uint64_t could = UINT64_MAX;
        mbr_status ended = MBR_NOT_READY;
    } asked;
    PagedWorld world({}, 64 * kMiB, 2 * kExtent);
    ASSERT_EQ(MBR_OK, world.preempt(world.started(16 * 6))); /* half of the room is taken */
    world.give(UINT64_MAX);
    auto holder = world.holder_request(MBR_ROLE_CACHE, "cache");
    holder.authority = world.saved_authority;
    holder.pressed.context = &asked;
    holder.pressed.ask = [](void *context, const mbr_pressure *) -> uint64_t {
        auto *it = static_cast<Asked *>(context);
        if (it->ender.joinable())
            return 0; /* asked before */
        it->could = mbr_paged_could_give(it->world->store, UINT64_MAX);
        it->ender = std::thread([it] {
            it->entered = true;
            it->ended = mbr_paged_end(it->world->store, it->moving, nullptr);
        });
        while (!it->entered)
            std::this_thread::yield();
        return 0;
    };
    holder.pressed.give = [](void *, const mbr_pressure *, uint64_t) {};
    mbr_holder_handle cache;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &holder, &cache, &world.error));
    asked.world = &world;
    ASSERT_EQ(MBR_OK, mbr_paged_begin(world.store, &asked.moving, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_append(world.store, asked.moving, 17 * 6, nullptr, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_offer(world.store, asked.moving, &world.error));
    EXPECT_EQ(MBR_OVER_BUDGET, mbr_paged_preempt(world.store, asked.moving, nullptr, &world.error))
        << world.error.text;
    ASSERT_TRUE(asked.ender.joinable()) << "the cache was not asked";
    asked.ender.join();
    EXPECT_EQ(MBR_OK, asked.ended);
    EXPECT_EQ(0u, asked.could);
    EXPECT_EQ(MBR_STALE, mbr_paged_end(world.store, asked.moving, &world.error));
    world.check();
    EXPECT_TRUE(world.clean());
    ASSERT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, cache, &world.error));
}

TEST(PagedPreempt, Give_SavedUnderTheSameAuthority_WouldGainNothingAndMovesNothing)
{
    PagedShape shape;
    shape.saves_here = true;
    PagedWorld world(shape);
    Plain *plain = world.started(16 * 6);
    ASSERT_EQ(MBR_OK, world.offer(plain));
    EXPECT_EQ(0u, world.give(UINT64_MAX));
    EXPECT_EQ(MBR_PAGED_OFFERED, static_cast<int>(world.read(plain).state));
    ASSERT_EQ(MBR_OK, world.restore(plain));
    EXPECT_EQ(MBR_OK, world.preempt(plain)) << "by name it may";
    world.check();
}

/* A ticket of another holder presses the store's: it gives what is offered, and no more. */
TEST(PagedPreempt, Ticket_PressesTheStore_WhichPreemptsWhatWasOfferedAndKeepsWhatIsUsed)
{
    HostWorld world(
        4 * kExtent, nullptr, "plugins/host/libmembrane-host.so", {{"granule", "4096"}});
    mbr_paged *store = nullptr;
    auto authority = sized<mbr_authority_request>();
    authority.tier = MBR_TIER_HOST;
    authority.name = "saved";
    authority.limit_bytes = kMiB;
    mbr_authority_handle elsewhere;
    ASSERT_EQ(
        MBR_OK, mbr_manager_create_authority(world.manager, &authority, &elsewhere, &world.error));
    auto holder = world.holder_request(MBR_ROLE_STAGING, "saved");
    holder.authority = elsewhere;
    mbr_holder_handle saved, pressed;
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &holder, &saved, &world.error));
    holder.role = MBR_ROLE_KV;
    holder.authority = world.authority;
    holder.name = "store";
    holder.pressed.context = &store;
    holder.pressed.ask = [](void *context, const mbr_pressure *pressure) {
        return mbr_paged_could_give(*static_cast<mbr_paged **>(context), pressure->bytes);
    };
    holder.pressed.give = [](void *context, const mbr_pressure *, uint64_t bytes) {
        mbr_paged_give(*static_cast<mbr_paged **>(context), bytes);
    };
    ASSERT_EQ(MBR_OK, mbr_manager_create_holder(world.manager, &holder, &pressed, &world.error));
    auto bind = world.bind_request();
    bind.authority = elsewhere;
    mbr_binding_handle binding;
    ASSERT_EQ(MBR_OK, mbr_manager_bind(world.manager, &bind, &binding, &world.error));
    auto request = sized<mbr_paged_request>();
    request.binding = world.binding;
    request.holder = pressed;
    request.saved_binding = binding;
    request.saved_holder = saved;
    request.token_bytes = kPage;
    request.page_tokens = 1;
    request.extent_bytes = kExtent;
    request.max_pages = request.max_tokens = 256;
    ASSERT_EQ(MBR_OK, mbr_paged_create(world.manager, &request, &store, &world.error));
    mbr_paged_sequence idle, busy;
    for (mbr_paged_sequence *each : {&idle, &busy}) {
        ASSERT_EQ(MBR_OK, mbr_paged_begin(store, each, &world.error));
        ASSERT_EQ(MBR_OK, mbr_paged_append(store, *each, 32, nullptr, &world.error));
    }
    auto wish = sized<mbr_ticket_request>();
    wish.holder = world.holder;
    wish.bytes = 2 * kExtent;
    wish.timeout_ns = MBR_NO_DEADLINE;
    mbr_ticket_handle ticket;
    ASSERT_EQ(
        MBR_OK, mbr_manager_submit_ticket(world.manager, &wish, &ticket, nullptr, &world.error));
    EXPECT_EQ(MBR_NOT_READY, mbr_manager_claim_ticket(world.manager, ticket, &world.error))
        << "both sequences are used";
    EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_offer(store, idle, &world.error));
    ASSERT_EQ(
        MBR_OK, mbr_manager_submit_ticket(world.manager, &wish, &ticket, nullptr, &world.error));
    EXPECT_EQ(MBR_OK, mbr_manager_claim_ticket(world.manager, ticket, &world.error));
    auto figures = sized<mbr_paged_sequence_figures>();
    ASSERT_EQ(MBR_OK, mbr_paged_read_sequence(store, idle, &figures, &world.error));
    EXPECT_EQ(MBR_PAGED_PREEMPTED, static_cast<int>(figures.state));
    EXPECT_EQ(32u, figures.saved_page_count);
    EXPECT_EQ(MBR_OVER_BUDGET, mbr_paged_restore(store, idle, nullptr, &world.error));
    uint64_t aside;
    EXPECT_EQ(MBR_OK, mbr_manager_return_aside(world.manager, world.holder, &aside, &world.error));
    EXPECT_EQ(2 * kExtent, aside);
    EXPECT_EQ(MBR_OK, mbr_manager_end_ticket(world.manager, ticket, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_restore(store, idle, nullptr, &world.error)) << world.error.text;
    for (mbr_paged_sequence each : {idle, busy})
        ASSERT_EQ(MBR_OK, mbr_paged_end(store, each, &world.error));
    ASSERT_EQ(MBR_OK, mbr_paged_destroy(store, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_unbind(world.manager, binding, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, pressed, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_destroy_holder(world.manager, saved, &world.error));
    ASSERT_EQ(MBR_OK, mbr_manager_destroy_authority(world.manager, elsewhere, &world.error));
}

/* ---- Threads */

// What a thread's own sequence must hold: the prefix that all share, then its own pattern.
struct Worker {
    PagedWorld &world;
    mbr_paged_sequence base;
    uint8_t mark;
    bool right = true;

    void locate(mbr_paged_sequence sequence, uint64_t token, uint8_t **row)
    {
        uint64_t address = 0;
        right = right &&
            mbr_paged_locate(world.store, sequence, token, &address, nullptr, nullptr) == MBR_OK;
        *row = reinterpret_cast<uint8_t *>(address);
    }
    void rows(mbr_paged_sequence sequence, uint64_t first, uint64_t end, uint8_t value, bool write)
    {
        for (uint64_t token = first; token < end && right; token++) {
            uint8_t *row;
            locate(sequence, token, &row);
            for (uint64_t i = 0; i < world.shape.token_bytes && right; i++) {
                if (write)
                    row[i] = value;
                right = row[i] == value;
            }
        }
    }
    void live()
    {
        mbr_paged_sequence own;
        right = mbr_paged_fork(world.store, base, &own, nullptr) == MBR_OK &&
            mbr_paged_append(world.store, own, 9, nullptr, nullptr) == MBR_OK &&
            mbr_paged_prepare(world.store, own, 4, 4, nullptr, nullptr) == MBR_OK;
        if (!right)
            return;
        rows(own, 10, 19, mark, true);
        rows(own, 4, 8, mark, true);
        right = right && mbr_paged_offer(world.store, own, nullptr) == MBR_OK;
        if (mark % 2 == 0)
            mbr_paged_give(world.store, UINT64_MAX);
        right = right && mbr_paged_restore(world.store, own, nullptr, nullptr) == MBR_OK;
        rows(own, 0, 4, 0xAA, false);
        rows(own, 4, 8, mark, false);
        rows(own, 8, 10, 0xAA, false);
        rows(own, 10, 19, mark, false);
        right = right && mbr_paged_end(world.store, own, nullptr) == MBR_OK;
    }
};

TEST(PagedThreads, ForksOfOnePrefix_WrittenOfferedAndGivenByAll_HoldWhatTheirThreadWrote)
{
    PagedShape shape;
    shape.max_pages = shape.max_saved_pages = 256;
    PagedWorld world(shape);
    std::vector<std::thread> threads;
    std::vector<Worker> workers;
    for (uint8_t i = 1; i <= 4; i++) {
        mbr_paged_sequence base; // its own base: a sequence is one thread's
        if (i == 1) {
            ASSERT_EQ(MBR_OK, mbr_paged_begin(world.store, &base, &world.error));
            ASSERT_EQ(MBR_OK, mbr_paged_append(world.store, base, 10, nullptr, &world.error));
            Worker writer{world, base, 0};
            writer.rows(base, 0, 10, 0xAA, true);
        } else {
            ASSERT_EQ(MBR_OK, mbr_paged_fork(world.store, workers[0].base, &base, &world.error));
        }
        workers.push_back({world, base, i});
    }
    for (Worker &worker : workers)
        threads.emplace_back([&worker] {
            for (int round = 0; round < 300 && worker.right; round++)
                worker.live();
        });
    for (auto &thread : threads)
        thread.join();
    for (Worker &worker : workers) {
        EXPECT_TRUE(worker.right);
        worker.rows(worker.base, 0, 10, 0xAA, false);
        EXPECT_TRUE(worker.right);
        EXPECT_EQ(MBR_OK, mbr_paged_end(world.store, worker.base, &world.error));
    }
    ASSERT_TRUE(world.clean());
}

} // namespace
} // namespace membrane
