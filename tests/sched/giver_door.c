/* Responsible for a manager's struct, which only C can read, and for who stands on its holder. A
 * giver is called between its first step of joining and its leaving, and at no other time. */
#include "tests/sched/giver_door.h"

#include "host/bind/manager.h"
#include "tests/sched/engine.h"

#include <string.h>

#define WANTED_BYTES 100 /* more than all give */

typedef struct stander {
    mbr_giver giver;
    bool lives; /* it may be called */
    uint64_t call_count;
} stander;

static struct {
    mbr_manager manager;
    mbr_authority_record authority;
    mbr_holder_record holder;
    mbr_pressure_callbacks pressed;
    stander standers[SCHED_GIVER_COUNT];
} world;

/* ---- Around ---------------------------------------------------------------------------------- */

mbr_holder_record *mbr_refer_holder(
    mbr_manager *manager, mbr_holder_handle handle, mbr_status *status, mbr_error *error)
{
    (void)handle, (void)error;
    mbr_lock_take(&manager->lock);
    bool lives = !world.holder.closing;
    world.holder.reference_count += lives;
    mbr_lock_drop(&manager->lock);
    *status = lives ? MBR_OK : MBR_STALE;
    return lives ? &world.holder : NULL;
}

void mbr_unrefer_holder(mbr_manager *manager, mbr_holder_record *record)
{
    mbr_lock_take(&manager->lock);
    record->reference_count--;
    mbr_lock_drop(&manager->lock);
}

mbr_status mbr_holder_start_asking(
    mbr_holder *holder, const mbr_pressure_callbacks *pressed, mbr_error *error)
{
    (void)holder, (void)error;
    world.pressed = *pressed; /* the same each time */
    return MBR_OK;
}

/* ---- Who gives ------------------------------------------------------------------------------- */

static uint64_t call(void *self, uint64_t wanted_bytes)
{
    stander *called = self;
    for (int i = 0; i < 2; i++) {
        if (!called->lives)
            sched_fail("a giver is called that has left");
        SCHED_CALLBACK_POINT();
    }
    if (!called->lives)
        sched_fail("a giver has left before its call was over");
    called->call_count++;
    return wanted_bytes != 0;
}

static const mbr_giver_calls calls = {call, call};

static bool join(int which,
    mbr_status (*joined)(mbr_manager *manager, mbr_holder_handle holder,
        const mbr_giver_calls *calls, void *self, mbr_giver *giver, mbr_error *error))
{
    stander *joins = &world.standers[which];
    joins->giver = (mbr_giver){0};
    joins->lives = true;
    return joined(&world.manager, (mbr_holder_handle){1}, &calls, joins, &joins->giver, NULL) ==
        MBR_OK;
}

bool sched_giver_join(int which)
{
    return join(which, mbr_giver_join);
}

bool sched_saver_join(int which)
{
    return join(which, mbr_saver_join);
}

void sched_giver_leave(int which)
{
    stander *leaves = &world.standers[which];
    mbr_giver_leave(&leaves->giver);
    leaves->lives = false;
    memset(&leaves->giver, 0xa5, sizeof(leaves->giver));
}

uint64_t sched_saver_room(int which, uint64_t room_bytes)
{
    return mbr_saver_room(&world.standers[which].giver, room_bytes, false);
}

/* ---- The holder ------------------------------------------------------------------------------ */

void sched_holder_is_asked(void)
{
    mbr_pressure pressure = {.bytes = WANTED_BYTES};
    world.pressed.ask(world.pressed.context, &pressure);
}

void sched_holder_gives(void)
{
    mbr_pressure pressure = {.bytes = WANTED_BYTES};
    world.pressed.give(world.pressed.context, &pressure, WANTED_BYTES);
}

bool sched_holder_ends(void)
{
    mbr_lock_take(&world.manager.lock);
    bool may = world.holder.reference_count == 0;
    world.holder.closing = may;
    mbr_lock_drop(&world.manager.lock);
    if (may)
        mbr_end_givers(&world.manager, &world.holder);
    return may;
}

void sched_givers_begin(void)
{
    memset(&world, 0, sizeof(world));
    mbr_lock_init(&world.manager.lock, MBR_RANK_MANAGER);
    mbr_condition_init(&world.manager.closed);
    world.holder.manager = &world.manager;
    world.holder.authority = &world.authority;
}

void sched_givers_end(void)
{
    if (world.holder.givers != NULL || world.authority.savers != NULL)
        sched_fail("one that has left is still listed");
    mbr_condition_finish(&world.manager.closed);
    mbr_lock_finish(&world.manager.lock);
}

uint64_t sched_giver_calls(int which)
{
    return world.standers[which].call_count;
}
