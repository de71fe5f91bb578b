/* Faults of the entry (group NEG, and LOD's of its first calls). */
#include "plugins/common/answer.h"
#include "tests/badplugins/bad.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRY(name)                                                                                \
    static mbr_status name(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)

ENTRY(refuses_minor_0)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (status == MBR_OK) {
        reply->plugin = NULL;
        return MBR_VERSION_MISMATCH;
    }
    return status;
}

ENTRY(refuses_newer_host)
{
    if (hello != NULL && reply != NULL && hello->struct_size == sizeof *hello &&
        hello->minor_min == 0 && hello->minor_max > 100)
        return MBR_VERSION_MISMATCH;
    return bad_good->entry(hello, reply, error);
}

ENTRY(agrees_to_more)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (status == MBR_OK && hello->struct_size == sizeof(mbr_hello) && hello->minor_max == 0 &&
        reply->struct_size == sizeof(mbr_reply))
        reply->minor = 3;
    return status;
}

ENTRY(wrong_refusal)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    return status == MBR_VERSION_MISMATCH ? MBR_UNSUPPORTED : status;
}

ENTRY(no_range_in_refusal)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (status == MBR_VERSION_MISMATCH)
        reply->minor_max = 9;
    return status;
}

ENTRY(table_in_refusal)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (status == MBR_VERSION_MISMATCH)
        reply->plugin = &bad.plugin;
    return status;
}

ENTRY(silent_refusal)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (status == MBR_VERSION_MISMATCH && error != NULL)
        strcpy(error->text, "no");
    return status;
}

ENTRY(accepts_backwards)
{
    mbr_hello forwards = {MBR_SIZED(mbr_hello)};
    bool is_backwards =
        hello != NULL && hello->struct_size >= sizeof *hello && hello->minor_min > hello->minor_max;
    return bad_good->entry(is_backwards ? &forwards : hello, reply, error);
}

ENTRY(derefs_hello)
{
    volatile uint32_t size = hello->struct_size;
    (void)size;
    return bad_good->entry(hello, reply, error);
}

ENTRY(derefs_reply)
{
    volatile uint32_t size = reply->struct_size;
    (void)size;
    return bad_good->entry(hello, reply, error);
}

ENTRY(derefs_error)
{
    mbr_error unused = {MBR_SIZED(mbr_error)};
    mbr_status status = bad_good->entry(hello, reply, &unused);
    if (status == MBR_VERSION_MISMATCH)
        memcpy(error, &unused, sizeof unused);
    else if (status != MBR_OK && error != NULL)
        memcpy(error, &unused, sizeof unused);
    return status;
}

ENTRY(equality_on_size)
{
    if (hello != NULL && hello->struct_size > sizeof *hello)
        return MBR_INVALID_ARGUMENT;
    return bad_good->entry(hello, reply, error);
}

ENTRY(reads_whole_hello)
{
    if (hello != NULL) {
        volatile uint16_t high = hello->minor_max;
        (void)high;
    }
    return bad_good->entry(hello, reply, error);
}

ENTRY(writes_full_response)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (reply != NULL && reply->struct_size < sizeof *reply)
        reply->reserved_1 = 0, reply->plugin = &bad.plugin;
    return status;
}

ENTRY(ok_without_table)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    return reply != NULL && reply->struct_size < sizeof *reply && status == MBR_INVALID_ARGUMENT
        ? MBR_OK
        : status;
}

ENTRY(sets_size_of_reply)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (reply != NULL && reply->struct_size > sizeof *reply)
        reply->struct_size = sizeof *reply;
    return status;
}

/* After a refusal it gives another table. */
ENTRY(remembers_refusal)
{
    static bool has_refused;
    static mbr_plugin_vtable other;
    mbr_status status = bad_good->entry(hello, reply, error);
    has_refused |= status == MBR_VERSION_MISMATCH;
    if (status == MBR_OK && has_refused && hello->minor_max == 0) {
        other = bad.plugin;
        reply->plugin = &other;
    }
    return status;
}

ENTRY(reserved_nonzero)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (status == MBR_OK)
        reply->reserved_1 = 1;
    return status;
}

ENTRY(range_not_of_note)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (reply != NULL && reply->struct_size >= sizeof *reply) {
        reply->minor_max = 2;
        if (status == MBR_OK && hello->struct_size >= sizeof *hello && hello->minor_max >= 2)
            reply->minor = 2;
    }
    return status;
}

/* Busy for whoever comes second. */
ENTRY(entry_not_any_thread)
{
    static int inside_count;
    bool is_alone = __atomic_fetch_add(&inside_count, 1, __ATOMIC_SEQ_CST) == 0;
    usleep(1000);
    __atomic_fetch_sub(&inside_count, 1, __ATOMIC_SEQ_CST);
    return is_alone ? bad_good->entry(hello, reply, error) : MBR_BUSY;
}

ENTRY(entry_leaks_descriptor)
{
    (void)!dup(0);
    return bad_good->entry(hello, reply, error);
}

#define FAULT(name)                                                                                \
    {                                                                                              \
#name, name                                                                                \
    }

void bad_install_neg(void)
{
    static const struct {
        const char *name;
        mbr_entry_function entry;
    } faults[] = {
        FAULT(refuses_minor_0),
        FAULT(refuses_newer_host),
        FAULT(agrees_to_more),
        FAULT(wrong_refusal),
        FAULT(no_range_in_refusal),
        FAULT(table_in_refusal),
        FAULT(silent_refusal),
        FAULT(accepts_backwards),
        FAULT(derefs_hello),
        FAULT(derefs_reply),
        FAULT(derefs_error),
        FAULT(equality_on_size),
        FAULT(reads_whole_hello),
        FAULT(writes_full_response),
        FAULT(ok_without_table),
        FAULT(sets_size_of_reply),
        FAULT(remembers_refusal),
        FAULT(reserved_nonzero),
        FAULT(range_not_of_note),
        FAULT(entry_not_any_thread),
        FAULT(entry_leaks_descriptor),
    };
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (bad_is(faults[i].name))
            bad.entry = faults[i].entry;
}
