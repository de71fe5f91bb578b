/* Pressure, from both sides: what a refused tenant asks for, and what it gives when others ask. The
 * library decides who is asked and for how much; what goes is decided here. */
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"

void replay_settle_releases(replay_sim *sim)
{
    mbr_ep_drain(sim->world.manager, sim->world.ep, replay_drain_deadline_ns(&sim->world), NULL);
}

static bool evict_prefix(replay_tenant *tenant)
{
    if (tenant->store == NULL || !replay_store_evict(tenant->store))
        return false;
    tenant->sim->report->ledger_calls++;
    tenant->report->evicted_prefixes++;
    replay_settle_releases(tenant->sim);
    return true;
}

/* Where nobody runs, nobody else would ever give the others' cold prefixes. */
static bool evict_of_all(replay_sim *sim)
{
    bool evicted = false;
    for (uint32_t i = 0; i < sim->tenant_count && !evicted; i++)
        evicted = evict_prefix(&sim->tenants[i]);
    return evicted;
}

bool replay_make_room(replay_tenant *tenant, bool *drained)
{
    if (*drained)
        return evict_prefix(tenant) ||
            (replay_run_count(tenant->sim) == 0 && evict_of_all(tenant->sim));
    *drained = true;
    replay_settle_releases(tenant->sim);
    return true;
}

/* ---- Asking */

static mbr_holder_figures read_books(const replay_tenant *tenant)
{
    mbr_holder_figures books = {MBR_SIZED(mbr_holder_figures)};
    mbr_manager_read_holder(tenant->sim->world.manager, tenant->seat->holder, &books, NULL);
    return books;
}

double replay_share_used(const replay_tenant *tenant)
{
    uint64_t share = tenant->report->share_bytes;
    if (share == MBR_NO_ALLOWANCE)
        return 0;
    mbr_holder_figures books = read_books(tenant);
    return (double)(books.granted_bytes + books.charged_bytes) / (double)share;
}

void replay_end_ticket(replay_tenant *tenant)
{
    if (tenant->ticket.value == 0)
        return;
    mbr_ticket_handle ended = tenant->ticket;
    tenant->ticket.value = 0;
    mbr_manager_end_ticket(tenant->sim->world.manager, ended, NULL);
}

bool replay_claim_ticket(replay_tenant *tenant)
{
    mbr_manager *manager = tenant->sim->world.manager;
    uint32_t state = MBR_TICKET_WAITING;
    if (tenant->ticket.value == 0)
        return false;
    mbr_manager_read_ticket(manager, tenant->ticket, &state, NULL);
    if (state == MBR_TICKET_WAITING)
        return false;
    bool claimed = mbr_manager_claim_ticket(manager, tenant->ticket, NULL) == MBR_OK;
    replay_end_ticket(tenant);
    return claimed;
}

static bool submit(replay_tenant *tenant, uint64_t bytes, uint32_t flags)
{
    replay_end_ticket(tenant);
    mbr_ticket_request request = {MBR_SIZED(mbr_ticket_request), .flags = flags,
        .holder = tenant->seat->holder, .bytes = bytes, .timeout_ns = MBR_NO_DEADLINE};
    mbr_manager_submit_ticket(tenant->sim->world.manager, &request, &tenant->ticket, NULL, NULL);
    return replay_claim_ticket(tenant);
}

/* Tickets age, and ask the holders again, in real time, which is nothing to simulated requests. So
 * one asks the holders as they are now, and one that asks nobody waits for releases until the next
 * try. */
bool replay_wait_for_bytes(replay_tenant *tenant, uint64_t bytes)
{
    if (tenant->seat->admission.value == 0)
        return false;
    return replay_claim_ticket(tenant) || submit(tenant, bytes, 0) ||
        submit(tenant, bytes, MBR_TICKET_QUIET);
}

void replay_return_aside(replay_tenant *tenant)
{
    if (tenant->seat->admission.value != 0)
        mbr_manager_return_aside(tenant->sim->world.manager, tenant->seat->holder, NULL, NULL);
}

/* ---- Being asked */

/* Every sequence can be begun again, so all of it could go; the library takes no more than what is
 * borrowed. Its own ticket gets nothing from itself: those who run finish before others start. */
static uint64_t ask(void *context, const mbr_pressure *pressure)
{
    mbr_holder_figures books = read_books(context);
    return pressure->holder_id == books.holder_id ? 0 : books.charged_bytes;
}

/* Cold prefixes first, then whoever has done least. Who gives does not wait for more at the same
 * time: what comes free is for those that asked. */
static void give(void *context, const mbr_pressure *pressure, uint64_t bytes)
{
    (void)pressure;
    replay_tenant *tenant = context;
    uint64_t before = read_books(tenant).charged_bytes, now = before;
    replay_end_ticket(tenant);
    while (before - mbr_min(before, now) < bytes) {
        bool preempted = false;
        if (!evict_prefix(tenant) &&
            (!replay_preempt_youngest(tenant->sim, tenant, &preempted) || !preempted))
            break;
        replay_settle_releases(tenant->sim);
        now = read_books(tenant).charged_bytes;
    }
    tenant->report->given_bytes += before - mbr_min(before, now);
}

mbr_pressure_callbacks replay_pressed(replay_tenant *tenant)
{
    return (mbr_pressure_callbacks){ask, give, tenant};
}
