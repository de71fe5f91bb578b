/* What a check uses in its child: the subject, the drivers of every slot, and the two ways to say
 * something.
 *
 *   MBR_EXPECT(trial, condition, "what the rule wants", "what was seen: %d", …)
 *       the rule of this check; false is the finding, and the child ends there
 *   MBR_NEED(trial, condition, "what was seen: %d", …)
 *       a step on the way, whose rule another check owns; false skips this check
 *
 * Neither returns when its condition is false, so a check needs no clean-up: its process ends. A
 * check that returns has passed. */
#ifndef MEMBRANE_TOOLS_CHECK_TRIAL_H
#define MEMBRANE_TOOLS_CHECK_TRIAL_H

#include "membrane/membrane_plugin.h"
#include "tools/check/check.h"
#include "tools/check/ledger.h"
#include "tools/check/page.h"
#include "tools/check/slot.h"

/* One open mechanism. A check may open more. Tables are copies of what the plugin gave, with NULL
 * where a slot is absent. */
typedef struct mbr_subject {
    mbr_instance *instance;
    mbr_plugin_vtable plugin;
    mbr_allocator_vtable allocator;
    mbr_virtual_vtable virtual_;
    mbr_shared_vtable shared;
    mbr_order_vtable order;
    mbr_transfer_vtable transfer;
    uint32_t offered; /* MBR_NEEDS_VIRTUAL … MBR_NEEDS_TRANSFER */
    mbr_ledger ledger;
} mbr_subject;

struct mbr_trial {
    const mbr_check *check;
    mbr_page *page;
    void (*end)(mbr_trial *trial); /* does not return */
    uint64_t random_state;
    uint64_t next_id;                /* the next object's; rises, never used again */
    void *library;                   /* from MBR_STAGE_LOADED on */
    mbr_entry_function entry;        /* from MBR_STAGE_LOADED on */
    const mbr_plugin_vtable *plugin; /* as the plugin gave it, from MBR_STAGE_GREETED on */
    char mechanism[64];              /* from MBR_STAGE_OPENED on */
    mbr_subject subject;             /* from MBR_STAGE_OPENED on; from GREETED: .plugin */
    uint64_t granule_bytes;          /* with virtual, else the page size */
    uint32_t own_device_index;       /* of the description; what lists of accesses name */
};

/* ---- Saying something ------------------------------------------------------------------------ */

__attribute__((noreturn, format(printf, 3, 4))) void mbr_trial_fail(
    mbr_trial *trial, const char *expected, const char *observed, ...);
__attribute__((noreturn, format(printf, 3, 4))) void mbr_trial_skip(
    mbr_trial *trial, mbr_skip reason, const char *observed, ...);
/* The tool's or the system's failure, not the plugin's. */
__attribute__((noreturn, format(printf, 3, 4))) void mbr_trial_give_up(
    mbr_trial *trial, mbr_verdict verdict, const char *what, ...);

#define MBR_EXPECT(trial, condition, expected, ...)                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            mbr_trial_fail((trial), (expected), __VA_ARGS__);                                      \
    } while (0)

#define MBR_NEED(trial, condition, ...)                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            mbr_trial_skip((trial), MBR_SKIP_NEEDS, __VA_ARGS__);                                  \
    } while (0)

/* The most frequent expectation: a status by its name. `what` names the call. */
void mbr_expect_status(mbr_trial *trial, mbr_status got, mbr_status wanted, const char *what);
void mbr_need_ok(mbr_trial *trial, mbr_status got, const char *what);

/* "MBR_BUSY", or the class and the number of an unknown one; valid until the thread's next call. */
const char *mbr_status_name(mbr_status status);

/* Figures for the report, "p50 180 ns, p99 420 ns". */
__attribute__((format(printf, 2, 3))) void mbr_trial_figures(
    mbr_trial *trial, const char *format, ...);

/* ---- Stages and subjects (stage.c) ----------------------------------------------------------- */

/* After `mechanisms` of the command line's index: ends the child where that is past the last one.
 */
void mbr_stage_need_mechanism(mbr_trial *trial, mbr_status status, uint32_t count);

/* Brings the child to a stage; on failure the check is blocked. */
void mbr_stage_enter(mbr_trial *trial, mbr_stage stage);

/* Opens the trial's mechanism once more, with `options`. MBR_OK fills `subject` with tables and
 * capabilities. Never ends the check. */
mbr_status mbr_subject_open(mbr_trial *trial, const mbr_option *options, uint32_t option_count,
    mbr_subject *subject, mbr_error *error);

/* The same with a request of the check's own. */
mbr_status mbr_subject_open_as(
    mbr_trial *trial, const mbr_open_request *request, mbr_subject *subject, mbr_error *error);

/* A fact's value, or `otherwise` where it is not told. */
uint64_t mbr_subject_fact(
    mbr_trial *trial, mbr_subject *subject, uint32_t fact, uint64_t otherwise);

/* `most_bytes`, or less where the mechanism has little left: that part of its free memory. */
uint64_t mbr_subject_share_of_free(
    mbr_trial *trial, mbr_subject *subject, uint64_t most_bytes, uint64_t parts);

/* Closes an instance; its tables are used up with MBR_OK. */
mbr_status mbr_subject_close(mbr_trial *trial, mbr_subject *subject);

/* What an instance reports now; a step on the way. */
mbr_report mbr_subject_report(mbr_trial *trial, mbr_subject *subject);

/* ---- Odds and ends --------------------------------------------------------------------------- */

uint64_t mbr_trial_random(mbr_trial *trial); /* of the seed and the check's id */
uint64_t mbr_trial_id(mbr_trial *trial);     /* a fresh object id; any thread */
uint64_t mbr_now_ns(void);

/* ---- Drivers ----------------------------------------------------------------------------------
 * mbr_drive_SLOT(trial, subject, request, outcome): one call of one slot. The structs that the
 * plugin sees are copies, laid as the thread's manner says. outcome->struct_size 0 means full size;
 * `request` and `outcome` may be NULL and are then passed as NULL. What succeeded goes into the
 * subject's ledger. The error of the thread's last call is *mbr_last_error(). */

typedef enum mbr_lay {
    MBR_LAY_SLACK,       /* ordinary memory, poisoned behind the struct */
    MBR_LAY_GUARD_END,   /* the struct ends at a page without access; requests are read-only */
    MBR_LAY_GUARD_START, /* the struct starts right behind a page without access */
    MBR_LAY_ONCE,        /* as SLACK, in memory that is without access for ever after the call */
} mbr_lay;

/* Of the calling thread, for its next calls. */
typedef struct mbr_manner {
    mbr_lay lay;
    uint32_t error_bytes;   /* struct_size of the error; 0: full size */
    uint32_t request_bytes; /* struct_size of the request; 0: as the request says */
    bool without_error;     /* NULL is passed */
    bool is_unverified;     /* the row's `verifies` is not for this call */
    bool clear_outcome;     /* the outcome's memory is zero before the call, not poison */
    void (*before)(void);   /* right before and right after the slot runs; NULL: nothing. What */
    void (*after)(void);    /* must not hit the tool's own work around the call is done there. */
} mbr_manner;

mbr_manner *mbr_manner_now(void);
const mbr_error *mbr_last_error(void);

/* A read-only copy that ends at a guard page; for what a request points to. Never freed. */
const void *mbr_lay_input(mbr_trial *trial, const void *bytes, uint64_t count);

mbr_status mbr_drive(
    mbr_trial *trial, mbr_subject *subject, mbr_slot slot, const void *request, void *outcome);

#define MBR_DRIVER_(table, slot, request_type, outcome_type, minor, serial)                        \
    static inline mbr_status mbr_drive_##slot(mbr_trial *trial, mbr_subject *subject,              \
        const request_type *request, outcome_type *outcome)                                        \
    {                                                                                              \
        return mbr_drive(trial, subject, MBR_SLOT_##slot, request, outcome);                       \
    }
MBR_SLOTS_EACH(MBR_DRIVER_)

#endif
