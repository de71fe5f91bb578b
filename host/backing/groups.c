/* Responsible for knowing whether a device serves more than one isolation group. Fills nothing: who
 * makes memory asks. */
#include "host/backing/groups.h"
#include "host/backing/port_internal.h"

void mbr_port_set_groups(mbr_port *port, mbr_groups *groups)
{
    port->groups = groups;
}

void mbr_port_serve_group(mbr_port *port, uint32_t isolation_group)
{
    mbr_groups *groups = port->groups;
    uint64_t first = 0, own = (uint64_t)isolation_group + 1;
    if (!atomic_compare_exchange_strong(&groups->first_group, &first, own) && first != own)
        atomic_store(&groups->are_several, true);
}

bool mbr_port_has_groups(const mbr_port *port)
{
    return atomic_load(&port->groups->are_several);
}
