/* What happens around every call of a front end: the lock, planned faults and losses, latency, the
 * journal, and the questions that many functions have in common. Knows nothing of any function. */
#include "tests/standin/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fault {
    char *function;
    uint64_t at; /* of the function's count of calls */
    bool is_sticky;
    bool is_after;
    int code;
    struct fault *next;
};

struct loss {
    uint32_t device;
    uint64_t at; /* of the count of all calls; 0: none is planned */
    int code;
    bool is_whole;
};

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_changed = PTHREAD_COND_INITIALIZER;

/* Every function that was called; a latency or a count asked for before has a site of its own. */
static struct sim_site *sites;
static struct fault *faults;
static standin_judge *judge;
static struct loss loss;
static uint64_t latency_of_all_ns;
static FILE *journal;

void sim_misuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("stand-in: ", stderr);
    vfprintf(stderr, format, list);
    fputs("; the driver does not protect from this, so the caller must not do it\n", stderr);
    va_end(list);
    abort();
}

static struct sim_site *site_find(const char *function)
{
    for (struct sim_site *site = sites; site; site = site->next)
        if (strcmp(site->name, function) == 0)
            return site;
    return NULL;
}

/* The site of a function that was not called yet. A front end's own takes over from it. */
static struct sim_site *site_want(const char *function)
{
    struct sim_site *site = site_find(function);
    if (site)
        return site;
    site = calloc(1, sizeof *site);
    char *name = site ? strdup(function) : NULL;
    if (!name)
        abort();
    site->name = name;
    site->next = sites;
    sites = site;
    return site;
}

static void wait_ns(uint64_t nanoseconds)
{
    struct timespec left = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    while (nanoseconds && nanosleep(&left, &left) != 0)
        ;
}

static void lose_when_due(void)
{
    if (!loss.at || sim.ledger.call_count < loss.at)
        return;
    sim.devices[loss.device].lost = SIM_RAW + loss.code;
    sim.devices[loss.device].is_gone = loss.is_whole;
    loss.at = 0;
}

/* The fault that is due at this call; one that strikes once is forgotten with it. */
static bool fault_take(const struct sim_site *site, struct fault *due)
{
    for (struct fault **link = &faults; *link; link = &(*link)->next) {
        struct fault *fault = *link;
        bool is_meant = strcmp(fault->function, site->name) == 0;
        uint64_t count = site->call_count;
        if (strcmp(fault->function, "*") == 0) {
            is_meant = true;
            count = sim.ledger.call_count;
        }
        if (!is_meant || count < fault->at || (count > fault->at && !fault->is_sticky))
            continue;
        *due = *fault;
        return true;
    }
    return false;
}

/* The same by who looks at each call. */
static bool fault_judged(const struct sim_site *site, struct fault *due)
{
    enum standin_verdict verdict = judge ? judge(site->name, &due->code) : STANDIN_GOES_ON;
    due->is_after = verdict == STANDIN_FAILS_AFTER;
    return verdict != STANDIN_GOES_ON;
}

/* What a device that is gone as a whole answers, or SIM_OK. */
static int first_loss(void)
{
    for (uint32_t i = 0; i < sim.options.device_count; i++)
        if (sim.devices[i].is_gone)
            return sim.devices[i].lost;
    return SIM_OK;
}

/* What the function answers without being run, or SIM_OK. */
static int refusal(uint32_t needs)
{
    if ((needs & SIM_NEEDS_START) && !sim.is_started)
        return SIM_NOT_INITIALIZED;
    if ((needs & SIM_NEEDS_START) && !(needs & SIM_SERVES_INSIDE) && sim_is_in_host_function())
        return SIM_NOT_PERMITTED;
    if ((needs & SIM_IS_VIRTUAL) && first_loss() != SIM_OK)
        return first_loss();
    if ((needs & SIM_NEEDS_CONTEXT) && !sim_current())
        return SIM_INVALID_CONTEXT;
    if ((needs & SIM_NEEDS_CONTEXT) && !sim_current()->is_active)
        return SIM_CONTEXT_IS_DESTROYED;
    if (needs & SIM_TELLS_LOSS && sim_current_loss() != SIM_OK)
        return sim_current_loss();
    return needs & SIM_IS_UNSAFE ? sim_capture_forbids() : SIM_OK;
}

static void adopt(struct sim_site *site)
{
    if (site->is_listed)
        return;
    const struct sim_site *asked = site_find(site->name);
    if (asked)
        site->latency_ns = asked->latency_ns;
    site->is_listed = true;
    site->next = sites;
    sites = site;
}

/* A forked child may not even take the lock: a thread that is not there may hold it. */
static bool is_stranger(const struct sim_site *site)
{
    return (site->needs & (SIM_NEEDS_START | SIM_IS_START)) &&
        __atomic_load_n(&sim.owner, __ATOMIC_RELAXED) == SIM_ITS_PARENT;
}

void sim_enter(struct sim_call *call, struct sim_site *site)
{
    *call = (struct sim_call){.site = site, .is_stranger = is_stranger(site)};
    if (call->is_stranger) {
        call->status = SIM_NOT_INITIALIZED;
        return;
    }
    pthread_mutex_lock(&sim_lock);
    adopt(site);
    uint64_t latency_ns = site->latency_ns + latency_of_all_ns;
    if (latency_ns) {
        pthread_mutex_unlock(&sim_lock);
        wait_ns(latency_ns);
        pthread_mutex_lock(&sim_lock);
    }
    site->call_count++;
    sim.ledger.call_count++;
    lose_when_due();
    struct fault due;
    if (fault_take(site, &due) || fault_judged(site, &due)) {
        if (due.is_after)
            call->planned = SIM_RAW + due.code;
        else
            call->status = SIM_RAW + due.code;
    }
    if (call->status == SIM_OK)
        call->status = refusal(site->needs);
    call->is_open = call->status == SIM_OK;
}

int sim_leave(struct sim_call *call)
{
    if (call->is_stranger)
        return call->status;
    int status = call->planned && call->status == SIM_OK ? call->planned : call->status;
    sim.ledger.refused_count += call->status == SIM_INVALID_VALUE ||
        call->status == SIM_INVALID_HANDLE || call->status == SIM_INVALID_CONTEXT;
    if (journal)
        fprintf(journal, "%s %d\n", call->site->name, sim_front_code(status));
    pthread_mutex_unlock(&sim_lock);
    return status;
}

void sim_plan_fault(const struct standin_fault *fault)
{
    struct fault *planned = calloc(1, sizeof *planned);
    char *function = planned ? strdup(fault->function) : NULL;
    if (!function)
        abort();
    bool is_every = strcmp(function, "*") == 0;
    uint64_t count = is_every ? sim.ledger.call_count : sim_calls(function);
    *planned = (struct fault){function, count + fault->call_index, fault->is_sticky,
        fault->is_after, fault->code, faults};
    faults = planned;
}

void sim_ask(standin_judge *asked)
{
    judge = asked;
}

void sim_plan_forget(void)
{
    while (faults) {
        struct fault *next = faults->next;
        free(faults->function);
        free(faults);
        faults = next;
    }
    loss.at = 0;
    latency_of_all_ns = 0;
    for (struct sim_site *site = sites; site; site = site->next) {
        site->latency_ns = 0;
        site->call_count = 0;
    }
}

void sim_plan_loss(uint32_t device, uint64_t call_index, int code, bool is_whole)
{
    if (device >= STANDIN_DEVICE_MAX_COUNT)
        sim_misuse(
            "a loss of device %u is planned, of at most %d", device, STANDIN_DEVICE_MAX_COUNT);
    loss = (struct loss){device, sim.ledger.call_count + call_index, code, is_whole};
    if (call_index == 0) {
        loss.at = 1;
        sim.ledger.call_count += sim.ledger.call_count == 0;
        lose_when_due();
    }
}

void sim_set_latency(const char *function, uint64_t nanoseconds)
{
    if (strcmp(function, "*") == 0)
        latency_of_all_ns = nanoseconds;
    else
        site_want(function)->latency_ns = nanoseconds;
}

uint64_t sim_calls(const char *function)
{
    const struct sim_site *site = site_find(function);
    return site ? site->call_count : 0;
}

bool sim_journal(const char *path)
{
    if (journal)
        fclose(journal);
    journal = path ? fopen(path, "a") : NULL;
    if (journal)
        setvbuf(journal, NULL, _IOLBF, 0);
    return !path || journal;
}
