/* Drivers of the slots: lay the structs, leave the breadcrumb, call, look at what every call must
 * keep, book what it did. Never decides what a check wants. */
#include "tools/check/verify.h"

#include <string.h>

static _Thread_local mbr_manner manner;
static _Thread_local mbr_error last_error;

mbr_manner *mbr_manner_now(void)
{
    return &manner;
}

const mbr_error *mbr_last_error(void)
{
    return &last_error;
}

/* ---- Typed calls ----------------------------------------------------------------------------- */

typedef mbr_status (*typed_call)(const mbr_subject *subject, const void *request, void *outcome,
    mbr_error *error, bool *is_absent);

#define MEMBER_mbr_plugin_vtable plugin
#define MEMBER_mbr_allocator_vtable allocator
#define MEMBER_mbr_virtual_vtable virtual_
#define MEMBER_mbr_shared_vtable shared
#define MEMBER_mbr_order_vtable order
#define MEMBER_mbr_transfer_vtable transfer

#define TYPED_CALL(table, slot, request_type, outcome_type, minor, serial)                         \
    static mbr_status call_##slot(const mbr_subject *subject, const void *request, void *outcome,  \
        mbr_error *error, bool *is_absent)                                                         \
    {                                                                                              \
        *is_absent = subject->MEMBER_##table.slot == NULL;                                         \
        if (*is_absent)                                                                            \
            return MBR_UNSUPPORTED;                                                                \
        return subject->MEMBER_##table.slot(subject->instance, request, outcome, error);           \
    }
MBR_SLOTS_EACH(TYPED_CALL)

#define TYPED_ENTRY(table, slot, request_type, outcome_type, minor, serial)                        \
    [MBR_SLOT_##slot] = call_##slot,
static const typed_call calls[MBR_SLOT_COUNT] = {MBR_SLOTS_EACH(TYPED_ENTRY)};

/* ---- Laying ---------------------------------------------------------------------------------- */

static uint32_t size_of(const void *sized)
{
    uint32_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

static void *take(mbr_trial *trial, mbr_lay_place place, uint32_t bytes)
{
    void *memory = mbr_lay_take(place, manner.lay, bytes < 4 ? 4 : bytes);
    if (memory == NULL)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no memory for a struct of %u bytes", bytes);
    return memory;
}

/* The request as the plugin sees it; *bytes is its struct_size. */
static void *lay_request(
    mbr_trial *trial, const void *request, const mbr_slot_facts *facts, uint32_t *bytes)
{
    *bytes = manner.request_bytes != 0 ? manner.request_bytes : size_of(request);
    uint32_t room = *bytes < 4 || *bytes > MBR_LAY_ROOM_BYTES / 2 ? facts->request_bytes : *bytes;
    bool is_frozen = manner.lay == MBR_LAY_GUARD_END || manner.lay == MBR_LAY_GUARD_START;
    mbr_lay_freeze_request(false); /* the last call may have had another manner */
    void *laid = take(trial, MBR_LAY_REQUEST, room);
    memset(laid, 0, room);
    memcpy(laid, request, room < facts->request_bytes ? room : facts->request_bytes);
    memcpy(laid, bytes, sizeof *bytes);
    *bytes = room;
    if (is_frozen)
        mbr_lay_freeze_request(true);
    return laid;
}

static void *lay_outcome(mbr_trial *trial, const void *outcome, const mbr_slot_facts *facts,
    uint32_t *bytes, bool is_poison)
{
    *bytes = size_of(outcome) == 0 ? facts->outcome_bytes : size_of(outcome);
    void *laid = take(trial, MBR_LAY_OUTCOME, *bytes);
    if (!is_poison && *bytes > sizeof *bytes)
        memset((char *)laid + sizeof *bytes, 0, *bytes - sizeof *bytes);
    memcpy(laid, bytes, sizeof *bytes);
    return laid;
}

/* Back to the check, without what its own struct has no room for. */
static void give_outcome(
    void *outcome, const void *laid, const mbr_slot_facts *facts, uint32_t bytes)
{
    bytes = bytes < facts->outcome_bytes ? bytes : facts->outcome_bytes;
    uint32_t own_size = size_of(outcome) == 0 ? facts->outcome_bytes : size_of(outcome);
    memset(outcome, 0, facts->outcome_bytes);
    memcpy(outcome, laid, bytes);
    memcpy(outcome, &own_size, sizeof own_size);
}

static void keep_error(mbr_status status, const mbr_error *laid, uint32_t bytes)
{
    memset(&last_error, 0, sizeof last_error);
    if (laid != NULL && status != MBR_OK && bytes >= sizeof last_error)
        memcpy(&last_error, laid, sizeof last_error);
    last_error.text[MBR_ERROR_TEXT_BYTES - 1] = '\0';
    last_error.struct_size = sizeof last_error;
}

/* Full-size copies for the ledger, whatever sizes the call had. */
static void book(mbr_subject *subject, mbr_slot slot, mbr_status status, const void *request,
    const void *outcome)
{
    static const mbr_outcome nothing;
    if (request != NULL && outcome != NULL && mbr_slots[slot].table != MBR_KIND_PLUGIN)
        mbr_ledger_note(
            &subject->ledger, slot, status, request, mbr_slots[slot].changes ? outcome : &nothing);
}

mbr_status mbr_drive(
    mbr_trial *trial, mbr_subject *subject, mbr_slot slot, const void *request, void *outcome)
{
    const mbr_slot_facts *facts = &mbr_slots[slot];
    mbr_call call = {.slot = slot};
    unsigned char before[MBR_LAY_ROOM_BYTES / 2];
    void *laid_request = NULL, *laid_outcome = NULL;
    mbr_error *laid_error = NULL;
    bool is_absent;

    if (request != NULL) {
        laid_request = lay_request(trial, request, facts, &call.request_bytes);
        memcpy(before, laid_request, call.request_bytes);
    }
    call.outcome_was_poison =
        (trial->check->verifies & MBR_BREACH_STALE) != 0 && !manner.clear_outcome;
    if (outcome != NULL)
        laid_outcome =
            lay_outcome(trial, outcome, facts, &call.outcome_bytes, call.outcome_was_poison);
    if (!manner.without_error) {
        call.error_bytes = manner.error_bytes == 0 ? sizeof(mbr_error) : manner.error_bytes;
        laid_error = take(trial, MBR_LAY_ERROR, call.error_bytes);
        memcpy(laid_error, &call.error_bytes, sizeof call.error_bytes);
    }

    __atomic_store_n(&trial->page->slot, (uint32_t)slot, __ATOMIC_RELAXED);
    __atomic_add_fetch(&trial->page->inside_count, 1, __ATOMIC_RELAXED);
    if (manner.before != NULL)
        manner.before();
    call.status = calls[slot](subject, laid_request, laid_outcome, laid_error, &is_absent);
    if (manner.after != NULL)
        manner.after();
    __atomic_sub_fetch(&trial->page->inside_count, 1, __ATOMIC_RELAXED);
    MBR_NEED(trial, !is_absent, "the slot %s is absent", facts->name);

    call.request_before = before;
    call.request = laid_request;
    call.outcome = laid_outcome;
    call.error = laid_error;
    keep_error(call.status, laid_error, call.error_bytes);
    mbr_verify_call(trial, &call, manner.is_unverified ? 0 : trial->check->verifies);
    if (outcome != NULL)
        give_outcome(outcome, laid_outcome, facts, call.outcome_bytes);
    book(subject, slot, call.status, request, outcome);
    if (manner.lay == MBR_LAY_ONCE)
        mbr_lay_forget();
    return call.status;
}
