/* A tour through every slot that the plugin offers: a call that must work and, where the contract
 * has one, a call that must be refused. For rules that hold for every call. */
#ifndef MEMBRANE_TOOLS_CHECK_TOUR_H
#define MEMBRANE_TOOLS_CHECK_TOUR_H

#include "tools/check/trial.h"

#define MBR_TOUR_REQUEST_BYTES 64  /* no request is larger */
#define MBR_TOUR_OUTCOME_BYTES 256 /* no outcome is larger */

/* One call of the tour. The visitor makes it, with mbr_drive or in a way of its own, any number of
 * times before; it answers the status, and the outcome where the tour goes on with it. */
typedef mbr_status (*mbr_tour_visit)(mbr_trial *trial, mbr_subject *subject, mbr_slot slot,
    bool is_good, const void *request, void *outcome);

/* A good call that does not work ends the check as a need. NULL: mbr_drive and nothing else. */
void mbr_tour(mbr_trial *trial, mbr_tour_visit visit);

/* For visitors: the call as the tour means it, on which the row's `verifies` is not looked at. */
mbr_status mbr_tour_go_on(
    mbr_trial *trial, mbr_subject *subject, mbr_slot slot, const void *request, void *outcome);

/* Whether the slot makes an object or an instance, so that it may be called once more. */
bool mbr_tour_makes(mbr_slot slot);

/* Gives a request that makes an object a fresh id. */
void mbr_tour_refresh(mbr_trial *trial, mbr_slot slot, void *request);

/* Puts `id` in every place of a request where an id stands; false where there is none. */
bool mbr_tour_set_ids(mbr_slot slot, void *request, uint64_t id);

/* A request of fewer bytes must be refused, because what is missing counts as zero; 0: none must.
 */
uint32_t mbr_tour_least_bytes(mbr_slot slot);

/* A request of that many bytes says everything that the tour's good call says. */
uint32_t mbr_tour_enough_bytes(mbr_slot slot);

#endif
