/* Faults of the tables (group VTB). */
#include "tests/badplugins/bad.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static mbr_plugin_vtable *heap_table;

static mbr_status entry_with_heap_table(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    mbr_status status = bad_good->entry(hello, reply, error);
    if (status == MBR_OK)
        reply->plugin = heap_table;
    return status;
}

static mbr_status heap_capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    static mbr_allocator_vtable *table;
    mbr_status status = bad_good->plugin.capability(instance, request, outcome, error);
    if (status == MBR_OK && outcome->table->kind == MBR_KIND_ALLOCATOR) {
        if (table == NULL && (table = malloc(sizeof *table)) != NULL)
            *table = bad.allocator;
        outcome->table = (const mbr_vtable_head *)table;
    }
    return status;
}

/* A function of another library, which takes no argument. */
static void set_foreign(void *slot)
{
    uid_t (*foreign)(void) = getuid;
    memcpy(slot, &foreign, sizeof foreign);
}

static mbr_status edits_table(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bad.allocator.trim = NULL;
    return bad_good->allocator.allocate(instance, request, outcome, error);
}

static void install_plugin_faults(void)
{
    if (bad_is("short_plugin_table"))
        bad.plugin.struct_size -= (uint32_t)sizeof(void *);
    if (bad_is("wrong_plugin_kind"))
        bad.plugin.kind = MBR_KIND_ALLOCATOR;
    if (bad_is("minor_from_header"))
        bad.plugin.minor = 7;
    if (bad_is("plugin_table_claims_more"))
        bad.plugin.struct_size = 1u << 24;
    if (bad_is("plugin_table_on_heap") && (heap_table = malloc(sizeof *heap_table)) != NULL) {
        *heap_table = bad.plugin;
        bad.entry = entry_with_heap_table;
    }
    if (bad_is("null_plugin_slot"))
        bad.plugin.quiesce = NULL;
    if (bad_is("foreign_plugin_slot"))
        set_foreign(&bad.plugin.quiesce);
    if (bad_is("other_name_in_table"))
        bad.plugin.name = "good";
    if (bad_is("no_version"))
        bad.plugin.version = "";
}

void bad_install_vtb(void)
{
    install_plugin_faults();
    if (bad_is("short_capability_table"))
        bad.allocator.struct_size -= (uint32_t)sizeof(void *);
    if (bad_is("wrong_kind"))
        bad.shared.kind = MBR_KIND_ORDER;
    if (bad_is("capability_minor_from_header"))
        bad.virtual_.minor = 7;
    if (bad_is("null_required_slot"))
        bad.virtual_.query = NULL;
    if (bad_is("foreign_slot"))
        set_foreign(&bad.virtual_.query);
    if (bad_is("capability_table_on_heap"))
        bad.plugin.capability = heap_capability;
    if (bad_is("short_struct"))
        bad.virtual_.struct_size = 1u << 24;
    if (bad_is("mutable_global"))
        bad.allocator.allocate = edits_table;
}
