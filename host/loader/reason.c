/* The reasons of the loader: their words, their statuses, their texts. Judges nothing itself. */
#include "host/loader/reason.h"

#include "abi/base/assert.h"
#include "abi/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *word;
    mbr_status status;
} reasons[MBR_REASON_COUNT] = {
    [MBR_REASON_USED] = {"used", MBR_OK},
    [MBR_REASON_NOT_FOUND] = {"not-found", MBR_UNKNOWN_OBJECT},
    [MBR_REASON_NOT_REGULAR] = {"not-regular", MBR_NOT_A_PLUGIN},
    [MBR_REASON_UNTRUSTED_FILE] = {"untrusted-file", MBR_UNTRUSTED},
    [MBR_REASON_UNTRUSTED_FOLDER] = {"untrusted-folder", MBR_UNTRUSTED},
    [MBR_REASON_NOT_ELF] = {"not-elf", MBR_NOT_A_PLUGIN},
    [MBR_REASON_WRONG_MACHINE] = {"wrong-machine", MBR_NOT_A_PLUGIN},
    [MBR_REASON_NOT_SHARED] = {"not-shared", MBR_NOT_A_PLUGIN},
    [MBR_REASON_NO_NOTE] = {"no-note", MBR_NOT_A_PLUGIN},
    [MBR_REASON_BAD_NOTE] = {"bad-note", MBR_NOT_A_PLUGIN},
    [MBR_REASON_OTHER_MAJOR] = {"other-major", MBR_VERSION_MISMATCH},
    [MBR_REASON_NO_COMMON_MINOR] = {"no-common-minor", MBR_VERSION_MISMATCH},
    [MBR_REASON_DIGEST] = {"digest", MBR_VERSION_MISMATCH},
    [MBR_REASON_EXEC_STACK] = {"executable-stack", MBR_NOT_A_PLUGIN},
    [MBR_REASON_TEXT_RELOCATIONS] = {"text-relocations", MBR_NOT_A_PLUGIN},
    [MBR_REASON_RELATIVE_RPATH] = {"relative-rpath", MBR_NOT_A_PLUGIN},
    [MBR_REASON_NAME_MISMATCH] = {"name-mismatch", MBR_NOT_A_PLUGIN},
    [MBR_REASON_SHADOWED] = {"shadowed", MBR_ALREADY_EXISTS},
    [MBR_REASON_DLOPEN] = {"dlopen", MBR_SYSTEM},
    [MBR_REASON_FILE_CHANGED] = {"file-changed", MBR_UNTRUSTED},
    [MBR_REASON_NO_ENTRY] = {"no-entry", MBR_NOT_A_PLUGIN},
    [MBR_REASON_NEGOTIATION] = {"negotiation", MBR_CONTRACT_BROKEN},
    [MBR_REASON_BAD_TABLE] = {"bad-table", MBR_CONTRACT_BROKEN},
};

const char *mbr_reason_word(mbr_reason reason)
{
    return (uint32_t)reason < MBR_REASON_COUNT ? reasons[reason].word : "unknown";
}

mbr_status mbr_reason_status(mbr_reason reason)
{
    MBR_CHECK((uint32_t)reason < MBR_REASON_COUNT);
    return reasons[reason].status;
}

mbr_status mbr_candidate_refuse(
    mbr_candidate *candidate, mbr_reason reason, const char *format, ...)
{
    MBR_ASSERT(reason != MBR_REASON_USED);
    candidate->reason = reason;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(candidate->detail, sizeof candidate->detail, format, arguments);
    va_end(arguments);
    size_t room = sizeof candidate->detail - 1;
    if ((size_t)length > room)
        candidate->detail[mbr_utf8_whole_bytes(candidate->detail, room)] = '\0';
    /* Names and link targets come from strangers: keep them from steering a terminal. */
    mbr_text_one_line(candidate->detail);
    return mbr_reason_status(reason);
}

void mbr_candidate_error(const mbr_candidate *candidate, mbr_status status, mbr_error *error)
{
    const char *path = candidate->path;
    size_t length = strlen(path);
    const size_t shown = 72; /* leaves room for the detail in the error's 256 bytes */
    const char *cut = length > shown ? "…" : "";
    if (length > shown)
        for (path += length - shown; ((unsigned char)*path & 0xC0) == 0x80;)
            path++;
    mbr_fail(error, status, "%s%s: %s: %s", cut, path, mbr_reason_word(candidate->reason),
        candidate->detail);
}

void mbr_text_copy(char *to, const char *from, size_t bytes)
{
    size_t length = strnlen(from, bytes - 1);
    if (length == bytes - 1 && from[length] != '\0')
        length = mbr_utf8_whole_bytes(from, length);
    memcpy(to, from, length);
    to[length] = '\0';
}
