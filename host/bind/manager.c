/* The manager: its creation and end, polling, folding. Allocates no device memory and calls no slot
 * but through the parts it puts together. */
#include "host/bind/manager.h"

#include "abi/base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SAMPLE_INTERVAL_NS UINT64_C(1000000000)

static void init_tables(mbr_manager *manager)
{
    mbr_table_init(&manager->plugins, "plugin", &manager->heap);
    mbr_table_init(&manager->mechanisms, "mechanism", &manager->heap);
    mbr_table_init(&manager->authorities, "authority", &manager->heap);
    mbr_table_init(&manager->holders, "holder", &manager->heap);
    mbr_table_init(&manager->eps, "EP", &manager->heap);
    mbr_table_init(&manager->streams, "stream", &manager->heap);
    mbr_table_init(&manager->bindings, "binding", &manager->heap);
    mbr_table_init(&manager->ranges, "range", &manager->heap);
    mbr_table_init(&manager->prefixes, "prefix", &manager->heap);
    mbr_table_init(&manager->tickets, "ticket", &manager->heap);
    mbr_table_init(&manager->admissions, "admission", &manager->heap);
    mbr_table_init(&manager->graphs, "graph", &manager->heap);
}

static void finish_tables(mbr_manager *manager)
{
    mbr_table *tables[] = {&manager->plugins, &manager->mechanisms, &manager->authorities,
        &manager->holders, &manager->eps, &manager->streams, &manager->bindings, &manager->ranges,
        &manager->prefixes, &manager->tickets, &manager->admissions, &manager->graphs};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        mbr_table_finish(tables[i]);
}

static mbr_status copy_options(
    mbr_manager *manager, const mbr_manager_options *options, mbr_error *error)
{
    manager->threads = options != NULL && MBR_HAS(mbr_manager_options, options, threads) &&
        options->threads == MBR_THREADS_INTERNAL;
    if (options == NULL || !MBR_HAS(mbr_manager_options, options, log_context))
        return MBR_OK;
    if (options->log != NULL) {
        mbr_status status = mbr_log_create(&manager->heap, &manager->clock, options->log,
            options->log_context, &manager->log, error);
        if (status != MBR_OK)
            return status;
    }
    if (!MBR_HAS(mbr_manager_options, options, plugin_path) || options->plugin_path == NULL)
        return MBR_OK;
    size_t bytes = strlen(options->plugin_path) + 1;
    manager->plugin_path = mbr_heap_allocate(&manager->heap, bytes);
    if (manager->plugin_path == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for the plugin path");
    memcpy(manager->plugin_path, options->plugin_path, bytes);
    return MBR_OK;
}

mbr_status mbr_manager_create_with_seams(const mbr_manager_options *options,
    const mbr_manager_seams *seams, mbr_manager **manager, mbr_error *error)
{
    *manager = NULL;
    const mbr_heap *heap = seams->heap != NULL ? seams->heap : &mbr_heap_libc;
    mbr_manager *created = mbr_heap_allocate(heap, sizeof(*created));
    if (created == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a manager");
    created->heap = *heap;
    created->clock = seams->clock != NULL ? *seams->clock : mbr_clock_monotonic;
    created->reaper_threads = seams->threads;
    created->loader_os = seams->loader_os != NULL ? seams->loader_os : &mbr_loader_os_libc;
    created->shared_os = seams->shared_os;
    mbr_status status = copy_options(created, options, error);
    if (status != MBR_OK)
        goto end_log;
    mbr_governor_options governor = {&created->heap, &created->clock};
    status = mbr_governor_create(&governor, &created->governor, error);
    if (status != MBR_OK)
        goto free_path;
    status = mbr_alloc_table_create(&created->heap, &created->allocations, error);
    if (status != MBR_OK)
        goto destroy_governor;
    mbr_lock_init(&created->lock, MBR_RANK_MANAGER);
    mbr_walks_init(&created->walks);
    mbr_walks_init(&created->range_walks);
    mbr_condition_init(&created->closed);
    mbr_addresses_init(&created->addresses);
    init_tables(created);
    *manager = created;
    return MBR_OK;
destroy_governor:
    mbr_governor_destroy(created->governor, NULL);
free_path:
    mbr_heap_release(heap, created->plugin_path);
end_log:
    mbr_log_end(created->log);
    mbr_heap_release(heap, created);
    return status;
}

mbr_status mbr_manager_create(
    const mbr_manager_options *options, mbr_manager **manager, mbr_error *error)
{
    const mbr_manager_seams none = {0};
    return mbr_manager_create_with_seams(options, &none, manager, error);
}

const mbr_heap *mbr_manager_heap(const mbr_manager *manager)
{
    return &manager->heap;
}

static uint64_t count_abandoned(mbr_manager *manager)
{
    uint64_t count = 0;
    mbr_lock_take(&manager->lock);
    for (mbr_binding_record *each = manager->abandoned; each != NULL; each = each->next_abandoned)
        count++;
    mbr_lock_drop(&manager->lock);
    return count;
}

static mbr_status refuse_live(mbr_manager *manager, mbr_error *error)
{
    uint64_t plugins = mbr_table_count(&manager->plugins);
    uint64_t eps = mbr_table_count(&manager->eps);
    uint64_t bindings = mbr_table_count(&manager->bindings) + count_abandoned(manager);
    uint64_t ranges = mbr_table_count(&manager->ranges);
    uint64_t prefixes = mbr_table_count(&manager->prefixes);
    /* What was leaked on purpose stays charged: its authority and payer cannot end before this. */
    uint64_t authorities =
        manager->leak_count == 0 ? mbr_table_count(&manager->authorities) : UINT64_C(0);
    if (plugins + eps + bindings + ranges + prefixes + authorities == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_IN_USE,
        "still open: %llu plugins, %llu EPs, %llu bindings, %llu ranges, %llu prefixes, "
        "%llu authorities; close them first",
        (unsigned long long)plugins, (unsigned long long)eps, (unsigned long long)bindings,
        (unsigned long long)ranges, (unsigned long long)prefixes, (unsigned long long)authorities);
}

/* Those that pay for what was leaked on purpose: who stood on them is not to look for them. */
static void end_leaked_holders(mbr_manager *manager)
{
    uint32_t cursor = 0;
    mbr_holder_record *record;
    while ((record = mbr_table_next(&manager->holders, &cursor)) != NULL)
        mbr_end_givers(manager, record);
}

mbr_status mbr_manager_destroy(mbr_manager *manager, mbr_error *error)
{
    mbr_end_abandoned(manager);
    mbr_status status = refuse_live(manager, error);
    if (status != MBR_OK)
        return status;
    if (manager->leak_count != 0) /* with its authorities, which threads that end look at */
        mbr_manager_log(manager, MBR_LOG_WARNING,
            "the books are leaked with what %llu bindings could not give back",
            (unsigned long long)manager->leak_count);
    else
        status = mbr_governor_destroy(manager->governor, error);
    if (status != MBR_OK)
        return status;
    mbr_alloc_table_destroy(manager->allocations);
    end_leaked_holders(manager);
    finish_tables(manager);
    mbr_finish_devices(manager);
    mbr_addresses_finish(&manager->addresses);
    mbr_condition_finish(&manager->closed);
    mbr_walks_finish(&manager->range_walks);
    mbr_walks_finish(&manager->walks);
    mbr_lock_finish(&manager->lock);
    mbr_log_end(manager->log);
    const mbr_heap heap = manager->heap;
    mbr_heap_release(&heap, manager->plugin_path);
    mbr_heap_release(&heap, manager);
    return MBR_OK;
}

void mbr_manager_log(mbr_manager *manager, uint32_t level, const char *format, ...)
{
    if (manager->log == NULL)
        return;
    char line[MBR_LOG_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length > 0)
        mbr_log_write(manager->log, level, line, mbr_min((uint64_t)length, sizeof(line) - 1));
}

/* ---- Walks ----------------------------------------------------------------------------------- */

mbr_walk mbr_begin_walk(mbr_manager *manager)
{
    return mbr_walks_begin(&manager->walks);
}

void mbr_end_walk(mbr_manager *manager, mbr_walk walk)
{
    mbr_walks_end(&manager->walks, walk);
}

void mbr_await_walks(mbr_manager *manager)
{
    mbr_walks_await(&manager->walks);
}

mbr_status mbr_refer(mbr_manager *manager, const bool *closing, uint64_t *reference_count,
    const char *refusal, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    bool refused = *closing;
    *reference_count += !refused;
    mbr_lock_drop(&manager->lock);
    return refused ? mbr_fail(error, MBR_STALE, "%s", refusal) : MBR_OK;
}

bool mbr_is_closing(mbr_manager *manager, const mbr_mechanism_record *record)
{
    mbr_lock_take(&manager->lock);
    bool is_closing = record->closing;
    mbr_lock_drop(&manager->lock);
    return is_closing;
}

mbr_mechanism_record *mbr_refer_mechanism(mbr_manager *manager, mbr_mechanism_handle handle,
    mbr_referrer by, mbr_status *status, mbr_error *error)
{
    mbr_walk walk = mbr_begin_walk(manager); /* so that the record stays until it is counted */
    mbr_mechanism_record *record = mbr_find_mechanism(manager, handle.value, status, error);
    if (record != NULL)
        *status = mbr_refer(manager, &record->closing, &record->reference_counts[by],
            "the mechanism is being closed", error);
    mbr_end_walk(manager, walk);
    return *status == MBR_OK ? record : NULL;
}

void mbr_end_close(mbr_manager *manager, bool *closing)
{
    mbr_lock_take(&manager->lock);
    *closing = false;
    mbr_condition_signal_all(&manager->closed);
    mbr_lock_drop(&manager->lock);
}

void mbr_unrefer(mbr_manager *manager, uint64_t *reference_count)
{
    mbr_lock_take(&manager->lock);
    (*reference_count)--;
    mbr_lock_drop(&manager->lock);
}

mbr_backing_record *mbr_next_backing(mbr_manager *manager, const mbr_backing_record *last)
{
    mbr_lock_take(&manager->lock);
    mbr_backing_record *next = last == NULL ? manager->backings : last->next;
    mbr_lock_drop(&manager->lock);
    return next;
}

mbr_binding_record *mbr_next_binding(mbr_manager *manager, const mbr_binding_record *last)
{
    mbr_lock_take(&manager->lock);
    mbr_binding_record *next = last == NULL ? manager->generations : last->next;
    mbr_lock_drop(&manager->lock);
    return next;
}

static void sample_limits(mbr_manager *manager)
{
    uint64_t now = mbr_clock_now(&manager->clock);
    mbr_lock_take(&manager->lock);
    bool due = now - manager->last_sample_ns >= SAMPLE_INTERVAL_NS;
    if (due)
        manager->last_sample_ns = now;
    mbr_lock_drop(&manager->lock);
    uint32_t cursor = 0;
    mbr_authority_record *record;
    while (due && (record = mbr_table_next(&manager->authorities, &cursor)) != NULL)
        mbr_authority_sample(record->authority, false);
}

mbr_authority_record *mbr_poll_begin(
    mbr_manager *manager, mbr_authority_handle handle, mbr_status *status, mbr_error *error)
{
    mbr_lock_take(&manager->lock);
    mbr_authority_record *record = mbr_find_authority(manager, handle.value, status, error);
    if (record != NULL)
        record->caller_count++;
    mbr_lock_drop(&manager->lock);
    return record;
}

mbr_status mbr_refuse_in_callback(mbr_error *error)
{
    return mbr_is_pressing()
        ? mbr_fail(error, MBR_BUSY,
              "this thread is in a callback of a holder that is asked for bytes; call it later")
        : MBR_OK;
}

void mbr_poll_end(mbr_manager *manager, mbr_authority_record *record)
{
    mbr_lock_take(&manager->lock);
    if (--record->caller_count == 0)
        mbr_condition_signal_all(&manager->closed); /* its end may wait for that */
    mbr_lock_drop(&manager->lock);
}

/* What may call clients back, one authority after another. */
static void poll_authorities(mbr_manager *manager)
{
    uint32_t cursor = 0;
    for (;;) {
        mbr_lock_take(&manager->lock);
        mbr_authority_record *record = mbr_table_next(&manager->authorities, &cursor);
        if (record != NULL)
            record->caller_count++;
        mbr_lock_drop(&manager->lock);
        if (record == NULL)
            return;
        mbr_authority_poll(record->authority);
        mbr_poll_end(manager, record);
    }
}

void mbr_manager_poll(mbr_manager *manager)
{
    uint32_t cursor = 0;
    mbr_ep_record *ep;
    mbr_walk walk = mbr_begin_walk(manager);
    while ((ep = mbr_table_next(&manager->eps, &cursor)) != NULL) {
        mbr_context_reap(ep->context, true);
        mbr_context_do_chores(ep->context);
    }
    sample_limits(manager);
    mbr_end_walk(manager, walk);
    mbr_end_abandoned(manager);
    poll_authorities(manager);
}

void mbr_manager_fold(mbr_manager *manager)
{
    mbr_walk walk = mbr_begin_walk(manager);
    for (mbr_binding_record *binding = NULL;
         (binding = mbr_next_binding(manager, binding)) != NULL;)
        mbr_arena_fold(binding->arena);
    uint32_t cursor = 0;
    mbr_authority_record *authority;
    while ((authority = mbr_table_next(&manager->authorities, &cursor)) != NULL)
        mbr_authority_collect_credit(authority->authority);
    mbr_end_walk(manager, walk);
}
