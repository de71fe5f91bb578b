/* Responsible for a saver's struct, which only C can read. Decides nothing. */
#include "tests/unit/bind/giver_door.h"

#include "abi/base/assert.h"
#include "host/bind/giver.h"

#include <stdlib.h>

struct door_saver {
    mbr_giver giver;
    mbr_giver_calls calls;
};

door_saver *door_saver_join(
    mbr_manager *manager, mbr_holder_handle holder, door_would_save would_save, void *self)
{
    door_saver *saver = calloc(1, sizeof(*saver));
    saver->calls.could_give = would_save;
    mbr_status status = mbr_saver_join(manager, holder, &saver->calls, self, &saver->giver, NULL);
    MBR_CHECK(status == MBR_OK);
    return saver;
}

uint64_t door_saver_room(door_saver *saver, uint64_t room_bytes)
{
    return mbr_saver_room(&saver->giver, room_bytes, false);
}

void door_saver_leave(door_saver *saver)
{
    mbr_giver_leave(&saver->giver);
    free(saver);
}
