/* Makes one figure of the books wrong, for the test that the audit sees it. Never in the product.
 */
#ifndef MEMBRANE_TESTS_UNIT_GOVERNOR_CORRUPT_H
#define MEMBRANE_TESTS_UNIT_GOVERNOR_CORRUPT_H

#include "governor/governor.h"

enum {
    CORRUPT_CELL_MOVED,
    CORRUPT_CELL_MAPPED,
    CORRUPT_CELL_GRANTED_TOTAL,
    CORRUPT_CELL_RETURNED_TOTAL,
    CORRUPT_CELL_CHARGED_TOTAL,
    CORRUPT_CELL_REFUNDED_TOTAL,
    CORRUPT_CELL_PENDING,
    CORRUPT_HOLDER_FOLDED,
    CORRUPT_HOLDER_LEASED,
    CORRUPT_HOLDER_RETAINED,
    CORRUPT_SLOT_CREDIT, /* the slot must be open */
    CORRUPT_SLOT_PENDING,
    CORRUPT_ROOM,
    CORRUPT_AUTHORITY_FOLDED,
    CORRUPT_SET_LIMIT,
    CORRUPT_HOLDER_COUNT,
    CORRUPT_HELD,
    CORRUPT_WAITING_COUNT,
    CORRUPT_WITHHELD,
    CORRUPT_COUNT
};

/* Adds `difference` to the word, in the calling thread's slot where it has one. */
void corrupt(mbr_holder *holder, int word, int64_t difference);

#endif
