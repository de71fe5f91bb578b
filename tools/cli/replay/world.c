/* Opens and closes what a replay stands on. Serves no request. */
#include "tools/cli/replay/world.h"

#include "host/bind/seams.h"
#include "tools/cli/args.h"

#include <stdio.h>
#include <string.h>

#define DRAIN_NS UINT64_C(60000000000)

/* A ledger that is not there must not go unseen, and neither must other warnings. */
static void log_line(void *context, uint32_t level, const char *text, uint64_t text_bytes)
{
    (void)context;
    if (level >= MBR_LOG_WARNING)
        fprintf(stderr, MBR_REPLAY_NAME ": %.*s\n", (int)text_bytes, text);
}

/* The manager's time, where paces are those of the simulation. */
static uint64_t simulated_now_ns(void *context)
{
    replay_world *world = context;
    return mbr_clock_now(&mbr_clock_monotonic) + atomic_load(&world->simulated_ns);
}

uint64_t replay_drain_deadline_ns(replay_world *world)
{
    return simulated_now_ns(world) + DRAIN_NS;
}

static mbr_status open_plugin(
    replay_world *world, const mbr_replay_options *options, mbr_error *error)
{
    mbr_manager_options manager = {MBR_SIZED(mbr_manager_options), .log = log_line};
    const mbr_clock clock = {simulated_now_ns, world};
    const mbr_manager_seams seams = {.clock = options->ahead_bytes != 0 ? &clock : NULL};
    mbr_status status = mbr_manager_create_with_seams(&manager, &seams, &world->manager, error);
    if (status != MBR_OK)
        return status;
    mbr_plugin_open_request open = {MBR_SIZED(mbr_plugin_open_request),
        .flags = options->trusted ? MBR_PLUGIN_TRUSTED : 0, .name = options->plugin};
    status = mbr_manager_open_plugin(world->manager, &open, &world->plugin, error);
    if (status != MBR_OK)
        return status;
    mbr_mechanism_open_request request = {MBR_SIZED(mbr_mechanism_open_request),
        .plugin = world->plugin, .options = options->plugin_options,
        .option_count = options->plugin_option_count};
    status = mbr_manager_open_mechanism(world->manager, &request, &world->mechanism, error);
    if (status != MBR_OK)
        return status;
    world->mechanism_figures.struct_size = sizeof(world->mechanism_figures);
    return mbr_manager_read_mechanism(
        world->manager, world->mechanism, &world->mechanism_figures, error);
}

bool replay_is_resident(const mbr_replay_options *options)
{
    for (uint32_t i = 0; i < options->plugin_option_count; i++)
        if (strcmp(options->plugin_options[i].key, "populate") == 0 &&
            strcmp(options->plugin_options[i].value, "0") == 0)
            return false;
    return true;
}

static mbr_status open_budget(
    replay_world *world, const mbr_replay_options *options, mbr_error *error)
{
    uint64_t margin = UINT64_C(256) << 20; /* for the process itself */
    mbr_authority_request request = {MBR_SIZED(mbr_authority_request),
        .tier = world->mechanism_figures.tier, .name = "replay",
        .limit_bytes = options->budget_bytes, .margin_bytes = margin, .shared = options->shared,
        .shared_folder = options->shared_folder};
    if (replay_is_resident(options)) /* else free memory says nothing about what can be owned */
        request.measured = world->mechanism;
    return mbr_manager_create_authority(world->manager, &request, &world->authority, error);
}

/* Host memory goes under a CPU EP, whose streams the processor works off; a device's own mechanism
 * orders its streams itself. */
static mbr_status create_ep(replay_world *world, mbr_error *error)
{
    if (world->mechanism_figures.domain != MBR_DOMAIN_HOST) {
        mbr_ep_request request = {
            MBR_SIZED(mbr_ep_request), .name = "device", .mechanism = world->mechanism};
        return mbr_ep_create(world->manager, &request, &world->ep, error);
    }
    mbr_cpu_options cpu = {MBR_SIZED(mbr_cpu_options)};
    mbr_status status = mbr_cpu_create(&cpu, &world->cpu, error);
    if (status != MBR_OK)
        return status;
    mbr_ep_request request = {MBR_SIZED(mbr_ep_request), .name = "cpu",
        .order = mbr_cpu_order(world->cpu), .transfer = mbr_cpu_transfer(world->cpu),
        .instance = mbr_cpu_instance(world->cpu)};
    return mbr_ep_create(world->manager, &request, &world->ep, error);
}

static mbr_status open_ep(replay_world *world, mbr_error *error)
{
    mbr_status status = create_ep(world, error);
    for (uint32_t i = 0; i < MBR_REPLAY_STREAM_COUNT && status == MBR_OK; i++) {
        mbr_native *native = &world->natives[i];
        status = mbr_ep_create_stream(world->manager, world->ep, native, error);
        if (status != MBR_OK)
            break;
        status =
            mbr_ep_attach_stream(world->manager, world->ep, *native, &world->streams[i], error);
        if (status != MBR_OK)
            mbr_ep_destroy_stream(world->manager, world->ep, *native, NULL);
        else
            world->stream_count++;
    }
    return status;
}

static mbr_status bind(replay_world *world, const mbr_replay_options *options, mbr_error *error)
{
    mbr_bind_request request = {MBR_SIZED(mbr_bind_request), .mechanism = world->mechanism,
        .ep = world->ep, .authority = world->authority, .cache_keep_bytes = options->keep_bytes,
        .ahead_bytes = options->ahead_bytes};
    return mbr_manager_bind(world->manager, &request, &world->binding, error);
}

int replay_world_open(
    replay_world *world, const mbr_replay_options *options, char text[MBR_REPLAY_TEXT_BYTES])
{
    *world = (replay_world){0};
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = open_plugin(world, options, &error);
    uint64_t granule = world->mechanism_figures.granule_min_bytes;
    if (status == MBR_OK && options->budget_bytes < granule) {
        snprintf(text, MBR_REPLAY_TEXT_BYTES,
            "--budget: %llu bytes are below one granule of the plugin; %llu and more would work",
            (unsigned long long)options->budget_bytes, (unsigned long long)granule);
        replay_world_close(world, NULL);
        return MBR_EXIT_USAGE;
    }
    if (status == MBR_OK)
        status = open_budget(world, options, &error);
    if (status == MBR_OK)
        status = open_ep(world, &error);
    if (status == MBR_OK)
        status = bind(world, options, &error);
    if (status == MBR_OK)
        return MBR_EXIT_OK;
    snprintf(text, MBR_REPLAY_TEXT_BYTES, "%s", error.text);
    replay_world_close(world, NULL);
    return MBR_EXIT_REFUSED;
}

static mbr_status open_holder(replay_world *world, replay_seat *seat, mbr_replay_way way,
    const mbr_replay_load *load, const mbr_pressure_callbacks *pressed, mbr_error *error)
{
    mbr_holder_request request = {MBR_SIZED(mbr_holder_request), .role = MBR_ROLE_KV,
        .authority = world->authority, .name = load->name, .allowance_bytes = load->share_bytes};
    if (way == MBR_REPLAY_ELASTIC) {
        request.flags = MBR_HOLDER_BORROWS;
        request.pressed = *pressed;
    }
    mbr_status status = mbr_manager_create_holder(world->manager, &request, &seat->holder, error);
    if (status == MBR_OK && way != MBR_REPLAY_ALONE)
        status =
            mbr_manager_create_admission(world->manager, seat->holder, &seat->admission, error);
    return status;
}

int replay_world_seat(replay_world *world, replay_seat *seat, const mbr_replay_options *options,
    mbr_replay_way way, const mbr_replay_load *load, uint64_t max_tokens,
    const mbr_pressure_callbacks *pressed, char text[MBR_REPLAY_TEXT_BYTES])
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = open_holder(world, seat, way, load, pressed, &error);
    bool usage = false; /* what only the cache judges comes from the options */
    if (status == MBR_OK) {
        mbr_kv_request request = {MBR_SIZED(mbr_kv_request), .mode = options->eager,
            .binding = world->binding, .holder = seat->holder, .geometry = load->model,
            .layout = options->layout, .max_tokens = max_tokens,
            .extent_bytes = options->extent_bytes,
            .flags = options->protects ? MBR_KV_PROTECT_PREFIXES : 0};
        status = mbr_kv_create(world->manager, &request, &seat->kv, &error);
        usage = MBR_STATUS_CLASS(status) == MBR_CLASS_CALLER;
    }
    if (status == MBR_OK)
        return MBR_EXIT_OK;
    snprintf(text, MBR_REPLAY_TEXT_BYTES, "%s", error.text);
    replay_world_close(world, NULL);
    return usage ? MBR_EXIT_USAGE : MBR_EXIT_REFUSED;
}

static mbr_status destroy_caches(replay_world *world, mbr_error *error)
{
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < MBR_REPLAY_TENANT_LIMIT_COUNT && status == MBR_OK; i++) {
        if (world->seats[i].kv == NULL)
            continue;
        status = mbr_kv_destroy(world->seats[i].kv, error);
        if (status == MBR_OK)
            world->seats[i].kv = NULL;
    }
    return status;
}

void replay_world_settle(replay_world *world, mbr_replay_report *report)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status =
        mbr_ep_drain(world->manager, world->ep, replay_drain_deadline_ns(world), &error);
    if (status == MBR_OK)
        status = mbr_manager_audit(world->manager, &error);
    if (status == MBR_OK)
        status = destroy_caches(world, &error);
    if (status == MBR_OK)
        status = mbr_manager_unbind(world->manager, world->binding, &error);
    if (status == MBR_OK) {
        world->binding.value = 0;
        status = mbr_manager_audit(world->manager, &error);
    }
    snprintf(report->audit, sizeof(report->audit), "%s", status == MBR_OK ? "clean" : error.text);
    mbr_mechanism_figures mechanism = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_manager_read_mechanism(world->manager, world->mechanism, &mechanism, NULL);
    mbr_authority_figures authority = {MBR_SIZED(mbr_authority_figures)};
    mbr_manager_read_authority(world->manager, world->authority, &authority, NULL);
    report->final_charged = authority.charged_bytes;
    report->final_mapped = mechanism.mapped_bytes;
    report->final_owned = mechanism.owned_bytes;
    report->final_reservations = mechanism.reservation_count;
}

/* Goes on after a refusal, so that as much as possible is closed; the first one is reported. */
mbr_status replay_world_close(replay_world *world, mbr_error *error)
{
    mbr_status first = MBR_OK, status;
#define CLOSE(call)                                                                                \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != MBR_OK && first == MBR_OK)                                                   \
            first = status;                                                                        \
    } while (0)
    CLOSE(destroy_caches(world, error));
    if (world->binding.value != 0)
        CLOSE(mbr_manager_unbind(world->manager, world->binding, error));
    for (uint32_t i = 0; i < world->stream_count; i++) {
        CLOSE(mbr_ep_detach_stream(world->manager, world->streams[i], error));
        CLOSE(mbr_ep_destroy_stream(world->manager, world->ep, world->natives[i], error));
    }
    if (world->ep.value != 0)
        CLOSE(mbr_ep_destroy(world->manager, world->ep, replay_drain_deadline_ns(world), error));
    if (world->cpu != NULL)
        CLOSE(mbr_cpu_destroy(world->cpu, error));
    for (uint32_t i = 0; i < MBR_REPLAY_TENANT_LIMIT_COUNT; i++) {
        const replay_seat *seat = &world->seats[i];
        if (seat->admission.value != 0)
            CLOSE(mbr_manager_destroy_admission(world->manager, seat->admission, error));
        if (seat->holder.value != 0)
            CLOSE(mbr_manager_destroy_holder(world->manager, seat->holder, error));
    }
    if (world->authority.value != 0)
        CLOSE(mbr_manager_destroy_authority(world->manager, world->authority, error));
    if (world->mechanism.value != 0)
        CLOSE(mbr_manager_close_mechanism(world->manager, world->mechanism, error));
    if (world->plugin.value != 0)
        CLOSE(mbr_manager_close_plugin(world->manager, world->plugin, error));
    if (world->manager != NULL)
        CLOSE(mbr_manager_destroy(world->manager, error));
#undef CLOSE
    *world = (replay_world){0};
    return first;
}
