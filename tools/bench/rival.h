/* Allocators without a ledger, for H4: those of the C library, mimalloc and jemalloc, each in this
 * process. The latter two are opened with symbols of their own, so that nobody's malloc changes. */
#ifndef MEMBRANE_TOOLS_BENCH_RIVAL_H
#define MEMBRANE_TOOLS_BENCH_RIVAL_H

#include <stdbool.h>
#include <stddef.h>

#define MBR_RIVAL_COUNT 3
#define MBR_RIVAL_REASON_BYTES 128

typedef struct mbr_rival {
    const char *name;
    void *(*take)(size_t bytes); /* NULL: absent */
    void (*give)(void *memory);
    char reason[MBR_RIVAL_REASON_BYTES]; /* why it is absent */
} mbr_rival;

/* Opens what is there; the C library's always is. They stay open: their threads' storage would
 * outlive them. */
void mbr_rivals_open(mbr_rival rivals[MBR_RIVAL_COUNT]);

/* jemalloc wants room for thread-local storage that is set aside when a process begins. Begins this
 * process again with that room, once; returns if that is done already or fails. */
void mbr_rivals_make_room(int argc, char **argv);

#endif
