/* How a plugin reads a request, refuses it, and writes an answer (rules 2, 7, 12): a request of
 * another size is a prefix, and an answer never passes the size that its owner gave. Every plugin
 * of this tree goes through these functions. A check answers MBR_OK or the contract's refusal. */
#ifndef MEMBRANE_PLUGINS_COMMON_ANSWER_H
#define MEMBRANE_PLUGINS_COMMON_ANSWER_H

#include "membrane/membrane_plugin.h"

#include <stdbool.h>

/* Copies the part of `request` that both sides know into `copy`; the rest of `copy` is zero.
 * False if `request` is NULL or too short to hold its own size. */
bool mbr_answer_read(void *copy, uint32_t copy_bytes, const void *request);

/* Copies `answer`, without its struct_size, over `outcome` up to the size that its owner set. */
void mbr_answer_write(void *outcome, const void *answer, uint32_t answer_bytes);

/* Begins a slot: false if `request` or `outcome` cannot be used; then *error says which. Otherwise
 * *copy is the request and *outcome says "nothing happened". */
bool mbr_answer_begin(void *copy, uint32_t copy_bytes, const void *request, void *outcome,
    uint32_t outcome_bytes, mbr_error *error);

/* Begins a slot of an open instance, whose first member is a pointer to mbr_answer_mark. The mark's
 * address is this file's own, so that another plugin's instance is refused as well. */
extern const char mbr_answer_mark;
mbr_status mbr_answer_enter(const mbr_instance *instance, void *copy, uint32_t copy_bytes,
    const void *request, void *outcome, uint32_t outcome_bytes, mbr_error *error);

/* What the outcome of a slot must hold: the end of what it hands out, which nobody could give back
 * who was not told. By the slot's request. */
#define MBR_ANSWER_END_(type, field) (uint32_t)(offsetof(type, field) + sizeof(((type *)0)->field))
#define MBR_ANSWER_LEAST_(request_type)                                                            \
    _Generic((request_type *)0, mbr_allocate_request *                                             \
             : MBR_ANSWER_END_(mbr_outcome, address), mbr_reserve_request *                        \
             : MBR_ANSWER_END_(mbr_outcome, address), mbr_capability_request *                     \
             : MBR_ANSWER_END_(mbr_capability_outcome, table), mbr_stream_create_request *         \
             : MBR_ANSWER_END_(mbr_stream_create_outcome, stream), default : 0)
mbr_status mbr_answer_check_room(const void *outcome, uint32_t least_bytes, mbr_error *error);

/* A slot around `body(instance, request, answer, error)`, which sees full-size structs only: the
 * answer is zero when it gets it, and is written whatever its status is. */
#define MBR_ANSWER_SLOT_(linkage, slot, body, request_type, outcome_type, on_success)              \
    linkage mbr_status slot(                                                                       \
        mbr_instance *instance, const request_type *raw, outcome_type *outcome, mbr_error *error)  \
    {                                                                                              \
        request_type request;                                                                      \
        outcome_type answer = {0};                                                                 \
        mbr_status status = mbr_answer_enter(                                                      \
            instance, &request, sizeof(request), raw, outcome, sizeof(*outcome), error);           \
        if (status == MBR_OK && MBR_ANSWER_LEAST_(request_type) != 0)                              \
            status = mbr_answer_check_room(outcome, MBR_ANSWER_LEAST_(request_type), error);       \
        if (status != MBR_OK)                                                                      \
            return status;                                                                         \
        status = body(instance, &request, &answer, error);                                         \
        if (status == MBR_OK)                                                                      \
            on_success;                                                                            \
        mbr_answer_write(outcome, &answer, sizeof(answer));                                        \
        return status;                                                                             \
    }

/* A slot that changes something: its mbr_outcome is DONE with MBR_OK, and what the body says with
 * a failure. And one that only tells. */
#define MBR_ANSWER_CHANGE(linkage, slot, body, request_type)                                       \
    MBR_ANSWER_SLOT_(linkage, slot, body, request_type, mbr_outcome, answer.state = MBR_STATE_DONE)
#define MBR_ANSWER_TELL(linkage, slot, body, request_type, outcome_type)                           \
    MBR_ANSWER_SLOT_(linkage, slot, body, request_type, outcome_type, (void)0)

/* ---- Checks --------------------------------------------------------------------------------- */

/* What a slot that makes an object is asked for. */
struct mbr_answer_ask {
    uint32_t flags, known_flags; /* unknown critical ones are refused */
    uint64_t id;
    uint64_t bytes;           /* a multiple of the unit; rounded up to one where may_round */
    uint64_t unit_bytes;      /* above 0 */
    uint64_t align_bytes;     /* 0 or a power of two; raised to the unit by the check */
    uint64_t largest_bytes;   /* more is refused */
    uint64_t max_owned_bytes; /* the caller's budget */
    bool may_round;
    bool pads_with_memory; /* owns also what an alignment above the unit costs */
    uint64_t owned_bytes;  /* set by the check: what the object will own */
};
mbr_status mbr_answer_check(struct mbr_answer_ask *ask, mbr_error *error);

/* Refuses flags of the critical half that are not in `known`. */
mbr_status mbr_answer_check_flags(uint32_t flags, uint32_t known, mbr_error *error);

/* Refuses 0 bytes and no multiple of the unit. */
mbr_status mbr_answer_check_size(uint64_t bytes, uint64_t unit_bytes, mbr_error *error);

/* Refuses a stream that is none of the plugin's driver, whose kind is MBR_NATIVE_STREAM_…. */
mbr_status mbr_answer_check_stream(mbr_native stream, uint32_t kind, mbr_error *error);

/* Who may do what: one bit a device, by its index. Writers are readers too. */
#define MBR_ANSWER_DEVICE_LIMIT 64
struct mbr_answer_access {
    uint64_t named; /* the devices that it says something of */
    uint64_t readers, writers;
};

/* A list of accesses where there are `device_count` devices, at most MBR_ANSWER_DEVICE_LIMIT. */
mbr_status mbr_answer_read_access(const mbr_access *list, uint32_t count, uint32_t device_count,
    struct mbr_answer_access *access, mbr_error *error);

/* MBR_ACCESS_… of one device. */
uint32_t mbr_answer_access_of(const struct mbr_answer_access *access, uint32_t device_index);

/* ---- Whole slots ---------------------------------------------------------------------------- */

/* The body of a slot that has nothing to do. */
mbr_status mbr_answer_nothing(
    mbr_instance *instance, const void *request, mbr_outcome *answer, mbr_error *error);

/* The slot `mechanisms`, of `count` described ones. */
mbr_status mbr_answer_mechanisms(const mbr_mechanism_description *described, uint32_t count,
    const mbr_mechanisms_request *raw, mbr_mechanism_description *outcome, mbr_error *error);

/* facts[MBR_FACT_…] has fact_count entries, the one at 0 unused. */
mbr_status mbr_answer_fact(const uint64_t *facts, uint32_t fact_count,
    const mbr_fact_request *request, mbr_fact_outcome *answer, mbr_error *error);

struct mbr_answer_table {
    const char *id; /* MBR_ID_… */
    const void *table;
};
mbr_status mbr_answer_capability(const struct mbr_answer_table *tables, uint32_t table_count,
    const mbr_capability_request *request, mbr_capability_outcome *answer, mbr_error *error);

/* An option of open: one of two words for 0 and 1; or, without words, a power of two. */
struct mbr_answer_option {
    const char *key;
    const char *words[2];
    uint64_t low, high;
    uint64_t *value; /* keeps its default where the option is not given */
};

/* Begins `open`: sets the options' values and *index, which of the described
 * mechanisms it is. A native context is of `native_kind` or none. */
struct mbr_answer_opening {
    const mbr_mechanism_description *described;
    const struct mbr_answer_option *options;
    uint32_t described_count, option_count, native_kind;
};
mbr_status mbr_answer_open(const struct mbr_answer_opening *opening, const mbr_open_request *raw,
    mbr_open_outcome *outcome, uint32_t *index, mbr_error *error);

/* The error of a failed system call, which `call` names; MBR_OK for code 0.
 * ENOMEM is `no_memory`.
 */
mbr_status mbr_answer_errno(
    mbr_error *error, int code, mbr_status no_memory, const char *call, uint64_t bytes);

/* A caller's string for an error's text, which is UTF-8: at most 63 bytes, those outside printable
 * ASCII as '?'; "(NULL)" for NULL. Returns `quoted`. */
const char *mbr_answer_quote(char quoted[64], const char *text);

/* The whole of an entry function (rules 16, 17): answers minor 0 with `plugin`, or refuses with
 * both ranges in the text. */
mbr_status mbr_answer_hello(
    const mbr_plugin_vtable *plugin, const mbr_hello *hello, mbr_reply *reply, mbr_error *error);

#endif
