/* A mechanism, a line and a heap whose every answer is drawn from an input: one world, reset for
 * each input. It remembers which objects nobody knows the state of, and ends the run where one of
 * them is named again. Addresses are numbers: nothing is behind them, and nobody may look. */
#ifndef MEMBRANE_TESTS_FUZZ_DRAWN_H
#define MEMBRANE_TESTS_FUZZ_DRAWN_H

#include "abi/base/seam.h"
#include "host/loader/loader.h"
#include "tests/fuzz/input.h"

#define DRAWN_GRANULE UINT64_C(4096)

/* Of the configuration's byte. */
#define DRAWN_EAGER 1 /* no virtual memory */
#define DRAWN_SPURIOUS 2
#define DRAWN_FRESH_ZERO 4
#define DRAWN_UNMAP_SINGLE 8
#define DRAWN_RELEASABLE 16
#define DRAWN_USABLE_LATER 32

typedef struct drawn_world {
    fuzz_input answers;
    unsigned config;
    bool heap_may_fail;
    uint64_t block_count;              /* of the heap, not given back */
    uint64_t lie_count, illegal_count; /* answers other than the honest one; forbidden ones */
    mbr_mechanism mechanism;           /* as the loader would have opened it */
} drawn_world;

extern drawn_world drawn;
extern const mbr_heap drawn_heap;
extern const mbr_clock drawn_clock; /* a wait for a deadline takes no time */
extern const mbr_order_vtable drawn_order;
extern const mbr_transfer_vtable drawn_transfer;
#define DRAWN_INSTANCE ((mbr_instance *)&drawn)

void drawn_begin(mbr_module *module, unsigned config, fuzz_input answers);
/* From now on every answer is honest. */
void drawn_be_honest(void);
/* Frees what is out of the heap. */
void drawn_end(void);

#endif
