/* Scenarios of KV caches: sequences that grow, share, outlive each other; and the eager ways. */
#include "tests/faults/world.h"

#define GEOMETRY "layers=2,heads=1,dim=64,bytes=2,planes=2"
#define TWO_GROUPS "layers=2,heads=1,dim=64,bytes=2,planes=2,window=48+" GEOMETRY

static mbr_kv *make_kv_of(
    struct world *world, const char *geometry, const char *layout, uint32_t mode, uint32_t flags)
{
    mbr_kv_request request = {MBR_SIZED(mbr_kv_request), .mode = mode, .binding = world->binding,
        .holder = world->holder, .prefix_holder = world->prefix_holder, .geometry = geometry,
        .layout = layout, .max_tokens = 400, .extent_bytes = mode == MBR_KV_GROWING ? 2 * PAGE : 0,
        .flags = flags};
    mbr_kv *kv;
    STEP(world, mbr_kv_create(world->manager, &request, &kv, &world->error));
    return kv;
}

static mbr_kv *make_kv(struct world *world, const char *geometry, const char *layout, uint32_t mode)
{
    return make_kv_of(world, geometry, layout, mode, 0);
}

static mbr_sequence *make_sequence(struct world *world, mbr_kv *kv, uint64_t tokens,
    const mbr_kv_prefix *prefix, uint64_t prefix_tokens)
{
    mbr_sequence_request request = {MBR_SIZED(mbr_sequence_request), .stream = world->streams[0],
        .tokens = tokens, .prefix = prefix, .prefix_tokens = prefix_tokens};
    mbr_sequence *sequence;
    step_begin(world, "mbr_sequence_create");
    while (step_again(world, mbr_sequence_create(kv, &request, &sequence, &world->error)))
        if (world->step.status == MBR_BUSY) /* nobody shares the prefix any more */
            request.prefix = NULL, request.prefix_tokens = 0;
    return sequence;
}

static void end_sequence(struct world *world, mbr_sequence *sequence)
{
    STEP(world, mbr_sequence_destroy(sequence, NULL, 0, &world->error));
    world_drain(world);
}

/* After a residual another sequence of that length takes its place. */
static mbr_sequence *append(
    struct world *world, mbr_kv *kv, mbr_sequence *sequence, uint64_t tokens)
{
    mbr_sequence_figures figures = {MBR_SIZED(mbr_sequence_figures)};
    STEP(world, mbr_sequence_read(sequence, &figures, &world->error));
    step_begin(world, "mbr_sequence_append");
    world->step.may_give = world->step.may_owe = true;
    while (step_again(world, mbr_sequence_append(sequence, tokens, NULL, &world->error)) &&
        !world->step.was_residual)
        ;
    if (!world->step.was_residual)
        return sequence;
    end_sequence(world, sequence);
    return make_sequence(world, kv, figures.tokens + tokens, NULL, 0);
}

static void end_kv(struct world *world, mbr_kv *kv)
{
    STEP(world, mbr_kv_destroy(kv, &world->error));
}

static void sequence_life(struct world *world)
{
    mbr_kv *kv = make_kv(world, GEOMETRY, NULL, MBR_KV_GROWING);
    end_sequence(world, make_sequence(world, kv, 60, NULL, 0));
    mbr_sequence *again = make_sequence(world, kv, 90, NULL, 0);
    end_sequence(world, again);
    end_kv(world, kv);
}

static void appends(struct world *world)
{
    mbr_kv *kv = make_kv(world, TWO_GROUPS, NULL, MBR_KV_GROWING);
    mbr_sequence *sequence = make_sequence(world, kv, 20, NULL, 0);
    for (uint32_t i = 0; i < 3; i++)
        sequence = append(world, kv, sequence, 40);
    end_sequence(world, sequence);
    end_kv(world, kv);
}

static mbr_kv_prefix *share(struct world *world, mbr_sequence *sequence, uint64_t tokens)
{
    mbr_kv_prefix *prefix;
    STEP(world, mbr_kv_prefix_create(sequence, tokens, &prefix, &world->error));
    return prefix;
}

static void share_in(struct world *world, mbr_kv *kv)
{
    mbr_sequence *source = make_sequence(world, kv, 160, NULL, 0);
    mbr_kv_prefix *prefix = share(world, source, 160);
    mbr_sequence *sharer = make_sequence(world, kv, 200, prefix, 160);
    sharer = append(world, kv, sharer, 60);
    end_sequence(world, source);
    STEP(world, mbr_kv_prefix_destroy(prefix, &world->error));
    end_sequence(world, sharer);
    end_kv(world, kv);
}

static void shared(struct world *world)
{
    share_in(world, make_kv(world, GEOMETRY, "seq-major", MBR_KV_GROWING));
}

static void shared_protected(struct world *world)
{
    share_in(
        world, make_kv_of(world, GEOMETRY, "seq-major", MBR_KV_GROWING, MBR_KV_PROTECT_PREFIXES));
}

static void forked(struct world *world)
{
    mbr_kv *kv = make_kv(world, GEOMETRY, "token-major", MBR_KV_GROWING);
    mbr_sequence *source = make_sequence(world, kv, 100, NULL, 0);
    mbr_kv_prefix *prefix = share(world, source, 100);
    mbr_sequence *children[2];
    for (uint32_t i = 0; i < 2; i++)
        children[i] = make_sequence(world, kv, 110, prefix, 100);
    mbr_kv_prefix *longer = share(world, children[0], 100);
    STEP(world, mbr_kv_prefix_destroy(prefix, &world->error));
    mbr_sequence *third = make_sequence(world, kv, 120, longer, 100);
    for (uint32_t i = 0; i < 2; i++)
        end_sequence(world, children[i]);
    end_sequence(world, third);
    STEP(world, mbr_kv_prefix_destroy(longer, &world->error));
    end_sequence(world, source);
    end_kv(world, kv);
}

/* Layers with a window give back what is behind it, and have it again in the next sequence. */
static void slides(struct world *world)
{
    mbr_kv *kv = make_kv(world, TWO_GROUPS, "token-major", MBR_KV_GROWING);
    for (uint32_t life = 0; life < 2; life++) {
        mbr_sequence *sequence = make_sequence(world, kv, 40, NULL, 0);
        for (uint32_t i = 0; i < 4; i++) {
            sequence = append(world, kv, sequence, 50);
            world_drain(world);
        }
        sequence = append(world, kv, sequence, 0);
        end_sequence(world, sequence);
    }
    end_kv(world, kv);
}

/* A prefix that ends inside an extent: the rest is copied on the sharer's stream. */
static void boundary(struct world *world)
{
    mbr_kv *kv = make_kv(world, GEOMETRY, "head-major", MBR_KV_GROWING);
    mbr_sequence *source = make_sequence(world, kv, 150, NULL, 0);
    mbr_kv_prefix *prefix = share(world, source, 140);
    mbr_sequence *sharer = make_sequence(world, kv, 170, prefix, 140);
    mbr_sequence *shorter = make_sequence(world, kv, 100, prefix, 90);
    mbr_kv_figures figures = {MBR_SIZED(mbr_kv_figures)};
    STEP(world, mbr_kv_read(kv, &figures, &world->error));
    end_sequence(world, shorter);
    end_sequence(world, sharer);
    STEP(world, mbr_kv_prefix_destroy(prefix, &world->error));
    end_sequence(world, source);
    end_kv(world, kv);
}

/* Admitted first, then grown with what it was let in for. */
static void admitted(struct world *world)
{
    mbr_kv *kv = make_kv(world, GEOMETRY, NULL, MBR_KV_GROWING);
    uint64_t bytes, member;
    STEP(world, mbr_kv_need_bytes(kv, 200, &bytes, &world->error));
    mbr_admission_handle admission;
    STEP(world,
        mbr_manager_create_admission(world->manager, world->holder, &admission, &world->error));
    STEP(world, mbr_manager_admit(world->manager, admission, bytes, &member, NULL, &world->error));
    mbr_sequence *sequence = make_sequence(world, kv, 100, NULL, 0);
    sequence = append(world, kv, sequence, 100);
    end_sequence(world, sequence);
    STEP(world, mbr_manager_dismiss(world->manager, admission, member, &world->error));
    STEP(world, mbr_manager_destroy_admission(world->manager, admission, &world->error));
    end_kv(world, kv);
}

static void eager(struct world *world, uint32_t mode)
{
    mbr_kv *kv = make_kv(world, GEOMETRY, "token-major", mode);
    mbr_sequence *sequence = make_sequence(world, kv, 50, NULL, 0);
    sequence = append(world, kv, sequence, 100);
    sequence = append(world, kv, sequence, 100);
    end_sequence(world, sequence);
    end_kv(world, kv);
}

static void eager_whole(struct world *world)
{
    eager(world, MBR_KV_EAGER_WHOLE);
}

static void eager_copy(struct world *world)
{
    eager(world, MBR_KV_EAGER_COPY);
}

const struct scenario kv_scenarios[] = {
    {.name = "kv_sequence_life", .run = sequence_life},
    {.name = "kv_appends", .run = appends},
    {.name = "kv_appends_nothing_kept", .run = appends, .setup = {.keep_bytes = 1}},
    {.name = "kv_shared", .run = shared},
    {.name = "kv_shared_populated", .run = shared, .setup = {.populates = true}},
    {.name = "kv_shared_nothing_kept", .run = shared, .setup = {.keep_bytes = 1}},
    {.name = "kv_shared_protected", .run = shared_protected},
    {.name = "kv_forked", .run = forked},
    {.name = "kv_forked_nothing_kept", .run = forked, .setup = {.keep_bytes = 1}},
    {.name = "kv_slides", .run = slides},
    {.name = "kv_boundary", .run = boundary},
    {.name = "kv_admitted", .run = admitted},
    {.name = "kv_eager_whole", .run = eager_whole, .setup = {.is_plain = true}},
    {.name = "kv_eager_copy", .run = eager_copy, .setup = {.is_plain = true}},
    {0},
};
