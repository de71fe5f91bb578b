/* Responsible for asking holders what they could give and having them give it: first all are asked,
 * then only a plan that suffices is carried out. Never holds a lock while a callback runs, never
 * picks what a holder gives (I13), and believes the books rather than an answer. */
#include "governor/internal.h"

#include "abi/base/checked.h"

#include <utlist.h>

/* Classes of the order in which holders are asked; within one, by role. */
#define ORDER_CACHE 0        /* what is kept only for speed */
#define ORDER_SELF 0x100     /* who wants the bytes gives its own before others do */
#define ORDER_BORROWER 0x200 /* what was lent comes back before a share is touched */
#define ORDER_OTHER 0x300

/* Within a class the lower first: what is cheapest to have again. */
static const uint64_t role_order[MBR_ROLE_COUNT] = {
    [MBR_ROLE_CACHE] = 0,
    [MBR_ROLE_STAGING] = 1,
    [MBR_ROLE_PREFIX] = 2,
    [MBR_ROLE_ACTIVATION] = 3,
    [MBR_ROLE_WORKSPACE] = 4,
    [MBR_ROLE_WEIGHTS] = 5,
    [MBR_ROLE_KV] = 6,
};

/* Which holders are asked. */
typedef enum circle { EVERYBODY, CACHES, WHO_WANTS_IT } circle;

/* The holders that one thread asks, in one go. */
typedef struct round {
    mbr_holder *holders[MBR_PRESSED_LIMIT_COUNT];
    mbr_offer offers[MBR_PRESSED_LIMIT_COUNT];
    uint32_t count;
} round;

static _Thread_local bool is_pressing;

bool mbr_is_pressing(void)
{
    return is_pressing;
}

static uint64_t order_of(const mbr_holder *holder, const mbr_pressure *pressure)
{
    uint64_t class = ORDER_OTHER;
    if (holder->role == MBR_ROLE_CACHE)
        class = ORDER_CACHE;
    else if (holder->id == pressure->holder_id)
        class = ORDER_SELF;
    else if (mbr_borrowed(holder) != 0)
        class = ORDER_BORROWER;
    return class + role_order[holder->role];
}

/* The most that may be taken of a holder for others: all it has leased, and of one that borrows not
 * its own share. */
static uint64_t most_to_take(const mbr_holder *holder, const mbr_pressure *pressure)
{
    bool keeps_share = holder->borrows && holder->id != pressure->holder_id;
    return keeps_share ? mbr_borrowed(holder) : UINT64_MAX;
}

static bool is_in(const mbr_holder *holder, circle asked, const mbr_pressure *pressure)
{
    return asked == EVERYBODY || (asked == CACHES && holder->role == MBR_ROLE_CACHE) ||
        (asked == WHO_WANTS_IT && holder->id == pressure->holder_id);
}

/* Marked as being asked, a holder is not destroyed and no other thread calls it. */
static void gather(mbr_authority *authority, const mbr_pressure *pressure, const mbr_holder *except,
    circle whom, round *asked)
{
    mbr_holder *holder;
    asked->count = 0;
    mbr_lock_take(&authority->governor->lock);
    DL_FOREACH(authority->holders, holder)
    {
        if (holder->pressed.ask == NULL || holder->being_asked || holder == except ||
            !is_in(holder, whom, pressure))
            continue;
        holder->being_asked = true;
        asked->holders[asked->count] = holder;
        asked->offers[asked->count] =
            (mbr_offer){.order = order_of(holder, pressure), .index = asked->count};
        asked->count++;
    }
    mbr_lock_drop(&authority->governor->lock);
}

static void let_go(mbr_authority *authority, const round *asked)
{
    mbr_lock_take(&authority->governor->lock);
    for (uint32_t i = 0; i < asked->count; i++)
        asked->holders[i]->being_asked = false;
    mbr_condition_signal_all(&authority->governor->asked);
    mbr_lock_drop(&authority->governor->lock);
}

static void ask(const mbr_pressure *pressure, round *asked)
{
    for (uint32_t i = 0; i < asked->count; i++) {
        const mbr_holder *holder = asked->holders[asked->offers[i].index];
        uint64_t offered = holder->pressed.ask(holder->pressed.context, pressure);
        asked->offers[i].offered_bytes = mbr_min(offered, most_to_take(holder, pressure));
    }
}

static uint64_t leased(const mbr_holder *holder)
{
    mbr_sums sums = mbr_sums_read(holder);
    return mbr_sum_shown(sums.granted + sums.charged);
}

/* By its books, whatever it answers. */
static uint64_t have_it_give(const mbr_holder *holder, const mbr_pressure *pressure, uint64_t bytes)
{
    uint64_t before = leased(holder);
    holder->pressed.give(holder->pressed.context, pressure, bytes);
    uint64_t after = leased(holder);
    return mbr_min(bytes, before - mbr_min(before, after));
}

/* What one holder fails to give, those behind it are to give. */
static uint64_t have_them_give(const mbr_pressure *pressure, const round *asked)
{
    uint64_t given = 0;
    for (uint32_t i = 0; i < asked->count && given < pressure->bytes; i++) {
        const mbr_offer *offer = &asked->offers[i];
        uint64_t bytes = mbr_min(offer->offered_bytes, pressure->bytes - given);
        if (bytes != 0)
            given += have_it_give(asked->holders[offer->index], pressure, bytes);
    }
    return given;
}

static uint64_t press(
    mbr_authority *authority, const mbr_pressure *pressure, const mbr_holder *except, circle whom)
{
    round asked;
    mbr_lock_assert_none_held();
    gather(authority, pressure, except, whom, &asked);
    is_pressing = true;
    ask(pressure, &asked);
    bool suffices = mbr_plan_pressure(pressure->bytes, asked.offers, asked.count);
    uint64_t given = suffices ? have_them_give(pressure, &asked) : 0;
    is_pressing = false;
    let_go(authority, &asked);
    return given;
}

uint64_t mbr_press(mbr_authority *authority, const mbr_pressure *pressure, bool own_only)
{
    return press(authority, pressure, NULL, own_only ? WHO_WANTS_IT : EVERYBODY);
}

/* What others give is no use to one at its allowance, and nobody's to one that is larger than the
 * limit in force. What is claimed above the limit has to come back, too. */
uint64_t mbr_press_bytes_locked(const mbr_authority *authority, const mbr_holder *holder,
    uint64_t bytes, uint64_t held_bytes, bool *own_only)
{
    int64_t room = mbr_room_read(authority);
    uint64_t over = room < 0 ? (uint64_t)-room : 0, own;
    uint64_t left = mbr_lease_left(holder, &own);
    *own_only = bytes > left;
    if (bytes > mbr_ticket_reach_locked(authority))
        return 0;
    return bytes > left ? bytes - left : bytes - held_bytes + over;
}

uint64_t mbr_authority_press_caches(
    mbr_authority *authority, const mbr_holder *except, uint64_t bytes)
{
    if (is_pressing || bytes == 0)
        return 0;
    mbr_pressure pressure = {.struct_size = sizeof(pressure),
        .tier = authority->tier,
        .role = MBR_ROLE_CACHE,
        .bytes = bytes,
        .deadline_ns = MBR_NO_DEADLINE,
        .generation = atomic_load_explicit(&authority->generation, memory_order_acquire)};
    return press(authority, &pressure, except, CACHES);
}
