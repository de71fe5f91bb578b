/* What all slots do alike: reading and writing structs whose size the other side says, refusing
 * with a line of text, and changing things under the lock. Never touches memory of the mechanism.
 */
#include "tests/author/anon.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t anon_room_bytes(const void *sized)
{
    uint32_t room_bytes;
    memcpy(&room_bytes, sized, sizeof room_bytes);
    return room_bytes;
}

void anon_read(void *copy, const void *request, size_t copy_bytes)
{
    uint32_t sent_bytes = anon_room_bytes(request);
    memset(copy, 0, copy_bytes);
    memcpy(copy, request, sent_bytes < copy_bytes ? sent_bytes : copy_bytes);
    memcpy(copy, &sent_bytes, sizeof sent_bytes);
}

void anon_write(void *receiver, const void *value, size_t value_bytes)
{
    uint32_t room_bytes = anon_room_bytes(receiver);
    size_t end = room_bytes < value_bytes ? room_bytes : value_bytes;
    if (end > sizeof room_bytes)
        memcpy((char *)receiver + sizeof room_bytes, (const char *)value + sizeof room_bytes,
            end - sizeof room_bytes);
}

/* One line of plain ASCII, whatever a caller's string put into it, so that it may be cut anywhere;
 * it ends where the receiver's room does. */
static void tidy_text(char *text, uint32_t error_bytes)
{
    size_t room_bytes =
        error_bytes > offsetof(mbr_error, text) ? error_bytes - offsetof(mbr_error, text) : 0;
    if (room_bytes > 0 && room_bytes < MBR_ERROR_TEXT_BYTES)
        text[room_bytes - 1] = 0;
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

mbr_status anon_refuse(mbr_error *error, mbr_error what, const char *format, ...)
{
    if (!error)
        return what.status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what.text, sizeof what.text, format, arguments);
    va_end(arguments);
    tidy_text(what.text, anon_room_bytes(error));
    anon_write(error, &what, sizeof what);
    return what.status;
}

mbr_status anon_begin(bool all_there, void *outcome, size_t outcome_bytes, mbr_error *error)
{
    static const union {
        mbr_mechanism_description description; /* the largest */
        mbr_outcome outcome;
    } nothing;
    if (outcome)
        anon_write(outcome, &nothing, outcome_bytes);
    if (all_there)
        return MBR_OK;
    return anon_refuse(error, (mbr_error){.status = MBR_INVALID_ARGUMENT},
        "the instance, the request or the outcome is NULL");
}

mbr_status anon_check_flags(uint32_t flags, uint32_t known, mbr_error *error)
{
    uint32_t critical = flags & 0xffff & ~known;
    if (!critical)
        return MBR_OK;
    return anon_refuse(error, (mbr_error){.status = MBR_UNSUPPORTED, .argument_index = 1},
        "flags 0x%x are not known here; 0x%x are", critical, known);
}

/* A request of any slot that changes something. */
typedef union any_request {
    mbr_allocate_request allocate;
    mbr_release_request release;
    mbr_trim_request trim;
    mbr_reserve_request reserve;
    mbr_unreserve_request unreserve;
    mbr_extent_create_request extent_create;
    mbr_extent_destroy_request extent_destroy;
    mbr_map_request map;
    mbr_protect_request protect;
    mbr_unmap_request unmap;
    mbr_close_request close;
    mbr_quiesce_request quiesce;
} any_request;

mbr_status anon_change(anon_step step, mbr_instance *instance, const void *request,
    size_t request_bytes, mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = anon_begin(instance && request && outcome, outcome, sizeof *outcome, error);
    if (status)
        return status;
    any_request copy;
    anon_read(&copy, request, request_bytes);
    mbr_outcome done = {0};
    pthread_mutex_lock(&instance->lock);
    status = step(instance, &copy, &done, error);
    pthread_mutex_unlock(&instance->lock);
    if (status == MBR_OK)
        done.state = MBR_STATE_DONE;
    anon_write(outcome, &done, sizeof done);
    return status;
}

mbr_status anon_change_to_address(anon_step step, mbr_instance *instance, const void *request,
    size_t request_bytes, mbr_outcome *outcome, mbr_error *error)
{
    size_t needed_bytes = offsetof(mbr_outcome, address) + sizeof outcome->address;
    if (!outcome || anon_room_bytes(outcome) >= needed_bytes)
        return anon_change(step, instance, request, request_bytes, outcome, error);
    anon_begin(true, outcome, sizeof *outcome, error);
    return anon_refuse(error, (mbr_error){.status = MBR_INVALID_ARGUMENT},
        "an outcome of %u bytes has no room for the address; %zu are needed",
        anon_room_bytes(outcome), needed_bytes);
}
