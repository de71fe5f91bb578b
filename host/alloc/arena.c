/* Responsible for the life of an arena and for its figures. Never touches a block's memory. */
#include "host/alloc/payer.h"

static _Atomic uint64_t last_arena_id; /* threads find their caches by it, so it is the process's */

/* ---- What the arena gives when the cache is asked */
/* Blocks that threads keep count too: they go back to their slabs first. */
static uint64_t read_idle(void *context)
{
    mbr_arena *arena = context;
    mbr_lock_take(&arena->lock);
    mbr_caches_collect_locked(arena);
    uint64_t idle = arena->idle_bytes;
    mbr_lock_drop(&arena->lock);
    return idle;
}

static uint64_t shed_idle(void *context, uint64_t bytes)
{
    uint64_t idle = read_idle(context);
    return mbr_slabs_shed(context, idle - mbr_min(idle, bytes));
}

/* ---- Life */
mbr_status mbr_arena_create(const mbr_arena_options *options, mbr_arena **arena, mbr_error *error)
{
    *arena = NULL;
    const mbr_heap *heap = options->heap != NULL ? options->heap : &mbr_heap_libc;
    void *block;
    mbr_arena *made = mbr_line_allocate(heap, sizeof(*made), &block);
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for an arena");
    made->block = block;
    made->heap = *heap;
    made->table = options->table;
    made->backing = options->backing;
    made->context = options->context;
    made->serves = mbr_context_serves(options->context);
    made->isolation_group = options->isolation_group;
    made->keep_bytes = options->keep_bytes;
    made->cache_holder = mbr_backing_cache(options->backing);
    made->mechanism = mbr_port_mechanism(mbr_backing_port(options->backing));
    made->payers[0] = mbr_heap_allocate(heap, sizeof(mbr_payer) << MBR_PAYER_PAGE_BITS);
    if (made->payers[0] == NULL) {
        mbr_heap_release(heap, block);
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for an arena's holders");
    }
    made->payers[0][0].holder = made->cache_holder; /* index 0: nothing moves */
    made->payers[0][0].holder_id = mbr_holder_id(made->cache_holder);
    made->payer_count = 1;
    mbr_lock_init(&made->lock, MBR_RANK_SLAB);
    mbr_condition_init(&made->given);
    made->id = atomic_fetch_add_explicit(&last_arena_id, 1, memory_order_relaxed) + 1;
    made->keeper = (mbr_idle_keeper){.idle_bytes = read_idle, .shed = shed_idle, .context = made};
    mbr_backing_add_keeper(made->backing, &made->keeper);
    *arena = made;
    return MBR_OK;
}

static uint64_t out_count_locked(const mbr_arena *arena) MBR_REQUIRES(&arena->lock)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i <= MBR_CLASS_COUNT; i++)
        count += arena->bins[i].out_count;
    return count;
}

static void await_given_locked(mbr_arena *arena) MBR_REQUIRES(&arena->lock)
{
    while (arena->giving_count != 0)
        mbr_condition_wait(&arena->given, &arena->lock, UINT64_MAX);
}

mbr_status mbr_arena_destroy(mbr_arena *arena, mbr_error *error)
{
    mbr_lock_take(&arena->lock);
    mbr_caches_collect_locked(arena);
    uint64_t out = out_count_locked(arena);
    uint64_t queued = atomic_load_explicit(&arena->queued_count, memory_order_acquire);
    uint64_t quarantined = arena->quarantined_count;
    mbr_lock_drop(&arena->lock);
    if (out + queued != 0) /* a free that met the loss may be inside yet with nothing out */
        return mbr_fail(error, MBR_IN_USE,
            "%llu allocations live, %llu are queued, %llu are lost with their device or abandoned; "
            "release them, drain the EP, or confirm the end of its context",
            (unsigned long long)(out - mbr_min(queued + quarantined, out)),
            (unsigned long long)queued, (unsigned long long)quarantined);
    mbr_caches_close(arena);
    mbr_backing_remove_keeper(arena->backing, &arena->keeper);
    mbr_lock_take(&arena->lock);
    mbr_payers_fold_locked(arena);
    mbr_slab *detached = mbr_slabs_detach_locked(arena, 0);
    mbr_lock_drop(&arena->lock);
    mbr_slabs_give(arena, detached);
    mbr_lock_take(&arena->lock);
    await_given_locked(arena);
    mbr_lock_drop(&arena->lock);
    for (uint32_t i = 0; i < MBR_PAYER_PAGE_COUNT; i++)
        mbr_heap_release(&arena->heap, arena->payers[i]);
    mbr_condition_finish(&arena->given);
    mbr_lock_finish(&arena->lock);
    mbr_heap heap = arena->heap;
    mbr_heap_release(&heap, arena->block);
    return MBR_OK;
}

/* ---- Idle slabs */
uint64_t mbr_arena_trim(mbr_arena *arena, uint64_t keep_bytes)
{
    mbr_lock_take(&arena->lock);
    mbr_caches_collect_locked(arena);
    mbr_lock_drop(&arena->lock);
    return mbr_slabs_shed(arena, keep_bytes);
}

/* ---- Figures */
/* Of spans that hold one allocation each. */
static uint64_t own_span_bytes_locked(const mbr_arena *arena) MBR_REQUIRES(&arena->lock)
{
    uint64_t bytes = 0;
    for (mbr_slab *slab = arena->slabs; slab != NULL; slab = slab->all_next)
        if (slab->class_index == MBR_CLASS_OWN_SPAN)
            bytes += slab->span.owned_bytes;
    return bytes;
}

/* Counts are read while threads work, so a difference may be off by what they did meanwhile. */
static uint64_t difference(uint64_t all, uint64_t part)
{
    return all > part ? all - part : 0;
}

void mbr_arena_read(mbr_arena *arena, mbr_arena_figures *figures)
{
    uint64_t kept[MBR_CLASS_COUNT] = {0};
    mbr_arena_figures own = {0};
    uint64_t count = 0, bytes = 0;
    mbr_lock_take(&arena->lock);
    mbr_caches_count_locked(arena, kept);
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++) {
        uint64_t out = difference(arena->bins[i].out_count, kept[i]);
        count += out;
        bytes += out * mbr_class_bytes(i);
    }
    count += arena->bins[MBR_CLASS_OWN_SPAN].out_count;
    bytes += own_span_bytes_locked(arena);
    own.slab_bytes = arena->slab_bytes;
    own.idle_bytes = arena->idle_bytes;
    own.queued_count = atomic_load_explicit(&arena->queued_count, memory_order_relaxed);
    own.queued_bytes = atomic_load_explicit(&arena->queued_bytes, memory_order_relaxed);
    own.quarantined_count = arena->quarantined_count;
    uint64_t quarantined_bytes = arena->quarantined_bytes;
    mbr_lock_drop(&arena->lock);
    own.live_count = difference(count, own.queued_count + own.quarantined_count);
    own.live_bytes = difference(bytes, own.queued_bytes + quarantined_bytes);
    *figures = own;
}
