/* Puts the parts together and takes them apart; see world.h. */
#include "tests/unit/backing/world.h"

#include <cstring>

namespace membrane
{

World::World(
    uint64_t limit, uint64_t keep, uint64_t busy_wait_ns, const mbr_probe *probe, RealBelow *real)
{
    if (real != nullptr)
        real->put_under(&fake);
    mbr_error error = {};
    error.struct_size = sizeof(error);
    mbr_governor_options governor_options = {&heap.heap, &clock.clock};
    EXPECT_EQ(MBR_OK, mbr_governor_create(&governor_options, &governor, &error)) << error.text;
    mbr_authority_options authority_options = {"pool", MBR_TIER_HOST, limit, probe, 0, nullptr};
    EXPECT_EQ(MBR_OK, mbr_authority_create(governor, &authority_options, &authority, &error));
    mbr_holder_options kv_options = {"kv", MBR_ROLE_KV, MBR_NO_ALLOWANCE, false, {}};
    EXPECT_EQ(MBR_OK, mbr_holder_create(authority, &kv_options, &kv, &error));
    mbr_holder_options prefix_options = {"prefix", MBR_ROLE_PREFIX, MBR_NO_ALLOWANCE, false, {}};
    EXPECT_EQ(MBR_OK, mbr_holder_create(authority, &prefix_options, &prefix, &error));
    mbr_context_options context_options = {};
    context_options.name = "manual";
    context_options.order = &line.table;
    context_options.transfer = &line.transfer;
    context_options.instance = reinterpret_cast<mbr_instance *>(&line);
    context_options.queue_entries = 1024;
    context_options.heap = &heap.heap;
    context_options.clock = &mbr_clock_monotonic;
    EXPECT_EQ(MBR_OK, mbr_context_create(&context_options, &context, &error)) << error.text;
    mbr_native native = {MBR_NATIVE_STREAM_CPU, 0, 1};
    EXPECT_EQ(MBR_OK, mbr_context_attach_stream(context, native, &stream, &error)) << error.text;
    mbr_addresses_init(&addresses);
    EXPECT_EQ(MBR_OK, mbr_port_create(&fake.mechanism, &addresses, &heap.heap, &port, &error));
    mbr_backing_options options = {port, authority, "cache", keep, &heap.heap, busy_wait_ns, 0};
    EXPECT_EQ(MBR_OK, mbr_backing_create(&options, &backing, &error)) << error.text;
}

/* Writes off what a planted fault leaked on purpose, so that the authority itself can end. */
static void write_off(mbr_holder *holder)
{
    mbr_authority_collect_credit(mbr_holder_authority(holder));
    mbr_holder_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_holder_figures_read(holder, &figures);
    mbr_quarantine_settle(holder, figures.quarantined_bytes);
    mbr_retain_settle(holder, figures.retained_bytes);
    mbr_mapped_sub(holder, figures.mapped_bytes);
    mbr_refund(holder, figures.charged_bytes);
}

World::~World()
{
    mbr_error error = {};
    error.struct_size = sizeof(error);
    fake.faults.clear();
    mbr_status ended = mbr_backing_destroy(backing, &error);
    if (leaks) {
        EXPECT_EQ(MBR_RESIDUAL, ended);
        for (mbr_holder *holder : {kv, prefix, mbr_backing_cache(backing)})
            write_off(holder);
        EXPECT_EQ(MBR_OK, mbr_holder_destroy(mbr_backing_cache(backing), &error)) << error.text;
        end_parts();
        return;
    }
    EXPECT_EQ(MBR_OK, ended) << error.text;
    EXPECT_EQ(0u, fake.extents());
    EXPECT_EQ(0u, fake.mappings());
    EXPECT_EQ(0u, fake.reservations());
    EXPECT_TRUE(fake.misuse.empty()) << fake.misuse.front();
    EXPECT_EQ(nullptr, addresses.root); /* none is out */
    end_parts();
    EXPECT_EQ(1u, heap.live.size()); /* the port: closing it would close the fake by the loader */
}

void World::end_parts()
{
    mbr_error error = {};
    error.struct_size = sizeof(error);
    if (mbr_context_state(context) != MBR_CONTEXT_LOST) {
        EXPECT_EQ(MBR_OK, mbr_context_detach_stream(context, stream, &error)) << error.text;
    }
    EXPECT_EQ(MBR_OK, mbr_context_destroy(context, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_holder_destroy(kv, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_holder_destroy(prefix, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_authority_destroy(authority, &error)) << error.text;
    EXPECT_EQ(MBR_OK, mbr_governor_destroy(governor, &error)) << error.text;
}

mbr_range *World::reserve(
    uint64_t bytes, mbr_growth growth, uint32_t flags, uint32_t group, mbr_error *error)
{
    mbr_range_options options = {};
    options.context = context;
    options.bytes = bytes;
    options.growth = growth;
    options.flags = flags;
    options.isolation_group = group;
    mbr_range *range = nullptr;
    mbr_backing_reserve(backing, &options, &range, error);
    return range;
}

mbr_status World::grow_with(
    mbr_grow_options options, mbr_range_part part, mbr_range_grow_result *result, mbr_error *error)
{
    if (options.holder == nullptr)
        options.holder = kv;
    options.parts = &part;
    options.part_count = 1;
    mbr_range_grow_result ignored = {};
    ignored.struct_size = sizeof(ignored);
    return mbr_backing_grow(backing, &options, result != nullptr ? result : &ignored, error);
}

mbr_status World::grow(mbr_range *range, uint64_t offset, uint64_t bytes,
    mbr_range_grow_result *result, mbr_error *error)
{
    return grow_with({}, {range, 0, offset, bytes}, result, error);
}

mbr_status World::ahead(mbr_range *range, uint64_t offset, uint64_t bytes,
    mbr_range_grow_result *result, mbr_error *error)
{
    mbr_grow_options options = {};
    options.flags = MBR_GROW_AHEAD;
    return grow_with(options, {range, 0, offset, bytes}, result, error);
}

mbr_status World::end(mbr_range *range, bool now)
{
    return mbr_range_end(range, now, &stream, now ? 0 : 1, nullptr);
}

mbr_prefix *World::make_prefix(mbr_range *range, uint64_t offset, uint64_t bytes)
{
    mbr_range_part part = {range, 0, offset, bytes};
    mbr_prefix *made = nullptr;
    mbr_prefix_result result = {};
    result.struct_size = sizeof(result);
    EXPECT_EQ(MBR_OK, mbr_backing_make_prefix(backing, &part, 1, prefix, &made, &result, nullptr));
    return made;
}

mbr_status World::attach(
    mbr_prefix *made, mbr_range *target, const uint64_t *limit, mbr_error *error)
{
    mbr_prefix_attach_result result = {};
    result.struct_size = sizeof(result);
    return mbr_prefix_map_into(made, &target, 1, limit, kv, &result, error);
}

mbr_range_figures World::figures(mbr_range *range) const
{
    mbr_range_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_range_figures_read(range, &figures);
    return figures;
}

static mbr_holder_figures holder_figures(mbr_holder *holder)
{
    mbr_authority_collect_credit(mbr_holder_authority(holder));
    mbr_holder_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_holder_figures_read(holder, &figures);
    return figures;
}

uint64_t World::charged(mbr_holder *holder) const
{
    return holder_figures(holder).charged_bytes;
}

uint64_t World::mapped_by(mbr_holder *holder) const
{
    return holder_figures(holder).mapped_bytes;
}

mbr_authority_figures World::books() const
{
    mbr_authority_collect_credit(authority);
    mbr_authority_figures figures = {};
    figures.struct_size = sizeof(figures);
    mbr_authority_figures_read(authority, &figures);
    return figures;
}

mbr_backing_figures World::kept() const
{
    mbr_backing_figures figures = {};
    mbr_backing_read(backing, &figures);
    return figures;
}

::testing::AssertionResult World::agree() const
{
    mbr_error error = {};
    error.struct_size = sizeof(error);
    mbr_authority_figures figures = books();
    if (mbr_authority_audit(authority, &error) != MBR_OK)
        return ::testing::AssertionFailure() << "authority: " << error.text;
    if (mbr_backing_audit(backing, &error) != MBR_OK)
        return ::testing::AssertionFailure() << "backing: " << error.text;
    if (!fake.misuse.empty())
        return ::testing::AssertionFailure() << "misuse: " << fake.misuse.front();
    if (figures.granted_bytes != 0)
        return ::testing::AssertionFailure() << "granted at rest: " << figures.granted_bytes;
    if (figures.charged_bytes != fake.owned())
        return ::testing::AssertionFailure()
            << "charged " << figures.charged_bytes << ", owned " << fake.owned();
    if (figures.mapped_bytes != fake.mapped())
        return ::testing::AssertionFailure()
            << "mapped in the books " << figures.mapped_bytes << ", really " << fake.mapped();
    return ::testing::AssertionSuccess();
}

} // namespace membrane
