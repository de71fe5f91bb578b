// Plain allocations over the real release queue: frees against frees, against allocations that take
// queued blocks again, and against losses.
#include "tests/sched/ep_world.h"

extern "C" {
#include "governor/governor.h"
#include "host/alloc/arena.h"
#include "host/backing/port.h"
}

#include <gtest/gtest.h>

#include <map>

// Spans at addresses that nobody touches, paid by a cache.
struct mbr_port {
    mbr_mechanism mechanism;
};

struct mbr_backing {
    mbr_holder *cache;
    mbr_port port;
    uint64_t next_address;
    uint64_t out_count;
};

using namespace sched_test;

extern "C" {

mbr_holder *mbr_backing_cache(mbr_backing *backing)
{
    return backing->cache;
}

mbr_port *mbr_backing_port(mbr_backing *backing)
{
    return &backing->port;
}

const mbr_mechanism *mbr_port_mechanism(const mbr_port *port)
{
    return &port->mechanism;
}

mbr_status mbr_mechanism_refuse_child(const mbr_mechanism *, mbr_error *)
{
    FailCheck(__FILE__, __LINE__, "nobody forks", " ");
}

mbr_authority *mbr_backing_authority(mbr_backing *backing)
{
    return mbr_holder_authority(backing->cache);
}

void mbr_backing_add_keeper(mbr_backing *, mbr_idle_keeper *) {}
void mbr_backing_remove_keeper(mbr_backing *, mbr_idle_keeper *) {}
void mbr_backing_count_idle(mbr_backing *, int64_t) {}
void mbr_backing_keep_watermark(mbr_backing *) {}

uint64_t mbr_backing_evict(mbr_backing *, uint64_t)
{
    return 0;
}

mbr_status mbr_backing_take_span(mbr_backing *backing, mbr_context *context, uint64_t,
    uint32_t isolation_group, uint64_t bytes, uint64_t, mbr_span *span, mbr_refusal *,
    mbr_error *error)
{
    sched_context_check_no_lock();
    *span = {};
    mbr_status status = mbr_context_pin(context, error);
    if (status != MBR_OK)
        return status;
    SCHED_REQUIRE(mbr_grant(backing->cache, bytes, nullptr) == MBR_OK);
    mbr_charge(backing->cache, bytes);
    SCHED_CALLBACK_POINT();
    span->address = backing->next_address;
    span->bytes = span->owned_bytes = bytes;
    span->content = MBR_CONTENT_ZERO;
    span->isolation_group = isolation_group;
    span->context = context;
    span->allocation_id = ++backing->out_count;
    backing->next_address += UINT64_C(1) << 30;
    return MBR_OK;
}

void mbr_backing_give_span(mbr_backing *backing, mbr_span *span)
{
    sched_context_check_no_lock();
    SCHED_CALLBACK_POINT();
    mbr_refund(backing->cache, span->owned_bytes);
    backing->out_count--;
    mbr_context_unpin(span->context);
}

} // extern "C"

namespace
{

constexpr uint64_t kBytes = UINT64_C(16) << 20; // a size of which threads keep few

struct Block {
    mbr_allocation_handle handle;
    uint64_t address;
};

// What the work on an address was, by whoever had it last.
struct Use {
    bool is_live = false;
    uint64_t work[kStreams] = {};
};

class AllocScenario : public EpScenario
{
  public:
    explicit AllocScenario(Draw &draw) : EpScenario(draw)
    {
        Create(&ep_);
        mbr_governor_options governor = {Heap(), &sched_clock};
        SCHED_REQUIRE(mbr_governor_create(&governor, &governor_, nullptr) == MBR_OK);
        mbr_authority_options authority = {};
        authority.name = "pool";
        authority.tier = MBR_TIER_DEVICE;
        authority.limit_bytes = UINT64_C(1) << 40;
        SCHED_REQUIRE(mbr_authority_create(governor_, &authority, &authority_, nullptr) == MBR_OK);
        backing_.cache = Holder("cache", MBR_ROLE_CACHE);
        backing_.next_address = UINT64_C(1) << 40;
        holder_ = Holder("kv", MBR_ROLE_KV);
        mbr_arena_options arena = {};
        arena.table = table_;
        arena.backing = &backing_;
        arena.context = ep_.context;
        arena.heap = Heap();
        SCHED_REQUIRE(mbr_arena_create(&arena, &arena_, nullptr) == MBR_OK);
    }

    void Judge() override
    {
        GiveBackAll();
        mbr_arena_figures figures;
        mbr_arena_read(arena_, &figures);
        SCHED_REQUIRE(figures.live_count == 0 && figures.queued_count == 0, "%" PRIu64 " live",
            figures.live_count);
        SCHED_REQUIRE(figures.quarantined_count == 0);
        mbr_error error = {};
        error.struct_size = sizeof(error);
        SCHED_REQUIRE(mbr_arena_audit(arena_, &error) == MBR_OK, "%s", error.text);
        SCHED_REQUIRE(mbr_arena_destroy(arena_, &error) == MBR_OK, "%s", error.text);
        SCHED_REQUIRE(backing_.out_count == 0, "a span is out");
        SCHED_REQUIRE(mbr_holder_destroy(holder_, &error) == MBR_OK, "%s", error.text);
        SCHED_REQUIRE(mbr_holder_destroy(backing_.cache, &error) == MBR_OK, "%s", error.text);
        mbr_authority_collect_credit(authority_);
        SCHED_REQUIRE(mbr_authority_audit(authority_, &error) == MBR_OK, "%s", error.text);
        SCHED_REQUIRE(mbr_authority_destroy(authority_, &error) == MBR_OK, "%s", error.text);
        SCHED_REQUIRE(mbr_governor_destroy(governor_, nullptr) == MBR_OK);
        ep_.accepted_count = ReadSettled(); // the arena counts its own entries
        EpScenario::Judge();
    }

  protected:
    // For work on a stream, which it then submits; nobody has it, and whoever had it is done or was
    // before on the same stream.
    mbr_status Alloc(int stream, Block *block)
    {
        const Device &device = ep_.device;
        mbr_arena_request request = {};
        request.holder = holder_;
        request.stream_id = device.streams[stream].id;
        request.bytes = kBytes;
        mbr_alloc_result result = {};
        result.struct_size = sizeof(result);
        mbr_status status = mbr_arena_alloc(arena_, &request, &result, nullptr);
        if (status != MBR_OK)
            return status;
        Use *use = &uses_[result.address];
        SCHED_REQUIRE(!use->is_live, "two have one block");
        for (int i = 0; i < kStreams; i++)
            SCHED_REQUIRE(i == stream || use->work[i] <= device.Done(device.streams[i]) ||
                    use->work[i] <= device.streams[stream].behind[i],
                "the block is used on stream %d", i);
        use->is_live = true;
        use->work[stream] = ++ep_.device.streams[stream].submitted;
        *block = {result.allocation, result.address};
        return MBR_OK;
    }

    mbr_status Free(const Block &block, int stream, bool now)
    {
        return mbr_alloc_free(
            table_, block.handle, 0, now, &ep_.device.streams[stream].id, now ? 0 : 1, nullptr);
    }

    // By its only owner.
    void FreeOwn(const Block &block, int stream)
    {
        uses_[block.address].is_live = false;
        mbr_status status = Free(block, stream, false);
        SCHED_REQUIRE(status == MBR_OK, "status %d", status);
    }

    void Live(int stream, int other)
    {
        for (int at : {stream, other}) {
            Block block;
            mbr_status status = Alloc(at, &block);
            SCHED_REQUIRE(status == MBR_OK ||
                    ((status == MBR_DEVICE_LOST || status == MBR_BUSY) &&
                        sched_context_look(ep_.context).state == MBR_CONTEXT_LOST),
                "status %d", status);
            if (status == MBR_OK)
                FreeOwn(block, at);
        }
    }

    // As mbr_ep_destroy does for a lost EP.
    void ConfirmEnd()
    {
        mbr_context_lose(ep_.context);
        mbr_context_confirm_end(ep_.context);
        mbr_arena_confirm_lost(arena_);
    }

    void Abandon() { mbr_arena_abandon(arena_); }

    void Reap(int times)
    {
        for (int i = 0; i < times; i++)
            mbr_context_reap(ep_.context, true);
    }

  private:
    mbr_holder *Holder(const char *name, uint32_t role)
    {
        mbr_holder_options options = {};
        options.name = name;
        options.role = role;
        options.allowance_bytes = MBR_NO_ALLOWANCE;
        mbr_holder *made = nullptr;
        SCHED_REQUIRE(mbr_holder_create(authority_, &options, &made, nullptr) == MBR_OK);
        return made;
    }

    // One for all schedules: to make it takes longer than a schedule.
    static mbr_alloc_table *Table()
    {
        static mbr_alloc_table *table = nullptr;
        if (table == nullptr)
            SCHED_REQUIRE(mbr_alloc_table_create(&mbr_heap_libc, &table, nullptr) == MBR_OK);
        return table;
    }

    uint64_t ReadSettled()
    {
        mbr_ep_figures figures = {};
        figures.struct_size = sizeof(figures);
        mbr_context_read(ep_.context, &figures);
        return figures.released_count + figures.lost_count;
    }

    void GiveBackAll()
    {
        ep_.device.RunFreely();
        mbr_status status = mbr_context_drain(ep_.context, kForever, nullptr);
        bool is_lost = sched_context_look(ep_.context).state == MBR_CONTEXT_LOST;
        SCHED_REQUIRE(status == MBR_OK || is_lost, "status %d", status);
        if (is_lost && !mbr_context_has_ended(ep_.context))
            ConfirmEnd();
    }

    mbr_governor *governor_ = nullptr;
    mbr_authority *authority_ = nullptr;
    mbr_holder *holder_ = nullptr;
    mbr_backing backing_ = {};
    mbr_alloc_table *table_ = Table();
    mbr_arena *arena_ = nullptr;
    std::map<uint64_t, Use> uses_; // by address
};

// All free one allocation, at once or behind its stream.
class FreeAgainstFree : public AllocScenario
{
  public:
    explicit FreeAgainstFree(Draw &draw) : AllocScenario(draw)
    {
        SCHED_REQUIRE(Alloc(0, &block_) == MBR_OK);
        ep_.device.streams[0].done = ep_.device.streams[0].submitted;
        for (bool &now : now_)
            now = draw.Coin();
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { FreeIt(0); }, [this] { FreeIt(1); }, [this] { FreeIt(2); },
            [this] { Reap(2); }};
    }

    void Judge() override
    {
        SCHED_REQUIRE(freed_ == 1, "%d frees of one allocation", freed_);
        AllocScenario::Judge();
    }

  private:
    void FreeIt(int who)
    {
        mbr_status status = Free(block_, 0, now_[who]);
        SCHED_REQUIRE(status == MBR_OK || status == MBR_UNKNOWN_OBJECT, "status %d", status);
        freed_ += status == MBR_OK;
    }

    Block block_;
    bool now_[3];
    int freed_ = 0;
};

TEST(Sched_Alloc, FreeAgainstFree_ExactlyOneIsAccepted)
{
    ExpectHolds(ExploreRandom(Make<FreeAgainstFree>()));
}

// Blocks go from one stream to another through the queue, a reaper and threads' caches.
class FreeAgainstAlloc : public AllocScenario
{
  public:
    explicit FreeAgainstAlloc(Draw &draw) : AllocScenario(draw)
    {
        ep_.device.refused_stream_waits = draw.From(0, 1);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Live(0, 1); }, [this] { Live(1, 0); }, [this] { Reap(2); }};
    }
};

TEST(Sched_Alloc, FreeAgainstAlloc_NobodyHasABlockThatIsInUse)
{
    ExpectHolds(ExploreRandom(Make<FreeAgainstAlloc>()));
}

// Frees are accepted whatever comes; what is lost is charged until the end is confirmed.
class FreeAgainstLoss : public AllocScenario
{
  public:
    explicit FreeAgainstLoss(Draw &draw) : AllocScenario(draw), says_so_(draw.Coin())
    {
        if (!says_so_)
            ep_.device.calls_to_loss = draw.From(0, 3);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { Live(0, 1); }, [this] { Live(1, 0); }, [this] { Lose(); }};
    }

  private:
    void Lose()
    {
        if (says_so_)
            mbr_context_lose(ep_.context);
        else
            Reap(2);
    }

    bool says_so_;
};

TEST(Sched_Alloc, FreeAgainstALoss_IsAcceptedAndChargedUntilTheEndIsConfirmed)
{
    ExpectHolds(ExploreRandom(Make<FreeAgainstLoss>()));
}

// The end is confirmed while a free finds the loss: what was lost before is refunded, and so is
// what is freed after.
class FreeAgainstConfirm : public AllocScenario
{
  public:
    explicit FreeAgainstConfirm(Draw &draw) : AllocScenario(draw)
    {
        for (Block &block : blocks_)
            SCHED_REQUIRE(Alloc(0, &block) == MBR_OK);
        if (draw.Coin())
            mbr_context_lose(ep_.context);
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { FreeOwn(blocks_[0], 0); }, [this] { FreeOwn(blocks_[1], 0); },
            [this] { ConfirmEnd(); }};
    }

  private:
    Block blocks_[2];
};

TEST(Sched_Alloc, FreeAgainstTheConfirmedEnd_IsRefundedInAnyOrder)
{
    ExpectHolds(ExploreRandom(Make<FreeAgainstConfirm>()));
}

// What lives is abandoned while some of it is freed: what its owner frees is accepted once, before
// or after, unless the confirmed end of a lost device has released it first.
class FreeAgainstAbandon : public AllocScenario
{
  public:
    explicit FreeAgainstAbandon(Draw &draw, bool may_be_lost = true)
        : AllocScenario(draw), is_lost_(may_be_lost && draw.Coin())
    {
        for (Block &block : blocks_)
            SCHED_REQUIRE(Alloc(0, &block) == MBR_OK);
        is_now_ = draw.Coin();
        if (is_now_)
            ep_.device.streams[0].done = ep_.device.streams[0].submitted;
    }

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { FreeIt(0); }, [this] { FreeIt(1); }, [this] { Abandon(); },
            [this] {
                if (is_lost_)
                    ConfirmEnd();
                else
                    Reap(1);
            }};
    }

    // What nobody has freed is there.
    void Judge() override
    {
        for (int i = 0; i < 3; i++)
            if (!is_lost_ && !was_freed_[i])
                FreeIt(i);
        AllocScenario::Judge();
    }

  protected:
    void FreeIt(int which)
    {
        was_freed_[which] = true;
        mbr_status status = Free(blocks_[which], 0, is_now_);
        SCHED_REQUIRE(
            status == MBR_OK || (status == MBR_UNKNOWN_OBJECT && is_lost_), "status %d", status);
        SCHED_REQUIRE(Free(blocks_[which], 0, is_now_) == MBR_UNKNOWN_OBJECT, "freed twice");
    }

  private:
    bool is_lost_, is_now_;
    bool was_freed_[3] = {false, false, false};
    Block blocks_[3];
};

TEST(Sched_Alloc, FreeAgainstAbandonment_IsAcceptedOnceBeforeOrAfter)
{
    ExpectHolds(ExploreRandom(Make<FreeAgainstAbandon>()));
}

class OneFreeAgainstAbandon : public FreeAgainstAbandon
{
  public:
    explicit OneFreeAgainstAbandon(Draw &draw) : FreeAgainstAbandon(draw, false) {}

    std::vector<std::function<void()>> Bodies() override
    {
        return {[this] { FreeIt(0); }, [this] { Abandon(); }};
    }
};

TEST(Sched_Alloc, FreeAgainstAbandonmentInEveryScheduleWithOnePreemption_IsAcceptedOnce)
{
    // Few: threads' magazines, which an abandonment collects, are looked at no further than they
    // are full.
    ExpectHoldsInAll(ExploreAll(Make<OneFreeAgainstAbandon>(), 1), 200);
}

// Every fiber's slot in the governor is counted, and code outside of the bodies has one for good.
class EverySlot : public AllocScenario
{
  public:
    explicit EverySlot(Draw &draw) : AllocScenario(draw) { Live(0, 0); }

    std::vector<std::function<void()>> Bodies() override
    {
        return std::vector<std::function<void()>>(SCHED_FIBER_LIMIT, [this] { Live(0, 0); });
    }
};

} // namespace

MakeScenario sched_test::FirstUse()
{
    return Make<EverySlot>();
}
