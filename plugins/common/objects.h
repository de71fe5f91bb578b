/* The objects of one instance: their ids, which of them are in a call, and the figures over all of
 * them. A slot enters an object, works on it without the lock, and leaves it; meanwhile every other
 * slot is refused, so that a plugin that is called against the thread rules keeps its books. */
#ifndef MEMBRANE_PLUGINS_COMMON_OBJECTS_H
#define MEMBRANE_PLUGINS_COMMON_OBJECTS_H

#include "abi/base/interval_tree.h"
#include "abi/base/seam.h"
#include "plugins/common/answer.h"
#include "plugins/common/id_table.h"

#include <pthread.h>
#include <stdbool.h>

/* First member of every object's record. */
struct mbr_object {
    uint64_t id;
    uint64_t address, bytes;
    uint64_t outer_address, outer_bytes; /* what was taken to reach the alignment; 0: nothing */
    bool busy;                           /* in a call; guarded by the lock */
};

/* What is left of something that a primitive was to give back. */
enum mbr_end {
    MBR_END_GONE,   /* also where a call failed after its effect; then no error is written */
    MBR_END_THERE,  /* as before */
    MBR_END_UNKNOWN /* nobody can tell */
};

struct mbr_object_table {
    const char *name;       /* of one object, for texts */
    mbr_status busy_status; /* of an object that is in a call */
    struct mbr_id_table ids;
};

struct mbr_allocation_port;
struct mbr_handle_port;
struct mbr_line_port;
struct mbr_space_port;
struct mbr_transfer_port;

/* Events of the driver that stand for nothing now (plugins/common/lines.h). */
struct mbr_idle_events {
    uint64_t *events;
    uint64_t count;      /* of them that are idle */
    uint64_t made_count; /* of the whole instance */
    uint64_t room_count; /* of the array; made_count at least */
};

/* First member of every instance. */
struct mbr_objects {
    const char *mark; /* &mbr_answer_mark while open */
    mbr_heap heap;
    const struct mbr_allocation_port *allocation_port;
    uint64_t allocation_unit_bytes;    /* allocations are whole multiples, aligned to
                                          it */
    const struct mbr_space_port *port; /* NULL: no membrane.virtual */
    const struct mbr_handle_port *handle_port;
    const struct mbr_line_port *line_port;         /* NULL: no membrane.order */
    const struct mbr_transfer_port *transfer_port; /* NULL: no membrane.transfer */
    uint32_t stream_kind;                          /* MBR_NATIVE_STREAM_… of those two */
    uint64_t granule_bytes;
    uint64_t extent_max_bytes;           /* for handle_port */
    bool unmaps_single_mappings;         /* as MBR_FACT_UNMAP_SPANS_MAPPINGS tells the host */
    uint32_t device_count, device_index; /* that lists of accesses may name; its own */
    pthread_mutex_t lock;
    /* Guarded by the lock. */
    struct mbr_object_table allocations, reservations, extents;
    struct mbr_object_table lines, streams; /* a stream's id is the driver's value */
    struct mbr_interval *places;            /* of reservations, by address */
    struct mbr_idle_events idle_events;
    uint64_t owned_bytes, mapped_bytes, reserved_bytes, mapping_count;
};

static inline struct mbr_objects *mbr_objects_of(mbr_instance *instance)
{
    return (struct mbr_objects *)instance;
}

/* `objects` is zero; from here on slots may enter its instance. */
void mbr_objects_init(struct mbr_objects *objects, const mbr_heap *heap);
void mbr_objects_finish(struct mbr_objects *objects);

void mbr_objects_lock(struct mbr_objects *objects);
void mbr_objects_unlock(struct mbr_objects *objects);

/* What every close is refused for: flags, and MBR_IN_USE while an object lives.
 */
mbr_status mbr_objects_check_close(
    struct mbr_objects *objects, const mbr_close_request *request, mbr_error *error);

/* The slot `report`, and the part of `stats` that the books know. */
mbr_status mbr_objects_slot_report(
    mbr_instance *instance, const mbr_report_request *raw, mbr_report *outcome, mbr_error *error);
void mbr_objects_tell(struct mbr_objects *objects, mbr_mechanism_stats *stats);

/* Makes a zeroed record, in a call and known by its id; NULL with *status and *error:
 * MBR_ALREADY_EXISTS or MBR_OUT_OF_HOST_MEMORY. */
void *mbr_object_create(struct mbr_objects *objects, struct mbr_object_table *table, uint64_t id,
    uint64_t bytes, size_t record_bytes, mbr_status *status, mbr_error *error);

/* The object, in this call from now on; NULL with *status and *error: MBR_UNKNOWN_OBJECT, or the
 * table's busy_status. */
void *mbr_object_enter_locked(
    struct mbr_object_table *table, uint64_t id, mbr_status *status, mbr_error *error);
void *mbr_object_enter(struct mbr_objects *objects, struct mbr_object_table *table, uint64_t id,
    mbr_status *status, mbr_error *error);
void mbr_object_leave(struct mbr_objects *objects, struct mbr_object *object);

/* Ends an object that was entered: its id is unknown, its record released. */
void mbr_object_end(
    struct mbr_objects *objects, struct mbr_object_table *table, struct mbr_object *object);

#endif
