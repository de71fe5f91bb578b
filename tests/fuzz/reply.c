/* Fuzz target: a plugin's entry reply, its descriptions of mechanisms, its tables, facts and
 * reports, drawn from the input, through negotiation, open and close. There is no file: the plugin
 * is this one, and its "image" is the static record below.
 *
 * The first byte configures the module. Then each call into the plugin takes one byte: 0 is the
 * answer of a plugin that keeps the contract, anything else chooses a lie and takes more bytes.
 *
 * Oracle: an instance that was handed over is called while it lives only, is closed once, and the
 * module counts exactly those that could not be closed (I2, I3). */
#include "abi/base/lock.h"
#include "host/loader/facts.h"
#include "host/loader/module.h"
#include "host/loader/table.h"
#include "tests/fuzz/input.h"

#include <stdbool.h>

#define INSTANCE_COUNT 8
#define MECHANISM_COUNT 2
#define GRANULE 4096
#define FOREIGN_ID "org.example.fuzz"

struct mbr_instance {
    bool was_given, is_gone;
};

/* The plugin's file. */
static struct plugin_file {
    char name[32], version[64], endless[64];
    mbr_plugin_vtable plugin;
    mbr_allocator_vtable allocator;
    mbr_virtual_vtable virtual_;
    mbr_shared_vtable shared;
    mbr_order_vtable order;
    mbr_transfer_vtable transfer;
    unsigned char end[8];
} file;

static struct {
    fuzz_input input;
    mbr_instance instances[INSTANCE_COUNT];
    uint32_t given_count;
} world;

/* ---- Lies ------------------------------------------------------------------------------------ */

static mbr_status draw_status(void)
{
    static const mbr_status statuses[] = {MBR_UNSUPPORTED, MBR_OUT_OF_RANGE, MBR_DEVICE_LOST,
        MBR_IN_USE, MBR_TIMED_OUT, MBR_VERSION_MISMATCH, MBR_NO_DEVICE, MBR_INTERNAL, MBR_OK};
    uint8_t which = fuzz_u8(&world.input);
    if (which >= 128)
        return (mbr_status)fuzz_u32(&world.input);
    return statuses[which % (sizeof statuses / sizeof *statuses)];
}

/* What every answer may do: a status, bytes anywhere in the outcome, a text without an end. `bytes`
 * of the outcome are the host's. True: *status is the answer. */
static bool lies(void *outcome, size_t bytes, mbr_error *error, mbr_status *status)
{
    uint8_t kind = fuzz_u8(&world.input);
    mbr_lock_assert_none_held();
    *status = MBR_OK;
    if (kind == 0)
        return false;
    if (kind % 4 == 1) {
        *status = draw_status();
        return true;
    }
    if (kind % 4 == 2) { /* the honest answer is then not written */
        size_t at = fuzz_u8(&world.input) % bytes;
        size_t count = 1 + fuzz_u8(&world.input) % (bytes - at);
        fuzz_take(&world.input, (unsigned char *)outcome + at, count);
        *status = draw_status();
        return true;
    }
    if (kind % 4 == 3 && error != NULL) {
        memset(error->text, 1 + fuzz_u8(&world.input) % 255, sizeof error->text);
        error->status = draw_status();
        *status = draw_status();
        return true;
    }
    return false; /* kind % 4 == 0: a lie of the call's own, asked for by `own_lie` */
}

/* After an honest answer was written: one of the call's own lies, 0 being none. */
static uint8_t own_lie(void)
{
    return fuzz_u8(&world.input);
}

static void check_instance(const mbr_instance *instance)
{
    FUZZ_MUST(instance >= world.instances && instance < world.instances + INSTANCE_COUNT,
        "a call with %p, no instance of this plugin", (const void *)instance);
    FUZZ_MUST(
        instance->was_given && !instance->is_gone, "a call of an instance that does not live");
}

/* ---- The plugin ------------------------------------------------------------------------------ */

static void never_called(void)
{
    FUZZ_MUST(false, "a slot that neither open nor close needs was called");
}

static mbr_status mechanisms(mbr_instance *none, const mbr_mechanisms_request *request,
    mbr_mechanism_description *outcome, mbr_error *error)
{
    mbr_status status;
    FUZZ_MUST(none == NULL && outcome->struct_size == sizeof *outcome, "its request");
    if (lies(outcome, sizeof *outcome, error, &status))
        return status;
    outcome->count = MECHANISM_COUNT;
    if (request->index >= MECHANISM_COUNT)
        return MBR_OUT_OF_RANGE;
    snprintf(outcome->name, sizeof outcome->name, "fuzz%u", request->index);
    outcome->domain = MBR_DOMAIN_HOST;
    outcome->tier = MBR_TIER_HOST;
    uint8_t lie = own_lie();
    if (lie % 4 == 1)
        memset(outcome->name, lie, sizeof outcome->name); /* without an end */
    else if (lie % 4 == 2)
        memset(outcome->description, lie, sizeof outcome->description);
    else if (lie % 4 == 3)
        outcome->domain = lie;
    return MBR_OK;
}

static mbr_status open_mechanism(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    FUZZ_MUST(none == NULL && request->log != NULL && request->mechanism != NULL, "its request");
    if (lies(&outcome->reserved_0, sizeof outcome->reserved_0, error, &status))
        return status;
    if (own_lie() % 2 == 1)
        return MBR_OK; /* and no instance */
    if (world.given_count == INSTANCE_COUNT)
        return MBR_OUT_OF_MEMORY;
    outcome->instance = &world.instances[world.given_count++];
    outcome->instance->was_given = true;
    return MBR_OK;
}

static const void *draw_table(uint8_t lie, const void *honest)
{
    static mbr_virtual_vtable elsewhere; /* not of the plugin's file */
    const void *tables[] = {honest, NULL, &file.plugin, &file.allocator, &file.virtual_,
        &file.shared, &file.order, &file.transfer, file.name + 1, file.end, &file.end[8],
        &elsewhere};
    return tables[lie % (sizeof tables / sizeof *tables)];
}

static mbr_status capability(mbr_instance *instance, const mbr_capability_request *request,
    mbr_capability_outcome *outcome, mbr_error *error)
{
    const struct {
        const char *id;
        void *table;
        size_t bytes;
    } rows[] = {{MBR_ID_ALLOCATOR, &file.allocator, sizeof file.allocator},
        {MBR_ID_VIRTUAL, &file.virtual_, sizeof file.virtual_},
        {MBR_ID_SHARED, &file.shared, sizeof file.shared},
        {MBR_ID_ORDER, &file.order, sizeof file.order},
        {MBR_ID_TRANSFER, &file.transfer, sizeof file.transfer}};
    mbr_status status;
    check_instance(instance);
    if (lies(&outcome->reserved_0, sizeof outcome->reserved_0, error, &status))
        return status;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(request->id, rows[i].id) != 0)
            continue;
        uint8_t lie = own_lie();
        if (lie % 16 == 15) /* bytes of the table itself */
            fuzz_take(&world.input, (unsigned char *)rows[i].table + lie / 16 % 2 * 4, 4);
        outcome->table = draw_table(lie % 16 == 15 ? 0 : lie, rows[i].table);
        return MBR_OK;
    }
    uint8_t lie = own_lie();
    outcome->table = draw_table(lie, NULL);
    return lie == 0 ? MBR_UNSUPPORTED : MBR_OK;
}

static mbr_status fact(mbr_instance *instance, const mbr_fact_request *request,
    mbr_fact_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    check_instance(instance);
    if (lies(outcome, sizeof *outcome, error, &status))
        return status;
    uint8_t lie = own_lie();
    if (lie != 0)
        outcome->value = lie % 2 == 0 ? fuzz_u64(&world.input) : UINT64_C(1) << lie / 2 % 64;
    else if (request->fact == MBR_FACT_GRANULE_MIN_BYTES)
        outcome->value = GRANULE;
    else
        return MBR_UNSUPPORTED;
    return MBR_OK;
}

static mbr_status report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    mbr_status status;
    (void)request;
    check_instance(instance);
    lies(outcome, sizeof *outcome, error, &status);
    return status;
}

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    (void)request;
    check_instance(instance);
    if (lies(outcome, sizeof *outcome, error, &status))
        return status;
    outcome->state = MBR_STATE_DONE;
    return MBR_OK;
}

/* An instance is gone where the answer says so: MBR_OK and DONE. */
static mbr_status close_mechanism(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    mbr_status status;
    (void)request;
    check_instance(instance);
    if (!lies(outcome, sizeof *outcome, error, &status))
        outcome->state = MBR_STATE_DONE;
    instance->is_gone = status == MBR_OK && outcome->state == MBR_STATE_DONE;
    return status;
}

/* Slots from `first` to the table's end. */
static void fill_slots(void *table, size_t first, size_t bytes)
{
    void (*slot)(void) = never_called;
    for (size_t at = first; at < bytes; at += sizeof slot)
        memcpy((char *)table + at, &slot, sizeof slot);
}

#define MAKE_TABLE(member, kind_of, first)                                                         \
    do {                                                                                           \
        fill_slots(&file.member, first, sizeof file.member);                                       \
        file.member.struct_size = sizeof file.member;                                              \
        file.member.kind = kind_of;                                                                \
        file.member.minor = MBR_MINOR_0;                                                           \
    } while (0)

static void make_file(void)
{
    memset(&file, 0, sizeof file);
    strcpy(file.name, "fuzz");
    strcpy(file.version, "1.0");
    memset(file.endless, 'x', sizeof file.endless);
    MAKE_TABLE(plugin, MBR_KIND_PLUGIN, offsetof(mbr_plugin_vtable, mechanisms));
    MAKE_TABLE(allocator, MBR_KIND_ALLOCATOR, sizeof(mbr_vtable_head));
    MAKE_TABLE(virtual_, MBR_KIND_VIRTUAL, sizeof(mbr_vtable_head));
    MAKE_TABLE(shared, MBR_KIND_SHARED, sizeof(mbr_vtable_head));
    MAKE_TABLE(order, MBR_KIND_ORDER, sizeof(mbr_vtable_head));
    MAKE_TABLE(transfer, MBR_KIND_TRANSFER, sizeof(mbr_vtable_head));
    file.plugin.name = file.name;
    file.plugin.version = file.version;
    file.plugin.mechanisms = mechanisms;
    file.plugin.open = open_mechanism;
    file.plugin.capability = capability;
    file.plugin.report = report;
    file.plugin.quiesce = quiesce;
    file.plugin.close = close_mechanism;
    file.allocator.fact = fact;
}

static mbr_status entry(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    mbr_status status;
    FUZZ_MUST(hello->struct_size == sizeof *hello && reply->struct_size == sizeof *reply, "hello");
    /* All but the pointer, which is one of a few below: a wild one inside the image is like them.
     */
    if (lies(reply, offsetof(mbr_reply, plugin), error, &status) && status != MBR_OK)
        return status;
    reply->plugin = &file.plugin;
    uint8_t lie = own_lie();
    if (lie % 8 == 1)
        reply->plugin = draw_table(lie / 8, &file.plugin);
    else if (lie % 8 == 2)
        memset((unsigned char *)reply + sizeof *reply + lie, lie, 1); /* as a larger struct would */
    else if (lie % 8 == 3)
        file.plugin.version = lie / 8 % 2 == 0 ? file.endless : NULL;
    else if (lie % 8 == 4)
        file.plugin.name = lie / 8 % 2 == 0 ? file.endless : (const char *)&world;
    else if (lie % 8 == 5)
        fuzz_take(&world.input, file.version, lie);
    else if (lie % 8 == 6)
        fuzz_take(&world.input, &file.plugin, sizeof(mbr_vtable_head));
    return MBR_OK;
}

/* ---- The host -------------------------------------------------------------------------------- */

static void check_facts(const mbr_mechanism *mechanism)
{
    uint64_t granule = mechanism->granule_min_bytes;
    FUZZ_MUST(!mechanism->has_shared || mechanism->has_virtual, "shared without virtual");
    FUZZ_MUST(!mechanism->has_virtual || (granule != 0 && (granule & (granule - 1)) == 0),
        "granule %llu", (unsigned long long)granule);
    FUZZ_MUST(!mechanism->has_virtual ||
            (mechanism->granule_recommended_bytes % granule == 0 &&
                mechanism->extent_max_bytes >= granule &&
                mechanism->reservation_max_bytes >= granule),
        "sizes below a granule");
    FUZZ_MUST(mechanism->allocation_round_bytes > 0, "rounding to 0");
    FUZZ_MUST(mechanism->fresh_content <= MBR_CONTENT_ZERO, "content");
    FUZZ_MUST(memchr(mechanism->description.name, 0, sizeof mechanism->description.name) != NULL,
        "a name without an end");
}

static void ask_foreign(const mbr_mechanism *mechanism)
{
    struct {
        mbr_vtable_head head;
        void (*slot)(void);
    } own, stub = {{sizeof stub, mbr_table_kind_of_id(FOREIGN_ID), 0}, never_called};
    static const mbr_slot_spec slot = {"slot", sizeof(mbr_vtable_head), 0};
    mbr_foreign_table wanted = {.id = FOREIGN_ID,
        .min_bytes = sizeof own,
        .own_bytes = sizeof own,
        .stub = &stub,
        .slots = &slot,
        .slot_count = 1};
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_mechanism_fetch_foreign(mechanism, &wanted, &own, &error);
    FUZZ_MUST(own.slot != NULL, "a slot is NULL");
}

static void check_error(mbr_status status, const mbr_error *error)
{
    FUZZ_MUST(memchr(error->text, 0, sizeof error->text) != NULL, "a text without an end");
    FUZZ_MUST(status == MBR_OK || error->status == status, "%d, the error says %d", status,
        error->status);
    FUZZ_MUST(strchr(error->text, '\n') == NULL, "a text of several lines");
}

static void open_and_close(mbr_module *module, unsigned config)
{
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_mechanism mechanism;
    mbr_mechanism_options options = {.mechanism = (config & 4) != 0 ? "fuzz1" : NULL};
    mbr_status status = mbr_mechanism_open(module, &options, &mechanism, &error);
    check_error(status, &error);
    if (status != MBR_OK) {
        FUZZ_MUST(mechanism.instance == NULL, "a refused mechanism has an instance");
        return;
    }
    check_facts(&mechanism);
    ask_foreign(&mechanism);
    for (int tries = 0; tries < 3 && mechanism.instance != NULL; tries++) {
        error = (mbr_error){MBR_SIZED(mbr_error)};
        status = mbr_mechanism_close(&mechanism, &error);
        check_error(status, &error);
        FUZZ_MUST(status != MBR_OK || mechanism.instance == NULL, "closed, and still there");
    }
    if (mechanism.instance != NULL)
        mbr_mechanism_abandon(&mechanism);
}

static void describe(mbr_module *module)
{
    for (uint32_t index = 0; index <= MECHANISM_COUNT; index++) {
        mbr_mechanism_description description;
        mbr_error error = {MBR_SIZED(mbr_error)};
        mbr_status status = mbr_module_describe(module, index, &description, &error);
        check_error(status, &error);
        FUZZ_MUST(status == MBR_OK || description.name[0] == '\0', "a refused one has a name");
    }
}

static void check_end(const mbr_module *module)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < world.given_count; i++)
        left += !world.instances[i].is_gone;
    FUZZ_MUST(module->open_count == 0, "%u are open", (unsigned)module->open_count);
    FUZZ_MUST(module->leaked_count == left, "%u instances were not closed, %u are counted", left,
        (unsigned)module->leaked_count);
    mbr_lock_assert_none_held();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static mbr_module module;
    static Elf64_Phdr segment;
    memset(&world, 0, sizeof world);
    world.input = fuzz_input_of(data, bytes);
    unsigned config = fuzz_u8(&world.input);
    mbr_loader_environment environment = {
        .trace = (config & 1) != 0 ? "calls" : NULL, .trace_file = "/dev/null"};
    make_file();
    memset(&module, 0, sizeof module);
    module.heap = mbr_heap_libc;
    segment = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_memsz = sizeof file};
    module.image = (mbr_image){.base = (uintptr_t)&file, .segments = &segment, .segment_count = 1};
    strcpy(module.candidate.note.name, "fuzz");
    module.candidate.note.major = MBR_MAJOR;
    module.candidate.note.flags = (config & 2) != 0 ? MBR_NOTE_FORK_SAFE : 0;
    mbr_trace_sink_init(&module.trace, &environment);
    mbr_fork_guard_init(&module.fork);
    mbr_status status = mbr_module_negotiate(&module, entry);
    FUZZ_MUST((status == MBR_OK) == (module.candidate.reason == MBR_REASON_USED), "%d, reason %d",
        status, module.candidate.reason);
    if (status == MBR_OK) {
        describe(&module);
        open_and_close(&module, config);
        open_and_close(&module, config);
    }
    check_end(&module);
    mbr_fork_guard_finish(&module.fork);
    mbr_trace_sink_finish(&module.trace);
    return 0;
}
