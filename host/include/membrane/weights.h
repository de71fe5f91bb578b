/* Weights residency: weights that are larger than the bytes they may take. They stay in host
 * memory, and items of them (a tensor, a layer, a page) are paged in when they are used and paged
 * out, which copies nothing, when the policy says so.
 *
 * Weights are read by cyclic scans: every layer once a step. There the least recently used item is
 * the one that is needed next, and evicting it has a hit rate of zero at every size below all of
 * them. So the default policy keeps a stable subset resident, as much as fits, and lets the rest
 * come in passing: each for its own use, through room that is kept for it.
 *
 *   mbr_weights_use(weights, layer, stream, &address, NULL, &error);
 *   …kernels on the stream…
 *   mbr_weights_done(weights, layer, stream);
 *
 * Thread rule: any thread; two that use one item at once page it in once. */
#ifndef MEMBRANE_WEIGHTS_H
#define MEMBRANE_WEIGHTS_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_weights mbr_weights;

/* Frozen. One item as its owner describes it. */
typedef struct mbr_weight {
    uint64_t source_address; /* host memory that stays as long as the weights, and is not written */
    uint64_t bytes;          /* above 0; on the device it takes whole granules */
} mbr_weight;

#define MBR_WEIGHTS_NONE UINT32_MAX

/* Frozen. One item as a policy sees it. */
typedef struct mbr_weight_view {
    uint64_t bytes;
    uint64_t last_use;    /* rises with each use of any item; 0: never used */
    uint32_t is_resident; /* 1: kept on the device */
    uint32_t is_busy;     /* 1: used, or on its way: not to be named */
} mbr_weight_view;

/* What is kept: the holder's own choice, by tables of functions that are called under its lock and
 * only look. */
typedef struct mbr_weights_policy {
    uint32_t struct_size;
    uint32_t reserved_0;
    /* `wanted` is to come in, and is not kept unless others go: the resident item that goes for it,
     * asked again until it fits; MBR_WEIGHTS_NONE: it comes in passing. With `wanted`
     * MBR_WEIGHTS_NONE others need the bytes: the one that goes first. Whatever is no resident item
     * that is not busy counts as MBR_WEIGHTS_NONE. */
    uint32_t (*victim)(
        void *context, const mbr_weight_view *items, uint32_t item_count, uint32_t wanted);
    void *context;
} mbr_weights_policy;

MBR_API const mbr_weights_policy *mbr_weights_policy_stable(void); /* the default */
MBR_API const mbr_weights_policy *mbr_weights_policy_lru(void);

#define MBR_WEIGHTS_NO_PASSING UINT64_MAX

typedef struct mbr_weights_request {
    uint32_t struct_size;
    uint32_t item_count; /* 1 … 2^20 */
    const mbr_weight *items;
    mbr_binding_handle binding;
    mbr_holder_handle holder; /* pays; role weights */
    uint64_t budget_bytes;    /* of all items on the device at once, in their own bytes: the holder
                               * is charged whole granules; at least the largest's */
    uint64_t passing_bytes;   /* of the budget: for items in passing; 0: the largest item's where
                               * not all fit; MBR_WEIGHTS_NO_PASSING: none */
    const mbr_weights_policy *policy; /* copied; NULL: stable */
} mbr_weights_request;

/* Takes no bytes of the device. Errors: MBR_OUT_OF_RANGE (item_count; a budget below the largest
 * item, or below passing_bytes), MBR_INVALID_ARGUMENT (an item of 0 bytes; a policy without
 * `victim` or with a struct_size below its first version's), MBR_STALE, MBR_OUT_OF_HOST_MEMORY,
 * MBR_OUT_OF_DESCRIPTORS (the holder cannot be asked for bytes: too many of its authority are). */
MBR_API mbr_status mbr_weights_create(mbr_manager *manager, const mbr_weights_request *request,
    mbr_weights **weights, mbr_error *error);
/* Pages everything out, behind the streams that used it; one look for bytes that is inside is
 * awaited. First end the way on which the holder's callbacks come here: a later one would find it
 * gone. Errors, and then it lives on: MBR_IN_USE with the count of items in use, MBR_QUEUE_FULL. */
MBR_API mbr_status mbr_weights_destroy(mbr_weights *weights, mbr_error *error);

/* The item's address on the device, for work on the stream, until mbr_weights_done; paged in on
 * that stream where it is not there. Errors: MBR_OUT_OF_RANGE (index), MBR_BUSY (items in use fill
 * the budget, or the item is used on four other streams: end one use first; a fifth stream that
 * used it awaits the work of an earlier one, and a capture is open; what was paged out for it still
 * has work in flight: try again once that is done), MBR_OVER_BUDGET (the ledger has not the bytes,
 * even without what the policy would give up), those of mbr_alloc and mbr_ep_copy. After a failure
 * the item is out; others may have been paged out for it. `refusal` may be NULL. */
MBR_API mbr_status mbr_weights_use(mbr_weights *weights, uint32_t index, mbr_stream_handle stream,
    uint64_t *address, mbr_refusal *refusal, mbr_error *error);
/* One use less, of the same stream, which stays attached as long as the weights. What came in
 * passing goes with its last use; MBR_QUEUE_FULL: with a later one's. */
MBR_API void mbr_weights_done(mbr_weights *weights, uint32_t index, mbr_stream_handle stream);

/* The holder is asked for bytes: without callbacks of the client's (mbr_holder_request) the weights
 * answer by themselves, with these: of resident items that nobody uses and whose streams are
 * done, at most `wanted_bytes`; and paging such ones out until it is as many, in the policy's
 * order, or until it names none. Returns the bytes. */
MBR_API uint64_t mbr_weights_could_give(mbr_weights *weights, uint64_t wanted_bytes);
MBR_API uint64_t mbr_weights_give(mbr_weights *weights, uint64_t wanted_bytes);

typedef struct mbr_weights_figures {
    uint32_t struct_size;
    uint32_t item_count;
    uint32_t resident_count; /* kept on the device */
    uint32_t used_count;     /* of items, now */
    uint64_t resident_bytes;
    uint64_t loaded_bytes; /* resident, and in passing */
    uint64_t hit_count;    /* uses that found the item there, since create; and so the next */
    uint64_t page_in_count;
    uint64_t page_in_bytes;
    uint64_t page_out_count;
    uint64_t passing_count; /* of page-ins */
} mbr_weights_figures;

MBR_API void mbr_weights_read(mbr_weights *weights, mbr_weights_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
