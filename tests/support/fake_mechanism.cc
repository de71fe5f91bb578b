/* The fake mechanism's slots. Each takes the lock, counts its call, meets its fault, then does what
 * the contract says on maps and numbers; it calls nothing of the host. */
#include "tests/support/fake_mechanism.h"

#include <algorithm>
#include <cstring>

namespace membrane
{

namespace
{

FakeMechanism *self(mbr_instance *instance)
{
    return reinterpret_cast<FakeMechanism *>(instance);
}

mbr_status refuse(mbr_error *error, mbr_status status, const char *text)
{
    if (error != nullptr && error->struct_size >= sizeof(*error)) {
        error->status = status;
        std::strncpy(error->text, text, sizeof(error->text) - 1);
    }
    return status;
}

/* A fault without effect. */
mbr_status fail(const Fault *fault, mbr_outcome *outcome, mbr_error *error)
{
    outcome->state = fault->kind == FaultKind::kQuarantine ? MBR_STATE_QUARANTINED
        : fault->kind == FaultKind::kIllegalPair           ? MBR_STATE_DONE
                                                           : MBR_STATE_UNCHANGED;
    return refuse(error, fault->status, "planned fault");
}

} // namespace

struct FakeSlots {
    static mbr_status reserve(mbr_instance *instance, const mbr_reserve_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        if (const Fault *fault = fake->meet(Slot::kReserve))
            return fail(fault, outcome, error);
        if (request->bytes == 0 || request->bytes % fake->granule_ != 0)
            fake->note("reserve of no whole granules", request->bytes);
        if (fake->reservations_.count(request->reservation_id) != 0)
            fake->note("reservation id used twice", request->reservation_id);
        uint64_t align = request->align_bytes == 0 ? fake->granule_ : request->align_bytes;
        uint64_t address = (fake->next_address_ + align - 1) / align * align;
        fake->next_address_ = address + request->bytes + fake->granule_; /* a hole between */
        fake->reservations_[request->reservation_id] = {address, request->bytes, {}};
        outcome->state = MBR_STATE_DONE;
        outcome->address = fake->said_address(address);
        return MBR_OK;
    }

    static mbr_status unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        if (const Fault *fault = fake->meet(Slot::kUnreserve))
            return fail(fault, outcome, error);
        auto found = fake->reservations_.find(request->reservation_id);
        if (found == fake->reservations_.end()) {
            fake->note("unreserve of an unknown reservation", request->reservation_id);
            return refuse(error, MBR_UNKNOWN_OBJECT, "unknown reservation");
        }
        if (!found->second.mappings.empty()) {
            fake->note("unreserve while mapped", request->reservation_id);
            return refuse(error, MBR_BUSY, "mapped");
        }
        fake->reservations_.erase(found);
        outcome->state = MBR_STATE_DONE;
        return MBR_OK;
    }

    static mbr_status create(mbr_instance *instance, const mbr_extent_create_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        if (const Fault *fault = fake->meet(Slot::kCreate)) {
            if (fault->kind ==
                FaultKind::kPartial) { /* it is there under its id, to be destroyed */
                fake->extents_[request->extent_id] = {request->bytes, request->bytes};
                outcome->residual_owned_bytes = request->bytes;
                refuse(error, fault->status, "planned fault that leaves bytes");
                outcome->state = MBR_STATE_PARTIAL;
                return fault->status;
            }
            if (fault->kind != FaultKind::kRefuse)
                fake->stranded_ += request->bytes; /* nobody knows: all of it counts as owned */
            return fail(fault, outcome, error);
        }
        if (request->bytes == 0 || request->bytes % fake->granule_ != 0)
            fake->note("extent of no whole granules", request->bytes);
        if (fake->owned_locked() + request->bytes > fake->capacity_)
            return refuse(error, MBR_OUT_OF_MEMORY, "capacity");
        if (request->bytes > request->max_owned_bytes)
            return refuse(error, MBR_OVER_BUDGET, "more than allowed");
        uint64_t owned = request->bytes + static_cast<uint64_t>(fake->owned_skew);
        fake->extents_[request->extent_id] = {request->bytes, owned};
        outcome->state = MBR_STATE_DONE;
        outcome->content = fake->fresh_content;
        outcome->newly_owned_bytes =
            fake->owned_lie != FakeMechanism::kTruth ? fake->owned_lie : owned;
        return MBR_OK;
    }

    static mbr_status destroy(mbr_instance *instance, const mbr_extent_destroy_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        auto found = fake->extents_.find(request->extent_id);
        if (found == fake->extents_.end() || found->second.lost) {
            fake->note("destroy of an unknown or withheld extent", request->extent_id);
            return refuse(error, MBR_UNKNOWN_OBJECT, "unknown extent");
        }
        if (const Fault *fault = fake->meet(Slot::kDestroy)) {
            /* Unless it says that nothing happened, nobody may name it again. */
            found->second.lost =
                fault->kind == FaultKind::kQuarantine || fault->kind == FaultKind::kIllegalPair;
            return fail(fault, outcome, error);
        }
        if (found->second.mappings != 0) {
            fake->note("destroy while mapped", request->extent_id);
            return refuse(error, MBR_BUSY, "mapped");
        }
        outcome->state = MBR_STATE_DONE;
        outcome->released_bytes = fake->said_released(found->second.owned);
        fake->extents_.erase(found);
        return MBR_OK;
    }

    /* Shared by map and map_shared: where it would go, or NULL after a refusal. */
    static FakeMechanism::Extent *place(FakeMechanism *fake, uint64_t reservation_id,
        uint64_t offset, uint64_t extent_id, mbr_status *status, mbr_error *error)
    {
        auto reservation = fake->reservations_.find(reservation_id);
        auto extent = fake->extents_.find(extent_id);
        if (reservation == fake->reservations_.end() || extent == fake->extents_.end() ||
            extent->second.lost) {
            fake->note("map of an unknown or withheld object", extent_id);
            *status = refuse(error, MBR_UNKNOWN_OBJECT, "unknown object");
            return nullptr;
        }
        uint64_t end = offset + extent->second.bytes;
        if (offset % fake->granule_ != 0 || end > reservation->second.bytes) {
            fake->note("map outside or misaligned", offset);
            *status = refuse(error, MBR_OUT_OF_RANGE, "outside");
            return nullptr;
        }
        for (const auto &[start, mapping] : reservation->second.mappings) {
            if (start < end && offset < start + mapping.bytes) {
                fake->note("map over a mapping", offset);
                *status = refuse(error, MBR_ALREADY_EXISTS, "overlap");
                return nullptr;
            }
        }
        return &extent->second;
    }

    /* Puts the mapping there. Where nobody knows, and where it is left behind, it is there, too:
     * the host counts it as mapped. */
    static mbr_status put_there(FakeMechanism *fake, const Fault *fault,
        FakeMechanism::Extent *extent, uint64_t reservation_id, uint64_t offset,
        FakeMechanism::Mapping mapping, mbr_outcome *outcome, mbr_error *error)
    {
        if (fault != nullptr && fault->kind == FaultKind::kRefuse)
            return fail(fault, outcome, error);
        bool partial = fault != nullptr && fault->kind == FaultKind::kPartial;
        if (fault != nullptr && !partial)
            extent->lost = mapping.lost = true;
        extent->mappings++;
        fake->reservations_[reservation_id].mappings[offset] = mapping;
        if (partial) {
            outcome->state = MBR_STATE_PARTIAL;
            outcome->residual_mapped_bytes = extent->bytes;
            return refuse(error, fault->status, "planned fault that leaves it mapped");
        }
        if (fault != nullptr)
            return fail(fault, outcome, error);
        outcome->state = MBR_STATE_DONE;
        outcome->newly_mapped_bytes = extent->bytes;
        return MBR_OK;
    }

    static mbr_status map(mbr_instance *instance, const mbr_map_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        mbr_status status = MBR_OK;
        FakeMechanism::Extent *extent = place(fake, request->reservation_id, request->offset_bytes,
            request->extent_id, &status, error);
        if (extent == nullptr)
            return status;
        if (extent->mappings != 0)
            return refuse(error, MBR_BUSY, "mapped already");
        status = put_there(fake, fake->meet(Slot::kMap), extent, request->reservation_id,
            request->offset_bytes, {request->extent_id, extent->bytes, MBR_ACCESS_NONE, false},
            outcome, error);
        if (status == MBR_OK)
            outcome->content = MBR_CONTENT_STALE;
        return status;
    }

    static mbr_status map_shared(mbr_instance *instance, const mbr_map_shared_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        mbr_status status = MBR_OK;
        FakeMechanism::Extent *extent = place(fake, request->reservation_id, request->offset_bytes,
            request->extent_id, &status, error);
        if (extent == nullptr)
            return status;
        if (extent->mappings == 0)
            return refuse(error, MBR_INVALID_ARGUMENT, "not mapped yet");
        uint32_t access = request->access_count == 0 ? MBR_ACCESS_NONE : request->access[0].access;
        return put_there(fake, fake->meet(Slot::kMapShared), extent, request->reservation_id,
            request->offset_bytes, {request->extent_id, extent->bytes, access, false}, outcome,
            error);
    }

    /* Exact cover of whole mappings: calls `each` on them. */
    template <typename Each>
    static bool cover(
        FakeMechanism *fake, uint64_t reservation_id, uint64_t offset, uint64_t bytes, Each each)
    {
        auto reservation = fake->reservations_.find(reservation_id);
        if (reservation == fake->reservations_.end() || bytes == 0)
            return false;
        uint64_t at = offset;
        auto &mappings = reservation->second.mappings;
        std::vector<uint64_t> starts;
        while (at < offset + bytes) {
            auto found = mappings.find(at);
            if (found == mappings.end())
                return false;
            starts.push_back(at);
            at += found->second.bytes;
        }
        if (at != offset + bytes)
            return false;
        for (uint64_t start : starts)
            each(mappings, start);
        return true;
    }

    static mbr_status protect(mbr_instance *instance, const mbr_protect_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        if (const Fault *fault = fake->meet(Slot::kProtect))
            return fail(fault, outcome, error);
        bool covered = cover(fake, request->reservation_id, request->offset_bytes, request->bytes,
            [&](auto &mappings, uint64_t start) {
                mappings[start].access = request->access[0].access;
            });
        if (!covered || request->access_count != 1) {
            fake->note("protect of no whole mappings", request->offset_bytes);
            return refuse(error, MBR_INVALID_ARGUMENT, "no whole mappings");
        }
        outcome->state = MBR_STATE_DONE;
        return MBR_OK;
    }

    static mbr_status unmap(mbr_instance *instance, const mbr_unmap_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        bool lost = false;
        bool covered = cover(fake, request->reservation_id, request->offset_bytes, request->bytes,
            [&](auto &mappings, uint64_t start) { lost = lost || mappings[start].lost; });
        if (!covered || lost) {
            fake->note("unmap of no whole mappings, or of a withheld one", request->offset_bytes);
            return refuse(error, MBR_INVALID_ARGUMENT, "no whole mappings");
        }
        if (const Fault *fault = fake->meet(Slot::kUnmap)) {
            cover(fake, request->reservation_id, request->offset_bytes, request->bytes,
                [&](auto &mappings, uint64_t start) {
                    mappings[start].lost = fault->kind == FaultKind::kQuarantine ||
                        fault->kind == FaultKind::kIllegalPair;
                });
            return fail(fault, outcome, error);
        }
        cover(fake, request->reservation_id, request->offset_bytes, request->bytes,
            [&](auto &mappings, uint64_t start) {
                fake->extents_[mappings[start].extent].mappings--;
                mappings.erase(start);
            });
        outcome->state = MBR_STATE_DONE;
        outcome->unmapped_bytes = fake->said_released(request->bytes);
        return MBR_OK;
    }

    static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        if (const Fault *fault = fake->meet(Slot::kAllocate))
            return fail(fault, outcome, error);
        uint64_t align = request->align_bytes == 0 ? 256 : request->align_bytes;
        uint64_t owned = (request->bytes + 255) / 256 * 256;
        if (fake->pads_with_memory)
            owned += std::max<uint64_t>(align, 256) - 256;
        if (owned > request->max_owned_bytes)
            return refuse(error, MBR_OVER_BUDGET, "more than allowed");
        if (fake->owned_locked() + owned > fake->capacity_)
            return refuse(error, MBR_OUT_OF_MEMORY, "capacity");
        uint64_t address = (fake->next_address_ + align - 1) / align * align;
        fake->next_address_ = address + owned;
        fake->allocations_[request->allocation_id] = {address, owned};
        outcome->state = MBR_STATE_DONE;
        outcome->address = fake->said_address(address);
        outcome->newly_owned_bytes = owned;
        outcome->newly_mapped_bytes = owned;
        return MBR_OK;
    }

    static mbr_status release(mbr_instance *instance, const mbr_release_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        FakeMechanism *fake = self(instance);
        std::lock_guard<std::mutex> guard(fake->mutex_);
        auto found = fake->allocations_.find(request->allocation_id);
        if (found == fake->allocations_.end() || found->second.address != request->address) {
            fake->note("release of an unknown allocation", request->allocation_id);
            return refuse(error, MBR_UNKNOWN_OBJECT, "unknown allocation");
        }
        if (const Fault *fault = fake->meet(Slot::kRelease))
            return fail(fault, outcome, error);
        outcome->state = MBR_STATE_DONE;
        outcome->released_bytes = fake->said_released(found->second.owned);
        fake->allocations_.erase(found);
        return MBR_OK;
    }

    static mbr_status stats(mbr_instance *instance, const mbr_stats_request *,
        mbr_mechanism_stats *outcome, mbr_error *)
    {
        FakeMechanism *fake = self(instance);
        outcome->total_bytes = fake->capacity_;
        outcome->free_bytes = fake->capacity_ - fake->owned();
        outcome->owned_bytes = fake->owned();
        outcome->mapped_bytes = fake->mapped();
        outcome->reserved_bytes = fake->reserved();
        return MBR_OK;
    }

    static mbr_status report(
        mbr_instance *instance, const mbr_report_request *, mbr_report *outcome, mbr_error *)
    {
        FakeMechanism *fake = self(instance);
        outcome->allocation_count = fake->allocations_.size();
        outcome->reservation_count = fake->reservations_.size();
        outcome->extent_count = fake->extents_.size();
        outcome->mapping_count = fake->mappings();
        return MBR_OK;
    }
};

FakeMechanism::FakeMechanism(uint64_t granule, uint64_t capacity)
    : granule_(granule), capacity_(capacity)
{
    mechanism = mbr_mechanism{};
    mechanism.instance = reinterpret_cast<mbr_instance *>(this);
    std::strncpy(mechanism.description.name, "fake", sizeof(mechanism.description.name) - 1);
    mechanism.description.tier = MBR_TIER_HOST;
    mechanism.plugin.name = "fake";
    mechanism.plugin.report = FakeSlots::report;
    mechanism.allocator.allocate = FakeSlots::allocate;
    mechanism.allocator.release = FakeSlots::release;
    mechanism.allocator.stats = FakeSlots::stats;
    mechanism.virtual_.reserve = FakeSlots::reserve;
    mechanism.virtual_.unreserve = FakeSlots::unreserve;
    mechanism.virtual_.extent_create = FakeSlots::create;
    mechanism.virtual_.extent_destroy = FakeSlots::destroy;
    mechanism.virtual_.map = FakeSlots::map;
    mechanism.virtual_.protect = FakeSlots::protect;
    mechanism.virtual_.unmap = FakeSlots::unmap;
    mechanism.shared.map_shared = FakeSlots::map_shared;
    mechanism.has_virtual = mechanism.has_shared = true;
    mechanism.granule_min_bytes = mechanism.granule_recommended_bytes = granule;
    mechanism.extent_max_bytes = UINT64_MAX;
    mechanism.reservation_max_bytes = UINT64_MAX;
    mechanism.allocation_align_bytes = 1;
    mechanism.allocation_round_bytes = 256;
    mechanism.fresh_content = MBR_CONTENT_ZERO;
    mechanism.unmap_spans_mappings = true;
    mechanism.aliasing = mechanism.read_only_enforced = true;
}

FakeMechanism::~FakeMechanism() = default;

const Fault *FakeMechanism::meet(Slot slot)
{
    uint64_t ordinal = ++calls_[static_cast<int>(slot)];
    for (const Fault &fault : faults) {
        if (fault.slot == slot &&
            (fault.ordinal == ordinal || (fault.sticky && fault.ordinal < ordinal))) {
            faults_met_++;
            return &fault;
        }
    }
    return nullptr;
}

uint64_t FakeMechanism::said_address(uint64_t address)
{
    if (address_lie != 0)
        address = address_lie;
    address_lie = 0;
    return address;
}

uint64_t FakeMechanism::said_released(uint64_t bytes) const
{
    return bytes + static_cast<uint64_t>(released_skew);
}

void FakeMechanism::note(const char *what, uint64_t id)
{
    misuse.push_back(std::string(what) + " (" + std::to_string(id) + ")");
}

uint64_t FakeMechanism::all_calls() const
{
    uint64_t sum = 0;
    for (uint64_t count : calls_)
        sum += count;
    return sum;
}

void FakeMechanism::reset_calls()
{
    for (uint64_t &count : calls_)
        count = 0;
    faults_met_ = 0;
}

void FakeMechanism::forget_all()
{
    extents_.clear();
    reservations_.clear();
    allocations_.clear();
}

uint64_t FakeMechanism::owned_locked() const
{
    uint64_t sum = stranded_;
    for (const auto &[id, extent] : extents_)
        sum += extent.owned;
    for (const auto &[id, allocation] : allocations_)
        sum += allocation.owned;
    return sum;
}

void FakeMechanism::look(const std::function<void(uint64_t owned)> &at) const
{
    std::lock_guard<std::mutex> guard(mutex_);
    at(owned_locked());
}

uint64_t FakeMechanism::owned() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    return owned_locked();
}

uint64_t FakeMechanism::mapped() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    uint64_t sum = 0;
    for (const auto &[id, reservation] : reservations_) {
        for (const auto &[offset, mapping] : reservation.mappings)
            sum += mapping.bytes;
    }
    for (const auto &[id, allocation] : allocations_)
        sum += allocation.owned;
    return sum;
}

uint64_t FakeMechanism::reserved() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    uint64_t sum = 0;
    for (const auto &[id, reservation] : reservations_)
        sum += reservation.bytes;
    return sum;
}

uint64_t FakeMechanism::mappings() const
{
    std::lock_guard<std::mutex> guard(mutex_);
    uint64_t sum = 0;
    for (const auto &[id, reservation] : reservations_)
        sum += reservation.mappings.size();
    return sum;
}

uint32_t FakeMechanism::access_at(uint64_t address) const
{
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto &[id, reservation] : reservations_) {
        for (const auto &[offset, mapping] : reservation.mappings) {
            uint64_t start = reservation.address + offset;
            if (address >= start && address - start < mapping.bytes)
                return mapping.access;
        }
    }
    return MBR_ACCESS_NONE;
}

uint64_t FakeMechanism::extent_at(uint64_t address) const
{
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto &[id, reservation] : reservations_) {
        for (const auto &[offset, mapping] : reservation.mappings) {
            uint64_t start = reservation.address + offset;
            if (address >= start && address - start < mapping.bytes)
                return mapping.extent;
        }
    }
    return 0;
}

} // namespace membrane
