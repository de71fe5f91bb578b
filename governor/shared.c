/* Responsible for membership of the shared ledger and for what each member has leased; for taking
 * members that are gone off the page. Never knows what a member does with its chunks.
 *
 * Every change is one store of one record, in an order that leaves the sum of leases at or above
 * what members use: a lease is stored before its bytes are used, bytes are given up before their
 * return is stored, a record is used before anything is leased in it. */
#include "governor/shared.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/base/error.h"
#include "abi/base/fork.h"
#include "governor/shared_file.h"

#include "membrane/allocator.h" /* MBR_UNKNOWN_BYTES */

#include <string.h>
#include <unistd.h>

/* After so many looks the member has given up what it was refused, or has been refused again. */
#define WANTED_LOOK_COUNT 2

struct mbr_shared {
    mbr_heap heap;
    mbr_clock clock;
    mbr_shared_file file;
    mbr_fork_guard guard;
    uint32_t index;
    uint64_t member;
    uint64_t leased_bytes;    /* as stored */
    uint32_t look_count;      /* since the last refusal */
    mbr_shared_record stored; /* the own one, as it stands in the page */
    mbr_shared_page page;     /* of the call that is being made */
};

/* ---- A change: begin, store, end */
static mbr_shared_record *own_record(mbr_shared *shared)
{
    return &shared->page.records[shared->index];
}

static mbr_status begin(mbr_shared *shared, mbr_error *error)
{
    if (mbr_fork_guard_is_child(&shared->guard))
        return mbr_fail(error, MBR_STALE,
            "a forked child is no member of its parent's shared ledger; let it join on its own: %s",
            shared->file.path);
    mbr_status status = mbr_shared_file_begin(&shared->file, &shared->page, error);
    if (status != MBR_OK)
        return status;
    const mbr_shared_record *own = own_record(shared);
    shared->stored = *own;
    if (own->member == shared->member && own->leased_bytes == shared->leased_bytes)
        return MBR_OK;
    mbr_shared_file_end(&shared->file);
    return mbr_fail(error, MBR_UNTRUSTED,
        "a damaged shared ledger: record %u is not what this member wrote; end its members and "
        "remove %s",
        shared->index, shared->file.path);
}

/* A store that failed may have been made all the same (an error is told late): what stood there is
 * stored once more, under the same lock, so that nobody has leased the difference meanwhile. */
static mbr_status store_own(mbr_shared *shared, mbr_error *error)
{
    mbr_status status =
        mbr_shared_file_store_record(&shared->file, &shared->page, shared->index, error);
    if (status == MBR_OK) {
        shared->leased_bytes = own_record(shared)->leased_bytes;
        shared->stored = *own_record(shared);
    } else {
        *own_record(shared) = shared->stored;
        (void)mbr_shared_file_store_record(&shared->file, &shared->page, shared->index, NULL);
    }
    return status;
}

/* By the other members that live. */
static uint64_t wanted(const mbr_shared *shared)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT; i++) {
        const mbr_shared_record *record = &shared->page.records[i];
        if (i != shared->index && record->gone_since_ns == 0)
            bytes += mbr_min(record->wanted_bytes, UINT64_MAX - bytes);
    }
    return bytes;
}

static void end(mbr_shared *shared, mbr_shared_view *view)
{
    mbr_shared_file_end(&shared->file);
    view->limit_bytes = shared->page.head.limit_bytes;
    view->leased_bytes = mbr_shared_page_leased(&shared->page);
    view->own_bytes = shared->leased_bytes;
    view->chunk_bytes = mbr_shared_chunk_bytes(view->limit_bytes);
    /* To be given back until the sum and what is wanted fit: limit >= leased + wanted. */
    uint64_t sum = view->leased_bytes;
    sum += mbr_min(wanted(shared), UINT64_MAX - sum);
    view->wanted_bytes = sum - mbr_min(sum, view->limit_bytes);
}

/* Without a view after a failure. */
static mbr_status end_with(mbr_shared *shared, mbr_status status, mbr_shared_view *view)
{
    if (status == MBR_OK)
        end(shared, view);
    else
        mbr_shared_file_end(&shared->file);
    return status;
}

/* ---- Members that are gone */
/* The driver takes the memory of a process back after its end, by and by. What the process had is
 * what it had leased, less what it may hold idle: its spare chunk and the rest of another. */
static bool has_risen(const mbr_shared *shared, const mbr_shared_record *gone, uint64_t free_bytes)
{
    if (free_bytes == MBR_UNKNOWN_BYTES || gone->gone_free_bytes == MBR_UNKNOWN_BYTES)
        return false;
    uint64_t idle = 2 * mbr_shared_chunk_bytes(shared->page.head.limit_bytes);
    uint64_t had = gone->leased_bytes - mbr_min(gone->leased_bytes, idle);
    return free_bytes > gone->gone_free_bytes && free_bytes - gone->gone_free_bytes >= had;
}

/* Notes that it is gone, or frees its record when its chunks may go back. True: it changed. */
static bool look_after(
    const mbr_shared *shared, mbr_shared_record *gone, uint64_t now_ns, uint64_t free_bytes)
{
    bool noted = gone->gone_since_ns != 0 && gone->gone_since_ns <= now_ns;
    bool is_due = noted &&
        (now_ns - gone->gone_since_ns >= MBR_SHARED_GONE_NS || has_risen(shared, gone, free_bytes));
    if (is_due || gone->leased_bytes == 0) {
        memset(gone, 0, sizeof(*gone));
        return true;
    }
    bool measured = gone->gone_free_bytes != MBR_UNKNOWN_BYTES;
    if (noted && (measured || free_bytes == MBR_UNKNOWN_BYTES))
        return false;
    gone->gone_since_ns = noted ? gone->gone_since_ns : now_ns;
    gone->gone_free_bytes = free_bytes;
    return true;
}

/* *living_count: members that are not gone, this one left out. */
static mbr_status look_after_all(
    mbr_shared *shared, uint64_t free_bytes, uint32_t *living_count, mbr_error *error)
{
    *living_count = 0;
    uint64_t now = mbr_max(mbr_clock_now(&shared->clock), 1); /* 0 is: not gone */
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT && status == MBR_OK; i++) {
        mbr_shared_record *record = &shared->page.records[i];
        if (record->member == 0 || record->member == shared->member)
            continue;
        if (mbr_shared_file_lives(&shared->file, i))
            ++*living_count;
        else if (look_after(shared, record, now, free_bytes))
            status = mbr_shared_file_store_record(&shared->file, &shared->page, i, error);
    }
    return status;
}

/* ---- Joining and leaving */
static mbr_status take_record(mbr_shared *shared, mbr_error *error)
{
    uint32_t index = 0;
    bool is_taken = false;
    mbr_status status = MBR_OK;
    for (; index < MBR_SHARED_MEMBER_LIMIT_COUNT; index++) {
        if (shared->page.records[index].member == 0)
            status = mbr_shared_file_try_lock_life(&shared->file, index, &is_taken, error);
        if (is_taken || status != MBR_OK)
            break;
    }
    if (status != MBR_OK)
        return status;
    if (!is_taken)
        return mbr_fail(error, MBR_OUT_OF_DESCRIPTORS,
            "the shared ledger has %d members, the most it can have; end one of %s",
            MBR_SHARED_MEMBER_LIMIT_COUNT, shared->file.path);
    uint64_t member = ++shared->page.head.last_member;
    status = mbr_shared_file_store_head(&shared->file, &shared->page, error);
    if (status != MBR_OK)
        return status;
    shared->index = index;
    shared->stored = *own_record(shared);
    *own_record(shared) = (mbr_shared_record){.member = member, .pid = (uint32_t)getpid()};
    status = store_own(shared, error);
    shared->member = member;
    return status;
}

/* A ledger's limit lives as long as a member does. */
static mbr_status join(mbr_shared *shared, uint64_t limit_bytes, mbr_error *error)
{
    mbr_shared_head *head = &shared->page.head;
    uint32_t living_count;
    mbr_status status = look_after_all(shared, MBR_UNKNOWN_BYTES, &living_count, error);
    if (status == MBR_OK && living_count == 0 && head->limit_bytes != limit_bytes) {
        head->limit_bytes = limit_bytes;
        head->revision++;
    }
    if (status == MBR_OK)
        status = take_record(shared, error); /* stores the head */
    mbr_shared_file_end(&shared->file);
    return status;
}

mbr_status mbr_shared_join(const mbr_shared_place *place, const mbr_heap *heap,
    uint64_t limit_bytes, mbr_shared **shared, mbr_error *error)
{
    *shared = NULL;
    if (limit_bytes > MBR_SHARED_BYTES_LIMIT)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "a shared ledger's limit is at most 2^63 - 1 bytes, not %llu",
            (unsigned long long)limit_bytes);
    heap = heap != NULL ? heap : &mbr_heap_libc;
    mbr_shared *made = mbr_heap_allocate(heap, sizeof(*made));
    if (made == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY,
            "no %zu bytes of heap for a shared ledger's member", sizeof(*made));
    made->heap = *heap;
    made->clock = place->clock != NULL ? *place->clock : mbr_clock_monotonic;
    made->look_count = WANTED_LOOK_COUNT;
    mbr_fork_guard_init(&made->guard);
    mbr_status status = mbr_shared_file_open(
        &made->file, place, MBR_SHARED_CREATE, limit_bytes, &made->page, error);
    if (status != MBR_OK)
        goto finish_guard;
    status = join(made, limit_bytes, error);
    if (status != MBR_OK)
        goto close_file;
    *shared = made;
    return MBR_OK;
close_file:
    mbr_shared_file_close(&made->file);
finish_guard:
    mbr_fork_guard_finish(&made->guard);
    mbr_heap_release(heap, made);
    return status;
}

static bool has_records(const mbr_shared_page *page)
{
    for (uint32_t i = 0; i < MBR_SHARED_MEMBER_LIMIT_COUNT; i++) {
        if (page->records[i].member != 0)
            return true;
    }
    return false;
}

void mbr_shared_leave(mbr_shared *shared)
{
    if (shared == NULL)
        return;
    /* Where it cannot be written, or is the parent's, the record goes the way of those who die. */
    if (begin(shared, NULL) == MBR_OK) {
        memset(own_record(shared), 0, sizeof(mbr_shared_record));
        store_own(shared, NULL);
        mbr_shared_file_unlock_life(&shared->file, shared->index);
        if (!has_records(&shared->page))
            mbr_shared_file_remove(&shared->file);
        mbr_shared_file_end(&shared->file);
    }
    mbr_shared_file_close(&shared->file);
    mbr_fork_guard_finish(&shared->guard);
    mbr_heap heap = shared->heap;
    mbr_heap_release(&heap, shared);
}

/* ---- Leases */
/* Whole chunks as far as they are there; what the device gave already whatever is there. */
static uint64_t amount(const mbr_shared_page *page, uint64_t bytes, bool past_limit)
{
    uint64_t limit = page->head.limit_bytes, leased = mbr_shared_page_leased(page);
    uint64_t free = limit - mbr_min(limit, leased);
    uint64_t chunks;
    if (!mbr_align_up(bytes, mbr_shared_chunk_bytes(limit), &chunks))
        chunks = bytes;
    if (chunks <= free)
        return chunks;
    return past_limit ? mbr_min(bytes, MBR_SHARED_BYTES_LIMIT - leased) : free;
}

static mbr_status lease(mbr_shared *shared, uint64_t bytes, uint64_t claimed_bytes, bool past_limit,
    mbr_shared_view *view, mbr_error *error)
{
    *view = (mbr_shared_view){0};
    mbr_status status = begin(shared, error);
    if (status != MBR_OK)
        return status;
    uint32_t living_count;
    status = look_after_all(shared, MBR_UNKNOWN_BYTES, &living_count, error);
    uint64_t there = amount(&shared->page, bytes, past_limit);
    bool refused = there < bytes;
    mbr_shared_record *own = own_record(shared);
    own->claimed_bytes = claimed_bytes;
    own->wanted_bytes = refused ? bytes : 0;
    own->leased_bytes += refused ? 0 : there;
    if (refused)
        shared->look_count = 0;
    if (status == MBR_OK)
        status = store_own(shared, error);
    if (status != MBR_OK) {
        mbr_shared_file_end(&shared->file);
        return status;
    }
    end(shared, view);
    if (!refused)
        return MBR_OK;
    return mbr_fail_bytes(error, MBR_OVER_BUDGET, bytes, there,
        "%llu bytes are wanted of the shared ledger, %llu of its limit of %llu are free; wait for "
        "another member, or raise the limit of %s",
        (unsigned long long)bytes, (unsigned long long)there, (unsigned long long)view->limit_bytes,
        shared->file.path);
}

mbr_status mbr_shared_lease(mbr_shared *shared, uint64_t bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error)
{
    return lease(shared, bytes, claimed_bytes, false, view, error);
}

mbr_status mbr_shared_lease_past_limit(mbr_shared *shared, uint64_t bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error)
{
    return lease(shared, bytes, claimed_bytes, true, view, error);
}

mbr_status mbr_shared_return(mbr_shared *shared, uint64_t bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error)
{
    MBR_CHECK(bytes <= shared->leased_bytes);
    *view = (mbr_shared_view){0};
    mbr_status status = begin(shared, error);
    if (status != MBR_OK)
        return status;
    own_record(shared)->leased_bytes -= bytes;
    own_record(shared)->claimed_bytes = claimed_bytes;
    status = store_own(shared, error);
    return end_with(shared, status, view);
}

mbr_status mbr_shared_look(mbr_shared *shared, uint64_t free_bytes, uint64_t claimed_bytes,
    mbr_shared_view *view, mbr_error *error)
{
    *view = (mbr_shared_view){0};
    mbr_status status = begin(shared, error);
    if (status != MBR_OK)
        return status;
    mbr_shared_record *own = own_record(shared), before = *own;
    own->claimed_bytes = claimed_bytes;
    if (shared->look_count < WANTED_LOOK_COUNT && ++shared->look_count == WANTED_LOOK_COUNT)
        own->wanted_bytes = 0;
    uint32_t living_count;
    status = look_after_all(shared, free_bytes, &living_count, error);
    if (status == MBR_OK && memcmp(own, &before, sizeof(before)) != 0)
        status = store_own(shared, error);
    return end_with(shared, status, view);
}

mbr_status mbr_shared_audit(mbr_shared *shared, uint64_t *leased_bytes, mbr_error *error)
{
    *leased_bytes = 0;
    mbr_status status = begin(shared, error);
    if (status != MBR_OK)
        return status;
    *leased_bytes = own_record(shared)->leased_bytes;
    mbr_shared_file_end(&shared->file);
    return MBR_OK;
}
