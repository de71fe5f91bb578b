/* Who stands on a holder, and could give some of its bytes back when it is asked for them: stores,
 * arenas and caches above the client interface. A holder that its client made with callbacks is
 * answered for by these alone; any other by all givers that joined it, the first first.
 *
 * What gives may have to save elsewhere what it gives, under another authority. Of the room there
 * the savers that have joined before it have what they would take, whether they are asked or not,
 * so that no byte of it is promised twice.
 *
 * A giver's calls run with no lock held, one at a time of one holder, on any thread that asks; a
 * saver's on any number of threads. */
#ifndef MEMBRANE_HOST_BIND_GIVER_H
#define MEMBRANE_HOST_BIND_GIVER_H

#include "membrane/handle.h"
#include "membrane/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct mbr_giver_calls {
    /* What could go now, at most wanted_bytes; gives nothing. */
    uint64_t (*could_give)(void *self, uint64_t wanted_bytes);
    /* Gives; the books say how many bytes that were, what it returns ends the asking of others. */
    uint64_t (*give)(void *self, uint64_t wanted_bytes);
} mbr_giver_calls;

/* Lies in what gives, zeroed at first. A saver is one, too, of a list of its own: its could_give
 * says what it would take of so many bytes of room, and it has no give. */
typedef struct mbr_giver {
    const mbr_giver_calls *calls;
    void *self;
    mbr_manager *_Atomic manager; /* NULL: it stands on no holder, or that has ended */
    struct mbr_holder_record *holder;
    struct mbr_giver **list;
    uint32_t call_count; /* that run */
    bool is_leaving;     /* no further call begins */
    struct mbr_giver *prev, *next;
} mbr_giver;

/* The last fallible step of making what gives. MBR_OK, too, where the client answers for the
 * holder. Errors: MBR_STALE (the holder), MBR_OUT_OF_DESCRIPTORS (its authority has as many holders
 * that are asked as it can). */
mbr_status mbr_giver_join(mbr_manager *manager, mbr_holder_handle holder,
    const mbr_giver_calls *calls, void *self, mbr_giver *giver, mbr_error *error);
/* It is not called any more. Waits while another thread does; nothing where it stands on none. */
void mbr_giver_leave(mbr_giver *giver);
/* What it gives is saved where `holder` pays; it leaves as a giver does. Errors: MBR_STALE. */
mbr_status mbr_saver_join(mbr_manager *manager, mbr_holder_handle holder,
    const mbr_giver_calls *calls, void *self, mbr_giver *saver, mbr_error *error);
/* What of so many bytes of room the savers leave it that have joined before it under its holder's
 * authority; `same_holder`: those alone of them for whom its holder pays. 0: it has not joined, or
 * the holder has ended. */
uint64_t mbr_saver_room(mbr_giver *saver, uint64_t room_bytes, bool same_holder);
static inline bool mbr_giver_has_joined(mbr_giver *giver)
{
    return atomic_load(&giver->manager) != NULL;
}

/* The calls of a type with mbr_…_could_give and mbr_…_give. */
#define MBR_GIVER_CALLS_DEFINE(noun, name)                                                         \
    static uint64_t noun##_ask(void *self, uint64_t wanted_bytes)                                  \
    {                                                                                              \
        return noun##_could_give(self, wanted_bytes);                                              \
    }                                                                                              \
    static uint64_t noun##_have_give(void *self, uint64_t wanted_bytes)                            \
    {                                                                                              \
        return noun##_give(self, wanted_bytes);                                                    \
    }                                                                                              \
    static const mbr_giver_calls name = {noun##_ask, noun##_have_give}

#endif
