/* Responsible for opening and closing an arena below the client's calls. Measures nothing. */
#include "tools/bench/world.h"

#include <stddef.h>

#define LIMIT_BYTES (UINT64_C(64) << 30) /* none of the rows comes near it */

static mbr_status open_mechanism(const mbr_bench *bench, mbr_bench_core *core, mbr_error *error)
{
    mbr_module_options module = {
        .name_or_path = bench->options->plugin, .trusted = bench->options->trusted};
    mbr_status status = mbr_module_open(&module, &core->module, NULL, error);
    if (status != MBR_OK)
        return status;
    mbr_mechanism_options options = {.mechanism = NULL};
    status = mbr_mechanism_open(core->module, &options, &core->mechanism, error);
    if (status != MBR_OK)
        return status;
    status =
        mbr_port_create(&core->mechanism, &core->addresses, &mbr_heap_libc, &core->port, error);
    if (status != MBR_OK)
        mbr_mechanism_close(&core->mechanism, NULL);
    return status;
}

static mbr_status open_books(mbr_bench_core *core, mbr_error *error)
{
    mbr_status status = mbr_governor_create(NULL, &core->governor, error);
    if (status != MBR_OK)
        return status;
    mbr_authority_options authority = {
        .name = "bench", .tier = core->mechanism.description.tier, .limit_bytes = LIMIT_BYTES};
    status = mbr_authority_create(core->governor, &authority, &core->authority, error);
    if (status != MBR_OK)
        return status;
    mbr_holder_options holder = {
        .name = "bench", .role = MBR_ROLE_KV, .allowance_bytes = MBR_NO_ALLOWANCE};
    return mbr_holder_create(core->authority, &holder, &core->holder, error);
}

static mbr_status open_arena(mbr_bench_core *core, mbr_error *error)
{
    mbr_status status = mbr_cpu_create(NULL, &core->cpu, error);
    if (status != MBR_OK)
        return status;
    mbr_context_options context = {.name = "bench",
        .order = mbr_cpu_order(core->cpu),
        .transfer = mbr_cpu_transfer(core->cpu),
        .instance = mbr_cpu_instance(core->cpu)};
    status = mbr_context_create(&context, &core->context, error);
    if (status != MBR_OK)
        return status;
    mbr_backing_options backing = {.port = core->port,
        .authority = core->authority,
        .name = "cache",
        .keep_bytes = UINT64_MAX,
        .heap = &mbr_heap_libc};
    status = mbr_backing_create(&backing, &core->backing, error);
    if (status == MBR_OK)
        status = mbr_alloc_table_create(&mbr_heap_libc, &core->table, error);
    if (status != MBR_OK)
        return status;
    mbr_arena_options arena = {.table = core->table,
        .backing = core->backing,
        .context = core->context,
        .keep_bytes = UINT64_MAX};
    return mbr_arena_create(&arena, &core->arena, error);
}

/* The first refusal ends it: what stands above must not lose what it stands on. */
static mbr_status close_all(mbr_bench_core *core, mbr_error *error)
{
    mbr_status status = core->arena != NULL ? mbr_arena_destroy(core->arena, error) : MBR_OK;
    if (status == MBR_OK) {
        mbr_alloc_table_destroy(core->table);
        status = core->backing != NULL ? mbr_backing_destroy(core->backing, error) : MBR_OK;
    }
    if (status == MBR_OK && core->context != NULL)
        status = mbr_context_retire(core->context, error);
    if (status == MBR_OK && core->context != NULL)
        status = mbr_context_destroy(core->context, error);
    if (status == MBR_OK && core->cpu != NULL)
        status = mbr_cpu_destroy(core->cpu, error);
    if (status == MBR_OK)
        status = mbr_holder_destroy(core->holder, error);
    if (status == MBR_OK)
        status = mbr_authority_destroy(core->authority, error);
    if (status == MBR_OK)
        status = mbr_governor_destroy(core->governor, error);
    if (status == MBR_OK && core->port != NULL)
        status = mbr_port_close(core->port, error);
    if (status == MBR_OK)
        mbr_addresses_finish(&core->addresses);
    if (status == MBR_OK && core->module != NULL)
        mbr_module_close(core->module);
    return status;
}

bool mbr_bench_core_open(mbr_bench *bench, mbr_bench_core *core)
{
    *core = (mbr_bench_core){0};
    mbr_addresses_init(&core->addresses);
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = open_mechanism(bench, core, &error);
    if (status == MBR_OK)
        status = open_books(core, &error);
    if (status == MBR_OK)
        status = open_arena(core, &error);
    if (status == MBR_OK)
        return true;
    mbr_bench_fail_status(bench, "opening the plugin", status, &error);
    close_all(core, NULL);
    return false;
}

bool mbr_bench_core_close(mbr_bench *bench, mbr_bench_core *core)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    bool failed = bench->text[0] != '\0';
    mbr_status status = close_all(core, &error);
    if (status != MBR_OK && !failed)
        return mbr_bench_fail_status(bench, "closing", status, &error);
    return !failed;
}
