/* Group VTB: the tables, looked at before any of their slots is trusted. Calls `open`, `capability`
 * and `mechanisms` alone, to get at them. */
#include "tools/check/elf_file.h"
#include "tools/check/image.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX_BYTES 256

/* ---- The plugin's table ---------------------------------------------------------------------- */

static void run_size(mbr_trial *trial)
{
    MBR_EXPECT(trial, trial->plugin->struct_size >= MBR_MIN_SIZE_PLUGIN_VTABLE_MINOR_0,
        "the plugin's table holds every slot of minor 0", "struct_size %u of %d",
        trial->plugin->struct_size, MBR_MIN_SIZE_PLUGIN_VTABLE_MINOR_0);
}

static void run_kind(mbr_trial *trial)
{
    MBR_EXPECT(trial, trial->plugin->kind == MBR_KIND_PLUGIN,
        "the plugin's table is of kind MBR_KIND_PLUGIN", "kind %u", trial->plugin->kind);
}

/* The highest minor that anything of the file may state. */
static uint16_t highest_minor(mbr_trial *trial)
{
    static mbr_elf_file file;
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_NEED(trial, head.minor_min <= head.minor_max, "the note's range is empty");
    return head.minor_max;
}

static void run_minor(mbr_trial *trial)
{
    uint16_t highest = highest_minor(trial);
    MBR_EXPECT(trial, trial->plugin->minor <= highest,
        "the table states the minor that its source was written for", "%u, the note ends at %u",
        trial->plugin->minor, highest);
}

static void run_reaches_its_size(mbr_trial *trial)
{
    const mbr_vtable_head *head = (const mbr_vtable_head *)trial->plugin;
    MBR_NEED(trial, mbr_image_holds(trial, head, sizeof *head), "it lies outside of the file");
    MBR_EXPECT(trial, mbr_image_holds(trial, head, head->struct_size),
        "the table is as long as it says", "struct_size %u reaches beyond the file's segment",
        head->struct_size);
}

static void run_is_static(mbr_trial *trial)
{
    MBR_EXPECT(trial, mbr_image_holds(trial, trial->plugin, sizeof(mbr_vtable_head)),
        "the table is static storage of the plugin's file", "it lies elsewhere, at %p",
        (const void *)trial->plugin);
}

static const void *pointer_at(const void *table, uint32_t offset)
{
    const void *pointer;
    memcpy(&pointer, (const char *)table + offset, sizeof pointer);
    return pointer;
}

static void expect_slots_filled(mbr_trial *trial, const void *table, uint32_t kind)
{
    uint32_t size;
    memcpy(&size, table, sizeof size);
    for (uint32_t i = 0; i < MBR_SLOT_COUNT; i++)
        if (mbr_slots[i].table == kind && size >= mbr_slots[i].offset_in_table + sizeof(void *))
            MBR_EXPECT(trial, pointer_at(table, mbr_slots[i].offset_in_table) != NULL,
                "every slot of minor 0 is there", "%s is NULL", mbr_slots[i].name);
}

static void expect_slots_own(mbr_trial *trial, const void *table, uint32_t kind)
{
    uint32_t size;
    memcpy(&size, table, sizeof size);
    for (uint32_t i = 0; i < MBR_SLOT_COUNT; i++) {
        if (mbr_slots[i].table != kind || size < mbr_slots[i].offset_in_table + sizeof(void *))
            continue;
        const void *slot = pointer_at(table, mbr_slots[i].offset_in_table);
        MBR_EXPECT(trial, slot == NULL || mbr_image_holds_code(trial, slot),
            "every slot is code of the plugin's own file", "%s is at %p", mbr_slots[i].name, slot);
    }
}

static void run_slots_filled(mbr_trial *trial)
{
    expect_slots_filled(trial, trial->plugin, MBR_KIND_PLUGIN);
}

static void run_slots_own(mbr_trial *trial)
{
    expect_slots_own(trial, trial->plugin, MBR_KIND_PLUGIN);
}

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return false;
    return true;
}

static void run_name(mbr_trial *trial)
{
    static mbr_elf_file file;
    const char *name = trial->plugin->name;
    mbr_elf_file_read(trial, &file);
    mbr_note_head head = mbr_elf_file_note(trial, &file);
    MBR_NEED(trial, mbr_elf_note_has_name(&head), "the note's name is none");
    MBR_EXPECT(trial,
        mbr_image_holds_text(trial, name, TEXT_MAX_BYTES) && strcmp(name, head.name) == 0,
        "the table's name is a text of the file, the note's", "not '%s'", head.name);
}

static void run_version(mbr_trial *trial)
{
    const char *version = trial->plugin->version;
    MBR_EXPECT(trial,
        mbr_image_holds_text(trial, version, TEXT_MAX_BYTES) && *version != '\0' &&
            is_printable(version),
        "the version is a printable text of the file, terminated within 256 bytes, not empty",
        "at %p it is not", (const void *)version);
}

/* ---- Tables of capabilities ------------------------------------------------------------------ */

static const struct {
    const char *id;
    uint32_t kind;
    uint32_t min_bytes;
} capabilities[] = {
    {MBR_ID_ALLOCATOR, MBR_KIND_ALLOCATOR, MBR_MIN_SIZE_ALLOCATOR_VTABLE_MINOR_0},
    {MBR_ID_VIRTUAL, MBR_KIND_VIRTUAL, MBR_MIN_SIZE_VIRTUAL_VTABLE_MINOR_0},
    {MBR_ID_SHARED, MBR_KIND_SHARED, MBR_MIN_SIZE_SHARED_VTABLE_MINOR_0},
    {MBR_ID_ORDER, MBR_KIND_ORDER, MBR_MIN_SIZE_ORDER_VTABLE_MINOR_0},
    {MBR_ID_TRANSFER, MBR_KIND_TRANSFER, MBR_MIN_SIZE_TRANSFER_VTABLE_MINOR_0},
};

#define CAPABILITY_COUNT (sizeof capabilities / sizeof capabilities[0])

/* NULL where it is not offered. */
static const mbr_vtable_head *table_of(mbr_trial *trial, uint32_t index)
{
    const mbr_capability_request request = {
        MBR_SIZED(mbr_capability_request), .minor = MBR_MINOR_0, .id = capabilities[index].id};
    mbr_capability_outcome outcome = {0};
    if (mbr_drive_capability(trial, &trial->subject, &request, &outcome) != MBR_OK)
        return NULL;
    return outcome.table;
}

static void run_capability_size(mbr_trial *trial)
{
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++) {
        const mbr_vtable_head *table = table_of(trial, i);
        MBR_EXPECT(trial, table == NULL || table->struct_size >= capabilities[i].min_bytes,
            "a capability's table holds every slot of minor 0", "%s: struct_size %u of %u",
            capabilities[i].id, table == NULL ? 0 : table->struct_size, capabilities[i].min_bytes);
    }
}

static void run_capability_kind(mbr_trial *trial)
{
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++) {
        const mbr_vtable_head *table = table_of(trial, i);
        MBR_EXPECT(trial, table == NULL || table->kind == capabilities[i].kind,
            "a capability's table is of its kind", "%s: kind %u, not %u", capabilities[i].id,
            table == NULL ? 0u : table->kind, capabilities[i].kind);
    }
}

static void run_capability_minor(mbr_trial *trial)
{
    uint16_t highest = highest_minor(trial);
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++) {
        const mbr_vtable_head *table = table_of(trial, i);
        MBR_EXPECT(trial, table == NULL || table->minor <= highest,
            "a capability's table states the minor that its source was written for",
            "%s: minor %u, the note ends at %u", capabilities[i].id,
            table == NULL ? 0u : table->minor, highest);
    }
}

static void run_capability_slots_filled(mbr_trial *trial)
{
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++) {
        const mbr_vtable_head *table = table_of(trial, i);
        if (table != NULL && table->kind == capabilities[i].kind)
            expect_slots_filled(trial, table, capabilities[i].kind);
    }
}

static void run_capability_slots_own(mbr_trial *trial)
{
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++) {
        const mbr_vtable_head *table = table_of(trial, i);
        if (table != NULL && table->kind == capabilities[i].kind)
            expect_slots_own(trial, table, capabilities[i].kind);
    }
}

static void run_capability_is_static(mbr_trial *trial)
{
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++) {
        const mbr_vtable_head *table = table_of(trial, i);
        MBR_EXPECT(trial, table == NULL || mbr_image_holds(trial, table, sizeof *table),
            "a capability's table is static storage of the plugin's file", "%s lies at %p",
            capabilities[i].id, (const void *)table);
    }
}

static void run_capability_reaches_its_size(mbr_trial *trial)
{
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++) {
        const mbr_vtable_head *table = table_of(trial, i);
        if (table == NULL || !mbr_image_holds(trial, table, sizeof *table))
            continue;
        MBR_EXPECT(trial, mbr_image_holds(trial, table, table->struct_size),
            "a capability's table is as long as it says", "%s: struct_size %u", capabilities[i].id,
            table->struct_size);
    }
}

/* Open, ask, allocate: a table that a host has copied must not need to be read again. */
static void run_unchanged(mbr_trial *trial)
{
    unsigned char before[4096];
    const mbr_vtable_head *tables[CAPABILITY_COUNT + 1];
    uint64_t at = 0;
    mbr_subject second;
    tables[0] = (const mbr_vtable_head *)trial->plugin;
    for (uint32_t i = 0; i < CAPABILITY_COUNT; i++)
        tables[i + 1] = table_of(trial, i);
    for (uint32_t i = 0; i <= CAPABILITY_COUNT; i++) {
        uint64_t bytes = tables[i] == NULL ? 0 : tables[i]->struct_size;
        bytes = bytes < 512 ? bytes : 512;
        MBR_NEED(trial, bytes == 0 || mbr_image_holds(trial, tables[i], tables[i]->struct_size),
            "a short table");
        if (bytes != 0) /* a capability that is not offered has no table to copy */
            memcpy(before + at, tables[i], bytes);
        at += bytes;
    }
    const mbr_allocate_request request = {MBR_SIZED(mbr_allocate_request),
        .allocation_id = mbr_trial_id(trial), .bytes = 4096, .max_owned_bytes = UINT64_MAX};
    mbr_outcome outcome = {0};
    mbr_drive_allocate(trial, &trial->subject, &request, &outcome);
    mbr_subject_open(trial, NULL, 0, &second, NULL);
    at = 0;
    for (uint32_t i = 0; i <= CAPABILITY_COUNT; i++) {
        uint64_t bytes = tables[i] == NULL ? 0 : tables[i]->struct_size;
        bytes = bytes < 512 ? bytes : 512;
        MBR_EXPECT(trial, bytes == 0 || memcmp(before + at, tables[i], bytes) == 0,
            "a published table never changes", "%s did while a mechanism was used",
            i == 0 ? "the plugin's" : capabilities[i - 1].id);
        at += bytes;
    }
}

#define VTB(number, stage, rules, title, why, run)                                                 \
    {                                                                                              \
        "VTB-" number, 1, MBR_STAGE_##stage, 0, rules, title, why, run, 0, 0                       \
    }

static const mbr_check checks[] = {
    VTB("001", GREETED, "C10, C19", "the plugin's table has the size of minor 0 at least",
        "Required slots are all of minor 0; a shorter table lacks one.", run_size),
    VTB("002", GREETED, "C10", "the plugin's table is of its kind",
        "The kind is how a reader knows what it was given.", run_kind),
    VTB("003", GREETED, "C18", "the plugin's table states no minor above the note's",
        "A minor copied from a newer header promises slots that the source never had.", run_minor),
    VTB("004", GREETED, "C10, C12", "the plugin's table is as long as it says",
        "A host copies struct_size bytes at most; beyond the real end it would copy another "
        "object.",
        run_reaches_its_size),
    VTB("005", GREETED, "C3", "the plugin's table is static storage of the file",
        "It must live as long as the code; a table on a heap or stack can go away.", run_is_static),
    VTB("006", GREETED, "C19", "the plugin's table lacks no slot",
        "A host calls every required slot without asking whether it is there.", run_slots_filled),
    VTB("007", GREETED, "C31", "the plugin's slots are code of the file",
        "A pointer elsewhere is another library's function or no code at all.", run_slots_own),
    VTB("008", GREETED, "C20", "the table's name is the note's",
        "Messages name the plugin by the one, searches find it by the other.", run_name),
    VTB("009", GREETED, "C7", "the table's version is a terminated text",
        "It is printed; without an end whatever follows is printed too.", run_version),
    VTB("010", OPENED, "C10, C19", "capabilities' tables have the size of minor 0 at least",
        "Required slots are all of minor 0; a shorter table lacks one.", run_capability_size),
    VTB("011", OPENED, "C10", "capabilities' tables are of their kinds",
        "A table of another kind has other functions at the same offsets.", run_capability_kind),
    VTB("012", OPENED, "C18", "capabilities' tables state no minor above the note's",
        "A minor copied from a newer header promises slots that the source never had.",
        run_capability_minor),
    VTB("013", OPENED, "C19", "capabilities' tables lack no slot",
        "What is offered is offered whole.", run_capability_slots_filled),
    VTB("014", OPENED, "C31", "capabilities' slots are code of the file",
        "A pointer elsewhere is another library's function or no code at all.",
        run_capability_slots_own),
    VTB("015", OPENED, "C3", "capabilities' tables are static storage of the file",
        "It must live as long as the code; a table on a heap or stack can go away.",
        run_capability_is_static),
    VTB("016", OPENED, "C10, C12", "capabilities' tables are as long as they say",
        "A host copies struct_size bytes at most; beyond the real end it would copy another "
        "object.",
        run_capability_reaches_its_size),
    VTB("017", OPENED, "C3", "published tables never change",
        "A host reads a table once and keeps its copy; what is edited later is not seen.",
        run_unchanged),
};

const mbr_group mbr_group_vtb = MBR_GROUP("VTB", "the tables", checks);
