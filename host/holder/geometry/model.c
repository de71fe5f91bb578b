/* Responsible for the table of known models and for dividing a geometry among devices.
 * Never guesses: a figure that is not in a model's public configuration is not here. */
#include "host/holder/geometry/model.h"

#include "abi/base/assert.h"
#include "abi/base/checked.h"

#include <stdio.h>
#include <string.h>

#define FULL(layers, heads, dim)                                                                   \
    {                                                                                              \
        (layers), (heads), (dim), 2, 2, 0                                                          \
    }
#define SLIDING(layers, heads, dim, window)                                                        \
    {                                                                                              \
        (layers), (heads), (dim), 2, 2, (window)                                                   \
    }

/* Source of every row: the config.json that the model's publisher distributes with the weights
 * (num_hidden_layers, num_key_value_heads, head_dim or hidden_size / num_attention_heads,
 * sliding_window), elements of 2 bytes (bfloat16). */
static const mbr_geometry models[] = {
    {"llama-3-8b", 1, {FULL(32, 8, 128)}},
    {"llama-3-70b", 1, {FULL(80, 8, 128)}},
    {"llama-3.1-405b", 1, {FULL(126, 8, 128)}},
    {"llama-3.2-1b", 1, {FULL(16, 8, 64)}},
    {"qwen2.5-0.5b", 1, {FULL(24, 2, 64)}},
    {"qwen2.5-7b", 1, {FULL(28, 4, 128)}},
    {"qwen2.5-14b", 1, {FULL(48, 8, 128)}},
    {"qwen3-8b", 1, {FULL(36, 8, 128)}},
    {"qwen3-235b-a22b", 1, {FULL(94, 4, 128)}},
    /* The first revision had a window of 4096 in every layer; from 0.2 on it is null. */
    {"mistral-7b", 1, {FULL(32, 8, 128)}},
    /* Five of six layers slide, the sixth is full: of 34 the layers 6, 12, 18, 24 and 30. */
    {"gemma-3-4b", 2, {SLIDING(29, 4, 256, 1024), FULL(5, 4, 256)}},
    {"phi-4", 1, {FULL(40, 10, 128)}},
    /* As the 128k revision, whose window is wider than its context. */
    {"phi-3-mini", 1, {FULL(32, 32, 96)}},
    /* Multi-head latent attention: kv_lora_rank 512 + qk_rope_head_dim 64, stored once. */
    {"deepseek-v3", 1, {{61, 1, 576, 2, 1, 0}}},
};

uint64_t mbr_geometry_model_count(void)
{
    return sizeof models / sizeof models[0];
}

const mbr_geometry *mbr_geometry_model(uint64_t index)
{
    MBR_ASSERT(index < mbr_geometry_model_count());
    return &models[index];
}

static bool within(uint64_t value, uint64_t highest)
{
    return value >= 1 && value <= highest;
}

bool mbr_layer_group_is_valid(const mbr_layer_group *group)
{
    return within(group->layers, MBR_GEOMETRY_LAYERS_MAX) &&
        within(group->heads, MBR_GEOMETRY_HEADS_MAX) && within(group->dim, MBR_GEOMETRY_DIM_MAX) &&
        within(group->element_bytes, MBR_GEOMETRY_ELEMENT_BYTES_MAX) &&
        within(group->planes, MBR_GEOMETRY_PLANES_MAX) &&
        group->window_tokens <= MBR_GEOMETRY_WINDOW_TOKENS_MAX;
}

/* The bounds of the fields keep these products far below 2^64; no check can fail. */
uint64_t mbr_layer_group_row_bytes(const mbr_layer_group *group)
{
    return (uint64_t)group->heads * group->dim * group->element_bytes;
}

uint64_t mbr_layer_group_token_bytes(const mbr_layer_group *group)
{
    return mbr_layer_group_row_bytes(group) * group->layers * group->planes;
}

uint64_t mbr_geometry_token_bytes(const mbr_geometry *geometry)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < geometry->group_count; i++)
        bytes += mbr_layer_group_token_bytes(&geometry->groups[i]);
    return bytes;
}

uint64_t mbr_layer_group_first_live(const mbr_layer_group *group, uint64_t tokens)
{
    bool slid = group->window_tokens != 0 && tokens > group->window_tokens;
    return slid ? tokens - group->window_tokens : 0;
}

/* The highest degree below `degree` that divides the heads; 1 always does. */
static uint64_t divisor_below(uint64_t heads, uint64_t degree)
{
    while (heads % degree != 0)
        degree--;
    return degree;
}

static mbr_geometry_status shard_group(
    mbr_layer_group *group, uint64_t degree, mbr_geometry_error *error)
{
    uint64_t heads = group->heads;
    if (degree < heads && heads % degree != 0) {
        char value[24];
        snprintf(value, sizeof value, "%lu", degree);
        uint64_t lower = divisor_below(heads, degree);
        return mbr_geometry_refuse(error, MBR_GEOMETRY_NOT_DIVISIBLE, "tp", value, lower,
            "tensor parallel degree %lu does not divide %lu heads; %lu does, and so does any "
            "degree from %lu on (one head each)",
            degree, heads, lower, heads);
    }
    group->heads = degree < heads ? (uint32_t)(heads / degree) : 1;
    return MBR_GEOMETRY_OK;
}

mbr_geometry_status mbr_geometry_shard(
    const mbr_geometry *whole, uint64_t degree, mbr_geometry *part, mbr_geometry_error *error)
{
    mbr_geometry result = *whole;
    memset(part, 0, sizeof *part);
    mbr_geometry_error_clear(error);
    if (!within(degree, MBR_GEOMETRY_TENSOR_PARALLEL_MAX)) {
        char value[24];
        snprintf(value, sizeof value, "%lu", degree);
        uint64_t nearest = degree == 0 ? 1 : MBR_GEOMETRY_TENSOR_PARALLEL_MAX;
        return mbr_geometry_refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, "tp", value, nearest,
            "tensor parallel degree %lu is out of range; 1 to %d would work", degree,
            MBR_GEOMETRY_TENSOR_PARALLEL_MAX);
    }
    for (uint32_t i = 0; i < result.group_count; i++) {
        mbr_geometry_status status = shard_group(&result.groups[i], degree, error);
        if (status != MBR_GEOMETRY_OK)
            return status;
    }
    *part = result;
    return MBR_GEOMETRY_OK;
}
