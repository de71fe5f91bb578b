/* Refusals of the loader: how a reason becomes a text and a status. */
#ifndef MEMBRANE_HOST_LOADER_REASON_H
#define MEMBRANE_HOST_LOADER_REASON_H

#include "host/loader/loader.h"

/* The status that a call answers with for a reason. */
mbr_status mbr_reason_status(mbr_reason reason);

/* Writes reason and detail into the candidate and returns the reason's status. The detail says
 * which value was found and what would work; the path stands beside it. */
mbr_status mbr_candidate_refuse(mbr_candidate *candidate, mbr_reason reason, const char *format,
    ...) __attribute__((format(printf, 3, 4)));

/* The candidate's refusal as an error: word, detail, path. */
void mbr_candidate_error(const mbr_candidate *candidate, mbr_status status, mbr_error *error);

/* Copies at most `bytes` with the ending, cut between characters. */
void mbr_text_copy(char *to, const char *from, size_t bytes);

#endif
