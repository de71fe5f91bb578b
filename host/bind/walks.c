/* Walks, counted by eras. Knows no record. */
#include "host/bind/walks.h"

#include "abi/base/assert.h"

void mbr_walks_init(mbr_walks *walks)
{
    *walks = (mbr_walks){0};
    mbr_lock_init(&walks->lock, MBR_RANK_MANAGER);
    mbr_condition_init(&walks->left);
}

void mbr_walks_finish(mbr_walks *walks)
{
    mbr_condition_finish(&walks->left);
    mbr_lock_finish(&walks->lock);
}

mbr_walk mbr_walks_begin(mbr_walks *walks)
{
    mbr_lock_take(&walks->lock);
    mbr_walk walk = {walks->era};
    walks->inside[walk.era % 2]++;
    mbr_lock_drop(&walks->lock);
    return walk;
}

void mbr_walks_end(mbr_walks *walks, mbr_walk walk)
{
    mbr_lock_take(&walks->lock);
    MBR_ASSERT(walks->inside[walk.era % 2] != 0);
    if (--walks->inside[walk.era % 2] == 0)
        mbr_condition_signal_all(&walks->left);
    mbr_lock_drop(&walks->lock);
}

void mbr_walks_await(mbr_walks *walks)
{
    mbr_lock_take(&walks->lock);
    uint64_t until = walks->era + 2;
    while (walks->era < until) {
        if (walks->inside[(walks->era + 1) % 2] == 0) {
            walks->era++;
            mbr_condition_signal_all(&walks->left); /* others wait for the same */
        } else {
            mbr_condition_wait(&walks->left, &walks->lock, UINT64_MAX);
        }
    }
    mbr_lock_drop(&walks->lock);
}
