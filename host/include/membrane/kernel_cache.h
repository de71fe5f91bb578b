/* Kernel caches: derived copies of weights, such as reordered or transposed ones, that a library
 * keeps beyond the call that made them. They are the library's own memory and yet take bytes of the
 * pool, so they are declared before they are made: the bytes are granted to a holder, and are
 * returned when the copy is gone. A declaration may be declined; the library then goes on without.
 *
 *   if (mbr_kernel_cache_use(cache, key, NULL) == MBR_OK)            // it is there
 *       …compute with it…
 *   else if (mbr_kernel_cache_declare(cache, key, bytes, NULL, NULL) == MBR_OK)
 *       …allocate and make it, compute with it…
 *   else
 *       …compute without: no mbr_kernel_cache_release…
 *   mbr_kernel_cache_release(cache, key, stream);
 *
 * Under pressure copies that nobody uses are dropped, the least recently used first, by the
 * client's own function.
 *
 * Thread rule: any thread. */
#ifndef MEMBRANE_KERNEL_CACHE_H
#define MEMBRANE_KERNEL_CACHE_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_kernel_cache mbr_kernel_cache;

typedef struct mbr_kernel_cache_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_holder_handle holder; /* whose grant the bytes are; role cache: it is asked first */
    /* Frees the copy, which nobody uses: all that was submitted to the streams of its releases is
     * done. Called by give and destroy with no lock of Membrane's held; so, where the cache answers
     * for its holder, on any thread that wants bytes, inside its allocation, growth or ticket:
     * whoever calls those holds no lock that it takes. It does not call this cache. */
    void (*drop)(void *context, uint64_t key);
    void *context;
} mbr_kernel_cache_request;

/* Errors: MBR_INVALID_ARGUMENT (no drop), MBR_STALE (holder), MBR_OUT_OF_HOST_MEMORY,
 * MBR_OUT_OF_DESCRIPTORS (the holder cannot be asked for bytes: too many of its authority are). */
MBR_API mbr_status mbr_kernel_cache_create(mbr_manager *manager,
    const mbr_kernel_cache_request *request, mbr_kernel_cache **cache, mbr_error *error);
/* Drops every copy; the caller knows that the device is done with them. MBR_IN_USE with the count
 * while some are used. A look for bytes that is inside is awaited; first end the way on which the
 * holder's callbacks come here. */
MBR_API mbr_status mbr_kernel_cache_destroy(mbr_kernel_cache *cache, mbr_error *error);

/* Before a copy of `bytes` is allocated: the bytes that it really takes, rounding included. It is
 * in use from now on. Errors: MBR_INVALID_ARGUMENT (0 bytes), MBR_OVER_BUDGET (declined: figures in
 * *refusal, which may be NULL), MBR_ALREADY_EXISTS (declared before: use it),
 * MBR_OUT_OF_HOST_MEMORY. */
MBR_API mbr_status mbr_kernel_cache_declare(
    mbr_kernel_cache *cache, uint64_t key, uint64_t bytes, mbr_refusal *refusal, mbr_error *error);
/* By a user who finds that it takes other bytes than declared. More may be declined as above; then
 * the old figure stands, and the copy is to be withdrawn. MBR_UNKNOWN_OBJECT,
 * MBR_INVALID_ARGUMENT (0 bytes), MBR_BUSY (another user has corrected it meanwhile: try again). */
MBR_API mbr_status mbr_kernel_cache_correct(
    mbr_kernel_cache *cache, uint64_t key, uint64_t bytes, mbr_refusal *refusal, mbr_error *error);
/* By its only user: it was not made, or is freed already. Ends the entry without `drop`. Errors:
 * MBR_UNKNOWN_OBJECT, MBR_BUSY (others use it, too). */
MBR_API mbr_status mbr_kernel_cache_withdraw(
    mbr_kernel_cache *cache, uint64_t key, mbr_error *error);

/* MBR_UNKNOWN_OBJECT: never declared, or dropped. Any number of users. */
MBR_API mbr_status mbr_kernel_cache_use(mbr_kernel_cache *cache, uint64_t key, mbr_error *error);
/* One use less. One release too many ends another's use; with none left it aborts the process. What
 * was submitted to the stream may go on using it (0: nothing does); a stream that is detached
 * before it is seen to be done keeps the copy until destroy. */
MBR_API void mbr_kernel_cache_release(
    mbr_kernel_cache *cache, uint64_t key, mbr_stream_handle stream);

/* Its holder is asked for bytes: without callbacks of the client's (mbr_holder_request) the cache
 * answers by itself, with these: those of copies that nobody uses and whose streams are
 * done, at most `wanted_bytes`; and dropping such ones until it is as many. Returns the bytes. */
MBR_API uint64_t mbr_kernel_cache_could_give(mbr_kernel_cache *cache, uint64_t wanted_bytes);
MBR_API uint64_t mbr_kernel_cache_give(mbr_kernel_cache *cache, uint64_t wanted_bytes);

typedef struct mbr_kernel_cache_figures {
    uint32_t struct_size;
    uint32_t reserved_0;
    uint64_t entry_count;
    uint64_t used_count;     /* of entries */
    uint64_t declared_bytes; /* granted to the holder */
    uint64_t declined_count; /* since create */
    uint64_t dropped_count;  /* for bytes, since create */
} mbr_kernel_cache_figures;

MBR_API void mbr_kernel_cache_read(mbr_kernel_cache *cache, mbr_kernel_cache_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
