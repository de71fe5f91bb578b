/* What the slots of the CPU EP do with requests and outcomes: read a field only if the sender's
 * struct_size reaches its end, write at most what the caller's struct_size allows (rule 12). */
#ifndef MEMBRANE_HOST_EP_CPU_ANSWER_H
#define MEMBRANE_HOST_EP_CPU_ANSWER_H

#include "abi/base/checked.h"
#include "abi/base/error.h"

#include <stdbool.h>
#include <string.h>

/* The low half of a flag word is critical: an unknown bit there is refused (rule 15). */
#define MBR_CPU_CRITICAL_FLAGS UINT32_C(0xffff)

/* Copies a field that the request holds; the rest of *local stays 0. */
#define MBR_CPU_TAKE(type, local, request, field)                                                  \
    do {                                                                                           \
        if (MBR_HAS(type, request, field))                                                         \
            (local).field = (request)->field;                                                      \
    } while (0)

/* "Nothing happened", in every field that the caller has room for. */
static inline void mbr_cpu_answer_clear(void *outcome, uint32_t struct_size, size_t known_bytes)
{
    size_t end = struct_size < known_bytes ? struct_size : known_bytes;
    if (end > sizeof(uint32_t))
        memset((char *)outcome + sizeof(uint32_t), 0, end - sizeof(uint32_t));
}

static inline mbr_status mbr_cpu_answer_begin(
    const void *request, mbr_outcome *outcome, mbr_error *error)
{
    if (outcome != NULL)
        mbr_cpu_answer_clear(outcome, outcome->struct_size, sizeof *outcome);
    if (request == NULL || outcome == NULL)
        return mbr_fail_argument(error, MBR_INVALID_ARGUMENT, 0, "%s is NULL",
            request == NULL ? "the request" : "the outcome");
    return MBR_OK;
}

/* The last step of a slot: DONE exactly with MBR_OK. */
static inline mbr_status mbr_cpu_answer_end(mbr_outcome *outcome, mbr_status status, uint64_t value)
{
    if (status == MBR_OK && MBR_HAS(mbr_outcome, outcome, state))
        outcome->state = MBR_STATE_DONE;
    if (status == MBR_OK && MBR_HAS(mbr_outcome, outcome, value))
        outcome->value = value;
    return status;
}

#endif
