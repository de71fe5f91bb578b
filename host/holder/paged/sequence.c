/* Sequences: their records, which pages they have, and what is said of them. Takes no page and
 * moves none: write.c and preempt.c do. */
#include "host/holder/paged/internal.h"

#include <utlist.h>

static const char *const state_names[] = {"resident", "offered", "moving", "preempted"};
static const uint32_t successors[] = {
    [MBR_PAGED_RESIDENT] = MBR_STATE_BIT(MBR_PAGED_OFFERED) | MBR_STATE_BIT(MBR_PAGED_MOVING),
    [MBR_PAGED_OFFERED] = MBR_STATE_BIT(MBR_PAGED_RESIDENT) | MBR_STATE_BIT(MBR_PAGED_MOVING),
    [MBR_PAGED_MOVING] = MBR_STATE_BIT(MBR_PAGED_RESIDENT) | MBR_STATE_BIT(MBR_PAGED_OFFERED) |
        MBR_STATE_BIT(MBR_PAGED_PREEMPTED),
    [MBR_PAGED_PREEMPTED] = MBR_STATE_BIT(MBR_PAGED_MOVING),
};

const mbr_state_table mbr_paged_states = {
    .machine = "paged sequence",
    .names = state_names,
    .successors = successors,
    .count = MBR_PAGED_STATE_COUNT,
};

void mbr_paged_set_state(mbr_paged_record *record, uint32_t state)
{
    MBR_CHECK(mbr_state_allows(&mbr_paged_states, record->state, state));
    record->state = state;
}

mbr_paged_record *mbr_paged_find_locked(mbr_paged *store, mbr_paged_sequence sequence,
    bool resident, mbr_status *status, mbr_error *error)
{
    mbr_paged_record *record = mbr_table_find(&store->sequences, sequence.value);
    while (record != NULL && record->state == MBR_PAGED_MOVING) {
        mbr_condition_wait(&store->moved, &store->lock, UINT64_MAX);
        record = mbr_table_find(&store->sequences, sequence.value);
    }
    *status = MBR_OK;
    if (record == NULL) {
        *status = mbr_table_explain(&store->sequences, sequence.value, error);
    } else if (resident && record->state != MBR_PAGED_RESIDENT) {
        *status = mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the sequence is %s; mbr_paged_restore would work first", state_names[record->state]);
        return NULL;
    }
    return record;
}

/* ---- References */

void mbr_paged_ref_locked(mbr_paged *store, mbr_paged_record *record, uint32_t page)
{
    mbr_paged_page *it = &store->own.pages[page];
    if (it->ref_count == 0) {
        record->exclusive_count++;
        store->exclusive_count++;
    } else if (it->ref_count == 1) {
        ((mbr_paged_record *)it->holders)->exclusive_count--;
        store->exclusive_count--;
        store->shared_count++;
    }
    it->holders ^= (uintptr_t)record;
    it->ref_count++;
    record->held_count++;
}

void mbr_paged_unref_locked(mbr_paged *store, mbr_paged_record *record, uint32_t page)
{
    mbr_paged_page *it = &store->own.pages[page];
    MBR_CHECK(it->ref_count != 0);
    it->holders ^= (uintptr_t)record;
    it->ref_count--;
    record->held_count--;
    if (it->ref_count == 1) {
        ((mbr_paged_record *)it->holders)->exclusive_count++;
        store->exclusive_count++;
        store->shared_count--;
    } else if (it->ref_count == 0) {
        MBR_ASSERT(it->holders == 0);
        record->exclusive_count--;
        store->exclusive_count--;
        mbr_area_put_locked(store, &store->own, page);
    }
}

void mbr_paged_empty_slot_locked(mbr_paged *store, mbr_paged_record *record, uint32_t slot)
{
    uint32_t page = record->slots[slot];
    record->slots[slot] = MBR_PAGED_NO_PAGE;
    if (page == MBR_PAGED_NO_PAGE)
        return;
    if ((page & MBR_PAGED_SAVED) == 0) {
        mbr_paged_unref_locked(store, record, page);
        return;
    }
    mbr_area_put_locked(store, &store->saved, page & ~MBR_PAGED_SAVED);
    record->saved_count--;
}

void mbr_paged_quieten_locked(mbr_paged *store, mbr_paged_record *record)
{
    const mbr_paged_shape *shape = &store->shape;
    uint64_t quiet = record->tokens;
    if (record->tokens % shape->page_tokens != 0 &&
        store->own.pages[record->slots[record->slot_count - 1]].ref_count == 1)
        quiet = mbr_min(record->slot_count * shape->page_tokens, shape->max_tokens);
    if (shape->window_tokens != 0) /* whoever begins here or behind it drops a page */
        quiet = mbr_min(
            quiet, (record->first_slot + UINT64_C(1)) * shape->page_tokens + shape->window_tokens);
    record->quiet_tokens = quiet;
}

/* ---- Life */

static mbr_paged_record *make_record(mbr_paged *store, uint32_t slot_count, mbr_error *error)
{
    mbr_paged_record *record = mbr_heap_allocate(&store->heap, sizeof(*record));
    if (record != NULL && slot_count != 0)
        record->slots = mbr_heap_allocate(&store->heap, slot_count * sizeof(*record->slots));
    if (record == NULL || (slot_count != 0 && record->slots == NULL)) {
        mbr_heap_release(&store->heap, record);
        mbr_fail(
            error, MBR_OUT_OF_HOST_MEMORY, "no host memory for a sequence of %u pages", slot_count);
        return NULL;
    }
    record->slot_capacity = slot_count;
    record->first_slot = store->shape.sink_slot_count;
    return record;
}

mbr_status mbr_paged_begin(mbr_paged *store, mbr_paged_sequence *sequence, mbr_error *error)
{
    mbr_status status = mbr_table_prepare(&store->sequences, &sequence->value, error);
    if (status != MBR_OK)
        return status;
    mbr_paged_record *record = make_record(store, 0, error);
    if (record == NULL) {
        mbr_table_take(&store->sequences, sequence->value);
        sequence->value = 0;
        return MBR_OUT_OF_HOST_MEMORY;
    }
    mbr_lock_take(&store->lock);
    store->sequence_count++;
    mbr_lock_drop(&store->lock);
    mbr_table_publish(&store->sequences, sequence->value, record);
    return MBR_OK;
}

/* The same pages, each with a reference more; the last one too, which ends the source's quiet. */
static mbr_status fork_locked(mbr_paged *store, mbr_paged_sequence from, mbr_paged_record **child,
    mbr_error *error) MBR_REQUIRES(&store->lock)
{
    mbr_status status;
    mbr_paged_record *source = mbr_paged_find_locked(store, from, true, &status, error);
    if (source == NULL)
        return status;
    mbr_paged_record *record = make_record(store, source->slot_count, error);
    if (record == NULL)
        return MBR_OUT_OF_HOST_MEMORY;
    record->slot_count = source->slot_count;
    record->first_slot = source->first_slot;
    record->tokens = source->tokens;
    for (uint32_t i = 0; i < source->slot_count; i++) {
        record->slots[i] = source->slots[i];
        if (record->slots[i] != MBR_PAGED_NO_PAGE)
            mbr_paged_ref_locked(store, record, record->slots[i]);
    }
    mbr_paged_quieten_locked(store, source);
    mbr_paged_quieten_locked(store, record);
    store->sequence_count++;
    *child = record;
    return MBR_OK;
}

mbr_status mbr_paged_fork(
    mbr_paged *store, mbr_paged_sequence source, mbr_paged_sequence *sequence, mbr_error *error)
{
    mbr_paged_record *record = NULL;
    mbr_status status = mbr_table_prepare(&store->sequences, &sequence->value, error);
    if (status != MBR_OK)
        return status;
    mbr_lock_take(&store->lock);
    status = fork_locked(store, source, &record, error);
    mbr_lock_drop(&store->lock);
    if (status == MBR_OK) {
        mbr_table_publish(&store->sequences, sequence->value, record);
        return MBR_OK;
    }
    mbr_table_take(&store->sequences, sequence->value);
    sequence->value = 0;
    return status;
}

mbr_status mbr_paged_end(mbr_paged *store, mbr_paged_sequence sequence, mbr_error *error)
{
    mbr_paged_record *record = mbr_table_take(&store->sequences, sequence.value);
    if (record == NULL)
        return mbr_table_explain(&store->sequences, sequence.value, error);
    mbr_lock_take(&store->lock);
    while (record->state == MBR_PAGED_MOVING)
        mbr_condition_wait(&store->moved, &store->lock, UINT64_MAX);
    for (uint32_t i = 0; i < record->slot_count; i++)
        mbr_paged_empty_slot_locked(store, record, i);
    MBR_CHECK(record->held_count + record->exclusive_count + record->saved_count == 0);
    if (record->state != MBR_PAGED_RESIDENT)
        DL_DELETE(store->yielding, record);
    store->sequence_count--;
    mbr_area_trim_locked(store, &store->own, store->keep_count);
    mbr_area_trim_locked(store, &store->saved, 0);
    mbr_lock_drop(&store->lock);
    mbr_heap_release(&store->heap, record->slots);
    mbr_heap_release(&store->heap, record);
    return MBR_OK;
}

/* ---- Looking */

mbr_status mbr_paged_read_sequence(mbr_paged *store, mbr_paged_sequence sequence,
    mbr_paged_sequence_figures *figures, mbr_error *error)
{
    mbr_paged_sequence_figures whole = {MBR_SIZED(mbr_paged_sequence_figures)};
    mbr_status status;
    mbr_lock_take(&store->lock);
    const mbr_paged_record *record = mbr_paged_find_locked(store, sequence, false, &status, error);
    if (record != NULL) {
        whole.state = record->state;
        whole.tokens = record->tokens;
        whole.page_count = record->held_count;
        whole.exclusive_page_count = record->exclusive_count;
        whole.shared_page_count = record->held_count - record->exclusive_count;
        whole.saved_page_count = record->saved_count;
        if (record->first_slot != store->shape.sink_slot_count) {
            whole.sink_tokens = store->shape.sink_slot_count * store->shape.page_tokens;
            whole.first_token = record->first_slot * store->shape.page_tokens;
        }
    }
    mbr_lock_drop(&store->lock);
    mbr_growable_give(figures, &whole, sizeof(whole));
    return status;
}

static mbr_status locate_locked(mbr_paged *store, const mbr_paged_record *record, uint64_t token,
    uint64_t *address, uint64_t *rows, mbr_error *error) MBR_REQUIRES(&store->lock)
{
    const mbr_paged_shape *shape = &store->shape;
    if (token >= record->tokens)
        return mbr_fail(
            error, MBR_OUT_OF_RANGE, "token %lu of a sequence of %lu", token, record->tokens);
    uint32_t page = record->slots[token / shape->page_tokens];
    if (page == MBR_PAGED_NO_PAGE)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "token %lu was dropped behind the window; %lu and later ones are there", token,
            record->first_slot * shape->page_tokens);
    uint64_t row = token % shape->page_tokens;
    *address = mbr_area_address(store, &store->own, page) + row * shape->token_bytes;
    *rows = mbr_min(shape->page_tokens - row, record->tokens - token);
    return MBR_OK;
}

mbr_status mbr_paged_locate(mbr_paged *store, mbr_paged_sequence sequence, uint64_t token,
    uint64_t *address, uint64_t *rows, mbr_error *error)
{
    uint64_t found_rows = 0;
    mbr_status status;
    *address = 0;
    mbr_lock_take(&store->lock);
    const mbr_paged_record *record = mbr_paged_find_locked(store, sequence, true, &status, error);
    if (record != NULL)
        status = locate_locked(store, record, token, address, &found_rows, error);
    mbr_lock_drop(&store->lock);
    if (rows != NULL)
        *rows = found_rows;
    return status;
}

mbr_status mbr_paged_list_pages(mbr_paged *store, mbr_paged_sequence sequence, uint64_t first_page,
    uint64_t page_count, uint32_t *pages, mbr_error *error)
{
    uint64_t end;
    mbr_status status;
    mbr_lock_take(&store->lock);
    const mbr_paged_record *record = mbr_paged_find_locked(store, sequence, true, &status, error);
    if (record != NULL && (!mbr_add(first_page, page_count, &end) || end > record->slot_count))
        status = mbr_fail(error, MBR_OUT_OF_RANGE, "pages %lu and %lu more of a sequence of %u",
            first_page, page_count, record->slot_count);
    else if (record != NULL && page_count != 0)
        memcpy(pages, &record->slots[first_page], page_count * sizeof(*pages));
    mbr_lock_drop(&store->lock);
    return status;
}
