/* Responsible for a GPU's plugin, FAULT_BACKEND, under the engine, over the stand-in driver: each
 * call of CUDA's driver asks the engine first. Nothing runs on a stream before a test says so or
 * somebody waits. */
#include "plugins/common/gpu.h"
#include "plugins/cuda/driver.h"
#include "tests/faults/below.h"
#include "tests/standin/control.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_COUNT 16

extern const struct mbr_gpu_backend FAULT_BACKEND;

static const struct fault_hooks *hooks;

/* The driver as the test calls it, and the stand-in's controls. */
#define STANDIN(FUNCTION)                                                                          \
    FUNCTION(options)                                                                              \
    FUNCTION(restart) FUNCTION(step) FUNCTION(ask) FUNCTION(view) FUNCTION(read_ledger)
#define MEMBER(name) __typeof__(&standin_##name) name;
#define CALLED(member, exported, parameters) mbr_cuda_result(*member) parameters;
static struct {
    STANDIN(MEMBER)
} standin;
static struct {
    MBR_CUDA_FUNCTIONS(CALLED)
} driver;

static mbr_cuda_context context; /* of the streams */
static mbr_cuda_stream streams[STREAM_COUNT];

/* ---- Calls of the driver ----------------------------------------------------------------------
 */

static const struct {
    const char *name;
    int kind;
    bool has_after;
} calls[] = {
#define CALL(kind, name, has_after) {name, kind, has_after},
    FAULT_CUDA_CALLS(CALL)};

#define CALL_COUNT (sizeof calls / sizeof *calls)

/* The stand-in names a function by the same string each time. */
static size_t call_of(const char *function)
{
    static const char *seen[CALL_COUNT];
    for (size_t i = 0; i < CALL_COUNT; i++)
        if (seen[i] == function)
            return i;
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (strcmp(calls[i].name, function) != 0)
            continue;
        seen[i] = function;
        return i;
    }
    fprintf(
        stderr, "%s is a call of the driver that is not swept: tests/faults/fault.h\n", function);
    abort();
}

static int code_of(int kind)
{
    bool takes_memory = kind == FAULT_CUDA_HANDLE_CREATE || kind == FAULT_CUDA_ADDRESS_RESERVE ||
        kind == FAULT_CUDA_DEVICE_ALLOCATE;
    return takes_memory ? MBR_CUDA_OUT_OF_MEMORY : MBR_CUDA_UNKNOWN;
}

static bool is_of_test; /* the call under way is the test's own */

static enum standin_verdict judge(const char *function, int *code)
{
    if (is_of_test)
        return STANDIN_GOES_ON;
    size_t call = call_of(function);
    enum fault_verdict verdict = hooks->meet(calls[call].kind, calls[call].has_after);
    *code = code_of(calls[call].kind);
    return verdict == FAULT_NONE ? STANDIN_GOES_ON
        : verdict == FAULT_AFTER ? STANDIN_FAILS_AFTER
                                 : STANDIN_FAILS_BEFORE;
}

/* ---- The driver, by the test ------------------------------------------------------------------
 */

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "the stand-in has no %s\n", name);
        abort();
    }
    return found;
}

#define NEED(call_)                                                                                \
    do {                                                                                           \
        if ((call_) != MBR_CUDA_SUCCESS)                                                           \
            abort();                                                                               \
    } while (0)

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
    NEED(driver.init(0));
    is_of_test = false;
    context = NULL;
    memset(streams, 0, sizeof streams);
}

static void find_standin(void)
{
    void *library = dlopen(MBR_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
#define FIND(name) *(void **)&standin.name = find(library, "standin_" #name);
    STANDIN(FIND)
#define FIND_CALL(member, exported, parameters) *(void **)&driver.member = find(library, #exported);
    MBR_CUDA_FUNCTIONS(FIND_CALL)
    const struct mbr_gpu_driver *asked; /* which the plugin does once a process */
    if (mbr_gpu_driver_get(&FAULT_BACKEND, &asked, NULL) != MBR_OK)
        abort();
    restart();
}

static mbr_native stream(uint64_t number)
{
    is_of_test = true;
    if (context == NULL)
        NEED(driver.primary_retain(&context, 0));
    if (streams[number] == NULL) {
        mbr_cuda_context popped;
        NEED(driver.context_push(context));
        NEED(driver.stream_create(&streams[number], MBR_CUDA_STREAM_NON_BLOCKING));
        NEED(driver.context_pop(&popped));
    }
    is_of_test = false;
    return (mbr_native){FAULT_BACKEND.stream_kind, 0, (uintptr_t)streams[number]};
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

/* ---- Slots ------------------------------------------------------------------------------------
 */

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
    return mbr_gpu_mechanisms(&FAULT_BACKEND, request, outcome, error);
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
    passed.option_count = 0;
    *own = NULL;
    return mbr_gpu_open(&FAULT_BACKEND, hooks->heap, &passed, outcome, error);
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
    .first_kind = FAULT_CUDA_ERROR_NAME,
    .last_kind = FAULT_CUDA_EVENT_DESTROY,
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
