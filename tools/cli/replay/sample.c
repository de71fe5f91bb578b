/* Live, mapped and owned bytes over simulated time, and the checkpoints that ask the system. */
#include "tools/cli/replay/oracle.h"
#include "tools/cli/replay/simulate.h"

#include "abi/base/checked.h"

#include <stdlib.h>

/* Every second point goes when there is no room for more. */
static void thin_out(mbr_replay_series *series)
{
    for (uint64_t i = 0; i < series->point_count / 2; i++)
        series->points[i] = series->points[2 * i];
    series->point_count /= 2;
    series->keep_every *= 2;
}

static void add_point(const replay_sim *sim, mbr_replay_series *series, uint64_t bytes)
{
    if (sim->options->plot_path == NULL)
        return;
    if (series->points == NULL) {
        series->points = malloc(MBR_REPLAY_POINT_LIMIT_COUNT * sizeof(*series->points));
        series->keep_every = 1;
    }
    if (series->points == NULL || series->change_count++ % series->keep_every != 0)
        return;
    if (series->point_count == MBR_REPLAY_POINT_LIMIT_COUNT)
        thin_out(series);
    series->points[series->point_count++] = (mbr_plot_point){sim->now_ns, bytes};
}

/* The last value held until now. */
static void add_sample(const replay_sim *sim, mbr_replay_series *series, uint64_t bytes)
{
    series->integral += (double)series->last * (double)(sim->now_ns - sim->last_sample_ns) / 1e9;
    series->peak = mbr_max(series->peak, bytes);
    if (bytes != series->last || series->point_count == 0)
        add_point(sim, series, bytes);
    series->last = bytes;
}

static void sample_tenant(const replay_sim *sim, const replay_tenant *tenant)
{
    mbr_replay_tenant_report *report = tenant->report;
    mbr_kv_figures cache = {MBR_SIZED(mbr_kv_figures)};
    mbr_holder_figures books = {MBR_SIZED(mbr_holder_figures)};
    mbr_kv_read(tenant->seat->kv, &cache, NULL);
    mbr_manager_read_holder(sim->world.manager, tenant->seat->holder, &books, NULL);
    add_sample(sim, &report->live, cache.live_bytes);
    add_sample(sim, &report->owned, books.charged_bytes);
    report->borrowed_peak_bytes = mbr_max(report->borrowed_peak_bytes, books.borrowed_bytes);
}

static void sample_ahead(const replay_sim *sim)
{
    mbr_mechanism_figures figures = {MBR_SIZED(mbr_mechanism_figures)};
    if (sim->options->ahead_bytes == 0)
        return;
    mbr_manager_read_mechanism(sim->world.manager, sim->world.mechanism, &figures, NULL);
    sim->report->ahead_peak_bytes = mbr_max(sim->report->ahead_peak_bytes, figures.ahead_bytes);
}

void replay_sample(replay_sim *sim)
{
    mbr_authority_figures books = {MBR_SIZED(mbr_authority_figures)};
    mbr_manager_read_authority(sim->world.manager, sim->world.authority, &books, NULL);
    for (uint32_t i = 0; i < sim->tenant_count; i++)
        sample_tenant(sim, &sim->tenants[i]);
    add_sample(sim, &sim->report->mapped, books.mapped_bytes);
    add_sample(sim, &sim->report->owned, books.charged_bytes);
    sample_ahead(sim);
    sim->report->owned.peak = mbr_max(sim->report->owned.peak, books.peak_charged_bytes);
    sim->last_sample_ns = sim->now_ns;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* At rest: the ledger's owned bytes against the plugin's count, the blocks of its memory files, and
 * Pss. What is pooled or held by a prefix alone has blocks and no mapping, so Pss is compared
 * without it. */
void replay_checkpoint(replay_sim *sim)
{
    mbr_replay_report *report = sim->report;
    mbr_error error = {MBR_SIZED(mbr_error)};
    uint64_t blocks, pss;
    if (mbr_ep_drain(sim->world.manager, sim->world.ep, replay_drain_deadline_ns(&sim->world),
            &error) != MBR_OK)
        return;
    mbr_authority_figures books = {MBR_SIZED(mbr_authority_figures)};
    mbr_mechanism_figures mechanism = {MBR_SIZED(mbr_mechanism_figures)};
    mbr_manager_read_authority(sim->world.manager, sim->world.authority, &books, NULL);
    mbr_manager_read_mechanism(sim->world.manager, sim->world.mechanism, &mechanism, NULL);
    uint64_t owned = books.charged_bytes + replay_arena_owned_bytes(&sim->arena);
    uint64_t worst = difference(owned, mechanism.plugin_owned_bytes);
    report->oracle_known = replay_is_resident(sim->options) && replay_oracle_read(&blocks, &pss);
    if (report->oracle_known) {
        uint64_t unmapped = mechanism.pooled_bytes + mechanism.held_bytes;
        worst = mbr_max(worst, difference(owned, blocks));
        worst = mbr_max(worst, difference(owned - unmapped, pss));
    }
    report->oracle_difference_bytes = mbr_max(report->oracle_difference_bytes, worst);
    report->oracle_points++;
}
