/* Objects of one size that are taken and given back without the heap: it is asked only when more
 * are out than ever before (I20), a chunk at a time. Not synchronized: the caller's lock guards it.
 */
#ifndef MEMBRANE_HOST_EP_POOL_H
#define MEMBRANE_HOST_EP_POOL_H

#include "abi/base/seam.h"

#include <stdbool.h>

#define MBR_POOL_CHUNK_COUNT 64 /* objects a chunk */

typedef struct mbr_pool_chunk mbr_pool_chunk;
typedef struct mbr_pool_object mbr_pool_object;

/* free_count objects in the free list + out_count = MBR_POOL_CHUNK_COUNT * chunks. */
typedef struct mbr_pool {
    const mbr_heap *heap;
    size_t object_bytes;
    mbr_pool_chunk *chunks;
    mbr_pool_object *free;
    uint64_t free_count;
    uint64_t out_count;
} mbr_pool;

void mbr_pool_init(mbr_pool *pool, const mbr_heap *heap, size_t object_bytes);
void mbr_pool_finish(mbr_pool *pool); /* every object has been given back */

/* True if `count` takes in a row will not fail. */
bool mbr_pool_try_ensure(mbr_pool *pool, uint64_t count);
void *mbr_pool_take(mbr_pool *pool); /* after try_ensure; zeroed */
void mbr_pool_give(mbr_pool *pool, void *object);

#endif
