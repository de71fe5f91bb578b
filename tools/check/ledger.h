/* The tool's own books of one open mechanism, kept from what the plugin's calls answered: the
 * second of three sources for every count of bytes. Fed by the drivers; any thread. */
#ifndef MEMBRANE_TOOLS_CHECK_LEDGER_H
#define MEMBRANE_TOOLS_CHECK_LEDGER_H

#include "tools/check/slot.h"

#include <pthread.h>

typedef enum mbr_object_class {
    MBR_OBJECT_ALLOCATION,
    MBR_OBJECT_RESERVATION,
    MBR_OBJECT_EXTENT,
    MBR_OBJECT_MAPPING,
    MBR_OBJECT_LINE,
    MBR_OBJECT_STREAM,
    MBR_OBJECT_COUNT,
} mbr_object_class;

/* A live object; of the classes that have an id of the host's. */
typedef struct mbr_entry mbr_entry;

typedef struct mbr_ledger {
    pthread_mutex_t lock;
    mbr_entry *entries; /* by class and id */
    uint64_t count[MBR_OBJECT_COUNT];
    uint64_t owned_bytes, mapped_bytes, reserved_bytes;
} mbr_ledger;

void mbr_ledger_init(mbr_ledger *ledger);

/* Books what a call answered, whatever its status; `request` and `outcome` are full size. */
void mbr_ledger_note(mbr_ledger *ledger, mbr_slot slot, mbr_status status, const void *request,
    const mbr_outcome *outcome);

/* What a live object took; false where there is none. */
bool mbr_ledger_find(mbr_ledger *ledger, mbr_object_class class, uint64_t id, uint64_t *bytes,
    uint64_t *owned_bytes, uint64_t *address);

#endif
