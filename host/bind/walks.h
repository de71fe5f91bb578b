/* Walks: threads that look at records which another thread may be taking out. Whoever ends a record
 * takes it out first, so that no later walk finds it, then awaits the walks and frees it. A walk
 * holds no lock and may call slots.
 *
 * Walks are counted by eras, so that walks that go on beginning keep nobody waiting for ever:
 *
 *     inside[era % 2]        walks that began in the present era
 *     inside[(era + 1) % 2]  walks that began in the one before; a new era begins when it is 0
 *
 * Two eras after a record was taken out every walk that could have found it is gone. */
#ifndef MEMBRANE_HOST_BIND_WALKS_H
#define MEMBRANE_HOST_BIND_WALKS_H

#include "abi/base/lock.h"

typedef struct mbr_walks {
    mbr_lock lock;
    mbr_condition left;
    uint64_t era;
    uint64_t inside[2];
} mbr_walks;

/* The era in which a walk began. */
typedef struct mbr_walk {
    uint64_t era;
} mbr_walk;

void mbr_walks_init(mbr_walks *walks);
void mbr_walks_finish(mbr_walks *walks);

mbr_walk mbr_walks_begin(mbr_walks *walks);
void mbr_walks_end(mbr_walks *walks, mbr_walk walk);
/* Until every walk has ended that began before the call. Not from inside a walk. */
void mbr_walks_await(mbr_walks *walks);

#endif
