/* The start, devices, primary contexts and which one is current. Owns no memory and no stream. */
#include "tests/standin/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_MAX_COUNT 64

struct sim_state sim;

/* The current context is the top; a thread has its own. */
static _Thread_local struct sim_context *stack[STACK_MAX_COUNT];
static _Thread_local uint32_t stack_count;
static _Thread_local uint64_t stack_life;
static uint64_t life; /* of the model: a restart empties every thread's stack */

/* A system call in each call of the driver would be a twentieth of the sweep's time. */
static void note_child(void)
{
    if (__atomic_load_n(&sim.owner, __ATOMIC_RELAXED) == SIM_THIS_PROCESS)
        __atomic_store_n(&sim.owner, SIM_ITS_PARENT, __ATOMIC_RELAXED);
}

static bool watch_forks(void)
{
    static bool watches;
    watches = watches || pthread_atfork(NULL, NULL, note_child) == 0;
    return watches;
}

int sim_start(uint32_t flags)
{
    if (flags != 0)
        return SIM_INVALID_VALUE;
    if (sim.options.start_code)
        return SIM_RAW + sim.options.start_code;
    if (sim.options.device_count == 0)
        return SIM_NO_DEVICE;
    if (sim.is_started)
        return SIM_OK;
    if (!watch_forks())
        return SIM_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < sim.options.device_count; i++) {
        struct sim_device *device = &sim.devices[i];
        device->file = memfd_create("standin-device", MFD_CLOEXEC);
        if (device->file < 0)
            return SIM_OUT_OF_MEMORY;
        device->context.device = i;
    }
    sim_catch_faults();
    __atomic_store_n(&sim.owner, SIM_THIS_PROCESS, __ATOMIC_RELAXED);
    sim.is_started = true;
    return SIM_OK;
}

struct sim_device *sim_device(int ordinal)
{
    bool exists = ordinal >= 0 && (uint32_t)ordinal < sim.options.device_count;
    return exists ? &sim.devices[ordinal] : NULL;
}

static uint32_t *own_stack(void)
{
    if (stack_life != life)
        stack_count = 0;
    stack_life = life;
    return &stack_count;
}

struct sim_context *sim_current(void)
{
    uint32_t count = *own_stack();
    return count ? stack[count - 1] : NULL;
}

int sim_current_loss(void)
{
    const struct sim_context *context = sim_current();
    return context ? sim.devices[context->device].lost : SIM_OK;
}

static bool is_context(const struct sim_context *context)
{
    for (uint32_t i = 0; i < sim.options.device_count; i++)
        if (context == &sim.devices[i].context)
            return true;
    return false;
}

int sim_set_current(struct sim_context *context)
{
    uint32_t *count = own_stack();
    if (!context) {
        *count -= *count > 0;
        return SIM_OK;
    }
    if (!is_context(context))
        return SIM_INVALID_CONTEXT;
    if (*count == 0)
        *count = 1;
    stack[*count - 1] = context;
    return SIM_OK;
}

int sim_push(struct sim_context *context)
{
    uint32_t *count = own_stack();
    if (!is_context(context))
        return context ? SIM_INVALID_CONTEXT : SIM_INVALID_VALUE;
    if (*count == STACK_MAX_COUNT)
        sim_misuse("%u contexts are pushed on one thread", *count);
    stack[(*count)++] = context;
    return SIM_OK;
}

int sim_pop(struct sim_context **context)
{
    uint32_t *count = own_stack();
    if (*count == 0)
        return SIM_INVALID_CONTEXT;
    struct sim_context *popped = stack[--*count];
    if (context)
        *context = popped;
    return SIM_OK;
}

int sim_retain(struct sim_context **context, int ordinal)
{
    struct sim_device *device = sim_device(ordinal);
    if (!device)
        return SIM_INVALID_DEVICE;
    if (device->lost != SIM_OK && (device->is_gone || !device->context.is_active))
        return device->lost; /* D26: one that is active is shared, and not looked at */
    device->context.is_active = true;
    device->context.retain_count++;
    sim.ledger.retain_count++;
    *context = &device->context;
    return SIM_OK;
}

/* D31: streams, events and plain memory go with the context; virtual memory is the device's. */
static void deactivate(struct sim_context *context)
{
    context->is_active = false;
    sim_await_context(context);
    sim_streams_finish(context);
    sim_plain_finish(context->device);
}

int sim_release(int ordinal)
{
    struct sim_device *device = sim_device(ordinal);
    if (!device)
        return SIM_INVALID_DEVICE;
    if (device->context.retain_count == 0)
        return SIM_INVALID_CONTEXT;
    sim.ledger.retain_count--;
    if (--device->context.retain_count == 0)
        deactivate(&device->context);
    return SIM_OK;
}

int sim_reset(int ordinal)
{
    struct sim_device *device = sim_device(ordinal);
    if (!device)
        return SIM_INVALID_DEVICE;
    if (device->context.is_active)
        deactivate(&device->context);
    return SIM_OK;
}

int sim_synchronize(void)
{
    struct sim_context *context = sim_current();
    sim_await_context(context);
    return sim.devices[context->device].lost;
}

void sim_contexts_finish(void)
{
    for (uint32_t i = 0; i < sim.options.device_count; i++) {
        struct sim_device *device = &sim.devices[i];
        sim_streams_finish(&device->context);
        if (sim.is_started)
            close(device->file);
    }
    memset(sim.devices, 0, sizeof sim.devices);
    sim.is_started = false;
    __atomic_store_n(&sim.owner, SIM_NOBODY, __ATOMIC_RELAXED);
    life++;
}
