/* Responsible for saying things: the first finding, skip or failure of the tool ends the child.
 * Never calls the plugin. */
#include "tools/check/trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Several threads may find something at once: the first one writes, the others wait for the end. */
static void claim(mbr_trial *trial)
{
    while (__atomic_exchange_n(&trial->page->is_told, 1, __ATOMIC_ACQ_REL) != 0)
        pause();
}

static void tell(mbr_trial *trial, mbr_verdict verdict, const char *expected, const char *observed,
    va_list arguments)
{
    mbr_page *page = trial->page;
    snprintf(page->expected, sizeof page->expected, "%s", expected);
    vsnprintf(page->observed, sizeof page->observed, observed, arguments);
    page->finding_slot = page->slot;
    __atomic_store_n(&page->verdict, (uint32_t)verdict, __ATOMIC_RELEASE);
}

void mbr_trial_fail(mbr_trial *trial, const char *expected, const char *observed, ...)
{
    va_list arguments;
    claim(trial);
    va_start(arguments, observed);
    tell(trial, MBR_VERDICT_FAIL, expected, observed, arguments);
    va_end(arguments);
    trial->end(trial);
    abort();
}

void mbr_trial_skip(mbr_trial *trial, mbr_skip reason, const char *observed, ...)
{
    va_list arguments;
    claim(trial);
    trial->page->skip = (uint32_t)reason;
    va_start(arguments, observed);
    tell(trial, MBR_VERDICT_SKIP, "", observed, arguments);
    va_end(arguments);
    trial->end(trial);
    abort();
}

void mbr_trial_give_up(mbr_trial *trial, mbr_verdict verdict, const char *what, ...)
{
    va_list arguments;
    claim(trial);
    va_start(arguments, what);
    tell(trial, verdict, "", what, arguments);
    va_end(arguments);
    trial->end(trial);
    abort();
}

void mbr_expect_status(mbr_trial *trial, mbr_status got, mbr_status wanted, const char *what)
{
    if (got == wanted)
        return;
    char expected[128];
    snprintf(expected, sizeof expected, "%s answers %s", what, mbr_status_name(wanted));
    mbr_trial_fail(trial, expected, "%s: %s", mbr_status_name(got),
        got == MBR_OK ? "" : mbr_last_error()->text);
}

void mbr_need_ok(mbr_trial *trial, mbr_status got, const char *what)
{
    if (got != MBR_OK)
        mbr_trial_skip(trial, MBR_SKIP_NEEDS, "%s: %s: %s", what, mbr_status_name(got),
            mbr_last_error()->text);
}

void mbr_trial_figures(mbr_trial *trial, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trial->page->figures, sizeof trial->page->figures, format, arguments);
    va_end(arguments);
}

/* splitmix64 */
uint64_t mbr_trial_random(mbr_trial *trial)
{
    uint64_t z =
        __atomic_add_fetch(&trial->random_state, UINT64_C(0x9e3779b97f4a7c15), __ATOMIC_RELAXED);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t mbr_trial_id(mbr_trial *trial)
{
    return __atomic_add_fetch(&trial->next_id, 1, __ATOMIC_RELAXED);
}

uint64_t mbr_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
