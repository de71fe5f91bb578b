/* The call trace: shims in the host's copies of a plugin's tables that call the slot and write one
 * line. Responsible for the lines alone: it changes neither request nor answer, takes no lock, and
 * keeps errno. It uses no slot for itself. */
#include "host/loader/trace.h"

#include "abi/base/error.h"
#include "abi/derive/fields.h"
#include "abi/derive/slots.h"
#include "host/loader/reason.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024
#define TEXT_BYTES 128 /* of an error's text */
#define WORD "calls"

/* ---- Lines ----------------------------------------------------------------------------------- */

/* A line is written by one call, so that those of several threads do not mix. */
typedef struct line {
    uint64_t bytes;
    char text[LINE_BYTES];
} line;

__attribute__((format(printf, 2, 3))) static void add(line *to, const char *format, ...)
{
    uint64_t room = sizeof to->text - 1 - to->bytes; /* the end of the line fits always */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to->text + to->bytes, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        to->bytes += (uint64_t)length < room ? (uint64_t)length : room - 1;
}

static void put(const mbr_trace_sink *sink, line *to)
{
    int kept = errno;
    to->text[to->bytes] = '\0';
    mbr_text_one_line(to->text);
    to->text[to->bytes++] = '\n';
    while (write(sink->fd, to->text, to->bytes) < 0 && errno == EINTR)
        continue;
    errno = kept;
}

static void put_text(const char *format, const char *first, const char *second)
{
    const mbr_trace_sink standard = {.fd = STDERR_FILENO};
    line own = {0};
    add(&own, "membrane trace: ");
    own.bytes += (uint64_t)snprintf(
        own.text + own.bytes, sizeof own.text - own.bytes - 1, format, first, second);
    put(&standard, &own);
}

/* ---- The sink -------------------------------------------------------------------------------- */

static bool is_set(const char *value)
{
    return value != NULL && value[0] != '\0';
}

void mbr_trace_sink_init(mbr_trace_sink *sink, const mbr_loader_environment *environment)
{
    *sink = (mbr_trace_sink){.fd = -1};
    if (environment->secure || !is_set(environment->trace))
        return;
    if (strcmp(environment->trace, WORD) != 0) {
        put_text("MEMBRANE_TRACE is \"%.64s\"; known: %s", environment->trace, WORD);
        return;
    }
    sink->fd = STDERR_FILENO;
    if (!is_set(environment->trace_file))
        return;
    int fd = open(environment->trace_file,
        O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (fd < 0)
        put_text("%.256s cannot be written (%s); lines go to stderr", environment->trace_file,
            strerror(errno));
    else
        *sink = (mbr_trace_sink){.fd = fd, .is_file = true};
}

void mbr_trace_sink_finish(mbr_trace_sink *sink)
{
    if (sink->is_file)
        close(sink->fd);
    *sink = (mbr_trace_sink){.fd = -1};
}

uint64_t mbr_trace_begin(const mbr_trace_sink *sink)
{
    return sink->fd < 0 ? 0 : mbr_clock_now(&mbr_clock_monotonic);
}

/* Who, which slot. */
static void begin_line(line *own, const char *plugin, const char *mechanism, const char *slot)
{
    own->bytes = 0;
    add(own, "[%d] %s%s%s %s", gettid(), plugin, mechanism[0] == '\0' ? "" : "/", mechanism, slot);
}

void mbr_trace_end(const mbr_trace_sink *sink, uint64_t began_ns, const char *plugin,
    const char *slot, const char *detail, mbr_status status)
{
    if (sink->fd < 0)
        return;
    uint64_t took_ns = mbr_clock_now(&mbr_clock_monotonic) - began_ns;
    line own;
    begin_line(&own, plugin, "", slot);
    add(&own, "%s%s -> %d %" PRIu64 " ns", detail[0] == '\0' ? "" : " ", detail, status, took_ns);
    put(sink, &own);
}

/* ---- Shims ----------------------------------------------------------------------------------- */

/* What the shims get as their instance. */
typedef struct trace {
    mbr_trace_sink sink;
    mbr_instance *instance; /* the plugin's */
    char plugin_name[MBR_NOTE_NAME_BYTES];
    char mechanism_name[64];
    mbr_plugin_vtable plugin; /* what the host would call */
    mbr_allocator_vtable allocator;
    mbr_virtual_vtable virtual_;
    mbr_shared_vtable shared;
    mbr_order_vtable order;
    mbr_transfer_vtable transfer;
} trace;

typedef struct field {
    const char *name; /* NULL: the end */
    uint32_t offset, bytes;
} field;

#define FIELD(type, name) {#name, offsetof(type, name), sizeof(((type *)0)->name)},

/* Numbers that the struct's own size reaches. `nonzero`: only those that say something. */
static void add_fields(line *own, const field *fields, const void *object, bool nonzero)
{
    uint32_t stated;
    memcpy(&stated, object, sizeof stated);
    for (; fields->name != NULL; fields++) {
        uint64_t value = 0;
        if (fields->offset + fields->bytes > stated)
            break;
        memcpy(&value, (const char *)object + fields->offset, fields->bytes); /* little endian */
        if (value != 0 || !nonzero)
            add(own, " %s=%" PRIu64, fields->name, value);
    }
}

static void end_line(line *own, const trace *by, const mbr_error *error, mbr_status status,
    const field *told, const void *outcome, uint64_t took_ns)
{
    add(own, " -> %d", status);
    add_fields(own, told, outcome, true);
    if (status != MBR_OK && error != NULL && MBR_HAS(mbr_error, error, text))
        add(own, " \"%.*s\"", TEXT_BYTES, error->text);
    add(own, " %" PRIu64 " ns", took_ns);
    put(&by->sink, own);
}

/* The request is printed before the call, which may free what it points to. */
#define SHIM(member, slot, request_type, outcome_type)                                             \
    static mbr_status trace_##member##_##slot(mbr_instance *instance, const request_type *request, \
        outcome_type *outcome, mbr_error *error)                                                   \
    {                                                                                              \
        static const field asked[] = {MBR_FIELDS_##request_type(FIELD){NULL, 0, 0}};               \
        static const field told[] = {MBR_FIELDS_##outcome_type(FIELD){NULL, 0, 0}};                \
        const trace *by = (const trace *)instance;                                                 \
        line own;                                                                                  \
        begin_line(&own, by->plugin_name, by->mechanism_name, #member "." #slot);                  \
        add_fields(&own, asked, request, false);                                                   \
        uint64_t began_ns = mbr_clock_now(&mbr_clock_monotonic);                                   \
        mbr_status status = by->member.slot(by->instance, request, outcome, error);                \
        uint64_t took_ns = mbr_clock_now(&mbr_clock_monotonic) - began_ns;                         \
        end_line(&own, by, error, status, told, outcome, took_ns);                                 \
        return status;                                                                             \
    }

#define SHIM_PLUGIN(table, slot, request, outcome, ...) SHIM(plugin, slot, request, outcome)
#define SHIM_ALLOCATOR(table, slot, request, outcome, ...) SHIM(allocator, slot, request, outcome)
#define SHIM_VIRTUAL(table, slot, request, outcome, ...) SHIM(virtual_, slot, request, outcome)
#define SHIM_SHARED(table, slot, request, outcome, ...) SHIM(shared, slot, request, outcome)
#define SHIM_ORDER(table, slot, request, outcome, ...) SHIM(order, slot, request, outcome)
#define SHIM_TRANSFER(table, slot, request, outcome, ...) SHIM(transfer, slot, request, outcome)

MBR_SLOTS_PLUGIN_VTABLE(SHIM_PLUGIN)
MBR_SLOTS_ALLOCATOR_VTABLE(SHIM_ALLOCATOR)
MBR_SLOTS_VIRTUAL_VTABLE(SHIM_VIRTUAL)
MBR_SLOTS_SHARED_VTABLE(SHIM_SHARED)
MBR_SLOTS_ORDER_VTABLE(SHIM_ORDER)
MBR_SLOTS_TRANSFER_VTABLE(SHIM_TRANSFER)

#define SET_PLUGIN(table, slot, ...) to->plugin.slot = trace_plugin_##slot;
#define SET_ALLOCATOR(table, slot, ...) to->allocator.slot = trace_allocator_##slot;
#define SET_VIRTUAL(table, slot, ...) to->virtual_.slot = trace_virtual__##slot;
#define SET_SHARED(table, slot, ...) to->shared.slot = trace_shared_##slot;
#define SET_ORDER(table, slot, ...) to->order.slot = trace_order_##slot;
#define SET_TRANSFER(table, slot, ...) to->transfer.slot = trace_transfer_##slot;

static void set_shims(mbr_mechanism *to){
    MBR_SLOTS_PLUGIN_VTABLE(SET_PLUGIN) MBR_SLOTS_ALLOCATOR_VTABLE(SET_ALLOCATOR)
        MBR_SLOTS_VIRTUAL_VTABLE(SET_VIRTUAL) MBR_SLOTS_SHARED_VTABLE(SET_SHARED)
            MBR_SLOTS_ORDER_VTABLE(SET_ORDER) MBR_SLOTS_TRANSFER_VTABLE(SET_TRANSFER)}

mbr_status mbr_trace_attach(
    const mbr_trace_sink *sink, const mbr_heap *heap, mbr_mechanism *mechanism, mbr_error *error)
{
    if (sink->fd < 0)
        return MBR_OK;
    trace *own = mbr_heap_allocate(heap, sizeof *own);
    if (own == NULL)
        return mbr_fail(error, MBR_OUT_OF_HOST_MEMORY, "no host memory to trace a mechanism");
    *own = (trace){.sink = {.fd = sink->fd},
        .instance = mechanism->instance,
        .plugin = mechanism->plugin,
        .allocator = mechanism->allocator,
        .virtual_ = mechanism->virtual_,
        .shared = mechanism->shared,
        .order = mechanism->order,
        .transfer = mechanism->transfer};
    mbr_text_copy(own->plugin_name, mechanism->plugin.name, sizeof own->plugin_name);
    mbr_text_copy(own->mechanism_name, mechanism->description.name, sizeof own->mechanism_name);
    set_shims(mechanism);
    /* These are called without this instance, and say more where they are called. */
    mechanism->plugin.mechanisms = own->plugin.mechanisms;
    mechanism->plugin.open = own->plugin.open;
    mechanism->plugin.capability = own->plugin.capability;
    mechanism->instance = (mbr_instance *)own;
    mechanism->is_traced = true;
    return MBR_OK;
}

void mbr_trace_detach(const mbr_heap *heap, mbr_mechanism *mechanism)
{
    if (!mechanism->is_traced)
        return;
    mbr_heap_release(heap, mechanism->instance);
    mechanism->instance = mechanism->plugin_instance;
    mechanism->is_traced = false;
}
