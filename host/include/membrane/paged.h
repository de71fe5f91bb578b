/* Paged stores: token rows in host memory, on pages that sequences share until one of them writes.
 * A holder above the ranges.
 *
 * A page holds page_tokens whole rows of token_bytes each. A sequence is a list of pages. A fork
 * shares all of them, the partial last one included; whoever then appends to a shared page, or asks
 * to write it, gets a copy first, whose memory is granted before a byte is copied. Rows are the
 * client's: it writes those that append and prepare gave it, by address, and no others.
 *
 *     RESIDENT --offer--> OFFERED --pressure, preempt--> PREEMPTED
 *         ^                  |                               |
 *         `----- restore ----+------------- restore ---------'
 *
 * Offered, a sequence may be preempted at any time: the pages that it has alone move to the saved
 * area, bit by bit the same; shared ones stay where they are. Restored, it has them back.
 *
 * Sequences are named by value and never by pointer: ended twice, or used after its end, one is
 * MBR_STALE and nothing is touched.
 *
 * Thread rule: a store's calls are any-thread; one sequence is used by one thread at a time. Rows
 * that two sequences share are read by any thread. The store calls back nobody; it answers
 * pressure on the thread that asks, and before a refusal holders of the role cache are asked
 * (membrane/range.h): the caller holds no lock that they take, and a callback names no sequence
 * that its own thread is about to move. A device's work on a page is done before the page is given
 * up: the store waits for no stream. */
#ifndef MEMBRANE_PAGED_H
#define MEMBRANE_PAGED_H

#include "membrane/budget.h"
#include "membrane/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mbr_paged mbr_paged;

/* Of one store; the value 0 names nothing. */
typedef struct mbr_paged_sequence {
    uint64_t value;
} mbr_paged_sequence;

typedef struct mbr_paged_request {
    uint32_t struct_size;
    uint32_t reserved_0;
    mbr_binding_handle binding; /* of memory that the processor reaches, with `virtual` */
    mbr_holder_handle holder;   /* pays for pages */
    /* Where preempted pages go, and who pays there; 0: nothing can be preempted. Under another
     * authority, pressure on this one may preempt, too. */
    mbr_binding_handle saved_binding;
    mbr_holder_handle saved_holder;
    /* One of both: a model's name or a geometry text of one layer group (docs/kv.md), or bytes. */
    const char *geometry;
    uint64_t token_bytes;
    uint64_t tensor_parallel; /* with a geometry: this device's share of the heads; 0: 1 */
    uint64_t page_tokens;     /* rows of a page; 0: as many whole ones as page_bytes holds, or 16 */
    uint64_t page_bytes;      /* 0: those rows without padding */
    uint64_t extent_bytes;    /* pages are committed by extents; 0: the mechanism's recommended
                               * granule, or a page if that is larger */
    uint64_t max_pages;       /* of all sequences; rounded up to whole extents */
    uint64_t max_saved_pages; /* the same in the saved area; 0: max_pages */
    uint64_t max_tokens;      /* of one sequence */
    /* A sliding window: of a sequence the first sink_tokens and the last window_tokens stay, pages
     * between them are dropped. window_tokens 0: that of the geometry, else all stay. */
    uint64_t window_tokens;
    uint64_t sink_tokens;
    /* Empty extents stay committed up to so many bytes, for the next pages, until pressure takes
     * them; UINT64_MAX: all of them; 0: one, so that nothing comes and goes at an extent's edge. */
    uint64_t keep_bytes;
} mbr_paged_request;

/* Reserves addresses; costs no bytes. Errors: MBR_INVALID_ARGUMENT (which key, which value, what
 * would work), MBR_OVERFLOW, MBR_UNSUPPORTED (device memory, no `virtual`), MBR_OUT_OF_ADDRESSES,
 * MBR_OUT_OF_HOST_MEMORY, MBR_OUT_OF_DESCRIPTORS (the holder cannot be asked for bytes: too many
 * of its authority are). */
MBR_API mbr_status mbr_paged_create(
    mbr_manager *manager, const mbr_paged_request *request, mbr_paged **store, mbr_error *error);
/* MBR_IN_USE with the count while sequences live. On any other failure it can be tried again. */
MBR_API mbr_status mbr_paged_destroy(mbr_paged *store, mbr_error *error);

/* Every figure is kept as pages come and go: reading costs the same for any number of them. */
typedef struct mbr_paged_figures {
    uint32_t struct_size;
    uint32_t reserved_0;
    /* Page p of pages lies at address + p / extent_pages * extent_bytes
     *                                 + p % extent_pages * page_bytes. */
    uint64_t address, extent_pages, extent_bytes, page_bytes;
    uint64_t token_bytes, page_tokens;
    uint64_t max_pages, max_saved_pages;
    uint64_t sequence_count;
    uint64_t page_count; /* in use: shared and exclusive ones; each counted once */
    uint64_t shared_page_count;
    uint64_t exclusive_page_count;
    uint64_t free_page_count; /* committed and in nobody's use */
    uint64_t saved_page_count;
    /* Charged to the holder, to the saved one; what was given back and has not gone, behind a
     * capture, a graph or a refused unmap, is charged and not counted here. */
    uint64_t committed_bytes, saved_bytes;
    uint64_t copied_bytes;    /* before writes to shared pages, since the store was made */
    uint64_t preempted_count; /* preemptions that moved a page */
} mbr_paged_figures;

MBR_API mbr_status mbr_paged_read(mbr_paged *store, mbr_paged_figures *figures, mbr_error *error);

/* ---- Sequences ------------------------------------------------------------------------------- */
/* An empty one. Errors: MBR_OUT_OF_HOST_MEMORY, MBR_OUT_OF_RANGE (2^20 of them live). */
MBR_API mbr_status mbr_paged_begin(
    mbr_paged *store, mbr_paged_sequence *sequence, mbr_error *error);
/* One with the same tokens, on the same pages; takes no page. `source` is resident. */
MBR_API mbr_status mbr_paged_fork(
    mbr_paged *store, mbr_paged_sequence source, mbr_paged_sequence *sequence, mbr_error *error);
/* In every state. MBR_STALE: it has ended before; of two threads one gets MBR_OK. */
MBR_API mbr_status mbr_paged_end(mbr_paged *store, mbr_paged_sequence sequence, mbr_error *error);

/* Tokens more, whose rows are the client's to write; those of a page that is used again hold what
 * was there before. Inside the last page, where no other sequence has it, one comparison.
 *
 * A window drops the pages that were behind it before the call: who computes the new tokens may
 * still look window_tokens back. Appending 0 tokens drops what the last ones left behind.
 *
 * On failure nothing has changed. Errors: MBR_OVER_BUDGET (figures in the refusal, which may be
 * NULL), MBR_OUT_OF_ADDRESSES (all pages of the store are in use), MBR_OUT_OF_RANGE (max_tokens),
 * MBR_OUT_OF_HOST_MEMORY, MBR_INVALID_ARGUMENT (not resident), the range's (membrane/range.h). */
MBR_API mbr_status mbr_paged_append(mbr_paged *store, mbr_paged_sequence sequence, uint64_t tokens,
    mbr_refusal *refusal, mbr_error *error);
/* The rows of [first_token, first_token + tokens) may be overwritten from now on, until the next
 * fork: pages that others have too are copied. Errors: append's; MBR_OUT_OF_RANGE past the end, or
 * where a window has dropped a row. */
MBR_API mbr_status mbr_paged_prepare(mbr_paged *store, mbr_paged_sequence sequence,
    uint64_t first_token, uint64_t tokens, mbr_refusal *refusal, mbr_error *error);
/* Back to `tokens` tokens; forks are undisturbed. MBR_OUT_OF_RANGE: more than there are, or the
 * window of that length has lost a row (back to what the last append began with always works). */
MBR_API mbr_status mbr_paged_rewind(
    mbr_paged *store, mbr_paged_sequence sequence, uint64_t tokens, mbr_error *error);

/* ---- Preemption ------------------------------------------------------------------------------ */
/* Its rows are not touched until it is restored, and meanwhile pressure may preempt it. */
MBR_API mbr_status mbr_paged_offer(mbr_paged *store, mbr_paged_sequence sequence, mbr_error *error);
/* Now: the pages that it has alone move to the saved area, as one transaction. Once more, where it
 * has become the only one with further pages. Errors: MBR_UNSUPPORTED (no saved_binding), else
 * append's, of the saved area; nothing has changed then. */
MBR_API mbr_status mbr_paged_preempt(
    mbr_paged *store, mbr_paged_sequence sequence, mbr_refusal *refusal, mbr_error *error);
/* Resident again, as one transaction. Errors: append's; it stays preempted then. */
MBR_API mbr_status mbr_paged_restore(
    mbr_paged *store, mbr_paged_sequence sequence, mbr_refusal *refusal, mbr_error *error);

/* The holder that pays for the pages is asked for bytes: without callbacks of the client's
 * (mbr_holder_request) the store answers by itself, with these. What would go back if the free
 * pages and the exclusive ones of offered and preempted sequences were given, by whole extents, as
 * far as the saved area has room under another authority than the store's, what that area's cache
 * keeps among it, once the stores that were made before and save there have what theirs would take;
 * at most wanted_bytes.
 * Resident sequences, and one that is being moved, give nothing, and none does while a capture is
 * open on the device of the pages, or while a graph owns them. */
MBR_API uint64_t mbr_paged_could_give(mbr_paged *store, uint64_t wanted_bytes);
/* Gives: free extents first, then sequences, the first offered first, until it is enough. Returns
 * the bytes that went, which may be more by a part of an extent; 0, and nothing has moved, where
 * nothing could go. */
MBR_API uint64_t mbr_paged_give(mbr_paged *store, uint64_t wanted_bytes);

/* ---- Looking --------------------------------------------------------------------------------- */
#define MBR_PAGED_RESIDENT 0
#define MBR_PAGED_OFFERED 1
#define MBR_PAGED_MOVING 2 /* being preempted or restored by another thread */
#define MBR_PAGED_PREEMPTED 3
#define MBR_PAGED_STATE_COUNT 4

typedef struct mbr_paged_sequence_figures {
    uint32_t struct_size;
    uint32_t state; /* MBR_PAGED_… */
    uint64_t tokens;
    uint64_t page_count; /* in the store: shared and exclusive */
    uint64_t shared_page_count;
    uint64_t exclusive_page_count; /* it alone has them */
    uint64_t saved_page_count;     /* in the saved area */
    /* The tokens [sink_tokens, first_token) are dropped; both 0: none. */
    uint64_t sink_tokens, first_token;
} mbr_paged_sequence_figures;

MBR_API mbr_status mbr_paged_read_sequence(mbr_paged *store, mbr_paged_sequence sequence,
    mbr_paged_sequence_figures *figures, mbr_error *error);

/* Where a resident sequence's token lies, and how many rows from it on lie side by side (may be
 * NULL). Stays until the page is copied for a write, dropped, rewound or preempted.
 * MBR_OUT_OF_RANGE past the end, and for a dropped token. */
MBR_API mbr_status mbr_paged_locate(mbr_paged *store, mbr_paged_sequence sequence, uint64_t token,
    uint64_t *address, uint64_t *rows, mbr_error *error);

#define MBR_PAGED_NO_PAGE UINT32_MAX
/* The block table for a kernel: of a resident sequence the numbers of page_count pages from
 * first_page on, dropped ones MBR_PAGED_NO_PAGE. MBR_OUT_OF_RANGE past the last page. */
MBR_API mbr_status mbr_paged_list_pages(mbr_paged *store, mbr_paged_sequence sequence,
    uint64_t first_page, uint64_t page_count, uint32_t *pages, mbr_error *error);

#ifdef __cplusplus
}
#endif

#endif
