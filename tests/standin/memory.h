/* What memory.c and plain.c share: which addresses are taken, and what lies there. */
#ifndef MEMBRANE_TESTS_STANDIN_MEMORY_H
#define MEMBRANE_TESTS_STANDIN_MEMORY_H

#include "tests/standin/model.h"

#include <uthash.h>

struct sim_handle {
    uint64_t id;
    uint64_t bytes;
    uint64_t offset_bytes; /* in the device's file */
    uint32_t device;
    uint32_t reference_count; /* made or retained, not released */
    uint32_t mapping_count;   /* either keeps it (D19) */
    bool is_exportable;
    bool is_plain;
    int descriptor;      /* that it takes, or -1 */
    uint64_t last_place; /* where it was mapped last; for a driver that frees late */
    UT_hash_handle hh;
};

enum span_kind { SPAN_VIRTUAL, SPAN_PLAIN };

/* A reservation, or a mapping. */
struct span {
    uint64_t address;
    uint64_t bytes;
    uint64_t limit_bytes; /* of a plain allocation: what was asked for; else 0 */
    enum span_kind kind;
    struct sim_handle *handle;
    uint8_t access[STANDIN_DEVICE_MAX_COUNT];      /* enum sim_access */
    bool is_shown[STANDIN_DEVICE_MAX_COUNT];       /* in the device's part of the addresses */
    uint64_t late_bytes[STANDIN_DEVICE_MAX_COUNT]; /* that are freed with the reservation */
};

/* Sorted by address; none overlaps another. */
struct spans {
    struct span *items;
    size_t count;
    size_t room;
};

extern struct spans sim_reservations;
extern struct spans sim_mappings;

/* The first that ends above the address. */
size_t sim_span_index(const struct spans *spans, uint64_t address);
struct span *sim_span_at(const struct spans *spans, uint64_t address);
struct span *sim_span_add(struct spans *spans, struct span span);
void sim_span_remove(struct spans *spans, size_t index);

uint64_t sim_range_take(uint64_t bytes, uint64_t align_bytes, enum span_kind kind);
bool sim_has_mapping(uint64_t address, uint64_t bytes);
int sim_handle_new(struct sim_handle **made, uint64_t bytes, uint32_t device);
struct sim_handle *sim_handle_find(uint64_t id);
/* Forgets it when nothing keeps it any more. */
void sim_handle_drop(struct sim_handle *handle);
bool sim_show(struct span *mapping, uint32_t device, enum sim_access access);
void sim_mapping_remove(size_t index);

#endif
