/* Memory of one thread in which the structs of a call are laid, between pages without access. */
#ifndef MEMBRANE_TOOLS_CHECK_LAY_H
#define MEMBRANE_TOOLS_CHECK_LAY_H

#include "tools/check/trial.h"

#define MBR_LAY_POISON 0xA5
#define MBR_LAY_ROOM_BYTES 8192 /* between the two guard pages */
#define MBR_LAY_TAIL_BYTES 512  /* poisoned behind a struct that has room there */

typedef enum mbr_lay_place {
    MBR_LAY_REQUEST,
    MBR_LAY_OUTCOME,
    MBR_LAY_ERROR,
    MBR_LAY_PLACE_COUNT,
} mbr_lay_place;

/* Memory for a struct of `bytes`, all of the room poisoned. NULL where the system has none. */
void *mbr_lay_take(mbr_lay_place place, mbr_lay lay, uint32_t bytes);

/* Makes the thread's request read-only, or writable again. */
void mbr_lay_freeze_request(bool is_read_only);

/* Takes the access to all of the thread's memory away for ever; the next call gets other memory. */
void mbr_lay_forget(void);

/* Whether the room around a struct, up to MBR_LAY_TAIL_BYTES on both sides, is as it was. */
bool mbr_lay_is_whole(mbr_lay_place place, const void *taken, uint32_t bytes);

#endif
