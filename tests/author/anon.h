/* A backend over private anonymous memory: what its files share.
 *
 * An extent keeps a range of addresses of its own, its home, as long as it lives. map moves its
 * pages to a reservation and leaves the home empty, unmap moves them back; both with mremap, which
 * copies nothing. There is one copy of the pages, so an extent is in one place at a time.
 *
 *   owned  = allocations + extents      mapped = allocations + extents that are placed
 */
#ifndef ANON_ANON_H
#define ANON_ANON_H

#include <pthread.h>
#include <stdbool.h>

#include "membrane/membrane_plugin.h"

/* A field of a copied request: zero where the sender's struct ends before the field's end. */
#define ANON_GET(type, object, field) (MBR_HAS(type, object, field) ? (object)->field : 0)

/* ---- spans.c: objects by the numbers that they cover, no two of which overlap ---- */

/* First member of each object: both ends belong to it. An id covers itself. */
typedef struct anon_span {
    uint64_t first;
    uint64_t last;
} anon_span;

typedef struct anon_spans {
    void *root;
    uint64_t count;
} anon_spans;

/* Any object that covers a number of [first, last], or NULL. */
void *anon_spans_find(const anon_spans *spans, uint64_t first, uint64_t last);
/* Adds an object that overlaps none; false if there is no heap for it. */
bool anon_spans_add(anon_spans *spans, anon_span *object);
void anon_spans_remove(anon_spans *spans, anon_span *object);

/* ---- memory.c: the system's calls; each that can fail leaves errno ---- */

/* A range of addresses. A wish for alignment makes it longer than its useful part. */
typedef struct anon_area {
    uint8_t *start; /* the useful part */
    uint8_t *mapped_start;
    uint64_t mapped_bytes;
} anon_area;

uint64_t anon_page_bytes(void);
uint64_t anon_machine_bytes(void);
/* What the machine could still give, or MBR_UNKNOWN_BYTES. */
uint64_t anon_available_bytes(void);

/* Addresses without access and without memory. bytes + align_bytes must fit 64 bits. */
bool anon_area_take(anon_area *area, uint64_t bytes, uint64_t align_bytes);
bool anon_area_give(const anon_area *area);
/* Memory behind a fresh area's useful part: zero, and taken now and not at the first touch. */
bool anon_memory_take(const anon_area *area, uint64_t bytes);
bool anon_memory_access(uint8_t *start, uint64_t bytes, uint32_t access);
/* Moves pages; what they leave stays reserved, with the access that it had. */
bool anon_memory_move(uint8_t *to, uint8_t *from, uint64_t bytes);

/* ---- objects ---- */

/* What allocations, reservations and extents have in common; first member of each. */
typedef struct anon_object {
    anon_span id;
    anon_area area; /* of an extent: its home */
    uint64_t bytes;
} anon_object;

typedef struct anon_reservation {
    anon_object object;
    anon_spans places; /* of extents, by offset */
} anon_reservation;

struct anon_extent;

typedef struct anon_place {
    anon_span offsets;
    struct anon_extent *extent;
    uint32_t access; /* MBR_ACCESS_... */
} anon_place;

typedef struct anon_extent {
    anon_object object;
    bool written; /* access to write was given once: no longer known to be zero */
    bool placed;
    anon_place place; /* if placed */
} anon_extent;

struct mbr_instance {
    pthread_mutex_t lock; /* of all below it */
    anon_spans allocations, reservations, extents;
    uint64_t placed_count;
    uint64_t owned_bytes, mapped_bytes, reserved_bytes;
    uint64_t capacity_bytes; /* set by open, as the two below */
    mbr_log_function log;
    void *log_context;
};

/* ---- call.c: what all slots do alike ---- */

/* The struct_size of a struct, which may lie at any address where it is cut short. */
uint32_t anon_room_bytes(const void *sized);
/* An aligned copy of a request as far as it was sent; ANON_GET reads its fields. */
void anon_read(void *copy, const void *request, size_t copy_bytes);
/* Writes a sized struct as far as the receiver's struct_size, which stays. */
void anon_write(void *receiver, const void *value, size_t value_bytes);
/* Fills the error, if there is one, and returns its status. */
mbr_status anon_refuse(mbr_error *error, mbr_error what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* MBR_INVALID_ARGUMENT if a part of the call is NULL. Zeroes an outcome that is there. */
mbr_status anon_begin(bool all_there, void *outcome, size_t outcome_bytes, mbr_error *error);
/* MBR_UNSUPPORTED for a critical flag that is not in `known`. */
mbr_status anon_check_flags(uint32_t flags, uint32_t known, mbr_error *error);

/* The work of a slot that changes something, under the instance's lock. `request` is a copy, `done`
 * is zero, and stays so on failure, unless something is left; anon_change adds the state of
 * success. */
typedef mbr_status (*anon_step)(
    mbr_instance *instance, const void *request, mbr_outcome *done, mbr_error *error);
mbr_status anon_change(anon_step step, mbr_instance *instance, const void *request,
    size_t request_bytes, mbr_outcome *outcome, mbr_error *error);

/* anon_change for a slot whose outcome tells an address: one that is too short for it is refused,
 * because nobody could give back what nobody was told. */
mbr_status anon_change_to_address(anon_step step, mbr_instance *instance, const void *request,
    size_t request_bytes, mbr_outcome *outcome, mbr_error *error);

/* ---- object.c: the beginning and the end of objects ---- */

/* Whether a new object may have this id, second field of every request that makes one. */
mbr_status anon_check_id(const anon_spans *objects, uint64_t id, mbr_error *error);
/* Whether a size is one, in whole pages, and an alignment is one that fits with it in 64 bits. */
mbr_status anon_check_size(uint64_t bytes, uint64_t align_bytes, mbr_error *error);
/* Whether whole pages may be owned on top of what the instance owns. */
mbr_status anon_admit(
    const mbr_instance *instance, uint64_t bytes, uint64_t max_owned_bytes, mbr_error *error);
uint64_t anon_free_bytes(const mbr_instance *instance);

/* A zeroed object on the heap, known by its id, without an area; NULL if there is no heap. */
void *anon_object_create(anon_spans *objects, size_t object_bytes, uint64_t id, uint64_t bytes);
/* Forgets an object whose area is gone. */
void anon_object_destroy(anon_spans *objects, anon_object *object);
/* Gives a new object its area, owned memory and access, and books it; on failure the object is
 * destroyed, unless `done` says that it lives on. */
mbr_status anon_object_fill(mbr_instance *instance, anon_spans *objects, anon_object *object,
    uint64_t align_bytes, uint32_t access, mbr_outcome *done, mbr_error *error);
/* Gives the area back to the system and forgets the object; on failure nothing happened. */
mbr_status anon_object_end(anon_spans *objects, anon_object *object, mbr_error *error);
/* MBR_UNKNOWN_OBJECT, for an id that is in no table of the instance. */
mbr_status anon_unknown(uint64_t id, uint32_t argument, mbr_error *error);
mbr_status anon_no_heap(uint64_t asked_bytes, mbr_error *error);
/* The system said no: `exhausted` if errno says ENOMEM, and MBR_SYSTEM else. */
mbr_status anon_system_refused(
    mbr_status exhausted, const char *call, uint64_t asked_bytes, mbr_error *error);

extern const mbr_allocator_vtable anon_allocator;
extern const mbr_virtual_vtable anon_virtual;

#endif
