/* Pages: with --paged, each stay has a sequence of a paged store beside its KV cache, a row of
 * which is one stamp. The sequence follows the stay's length: it is forked from the one whose
 * prompt begins most alike, and appended to, rewound, written in the middle, preempted and restored
 * as the stay goes on; every row that it holds is checked before each of these and at its end.
 * Every other stay's store has a window with sinks. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_PAGES_H
#define MEMBRANE_TOOLS_CLI_REPLAY_PAGES_H

#include "tools/cli/replay/mark.h"
#include "tools/cli/replay/written.h"

#define REPLAY_PAGES_STORE_COUNT 2
#define REPLAY_PAGES_ALLOCATION (UINT64_C(1) << 62) /* in a stamp: of pages, not of a KV cache */

typedef struct replay_pages {
    replay_touch *touch; /* whose stamps these are, and who says what is wrong */
    mbr_replay_pages_report *report;
    mbr_holder_handle holder, saved_holder;
    mbr_paged *stores[REPLAY_PAGES_STORE_COUNT];
    uint64_t step_count, version_count;
} replay_pages;

typedef struct replay_leaf {
    mbr_paged *store;
    mbr_paged_sequence sequence;
    replay_writer writer;
    replay_written written; /* of its rows */
    uint64_t last_tokens;   /* before the last append */
} replay_leaf;

/* Each that returns a status: of class exhausted, what was asked for is not there, and the leaf is
 * as it was. */

/* On failure replay_pages_close and _forget have what is left to do. */
mbr_status replay_pages_open(replay_pages *pages, replay_touch *touch,
    mbr_replay_pages_report *report, uint64_t max_tokens, mbr_error *error);
/* `tokens` rows, the first `alike` of which are the source's (NULL: of none). */
mbr_status replay_leaf_begin(replay_pages *pages, replay_leaf *leaf, replay_leaf *source,
    uint64_t alike, uint64_t tokens, mbr_error *error);
/* All it holds is checked, and it has `tokens` rows then. */
mbr_status replay_leaf_follow(
    replay_pages *pages, replay_leaf *leaf, uint64_t tokens, mbr_error *error);
/* What it has alone is saved elsewhere; and back, and all it holds is checked. */
mbr_status replay_leaf_preempt(replay_pages *pages, replay_leaf *leaf, mbr_error *error);
mbr_status replay_leaf_restore(replay_pages *pages, replay_leaf *leaf, mbr_error *error);
/* All it holds is checked, where it can be restored, and given back. */
mbr_status replay_leaf_end(replay_pages *pages, replay_leaf *leaf, mbr_error *error);
/* Stores, before the last drain; then the holders, when nothing is charged to them any more. */
mbr_status replay_pages_close(replay_pages *pages, mbr_error *error);
mbr_status replay_pages_forget(replay_pages *pages, mbr_error *error);

#endif
