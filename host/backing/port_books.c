/* Responsible for the port's books: what a lost device took along, the plugin's own figures, and
 * how the two compare. Makes and ends nothing. */
#include "host/backing/port_internal.h"

static void forget_one(mbr_port *port)
{
    add_count(&port->withheld_count, 1);
    add_count(&port->forgotten_count, 1);
}

void mbr_port_forget_extent(mbr_port *port, uint64_t owned_bytes)
{
    forget_one(port);
    sub_count(&port->extent_count, 1);
    sub_count(&port->owned_bytes, owned_bytes);
}

void mbr_port_forget_mapping(mbr_port *port, uint64_t bytes)
{
    forget_one(port);
    sub_count(&port->mapping_count, 1);
    sub_count(&port->mapped_bytes, bytes);
}

void mbr_port_forget_reservation(mbr_port *port, uint64_t address, uint64_t bytes)
{
    mbr_heap_release(port->heap, mbr_addresses_leave(port->addresses, port, address));
    forget_one(port);
    sub_count(&port->reservation_count, 1);
    sub_count(&port->reserved_bytes, bytes);
}

void mbr_port_forget_allocation(mbr_port *port, uint64_t address, uint64_t owned_bytes)
{
    mbr_heap_release(port->heap, mbr_addresses_leave(port->addresses, port, address));
    forget_one(port);
    sub_count(&port->allocation_count, 1);
    sub_count(&port->owned_bytes, owned_bytes);
    sub_count(&port->mapped_bytes, owned_bytes);
}

void mbr_port_forget_lines(mbr_port *port, uint64_t count)
{
    add_count(&port->forgotten_count, count);
}

bool mbr_port_stats(mbr_port *port, mbr_mechanism_stats *stats)
{
    mbr_lock_assert_none_held();
    *stats = (mbr_mechanism_stats){MBR_SIZED(mbr_mechanism_stats)};
    if (!mbr_port_try_enter_gate(port))
        return false;
    add_count(&port->call_count, 1);
    mbr_stats_request request = {MBR_SIZED(mbr_stats_request)};
    bool known = CALL_WITH(port, allocator.stats, &request, stats, NULL) == MBR_OK;
    mbr_port_leave_gate(port);
    return known;
}

void mbr_port_read(const mbr_port *port, mbr_port_figures *figures)
{
    *figures = (mbr_port_figures){
        .owned_bytes = read_count(&port->owned_bytes),
        .mapped_bytes = read_count(&port->mapped_bytes),
        .reserved_bytes = read_count(&port->reserved_bytes),
        .given_back_bytes = read_count(&port->given_back_bytes),
        .reservation_count = read_count(&port->reservation_count),
        .extent_count = read_count(&port->extent_count),
        .mapping_count = read_count(&port->mapping_count),
        .allocation_count = read_count(&port->allocation_count),
        .call_count = read_count(&port->call_count),
        .violation_count = read_count(&port->violation_count),
    };
}

static mbr_status compare(
    mbr_port *port, const char *what, uint64_t host, uint64_t plugin, mbr_error *error)
{
    if (host == plugin || plugin == MBR_UNKNOWN_BYTES)
        return MBR_OK;
    return mbr_fail(error, MBR_CONTRACT_BROKEN,
        "mechanism %s: %s: the host counts %llu, the plugin %llu", port->mechanism.description.name,
        what, (unsigned long long)host, (unsigned long long)plugin);
}

mbr_status mbr_port_audit(mbr_port *port, mbr_error *error)
{
    if (read_count(&port->withheld_count) != 0)
        return MBR_OK; /* what was withheld is counted as a violation; the sides differ by it */
    mbr_port_figures host;
    mbr_port_read(port, &host);
    mbr_mechanism_stats stats;
    mbr_report report = {MBR_SIZED(mbr_report)};
    mbr_report_request request = {MBR_SIZED(mbr_report_request)};
    mbr_lock_assert_none_held();
    if (!mbr_port_try_enter_gate(port))
        return mbr_port_refuse_gated(port, "report", error);
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status = CALL_WITH(port, plugin.report, &request, &report, &own);
    mbr_port_leave_gate(port);
    status = mbr_answer_take("plugin.report", status, &own, error);
    if (status != MBR_OK)
        return status;
    if (!mbr_port_stats(port, &stats))
        stats.owned_bytes = stats.mapped_bytes = stats.reserved_bytes = MBR_UNKNOWN_BYTES;
    const struct {
        const char *what;
        uint64_t host, plugin;
    } rows[] = {
        {"reservations", host.reservation_count, report.reservation_count},
        {"extents", host.extent_count, report.extent_count},
        {"mappings", host.mapping_count, report.mapping_count},
        {"allocations", host.allocation_count, report.allocation_count},
        {"owned bytes", host.owned_bytes, stats.owned_bytes},
        {"mapped bytes", host.mapped_bytes, stats.mapped_bytes},
        {"reserved bytes", host.reserved_bytes, stats.reserved_bytes},
    };
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]) && status == MBR_OK; row++)
        status = compare(port, rows[row].what, rows[row].host, rows[row].plugin, error);
    return status;
}
