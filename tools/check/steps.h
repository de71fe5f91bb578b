/* Steps of checks over virtual memory: each slot in one line. A try_ is one call whose answer the
 * check judges; a step_ is one that must work on the way, else the check is skipped. Places and
 * lengths of steps count granules, those of tries bytes. */
#ifndef MEMBRANE_TOOLS_CHECK_STEPS_H
#define MEMBRANE_TOOLS_CHECK_STEPS_H

#include "tools/check/memory.h"
#include "tools/check/trial.h"

/* A reservation. */
typedef struct mbr_place {
    uint64_t id, address;
} mbr_place;

/* ---- Tries: `outcome` may be NULL, `self` is the instance ------------------------------------ */

mbr_status mbr_try_reserve(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t bytes,
    uint64_t align_bytes, mbr_outcome *outcome);
mbr_status mbr_try_unreserve(
    mbr_trial *trial, mbr_subject *self, uint64_t id, mbr_outcome *outcome);
mbr_status mbr_try_create(mbr_trial *trial, mbr_subject *self, uint64_t id, uint64_t bytes,
    uint32_t flags, uint64_t max_owned_bytes, mbr_outcome *outcome);
mbr_status mbr_try_destroy(mbr_trial *trial, mbr_subject *self, uint64_t id, mbr_outcome *outcome);
mbr_status mbr_try_map(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t extent_id, mbr_outcome *outcome);
mbr_status mbr_try_share(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t extent_id, uint32_t access, mbr_outcome *outcome);
/* Once more, up to a bound, where the mechanism says that protect may fail without a reason. */
mbr_status mbr_try_protect(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t bytes, uint32_t access, mbr_outcome *outcome);
mbr_status mbr_try_unmap(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, uint64_t bytes, mbr_outcome *outcome);
mbr_status mbr_try_query(mbr_trial *trial, mbr_subject *self, uint64_t reservation_id,
    uint64_t offset_bytes, mbr_query_outcome *outcome);

/* The call is refused as the caller's bug, whatever the code. */
void mbr_expect_callers_bug(mbr_trial *trial, mbr_status got, const char *what);

/* ---- Steps of the trial's own subject -------------------------------------------------------- */

/* What a fact says is too large is no step: the check is skipped by declaration. */
uint64_t mbr_step_extent_limit(mbr_trial *trial);      /* MBR_FACT_EXTENT_MAX_BYTES */
uint64_t mbr_step_reservation_limit(mbr_trial *trial); /* MBR_FACT_RESERVATION_MAX_BYTES */
void mbr_step_extent_fits(mbr_trial *trial, uint64_t bytes);

mbr_place mbr_step_reserve(mbr_trial *trial, uint64_t granules);
uint64_t mbr_step_create(mbr_trial *trial, uint64_t granules); /* the extent's id */
void mbr_step_destroy(mbr_trial *trial, uint64_t extent_id);
void mbr_step_map(mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t extent_id);
void mbr_step_protect(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules, uint32_t access);
void mbr_step_unmap(mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules);
void mbr_step_share(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t extent_id, uint32_t access);

/* An extent of its own, mapped readable and writable. */
uint64_t mbr_step_commit(mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules);

void mbr_step_write(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules, uint64_t seed);
mbr_memory mbr_step_look(
    mbr_trial *trial, const mbr_place *place, uint64_t at, uint64_t granules, uint64_t seed);

mbr_mechanism_stats mbr_step_stats(mbr_trial *trial);
mbr_query_outcome mbr_step_query(mbr_trial *trial, const mbr_place *place, uint64_t at);

/* Whether anybody could map there now: the granule's first page is nobody's. Of memory that the CPU
 * reaches only. */
bool mbr_step_is_free_address(mbr_trial *trial, const mbr_place *place, uint64_t at);

/* A second instance of the trial's mechanism. */
void mbr_step_open_another(mbr_trial *trial, mbr_subject *another);

/* A whole number of granules that is at least `bytes`. */
uint64_t mbr_step_granules(const mbr_trial *trial, uint64_t bytes);

#endif
