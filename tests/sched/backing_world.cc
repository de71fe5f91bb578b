// Responsible for the memory of scenarios and for what must hold of it when it is given, taken and
// at the end. Never decides who does what.
#include "tests/sched/backing_world.h"

extern "C" {
#include "host/backing/port.h"

mbr_status mbr_mechanism_refuse_child(const mbr_mechanism *, mbr_error *)
{
    sched_test::FailCheck(__FILE__, __LINE__, "nobody forks", " ");
}

mbr_status mbr_mechanism_close(mbr_mechanism *mechanism, mbr_error *)
{
    mechanism->instance = nullptr;
    return MBR_OK;
}

void mbr_mechanism_abandon(mbr_mechanism *mechanism)
{
    mechanism->instance = nullptr;
}
}

namespace sched_test
{

// ---- The slots
struct MemorySlots {
    static Memory *Self(mbr_instance *instance)
    {
        return static_cast<Memory *>(reinterpret_cast<membrane::FakeMechanism *>(instance));
    }

    static mbr_status Reserve(mbr_instance *instance, const mbr_reserve_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        Memory *self = Self(instance);
        self->Enter();
        mbr_status status = self->slots_.reserve(instance, request, outcome, error);
        self->addresses_[request->reservation_id] = outcome->address;
        SCHED_CALLBACK_POINT();
        return status;
    }

    static mbr_status Unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        Memory *self = Self(instance);
        self->Enter();
        self->calls_after_loss += self->is_over;
        SCHED_REQUIRE(self->open_captures == 0, "unreserved in a capture");
        return self->slots_.unreserve(instance, request, outcome, error);
    }

    static mbr_status Create(mbr_instance *instance, const mbr_extent_create_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        Self(instance)->Enter();
        return Self(instance)->slots_.extent_create(instance, request, outcome, error);
    }

    static mbr_status Destroy(mbr_instance *instance, const mbr_extent_destroy_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        Memory *self = Self(instance);
        self->Enter();
        self->RequireIdle(request->extent_id);
        self->uses_.erase(request->extent_id);
        return self->slots_.extent_destroy(instance, request, outcome, error);
    }

    static mbr_status Map(mbr_instance *instance, const mbr_map_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        Memory *self = Self(instance);
        self->Enter();
        self->mapped_at_[request->extent_id] =
            self->addresses_[request->reservation_id] + request->offset_bytes;
        return self->slots_.map(instance, request, outcome, error);
    }

    static mbr_status Unmap(mbr_instance *instance, const mbr_unmap_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        Memory *self = Self(instance);
        self->Enter();
        uint64_t start = self->addresses_[request->reservation_id] + request->offset_bytes;
        for (uint64_t at = 0; at < request->bytes; at += kGranule)
            self->RequireIdle(self->extent_at(start + at));
        mbr_status status = self->slots_.unmap(instance, request, outcome, error);
        SCHED_CALLBACK_POINT();
        return status;
    }
};

Memory::Memory(Device *device)
    : FakeMechanism(kGranule, UINT64_C(1) << 40), device_(device), slots_(mechanism.virtual_)
{
    mechanism.virtual_.reserve = MemorySlots::Reserve;
    mechanism.virtual_.unreserve = MemorySlots::Unreserve;
    mechanism.virtual_.extent_create = MemorySlots::Create;
    mechanism.virtual_.extent_destroy = MemorySlots::Destroy;
    mechanism.virtual_.map = MemorySlots::Map;
    mechanism.virtual_.unmap = MemorySlots::Unmap;
}

void Memory::Enter()
{
    sched_context_check_no_lock();
    SCHED_CALLBACK_POINT();
}

void Memory::RequireIdle(uint64_t extent)
{
    calls_after_loss += is_over;
    SCHED_REQUIRE(open_captures == 0, "taken away in a capture");
    for (const auto &[offset, use] : uses_[extent]) {
        SCHED_REQUIRE(use.owner == nullptr, "extent %" PRIu64 " is somebody's", extent);
        for (int i = 0; i < kStreams; i++)
            SCHED_REQUIRE(use.work[i] <= device_->Done(device_->streams[i]),
                "extent %" PRIu64 " is in use on stream %d", extent, i);
    }
}

Use *Memory::Find(uint64_t address)
{
    uint64_t extent = extent_at(address);
    return extent == 0 ? nullptr : &uses_[extent][address - mapped_at_[extent]];
}

void Memory::Take(const void *owner, int stream, uint64_t address, uint64_t bytes)
{
    Stream *on = &device_->streams[stream];
    uint64_t work = ++on->submitted;
    if (sched_context_look(device_->context).state == MBR_CONTEXT_LOST)
        return; // lost while it was given: there is no memory any more
    for (uint64_t at = 0; at < bytes; at += kGranule) {
        Use *use = Find(address + at);
        SCHED_REQUIRE(use != nullptr, "nothing is mapped in what was given");
        SCHED_REQUIRE(use->owner == nullptr || use->owner == owner, "two have one granule");
        for (int i = 0; i < kStreams; i++)
            SCHED_REQUIRE(i == stream || use->owner == owner ||
                    use->work[i] <= device_->Done(device_->streams[i]) ||
                    use->work[i] <= on->behind[i],
                "what was given is in use on stream %d", i);
        use->owner = owner;
        use->work[stream] = work;
    }
}

void Memory::Leave(const void *owner, uint64_t address, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += kGranule) {
        Use *use = Find(address + at);
        if (use != nullptr && use->owner == owner)
            use->owner = nullptr;
    }
}

// ---- The scenario
BackingScenario::BackingScenario(Draw &draw, uint64_t keep_bytes)
    : EpScenario(draw), memory_(&ep_.device)
{
    Create(&ep_);
    graph_.gone = [](mbr_graph *) {};
    mbr_governor_options governor = {Heap(), &sched_clock};
    SCHED_REQUIRE(mbr_governor_create(&governor, &governor_, nullptr) == MBR_OK);
    mbr_authority_options authority = {};
    authority.name = "pool";
    authority.tier = MBR_TIER_DEVICE;
    authority.limit_bytes = UINT64_C(1) << 40;
    SCHED_REQUIRE(mbr_authority_create(governor_, &authority, &authority_, nullptr) == MBR_OK);
    mbr_holder_options holder = {};
    holder.name = "kv";
    holder.role = MBR_ROLE_KV;
    holder.allowance_bytes = MBR_NO_ALLOWANCE;
    SCHED_REQUIRE(mbr_holder_create(authority_, &holder, &holder_, nullptr) == MBR_OK);
    mbr_addresses_init(&addresses_);
    SCHED_REQUIRE(
        mbr_port_create(&memory_.mechanism, &addresses_, Heap(), &port_, nullptr) == MBR_OK);
    mbr_gate_init(&gate_);
    mbr_port_set_gate(port_, &gate_);
    SCHED_REQUIRE(mbr_context_join_gate(ep_.context, &gate_, nullptr) == MBR_OK);
    mbr_backing_options backing = {};
    backing.port = port_;
    backing.authority = authority_;
    backing.name = "cache";
    backing.keep_bytes = keep_bytes;
    backing.heap = Heap();
    SCHED_REQUIRE(mbr_backing_create(&backing, &backing_, nullptr) == MBR_OK);
    user_.context = ep_.context;
    mbr_backing_add_user(backing_, &user_);
}

BackingScenario::Range BackingScenario::Reserve(uint64_t granules)
{
    mbr_range_options options = {};
    options.context = ep_.context;
    options.bytes = granules * kGranule;
    options.growth.unit_bytes = kGranule;
    Range made;
    mbr_status status = mbr_backing_reserve(backing_, &options, &made.range, nullptr);
    SCHED_REQUIRE(status == MBR_OK || IsLost(), "status %d", status);
    if (made.range != nullptr)
        made.address = mbr_range_address(made.range);
    return made;
}

mbr_status BackingScenario::Grow(const Range &range, uint64_t first, uint64_t granules, int stream)
{
    mbr_range_part part = {range.range, 0, first * kGranule, granules * kGranule};
    mbr_grow_options options = {};
    options.holder = holder_;
    options.stream_id = IdOf(stream);
    options.parts = &part;
    options.part_count = 1;
    mbr_range_grow_result result = {};
    result.struct_size = sizeof(result);
    mbr_status status = mbr_backing_grow(backing_, &options, &result, nullptr);
    if (status == MBR_OK)
        memory_.Take(range.range, stream, range.address + first * kGranule, granules * kGranule);
    SCHED_REQUIRE(status == MBR_OK || status == MBR_BUSY || IsLost(), "status %d", status);
    return status;
}

mbr_status BackingScenario::GiveBack(
    const Range &range, uint64_t first, uint64_t granules, int stream)
{
    memory_.Leave(range.range, range.address + first * kGranule, granules * kGranule);
    mbr_range_decommit_result result = {};
    result.struct_size = sizeof(result);
    uint64_t id = IdOf(stream);
    mbr_status status;
    do // a wait for another call in the range ends when the schedule says so
        status = mbr_range_give_back(
            range.range, first * kGranule, granules * kGranule, false, &id, 1, &result, nullptr);
    while (status == MBR_BUSY);
    SCHED_REQUIRE(status == MBR_OK || IsLost(), "status %d", status);
    return status;
}

void BackingScenario::End(const Range &range, uint64_t granules, int stream, bool behind_both)
{
    memory_.Leave(range.range, range.address, granules * kGranule);
    const uint64_t ids[] = {IdOf(stream), IdOf(1 - stream)};
    mbr_status status;
    do
        status = mbr_range_end(range.range, false, ids, behind_both ? 2 : 1, nullptr);
    while (status == MBR_BUSY);
    SCHED_REQUIRE(status == MBR_OK, "status %d", status);
}

void BackingScenario::Live(int stream, int times)
{
    for (int i = 0; i < times; i++) {
        Range range = Reserve(2);
        if (range.range == nullptr)
            return;
        Grow(range, 0, 2, stream);
        End(range, 2, stream);
    }
}

void BackingScenario::Reap(int times)
{
    for (int i = 0; i < times; i++)
        mbr_context_reap(ep_.context, true);
}

void BackingScenario::BeginCapture()
{
    SCHED_REQUIRE(
        mbr_context_begin_capture(ep_.context, IdOf(1), kForever, &graph_, nullptr) == MBR_OK);
    memory_.open_captures++;
}

// Whoever ends the capture catches up, as mbr_ep_capture_end does.
void BackingScenario::EndCapture()
{
    memory_.open_captures--;
    mbr_graph *ended = nullptr;
    SCHED_REQUIRE(mbr_context_end_capture(ep_.context, IdOf(1), &ended, nullptr) == MBR_OK);
    mbr_backing_catch_up(backing_);
    SCHED_REQUIRE(mbr_context_retire_graph(ep_.context, &graph_, nullptr, 0, nullptr) == MBR_OK);
}

void BackingScenario::Capture()
{
    BeginCapture();
    for (int i = 0; i < 8; i++) // long enough for somebody to come in
        SCHED_CALLBACK_POINT();
    EndCapture();
}

void BackingScenario::ConfirmEnd()
{
    mbr_context_lose(ep_.context);
    mbr_context_confirm_end(ep_.context);
    mbr_backing_confirm_lost(backing_, ep_.context);
}

uint64_t BackingScenario::ReadSettled()
{
    mbr_ep_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_context_read(ep_.context, &figures);
    return figures.released_count + figures.lost_count;
}

void BackingScenario::GiveBackAll()
{
    ep_.device.RunFreely();
    mbr_status status = mbr_context_drain(ep_.context, kForever, nullptr);
    SCHED_REQUIRE(status == MBR_OK || IsLost(), "status %d", status);
    memory_.is_over = IsLost();
    EndOthers();
    if (IsLost())
        ConfirmEnd(); // once more where somebody has: for what came after
}

void BackingScenario::Judge()
{
    GiveBackAll();
    bool was_lost = IsLost();
    mbr_error error = {};
    error.struct_size = sizeof(error);
    SCHED_REQUIRE(mbr_backing_audit(backing_, &error) == MBR_OK, "%s", error.text);
    mbr_backing_remove_user(backing_, &user_);
    SCHED_REQUIRE(mbr_backing_destroy(backing_, &error) == MBR_OK, "%s", error.text);
    SCHED_REQUIRE(memory_.calls_after_loss == 0, "%" PRIu64 " calls to a lost device",
        memory_.calls_after_loss);
    if (!was_lost)
        SCHED_REQUIRE(memory_.extents() + memory_.reservations() == 0, "memory is left");
    SCHED_REQUIRE(memory_.misuse.empty(), "%s", memory_.misuse.front().c_str());
    memory_.forget_all();
    SCHED_REQUIRE(mbr_port_close(port_, &error) == MBR_OK, "%s", error.text);
    mbr_addresses_finish(&addresses_);
    SCHED_REQUIRE(mbr_holder_destroy(holder_, &error) == MBR_OK, "%s", error.text);
    mbr_authority_collect_credit(authority_);
    SCHED_REQUIRE(mbr_authority_audit(authority_, &error) == MBR_OK, "%s", error.text);
    SCHED_REQUIRE(mbr_authority_destroy(authority_, &error) == MBR_OK, "%s", error.text);
    SCHED_REQUIRE(mbr_governor_destroy(governor_, nullptr) == MBR_OK);
    ep_.accepted_count = ReadSettled(); // the backing counts its own entries
    EpScenario::Judge();
    mbr_gate_finish(&gate_);
}

} // namespace sched_test
