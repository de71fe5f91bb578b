/* The transaction behind every page that changes its place: taken, filled, then put where the old
 * one stood. Decides about nothing, and frees no page that others still have. */
#include "host/holder/paged/internal.h"

typedef struct mbr_paged_plan {
    mbr_paged_area *area; /* of the new pages */
    mbr_paged_purpose purpose;
    uint32_t count;
    mbr_paged_move *moves;
    mbr_paged_move inline_moves[MBR_PAGED_MOVE_INLINE_COUNT];
} mbr_paged_plan;

/* ---- What moves */

static bool wants_locked(const mbr_paged *store, const mbr_paged_record *record, uint32_t slot,
    mbr_paged_purpose purpose) MBR_REQUIRES(&store->lock)
{
    if (slot >= record->slot_count)
        return true;
    uint32_t page = record->slots[slot];
    if (page == MBR_PAGED_NO_PAGE)
        return false;
    if ((page & MBR_PAGED_SAVED) != 0)
        return purpose == MBR_PAGED_RESTORE;
    bool alone = store->own.pages[page].ref_count == 1;
    return purpose == MBR_PAGED_WRITE ? !alone : purpose == MBR_PAGED_SAVE && alone;
}

static mbr_status plan_locked(mbr_paged *store, const mbr_paged_record *record, uint32_t first,
    uint32_t end, mbr_paged_plan *plan, mbr_error *error) MBR_REQUIRES(&store->lock)
{
    uint32_t count = 0;
    for (uint32_t slot = first; slot < end; slot++)
        count += wants_locked(store, record, slot, plan->purpose);
    plan->moves = plan->inline_moves;
    if (count > MBR_PAGED_MOVE_INLINE_COUNT)
        plan->moves = mbr_heap_allocate(&store->heap, count * sizeof(*plan->moves));
    if (plan->moves == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory to move %u pages", count);
    for (uint32_t slot = first; slot < end; slot++)
        if (wants_locked(store, record, slot, plan->purpose))
            plan->moves[plan->count++].slot = slot;
    return MBR_OK;
}

/* Room in the list for `count` slots; what is new of it is dropped until it is put in. */
static mbr_status widen(
    mbr_paged *store, mbr_paged_record *record, uint32_t count, mbr_error *error)
{
    if (count <= record->slot_capacity)
        return MBR_OK;
    uint64_t capacity =
        mbr_max(count, mbr_min(2 * (uint64_t)record->slot_capacity, MBR_PAGED_SLOT_LIMIT_COUNT));
    uint32_t *slots = mbr_heap_allocate(&store->heap, capacity * sizeof(*slots));
    if (slots == NULL)
        return mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a list of %u pages", count);
    if (record->slot_count != 0)
        memcpy(slots, record->slots, record->slot_count * sizeof(*slots));
    mbr_heap_release(&store->heap, record->slots);
    record->slots = slots;
    record->slot_capacity = (uint32_t)capacity;
    return MBR_OK;
}

/* ---- Contents */

static uint64_t live_bytes(const mbr_paged *store, const mbr_paged_record *record, uint32_t slot)
{
    uint64_t first = slot * store->shape.page_tokens;
    uint64_t rows = record->tokens > first ? record->tokens - first : 0;
    return mbr_min(rows, store->shape.page_tokens) * store->shape.token_bytes;
}

/* With no lock held: what is copied from stays as it is while this record has it too, and what is
 * copied to is nobody's yet. Returns the bytes. */
static uint64_t copy_rows(
    const mbr_paged *store, const mbr_paged_record *record, const mbr_paged_plan *plan)
{
    uint64_t copied = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t slot = plan->moves[i].slot;
        if (slot >= record->slot_count)
            break; /* the slots rise: the rest is new */
        uint32_t from = record->slots[slot];
        const mbr_paged_area *area = (from & MBR_PAGED_SAVED) != 0 ? &store->saved : &store->own;
        uint64_t bytes = live_bytes(store, record, slot);
        memcpy((void *)mbr_area_address(store, plan->area, plan->moves[i].page),
            (const void *)mbr_area_address(store, area, from & ~MBR_PAGED_SAVED), bytes);
        copied += bytes;
    }
    return copied;
}

/* ---- Publication */

static void put_in_locked(mbr_paged *store, mbr_paged_record *record, const mbr_paged_plan *plan,
    const mbr_paged_move *move) MBR_REQUIRES(&store->lock)
{
    if (move->slot < record->slot_count)
        mbr_paged_empty_slot_locked(store, record, move->slot);
    else
        record->slot_count = move->slot + 1;
    if (plan->purpose == MBR_PAGED_SAVE) {
        record->slots[move->slot] = MBR_PAGED_SAVED | move->page;
        record->saved_count++;
        return;
    }
    record->slots[move->slot] = move->page;
    mbr_paged_ref_locked(store, record, move->page);
}

static bool copies(const mbr_paged_record *record, const mbr_paged_plan *plan)
{
    return plan->count != 0 && plan->moves[0].slot < record->slot_count;
}

static void carry_out_locked(mbr_paged *store, mbr_paged_record *record, const mbr_paged_plan *plan)
    MBR_REQUIRES(&store->lock)
{
    if (copies(record, plan)) {
        mbr_lock_drop(&store->lock);
        uint64_t copied = copy_rows(store, record, plan);
        mbr_lock_take(&store->lock);
        store->copied_bytes += plan->purpose == MBR_PAGED_WRITE ? copied : 0;
    }
    for (uint32_t i = 0; i < plan->count; i++)
        put_in_locked(store, record, plan, &plan->moves[i]);
}

mbr_status mbr_paged_move_locked(mbr_paged *store, mbr_paged_record *record, uint32_t first,
    uint32_t end, mbr_paged_purpose purpose, mbr_refusal *refusal, mbr_error *error)
{
    mbr_paged_plan plan = {
        .purpose = purpose, .area = purpose == MBR_PAGED_SAVE ? &store->saved : &store->own};
    mbr_status status = widen(store, record, end, error);
    if (status == MBR_OK)
        status = plan_locked(store, record, first, end, &plan, error);
    if (status != MBR_OK)
        return status;
    status = mbr_area_take_locked(store, plan.area, plan.moves, plan.count, refusal, error);
    if (status == MBR_OK)
        carry_out_locked(store, record, &plan);
    if (plan.moves != plan.inline_moves)
        mbr_heap_release(&store->heap, plan.moves);
    return status;
}
