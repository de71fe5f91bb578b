/* Reads requests and writes answers by the size rules of the contract. Never looks at what a
 * request means, never allocates. */
#include "plugins/common/answer.h"

#include "abi/base/error.h"

#include <string.h>

static uint32_t size_of(const void *sized)
{
    uint32_t size;
    memcpy(&size, sized, sizeof(size)); /* first field of every struct that may grow */
    return size;
}

bool mbr_answer_read(void *copy, uint32_t copy_bytes, const void *request)
{
    memset(copy, 0, copy_bytes);
    if (!request || size_of(request) < sizeof(uint32_t))
        return false;
    uint32_t size = size_of(request);
    memcpy(copy, request, size < copy_bytes ? size : copy_bytes);
    return true;
}

void mbr_answer_write(void *outcome, const void *answer, uint32_t answer_bytes)
{
    uint32_t size = size_of(outcome);
    size = size < answer_bytes ? size : answer_bytes;
    if (size > sizeof(uint32_t))
        memcpy((char *)outcome + sizeof(uint32_t), (const char *)answer + sizeof(uint32_t),
            size - sizeof(uint32_t));
}

bool mbr_answer_begin(void *copy, uint32_t copy_bytes, const void *request, void *outcome,
    uint32_t outcome_bytes, mbr_error *error)
{
    if (outcome) {
        uint32_t size = size_of(outcome);
        size = size < outcome_bytes ? size : outcome_bytes;
        if (size > sizeof(uint32_t))
            memset((char *)outcome + sizeof(uint32_t), 0, size - sizeof(uint32_t));
    }
    if (mbr_answer_read(copy, copy_bytes, request) && outcome)
        return true;
    mbr_fail(error, MBR_INVALID_ARGUMENT, "%s is NULL or shorter than its struct_size field",
        outcome ? "request" : "outcome");
    return false;
}

const char *mbr_answer_quote(char quoted[64], const char *text)
{
    size_t length = 0;
    for (text = text ? text : "(NULL)"; *text && length < 63; text++)
        quoted[length++] = *text < ' ' || *text > '~' ? '?' : *text;
    quoted[length] = 0;
    return quoted;
}

mbr_status mbr_answer_hello(
    const mbr_plugin_vtable *plugin, const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    mbr_hello offer;
    if (!mbr_answer_begin(&offer, sizeof(offer), hello, reply, sizeof(*reply), error))
        return MBR_INVALID_ARGUMENT;
    /* The plugin's own range, minor 0 alone, is what the zeroed reply already says. */
    if (!MBR_HAS(mbr_hello, &offer, minor_max) || offer.minor_min > offer.minor_max)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the offered range of minors is %u to %u",
            (unsigned)offer.minor_min, (unsigned)offer.minor_max);
    if (offer.minor_min > MBR_MINOR_0)
        return mbr_fail(error, MBR_VERSION_MISMATCH,
            "%s offers minors 0 to 0 of version 1, the host wants %u to %u", plugin->name,
            (unsigned)offer.minor_min, (unsigned)offer.minor_max);
    if (!MBR_HAS(mbr_reply, reply, plugin))
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "the reply of %u bytes cannot hold the plugin's table", (unsigned)reply->struct_size);
    mbr_reply answer = {.minor = MBR_MINOR_0, .plugin = plugin};
    mbr_answer_write(reply, &answer, sizeof(answer));
    return MBR_OK;
}
