/* Responsible for a cache's structs, which only C can read, and for the client interface below it:
 * extents that are empty, parked or committed, in one step each, with a point on both sides. */
#include "tests/sched/kv_door.h"

#include "host/bind/adopt.h"
#include "host/bind/seams.h"
#include "host/holder/kv/internal.h"
#include "tests/sched/engine.h"

#define TOKEN_BYTES 1024
#define EXTENT_BYTES (SCHED_KV_EXTENT_TOKENS * TOKEN_BYTES)
#define MAX_TOKENS (SCHED_KV_EXTENT_COUNT * SCHED_KV_EXTENT_TOKENS)
#define LOOK_NS UINT64_C(5000000)
#define PACE_PER_S 2000 /* at first: all of them are soon due */

typedef enum place { PLACE_EMPTY, PLACE_PARKED, PLACE_COMMITTED } place;

static struct {
    mbr_kv kv;
    _Alignas(
        mbr_sequence) unsigned char sequence[sizeof(mbr_sequence) + sizeof(mbr_sequence_group)];
    place places[SCHED_KV_EXTENT_COUNT];
    uint64_t now_ns;
} world;

static mbr_sequence *sequence(void)
{
    return (mbr_sequence *)world.sequence;
}

/* ---- Below ----------------------------------------------------------------------------------- */

static uint64_t count(const mbr_range_grow_request *request, place what)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const mbr_piece *piece = &request->pieces[i];
        for (uint64_t k = 0; k < piece->bytes; k += EXTENT_BYTES)
            if (world.places[(piece->offset_bytes + k) / EXTENT_BYTES] == what)
                bytes += EXTENT_BYTES;
    }
    return bytes;
}

static void move(const mbr_range_grow_request *request, place from, place to)
{
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const mbr_piece *piece = &request->pieces[i];
        for (uint64_t k = 0; k < piece->bytes; k += EXTENT_BYTES) {
            place *at = &world.places[(piece->offset_bytes + k) / EXTENT_BYTES];
            *at = *at == from ? to : *at;
        }
    }
}

mbr_status mbr_range_grow(mbr_manager *manager, const mbr_range_grow_request *request,
    mbr_range_grow_result *result, mbr_error *error)
{
    (void)manager, (void)error;
    SCHED_CALLBACK_POINT();
    if ((request->flags & MBR_GROW_AHEAD) != 0) {
        move(request, PLACE_EMPTY, PLACE_PARKED);
    } else {
        result->parked_bytes = count(request, PLACE_PARKED);
        result->new_bytes = result->parked_bytes + count(request, PLACE_EMPTY);
        move(request, PLACE_EMPTY, PLACE_COMMITTED);
        move(request, PLACE_PARKED, PLACE_COMMITTED);
    }
    SCHED_CALLBACK_POINT();
    return MBR_OK;
}

bool mbr_range_adopt(mbr_manager *manager, const mbr_range_grow_request *request, uint64_t *bytes)
{
    (void)manager;
    SCHED_CALLBACK_POINT();
    *bytes = count(request, PLACE_PARKED);
    bool stands = count(request, PLACE_EMPTY) == 0;
    if (stands)
        move(request, PLACE_PARKED, PLACE_COMMITTED);
    SCHED_CALLBACK_POINT();
    return stands;
}

bool mbr_range_disown(mbr_manager *manager, const mbr_range_grow_request *request, uint64_t *bytes)
{
    (void)manager;
    SCHED_CALLBACK_POINT();
    *bytes = count(request, PLACE_COMMITTED);
    bool whole = count(request, PLACE_EMPTY) + count(request, PLACE_PARKED) == 0;
    if (whole)
        move(request, PLACE_COMMITTED, PLACE_PARKED);
    SCHED_CALLBACK_POINT();
    return whole;
}

/* No graph owns any. */
mbr_status mbr_range_next_run(mbr_manager *manager, mbr_range_handle range, uint64_t offset_bytes,
    mbr_range_run *run, mbr_error *error)
{
    (void)manager, (void)range, (void)offset_bytes, (void)run, (void)error;
    SCHED_CALLBACK_POINT();
    return MBR_OK;
}

/* There is no window. */
mbr_status mbr_range_decommit(mbr_manager *manager, const mbr_range_release_request *request,
    mbr_range_decommit_result *result, mbr_error *error)
{
    (void)manager, (void)request, (void)result, (void)error;
    sched_fail("nothing is given back here");
}

uint64_t mbr_kv_list_cut_locked(mbr_kv *kv, uint32_t group, mbr_kv_list *list, mbr_byte_range bytes)
{
    (void)kv, (void)group, (void)list, (void)bytes;
    sched_fail("nothing is shared here");
}

mbr_status mbr_sequence_regrow(
    mbr_sequence *grown, uint64_t tokens, mbr_refusal *refusal, mbr_error *error)
{
    (void)grown, (void)tokens, (void)refusal, (void)error;
    sched_fail("nothing is eager here");
}

uint32_t mbr_sequence_streams(mbr_sequence *of, const mbr_stream_handle *streams,
    uint32_t stream_count, mbr_stream_handle all[MBR_KV_STREAM_LIMIT_COUNT])
{
    (void)of, (void)streams, (void)stream_count, (void)all;
    return 0;
}

uint64_t mbr_sequence_tokens(const mbr_sequence *of)
{
    return atomic_load_explicit(&of->tokens, memory_order_relaxed);
}

mbr_status mbr_manager_read_binding(mbr_manager *manager, mbr_binding_handle binding,
    mbr_binding_figures *figures, mbr_error *error)
{
    (void)manager, (void)binding, (void)error;
    figures->ahead_bytes = 1;
    return MBR_OK;
}

mbr_status mbr_manager_begin_chore(
    mbr_manager *manager, mbr_binding_handle binding, mbr_chore *chore, mbr_error *error)
{
    (void)manager, (void)binding, (void)chore, (void)error;
    return MBR_OK;
}

mbr_status mbr_giver_join(mbr_manager *manager, mbr_holder_handle holder,
    const mbr_giver_calls *calls, void *self, mbr_giver *giver, mbr_error *error)
{
    (void)manager, (void)holder, (void)calls, (void)self, (void)giver, (void)error;
    return MBR_OK;
}

void mbr_giver_leave(mbr_giver *giver)
{
    (void)giver;
}

void mbr_chore_wake(mbr_chore *chore)
{
    (void)chore; /* its body looks again anyway */
}

bool mbr_chore_is_capturing(const mbr_chore *chore)
{
    (void)chore;
    return false;
}

bool mbr_manager_is_capturing(mbr_manager *manager, mbr_binding_handle binding)
{
    (void)manager, (void)binding;
    return false;
}

void mbr_chore_end(mbr_chore *chore)
{
    (void)chore;
}

/* ---- The cache ------------------------------------------------------------------------------- */

static void lay_out(mbr_extents *extents)
{
    mbr_layer_group layers = {.layers = 2, .heads = 2, .dim = 64, .element_bytes = 2, .planes = 2};
    mbr_layout_request request = {
        .kind = MBR_LAYOUT_TOKEN_MAJOR, .max_tokens = MAX_TOKENS, .granule_bytes = EXTENT_BYTES};
    mbr_layout layout;
    bool made = mbr_layout_init(&layout, &layers, &request, NULL) == MBR_GEOMETRY_OK &&
        mbr_extents_init(extents, &layout, EXTENT_BYTES, NULL) == MBR_GEOMETRY_OK &&
        mbr_layer_group_token_bytes(&layers) == TOKEN_BYTES;
    if (!made)
        sched_fail("a geometry that the scenario does not expect");
}

void sched_kv_begin(void)
{
    memset(&world, 0, sizeof(world));
    mbr_kv *kv = &world.kv;
    mbr_sequence *one = sequence();
    world.now_ns = LOOK_NS;
    kv->mode = MBR_KV_GROWING;
    kv->max_tokens = MAX_TOKENS;
    kv->group_count = 1;
    lay_out(&kv->groups[0].extents);
    mbr_lock_init(&kv->lock, MBR_RANK_CLIENT);
    mbr_condition_init(&kv->copied);
    if (mbr_kv_begin_ahead(kv, NULL) != MBR_OK)
        sched_fail("no chore");
    kv->sequences = one;
    kv->sequence_count = 1;
    mbr_kv_gauge gauge = {SCHED_KV_EXTENT_TOKENS, world.now_ns, PACE_PER_S, PACE_PER_S};
    one->kv = kv;
    one->groups[0].layout = kv->groups[0].extents.layout;
    one->pace = (mbr_kv_pace){SCHED_KV_EXTENT_TOKENS, world.now_ns, gauge, gauge};
    one->committed_bytes = EXTENT_BYTES;
    world.places[0] = PLACE_COMMITTED;
    mbr_sequence_publish(one, SCHED_KV_EXTENT_TOKENS);
}

void sched_kv_end(void)
{
    mbr_kv_end_ahead(&world.kv);
    mbr_condition_finish(&world.kv.copied);
    mbr_lock_finish(&world.kv.lock);
}

bool sched_kv_append(uint64_t tokens)
{
    return mbr_sequence_append(sequence(), tokens, NULL, NULL) == MBR_OK;
}

void sched_kv_look(void)
{
    world.now_ns += LOOK_NS;
    world.kv.ahead.run(&world.kv.ahead, world.now_ns);
}

void sched_kv_take_back(void)
{
    mbr_kv_could_give(&world.kv, UINT64_MAX);
    mbr_kv_give(&world.kv, UINT64_MAX);
}

uint64_t sched_kv_tokens(void)
{
    return SCHED_LOAD_NOW(&sequence()->tokens);
}

uint64_t sched_kv_committed_tokens(void)
{
    uint64_t i = 0;
    while (i < SCHED_KV_EXTENT_COUNT && world.places[i] == PLACE_COMMITTED)
        i++;
    return i * SCHED_KV_EXTENT_TOKENS;
}

uint64_t sched_kv_committed_bytes(void)
{
    uint64_t bytes = 0;
    for (int i = 0; i < SCHED_KV_EXTENT_COUNT; i++)
        bytes += world.places[i] == PLACE_COMMITTED ? EXTENT_BYTES : 0;
    return bytes;
}

uint64_t sched_kv_counted_bytes(void)
{
    return sequence()->committed_bytes;
}

uint64_t sched_kv_held_tokens(void)
{
    return mbr_max(sched_kv_tokens(), sequence()->adopted_tokens);
}
