/* Reads requests, refuses what the contract refuses everywhere, writes answers. Never looks at an
 * object, never allocates. */
#include "plugins/common/answer.h"

#include "abi/base/checked.h"
#include "abi/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char mbr_answer_mark = 0;

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
    /* Whole words: every field is a word, or a half of one that ends with it in every sender's
     * struct. Of a word that is cut nothing counts. */
    uint32_t size = size_of(request) & ~UINT32_C(7);
    memcpy(copy, request, sizeof(uint32_t));
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

mbr_status mbr_answer_enter(const mbr_instance *instance, void *copy, uint32_t copy_bytes,
    const void *request, void *outcome, uint32_t outcome_bytes, mbr_error *error)
{
    if (!mbr_answer_begin(copy, copy_bytes, request, outcome, outcome_bytes, error))
        return MBR_INVALID_ARGUMENT;
    const char *mark = NULL;
    if (instance)
        memcpy(&mark, instance, sizeof(mark));
    if (mark == &mbr_answer_mark)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT, "no open instance of this plugin");
}

mbr_status mbr_answer_check_room(const void *outcome, uint32_t least_bytes, mbr_error *error)
{
    uint32_t room_bytes = size_of(outcome);
    if (room_bytes >= least_bytes)
        return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT,
        "an outcome of %u bytes has no room for what is handed out; %u are needed", room_bytes,
        least_bytes);
}

/* ---- Checks --------------------------------------------------------------------------------- */

mbr_status mbr_answer_check_flags(uint32_t flags, uint32_t known, mbr_error *error)
{
    uint32_t unknown = flags & 0xFFFF & ~known;
    if (unknown == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_UNSUPPORTED, "flag 0x%x is not offered here", unknown);
}

mbr_status mbr_answer_check_stream(mbr_native stream, uint32_t kind, mbr_error *error)
{
    if (stream.kind == kind)
        return MBR_OK;
    return mbr_fail(
        error, MBR_INVALID_ARGUMENT, "a stream of kind %u; here is %u", stream.kind, kind);
}

mbr_status mbr_answer_check_size(uint64_t bytes, uint64_t unit_bytes, mbr_error *error)
{
    if (bytes == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the size is 0");
    if (bytes % unit_bytes == 0)
        return MBR_OK;
    return mbr_fail(error, MBR_MISALIGNED,
        "%" PRIu64 " bytes are no multiple of the granule %" PRIu64, bytes, unit_bytes);
}

mbr_status mbr_answer_check(struct mbr_answer_ask *ask, mbr_error *error)
{
    mbr_status status = mbr_answer_check_flags(ask->flags, ask->known_flags, error);
    if (status == MBR_OK)
        status = mbr_answer_check_size(ask->bytes, ask->may_round ? 1 : ask->unit_bytes, error);
    if (status != MBR_OK)
        return status;
    if (ask->id == 0)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the id is 0");
    if (ask->align_bytes != 0 && !mbr_is_power_of_two(ask->align_bytes))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "alignment %" PRIu64 " is no power of two",
            ask->align_bytes);
    ask->align_bytes = mbr_max(ask->align_bytes, ask->unit_bytes);
    uint64_t outer_bytes;
    if (!mbr_align_up(ask->bytes, ask->unit_bytes, &ask->bytes) ||
        !mbr_add(ask->bytes, ask->align_bytes, &outer_bytes))
        return mbr_fail(error, MBR_OVERFLOW, "%" PRIu64 " bytes aligned to %" PRIu64 " overflow",
            ask->bytes, ask->align_bytes);
    if (ask->bytes > ask->largest_bytes)
        return mbr_fail_bytes(error, MBR_INVALID_ARGUMENT, ask->bytes, ask->largest_bytes,
            "%" PRIu64 " bytes are above the largest, %" PRIu64, ask->bytes, ask->largest_bytes);
    ask->owned_bytes = ask->pads_with_memory ? outer_bytes - ask->unit_bytes : ask->bytes;
    if (ask->owned_bytes > ask->max_owned_bytes)
        return mbr_fail_bytes(error, MBR_OVER_BUDGET, ask->owned_bytes, ask->max_owned_bytes,
            "would own %" PRIu64 " bytes, at most %" PRIu64 " are allowed", ask->owned_bytes,
            ask->max_owned_bytes);
    return MBR_OK;
}

uint32_t mbr_answer_access_of(const struct mbr_answer_access *access, uint32_t device_index)
{
    uint64_t bit = UINT64_C(1) << device_index;
    return access->writers & bit ? MBR_ACCESS_READ_WRITE
        : access->readers & bit  ? MBR_ACCESS_READ
                                 : MBR_ACCESS_NONE;
}

mbr_status mbr_answer_read_access(const mbr_access *list, uint32_t count, uint32_t device_count,
    struct mbr_answer_access *access, mbr_error *error)
{
    *access = (struct mbr_answer_access){0};
    if (count == 0 || !list)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the list of accesses is empty");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t device = list[i].device_index, kind = list[i].access;
        if (device >= device_count)
            return mbr_fail(error, MBR_OUT_OF_RANGE, "access for device %u; the last is %u", device,
                device_count - 1);
        uint64_t bit = UINT64_C(1) << device;
        if (access->named & bit)
            return mbr_fail(error, MBR_INVALID_ARGUMENT, "device %u is named twice", device);
        if (kind != MBR_ACCESS_NONE && kind != MBR_ACCESS_READ && kind != MBR_ACCESS_READ_WRITE)
            return mbr_fail(error, MBR_INVALID_ARGUMENT, "access %u is none of 0, 1 and 3", kind);
        access->named |= bit;
        access->readers |= kind != MBR_ACCESS_NONE ? bit : 0;
        access->writers |= kind == MBR_ACCESS_READ_WRITE ? bit : 0;
    }
    return MBR_OK;
}

/* ---- Facts, capabilities, options ----------------------------------------------------------- */

mbr_status mbr_answer_fact(const uint64_t *facts, uint32_t fact_count,
    const mbr_fact_request *request, mbr_fact_outcome *answer, mbr_error *error)
{
    if (request->fact == 0 || request->fact >= fact_count)
        return mbr_fail(error, MBR_UNSUPPORTED, "fact %u is unknown", request->fact);
    answer->value = facts[request->fact];
    return MBR_OK;
}

mbr_status mbr_answer_capability(const struct mbr_answer_table *tables, uint32_t table_count,
    const mbr_capability_request *request, mbr_capability_outcome *answer, mbr_error *error)
{
    char quoted[64];
    if (!request->id)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the capability's id is NULL");
    for (uint32_t i = 0; i < table_count; i++)
        if (strcmp(request->id, tables[i].id) == 0)
            answer->table = tables[i].table;
    if (answer->table)
        return MBR_OK;
    return mbr_fail(
        error, MBR_UNSUPPORTED, "'%s' is not offered here", mbr_answer_quote(quoted, request->id));
}

/* Decimal digits only, so that no locale has a say. False if it is no number of 64 bits. */
static bool parse_number(const char *text, uint64_t *number)
{
    uint64_t value = 0;
    for (const char *at = text; *at; at++)
        if (*at < '0' || *at > '9' || !mbr_mul(value, 10, &value) ||
            !mbr_add(value, (uint64_t)(*at - '0'), &value))
            return false;
    *number = value;
    return *text != 0;
}

static mbr_status set_option(
    const struct mbr_answer_option *option, const char *value, mbr_error *error)
{
    char quoted[64];
    uint64_t number;
    for (uint32_t i = 0; i < 2 && option->words[0] && value; i++)
        if (strcmp(value, option->words[i]) == 0) {
            *option->value = i;
            return MBR_OK;
        }
    if (option->words[0])
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "option %s is %s or %s, not '%s'", option->key,
            option->words[0], option->words[1], mbr_answer_quote(quoted, value));
    if (!value || !parse_number(value, &number) || !mbr_is_power_of_two(number) ||
        number < option->low || number > option->high)
        return mbr_fail(error, MBR_INVALID_ARGUMENT,
            "option %s is a power of two from %" PRIu64 " to %" PRIu64 ", not '%s'", option->key,
            option->low, option->high, mbr_answer_quote(quoted, value));
    *option->value = number;
    return MBR_OK;
}

static mbr_status fail_unknown(
    const char *key, const struct mbr_answer_option *known, uint32_t known_count, mbr_error *error)
{
    char quoted[64], keys[128] = "";
    for (uint32_t i = 0; i < known_count; i++) {
        size_t length = strlen(keys);
        snprintf(keys + length, sizeof(keys) - length, "%s%s", i ? ", " : "", known[i].key);
    }
    return mbr_fail(error, MBR_UNKNOWN_KEY, "unknown option '%s'; known: %s",
        mbr_answer_quote(quoted, key), keys);
}

static mbr_status read_options(const mbr_open_request *request,
    const struct mbr_answer_option *known, uint32_t known_count, mbr_error *error)
{
    if (request->option_count > 0 && !request->options)
        return mbr_fail(
            error, MBR_INVALID_ARGUMENT, "%u options at address 0", request->option_count);
    mbr_status status = MBR_OK;
    for (uint32_t i = 0; i < request->option_count && status == MBR_OK; i++) {
        const char *key = request->options[i].key;
        uint32_t at = 0;
        while (at < known_count && (!key || strcmp(key, known[at].key) != 0))
            at++;
        status = at < known_count ? set_option(&known[at], request->options[i].value, error)
                                  : fail_unknown(key, known, known_count, error);
    }
    return status;
}

/* ---- The plugin's table --------------------------------------------------------------------- */

mbr_status mbr_answer_nothing(
    mbr_instance *instance, const void *request, mbr_outcome *answer, mbr_error *error)
{
    (void)instance, (void)request, (void)answer, (void)error;
    return MBR_OK;
}

mbr_status mbr_answer_mechanisms(const mbr_mechanism_description *described, uint32_t count,
    const mbr_mechanisms_request *raw, mbr_mechanism_description *outcome, mbr_error *error)
{
    mbr_mechanisms_request request;
    mbr_mechanism_description answer = {0};
    mbr_status status = MBR_OK;
    if (!mbr_answer_begin(&request, sizeof(request), raw, outcome, sizeof(*outcome), error))
        return MBR_INVALID_ARGUMENT;
    if (request.index < count)
        answer = described[request.index];
    else
        status = mbr_fail(error, MBR_OUT_OF_RANGE, "mechanism %u of %u", request.index, count);
    answer.count = count;
    mbr_answer_write(outcome, &answer, sizeof(answer));
    return status;
}

static mbr_status find_mechanism(
    const struct mbr_answer_opening *opening, const char *name, uint32_t *index, mbr_error *error)
{
    char quoted[64];
    for (*index = 0; name && *index < opening->described_count; ++*index)
        if (strcmp(name, opening->described[*index].name) == 0)
            return MBR_OK;
    return mbr_fail(error, MBR_INVALID_ARGUMENT, "no mechanism '%s'; the first of %u is %s",
        mbr_answer_quote(quoted, name), opening->described_count, opening->described[0].name);
}

mbr_status mbr_answer_open(const struct mbr_answer_opening *opening, const mbr_open_request *raw,
    mbr_open_outcome *outcome, uint32_t *index, mbr_error *error)
{
    mbr_open_request request;
    if (!mbr_answer_begin(&request, sizeof(request), raw, outcome, sizeof(*outcome), error))
        return MBR_INVALID_ARGUMENT;
    mbr_status status = find_mechanism(opening, request.mechanism, index, error);
    if (status != MBR_OK)
        return status;
    uint32_t kind = MBR_HAS(mbr_open_request, raw, native_context) ? request.native_context.kind
                                                                   : MBR_NATIVE_STREAM_NONE;
    if (kind != MBR_NATIVE_STREAM_NONE && kind != opening->native_kind)
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "a native context of kind %u; here is %u",
            kind, opening->native_kind);
    if (!MBR_HAS(mbr_open_outcome, outcome, instance))
        return mbr_fail(error, MBR_INVALID_ARGUMENT, "the outcome cannot hold an instance");
    return read_options(&request, opening->options, opening->option_count, error);
}

mbr_status mbr_answer_errno(
    mbr_error *error, int code, mbr_status no_memory, const char *call, uint64_t bytes)
{
    const char *name = strerrorname_np(code);
    mbr_status status = code == 0          ? MBR_OK
        : code == ENOMEM                   ? no_memory
        : code == ENOSPC                   ? MBR_OUT_OF_MEMORY
        : code == EMFILE || code == ENFILE ? MBR_OUT_OF_DESCRIPTORS
        : code == EFBIG                    ? MBR_FILE_SIZE_LIMIT
                                           : MBR_SYSTEM;
    if (code == 0)
        return MBR_OK;
    mbr_fail_native(error, status, MBR_NATIVE_ERRNO, code, "%s of %" PRIu64 " bytes: %s%s", call,
        bytes, name ? name : "unknown error",
        status == MBR_OUT_OF_MAPPINGS ? "; the process is at vm.max_map_count, "
                                        "larger extents need fewer mappings"
                                      : "");
    if (error && MBR_HAS(mbr_error, error, asked_bytes))
        error->asked_bytes = bytes;
    return status;
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
