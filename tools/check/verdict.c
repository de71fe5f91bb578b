/* The words of verdicts and of reasons. Decides nothing. */
#include "tools/check/verdict.h"

const char *mbr_verdict_word(mbr_verdict verdict)
{
    static const char *const words[MBR_VERDICT_COUNT] = {"NONE", "PASS", "FAIL", "CRASH", "TIMEOUT",
        "ABORT", "FLAKY", "WARN", "SKIP", "WAIVED", "RESOURCE", "TOOL"};
    return verdict < MBR_VERDICT_COUNT ? words[verdict] : "NONE";
}

const char *mbr_skip_word(mbr_skip skip)
{
    static const char *const words[MBR_SKIP_COUNT] = {
        "none", "not-offered", "fact", "blocked", "needs", "system", "no-mechanism"};
    return skip < MBR_SKIP_COUNT ? words[skip] : "none";
}

bool mbr_verdict_is_finding(mbr_verdict verdict)
{
    return verdict >= MBR_VERDICT_FAIL && verdict <= MBR_VERDICT_FLAKY;
}

bool mbr_skip_is_declared(mbr_skip skip)
{
    return skip == MBR_SKIP_NOT_OFFERED || skip == MBR_SKIP_FACT;
}
