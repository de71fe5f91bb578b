/* KV caches: sequences that grow without copies, prefixes stored once. A holder above the ranges:
 * it knows what the bytes mean, and holds no capacity without a lease.
 *
 * A cache has one geometry (its layer groups each get a reservation per sequence) and one layout.
 * Sequences start with a prompt, may begin with a shared prefix, append tokens, and end behind
 * their streams.
 *
 * On a mechanism without `membrane.virtual` the cache takes the eager way that the caller chose:
 * `whole` (the maximum at once) or `copy` (allocate, copy on the stream, deferred free; old and new
 * both charged meanwhile); with no choice it refuses with the reason.
 *
 * Thread rule: a cache's calls are any-thread; one sequence is used by one thread at a time. */
#ifndef MEMBRANE_KV_H
#define MEMBRANE_KV_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_kv mbr_kv;
typedef struct mbr_sequence mbr_sequence;
typedef struct mbr_kv_prefix mbr_kv_prefix;

#define MBR_KV_GROWING 0     /* ranges; the default where the mechanism has `virtual` */
#define MBR_KV_EAGER_WHOLE 1 /* max_tokens at once */
#define MBR_KV_EAGER_COPY 2  /* double, copy, free the old one behind the stream */

/* critical, for debugging: a prefix exists only once its source has lost the access to write to its
 * whole extents (mbr_prefix_protect), so that a stray write there faults at once. */
#define MBR_KV_PROTECT_PREFIXES 1

typedef struct mbr_kv_request {
    uint32_t struct_size;
    uint32_t mode; /* MBR_KV_… */
    mbr_binding_handle binding;
    mbr_holder_handle holder;        /* pays for sequences; role kv */
    mbr_holder_handle prefix_holder; /* pays for prefixes; 0: the same as holder */
    const char *geometry;            /* a model's name or a geometry text: docs/kv.md */
    const char *layout;              /* "window-major" … ; NULL: window-major */
    uint64_t tensor_parallel;        /* this device's share of the heads; 0: 1 */
    uint64_t max_tokens;             /* of one sequence */
    uint64_t window_tokens;          /* window-major; 0: the default W */
    uint64_t extent_bytes; /* fixed extents; 0: grown by offset in window-major, the recommended
                            * granule in the others */
    uint32_t flags;        /* MBR_KV_PROTECT_… */
    uint32_t reserved_0;
} mbr_kv_request;

/* Errors: MBR_INVALID_ARGUMENT (geometry, layout: which key, which value, what would work),
 * MBR_OVERFLOW, MBR_UNSUPPORTED (no `virtual` and no eager mode; an unknown flag). */
MBR_API mbr_status mbr_kv_create(
    mbr_manager *manager, const mbr_kv_request *request, mbr_kv **kv, mbr_error *error);
/* MBR_IN_USE with counts while sequences or prefixes live. MBR_QUEUE_FULL: the release queue has no
 * room yet for what a refused sequence left; again once something has left it. */
MBR_API mbr_status mbr_kv_destroy(mbr_kv *kv, mbr_error *error);

typedef struct mbr_kv_figures {
    uint32_t struct_size;
    uint32_t group_count;
    uint64_t token_bytes; /* of all groups */
    uint64_t sequence_count;
    uint64_t prefix_count;
    uint64_t live_tokens;     /* of all sequences, shared ones counted for each */
    uint64_t live_bytes;      /* rows that a sequence or prefix still holds, shared ones once */
    uint64_t committed_bytes; /* private committed bytes of sequences; with what was adopted ahead
                               * of them and may go back */
    uint64_t shared_bytes;    /* of extents that a prefix was made of, once each, also after its
                               * end while a sequence has them */
    uint64_t reserved_bytes;  /* addresses */
    uint64_t largest_extent_bytes; /* that a sequence of max_tokens would have; eager: 0 */
    uint64_t max_sequence_bytes;   /* what max_tokens of one sequence would commit */
    uint64_t copied_bytes;         /* boundary copies at attach, and eager growth */
    /* Growths past capacity since the cache was made; and of those the ones that made no driver
     * call, because all they needed was mapped ahead, or parked there. */
    uint64_t growth_count, adopted_count;
} mbr_kv_figures;

MBR_API mbr_status mbr_kv_read(mbr_kv *kv, mbr_kv_figures *figures, mbr_error *error);

/* The holder of the sequences is asked for bytes: without callbacks of the client's
 * (mbr_holder_request) the cache answers by itself, with these. What sequences are offered and have
 * not taken (mbr_bind_request.ahead_bytes), at most wanted_bytes; 0 while a capture is open on the
 * device, and where nothing is mapped ahead: what sequences have is theirs, and prefixes are given
 * by whoever keeps them, such as a registry (membrane/registry.h). */
MBR_API uint64_t mbr_kv_could_give(mbr_kv *kv, uint64_t wanted_bytes);
/* Gives: offers whole, those of the sequence made first before others, until it is enough; they are
 * not offered again before the sequence has grown past them. Returns the bytes, now of the
 * binding's cache, which pressure takes next; they may be more by a part of an offer. Both calls:
 * any thread, with no lock held; the cache lives until they return. */
MBR_API uint64_t mbr_kv_give(mbr_kv *kv, uint64_t wanted_bytes);

/* The most private bytes that a sequence commits on its way to `tokens`: what to tell an admission
 * before it is created, and how far its member grows with it. Neither a shared prefix nor what
 * sliding layers give back is taken off; what is adopted ahead of a length that it will not reach
 * is not in it, and goes back. MBR_OUT_OF_RANGE past max_tokens; MBR_UNSUPPORTED in the eager ways.
 */
MBR_API mbr_status mbr_kv_need_bytes(
    mbr_kv *kv, uint64_t tokens, uint64_t *bytes, mbr_error *error);

/* All that a kernel needs to find an element of one group, in every layout by one formula:
 *   address + (token / window_tokens) * window_bytes + (token % window_tokens) * token_bytes
 *           + layer * layer_bytes + plane * plane_bytes + head * head_bytes
 *           + element * element_bytes */
typedef struct mbr_kv_strides {
    uint32_t struct_size;
    uint32_t element_bytes;
    uint64_t address; /* of the sequence's group; constant (MBR_KV_EAGER_COPY: until it grows past
                       * its capacity, as are the strides) */
    uint64_t window_tokens, window_bytes;
    uint64_t token_bytes, layer_bytes, plane_bytes, head_bytes;
} mbr_kv_strides;

typedef struct mbr_sequence_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_stream_handle stream;    /* copies and fills run on it; the sequence's own. Attached until
                                  * all its work is done. 0: used by the host alone, nothing is
                                  * copied */
    uint64_t tokens;             /* committed at once: the prompt, prefix included */
    const mbr_kv_prefix *prefix; /* NULL: none */
    uint64_t prefix_tokens; /* how many of its tokens are equal; at most the prefix's and tokens.
                             * Whole extents of them are shared, the rest is copied from the
                             * prefix's source where that still lives and is awake, else written
                             * by the caller: see mbr_sequence_figures.valid_tokens. The stream's
                             * work runs after that which wrote them: the caller's duty */
    uint64_t tag;
    mbr_refusal *refusal; /* may be NULL */
} mbr_sequence_request;

/* One transaction over all groups: reserve, attach, commit. All rows of `tokens` are committed, in
 * sliding groups from the first token that prefix_tokens still look back at.
 *
 * On failure nothing is left; what has to go through the release queue (of an eager one, or while a
 * graph is being captured) and finds no room there is freed by a later call. A refused prefix (any
 * status but MBR_RESIDUAL) may be followed by a private sequence. MBR_RESIDUAL: an undo failed,
 * too; what it says stays mapped and charged for good at addresses that are never used again, and
 * the caller reports it before it goes on. */
MBR_API mbr_status mbr_sequence_create(
    mbr_kv *kv, const mbr_sequence_request *request, mbr_sequence **sequence, mbr_error *error);

/* Tokens more. Within what is committed it is one comparison (H7); into what was adopted ahead of
 * the sequence, one exchange. On failure the old length holds
 * and its bytes stay readable. MBR_OUT_OF_RANGE past max_tokens. MBR_BUSY in MBR_KV_EAGER_COPY,
 * past the capacity: the sequence's stream is being captured, where nothing can be copied.
 *
 * A sliding group keeps the rows that the new tokens still look back at: whole extents that were
 * behind the window already before the call are given back, after the sequence's stream. Appending
 * 0 tokens gives back what the last ones left behind, and nothing else. MBR_BUSY, there and in a
 * layout of fragments alone: an extent that is needed again is being given back behind other
 * streams than the sequence's; drain the EP and append again. */
MBR_API mbr_status mbr_sequence_append(
    mbr_sequence *sequence, uint64_t tokens, mbr_refusal *refusal, mbr_error *error);

/* The range of one group, to be put to sleep by a sleeper (membrane/sleep.h) under the cache's
 * holder; the sequence keeps it and releases it. From now on an append asks whether the ranges are
 * awake, which costs a lock: MBR_BUSY while one sleeps, as is ending the sequence; its figures go
 * on counting what sleeps as committed. Extents of a prefix, in the sequence that it was made of
 * and in those that share it, stay where they are: the prefix may go on to be shared, and may end.
 * While a sequence is created with a prefix of this one, its last rows are copied from here if this
 * one is awake, which is kept so meanwhile (a sleep then is MBR_BUSY); the stream of such a
 * sequence is one that the sleep has to wait for. Remove the ranges from the sleeper before the
 * end. Errors: MBR_OUT_OF_RANGE (group), MBR_UNSUPPORTED (the eager ways have no ranges). */
MBR_API mbr_status mbr_sequence_lend(
    mbr_sequence *sequence, uint32_t group, mbr_range_handle *range, mbr_error *error);

/* Ends it behind its stream and `streams` (stream_count of them, at most 47, may be 0). On failure
 * (MBR_QUEUE_FULL) it lives on; if a part of it is queued already, it can only be destroyed again,
 * and MBR_STALE is the answer to everything that would change it. */
MBR_API mbr_status mbr_sequence_destroy(mbr_sequence *sequence, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_error *error);

typedef struct mbr_sequence_figures {
    uint32_t struct_size;
    uint32_t group_count;
    uint64_t tokens;
    uint64_t capacity_tokens; /* growing up to here commits nothing; what was adopted ahead and may
                               * go back does not count */
    uint64_t shared_tokens;   /* readable through a prefix: tokens whose every row is shared */
    uint64_t valid_tokens;    /* the first tokens whose contents came with the prefix */
    uint64_t committed_bytes; /* private; with what was adopted ahead */
    uint64_t shared_bytes;
    uint64_t tag;
} mbr_sequence_figures;

MBR_API mbr_status mbr_sequence_read(
    const mbr_sequence *sequence, mbr_sequence_figures *figures, mbr_error *error);
MBR_API mbr_status mbr_sequence_strides(
    const mbr_sequence *sequence, uint32_t group, mbr_kv_strides *strides, mbr_error *error);
/* Address of element 0 of one row. MBR_OUT_OF_RANGE for an index past its count. */
MBR_API mbr_status mbr_sequence_locate(const mbr_sequence *sequence, uint32_t group, uint32_t layer,
    uint32_t plane, uint32_t head, uint64_t token, uint64_t *address, mbr_error *error);

/* Ranges that are private to the sequence and hold rows of tokens that it has not given back
 * (window-major: whole windows), each once: *cursor from 0, else as the last call left it; *bytes 0
 * at the end. All that may be written: shared extents are mapped read-only. */
MBR_API mbr_status mbr_sequence_next_private(const mbr_sequence *sequence, uint64_t *cursor,
    uint64_t *address, uint64_t *bytes, mbr_error *error);
/* The same for shared extents of a prefix, whole and read-only. */
MBR_API mbr_status mbr_sequence_next_shared(const mbr_sequence *sequence, uint64_t *cursor,
    uint64_t *address, uint64_t *bytes, mbr_error *error);

/* A prefix of the first `tokens` tokens, by whole extents, paid by the prefix holder from now on.
 * The caller has written them and writes them no more. Errors: MBR_UNSUPPORTED or
 * MBR_INVALID_ARGUMENT with the reason and the length from which it would work.
 *
 * With MBR_KV_PROTECT_PREFIXES it waits for the sequence's stream, at most 10 s (MBR_TIMED_OUT),
 * and for those that copied from it; then also the errors of mbr_prefix_protect. The last rows,
 * which share an extent with what follows, are not protected. */
MBR_API mbr_status mbr_kv_prefix_create(
    mbr_sequence *sequence, uint64_t tokens, mbr_kv_prefix **prefix, mbr_error *error);
/* It lives on in the sequences that share it. */
MBR_API mbr_status mbr_kv_prefix_destroy(mbr_kv_prefix *prefix, mbr_error *error);

typedef struct mbr_kv_prefix_figures {
    uint32_t struct_size;
    uint32_t sharer_count;
    uint64_t tokens;        /* as asked */
    uint64_t shared_tokens; /* tokens whose every row lies in whole extents */
    uint64_t shared_bytes;
    uint64_t exclusive_bytes; /* would become free if it were destroyed now */
    uint64_t protected_bytes; /* of shared: its source may only read them */
} mbr_kv_prefix_figures;

MBR_API mbr_status mbr_kv_prefix_read(
    const mbr_kv_prefix *prefix, mbr_kv_prefix_figures *figures, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
