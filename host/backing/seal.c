/* Sealed places, a debug option: a range that a prefix was made of may only read there, until the
 * extent is nobody else's any more. Sets access alone; waits for no device: whoever closes a place
 * knows that nobody writes there any more. */
#include "host/backing/internal.h"

#include <inttypes.h>
#include <utlist.h>

/* ---- Closing --------------------------------------------------------------------------------- */

mbr_status mbr_prefix_check_seal(const mbr_prefix *prefix, mbr_error *error)
{
    const mbr_mechanism *mechanism = prefix->backing->mechanism;
    if (mechanism->read_only_enforced)
        return MBR_OK;
    return mbr_fail(error, MBR_UNSUPPORTED,
        "mechanism %s enforces no read-only access (fact READ_ONLY_ENFORCED), so that a protected "
        "prefix could be written all the same; share it without protection",
        mechanism->description.name);
}

mbr_slot *mbr_seal_place_locked(const mbr_keep *keep)
{
    mbr_range *range = keep->source;
    uint64_t index = mbr_extent_rule_count(&keep->prefix->rules[keep->piece], keep->offset_bytes);
    if (range->ended || index >= range->slot_count)
        return NULL;
    mbr_slot *slot = &range->slots[index];
    bool is_own = slot->extent == keep->extent && slot->state == MBR_SLOT_COMMITTED;
    return is_own ? slot : NULL;
}

static mbr_status check_range(const mbr_range *range, mbr_error *error)
{
    if (range->pin_count != 0)
        return mbr_fail(error, MBR_BUSY,
            "%" PRIu64
            " pins hold the prefix's range, whose access is not narrowed; unpin it first",
            range->pin_count);
    return mbr_context_check_active(range->context, error);
}

/* Without the lock, by the editor. Inside the gate: no capture begins meanwhile that would write
 * there. */
static mbr_status close_access(
    mbr_range *range, const mbr_keep *keep, mbr_answer *answer, mbr_error *error)
{
    mbr_port *port = range->backing->port;
    *answer = (mbr_answer){.unchanged = true};
    if (!mbr_port_try_enter_gate(port))
        return mbr_fail(error, MBR_BUSY,
            "a graph is being captured, and no access is narrowed meanwhile; end the capture "
            "first");
    mbr_status status = mbr_range_must_wait(range)
        ? mbr_fail(error, MBR_BUSY,
              "a graph may write at offset %" PRIu64 " of the prefix's range; retire it first",
              keep->offset_bytes)
        : mbr_port_protect(port, range->reservation_id, keep->offset_bytes, keep->extent->bytes,
              MBR_ACCESS_READ, answer, error);
    mbr_port_leave_gate(port);
    return status;
}

/* Once nobody edits its range. NULL: there is nothing to close; its range may have ended long ago,
 * and the record serve another one, which nobody waits for. One that is ending may be refused its
 * end. */
static mbr_status await_place_locked(mbr_backing *backing, const mbr_keep *keep, mbr_slot **slot,
    mbr_error *error) MBR_REQUIRES(&backing->lock)
{
    mbr_range *range = keep->source;
    bool is_ending = range->editor == &range->deferred;
    *slot = mbr_seal_place_locked(keep);
    if (*slot == NULL && !is_ending)
        return MBR_OK;
    mbr_status status = mbr_range_try_await_editor(backing, range, error);
    *slot = status == MBR_OK ? mbr_seal_place_locked(keep) : NULL;
    return status;
}

static mbr_status close_place(const mbr_keep *keep, mbr_error *error)
{
    int editor;
    mbr_answer answer;
    mbr_range *range = keep->source;
    mbr_backing *backing = keep->prefix->backing;
    mbr_lock_take(&backing->lock);
    mbr_slot *slot;
    mbr_status status = await_place_locked(backing, keep, &slot, error);
    if (slot != NULL)
        status = check_range(range, error);
    bool closes = slot != NULL && status == MBR_OK;
    if (closes)
        mbr_range_begin_edit(range, &editor);
    mbr_lock_drop(&backing->lock);
    if (!closes)
        return status;
    status = close_access(range, keep, &answer, error);
    mbr_lock_take(&backing->lock);
    if ((status == MBR_OK || !answer.unchanged) && !slot->is_sealed) { /* it may be, at least */
        slot->is_sealed = true;
        range->sealed_count++;
    }
    mbr_range_end_edit(range);
    mbr_lock_drop(&backing->lock);
    return status;
}

mbr_status mbr_prefix_seal(mbr_prefix *prefix, mbr_error *error)
{
    mbr_status status = mbr_mechanism_check_process(prefix->backing->mechanism, error);
    for (uint32_t i = 0; i < prefix->keep_count && status == MBR_OK; i++)
        status = close_place(&prefix->keeps[i], error);
    mbr_backing_look_again(prefix->backing); /* others did not look into what was edited */
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* One range uses it. What is parked, or stuck after its range gave it up, is nobody's. */
static bool is_alone(const mbr_extent *extent)
{
    return extent->keeps == NULL &&
        extent->slot_count == extent->parked_alias_count + extent->stuck_count + 1;
}

void mbr_seal_note_locked(mbr_backing *backing, const mbr_extent *extent)
{
    if (!is_alone(extent))
        return;
    const mbr_slot *user = extent->slots; /* parked ones stand behind it */
    while (user->state == MBR_SLOT_STUCK)
        user = user->next;
    if (user->is_sealed)
        atomic_store_explicit(&backing->has_open, true, memory_order_relaxed);
}

/* A place that may be opened and that this round has not tried; *left: one that it has. */
static bool find_in(const mbr_range *range, uint32_t round, uint64_t *index, bool *left)
{
    for (*index = 0; *index < range->slot_count; ++*index) {
        const mbr_slot *slot = &range->slots[*index];
        if (!slot->is_sealed || !is_alone(slot->extent))
            continue;
        if (slot->tried != round)
            return true;
        *left = true; /* it was refused */
    }
    return false;
}

/* A range that nobody edits, and that may be called for. */
static mbr_range *find_locked(mbr_backing *backing, uint32_t round, uint64_t *index)
    MBR_REQUIRES(&backing->lock)
{
    mbr_range *range;
    bool left = false;
    DL_FOREACH(backing->live, range)
    {
        if (range->sealed_count == 0 || mbr_context_state(range->context) == MBR_CONTEXT_LOST ||
            !find_in(range, round, index, &left))
            continue;
        if (range->editor == NULL)
            return range;
        left = true; /* who edits it looks when he is done */
    }
    atomic_store_explicit(&backing->has_open, left, memory_order_relaxed);
    return NULL;
}

/* By the editor, whose edit it ends. What is refused is tried again in a later round. */
static void open_place(mbr_range *range, uint64_t index)
{
    mbr_backing *backing = range->backing;
    mbr_slot *slot = &range->slots[index];
    mbr_answer answer;
    mbr_status status = mbr_port_protect(backing->port, range->reservation_id,
        mbr_slot_offset(range, index), slot->extent->bytes, MBR_ACCESS_READ_WRITE, &answer, NULL);
    mbr_lock_take(&backing->lock);
    if (status == MBR_OK) {
        slot->is_sealed = false;
        range->sealed_count--;
    }
    mbr_range_end_edit(range);
    mbr_lock_drop(&backing->lock);
}

static uint64_t sealed_count_locked(const mbr_backing *backing) MBR_REQUIRES(&backing->lock)
{
    uint64_t count = 0;
    const mbr_range *range;
    DL_FOREACH(backing->live, range)
    count += range->sealed_count;
    return count;
}

void mbr_seal_catch_up(mbr_backing *backing)
{
    int editor;
    uint64_t index;
    mbr_range *range;
    if (!atomic_load_explicit(&backing->has_open, memory_order_relaxed))
        return;
    mbr_lock_take(&backing->lock);
    uint32_t round = ++backing->retry_round;
    /* A round of another thread may try a place between two looks of this one: neither goes on
     * because of the other for ever. */
    uint64_t left_count = sealed_count_locked(backing);
    while ((range = find_locked(backing, round, &index)) != NULL && left_count-- > 0) {
        range->slots[index].tried = round;
        mbr_range_begin_edit(range, &editor);
        mbr_lock_drop(&backing->lock);
        open_place(range, index);
        mbr_lock_take(&backing->lock);
    }
    mbr_lock_drop(&backing->lock);
}
