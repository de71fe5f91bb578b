/* What is true around every call into a plugin: no lock held, and an answer that is taken with
 * suspicion. */
#ifndef MEMBRANE_HOST_LOADER_CALL_H
#define MEMBRANE_HOST_LOADER_CALL_H

#include "membrane/base.h"

#include <stdbool.h>

/* Passes a slot's answer on to the host's caller: `own` is the full-size error that the slot was
 * given. Its text is terminated and put on one line; a number that is no status of the contract is
 * MBR_CONTRACT_BROKEN. */
mbr_status mbr_answer_take(const char *slot, mbr_status answered, mbr_error *own, mbr_error *error);

#endif
