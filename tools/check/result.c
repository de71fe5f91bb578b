/* What results mean together: totals, exit code, texts. Never runs anything. */
#include "tools/check/result.h"

#include "tools/check/slot.h"

#include <stdio.h>
#include <string.h>

static int exit_code(const mbr_run *run, bool gate_failed, uint32_t finding_count)
{
    if (run->totals[MBR_VERDICT_TOOL] > 0)
        return MBR_CHECK_EXIT_TOOL;
    if (run->refusal != NULL || gate_failed)
        return MBR_CHECK_EXIT_NOT_A_PLUGIN;
    if (finding_count > 0)
        return MBR_CHECK_EXIT_FINDINGS;
    if (run->totals[MBR_VERDICT_PASS] + run->totals[MBR_VERDICT_WARN] == 0 ||
        run->undeclared_skip_count + run->totals[MBR_VERDICT_RESOURCE] > 0)
        return MBR_CHECK_EXIT_INCOMPLETE;
    return MBR_CHECK_EXIT_CONFORMANT;
}

void mbr_run_judge(mbr_run *run)
{
    uint32_t finding_count = 0;
    bool gate_failed = false;
    memset(run->totals, 0, sizeof run->totals);
    run->undeclared_skip_count = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const mbr_result *result = &run->results[i];
        bool is_finding = mbr_verdict_is_finding(result->verdict);
        run->totals[result->verdict]++;
        finding_count += is_finding;
        gate_failed |= is_finding && (result->check->flags & MBR_CHECK_GATE) != 0;
        run->undeclared_skip_count +=
            result->verdict == MBR_VERDICT_SKIP && !mbr_skip_is_declared(result->skip);
    }
    run->exit_code = exit_code(run, gate_failed, finding_count);
    run->is_conformant = run->exit_code == MBR_CHECK_EXIT_CONFORMANT && !run->is_partial;
}

void mbr_result_repro(const mbr_run *run, const mbr_result *result, char *text, uint64_t room)
{
    char device[32] = "";
    if (run->device_index != 0)
        snprintf(device, sizeof device, " --device %u", run->device_index);
    snprintf(text, room, "membrane-check '%s'%s --repro %s:%lu", run->path, device,
        result->check->id, result->seed);
}

const char *mbr_run_no_mechanism(const mbr_run *run)
{
    for (uint32_t i = 0; i < run->count && run->device_index != 0; i++)
        if (run->results[i].verdict == MBR_VERDICT_SKIP &&
            run->results[i].skip == MBR_SKIP_NO_MECHANISM)
            return run->results[i].observed;
    return NULL;
}

void mbr_result_text(const mbr_result *result, char *text, uint64_t room)
{
    const char *slot = mbr_slot_name(result->slot);
    mbr_verdict verdict = result->verdict;
    if (verdict == MBR_VERDICT_FLAKY || verdict == MBR_VERDICT_WAIVED)
        verdict = result->first_verdict;
    switch (verdict) {
    case MBR_VERDICT_CRASH:
        snprintf(text, room, "signal %d (%s), slot %s, phase %s", result->signal,
            strsignal(result->signal), slot, mbr_phase_word(result->phase));
        break;
    case MBR_VERDICT_ABORT:
        if (result->signal != 0)
            snprintf(text, room, "abort or uncaught exception, slot %s, phase %s", slot,
                mbr_phase_word(result->phase));
        else
            snprintf(text, room, "the process ended with code %d, slot %s, phase %s",
                result->exit_code, slot, mbr_phase_word(result->phase));
        break;
    case MBR_VERDICT_TIMEOUT:
        snprintf(text, room, "no end within %lu ms, slot %s, phase %s", result->wall_ns / 1000000,
            slot, mbr_phase_word(result->phase));
        break;
    case MBR_VERDICT_SKIP:
        snprintf(text, room, "%s: %s", mbr_skip_word(result->skip), result->observed);
        break;
    default:
        snprintf(text, room, "%s", result->observed);
        break;
    }
}
