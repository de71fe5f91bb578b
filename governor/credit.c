/* Responsible for the slots of threads and for every movement between a thread's credit and the
 * room of its authority. Never decides why a claim is refused and never writes a holder's books.
 *
 * A slot is closed or open. Open, its credit is claimed bytes that nobody was given; its thread
 * takes from it and puts into it without the lock. Closed, its thread claims from and releases to
 * the room itself. Opening, refilling, spilling and closing happen under the authority's lock, so
 * whoever holds it and has closed every slot sees all free bytes in one word: that makes a refusal
 * exact. Near the limit slots stay closed; they open again when a share of the limit is free. */
#include "governor/internal.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <pthread.h>
#include <utlist.h>

/* A slot opens only while 1 / this of the limit stays free: twice what all credit may hold. */
#define OPENING_SHARE (MBR_CREDIT_SHARE / 2)

/* ---- Threads and their slots. A thread belongs to the process, so this is the one part of the
 * governor that is the process's: which slots are taken, and which authorities may hold credit of
 * a thread that ends. */
MBR_THREAD_HOT uint32_t mbr_thread_slot_plus_one;

static _Atomic uint64_t slots_taken; /* one bit a slot */
static _Atomic uint32_t slots_used_count;
static mbr_lock process_lock = {PTHREAD_MUTEX_INITIALIZER, MBR_RANK_GOVERNOR};
static mbr_authority *process_authorities; /* process_lock */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_exists;

_Static_assert(MBR_SLOT_COUNT == 64, "the taken slots are the bits of one 64-bit word");

static void close_slot_locked(mbr_authority *authority, mbr_slot *slot)
    MBR_REQUIRES(&authority->lock)
{
    if (atomic_load_explicit(&slot->credit_bytes, memory_order_relaxed) == MBR_CREDIT_CLOSED)
        return;
    uint64_t credit =
        atomic_exchange_explicit(&slot->credit_bytes, MBR_CREDIT_CLOSED, memory_order_acq_rel);
    mbr_room_put(authority, credit);
}

/* The thread may still book after this, in a destructor of somebody else: through the shared slot,
 * for which nothing is to be given back. */
static void thread_ends(void *unused)
{
    (void)unused;
    uint32_t index = mbr_thread_slot_plus_one - 1;
    mbr_thread_slot_plus_one = MBR_SLOT_SHARED + 1;
    mbr_lock_take(&process_lock);
    mbr_authority *authority;
    DL_FOREACH2(process_authorities, authority, process_next)
    {
        mbr_lock_take(&authority->lock);
        close_slot_locked(authority, &authority->slots[index]);
        mbr_lock_drop(&authority->lock);
    }
    mbr_lock_drop(&process_lock);
    atomic_fetch_and_explicit(&slots_taken, ~(UINT64_C(1) << index), memory_order_release);
}

/* As in host/alloc/cache.c: the library stays, and no library destructor takes the key back. */
static void create_key(void)
{
    key_exists = pthread_key_create(&key, thread_ends) == 0;
}

/* The lowest free slot, or the shared one. */
static uint32_t take_slot(void)
{
    uint64_t taken = atomic_load_explicit(&slots_taken, memory_order_relaxed);
    uint32_t index;
    do {
        if (taken == UINT64_MAX)
            return MBR_SLOT_SHARED;
        index = (uint32_t)__builtin_ctzll(~taken);
    } while (!atomic_compare_exchange_weak_explicit(&slots_taken, &taken,
        taken | UINT64_C(1) << index, memory_order_acquire, memory_order_relaxed));
    return index;
}

static void note_used(uint32_t index)
{
    uint32_t used = atomic_load_explicit(&slots_used_count, memory_order_relaxed);
    while (used <= index &&
        !atomic_compare_exchange_weak_explicit(
            &slots_used_count, &used, index + 1, memory_order_relaxed, memory_order_relaxed)) {
    }
}

uint32_t mbr_slot_assign(void)
{
    uint32_t index = take_slot();
    if (index != MBR_SLOT_SHARED) {
        pthread_once(&key_once, create_key);
        /* Any value but NULL makes the thread's end call thread_ends. */
        if (!key_exists || pthread_setspecific(key, &slots_taken) != 0) {
            atomic_fetch_and_explicit(&slots_taken, ~(UINT64_C(1) << index), memory_order_release);
            index = MBR_SLOT_SHARED;
        } else {
            note_used(index);
        }
    }
    mbr_thread_slot_plus_one = index + 1;
    return index;
}

uint32_t mbr_slot_used_count(void)
{
    return atomic_load_explicit(&slots_used_count, memory_order_relaxed);
}

void mbr_credit_register(mbr_authority *authority)
{
    mbr_lock_take(&process_lock);
    DL_APPEND2(process_authorities, authority, process_prev, process_next);
    mbr_lock_drop(&process_lock);
}

void mbr_credit_unregister(mbr_authority *authority)
{
    mbr_lock_take(&process_lock);
    DL_DELETE2(process_authorities, authority, process_prev, process_next);
    mbr_lock_drop(&process_lock);
}

/* ---- The room */
int64_t mbr_room_read(const mbr_authority *authority)
{
    return atomic_load_explicit(&authority->room_bytes, memory_order_relaxed);
}

uint64_t mbr_room_take_all(mbr_authority *authority)
{
    int64_t seen = atomic_load(&authority->room_bytes);
    while (seen > 0 && !atomic_compare_exchange_weak(&authority->room_bytes, &seen, 0)) {
    }
    return seen > 0 ? (uint64_t)seen : 0;
}

bool mbr_room_take(mbr_authority *authority, uint64_t bytes, int64_t *seen_bytes)
{
    *seen_bytes = mbr_room_read(authority);
    do {
        if (*seen_bytes < 0 || (uint64_t)*seen_bytes < bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&authority->room_bytes, seen_bytes,
        *seen_bytes - (int64_t)bytes, memory_order_acquire, memory_order_relaxed));
    return true;
}

void mbr_room_put(mbr_authority *authority, uint64_t bytes)
{
    /* Sequentially consistent for mbr_tickets_wake, which follows. */
    atomic_fetch_add(&authority->room_bytes, (int64_t)bytes);
}

/* Past the limit no credit may be granted from either. */
void mbr_room_take_past_limit(mbr_authority *authority, uint64_t bytes)
{
    mbr_lock_take(&authority->lock);
    uint64_t claimed = mbr_claimed_locked(authority);
    MBR_CHECK(mbr_add(claimed, bytes, &claimed) && claimed <= MBR_BYTES_LIMIT);
    atomic_fetch_sub_explicit(&authority->room_bytes, (int64_t)bytes, memory_order_acquire);
    if (mbr_room_read(authority) < 0)
        mbr_credit_collect_locked(authority);
    mbr_lock_drop(&authority->lock);
}

/* ---- Credit */
uint64_t mbr_credit_cap(uint64_t limit_bytes)
{
    uint64_t share = limit_bytes / MBR_CREDIT_SHARE / MBR_SLOT_COUNT;
    return share < MBR_CREDIT_MIN_BYTES ? 0 : mbr_min(share, MBR_CREDIT_MAX_BYTES);
}

void mbr_credit_collect_locked(mbr_authority *authority)
{
    uint32_t used = mbr_slot_used_count();
    for (uint32_t i = 0; i < used; i++)
        close_slot_locked(authority, &authority->slots[i]);
}

void mbr_authority_collect_credit(mbr_authority *authority)
{
    mbr_lock_take(&authority->lock);
    mbr_credit_collect_locked(authority);
    mbr_lock_drop(&authority->lock);
}

/* Whether a slot may take `filling` bytes, at most a few of its caps, and the opening share stays
 * free. Never while somebody waits: what is released then has to be seen. */
static bool room_is_ample(const mbr_authority *authority, uint64_t filling)
{
    if (atomic_load_explicit(&authority->waiting_count, memory_order_relaxed) != 0)
        return false;
    uint64_t limit = atomic_load_explicit(&authority->limit_bytes, memory_order_relaxed);
    return mbr_room_read(authority) >= (int64_t)(filling + limit / OPENING_SHARE);
}

/* Claims the bytes and what brings the slot to half its cap, in one step. */
static bool try_refill(mbr_authority *authority, mbr_slot *slot, uint64_t bytes)
{
    mbr_lock_take(&authority->lock);
    uint64_t half = atomic_load_explicit(&authority->credit_cap_bytes, memory_order_relaxed) / 2;
    uint64_t credit = atomic_load_explicit(&slot->credit_bytes, memory_order_relaxed);
    uint64_t have = credit == MBR_CREDIT_CLOSED ? 0 : credit;
    MBR_ASSERT(have < bytes); /* only its own thread puts into it */
    uint64_t wanted = half + bytes - have;
    int64_t seen;
    bool filled = room_is_ample(authority, wanted) && mbr_room_take(authority, wanted, &seen);
    if (filled)
        atomic_store_explicit(&slot->credit_bytes, half, memory_order_release);
    mbr_lock_drop(&authority->lock);
    return filled;
}

bool mbr_credit_claim(mbr_authority *authority, uint32_t slot_index, uint64_t bytes)
{
    uint64_t half = atomic_load_explicit(&authority->credit_cap_bytes, memory_order_relaxed) / 2;
    bool refill =
        slot_index != MBR_SLOT_SHARED && bytes <= half && room_is_ample(authority, half + bytes);
    if (refill && try_refill(authority, &authority->slots[slot_index], bytes))
        return true;
    int64_t seen;
    return mbr_room_take(authority, bytes, &seen);
}

void mbr_credit_spill(mbr_authority *authority, uint32_t slot_index, uint64_t bytes)
{
    mbr_slot *slot = &authority->slots[slot_index];
    uint64_t half = atomic_load_explicit(&authority->credit_cap_bytes, memory_order_relaxed) / 2;
    if (bytes > half ||
        atomic_load_explicit(&slot->credit_bytes, memory_order_relaxed) == MBR_CREDIT_CLOSED) {
        mbr_room_put(authority, bytes);
        return;
    }
    mbr_lock_take(&authority->lock);
    uint64_t credit = atomic_load_explicit(&slot->credit_bytes, memory_order_relaxed);
    bool above = credit != MBR_CREDIT_CLOSED && credit > half;
    if (above)
        atomic_store_explicit(&slot->credit_bytes, half, memory_order_release);
    mbr_room_put(authority, bytes + (above ? credit - half : 0));
    mbr_lock_drop(&authority->lock);
}
