/* Responsible for opening and closing what is measured, through the client's calls. Measures
 * nothing. */
#include "tools/bench/world.h"

#include "abi/base/error.h"

#define DRAIN_NS UINT64_C(60000000000)

static uint64_t deadline(void)
{
    return mbr_clock_now(&mbr_clock_monotonic) + DRAIN_NS;
}

/* ---- Opening */
static mbr_status open_plugin(
    const mbr_bench *bench, const mbr_bench_world_options *options, mbr_bench_world *world)
{
    mbr_error *error = &world->error;
    mbr_manager_options manager = {MBR_SIZED(mbr_manager_options),
        .threads = options->has_threads ? MBR_THREADS_INTERNAL : MBR_THREADS_NONE};
    mbr_status status = mbr_manager_create(&manager, &world->manager, error);
    if (status != MBR_OK)
        return status;
    mbr_plugin_open_request open = {MBR_SIZED(mbr_plugin_open_request),
        .flags = bench->options->trusted ? MBR_PLUGIN_TRUSTED : 0, .name = bench->options->plugin};
    status = mbr_manager_open_plugin(world->manager, &open, &world->plugin, error);
    if (status != MBR_OK)
        return status;
    const mbr_option unpopulated = {"populate", "0"};
    mbr_mechanism_open_request request = {MBR_SIZED(mbr_mechanism_open_request),
        .plugin = world->plugin, .options = &unpopulated,
        .option_count = options->populate ? 0 : 1};
    return mbr_manager_open_mechanism(world->manager, &request, &world->mechanism, error);
}

static mbr_status open_budget(const mbr_bench_world_options *options, mbr_bench_world *world)
{
    mbr_error *error = &world->error;
    mbr_mechanism_figures figures = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_status status =
        mbr_manager_read_mechanism(world->manager, world->mechanism, &figures, error);
    if (status != MBR_OK)
        return status;
    if ((figures.domain != MBR_DOMAIN_HOST) != options->on_device)
        return mbr_fail(error, MBR_UNSUPPORTED,
            options->on_device
                ? "mechanism %s is host memory, and these rows want a device's; the plugin cuda "
                  "would work"
                : "mechanism %s is not host memory, and these rows touch it by the processor; the "
                  "plugin host would work",
            figures.name);
    mbr_authority_request authority = {MBR_SIZED(mbr_authority_request), .tier = figures.tier,
        .name = "bench", .limit_bytes = options->limit_bytes};
    status = mbr_manager_create_authority(world->manager, &authority, &world->authority, error);
    if (status != MBR_OK)
        return status;
    mbr_holder_request holder = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_KV,
        .authority = world->authority, .name = "bench", .allowance_bytes = MBR_NO_ALLOWANCE};
    return mbr_manager_create_holder(world->manager, &holder, &world->holder, error);
}

static mbr_status open_cpu_ep(const mbr_bench_world_options *options, mbr_bench_world *world)
{
    mbr_status status = mbr_cpu_create(NULL, &world->cpu, &world->error);
    if (status != MBR_OK)
        return status;
    mbr_ep_request ep = {MBR_SIZED(mbr_ep_request), .name = "cpu",
        .order = mbr_cpu_order(world->cpu), .transfer = mbr_cpu_transfer(world->cpu),
        .instance = mbr_cpu_instance(world->cpu), .queue_entries = options->queue_entries};
    return mbr_ep_create(world->manager, &ep, &world->ep, &world->error);
}

static mbr_status open_device_ep(mbr_bench_world *world)
{
    mbr_ep_request ep = {
        MBR_SIZED(mbr_ep_request), .name = "device", .mechanism = world->mechanism};
    return mbr_ep_create(world->manager, &ep, &world->ep, &world->error);
}

static mbr_status open_binding(const mbr_bench_world_options *options, mbr_bench_world *world)
{
    mbr_error *error = &world->error;
    mbr_status status = options->on_device ? open_device_ep(world) : open_cpu_ep(options, world);
    if (status != MBR_OK)
        return status;
    mbr_bind_request bind = {MBR_SIZED(mbr_bind_request), .mechanism = world->mechanism,
        .ep = world->ep, .authority = world->authority, .cache_keep_bytes = options->keep_bytes,
        .ahead_bytes = options->ahead_bytes};
    return mbr_manager_bind(world->manager, &bind, &world->binding, error);
}

/* ---- Closing: what was opened, in reverse; the first refusal ends it and is told. */
static mbr_status close_binding(mbr_bench_world *world)
{
    mbr_status status = MBR_OK;
    if (world->ep.value != 0) /* releases that wait hold ranges */
        status = mbr_ep_drain(world->manager, world->ep, deadline(), &world->error);
    if (status == MBR_OK && world->binding.value != 0)
        status = mbr_manager_unbind(world->manager, world->binding, &world->error);
    if (status == MBR_OK && world->ep.value != 0)
        status = mbr_ep_destroy(world->manager, world->ep, deadline(), &world->error);
    if (status == MBR_OK && world->cpu != NULL)
        status = mbr_cpu_destroy(world->cpu, &world->error);
    return status;
}

static mbr_status close_budget(mbr_bench_world *world)
{
    mbr_status status = MBR_OK;
    if (world->holder.value != 0)
        status = mbr_manager_destroy_holder(world->manager, world->holder, &world->error);
    if (status == MBR_OK && world->authority.value != 0)
        status = mbr_manager_destroy_authority(world->manager, world->authority, &world->error);
    return status;
}

static mbr_status close_plugin(mbr_bench_world *world)
{
    mbr_status status = MBR_OK;
    if (world->mechanism.value != 0)
        status = mbr_manager_close_mechanism(world->manager, world->mechanism, &world->error);
    if (status == MBR_OK && world->plugin.value != 0)
        status = mbr_manager_close_plugin(world->manager, world->plugin, &world->error);
    if (status == MBR_OK && world->manager != NULL)
        status = mbr_manager_destroy(world->manager, &world->error);
    return status;
}

static mbr_status close_all(mbr_bench_world *world)
{
    mbr_status status = close_binding(world);
    if (status == MBR_OK)
        status = close_budget(world);
    return status == MBR_OK ? close_plugin(world) : status;
}

bool mbr_bench_world_open(
    mbr_bench *bench, const mbr_bench_world_options *options, mbr_bench_world *world)
{
    *world = (mbr_bench_world){.error = {MBR_SIZED(mbr_error)}};
    mbr_status status = open_plugin(bench, options, world);
    if (status == MBR_OK)
        status = open_budget(options, world);
    if (status == MBR_OK)
        status = open_binding(options, world);
    if (status == MBR_OK)
        return true;
    mbr_bench_fail_status(bench, "opening the plugin", status, &world->error);
    close_all(world);
    return false;
}

bool mbr_bench_world_close(mbr_bench *bench, mbr_bench_world *world)
{
    bool failed = bench->text[0] != '\0';
    mbr_status status = mbr_ep_drain(world->manager, world->ep, deadline(), &world->error);
    if (status == MBR_OK)
        status = mbr_manager_audit(world->manager, &world->error);
    if (status != MBR_OK && !failed)
        failed = !mbr_bench_fail_status(bench, "the audit", status, &world->error);
    status = close_all(world);
    if (status != MBR_OK && !failed)
        failed = !mbr_bench_fail_status(bench, "closing", status, &world->error);
    return !failed;
}

bool mbr_bench_fail_world(mbr_bench *bench, const char *what, const mbr_bench_world *world)
{
    if (world->error.status == MBR_OK)
        return false;
    return mbr_bench_fail_status(bench, what, world->error.status, &world->error);
}

/* ---- Figures */
static mbr_mechanism_figures figures_of(mbr_bench_world *world)
{
    mbr_mechanism_figures figures = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_manager_read_mechanism(world->manager, world->mechanism, &figures, &world->error);
    return figures;
}

/* Reading the figures calls slots, too: the difference of two readings says how many. */
uint64_t mbr_bench_world_calls(mbr_bench_world *world)
{
    uint64_t first = figures_of(world).call_count, second = figures_of(world).call_count;
    world->reading_calls += 2 * (second - first);
    return second - (world->reading_calls - (second - first));
}

uint64_t mbr_bench_world_owned(mbr_bench_world *world)
{
    return figures_of(world).owned_bytes;
}
