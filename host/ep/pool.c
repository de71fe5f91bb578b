/* Responsible for chunks of equal objects and their free list. Never gives a chunk back before the
 * pool ends, and never takes a lock. */
#include "host/ep/pool.h"

#include "abi/base/assert.h"

#include <string.h>

struct mbr_pool_object {
    mbr_pool_object *next;
};

/* The objects follow the head, which keeps them aligned for any type. */
struct mbr_pool_chunk {
    _Alignas(max_align_t) mbr_pool_chunk *next;
};

void mbr_pool_init(mbr_pool *pool, const mbr_heap *heap, size_t object_bytes)
{
    size_t align = sizeof(max_align_t);
    *pool = (mbr_pool){.heap = heap, .object_bytes = (object_bytes + align - 1) / align * align};
}

void mbr_pool_finish(mbr_pool *pool)
{
    MBR_CHECK(pool->out_count == 0);
    while (pool->chunks != NULL) {
        mbr_pool_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        mbr_heap_release(pool->heap, chunk);
    }
}

static void push_free(mbr_pool *pool, mbr_pool_object *object)
{
    object->next = pool->free;
    pool->free = object;
    pool->free_count++;
}

bool mbr_pool_try_ensure(mbr_pool *pool, uint64_t count)
{
    while (pool->free_count < count) {
        mbr_pool_chunk *chunk = mbr_heap_allocate(
            pool->heap, sizeof *chunk + MBR_POOL_CHUNK_COUNT * pool->object_bytes);
        if (chunk == NULL)
            return false;
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        for (size_t index = 0; index < MBR_POOL_CHUNK_COUNT; index++)
            push_free(pool, (void *)((char *)(chunk + 1) + index * pool->object_bytes));
    }
    return true;
}

void *mbr_pool_take(mbr_pool *pool)
{
    mbr_pool_object *object = pool->free;
    MBR_CHECK(object != NULL);
    pool->free = object->next;
    pool->free_count--;
    pool->out_count++;
    return memset(object, 0, pool->object_bytes);
}

void mbr_pool_give(mbr_pool *pool, void *object)
{
    MBR_ASSERT(pool->out_count > 0);
    pool->out_count--;
    push_free(pool, object);
}
