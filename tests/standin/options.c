/* Options and plans out of the environment, read once when the library is loaded. A value that
 * makes no sense ends the process: a test that runs with other options than it asked for shows
 * nothing. */
#include "tests/standin/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEBIBYTE ((uint64_t)1 << 20)
/* All parts together; ThreadSanitizer has no room for twice as much. */
#define ADDRESSES_MAX_BYTES ((uint64_t)1 << 39)

static _Noreturn void refuse(const char *name, const char *value, const char *wanted)
{
    fprintf(stderr, "stand-in: %s is '%s', and may be %s\n", name, value, wanted);
    abort();
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);
    if (!value)
        return otherwise;
    char *end;
    unsigned long long read = strtoull(value, &end, 0);
    if (end == value || *end)
        refuse(name, value, "a number");
    return read;
}

/* Which of the words it is; the first where there is none. */
static uint32_t choice(const char *name, const char *const words[3])
{
    const char *value = getenv(name);
    for (uint32_t i = 0; i < 3 && words[i]; i++)
        if (!value || strcmp(value, words[i]) == 0)
            return i;
    refuse(name, value, "one of its words (tests/standin/control.h)");
}

static bool yes(const char *name)
{
    return number(name, 0) != 0;
}

static uint64_t address_bytes_for(uint32_t device_count)
{
    uint64_t bytes = ADDRESSES_MAX_BYTES;
    while (bytes * (1 + (uint64_t)device_count) > ADDRESSES_MAX_BYTES)
        bytes /= 2;
    return bytes;
}

void sim_options_read(struct standin_options *options)
{
    static const char *const modes[3] = {"threaded", "manual", "lazy"};
    static const char *const contents[3] = {"poison", "zeros"};
    static const char *const addresses[3] = {"lowest", "rising"};
    uint64_t devices = number("STANDIN_DEVICES", 1);
    if (devices > STANDIN_DEVICE_MAX_COUNT)
        refuse("STANDIN_DEVICES", getenv("STANDIN_DEVICES"), "0 to 8");
    uint64_t granule = number("STANDIN_GRANULE_MIN_BYTES", 2 * MEBIBYTE);
    *options = (struct standin_options){
        .device_count = (uint32_t)devices,
        .capacity_bytes = number("STANDIN_CAPACITY_BYTES", 1024 * MEBIBYTE),
        .granule_min_bytes = granule,
        .granule_recommended_bytes = number("STANDIN_GRANULE_RECOMMENDED_BYTES", granule),
        .address_bytes = number("STANDIN_ADDRESS_BYTES", address_bytes_for((uint32_t)devices)),
        .mode = choice("STANDIN_MODE", modes),
        .content = choice("STANDIN_CONTENT", contents),
        .addresses = choice("STANDIN_ADDRESSES", addresses),
        .start_code = (int)number("STANDIN_START_CODE", 0),
        .can_export = yes("STANDIN_EXPORT"),
        .maps_released = yes("STANDIN_MAPS_RELEASED"),
        .has_no_virtual_memory = yes("STANDIN_NO_VIRTUAL_MEMORY"),
        .has_no_peers = yes("STANDIN_NO_PEERS"),
        .has_no_managed_memory = yes("STANDIN_NO_MANAGED_MEMORY"),
        .has_no_aliasing = yes("STANDIN_HIP_NO_ALIASING"),
        .has_no_read_only = yes("STANDIN_HIP_NO_READ_ONLY"),
        .takes_descriptors = yes("STANDIN_HIP_DESCRIPTORS"),
        .frees_late = yes("STANDIN_HIP_FREES_LATE"),
        .refuses_long_access = yes("STANDIN_HIP_SINGLE_ACCESS"),
        .wants_own_last = yes("STANDIN_HIP_OWN_LAST"),
        .refuses_access_each = (uint32_t)number("STANDIN_HIP_REFUSES_ACCESS", 0),
        .granule_told_bytes = number("STANDIN_HIP_GRANULE_TOLD_BYTES", 0),
        .handle_max_bytes = number("STANDIN_HIP_HANDLE_MAX_BYTES", 0),
        .hip_version = (int)number("STANDIN_HIP_VERSION", 71400000),
    };
}

/* Calls `take` with each part of a list `a;b;c`. */
static void each(const char *name, void (*take)(const char *name, char *part))
{
    const char *value = getenv(name);
    char *copy = value ? strdup(value) : NULL;
    char *rest = NULL;
    for (char *part = copy ? strtok_r(copy, ";", &rest) : NULL; part;
         part = strtok_r(NULL, ";", &rest))
        take(name, part);
    free(copy);
}

static void take_fault(const char *name, char *part)
{
    char function[80];
    unsigned long long index;
    char how[8];
    char when[8];
    int code;
    if (sscanf(part, "%79[^:]:%llu:%7[^:]:%7[^:]:%d", function, &index, how, when, &code) != 5)
        refuse(name, part, "FUNCTION:CALL:once|sticky:before|after:CODE");
    struct standin_fault fault = {
        function, index, strcmp(how, "sticky") == 0, strcmp(when, "after") == 0, code};
    sim_plan_fault(&fault);
}

static void take_latency(const char *name, char *part)
{
    char function[80];
    unsigned long long nanoseconds;
    if (sscanf(part, "%79[^:]:%llu", function, &nanoseconds) != 2)
        refuse(name, part, "FUNCTION:NANOSECONDS");
    sim_set_latency(function, nanoseconds);
}

static void take_loss(const char *name, char *part)
{
    unsigned device;
    unsigned long long index;
    int code;
    char how[8];
    if (sscanf(part, "%u:%llu:%d:%7s", &device, &index, &code, how) != 4)
        refuse(name, part, "DEVICE:CALL:CODE:context|whole");
    sim_plan_loss(device, index, code, strcmp(how, "whole") == 0);
}

static void take_missing(const char *name, char *part)
{
    if (!sim_hide_symbol(part))
        refuse(name, part, "the name of a function that the library has");
}

void sim_plan_read(void)
{
    each("STANDIN_FAULTS", take_fault);
    each("STANDIN_LATENCY", take_latency);
    each("STANDIN_LOSE", take_loss);
    each("STANDIN_MISSING", take_missing);
    sim_hang_event(number("STANDIN_HANG_EVENT", 0));
    const char *journal = getenv("STANDIN_JOURNAL");
    if (journal && !sim_journal(journal))
        refuse("STANDIN_JOURNAL", journal, "a file that can be written");
}
