/* Responsible for passing the question of a holder on to all who stand on it, and for whose room is
 * whose among those who save elsewhere. Decides nothing about bytes, and calls nobody with a lock
 * held. */
#include "host/bind/giver.h"
#include "abi/base/assert.h"
#include "host/bind/manager.h"

#include <utlist.h>

static _Thread_local const mbr_giver *calling;

static uint64_t call(mbr_giver *giver, uint64_t wanted_bytes, bool gives)
{
    const mbr_giver *before = calling;
    mbr_lock_assert_none_held();
    calling = giver;
    uint64_t bytes = gives ? giver->calls->give(giver->self, wanted_bytes)
                           : giver->calls->could_give(giver->self, wanted_bytes);
    calling = before;
    return bytes;
}

/* One that is called stays on the list. The lock is dropped meanwhile. Who leaves is not called
 * anew, else it would wait for as long as others go on asking. */
static uint64_t call_listed_locked(mbr_manager *manager, mbr_giver *giver, uint64_t wanted_bytes,
    bool gives) MBR_REQUIRES(&manager->lock)
{
    if (giver->is_leaving)
        return 0;
    giver->call_count++;
    mbr_lock_drop(&manager->lock);
    uint64_t bytes = call(giver, wanted_bytes, gives);
    mbr_lock_take(&manager->lock);
    giver->call_count--;
    mbr_condition_signal_all(&manager->closed);
    return bytes;
}

/* No two threads are in it for one holder (pressure.h). */
static uint64_t call_all(mbr_holder_record *holder, uint64_t wanted_bytes, bool gives)
{
    mbr_manager *manager = holder->manager;
    uint64_t bytes = 0;
    mbr_lock_take(&manager->lock);
    for (mbr_giver *giver = holder->givers; giver != NULL && bytes < wanted_bytes;
         giver = giver->next)
        bytes += call_listed_locked(manager, giver, wanted_bytes - bytes, gives);
    mbr_lock_drop(&manager->lock);
    return bytes;
}

static uint64_t ask(void *holder, const mbr_pressure *pressure)
{
    return call_all(holder, pressure->bytes, false);
}

static void give(void *holder, const mbr_pressure *pressure, uint64_t bytes)
{
    (void)pressure;
    call_all(holder, bytes, true);
}

uint64_t mbr_saver_room(mbr_giver *saver, uint64_t room_bytes, bool same_holder)
{
    mbr_manager *manager = atomic_load(&saver->manager);
    if (manager == NULL)
        return 0;
    mbr_lock_take(&manager->lock);
    mbr_giver *at = saver->holder == NULL ? NULL : *saver->list;
    /* The holder may end during a call, and the saver is not on the list any more then. */
    for (; at != NULL && at != saver && room_bytes != 0; at = at->next) {
        if (!same_holder || at->holder == saver->holder)
            room_bytes -= mbr_min(call_listed_locked(manager, at, room_bytes, false), room_bytes);
    }
    mbr_lock_drop(&manager->lock);
    return at == NULL ? 0 : room_bytes;
}

/* ---- Coming and going ------------------------------------------------------------------------ */

static void join(mbr_giver **list, mbr_holder_record *holder, const mbr_giver_calls *calls,
    void *self, mbr_giver *giver)
{
    mbr_manager *manager = holder->manager;
    giver->calls = calls;
    giver->self = self;
    giver->holder = holder;
    giver->list = list;
    giver->is_leaving = false;
    atomic_store(&giver->manager, manager);
    mbr_lock_take(&manager->lock);
    DL_APPEND(*list, giver);
    mbr_lock_drop(&manager->lock);
}

mbr_status mbr_giver_join(mbr_manager *manager, mbr_holder_handle holder,
    const mbr_giver_calls *calls, void *self, mbr_giver *giver, mbr_error *error)
{
    mbr_status status;
    mbr_holder_record *record = mbr_refer_holder(manager, holder, &status, error);
    if (record == NULL)
        return status;
    if (!record->client_answers) {
        mbr_pressure_callbacks pressed = {ask, give, record};
        status = mbr_holder_start_asking(record->holder, &pressed, error);
        if (status == MBR_OK)
            join(&record->givers, record, calls, self, giver);
    }
    mbr_unrefer_holder(manager, record);
    return status;
}

mbr_status mbr_saver_join(mbr_manager *manager, mbr_holder_handle holder,
    const mbr_giver_calls *calls, void *self, mbr_giver *saver, mbr_error *error)
{
    mbr_status status;
    mbr_holder_record *record = mbr_refer_holder(manager, holder, &status, error);
    if (record == NULL)
        return status;
    join(&record->authority->savers, record, calls, self, saver);
    mbr_unrefer_holder(manager, record);
    return status;
}

static void take_out_locked(mbr_manager *manager, mbr_giver *giver) MBR_REQUIRES(&manager->lock)
{
    DL_DELETE(*giver->list, giver);
    giver->holder = NULL;
    atomic_store(&giver->manager, NULL);
    (void)manager;
}

void mbr_giver_leave(mbr_giver *giver)
{
    mbr_manager *manager = atomic_load(&giver->manager);
    if (manager == NULL)
        return;
    MBR_CHECK(calling != giver); /* ended by its own call, it would wait for itself */
    mbr_lock_take(&manager->lock);
    giver->is_leaving = true;
    while (giver->call_count != 0)
        mbr_condition_wait(&manager->closed, &manager->lock, UINT64_MAX);
    if (giver->holder != NULL) /* else the holder has ended meanwhile */
        take_out_locked(manager, giver);
    mbr_lock_drop(&manager->lock);
}

static mbr_giver *find_saver_locked(mbr_manager *manager, const mbr_holder_record *holder)
    MBR_REQUIRES(&manager->lock)
{
    (void)manager;
    mbr_giver *saver;
    DL_SEARCH_SCALAR(holder->authority->savers, saver, holder, holder);
    return saver;
}

/* Givers are not called any more; savers may be, and may leave by themselves meanwhile. */
void mbr_end_givers(mbr_manager *manager, mbr_holder_record *holder)
{
    mbr_giver *giver, *next;
    mbr_lock_take(&manager->lock);
    DL_FOREACH_SAFE(holder->givers, giver, next)
    take_out_locked(manager, giver);
    while ((giver = find_saver_locked(manager, holder)) != NULL) {
        giver->is_leaving = true;
        if (giver->call_count == 0)
            take_out_locked(manager, giver);
        else
            mbr_condition_wait(&manager->closed, &manager->lock, UINT64_MAX);
    }
    mbr_lock_drop(&manager->lock);
}
