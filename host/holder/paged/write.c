/* Tokens that come, are overwritten and go: append, prepare, rewind, and what a window drops.
 * Writes no row itself. */
#include "host/holder/paged/internal.h"

/* ---- Append */

static void drop_behind_locked(mbr_paged *store, mbr_paged_record *record)
    MBR_REQUIRES(&store->lock)
{
    uint64_t keep =
        mbr_paged_window_first(&store->shape, record->tokens) / store->shape.page_tokens;
    while (record->first_slot < keep)
        mbr_paged_empty_slot_locked(store, record, record->first_slot++);
}

static mbr_status append_locked(mbr_paged *store, mbr_paged_record *record, uint64_t tokens,
    mbr_refusal *refusal, mbr_error *error) MBR_REQUIRES(&store->lock)
{
    const mbr_paged_shape *shape = &store->shape;
    if (tokens > shape->max_tokens - record->tokens)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "%lu tokens behind %lu are above the store's max_tokens %lu", tokens, record->tokens,
            shape->max_tokens);
    uint64_t end = record->tokens + tokens;
    mbr_status status = MBR_OK;
    if (tokens != 0)
        status =
            mbr_paged_move_locked(store, record, (uint32_t)(record->tokens / shape->page_tokens),
                (uint32_t)mbr_paged_slots_of(shape, end), MBR_PAGED_WRITE, refusal, error);
    if (status != MBR_OK)
        return status;
    drop_behind_locked(store, record);
    record->tokens = end;
    mbr_paged_quieten_locked(store, record);
    mbr_area_trim_locked(store, &store->own, store->keep_count);
    return MBR_OK;
}

/* Inside the last page, which this sequence alone has and where nothing falls behind the window. */
static bool append_quietly(mbr_paged *store, mbr_paged_sequence sequence, uint64_t tokens)
{
    mbr_paged_record *record = mbr_table_find(&store->sequences, sequence.value);
    if (record == NULL || tokens == 0 || record->quiet_tokens < record->tokens ||
        tokens > record->quiet_tokens - record->tokens)
        return false;
    record->tokens += tokens;
    return true;
}

mbr_status mbr_paged_append(mbr_paged *store, mbr_paged_sequence sequence, uint64_t tokens,
    mbr_refusal *refusal, mbr_error *error)
{
    if (append_quietly(store, sequence, tokens))
        return MBR_OK;
    mbr_status status;
    mbr_lock_take(&store->lock);
    mbr_paged_record *record = mbr_paged_find_locked(store, sequence, true, &status, error);
    if (record != NULL)
        status = append_locked(store, record, tokens, refusal, error);
    mbr_lock_drop(&store->lock);
    return status;
}

/* ---- Prepare */

static mbr_status check_rows_locked(const mbr_paged *store, const mbr_paged_record *record,
    uint64_t first_token, uint64_t tokens, mbr_error *error) MBR_REQUIRES(&store->lock)
{
    const mbr_paged_shape *shape = &store->shape;
    uint64_t end;
    if (!mbr_add(first_token, tokens, &end) || end > record->tokens)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "tokens %lu and %lu more of a sequence of %lu",
            first_token, tokens, record->tokens);
    uint64_t sink_end = shape->sink_slot_count * shape->page_tokens;
    uint64_t first_left = record->first_slot * shape->page_tokens;
    if (tokens != 0 && end > sink_end && mbr_max(first_token, sink_end) < first_left)
        return mbr_fail(error, MBR_OUT_OF_RANGE,
            "tokens from %lu to %lu were dropped behind the window; %lu and later ones are there",
            sink_end, first_left, first_left);
    return MBR_OK;
}

static mbr_status prepare_locked(mbr_paged *store, mbr_paged_record *record, uint64_t first_token,
    uint64_t tokens, mbr_refusal *refusal, mbr_error *error) MBR_REQUIRES(&store->lock)
{
    const mbr_paged_shape *shape = &store->shape;
    mbr_status status = check_rows_locked(store, record, first_token, tokens, error);
    if (status != MBR_OK || tokens == 0)
        return status;
    status = mbr_paged_move_locked(store, record, (uint32_t)(first_token / shape->page_tokens),
        (uint32_t)mbr_paged_slots_of(shape, first_token + tokens), MBR_PAGED_WRITE, refusal, error);
    if (status != MBR_OK)
        return status;
    mbr_paged_quieten_locked(store, record);
    mbr_area_trim_locked(store, &store->own, store->keep_count);
    return MBR_OK;
}

mbr_status mbr_paged_prepare(mbr_paged *store, mbr_paged_sequence sequence, uint64_t first_token,
    uint64_t tokens, mbr_refusal *refusal, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&store->lock);
    mbr_paged_record *record = mbr_paged_find_locked(store, sequence, true, &status, error);
    if (record != NULL)
        status = prepare_locked(store, record, first_token, tokens, refusal, error);
    mbr_lock_drop(&store->lock);
    return status;
}

/* ---- Rewind */

/* A shorter sequence looks further back than the longer one did: the rows must still be there. */
static mbr_status check_rewind_locked(const mbr_paged *store, const mbr_paged_record *record,
    uint64_t tokens, mbr_error *error) MBR_REQUIRES(&store->lock)
{
    const mbr_paged_shape *shape = &store->shape;
    if (tokens > record->tokens)
        return mbr_fail(error, MBR_OUT_OF_RANGE, "back to %lu tokens of a sequence of %lu", tokens,
            record->tokens);
    bool whole = record->first_slot == shape->sink_slot_count ||
        mbr_paged_slots_of(shape, tokens) <= shape->sink_slot_count;
    uint64_t first_left = record->first_slot * shape->page_tokens;
    if (whole || mbr_paged_window_first(shape, tokens) >= first_left)
        return MBR_OK;
    return mbr_fail(error, MBR_OUT_OF_RANGE,
        "the window of %lu tokens has lost rows before %lu; %lu and more, or at most %lu would "
        "work",
        tokens, first_left, first_left + shape->window_tokens,
        shape->sink_slot_count * shape->page_tokens);
}

static mbr_status rewind_locked(mbr_paged *store, mbr_paged_record *record, uint64_t tokens,
    mbr_error *error) MBR_REQUIRES(&store->lock)
{
    mbr_status status = check_rewind_locked(store, record, tokens, error);
    if (status != MBR_OK)
        return status;
    uint32_t slot_count = (uint32_t)mbr_paged_slots_of(&store->shape, tokens);
    for (uint32_t slot = slot_count; slot < record->slot_count; slot++)
        mbr_paged_empty_slot_locked(store, record, slot);
    record->slot_count = slot_count;
    if (slot_count <= store->shape.sink_slot_count)
        record->first_slot = store->shape.sink_slot_count;
    record->tokens = tokens;
    mbr_paged_quieten_locked(store, record);
    mbr_area_trim_locked(store, &store->own, store->keep_count);
    return MBR_OK;
}

mbr_status mbr_paged_rewind(
    mbr_paged *store, mbr_paged_sequence sequence, uint64_t tokens, mbr_error *error)
{
    mbr_status status;
    mbr_lock_take(&store->lock);
    mbr_paged_record *record = mbr_paged_find_locked(store, sequence, true, &status, error);
    if (record != NULL)
        status = rewind_locked(store, record, tokens, error);
    mbr_lock_drop(&store->lock);
    return status;
}
