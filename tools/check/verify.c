/* Responsible for the rules of every call. Looks at memory only; never calls the plugin. */
#include "tools/check/verify.h"

#include <stddef.h>
#include <string.h>

#define POISON_32 UINT32_C(0xA5A5A5A5)
#define HAS(type, call, field)                                                                     \
    ((call)->outcome_bytes >= offsetof(type, field) + sizeof(((type *)0)->field))

static bool is_utf8_line(const char *text, uint64_t room)
{
    uint64_t at = 0;
    while (at < room && text[at] != '\0') {
        unsigned char c = (unsigned char)text[at++];
        int more = c < 0x80         ? 0
            : c >= 0xC2 && c < 0xE0 ? 1
            : (c & 0xF0) == 0xE0    ? 2
            : c >= 0xF0 && c < 0xF5 ? 3
                                    : -1;
        if (more < 0 || c < 0x20 || c == 0x7F)
            return false;
        for (; more > 0; more--, at++)
            if (at >= room || ((unsigned char)text[at] & 0xC0) != 0x80)
                return false;
    }
    return at < room && at > 0;
}

static void verify_layout(mbr_trial *trial, const mbr_call *call, uint32_t owned)
{
    const char *slot = mbr_slot_name(call->slot);
    if ((owned & MBR_BREACH_TAIL) != 0) {
        MBR_EXPECT(trial,
            call->outcome == NULL ||
                mbr_lay_is_whole(MBR_LAY_OUTCOME, call->outcome, call->outcome_bytes),
            "nothing is written outside of the outcome's struct_size", "%s wrote around %u bytes",
            slot, call->outcome_bytes);
        MBR_EXPECT(trial,
            call->error == NULL || mbr_lay_is_whole(MBR_LAY_ERROR, call->error, call->error_bytes),
            "nothing is written outside of the error's struct_size", "%s wrote around %u bytes",
            slot, call->error_bytes);
    }
    if ((owned & MBR_BREACH_SIZE) != 0) {
        uint32_t outcome_size = call->outcome_bytes, error_size = call->error_bytes;
        if (call->outcome != NULL)
            memcpy(&outcome_size, call->outcome, sizeof outcome_size);
        if (call->error != NULL)
            error_size = call->error->struct_size;
        MBR_EXPECT(trial, outcome_size == call->outcome_bytes && error_size == call->error_bytes,
            "struct_size is the caller's and stays", "%s left outcome %u of %u, error %u of %u",
            slot, outcome_size, call->outcome_bytes, error_size, call->error_bytes);
    }
    if ((owned & MBR_BREACH_INPUT) != 0 && call->request != NULL)
        MBR_EXPECT(trial, memcmp(call->request, call->request_before, call->request_bytes) == 0,
            "the request is read only", "%s changed its request", slot);
}

static bool is_error_poison(const mbr_call *call)
{
    const unsigned char *bytes = (const unsigned char *)call->error;
    for (uint32_t i = sizeof(uint32_t); i < call->error_bytes; i++)
        if (bytes[i] != MBR_LAY_POISON)
            return false;
    return true;
}

static void verify_error(mbr_trial *trial, const mbr_call *call, uint32_t owned)
{
    const char *slot = mbr_slot_name(call->slot);
    if (call->error == NULL || call->error_bytes <= sizeof(uint32_t))
        return;
    bool is_untouched = is_error_poison(call);
    if (call->status == MBR_OK) {
        MBR_EXPECT(trial, (owned & MBR_BREACH_ERROR_TOUCHED) == 0 || is_untouched,
            "the error is written on failure only", "%s wrote it with MBR_OK", slot);
        return;
    }
    MBR_EXPECT(trial, (owned & MBR_BREACH_ERROR_MISSING) == 0 || !is_untouched,
        "a failure fills in the error", "%s answered %s and left it", slot,
        mbr_status_name(call->status));
    if (is_untouched)
        return;
    if ((owned & MBR_BREACH_ERROR_STATUS) != 0 && MBR_HAS(mbr_error, call->error, status))
        MBR_EXPECT(trial, call->error->status == call->status,
            "error.status repeats the returned status", "%s returned %s, error.status is %d", slot,
            mbr_status_name(call->status), call->error->status);
    if ((owned & MBR_BREACH_ERROR_TEXT) != 0 && call->error_bytes > offsetof(mbr_error, text)) {
        uint64_t room = call->error_bytes - offsetof(mbr_error, text);
        room = room < MBR_ERROR_TEXT_BYTES ? room : MBR_ERROR_TEXT_BYTES;
        MBR_EXPECT(trial, is_utf8_line(call->error->text, room) || room == 1,
            "the error's text is one line of UTF-8, terminated, not empty",
            "%s with room for %lu bytes: '%.64s'", slot, room, room == 1 ? "" : call->error->text);
    }
}

static bool is_known_class(mbr_status status)
{
    int32_t class = MBR_STATUS_CLASS(status);
    return status == MBR_OK ||
        (class >= MBR_CLASS_CALLER && class <= MBR_CLASS_LOST && (status & 0xFFFF) != 0);
}

static void verify_state(mbr_trial *trial, const mbr_call *call, uint32_t owned)
{
    const mbr_outcome *outcome = call->outcome;
    const char *slot = mbr_slot_name(call->slot);
    if (!HAS(mbr_outcome, call, residual_owned_bytes))
        return;
    bool is_done = outcome->state == MBR_STATE_DONE;
    if ((owned & MBR_BREACH_PAIR) != 0)
        MBR_EXPECT(trial,
            (call->status == MBR_OK) == is_done && outcome->state <= MBR_STATE_QUARANTINED,
            "DONE comes with MBR_OK alone, any other state with a failure", "%s: %s with state %u",
            slot, mbr_status_name(call->status), outcome->state);
    if ((owned & MBR_BREACH_FIGURES) == 0)
        return;
    MBR_EXPECT(trial,
        !is_done || (outcome->residual_mapped_bytes == 0 && outcome->residual_owned_bytes == 0),
        "no residual with DONE", "%s: mapped %lu, owned %lu", slot, outcome->residual_mapped_bytes,
        outcome->residual_owned_bytes);
    MBR_EXPECT(trial,
        outcome->state != MBR_STATE_UNCHANGED ||
            (outcome->address == 0 && outcome->value == 0 && outcome->newly_mapped_bytes == 0 &&
                outcome->newly_owned_bytes == 0 && outcome->unmapped_bytes == 0 &&
                outcome->released_bytes == 0 && outcome->residual_mapped_bytes == 0 &&
                outcome->residual_owned_bytes == 0),
        "every figure is 0 with UNCHANGED", "%s: address 0x%lx, owned %lu, mapped %lu", slot,
        outcome->address, outcome->newly_owned_bytes, outcome->newly_mapped_bytes);
    MBR_EXPECT(trial,
        outcome->state != MBR_STATE_PARTIAL || outcome->residual_mapped_bytes != 0 ||
            outcome->residual_owned_bytes != 0,
        "PARTIAL leaves a residual", "%s: none", slot);
}

/* Outcomes of slots that only tell: zero on failure, except what the contract says of them. */
static void verify_told(mbr_trial *trial, const mbr_call *call)
{
    uint32_t from = call->slot == MBR_SLOT_mechanisms ? offsetof(mbr_mechanism_description, name)
                                                      : sizeof(uint32_t);
    const unsigned char *bytes = call->outcome;
    uint32_t end = mbr_slots[call->slot].outcome_bytes;
    end = end < call->outcome_bytes ? end : call->outcome_bytes;
    for (uint32_t i = from; i < end && call->status != MBR_OK; i++)
        MBR_EXPECT(trial, bytes[i] == 0, "the outcome is zero on failure",
            "%s answered %s and byte %u is 0x%02x", mbr_slot_name(call->slot),
            mbr_status_name(call->status), i, bytes[i]);
}

/* Where an outcome that only tells has its reserved word; 0: it has none. */
static uint32_t reserved_offset(mbr_slot slot)
{
    switch (slot) {
    case MBR_SLOT_mechanisms:
        return offsetof(mbr_mechanism_description, reserved_0);
    case MBR_SLOT_open:
    case MBR_SLOT_capability:
    case MBR_SLOT_fact:
    case MBR_SLOT_stats:
    case MBR_SLOT_stream_create:
        return sizeof(uint32_t); /* right behind struct_size */
    default:
        return 0;
    }
}

static void verify_reserved(mbr_trial *trial, const mbr_call *call)
{
    uint32_t at = reserved_offset(call->slot), word;
    if (at == 0 || call->outcome_bytes < at + sizeof word)
        return;
    memcpy(&word, (const unsigned char *)call->outcome + at, sizeof word);
    MBR_EXPECT(trial, word == 0, "a reserved field of an outcome is zero", "%s wrote 0x%x",
        mbr_slot_name(call->slot), word);
}

/* Words that nobody wrote; strings may end before their room does. */
static void verify_written(mbr_trial *trial, const mbr_call *call)
{
    const unsigned char *bytes = call->outcome;
    uint32_t end = mbr_slots[call->slot].outcome_bytes;
    end = end < call->outcome_bytes ? end : call->outcome_bytes;
    for (uint32_t at = sizeof(uint32_t); at + sizeof(uint32_t) <= end; at += sizeof(uint32_t)) {
        bool is_text = call->slot == MBR_SLOT_mechanisms && call->status == MBR_OK &&
            ((at >= offsetof(mbr_mechanism_description, name) &&
                 at < offsetof(mbr_mechanism_description, domain)) ||
                at >= offsetof(mbr_mechanism_description, pci));
        uint32_t word;
        memcpy(&word, bytes + at, sizeof word);
        MBR_EXPECT(trial, is_text || word != POISON_32, "a slot sets its outcome on entry",
            "%s (%s) left the caller's bytes at offset %u", mbr_slot_name(call->slot),
            mbr_status_name(call->status), at);
    }
}

void mbr_verify_call(mbr_trial *trial, const mbr_call *call, uint32_t owned)
{
    if (owned == 0)
        return;
    verify_layout(trial, call, owned);
    MBR_EXPECT(trial, (owned & MBR_BREACH_CLASS) == 0 || is_known_class(call->status),
        "a status has a known class and a code above 0", "%s returned %d",
        mbr_slot_name(call->slot), call->status);
    verify_error(trial, call, owned);
    if (call->outcome == NULL)
        return;
    if ((owned & MBR_BREACH_STALE) != 0 && call->outcome_was_poison)
        verify_written(trial, call);
    if ((owned & MBR_BREACH_RESERVED) != 0)
        verify_reserved(trial, call);
    if (mbr_slots[call->slot].changes)
        verify_state(trial, call, owned);
    else if ((owned & MBR_BREACH_FIGURES) != 0)
        verify_told(trial, call);
}
