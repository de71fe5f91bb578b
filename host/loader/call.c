/* Takes the answers of slots: bounds their texts and classes. Calls nothing itself. */
#include "host/loader/call.h"

#include "abi/base/error.h"

#include <string.h>

static bool is_status(mbr_status status)
{
    int32_t class = MBR_STATUS_CLASS(status);
    return class >= MBR_CLASS_CALLER && class <= MBR_CLASS_LOST;
}

mbr_status mbr_answer_take(const char *slot, mbr_status answered, mbr_error *own, mbr_error *error)
{
    if (answered == MBR_OK)
        return MBR_OK;
    if (!is_status(answered))
        return mbr_fail(error, MBR_CONTRACT_BROKEN,
            "%s answered %d, which is no status of the contract", slot, answered);
    uint64_t bytes = strnlen(own->text, sizeof own->text - 1);
    own->text[own->text[bytes] == '\0' ? bytes : mbr_utf8_whole_bytes(own->text, bytes)] = '\0';
    if (own->text[0] == '\0')
        return mbr_fail_native(error, answered, own->native_domain, own->native_code,
            "%s was refused with status %d and no text", slot, answered);
    mbr_text_one_line(own->text);
    own->status = answered;
    mbr_error_copy(error, own);
    return answered;
}
