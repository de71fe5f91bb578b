/* Responsible for a GPU's plugin under the engine, over the stand-in: each call of the driver asks
 * the engine first. Nothing runs on a stream before a test says so or somebody waits. Knows no
 * vendor: what is a driver's own is in driver_DEVICE.c. */
#include "plugins/common/gpu.h"
#include "tests/faults/below.h"
#include "tests/faults/driver.h"
#include "tests/standin/control.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_COUNT 16

static const struct fault_hooks *hooks;

/* The stand-in's controls. */
#define STANDIN(FUNCTION)                                                                          \
    FUNCTION(options)                                                                              \
    FUNCTION(restart) FUNCTION(step) FUNCTION(ask) FUNCTION(view) FUNCTION(read_ledger)
#define MEMBER(name) __typeof__(&standin_##name) name;
static struct {
    STANDIN(MEMBER)
} standin;

static mbr_gpu_stream streams[STREAM_COUNT];

/* ---- Calls of the driver --------------------------------------------------------------------- */

/* The stand-in names a function by the same string each time. */
static const struct fault_call *call_of(const char *function)
{
    static const char *seen[FAULT_KIND_COUNT];
    size_t count = fault_driver.call_count;
    for (size_t i = 0; i < count; i++)
        if (seen[i] == function)
            return &fault_driver.calls[i];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fault_driver.calls[i].name, function) != 0)
            continue;
        seen[i] = function;
        return &fault_driver.calls[i];
    }
    fprintf(stderr, "%s is a call that is not swept: its driver.h does not list it\n", function);
    abort();
}

static bool is_among(const char *member, const char *const *members, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(members[i], member) == 0)
            return true;
    return false;
}
#define IS_AMONG(member, members) is_among(member, members, sizeof members / sizeof *members)

/* Without an effect: their failure after it is no other one. */
static const char *const looks[] = {"error_name", "error_string", "init", "driver_version",
    "runtime_version", "device_count", "device_get", "device_attribute", "device_name",
    "device_uuid", "device_pci", "device_total", "context_current", "context_device", "get_device",
    "memory_info", "granularity", "get_access", "address_range", "stream_capturing",
    "stream_synchronize", "event_query"};
static const char *const takes_memory[] = {"handle_create", "address_reserve", "device_allocate"};

static bool is_of_test; /* the call under way is the test's own */

static enum standin_verdict judge(const char *function, int *code)
{
    if (is_of_test)
        return STANDIN_GOES_ON;
    const struct fault_call *call = call_of(function);
    enum fault_verdict verdict = hooks->meet(call->kind, !IS_AMONG(call->member, looks));
    if (verdict != FAULT_NONE)
        *code = IS_AMONG(call->member, takes_memory) ? MBR_GPU_OUT_OF_MEMORY : MBR_GPU_UNKNOWN;
    return verdict == FAULT_NONE ? STANDIN_GOES_ON
        : verdict == FAULT_AFTER ? STANDIN_FAILS_AFTER
                                 : STANDIN_FAILS_BEFORE;
}

/* ---- The driver, by the test ----------------------------------------------------------------- */

void *fault_driver_find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "the stand-in has no %s\n", name);
        abort();
    }
    return found;
}

static void restart(void)
{
    struct standin_options options;
    standin.options(&options);
    options.granule_min_bytes = options.granule_recommended_bytes = 4096;
    options.address_bytes = UINT64_C(1) << 36;
    options.mode = STANDIN_MANUAL;
    options.content = STANDIN_ZEROS;    /* untouched memory costs nothing */
    options.addresses = STANDIN_RISING; /* what is in doubt is given to nobody else */
    standin.restart(&options);
    is_of_test = true;
    fault_driver.begin();
    is_of_test = false;
    memset(streams, 0, sizeof streams);
}

static void find_standin(void)
{
    void *library = dlopen(fault_driver.library, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
#define FIND(name) *(void **)&standin.name = fault_driver_find(library, "standin_" #name);
    STANDIN(FIND)
    fault_driver.find(library);
    const struct mbr_gpu_driver *asked; /* which the plugin does once a process */
    if (mbr_gpu_driver_get(fault_driver.backend, &asked, NULL) != MBR_OK)
        abort();
    restart();
}

static mbr_native stream(uint64_t number)
{
    is_of_test = true;
    if (streams[number] == NULL)
        streams[number] = fault_driver.stream_create();
    is_of_test = false;
    return (mbr_native){fault_driver.backend->stream_kind, 0, (uintptr_t)streams[number]};
}

static void run(void)
{
    while (standin.step(UINT32_MAX) != 0)
        ;
}

static uint64_t left(void)
{
    struct standin_ledger ledger;
    standin.read_ledger(&ledger);
    return ledger.handle_count + ledger.mapping_count + ledger.reservation_count +
        ledger.plain_count;
}

static uint64_t view(uint64_t address)
{
    return (uintptr_t)standin.view(0, address);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* A device works while somebody waits for it. */
static mbr_status wait_for(mbr_instance *instance, const mbr_line_wait_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    run();
    return mbr_gpu_order.wait(instance, request, outcome, error);
}

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    run();
    return mbr_line_slot_quiesce(instance, request, outcome, error);
}

static mbr_status mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    (void)none;
    return mbr_gpu_mechanisms(fault_driver.backend, request, outcome, error);
}

/* The opening is below. */
static const mbr_plugin_vtable plugin = {.mechanisms = mechanisms,
    .close = mbr_gpu_slot_close,
    .report = mbr_objects_slot_report,
    .quiesce = quiesce};
static mbr_order_vtable order;

/* What the options say to the host plugin, the stand-in has been told. */
static mbr_status open_device(
    const mbr_open_request *request, mbr_open_outcome *outcome, void **own, mbr_error *error)
{
    mbr_open_request passed = *request;
    passed.options = fault_driver.options;
    passed.option_count = fault_driver.option_count;
    *own = NULL;
    return mbr_gpu_open(fault_driver.backend, hooks->heap, &passed, outcome, error);
}

static void purge(void *own)
{
    (void)own;
}

static void start(const struct fault_hooks *given)
{
    order = mbr_gpu_order;
    order.wait = wait_for;
    if (hooks == NULL)
        find_standin();
    hooks = given;
    standin.ask(judge); /* of two copies of this file, the one that is used */
}

const struct fault_below fault_below = {
    .tier = MBR_TIER_DEVICE,
    .first_kind = FAULT_FIRST_KIND,
    .last_kind = FAULT_LAST_KIND,
    .plugin = &plugin,
    .allocator = &mbr_gpu_allocator,
    .virtual_ = &mbr_gpu_virtual,
    .shared = &mbr_gpu_shared,
    .order = &order,
    .transfer = &mbr_gpu_transfer,
    .start = start,
    .open = open_device,
    .purge = purge,
    .purge_rest = restart,
    .run = run,
    .left = left,
    .stream = stream,
    .view = view,
};
