/* Copies and validates vtables. A plugin's memory is read once, within its own file and within the
 * size that it states; what the host calls later is the copy. Calls no slot. */
#include "host/loader/table.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"
#include "abi/derive/slots.h"
#include "host/loader/note.h"
#include "host/loader/stubs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct table_spec {
    const char *id;
    uint16_t kind;
    uint16_t own_bytes;
    uint16_t min_bytes[MBR_HOST_MINOR_MAX + 1]; /* by minor; that of the last one for later ones */
    const void *stub;
    const mbr_slot_spec *slots;
    uint32_t slot_count;
} table_spec;

#define SLOT(table, slot, request_type, outcome_type, minor, serial)                               \
    {#slot, offsetof(table, slot), minor},

static const mbr_slot_spec plugin_slots[] = {MBR_SLOTS_PLUGIN_VTABLE(SLOT)};
static const mbr_slot_spec allocator_slots[] = {MBR_SLOTS_ALLOCATOR_VTABLE(SLOT)};
static const mbr_slot_spec virtual_slots[] = {MBR_SLOTS_VIRTUAL_VTABLE(SLOT)};
static const mbr_slot_spec shared_slots[] = {MBR_SLOTS_SHARED_VTABLE(SLOT)};
static const mbr_slot_spec order_slots[] = {MBR_SLOTS_ORDER_VTABLE(SLOT)};
static const mbr_slot_spec transfer_slots[] = {MBR_SLOTS_TRANSFER_VTABLE(SLOT)};

#define TABLE(table_id, lower, UPPER)                                                              \
    {                                                                                              \
        .id = (table_id), .kind = MBR_KIND_##UPPER, .own_bytes = sizeof(mbr_##lower##_vtable),     \
        .min_bytes = {MBR_DERIVED_SIZES_##UPPER##_VTABLE}, .stub = &mbr_stub_mbr_##lower##_vtable, \
        .slots = lower##_slots, .slot_count = sizeof lower##_slots / sizeof *lower##_slots         \
    }

static const table_spec specs[MBR_TABLE_COUNT] = {
    [MBR_TABLE_PLUGIN] = TABLE("membrane.plugin", plugin, PLUGIN),
    [MBR_TABLE_ALLOCATOR] = TABLE(MBR_ID_ALLOCATOR, allocator, ALLOCATOR),
    [MBR_TABLE_VIRTUAL] = TABLE(MBR_ID_VIRTUAL, virtual, VIRTUAL),
    [MBR_TABLE_SHARED] = TABLE(MBR_ID_SHARED, shared, SHARED),
    [MBR_TABLE_ORDER] = TABLE(MBR_ID_ORDER, order, ORDER),
    [MBR_TABLE_TRANSFER] = TABLE(MBR_ID_TRANSFER, transfer, TRANSFER),
};

typedef void (*any_slot)(void);

const char *mbr_table_id(mbr_table_index table)
{
    return specs[table].id;
}

uint32_t mbr_table_bytes(mbr_table_index table)
{
    return specs[table].own_bytes;
}

void mbr_table_fill_absent(mbr_table_index table, void *own)
{
    memcpy(own, specs[table].stub, specs[table].own_bytes);
}

__attribute__((format(printf, 2, 3))) static bool refuse(char *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, MBR_TABLE_TEXT_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

/* Reads the head and finds how many bytes of the table may be used. */
static bool judge_head(const table_spec *spec, const mbr_image *image, const void *foreign,
    uint16_t agreed, mbr_vtable_head *head, uint16_t *minor, char *text)
{
    if (foreign == NULL)
        return refuse(text, "success with a NULL table of %s", spec->id);
    if ((uintptr_t)foreign % _Alignof(any_slot) != 0 ||
        !mbr_image_holds(image, foreign, sizeof *head))
        return refuse(text, "the table of %s at %p is no static storage of the plugin's file",
            spec->id, foreign);
    memcpy(head, foreign, sizeof *head);
    if (head->kind != spec->kind)
        return refuse(text, "the table of %s states kind %u; that of %s is %u", spec->id,
            head->kind, spec->id, spec->kind);
    *minor = (uint16_t)mbr_min(agreed, head->minor);
    uint32_t known = (uint32_t)mbr_min(head->minor, MBR_HOST_MINOR_MAX);
    if (head->struct_size < spec->min_bytes[known])
        return refuse(text, "the table of %s states %u bytes; minor %u has at least %u", spec->id,
            head->struct_size, known, spec->min_bytes[known]);
    return true;
}

static bool is_null(const void *own, const mbr_slot_spec *slot)
{
    any_slot value;
    memcpy(&value, (const char *)own + slot->offset, sizeof value);
    return value == NULL;
}

/* Every slot ends as the plugin's or as a stub; a required one must be the plugin's. */
static bool settle_slots(const table_spec *spec, uint16_t minor, void *own, char *text)
{
    for (uint32_t i = 0; i < spec->slot_count; i++) {
        const mbr_slot_spec *slot = &spec->slots[i];
        bool is_above = slot->minor > minor;
        if (!is_above && !is_null(own, slot))
            continue;
        if (!is_above && slot->minor == 0)
            return refuse(text, "the required slot %s of %s is NULL", slot->name, spec->id);
        memcpy(
            (char *)own + slot->offset, (const char *)spec->stub + slot->offset, sizeof(any_slot));
    }
    return true;
}

static bool copy(const table_spec *spec, const mbr_image *image, const void *foreign,
    uint16_t agreed, void *own, char *text)
{
    mbr_vtable_head head;
    uint16_t minor = 0;
    memcpy(own, spec->stub, spec->own_bytes);
    if (!judge_head(spec, image, foreign, agreed, &head, &minor, text))
        return false;
    uint64_t bytes = mbr_min(head.struct_size, spec->own_bytes);
    if (!mbr_image_holds(image, foreign, bytes))
        return refuse(text, "the table of %s states %u bytes, beyond the end of the plugin's file",
            spec->id, head.struct_size);
    memset(own, 0, spec->own_bytes);
    memcpy(own, foreign, bytes);
    mbr_vtable_head settled = {spec->own_bytes, spec->kind, minor};
    memcpy(own, &settled, sizeof settled);
    if (settle_slots(spec, minor, own, text))
        return true;
    memcpy(own, spec->stub, spec->own_bytes);
    return false;
}

bool mbr_table_copy(mbr_table_index table, const mbr_image *image, const void *foreign,
    uint16_t agreed, void *own, char text[MBR_TABLE_TEXT_BYTES])
{
    MBR_ASSERT(agreed <= MBR_HOST_MINOR_MAX);
    return copy(&specs[table], image, foreign, agreed, own, text);
}

/* ---- Third parties (rule 2) */
uint16_t mbr_table_kind_of_id(const char *id)
{
    uint32_t hash = UINT32_C(2166136261); /* FNV-1a, as membrane/base.h says */
    for (; *id != '\0'; id++)
        hash = (hash ^ (unsigned char)*id) * UINT32_C(16777619);
    return (uint16_t)(0x8000U | (hash & 0x7FFFU));
}

bool mbr_table_copy_foreign(const mbr_foreign_table *wanted, const mbr_image *image,
    const void *foreign, void *own, char text[MBR_TABLE_TEXT_BYTES])
{
    const table_spec spec = {.id = wanted->id,
        .kind = mbr_table_kind_of_id(wanted->id),
        .own_bytes = wanted->own_bytes,
        .min_bytes = {wanted->min_bytes},
        .stub = wanted->stub,
        .slots = wanted->slots,
        .slot_count = wanted->slot_count};
    return copy(&spec, image, foreign, wanted->minor, own, text);
}
