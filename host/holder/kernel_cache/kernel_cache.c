/* Kernel caches: declared copies, who uses them, and which go first. Owns no copy and frees none:
 * the client's drop does.
 *
 *     declared_bytes = sum over entries of bytes = granted to the holder for them
 *
 * Locking: `lock` guards all of it; neither the ledger nor the client is called under it. Who looks
 * for something to give keeps no entry meanwhile: it finds it again by its key, and by the serial
 * of its last use whether somebody used it in between. */
#include "membrane/kernel_cache.h"
#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/growable.h"
#include "abi/base/lock.h"
#include "host/bind/giver.h"
#include "host/bind/grant.h"
#include "host/bind/seams.h"
#include "host/holder/common/quiet.h"
#include "host/holder/common/streams.h"

/* An allocation that fails leaves the table as it was; HASH_ADD then unsets `hh.tbl`. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#define STREAM_STEP_COUNT 4 /* by which a copy's room for streams grows */

typedef struct mbr_kernel_copy {
    uint64_t key;
    uint64_t bytes;
    uint64_t user_count;
    uint64_t used;              /* serial of its last use */
    uint64_t looked;            /* the last walk that has seen it */
    mbr_stream_handle *streams; /* distinct ones of releases, whose work may still read it */
    uint32_t stream_count, stream_room;
    bool has_unknown; /* a stream found no place there: it is given no more */
    UT_hash_handle hh;
    struct mbr_kernel_copy *next, *prev; /* least recently used first */
} mbr_kernel_copy;

struct mbr_kernel_cache {
    mbr_manager *manager;
    mbr_heap heap;
    mbr_holder_handle holder;
    mbr_giver giver;
    void (*drop)(void *context, uint64_t key);
    void *context;
    mbr_lock lock;
    mbr_condition walked; /* nobody looks for something to give any more */
    uint32_t walker_count;
    mbr_kernel_copy *table, *copies;
    uint64_t entry_count, used_count, declared_bytes, declined_count, dropped_count;
    uint64_t walk_count, use_serial;
};

MBR_GIVER_CALLS_DEFINE(mbr_kernel_cache, giver_calls);

/* ---- Life */

static void finish(mbr_kernel_cache *cache)
{
    mbr_condition_finish(&cache->walked);
    mbr_lock_finish(&cache->lock);
    mbr_heap heap = cache->heap;
    mbr_heap_release(&heap, cache);
}

mbr_status mbr_kernel_cache_create(mbr_manager *manager, const mbr_kernel_cache_request *request,
    mbr_kernel_cache **cache, mbr_error *error)
{
    *cache = NULL;
    mbr_kernel_cache_request own;
    mbr_holder_figures holder = {MBR_SIZED(mbr_holder_figures)};
    mbr_status status = MBR_TAKE(&own, mbr_kernel_cache_request, context, request, error);
    if (status == MBR_OK)
        status = mbr_manager_read_holder(manager, own.holder, &holder, error);
    if (status != MBR_OK)
        return status;
    if (own.drop == NULL)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "drop is NULL: nobody could free a copy");
    mbr_kernel_cache *made = mbr_heap_allocate(mbr_manager_heap(manager), sizeof(*made));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a kernel cache");
    *made = (mbr_kernel_cache){.manager = manager,
        .heap = *mbr_manager_heap(manager),
        .holder = own.holder,
        .drop = own.drop,
        .context = own.context};
    mbr_lock_init(&made->lock, MBR_RANK_CLIENT);
    mbr_condition_init(&made->walked);
    status = mbr_giver_join(manager, own.holder, &giver_calls, made, &made->giver, error);
    if (status == MBR_OK)
        *cache = made;
    else
        finish(made);
    return status;
}

static mbr_kernel_copy *find_locked(mbr_kernel_cache *cache, uint64_t key)
    MBR_REQUIRES(&cache->lock)
{
    mbr_kernel_copy *found;
    HASH_FIND(hh, cache->table, &key, sizeof(key), found);
    return found;
}

static void use_locked(mbr_kernel_cache *cache, mbr_kernel_copy *copy) MBR_REQUIRES(&cache->lock)
{
    cache->used_count += copy->user_count++ == 0;
    copy->used = ++cache->use_serial;
}

static void unuse_locked(mbr_kernel_cache *cache, mbr_kernel_copy *copy) MBR_REQUIRES(&cache->lock)
{
    MBR_ASSERT(copy->user_count != 0);
    cache->used_count -= --copy->user_count == 0;
}

/* Out of the lists; it is the caller's to end. */
static void take_out_locked(mbr_kernel_cache *cache, mbr_kernel_copy *copy)
    MBR_REQUIRES(&cache->lock)
{
    HASH_DEL(cache->table, copy);
    DL_DELETE(cache->copies, copy);
    cache->entry_count--;
    cache->declared_bytes -= copy->bytes;
}

static void end_copy(mbr_kernel_cache *cache, mbr_kernel_copy *copy)
{
    mbr_manager_grant_return(cache->manager, cache->holder, copy->bytes);
    mbr_heap_release(&cache->heap, copy->streams);
    mbr_heap_release(&cache->heap, copy);
}

mbr_status mbr_kernel_cache_destroy(mbr_kernel_cache *cache, mbr_error *error)
{
    mbr_kernel_copy *copy, *next;
    mbr_lock_take(&cache->lock);
    while (cache->walker_count != 0)
        mbr_condition_wait(&cache->walked, &cache->lock, UINT64_MAX);
    uint64_t used_count = cache->used_count;
    mbr_lock_drop(&cache->lock);
    if (used_count != 0)
        return mbr_fail(error, MBR_IN_USE, "%llu copies are used; release them first",
            (unsigned long long)used_count);
    mbr_giver_leave(&cache->giver);
    HASH_CLEAR(hh, cache->table);
    DL_FOREACH_SAFE(cache->copies, copy, next)
    {
        cache->drop(cache->context, copy->key);
        end_copy(cache, copy);
    }
    finish(cache);
    return MBR_OK;
}

/* ---- Declaring */

static mbr_status grant(
    mbr_kernel_cache *cache, uint64_t bytes, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status = mbr_manager_grant(cache->manager, cache->holder, bytes, refusal, error);
    mbr_lock_take(&cache->lock);
    cache->declined_count += status == MBR_OVER_BUDGET;
    mbr_lock_drop(&cache->lock);
    return status;
}

static mbr_status publish(mbr_kernel_cache *cache, mbr_kernel_copy *copy, mbr_error *error)
{
    mbr_status status = MBR_OK;
    mbr_lock_take(&cache->lock);
    if (find_locked(cache, copy->key) != NULL)
        status = mbr_fail(error, MBR_ALREADY_EXISTS, "a copy of the key %llu is declared; use it",
            (unsigned long long)copy->key);
    if (status == MBR_OK) {
        HASH_ADD(hh, cache->table, key, sizeof(copy->key), copy);
        if (copy->hh.tbl == NULL)
            status = mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a copy's entry");
    }
    if (status == MBR_OK) {
        DL_APPEND(cache->copies, copy);
        cache->entry_count++;
        cache->declared_bytes += copy->bytes;
        use_locked(cache, copy);
    }
    mbr_lock_drop(&cache->lock);
    return status;
}

static mbr_status explain_empty(uint64_t key, mbr_error *error)
{
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "the copy of the key %llu is to have 0 bytes; at least 1 would work",
        (unsigned long long)key);
}

mbr_status mbr_kernel_cache_declare(
    mbr_kernel_cache *cache, uint64_t key, uint64_t bytes, mbr_refusal *refusal, mbr_error *error)
{
    if (bytes == 0)
        return explain_empty(key, error);
    mbr_kernel_copy *copy = mbr_heap_allocate(&cache->heap, sizeof(*copy));
    if (copy == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a copy's entry");
    mbr_status status = grant(cache, bytes, refusal, error);
    if (status != MBR_OK)
        goto free_copy;
    copy->key = key;
    copy->bytes = bytes;
    status = publish(cache, copy, error);
    if (status == MBR_OK)
        return MBR_OK;
    mbr_manager_grant_return(cache->manager, cache->holder, bytes);
free_copy:
    mbr_heap_release(&cache->heap, copy);
    return status;
}

static mbr_status explain_unknown(uint64_t key, mbr_error *error)
{
    return mbr_fail(
        error, MBR_UNKNOWN_OBJECT, "no copy of the key %llu is declared", (unsigned long long)key);
}

/* Sets the bytes of the copy that had `before`. */
static mbr_status set_bytes(
    mbr_kernel_cache *cache, uint64_t key, uint64_t before, uint64_t bytes, mbr_error *error)
{
    mbr_lock_take(&cache->lock);
    mbr_kernel_copy *copy = find_locked(cache, key);
    bool is_same = copy != NULL && copy->bytes == before;
    if (is_same) {
        copy->bytes = bytes;
        cache->declared_bytes += bytes - before;
    }
    mbr_lock_drop(&cache->lock);
    if (copy == NULL)
        return explain_unknown(key, error);
    return is_same ? MBR_OK
                   : mbr_fail(error, MBR_BUSY,
                         "the copy of the key %llu has been corrected meanwhile; nothing was "
                         "changed, try again",
                         (unsigned long long)key);
}

mbr_status mbr_kernel_cache_correct(
    mbr_kernel_cache *cache, uint64_t key, uint64_t bytes, mbr_refusal *refusal, mbr_error *error)
{
    if (bytes == 0)
        return explain_empty(key, error);
    mbr_lock_take(&cache->lock);
    const mbr_kernel_copy *copy = find_locked(cache, key);
    uint64_t before = copy != NULL ? copy->bytes : 0;
    mbr_lock_drop(&cache->lock);
    if (copy == NULL)
        return explain_unknown(key, error);
    uint64_t more = bytes - mbr_min(bytes, before), less = before - mbr_min(bytes, before);
    mbr_status status = more != 0 ? grant(cache, more, refusal, error) : MBR_OK;
    if (status != MBR_OK)
        return status;
    status = set_bytes(cache, key, before, bytes, error);
    mbr_manager_grant_return(cache->manager, cache->holder, status == MBR_OK ? less : more);
    return status;
}

mbr_status mbr_kernel_cache_withdraw(mbr_kernel_cache *cache, uint64_t key, mbr_error *error)
{
    mbr_lock_take(&cache->lock);
    mbr_kernel_copy *copy = find_locked(cache, key);
    uint64_t user_count = copy != NULL ? copy->user_count : 0;
    if (user_count == 1) {
        unuse_locked(cache, copy);
        take_out_locked(cache, copy);
    }
    mbr_lock_drop(&cache->lock);
    if (user_count == 0)
        return explain_unknown(key, error);
    if (user_count > 1)
        return mbr_fail(error, MBR_BUSY, "%llu others use the copy of the key %llu",
            (unsigned long long)user_count - 1, (unsigned long long)key);
    end_copy(cache, copy);
    return MBR_OK;
}

/* ---- Using */

mbr_status mbr_kernel_cache_use(mbr_kernel_cache *cache, uint64_t key, mbr_error *error)
{
    mbr_lock_take(&cache->lock);
    mbr_kernel_copy *copy = find_locked(cache, key);
    if (copy != NULL) {
        use_locked(cache, copy);
        DL_DELETE(cache->copies, copy);
        DL_APPEND(cache->copies, copy);
    }
    mbr_lock_drop(&cache->lock);
    return copy != NULL ? MBR_OK : explain_unknown(key, error);
}

static bool make_room_locked(mbr_kernel_cache *cache, mbr_kernel_copy *copy)
    MBR_REQUIRES(&cache->lock)
{
    uint32_t room = copy->stream_room + STREAM_STEP_COUNT;
    mbr_stream_handle *streams = mbr_heap_allocate(&cache->heap, room * sizeof(streams[0]));
    if (streams == NULL)
        return false;
    for (uint32_t i = 0; i < copy->stream_count; i++)
        streams[i] = copy->streams[i];
    mbr_heap_release(&cache->heap, copy->streams);
    copy->streams = streams;
    copy->stream_room = room;
    return true;
}

static void note_stream_locked(mbr_kernel_cache *cache, mbr_kernel_copy *copy,
    mbr_stream_handle stream) MBR_REQUIRES(&cache->lock)
{
    if (stream.value == 0 ||
        mbr_stream_index(copy->streams, copy->stream_count, stream) < copy->stream_count)
        return;
    if (copy->stream_count < copy->stream_room || make_room_locked(cache, copy))
        copy->streams[copy->stream_count++] = stream;
    else
        copy->has_unknown = true;
}

void mbr_kernel_cache_release(mbr_kernel_cache *cache, uint64_t key, mbr_stream_handle stream)
{
    mbr_lock_take(&cache->lock);
    mbr_kernel_copy *copy = find_locked(cache, key);
    MBR_CHECK(copy != NULL && copy->user_count != 0); /* one too many: it ends another's use */
    note_stream_locked(cache, copy, stream);
    unuse_locked(cache, copy);
    mbr_lock_drop(&cache->lock);
}

/* ---- Giving */

typedef struct mbr_kernel_walk {
    uint64_t number;
    uint64_t key;  /* of what it looks at */
    uint64_t used; /* the use after which that is idle */
    mbr_busy_streams busy;
} mbr_kernel_walk;

/* On to the least recently used copy that nobody uses and this walk has not seen. */
static bool walk_on(mbr_kernel_cache *cache, mbr_kernel_walk *walk)
{
    mbr_kernel_copy *copy;
    mbr_lock_take(&cache->lock);
    DL_FOREACH(cache->copies, copy)
    if (copy->user_count == 0 && !copy->has_unknown && copy->looked < walk->number)
        break;
    if (copy != NULL) {
        copy->looked = walk->number;
        walk->key = copy->key;
        walk->used = copy->used;
    }
    mbr_lock_drop(&cache->lock);
    return copy != NULL;
}

/* What the walk looks at, if nobody used it since: so its streams are the same, too. */
static mbr_kernel_copy *find_walked_locked(mbr_kernel_cache *cache, const mbr_kernel_walk *walk)
    MBR_REQUIRES(&cache->lock)
{
    mbr_kernel_copy *copy = find_locked(cache, walk->key);
    return copy != NULL && copy->user_count == 0 && copy->used == walk->used ? copy : NULL;
}

/* 0: it has none of that index. */
static mbr_stream_handle stream_of(
    mbr_kernel_cache *cache, const mbr_kernel_walk *walk, uint32_t index)
{
    mbr_stream_handle stream = {0};
    mbr_lock_take(&cache->lock);
    const mbr_kernel_copy *copy = find_walked_locked(cache, walk);
    if (copy != NULL && index < copy->stream_count)
        stream = copy->streams[index];
    mbr_lock_drop(&cache->lock);
    return stream;
}

/* All of its streams are. */
static bool is_quiet(mbr_kernel_cache *cache, mbr_kernel_walk *walk)
{
    for (uint32_t i = 0;; i++) {
        mbr_stream_handle stream = stream_of(cache, walk, i);
        if (stream.value == 0)
            return true;
        if (!mbr_stream_is_quiet_again(cache->manager, stream, &walk->busy))
            return false;
    }
}

/* The bytes of what the walk looks at, which was quiet, if it still is; it is dropped or only
 * counted. */
static uint64_t give_walked(mbr_kernel_cache *cache, const mbr_kernel_walk *walk, bool drops)
{
    mbr_lock_take(&cache->lock);
    mbr_kernel_copy *copy = find_walked_locked(cache, walk);
    uint64_t bytes = copy != NULL ? copy->bytes : 0;
    if (copy != NULL)
        copy->stream_count = 0;
    if (copy != NULL && drops) {
        take_out_locked(cache, copy);
        cache->dropped_count++;
    }
    mbr_lock_drop(&cache->lock);
    if (copy != NULL && drops) {
        cache->drop(cache->context, walk->key);
        end_copy(cache, copy);
    }
    return bytes;
}

static uint64_t walk_quiet(mbr_kernel_cache *cache, uint64_t wanted_bytes, bool drops)
{
    uint64_t bytes = 0;
    mbr_kernel_walk walk = {0};
    mbr_lock_take(&cache->lock);
    walk.number = ++cache->walk_count;
    cache->walker_count++;
    mbr_lock_drop(&cache->lock);
    while (bytes < wanted_bytes && walk_on(cache, &walk)) {
        if (is_quiet(cache, &walk))
            bytes += give_walked(cache, &walk, drops);
    }
    mbr_lock_take(&cache->lock);
    if (--cache->walker_count == 0)
        mbr_condition_signal_all(&cache->walked);
    mbr_lock_drop(&cache->lock);
    return bytes;
}

uint64_t mbr_kernel_cache_could_give(mbr_kernel_cache *cache, uint64_t wanted_bytes)
{
    return mbr_min(walk_quiet(cache, wanted_bytes, false), wanted_bytes);
}

uint64_t mbr_kernel_cache_give(mbr_kernel_cache *cache, uint64_t wanted_bytes)
{
    return walk_quiet(cache, wanted_bytes, true);
}

void mbr_kernel_cache_read(mbr_kernel_cache *cache, mbr_kernel_cache_figures *figures)
{
    mbr_kernel_cache_figures now = {MBR_SIZED(mbr_kernel_cache_figures)};
    mbr_lock_take(&cache->lock);
    now.entry_count = cache->entry_count;
    now.used_count = cache->used_count;
    now.declared_bytes = cache->declared_bytes;
    now.declined_count = cache->declined_count;
    now.dropped_count = cache->dropped_count;
    mbr_lock_drop(&cache->lock);
    mbr_growable_give(figures, &now, sizeof(now));
}
