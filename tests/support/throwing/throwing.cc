/* libmembrane-throwing.so: the host-RAM mechanism in C++, which throws out of the one slot that the
 * environment variable MEMBRANE_THROW names, "table.slot" or "entry" (rule 26 forbids it). Every
 * other call is the host plugin's own. */
extern "C" {
#include "plugins/common/answer.h"
#include "plugins/host/core.h"
}

#include <cstdlib>
#include <cstring>
#include <stdexcept>

MBR_PLUGIN_NOTE("throwing", "membrane tests", 0);

namespace
{

void may_throw(const char *slot)
{
    const char *told = std::getenv("MEMBRANE_THROW");
    if (told != nullptr && std::strcmp(told, slot) == 0)
        throw std::runtime_error(slot);
}

#define SLOT(table, name, request_type, outcome_type)                                              \
    mbr_status table##_##name(mbr_instance *instance, const request_type *request,                 \
        outcome_type *outcome, mbr_error *error)                                                   \
    {                                                                                              \
        may_throw(#table "." #name);                                                               \
        return mbr_host_##table.name(instance, request, outcome, error);                           \
    }

SLOT(plugin, mechanisms, mbr_mechanisms_request, mbr_mechanism_description)
SLOT(plugin, open, mbr_open_request, mbr_open_outcome)
SLOT(plugin, close, mbr_close_request, mbr_outcome)
SLOT(plugin, report, mbr_report_request, mbr_report)
SLOT(plugin, quiesce, mbr_quiesce_request, mbr_outcome)
SLOT(allocator, fact, mbr_fact_request, mbr_fact_outcome)
SLOT(allocator, allocate, mbr_allocate_request, mbr_outcome)
SLOT(allocator, release, mbr_release_request, mbr_outcome)
SLOT(allocator, stats, mbr_stats_request, mbr_mechanism_stats)
SLOT(virtual, reserve, mbr_reserve_request, mbr_outcome)
SLOT(virtual, unreserve, mbr_unreserve_request, mbr_outcome)
SLOT(virtual, extent_create, mbr_extent_create_request, mbr_outcome)
SLOT(virtual, extent_destroy, mbr_extent_destroy_request, mbr_outcome)
SLOT(virtual, map, mbr_map_request, mbr_outcome)
SLOT(virtual, protect, mbr_protect_request, mbr_outcome)
SLOT(virtual, unmap, mbr_unmap_request, mbr_outcome)
SLOT(shared, map_shared, mbr_map_shared_request, mbr_outcome)

mbr_allocator_vtable allocator;
mbr_virtual_vtable virtual_;
mbr_shared_vtable shared;
mbr_plugin_vtable plugin;

mbr_status plugin_capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    may_throw("plugin.capability");
    mbr_status status = mbr_host_plugin.capability(instance, request, outcome, error);
    if (status != MBR_OK)
        return status;
    if (outcome->table->kind == MBR_KIND_ALLOCATOR)
        outcome->table = reinterpret_cast<const mbr_vtable_head *>(&allocator);
    else if (outcome->table->kind == MBR_KIND_VIRTUAL)
        outcome->table = reinterpret_cast<const mbr_vtable_head *>(&virtual_);
    else if (outcome->table->kind == MBR_KIND_SHARED)
        outcome->table = reinterpret_cast<const mbr_vtable_head *>(&shared);
    return MBR_OK;
}

void fill_tables()
{
    allocator = mbr_host_allocator;
    allocator.fact = allocator_fact;
    allocator.allocate = allocator_allocate;
    allocator.release = allocator_release;
    allocator.stats = allocator_stats;
    virtual_ = mbr_host_virtual;
    virtual_.reserve = virtual_reserve;
    virtual_.unreserve = virtual_unreserve;
    virtual_.extent_create = virtual_extent_create;
    virtual_.extent_destroy = virtual_extent_destroy;
    virtual_.map = virtual_map;
    virtual_.protect = virtual_protect;
    virtual_.unmap = virtual_unmap;
    shared = mbr_host_shared;
    shared.map_shared = shared_map_shared;
    plugin = mbr_host_plugin;
    plugin.name = "throwing";
    plugin.mechanisms = plugin_mechanisms;
    plugin.open = plugin_open;
    plugin.capability = plugin_capability;
    plugin.close = plugin_close;
    plugin.report = plugin_report;
    plugin.quiesce = plugin_quiesce;
}

} // namespace

mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    may_throw("entry");
    fill_tables();
    return mbr_answer_hello(&plugin, hello, reply, error);
}
