/* The drawn mechanism: for each call the honest answer is written first, then one byte of the input
 * says whether it is told, and how it is changed where not. Keeps no books of bytes: what the host
 * counts is compared among the host's own parts. */
#include "tests/fuzz/drawn.h"

#include "abi/base/lock.h"

#include <stdbool.h>

#define GRANULE DRAWN_GRANULE
#define ID_COUNT_MAX 4096
#define WITHHELD_MAP_COUNT_MAX 256

typedef struct block {
    struct block *next, *prev;
    uint64_t bytes[2]; /* keeps what follows aligned */
} block;

typedef struct withheld_map {
    uint64_t reservation_id, offset;
} withheld_map;

drawn_world drawn;

static struct {
    block blocks; /* a ring */
    uint64_t now_ns;
    uint64_t next_address, last_address;
    uint64_t line_value;
    bool withheld[ID_COUNT_MAX]; /* by the host's id: nobody knows its state */
    uint64_t owned[ID_COUNT_MAX];
    withheld_map maps[WITHHELD_MAP_COUNT_MAX];
    uint32_t map_count;
} world;

/* ---- Seams ----------------------------------------------------------------------------------- */

static void *allocate_block(void *context, size_t bytes)
{
    (void)context;
    if (drawn.heap_may_fail && fuzz_u8(&drawn.answers) == 255)
        return NULL;
    block *made = calloc(1, sizeof *made + bytes);
    FUZZ_MUST(made != NULL, "no memory");
    made->next = world.blocks.next;
    made->prev = &world.blocks;
    made->next->prev = made;
    world.blocks.next = made;
    drawn.block_count++;
    return made + 1;
}

static void release_block(void *context, void *memory)
{
    (void)context;
    if (memory == NULL)
        return;
    block *gone = (block *)memory - 1;
    gone->next->prev = gone->prev;
    gone->prev->next = gone->next;
    drawn.block_count--;
    free(gone);
}

/* A wait for a deadline takes no time. */
static uint64_t read_clock(void *context)
{
    (void)context;
    world.now_ns += 1000000;
    return world.now_ns;
}

const mbr_heap drawn_heap = {allocate_block, release_block, NULL};
const mbr_clock drawn_clock = {read_clock, NULL};

/* ---- Answers --------------------------------------------------------------------------------- */

static mbr_status draw_failure(void)
{
    static const mbr_status statuses[] = {MBR_OUT_OF_MEMORY, MBR_OUT_OF_ADDRESSES, MBR_BUSY,
        MBR_UNSUPPORTED, MBR_CONTRACT_BROKEN, MBR_SYSTEM, MBR_DEVICE_LOST, MBR_UNKNOWN_OBJECT,
        MBR_OVER_BUDGET, MBR_OUT_OF_MAPPINGS, MBR_RESIDUAL, MBR_TIMED_OUT, 1, -1, INT32_MIN,
        INT32_MAX};
    return statuses[fuzz_u8(&drawn.answers) % (sizeof statuses / sizeof *statuses)];
}

static uint64_t draw_figure(uint64_t honest)
{
    uint8_t kind = fuzz_u8(&drawn.answers);
    const uint64_t figures[] = {0, honest + 1, honest - 1, honest * 2, honest + GRANULE,
        honest - GRANULE, UINT64_C(1) << 47, INT64_MAX, UINT64_MAX, UINT64_MAX - 10};
    if (kind >= 240)
        return fuzz_u64(&drawn.answers);
    return figures[kind % (sizeof figures / sizeof *figures)];
}

static uint64_t draw_address(uint64_t honest)
{
    const uint64_t addresses[] = {0, world.last_address, honest + 1, honest - GRANULE, UINT64_MAX,
        UINT64_MAX - GRANULE + 1, world.last_address + GRANULE, UINT64_C(1) << 40};
    return addresses[fuzz_u8(&drawn.answers) % (sizeof addresses / sizeof *addresses)];
}

static void lie_a_figure(mbr_outcome *outcome)
{
    uint64_t *figures[] = {&outcome->newly_mapped_bytes, &outcome->newly_owned_bytes,
        &outcome->unmapped_bytes, &outcome->released_bytes, &outcome->residual_mapped_bytes,
        &outcome->residual_owned_bytes, &outcome->value};
    uint64_t *figure = figures[fuzz_u8(&drawn.answers) % (sizeof figures / sizeof *figures)];
    *figure = draw_figure(*figure);
}

static void fail(mbr_outcome *outcome, uint32_t state)
{
    uint64_t owned = outcome->newly_owned_bytes, mapped = outcome->newly_mapped_bytes;
    *outcome = (mbr_outcome){MBR_SIZED(mbr_outcome), .state = state};
    if (state == MBR_STATE_PARTIAL) {
        outcome->residual_owned_bytes = draw_figure(owned);
        outcome->residual_mapped_bytes = draw_figure(mapped);
    }
}

static void lie_in_error(mbr_error *error)
{
    if (error != NULL && fuzz_u8(&drawn.answers) % 2 == 1)
        memset(error->text, 'x', sizeof error->text); /* without an end */
}

/* `outcome` is the honest answer, and becomes what is said. */
static mbr_status draw_answer(mbr_outcome *outcome, mbr_error *error)
{
    uint8_t kind = fuzz_u8(&drawn.answers);
    mbr_lock_assert_none_held();
    if (kind == 0)
        return MBR_OK;
    drawn.lie_count++;
    switch (kind % 8) {
    case 1:
        fail(outcome, MBR_STATE_UNCHANGED);
        lie_in_error(error);
        return draw_failure();
    case 2:
        fail(outcome, MBR_STATE_PARTIAL);
        return draw_failure();
    case 3:
        fail(outcome, MBR_STATE_QUARANTINED);
        return draw_failure();
    case 4:
        outcome->state = kind / 8 % 6;
        return MBR_OK;
    case 5:
        return draw_failure(); /* and done */
    case 6:
        lie_a_figure(outcome);
        return MBR_OK;
    case 7:
        outcome->address = draw_address(outcome->address);
        outcome->content = fuzz_u8(&drawn.answers);
        return MBR_OK;
    default: /* anything */
        fuzz_take(&drawn.answers, &outcome->state, sizeof *outcome - sizeof outcome->struct_size);
        return kind / 8 % 2 == 0 ? MBR_OK : draw_failure();
    }
}

/* Whether the contract leaves nothing known of an object after such an answer. */
static bool is_illegal(mbr_status status, const mbr_outcome *outcome)
{
    return (status == MBR_OK) != (outcome->state == MBR_STATE_DONE) ||
        outcome->state > MBR_STATE_QUARANTINED;
}

static mbr_status tell(mbr_outcome *outcome, mbr_error *error, bool *is_unknown)
{
    mbr_status status = draw_answer(outcome, error);
    bool is_broken = is_illegal(status, outcome);
    drawn.illegal_count += is_broken;
    *is_unknown = is_broken || outcome->state == MBR_STATE_QUARANTINED;
    return status;
}

static uint64_t slot_of(uint64_t id)
{
    FUZZ_MUST(id > 0, "an id of 0");
    return id < ID_COUNT_MAX ? id : 0; /* past it nothing is remembered */
}

static void check_known(uint64_t id)
{
    FUZZ_MUST(!world.withheld[slot_of(id)], "object %llu is named again, whose state nobody knows",
        (unsigned long long)id);
}

static void withhold(uint64_t id, bool is_unknown)
{
    if (slot_of(id) != 0 && is_unknown)
        world.withheld[id] = true;
}

static uint64_t place(uint64_t bytes, uint64_t align)
{
    uint64_t at = align == 0 ? GRANULE : align;
    world.last_address = world.next_address;
    uint64_t address = (world.next_address + at - 1) / at * at;
    world.next_address = address + (bytes + GRANULE - 1) / GRANULE * GRANULE;
    return address;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static mbr_status reserve(mbr_instance *instance, const mbr_reserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->reservation_id);
    outcome->state = MBR_STATE_DONE;
    outcome->address = place(request->bytes, request->align_bytes);
    mbr_status status = tell(outcome, error, &is_unknown);
    withhold(request->reservation_id, is_unknown);
    return status;
}

static mbr_status unreserve(mbr_instance *instance, const mbr_unreserve_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->reservation_id);
    outcome->state = MBR_STATE_DONE;
    mbr_status status = tell(outcome, error, &is_unknown);
    withhold(request->reservation_id, is_unknown);
    return status;
}

static mbr_status extent_create(mbr_instance *instance, const mbr_extent_create_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->extent_id);
    outcome->state = MBR_STATE_DONE;
    outcome->newly_owned_bytes = request->bytes;
    outcome->content =
        (drawn.config & DRAWN_FRESH_ZERO) != 0 ? MBR_CONTENT_ZERO : MBR_CONTENT_UNDEFINED;
    mbr_status status = tell(outcome, error, &is_unknown);
    world.owned[slot_of(request->extent_id)] = request->bytes;
    withhold(request->extent_id, is_unknown);
    return status;
}

static mbr_status extent_destroy(mbr_instance *instance, const mbr_extent_destroy_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->extent_id);
    outcome->state = MBR_STATE_DONE;
    outcome->released_bytes = world.owned[slot_of(request->extent_id)];
    mbr_status status = tell(outcome, error, &is_unknown);
    withhold(request->extent_id, is_unknown);
    return status;
}

static mbr_status answer_map(uint64_t reservation_id, uint64_t offset, uint64_t extent_id,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    check_known(reservation_id);
    check_known(extent_id);
    outcome->state = MBR_STATE_DONE;
    outcome->newly_mapped_bytes = world.owned[slot_of(extent_id)];
    outcome->content = MBR_CONTENT_STALE;
    mbr_status status = tell(outcome, error, &is_unknown);
    withhold(extent_id, is_unknown);
    if (is_unknown && world.map_count < WITHHELD_MAP_COUNT_MAX)
        world.maps[world.map_count++] = (withheld_map){reservation_id, offset};
    return status;
}

static mbr_status map(
    mbr_instance *instance, const mbr_map_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    return answer_map(
        request->reservation_id, request->offset_bytes, request->extent_id, outcome, error);
}

static mbr_status map_shared(mbr_instance *instance, const mbr_map_shared_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    return answer_map(
        request->reservation_id, request->offset_bytes, request->extent_id, outcome, error);
}

static mbr_status protect(mbr_instance *instance, const mbr_protect_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->reservation_id);
    FUZZ_MUST(request->access_count == 1 && request->bytes % GRANULE == 0, "protect");
    outcome->state = MBR_STATE_DONE;
    return tell(outcome, error, &is_unknown);
}

static mbr_status unmap(mbr_instance *instance, const mbr_unmap_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->reservation_id);
    for (uint32_t i = 0; i < world.map_count; i++)
        FUZZ_MUST(world.maps[i].reservation_id != request->reservation_id ||
                world.maps[i].offset < request->offset_bytes ||
                world.maps[i].offset - request->offset_bytes >= request->bytes,
            "a mapping is unmapped whose state nobody knows");
    outcome->state = MBR_STATE_DONE;
    outcome->unmapped_bytes = request->bytes;
    mbr_status status = tell(outcome, error, &is_unknown);
    if (is_unknown && world.map_count < WITHHELD_MAP_COUNT_MAX)
        world.maps[world.map_count++] =
            (withheld_map){request->reservation_id, request->offset_bytes};
    return status;
}

static mbr_status allocate(mbr_instance *instance, const mbr_allocate_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->allocation_id);
    if (request->bytes > request->max_owned_bytes)
        return MBR_OVER_BUDGET;
    outcome->state = MBR_STATE_DONE;
    outcome->address = place(request->bytes, request->align_bytes);
    outcome->newly_owned_bytes = outcome->newly_mapped_bytes = request->bytes;
    world.owned[slot_of(request->allocation_id)] = request->bytes;
    mbr_status status = tell(outcome, error, &is_unknown);
    withhold(request->allocation_id, is_unknown);
    return status;
}

static mbr_status release(mbr_instance *instance, const mbr_release_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    bool is_unknown;
    (void)instance;
    check_known(request->allocation_id);
    outcome->state = MBR_STATE_DONE;
    outcome->released_bytes = world.owned[slot_of(request->allocation_id)];
    mbr_status status = tell(outcome, error, &is_unknown);
    withhold(request->allocation_id, is_unknown);
    return status;
}

static mbr_status stats(mbr_instance *instance, const mbr_stats_request *request,
    mbr_mechanism_stats *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)error;
    fuzz_take(&drawn.answers, &outcome->total_bytes, sizeof outcome->total_bytes);
    return MBR_OK;
}

static mbr_status report(mbr_instance *instance, const mbr_report_request *request,
    mbr_report *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)error;
    if (fuzz_u8(&drawn.answers) != 0)
        fuzz_take(&drawn.answers, &outcome->thread_count, 16);
    return MBR_OK;
}

static mbr_status end_instance(mbr_outcome *outcome)
{
    outcome->state = MBR_STATE_DONE;
    return MBR_OK;
}

static mbr_status quiesce(mbr_instance *instance, const mbr_quiesce_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)error;
    return end_instance(outcome);
}

static mbr_status close_mechanism(mbr_instance *instance, const mbr_close_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)error;
    return end_instance(outcome);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static mbr_status line_open(mbr_instance *instance, const mbr_line_open_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    outcome->state = MBR_STATE_DONE;
    return draw_answer(outcome, error);
}

static mbr_status line_signal(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    outcome->state = MBR_STATE_DONE;
    outcome->value = ++world.line_value;
    mbr_status status = draw_answer(outcome, error);
    if (status == MBR_OK && outcome->value < UINT32_MAX && outcome->value > world.line_value)
        world.line_value = outcome->value;
    return status;
}

static mbr_status line_reached(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    outcome->state = MBR_STATE_DONE;
    outcome->value = world.line_value;
    return draw_answer(outcome, error);
}

static mbr_status line_wait(mbr_instance *instance, const mbr_line_wait_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    outcome->state = MBR_STATE_DONE;
    return draw_answer(outcome, error);
}

static mbr_status stream_wait(mbr_instance *instance, const mbr_stream_wait_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    outcome->state = MBR_STATE_DONE;
    return draw_answer(outcome, error);
}

static mbr_status line_close(
    mbr_instance *instance, const mbr_line_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    outcome->state = MBR_STATE_DONE;
    return draw_answer(outcome, error);
}

static mbr_status fill(
    mbr_instance *instance, const mbr_fill_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    outcome->state = MBR_STATE_DONE;
    return draw_answer(outcome, error);
}

/* Nobody copies or creates streams here. */
static mbr_status stream_create(mbr_instance *instance, const mbr_stream_create_request *request,
    mbr_stream_create_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)outcome;
    (void)error;
    return MBR_UNSUPPORTED;
}

static mbr_status stream_destroy(mbr_instance *instance, const mbr_stream_destroy_request *request,
    mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)outcome;
    (void)error;
    return MBR_UNSUPPORTED;
}

static mbr_status copy(
    mbr_instance *instance, const mbr_copy_request *request, mbr_outcome *outcome, mbr_error *error)
{
    (void)instance;
    (void)request;
    (void)outcome;
    (void)error;
    return MBR_UNSUPPORTED;
}

const mbr_order_vtable drawn_order = {MBR_SIZED(mbr_order_vtable), .kind = MBR_KIND_ORDER,
    .line_open = line_open, .signal = line_signal, .reached = line_reached, .wait = line_wait,
    .stream_wait = stream_wait, .line_close = line_close};

const mbr_transfer_vtable drawn_transfer = {MBR_SIZED(mbr_transfer_vtable),
    .kind = MBR_KIND_TRANSFER, .stream_create = stream_create, .stream_destroy = stream_destroy,
    .fill = fill, .copy = copy};

/* ---- The world ------------------------------------------------------------------------------- */

static void make_mechanism(mbr_module *module, unsigned config)
{
    mbr_mechanism *made = &drawn.mechanism;
    *made = (mbr_mechanism){.module = module,
        .instance = DRAWN_INSTANCE,
        .plugin_instance = DRAWN_INSTANCE,
        .granule_min_bytes = GRANULE,
        .granule_recommended_bytes = GRANULE,
        .extent_max_bytes = UINT64_MAX,
        .reservation_max_bytes = UINT64_MAX,
        .allocation_align_bytes = 1,
        .allocation_round_bytes = 1,
        .aliasing = true,
        .read_only_enforced = true};
    strcpy(made->description.name, "drawn");
    made->description.tier = MBR_TIER_HOST;
    made->plugin = (mbr_plugin_vtable){
        .name = "drawn", .report = report, .quiesce = quiesce, .close = close_mechanism};
    made->allocator =
        (mbr_allocator_vtable){.allocate = allocate, .release = release, .stats = stats};
    made->virtual_ = (mbr_virtual_vtable){.reserve = reserve,
        .unreserve = unreserve,
        .extent_create = extent_create,
        .extent_destroy = extent_destroy,
        .map = map,
        .protect = protect,
        .unmap = unmap};
    made->shared = (mbr_shared_vtable){.map_shared = map_shared};
    made->has_virtual = made->has_shared = (config & DRAWN_EAGER) == 0;
    made->fresh_content =
        (config & DRAWN_FRESH_ZERO) != 0 ? MBR_CONTENT_ZERO : MBR_CONTENT_UNDEFINED;
    made->protect_may_fail_spuriously = (config & DRAWN_SPURIOUS) != 0;
    made->unmap_spans_mappings = (config & DRAWN_UNMAP_SINGLE) == 0;
    made->releasable_after_loss = (config & DRAWN_RELEASABLE) != 0;
    made->usable_after_protect = (config & DRAWN_USABLE_LATER) == 0;
}

void drawn_begin(mbr_module *module, unsigned config, fuzz_input answers)
{
    memset(&world, 0, sizeof world);
    memset(&drawn, 0, sizeof drawn);
    world.blocks.next = world.blocks.prev = &world.blocks;
    world.next_address = UINT64_C(1) << 40;
    drawn.config = config;
    make_mechanism(module, config);
    drawn.answers = answers;
}

void drawn_be_honest(void)
{
    drawn.answers.at = drawn.answers.bytes;
    drawn.heap_may_fail = false;
}

void drawn_end(void)
{
    while (world.blocks.next != &world.blocks)
        release_block(NULL, world.blocks.next + 1);
}
