/* What a run of one trace came to against its goals. Prints nothing. */
#include "tools/cli/replay/report.h"

double replay_mean(const mbr_replay_report *report, const mbr_replay_series *series)
{
    return report->simulated_seconds > 0 ? series->integral / report->simulated_seconds : 0;
}

/* The goals and floors are docs/performance.md's. Weights are owned by nobody's sequence. */
void replay_ratios(const mbr_replay_report *report, replay_ratio ratios[REPLAY_RATIO_COUNT])
{
    const mbr_replay_tenant_report *own = &report->tenants[0];
    double live = replay_mean(report, &own->live);
    double shareable = (double)own->reuse.whole_bytes;
    ratios[0] = (replay_ratio){.name = "internal_waste",
        .what = "owned without the cache over live, on average",
        .goal = 1.05,
        .floor = 1.08,
        .judged = true,
        .known = live > 0};
    ratios[1] = (replay_ratio){.name = "peak_owned_over_peak_live",
        .what = "owned over live, at their peaks",
        .goal = 1.15,
        .floor = 1.25,
        .judged = report->sleep_count == 0,
        .known = own->live.peak > 0};
    ratios[2] = (replay_ratio){.name = "shared_of_shareable",
        .what = "shared of what whole extents allow",
        .goal = 0.99,
        .floor = 0.99,
        .known = shareable > 0,
        .judged = own->evicted_prefixes == 0,
        .higher_is_better = true};
    if (ratios[0].known)
        ratios[0].value = replay_mean(report, &own->owned) / live;
    if (ratios[1].known)
        ratios[1].value = (double)report->owned.peak / (double)own->live.peak;
    if (ratios[2].known)
        ratios[2].value = (double)own->reuse.shared_bytes / shareable;
}

const char *replay_ratio_verdict(const replay_ratio *ratio)
{
    double sign = ratio->higher_is_better ? -1 : 1;
    if (!ratio->known || !ratio->judged)
        return "not judged";
    if (sign * ratio->value <= sign * ratio->goal)
        return "goal";
    return sign * ratio->value <= sign * ratio->floor ? "floor" : "below";
}
