/* Responsible for threads' caches: magazines and their exchange with the slabs, and the end of
 * whichever goes first, the thread or the arena. Never moves a word and books nothing.
 *
 * Threads belong to the process, so the one thing here that is the process's is the lock under
 * which a thread's list of caches is changed: by itself, or by an arena that ends. A thread that
 * ends holds it until it has left all its arenas, so that none of them ends meanwhile. */
#include "host/alloc/cache.h"

#include "host/alloc/payer.h"

#include <utlist.h>

#define BATCH_MAX 64

static mbr_lock threads_lock = {PTHREAD_MUTEX_INITIALIZER, MBR_RANK_THREADS};
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_exists;

MBR_THREAD_HOT mbr_thread_slot mbr_thread_slots[MBR_THREAD_ARENA_COUNT];
static _Thread_local mbr_cache *own_caches; /* threads_lock */
static _Thread_local bool own_end_was_seen;

/* ---- Magazines. Holding the arena's lock excludes everybody but the thread itself. */
static uint32_t batch_of(const mbr_magazine *magazine)
{
    return magazine->limit_count > 1 ? magazine->limit_count / 2 : 1;
}

static uint32_t take_entry(mbr_magazine *magazine, uint32_t index)
{
    if (atomic_load_explicit(&magazine->blocks[index], memory_order_relaxed) == 0)
        return 0;
    return atomic_exchange_explicit(&magazine->blocks[index], 0, memory_order_acquire);
}

/* By anybody who has the lock. */
static void empty_locked(mbr_arena *arena, mbr_magazine *magazine) MBR_REQUIRES(&arena->lock)
{
    for (uint32_t i = 0; i < mbr_magazine_top(magazine); i++) {
        uint32_t block = take_entry(magazine, i);
        if (block != 0)
            mbr_slabs_put_locked(arena, block);
    }
}

/* By its thread: the lower, colder part goes, and what others took leaves no gap. */
static void sink_locked(mbr_arena *arena, mbr_cache *cache, mbr_magazine *magazine, uint32_t count)
    MBR_REQUIRES(&arena->lock)
{
    uint32_t kept = 0, top = mbr_magazine_top(magazine);
    for (uint32_t i = 0; i < top; i++) {
        uint32_t block = atomic_load_explicit(&magazine->blocks[i], memory_order_relaxed);
        if (block == 0)
            continue;
        atomic_store_explicit(&magazine->blocks[i], 0, memory_order_relaxed);
        if (i < count)
            mbr_slabs_put_locked(arena, block);
        else
            atomic_store_explicit(&magazine->blocks[kept++], block, memory_order_relaxed);
    }
    cache->large_bytes -= (top - kept) * magazine->counted_bytes;
    mbr_magazine_set_top(magazine, kept);
}

void mbr_caches_collect_locked(mbr_arena *arena)
{
    for (mbr_cache *cache = arena->caches; cache != NULL; cache = cache->next)
        for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++)
            empty_locked(arena, &cache->magazines[i]);
}

void mbr_caches_count_locked(mbr_arena *arena, uint64_t *counts)
{
    for (mbr_cache *cache = arena->caches; cache != NULL; cache = cache->next)
        for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++)
            for (uint32_t j = 0; j < cache->magazines[i].limit_count; j++)
                counts[i] +=
                    atomic_load_explicit(&cache->magazines[i].blocks[j], memory_order_relaxed) != 0;
}

/* By its thread, of a full magazine: who frees so many at a time takes them again. Without host
 * memory it stays as it is. Others look at a magazine under the lock only. */
static void grow_magazine(mbr_arena *arena, mbr_cache *cache, uint32_t class_index)
{
    mbr_magazine *magazine = &cache->magazines[class_index];
    uint32_t most = mbr_class_plan(class_index).magazine_limit, count = magazine->limit_count;
    if (mbr_magazine_top(magazine) != count || count >= most)
        return;
    uint32_t grown_count = (uint32_t)mbr_min(count * UINT64_C(2), most);
    _Atomic uint32_t *grown =
        mbr_heap_allocate(&arena->heap, grown_count * sizeof(*magazine->blocks));
    if (grown == NULL)
        return;
    void *outgrown = magazine->block;
    mbr_lock_take(&arena->lock);
    for (uint32_t i = 0; i < grown_count; i++)
        atomic_init(&grown[i], i < count ? magazine->blocks[i] : 0);
    magazine->blocks = grown;
    magazine->block = grown;
    magazine->limit_count = grown_count;
    mbr_lock_drop(&arena->lock);
    mbr_heap_release(&arena->heap, outgrown);
}

/* By its thread: the older half of a full magazine goes, or everything large if that is too much.
 * What others took is counted as kept until here. */
static void make_room_locked(mbr_arena *arena, mbr_cache *cache, uint32_t class_index)
    MBR_REQUIRES(&arena->lock)
{
    mbr_magazine *magazine = &cache->magazines[class_index];
    if (mbr_magazine_top(magazine) == magazine->limit_count)
        sink_locked(arena, cache, magazine, batch_of(magazine));
    if (!mbr_cache_has_room(cache, class_index))
        for (uint32_t i = MBR_CLASS_FIRST_LARGE; i < MBR_CLASS_COUNT; i++)
            sink_locked(arena, cache, &cache->magazines[i], mbr_magazine_top(&cache->magazines[i]));
}

/* ---- Exchange with the slabs */
/* How many of a class its thread may still keep beside the one that it asked for. */
static uint32_t room_of(const mbr_cache *cache, uint32_t class_index)
{
    if (cache == NULL || class_index == MBR_CLASS_OWN_SPAN)
        return 0;
    const mbr_magazine *magazine = &cache->magazines[class_index];
    uint64_t room = mbr_min(batch_of(magazine), BATCH_MAX) - 1;
    if (magazine->counted_bytes != 0)
        room = mbr_min(
            room, (MBR_CACHE_LARGE_LIMIT_BYTES - cache->large_bytes) / magazine->counted_bytes);
    return (uint32_t)room;
}

/* Into the magazine, which is empty: the lowest address on top. */
static void keep(mbr_cache *cache, uint32_t class_index, const uint32_t *blocks, uint32_t count)
{
    if (count == 0)
        return;
    mbr_magazine *magazine = &cache->magazines[class_index];
    MBR_ASSERT(mbr_magazine_top(magazine) == 0);
    cache->large_bytes += count * magazine->counted_bytes;
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&magazine->blocks[i], blocks[count - 1 - i], memory_order_release);
    mbr_magazine_set_top(magazine, count);
}

uint32_t mbr_cache_refill(mbr_arena *arena, mbr_cache *cache, uint32_t class_index)
{
    uint32_t blocks[BATCH_MAX];
    uint32_t wanted = room_of(cache, class_index) + 1;
    mbr_lock_take(&arena->lock);
    uint32_t count = mbr_slabs_take_locked(arena, class_index, blocks, wanted);
    mbr_lock_drop(&arena->lock);
    if (count == 0)
        return 0;
    keep(cache, class_index, blocks + 1, count - 1);
    return blocks[0];
}

uint32_t mbr_cache_grow(mbr_arena *arena, mbr_cache *cache, const mbr_slab_request *request,
    mbr_status *status, mbr_error *error)
{
    uint32_t blocks[BATCH_MAX];
    uint32_t count, wanted = room_of(cache, request->class_index) + 1;
    *status = mbr_slabs_add(arena, request, blocks, wanted, &count, error);
    if (*status != MBR_OK)
        return 0;
    keep(cache, request->class_index, blocks + 1, count - 1);
    return blocks[0];
}

void mbr_cache_put_slow(mbr_arena *arena, mbr_cache *cache, uint32_t block)
{
    uint32_t class_index = mbr_table_slab(arena->table, block)->class_index;
    bool is_cached = cache != NULL && class_index != MBR_CLASS_OWN_SPAN;
    if (is_cached)
        grow_magazine(arena, cache, class_index);
    mbr_lock_take(&arena->lock);
    if (is_cached)
        make_room_locked(arena, cache, class_index);
    if (is_cached && mbr_cache_has_room(cache, class_index))
        mbr_cache_push(cache, class_index, block);
    else
        mbr_slabs_put_locked(arena, block);
    mbr_slab *detached = mbr_slabs_detach_locked(arena, arena->keep_bytes);
    mbr_lock_drop(&arena->lock);
    mbr_slabs_give(arena, detached);
}

/* ---- The end of a thread or of an arena */
static void close_locked(mbr_arena *arena, mbr_cache *cache) MBR_REQUIRES(&arena->lock)
{
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++)
        empty_locked(arena, &cache->magazines[i]);
    mbr_payers_absorb_locked(arena, cache);
    DL_DELETE(arena->caches, cache);
}

static void free_cache(const mbr_heap *heap, mbr_cache *cache)
{
    for (uint32_t i = 0; i < MBR_PAYER_PAGE_COUNT; i++) {
        mbr_tally_page *page = atomic_load_explicit(&cache->pages[i], memory_order_relaxed);
        if (page != NULL)
            mbr_heap_release(heap, page->block);
    }
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++)
        mbr_heap_release(heap, cache->magazines[i].block);
    mbr_heap_release(heap, cache->block);
}

/* Gives no slab to the backing: nothing may be called out of a thread that ends. The next exchange
 * does. A destructor of somebody else may still allocate after this, without a cache. */
static void thread_ends(void *unused)
{
    (void)unused;
    mbr_lock_take(&threads_lock);
    while (own_caches != NULL) {
        mbr_cache *cache = own_caches;
        mbr_arena *arena = cache->arena;
        DL_DELETE2(own_caches, cache, thread_prev, thread_next);
        mbr_lock_take(&arena->lock);
        close_locked(arena, cache);
        mbr_lock_drop(&arena->lock);
        free_cache(&arena->heap, cache);
    }
    mbr_lock_drop(&threads_lock);
    for (uint32_t i = 0; i < MBR_THREAD_ARENA_COUNT; i++)
        mbr_thread_slots[i] = (mbr_thread_slot){0};
    own_end_was_seen = true;
}

void mbr_caches_close(mbr_arena *arena)
{
    mbr_lock_take(&threads_lock);
    while (arena->caches != NULL) {
        mbr_cache *cache = arena->caches;
        DL_DELETE2(*cache->thread_list, cache, thread_prev, thread_next);
        mbr_lock_take(&arena->lock);
        close_locked(arena, cache);
        mbr_lock_drop(&arena->lock);
        free_cache(&arena->heap, cache);
    }
    mbr_lock_drop(&threads_lock);
}

/* libmembrane.so stays in the process (-z nodelete), because a thread that ends later runs
 * thread_ends: no library destructor takes the key back (rule 27). */
static void create_key(void)
{
    key_exists = pthread_key_create(&key, thread_ends) == 0;
}

/* ---- Making and finding */
static mbr_cache *find_own(const mbr_arena *arena)
{
    mbr_cache *cache;
    mbr_lock_take(&threads_lock);
    DL_SEARCH_SCALAR2(own_caches, cache, arena, arena, thread_next);
    mbr_lock_drop(&threads_lock);
    return cache;
}

static mbr_cache *make_cache(mbr_arena *arena)
{
    uint32_t entry_count = 0;
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++)
        entry_count += mbr_class_plan(i).magazine_blocks;
    void *block;
    mbr_cache *cache = mbr_line_allocate(
        &arena->heap, sizeof(*cache) + entry_count * sizeof(cache->entries[0]), &block);
    if (cache == NULL)
        return NULL;
    cache->arena = arena;
    cache->block = block;
    cache->thread_list = &own_caches;
    _Atomic uint32_t *entries = cache->entries;
    for (uint32_t i = 0; i < MBR_CLASS_COUNT; i++) {
        cache->magazines[i].blocks = entries;
        cache->magazines[i].limit_count = mbr_class_plan(i).magazine_blocks;
        cache->magazines[i].counted_bytes = i >= MBR_CLASS_FIRST_LARGE ? mbr_class_bytes(i) : 0;
        entries += cache->magazines[i].limit_count;
    }
    mbr_lock_take(&threads_lock);
    mbr_lock_take(&arena->lock);
    DL_APPEND2(own_caches, cache, thread_prev, thread_next);
    DL_APPEND(arena->caches, cache);
    mbr_lock_drop(&arena->lock);
    mbr_lock_drop(&threads_lock);
    return cache;
}

mbr_cache *mbr_cache_open(mbr_arena *arena)
{
    if (own_end_was_seen)
        return NULL;
    pthread_once(&key_once, create_key);
    /* Any value but NULL makes the thread's end call thread_ends. */
    if (!key_exists || pthread_setspecific(key, &threads_lock) != 0)
        return NULL;
    mbr_cache *cache = find_own(arena);
    if (cache == NULL)
        cache = make_cache(arena);
    if (cache != NULL)
        mbr_thread_slots[arena->id & (MBR_THREAD_ARENA_COUNT - 1)] =
            (mbr_thread_slot){arena->id, cache};
    return cache;
}
