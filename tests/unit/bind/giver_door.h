/* What tests reach of those who save for a holder, behind functions because C++17 has no `_Atomic`.
 */
#ifndef MEMBRANE_TESTS_UNIT_BIND_GIVER_DOOR_H
#define MEMBRANE_TESTS_UNIT_BIND_GIVER_DOOR_H

#include "membrane/handle.h"
#include "membrane/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct door_saver door_saver;
typedef uint64_t (*door_would_save)(void *self, uint64_t room_bytes);

door_saver *door_saver_join(
    mbr_manager *manager, mbr_holder_handle holder, door_would_save would_save, void *self);
uint64_t door_saver_room(door_saver *saver, uint64_t room_bytes);
void door_saver_leave(door_saver *saver);

#ifdef __cplusplus
}
#endif

#endif
