/* Responsible for where the structs of a call lie. Never calls the plugin. */
#include "tools/check/lay.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096

typedef struct lay_room {
    unsigned char *start; /* of the room; a guard page lies on either side */
} lay_room;

static _Thread_local lay_room rooms[MBR_LAY_PLACE_COUNT];

static unsigned char *make_room(void)
{
    unsigned char *all = mmap(
        NULL, MBR_LAY_ROOM_BYTES + 2 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    if (mprotect(all + PAGE_BYTES, MBR_LAY_ROOM_BYTES, PROT_READ | PROT_WRITE) == 0)
        return all + PAGE_BYTES;
    munmap(all, MBR_LAY_ROOM_BYTES + 2 * PAGE_BYTES);
    return NULL;
}

void *mbr_lay_take(mbr_lay_place place, mbr_lay lay, uint32_t bytes)
{
    lay_room *room = &rooms[place];
    if (room->start == NULL)
        room->start = make_room();
    if (room->start == NULL || bytes > MBR_LAY_ROOM_BYTES / 2)
        return NULL;
    memset(room->start, MBR_LAY_POISON, MBR_LAY_ROOM_BYTES);
    if (lay == MBR_LAY_GUARD_START)
        return room->start;
    /* Structs begin with 8-byte alignment; their sizes are multiples of 4 at least. */
    if (lay == MBR_LAY_GUARD_END)
        return room->start + MBR_LAY_ROOM_BYTES - bytes;
    return room->start + MBR_LAY_TAIL_BYTES;
}

void mbr_lay_freeze_request(bool is_read_only)
{
    unsigned char *start = rooms[MBR_LAY_REQUEST].start;
    if (start != NULL)
        mprotect(start, MBR_LAY_ROOM_BYTES, is_read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

void mbr_lay_forget(void)
{
    for (uint32_t place = 0; place < MBR_LAY_PLACE_COUNT; place++) {
        if (rooms[place].start != NULL)
            mprotect(rooms[place].start, MBR_LAY_ROOM_BYTES, PROT_NONE);
        rooms[place].start = NULL;
    }
}

static bool is_poison(const unsigned char *from, const unsigned char *end)
{
    for (; from < end; from++)
        if (*from != MBR_LAY_POISON)
            return false;
    return true;
}

bool mbr_lay_is_whole(mbr_lay_place place, const void *taken, uint32_t bytes)
{
    const unsigned char *first = rooms[place].start, *last = first + MBR_LAY_ROOM_BYTES;
    const unsigned char *start = taken, *end = start + bytes;
    const unsigned char *low =
        start - first > MBR_LAY_TAIL_BYTES ? start - MBR_LAY_TAIL_BYTES : first;
    const unsigned char *high = last - end > MBR_LAY_TAIL_BYTES ? end + MBR_LAY_TAIL_BYTES : last;
    return is_poison(low, start) && is_poison(end, high);
}

const void *mbr_lay_input(mbr_trial *trial, const void *bytes, uint64_t count)
{
    uint64_t room = (count + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    unsigned char *all =
        mmap(NULL, room + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all, room, PROT_READ | PROT_WRITE) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no memory for an input");
    unsigned char *start = all + room - count;
    memcpy(start, bytes, count);
    mprotect(all, room, PROT_READ);
    return start;
}
