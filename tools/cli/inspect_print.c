/* Responsible for the two outputs of `membrane inspect`. Asks nothing. */
#include "tools/cli/inspect.h"

#include "tools/cli/args.h"
#include "tools/cli/note_json.h"
#include "tools/cli/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static const char *const domains[] = {"", "host", "pinned", "device", "unified"};
static const char *const tiers[] = {"", "device", "host"};
static const char *const contents[] = {"undefined", "zero", "stale"};
static const char *const pasts[] = {"refuse", "page silently", "kill"};

/* The sizes and flags of a mechanism, once for both outputs. */
static const struct {
    const char *key;
    size_t offset;
} sizes[] =
    {
        {"granule_min_bytes", offsetof(mbr_mechanism, granule_min_bytes)},
        {"granule_recommended_bytes", offsetof(mbr_mechanism, granule_recommended_bytes)},
        {"extent_max_bytes", offsetof(mbr_mechanism, extent_max_bytes)},
        {"reservation_max_bytes", offsetof(mbr_mechanism, reservation_max_bytes)},
        {"allocation_align_bytes", offsetof(mbr_mechanism, allocation_align_bytes)},
        {"allocation_round_bytes", offsetof(mbr_mechanism, allocation_round_bytes)},
        {"descriptors_per_extent", offsetof(mbr_mechanism, descriptors_per_extent)},
},
  flags[] = {
      {"usable_after_protect", offsetof(mbr_mechanism, usable_after_protect)},
      {"unmap_spans_mappings", offsetof(mbr_mechanism, unmap_spans_mappings)},
      {"unmap_waits_for_device", offsetof(mbr_mechanism, unmap_waits_for_device)},
      {"protect_may_fail_spuriously", offsetof(mbr_mechanism, protect_may_fail_spuriously)},
      {"aliasing", offsetof(mbr_mechanism, aliasing)},
      {"read_only_enforced", offsetof(mbr_mechanism, read_only_enforced)},
      {"releasable_after_loss", offsetof(mbr_mechanism, releasable_after_loss)},
      {"host_accessible", offsetof(mbr_mechanism, host_accessible)},
      {"fork_safe", offsetof(mbr_mechanism, fork_safe)},
      {"populated", offsetof(mbr_mechanism, populated)},
};

static const struct {
    const char *name;
    size_t offset; /* of its flag; allocator is always there */
} capabilities[] = {
    {"virtual", offsetof(mbr_mechanism, has_virtual)},
    {"shared", offsetof(mbr_mechanism, has_shared)},
    {"order", offsetof(mbr_mechanism, has_order)},
    {"transfer", offsetof(mbr_mechanism, has_transfer)},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t size_of(const mbr_mechanism *mechanism, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)mechanism + offset, sizeof value);
    return value;
}

static bool flag_of(const mbr_mechanism *mechanism, size_t offset)
{
    bool value;
    memcpy(&value, (const char *)mechanism + offset, sizeof value);
    return value;
}

/* ---- For people ------------------------------------------------------------------------------ */

static void print_size(FILE *out, const char *label, uint64_t bytes)
{
    char text[32];
    if (bytes == UINT64_MAX)
        fprintf(out, "    %-30s no limit\n", label);
    else
        fprintf(out, "    %-30s %" PRIu64 " (%s)\n", label, bytes,
            mbr_args_format_bytes(text, sizeof text, bytes));
}

static void print_uuid(FILE *out, const uint8_t uuid[16])
{
    static const uint8_t none[16] = {0};
    if (memcmp(uuid, none, sizeof none) == 0)
        return;
    fprintf(out, "    %-30s ", "uuid");
    for (unsigned i = 0; i < 16; i++)
        fprintf(out, "%02x%s", uuid[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
    fprintf(out, "\n");
}

static void print_facts(FILE *out, const mbr_mechanism *facts)
{
    fprintf(out, "    %-30s allocator", "capabilities");
    for (size_t i = 0; i < COUNT(capabilities); i++)
        if (flag_of(facts, capabilities[i].offset))
            fprintf(out, ", %s", capabilities[i].name);
    fprintf(out, "\n");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        bool is_of_virtual = i < 4 || i == 6;
        if (is_of_virtual && !facts->has_virtual)
            continue;
        if (i == 6)
            fprintf(out, "    %-30s %" PRIu64 "\n", sizes[i].key, size_of(facts, sizes[i].offset));
        else
            print_size(out, sizes[i].key, size_of(facts, sizes[i].offset));
    }
    fprintf(out, "    %-30s %s\n", "fresh_content", contents[facts->fresh_content]);
    fprintf(out, "    %-30s %s\n", "past_physical_size", pasts[facts->past_physical_size]);
    for (size_t i = 0; i < COUNT(flags); i++)
        fprintf(
            out, "    %-30s %s\n", flags[i].key, flag_of(facts, flags[i].offset) ? "yes" : "no");
    fprintf(out, "    %-30s 0x%" PRIx64 "%s\n", "quirks", facts->quirks,
        (facts->quirks & MBR_QUIRK_LOCAL_DEVICE_LAST) != 0 ? " (local device last)" : "");
}

static void print_mechanism(FILE *out, const mbr_inspected *item)
{
    const mbr_mechanism_description *d = &item->description;
    char text[128];
    fprintf(out, "  mechanism %s: %s\n", d->name,
        mbr_text_printable(text, sizeof text, d->description));
    fprintf(out, "    %-30s %s memory, tier %s, device %u\n", "where", domains[d->domain],
        tiers[d->tier], d->device_index);
    print_uuid(out, d->uuid);
    if (d->pci[0] != '\0')
        fprintf(out, "    %-30s %s\n", "pci", d->pci);
    if (item->was_opened)
        print_facts(out, &item->facts);
    if (item->status != MBR_OK)
        fprintf(out, "    %-30s %s\n", item->was_opened ? "does not close" : "does not open",
            item->text);
}

void mbr_inspect_print_human(FILE *out, const mbr_inspection *inspection)
{
    const mbr_note_facts *note = &inspection->candidate.note;
    char path[MBR_LOADER_PATH_BYTES], breach[MBR_LOADER_REASON_BYTES];
    fprintf(out, "%s %s (%s)\n", note->name, inspection->version, note->vendor);
    fprintf(out, "  %-32s %s\n", "file",
        mbr_text_printable(path, sizeof path, inspection->candidate.path));
    if (inspection->breach != MBR_REASON_USED)
        fprintf(out, "  %-32s %s: %s\n", "NOT TRUSTED", mbr_reason_word(inspection->breach),
            mbr_text_printable(breach, sizeof breach, inspection->breach_text));
    fprintf(out, "  %-32s %u.%u, its range %u to %u, digest %016" PRIx64 "\n", "contract",
        note->major, inspection->minor, note->minor_min, note->minor_max, note->digest);
    fprintf(
        out, "  %-32s %s\n", "unloadable", (note->flags & MBR_NOTE_UNLOADABLE) != 0 ? "yes" : "no");
    if (mbr_pin_text(note)[0] != '\0')
        fprintf(out, "  %-32s %s %s\n", "pinned by", mbr_pin_text(note), note->unique_symbol);
    for (uint32_t i = 0; i < inspection->count; i++)
        print_mechanism(out, &inspection->mechanisms[i]);
    if (inspection->enumeration[0] != '\0')
        fprintf(out, "  %-32s %s\n", inspection->count == 0 ? "no mechanism" : "no more mechanisms",
            inspection->enumeration);
}

/* ---- For programs ---------------------------------------------------------------------------- */

/* JSON's integers end at 2^63 - 1; a value above it means no limit. */
static json_t *size_json(uint64_t value)
{
    return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

static int set_facts(json_t *object, const mbr_mechanism *facts)
{
    json_t *list = json_pack("[s]", "allocator");
    int failed = list == NULL;
    for (size_t i = 0; i < COUNT(capabilities); i++)
        if (flag_of(facts, capabilities[i].offset))
            failed |= json_array_append_new(list, json_string(capabilities[i].name));
    failed |= json_object_set_new(object, "capabilities", list);
    for (size_t i = 0; i < COUNT(sizes); i++)
        failed |=
            json_object_set_new(object, sizes[i].key, size_json(size_of(facts, sizes[i].offset)));
    for (size_t i = 0; i < COUNT(flags); i++)
        failed |= json_object_set_new(
            object, flags[i].key, json_boolean(flag_of(facts, flags[i].offset)));
    failed |=
        json_object_set_new(object, "fresh_content", json_string(contents[facts->fresh_content]));
    failed |= json_object_set_new(
        object, "past_physical_size", json_string(pasts[facts->past_physical_size]));
    char quirks[24];
    snprintf(quirks, sizeof quirks, "0x%" PRIx64, facts->quirks);
    return failed | json_object_set_new(object, "quirks", json_string(quirks));
}

static json_t *mechanism_json(const mbr_inspected *item)
{
    const mbr_mechanism_description *d = &item->description;
    char uuid[33];
    for (unsigned i = 0; i < 16; i++)
        snprintf(uuid + i * 2, 3, "%02x", d->uuid[i]);
    json_t *object = json_pack("{s:o,s:o,s:s,s:s,s:I,s:s,s:o,s:b,s:i,s:o}", "name",
        mbr_text_json(d->name), "description", mbr_text_json(d->description), "domain",
        domains[d->domain], "tier", tiers[d->tier], "device_index", (json_int_t)d->device_index,
        "uuid", uuid, "pci", mbr_text_json(d->pci), "opened", item->was_opened, "status",
        (int)item->status, "text", mbr_text_json(item->text));
    if (object == NULL || !item->was_opened || set_facts(object, &item->facts) == 0)
        return object;
    json_decref(object);
    return NULL;
}

bool mbr_inspect_print_json(FILE *out, const mbr_inspection *inspection)
{
    json_t *root = mbr_candidate_json(&inspection->candidate);
    json_t *list = json_array();
    int failed = root == NULL || list == NULL;
    for (uint32_t i = 0; failed == 0 && i < inspection->count; i++)
        failed = json_array_append_new(list, mechanism_json(&inspection->mechanisms[i]));
    if (failed == 0) {
        failed |= json_object_set_new(root, "version", mbr_text_json(inspection->version));
        failed |= json_object_set_new(root, "minor", json_integer(inspection->minor));
        failed |= json_object_set_new(
            root, "trusted", json_boolean(inspection->breach == MBR_REASON_USED));
        failed |= json_object_set_new(root, "breach", mbr_text_json(inspection->breach_text));
        failed |= json_object_set_new(root, "enumeration", mbr_text_json(inspection->enumeration));
        failed |= json_object_set(root, "mechanisms", list);
    }
    bool is_whole =
        failed == 0 && json_dumpf(root, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;
    json_decref(list);
    json_decref(root);
    return is_whole;
}
