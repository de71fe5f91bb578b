/* Faults of an instance's life and of its end (group LIF). */
#include "abi/base/error.h"
#include "tests/badplugins/bad_alc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAK_BYTES 6000
#define FEW_COUNT 12 /* live allocations */

/* ---- Report, close, quiesce ------------------------------------------------------------------ */

static mbr_status report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.report(instance, request, outcome, error);
    if (status != MBR_OK)
        return status;
    if (bad_is("report_forgets_allocations") && outcome->allocation_count < FEW_COUNT)
        outcome->allocation_count = 0;
    if (bad_is("report_forgets_threads"))
        outcome->thread_count = 0;
    if (bad_is("reports_mapped_extents_only") && outcome->mapping_count < outcome->extent_count)
        outcome->extent_count = outcome->mapping_count;
    if (bad_is("reports_one_mapping_a_range") && outcome->mapping_count > 2 &&
        outcome->extent_count >= outcome->mapping_count)
        outcome->mapping_count = 2;
    return status;
}

static void wipe(struct bad_allocation *allocation)
{
    if (allocation->bytes > 16384)
        memset((void *)(uintptr_t)allocation->address, 0, allocation->bytes);
}

static uint32_t open_count; /* instances */

static mbr_status close_instance(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_error own = {MBR_SIZED(mbr_error)};
    mbr_status status = bad_good->plugin.close(instance, request, outcome, &own);
    if (bad_is("refused_close_drops_contents") && status == MBR_IN_USE)
        bad_allocation_each(wipe);
    if (bad_is("handler_left_by_close") && status == MBR_OK && --open_count == 0)
        signal(SIGUSR2, SIG_IGN);
    mbr_report live = {MBR_SIZED(mbr_report)};
    const mbr_report_request ask = {MBR_SIZED(mbr_report_request)};
    if (status == MBR_IN_USE)
        (void)bad_good->plugin.report(instance, &ask, &live, NULL);
    bool is_unseen = status == MBR_IN_USE &&
        ((bad_is("closes_with_a_line") && live.line_count == 1 && live.stream_count == 0 &&
             live.allocation_count == 0) ||
            (bad_is("closes_with_an_allocation") && bad_allocation_live_count() == 1 &&
                instance->objects.extents.ids.id_count == 0) ||
            (bad_is("closes_with_an_extent") && instance->objects.extents.ids.id_count == 1 &&
                instance->objects.mapping_count == 0 && bad_allocation_live_count() == 0));
    if (!is_unseen)
        return status == MBR_OK ? status : mbr_fail(error, status, "%s", own.text);
    *outcome = (mbr_outcome){.struct_size = outcome->struct_size, .state = MBR_STATE_DONE};
    return MBR_OK;
}

static mbr_status close_anyhow(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_close_request plain = *request;
    plain.flags = 0;
    return bad_good->plugin.close(instance, &plain, outcome, error);
}

static uint32_t quiesce_count; /* since the last open */

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.quiesce(instance, request, outcome, error);
    if (status != MBR_OK || ++quiesce_count < 3 || bad_allocation_live_count() == 0)
        return status;
    *outcome = (mbr_outcome){.struct_size = outcome->struct_size};
    return mbr_fail(error, MBR_BUSY, "quiesced already");
}

/* Keeps one for the next time, until the instance is closed. */
static struct {
    const mbr_instance *instance;
    pthread_t thread;
    sem_t end;
} kept;

static void *await_end(void *context)
{
    (void)context;
    while (sem_wait(&kept.end) != 0)
        continue;
    return NULL;
}

static mbr_status quiesce_keeping(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.quiesce(instance, request, outcome, error);
    if (status != MBR_OK || kept.instance != NULL)
        return status;
    sem_init(&kept.end, 0, 0);
    if (pthread_create(&kept.thread, NULL, await_end, NULL) == 0)
        kept.instance = instance;
    return status;
}

static mbr_status close_joining(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status = bad_good->plugin.close(instance, request, outcome, error);
    if (status != MBR_OK || kept.instance != instance)
        return status;
    sem_post(&kept.end);
    pthread_join(kept.thread, NULL);
    kept.instance = NULL;
    return status;
}

/* Does not wait for streams. */
static mbr_status quiesce_at_once(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    return mbr_host_plugin.quiesce(instance, request, outcome, error);
}

/* ---- What is left behind --------------------------------------------------------------------- */

static void *sleep_for_ever(void *context)
{
    for (;;)
        pause();
    return context;
}

static mbr_status destroy(mbr_instance *instance, const mbr_extent_destroy_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    static uint32_t count;
    pthread_t thread;
    mbr_status status = bad_good->virtual_.extent_destroy(instance, request, outcome, error);
    if (status != MBR_OK || ++count % 8 != 0)
        return status;
    if (count < 1000)
        (void)pthread_create(&thread, NULL, sleep_for_ever, NULL);
    return status;
}

static mbr_status trim(
    mbr_instance *instance, const mbr_trim_request *request, mbr_outcome *outcome, mbr_error *error)
{
    static uint32_t count;
    if (++count % 8 == 0)
        (void)!dup(0);
    return bad_good->allocator.trim(instance, request, outcome, error);
}

static mbr_status unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    static void *volatile kept;
    mbr_status status = bad_good->virtual_.unreserve(instance, request, outcome, error);
    if (status != MBR_OK)
        return status;
    if (bad_is("leaks_mapping"))
        kept = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bad_is("leaks_heap")) {
        kept = malloc(LEAK_BYTES);
        if (kept != NULL)
            memset(kept, 1, LEAK_BYTES);
    }
    return status;
}

/* One of many is not taken off the figure. */
static mbr_status stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    mbr_status status = bad_good->allocator.stats(instance, request, outcome, error);
    if (status == MBR_OK && bad_allocation_released_count() >= 100 &&
        bad_allocation_released_count() < 1000)
        outcome->mapped_bytes += 4096;
    return status;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void stay(void)
{
    Dl_info info;
    if (dladdr(&bad, &info) != 0)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE | RTLD_NOLOAD);
}

static void forget(void *value)
{
    (void)value;
}

static void take_key(void)
{
    static bool is_taken;
    pthread_key_t key;
    if (!is_taken)
        (void)pthread_key_create(&key, forget);
    is_taken = true;
}

static pid_t watched_process; /* its children end unseen */

static void look_at_exit(int status, void *context)
{
    (void)status, (void)context;
    if (getpid() == watched_process && bad_allocation_live_count() > 0)
        abort();
}

static void watch_exit(void)
{
    static bool is_watched;
    watched_process = getpid();
    if (!is_watched)
        (void)on_exit(look_at_exit, NULL);
    is_watched = true;
}

static bool has_file(void)
{
    Dl_info info;
    return dladdr(&bad, &info) != 0 && access(info.dli_fname, R_OK) == 0;
}

static mbr_status open_instance(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    if (bad_is("reads_own_file") && !has_file())
        return mbr_fail(error, MBR_SYSTEM, "the plugin's file is not there");
    mbr_status status = bad_good->plugin.open(none, request, outcome, error);
    if (status != MBR_OK)
        return status;
    open_count++;
    quiesce_count = 0;
    if (bad_is("stays_loaded"))
        stay();
    if (bad_is("tls_key_left"))
        take_key();
    if (bad_is("looks_at_exit"))
        watch_exit();
    return status;
}

void bad_install_lif(void)
{
    static const char *const in_report[] = {"report_forgets_allocations", "report_forgets_threads",
        "reports_mapped_extents_only", "reports_one_mapping_a_range", NULL};
    static const char *const in_close[] = {"refused_close_drops_contents", "handler_left_by_close",
        "closes_with_an_allocation", "closes_with_an_extent", "closes_with_a_line", NULL};
    static const char *const in_open[] = {"quiesce_only_once", "handler_left_by_close",
        "reads_own_file", "stays_loaded", "tls_key_left", "looks_at_exit", NULL};
    if (bad_is_any(in_report))
        bad.plugin.report = report;
    if (bad_is_any(in_close))
        bad.plugin.close = close_instance;
    if (bad_is("quiesce_keeps_thread")) {
        bad.plugin.quiesce = quiesce_keeping;
        bad.plugin.close = close_joining;
    }
    if (bad_is("close_flags_ignored"))
        bad.plugin.close = close_anyhow;
    if (bad_is_any(in_open))
        bad.plugin.open = open_instance;
    if (bad_is("quiesce_only_once"))
        bad.plugin.quiesce = quiesce;
    if (bad_is("quiesce_leaves_work"))
        bad.plugin.quiesce = quiesce_at_once;
    if (bad_is("leaks_fd"))
        bad.allocator.trim = trim;
    if (bad_is("leaks_thread"))
        bad.virtual_.extent_destroy = destroy;
    if (bad_is("leaks_mapping") || bad_is("leaks_heap"))
        bad.virtual_.unreserve = unreserve;
    if (bad_is("counter_drifts"))
        bad.allocator.stats = stats;
}
