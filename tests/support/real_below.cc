/* Whether the fake has carried a call out is seen by its books before and after, whatever it
 * answered: a planned fault may leave what it refuses. */
#include "tests/support/real_below.h"

#include "tests/support/plugin.h"

#include <gtest/gtest.h>

namespace membrane
{

using host_test::Result;
using host_test::sized;

namespace
{

RealBelow *below(mbr_instance *instance)
{
    return reinterpret_cast<RealBelow *>(instance);
}

} // namespace

struct RealSlots {
    using Instance = mbr_instance *;

    static mbr_instance *fake(RealBelow *self) { return self->tables_.instance; }

    static mbr_status reserve(Instance instance, const mbr_reserve_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        mbr_status status = self->tables_.virtual_.reserve(fake(self), request, outcome, error);
        auto made = self->fake_->reservations_.find(request->reservation_id);
        if (made == self->fake_->reservations_.end())
            return status;
        Result real =
            host_test::call(self->real_.virtual_->reserve, self->real_.instance, *request);
        self->expect_same("reserve", *outcome, real);
        self->reservations_[request->reservation_id];
        made->second.address = real.outcome.address;
        if (status == MBR_OK)
            outcome->address = real.outcome.address;
        return status;
    }

    static mbr_status unreserve(Instance instance, const mbr_unreserve_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        mbr_status status = self->tables_.virtual_.unreserve(fake(self), request, outcome, error);
        if (self->fake_->reservations_.count(request->reservation_id) != 0 ||
            self->reservations_.erase(request->reservation_id) == 0)
            return status;
        self->expect_same("unreserve", *outcome,
            host_test::call(self->real_.virtual_->unreserve, self->real_.instance, *request));
        return status;
    }

    static mbr_status create(Instance instance, const mbr_extent_create_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        mbr_status status =
            self->tables_.virtual_.extent_create(fake(self), request, outcome, error);
        if (self->fake_->extents_.count(request->extent_id) == 0)
            return status;
        Result real =
            host_test::call(self->real_.virtual_->extent_create, self->real_.instance, *request);
        self->extents_[request->extent_id] = request->bytes;
        mbr_outcome wanted = *outcome;
        wanted.newly_owned_bytes = request->bytes; /* also what a fault has left */
        self->expect_same("extent_create", wanted, real);
        if (status == MBR_OK)
            outcome->content = real.outcome.content;
        return status;
    }

    static mbr_status destroy(Instance instance, const mbr_extent_destroy_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        mbr_status status =
            self->tables_.virtual_.extent_destroy(fake(self), request, outcome, error);
        if (self->fake_->extents_.count(request->extent_id) != 0 ||
            self->extents_.erase(request->extent_id) == 0)
            return status;
        self->expect_same("extent_destroy", *outcome,
            host_test::call(self->real_.virtual_->extent_destroy, self->real_.instance, *request));
        return status;
    }

    /* A mapping that the fake has now and the real one has not yet. */
    template <typename Slot, typename Request>
    static void follow_map(RealBelow *self, const char *what, Slot slot, const Request *request,
        const mbr_outcome &outcome)
    {
        uint64_t reservation = request->reservation_id, offset = request->offset_bytes;
        auto &real = self->reservations_[reservation];
        if (!self->is_mapped(reservation, offset) || real.count(offset) != 0)
            return;
        real[offset] = self->extents_[request->extent_id];
        mbr_outcome wanted = outcome;
        wanted.newly_mapped_bytes = real[offset];
        self->expect_same(what, wanted, host_test::call(slot, self->real_.instance, *request));
    }

    static mbr_status map(
        Instance instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        mbr_status status = self->tables_.virtual_.map(fake(self), request, outcome, error);
        follow_map(self, "map", self->real_.virtual_->map, request, *outcome);
        return status;
    }

    static mbr_status map_shared(Instance instance, const mbr_map_shared_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        mbr_status status = self->tables_.shared.map_shared(fake(self), request, outcome, error);
        follow_map(self, "map_shared", self->real_.shared->map_shared, request, *outcome);
        return status;
    }

    static mbr_status protect(Instance instance, const mbr_protect_request *request,
        mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        mbr_status status = self->tables_.virtual_.protect(fake(self), request, outcome, error);
        if (status == MBR_OK)
            self->expect_same("protect", *outcome,
                host_test::call(self->real_.virtual_->protect, self->real_.instance, *request));
        return status;
    }

    static mbr_status unmap(
        Instance instance, const mbr_unmap_request *request, mbr_outcome *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        uint64_t reservation = request->reservation_id, offset = request->offset_bytes;
        mbr_status status = self->tables_.virtual_.unmap(fake(self), request, outcome, error);
        auto &real = self->reservations_[reservation];
        if (self->is_mapped(reservation, offset) || real.count(offset) == 0)
            return status;
        real.erase(real.lower_bound(offset), real.lower_bound(offset + request->bytes));
        self->expect_same("unmap", *outcome,
            host_test::call(self->real_.virtual_->unmap, self->real_.instance, *request));
        return status;
    }

    static mbr_status report(
        Instance instance, const mbr_report_request *request, mbr_report *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        return self->tables_.plugin.report(fake(self), request, outcome, error);
    }

    static mbr_status stats(Instance instance, const mbr_stats_request *request,
        mbr_mechanism_stats *outcome, mbr_error *error)
    {
        RealBelow *self = below(instance);
        return self->tables_.allocator.stats(fake(self), request, outcome, error);
    }
};

RealBelow::RealBelow()
{
    host_test::Options options;
    for (const mbr_option &option : plugin_under_test().page_granule)
        options.push_back({option.key, option.value});
    real_ = host_test::Mechanism::open_first(plugin_under_test().path, options);
}

/* The facts that decide how a host works are the real one's. */
void RealBelow::put_under(FakeMechanism *fake)
{
    fake_ = fake;
    tables_ = fake->mechanism;
    mbr_mechanism &mechanism = fake->mechanism;
    mechanism.instance = reinterpret_cast<mbr_instance *>(this);
    mechanism.plugin.report = RealSlots::report;
    mechanism.allocator.stats = RealSlots::stats;
    mechanism.virtual_.reserve = RealSlots::reserve;
    mechanism.virtual_.unreserve = RealSlots::unreserve;
    mechanism.virtual_.extent_create = RealSlots::create;
    mechanism.virtual_.extent_destroy = RealSlots::destroy;
    mechanism.virtual_.map = RealSlots::map;
    mechanism.virtual_.protect = RealSlots::protect;
    mechanism.virtual_.unmap = RealSlots::unmap;
    mechanism.shared.map_shared = RealSlots::map_shared;
    EXPECT_EQ(real_.fact(MBR_FACT_GRANULE_MIN_BYTES), mechanism.granule_min_bytes);
    fake->fresh_content = static_cast<uint32_t>(real_.fact(MBR_FACT_FRESH_CONTENT));
    mechanism.fresh_content = fake->fresh_content;
    mechanism.unmap_spans_mappings = real_.fact(MBR_FACT_UNMAP_SPANS_MAPPINGS) != 0;
}

bool RealBelow::is_mapped(uint64_t reservation, uint64_t offset) const
{
    auto found = fake_->reservations_.find(reservation);
    return found != fake_->reservations_.end() && found->second.mappings.count(offset) != 0;
}

void RealBelow::expect_same(const char *what, const mbr_outcome &wanted, const Result &real)
{
    calls_++;
    EXPECT_TRUE(real.ok()) << what << ": " << real.error.text;
    EXPECT_EQ(wanted.newly_owned_bytes, real.outcome.newly_owned_bytes) << what;
    EXPECT_EQ(wanted.newly_mapped_bytes, real.outcome.newly_mapped_bytes) << what;
    EXPECT_EQ(wanted.released_bytes, real.outcome.released_bytes) << what;
    EXPECT_EQ(wanted.unmapped_bytes, real.outcome.unmapped_bytes) << what;
}

::testing::AssertionResult RealBelow::agrees()
{
    uint64_t owned = 0, mapped = 0;
    for (const auto &[id, bytes] : extents_)
        owned += bytes;
    for (const auto &[id, mappings] : reservations_)
        for (const auto &[offset, bytes] : mappings)
            mapped += bytes;
    mbr_mechanism_stats stats = real_.stats();
    if (stats.owned_bytes == owned && stats.mapped_bytes == mapped)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
        << "owns " << stats.owned_bytes << " of " << owned << ", has mapped " << stats.mapped_bytes
        << " of " << mapped;
}

RealBelow::~RealBelow()
{
    for (const auto &[id, mappings] : reservations_) {
        for (const auto &[offset, bytes] : mappings)
            EXPECT_TRUE(real_.unmap(id, offset, bytes).ok());
        EXPECT_TRUE(real_.unreserve(id).ok());
    }
    for (const auto &[id, bytes] : extents_)
        EXPECT_TRUE(real_.destroy(id).ok());
    host_test::expect_empty_and_close(real_);
}

} // namespace membrane
