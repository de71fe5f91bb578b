/* Responsible for the options of `membrane share` and for asking the arithmetic. Never computes a
 * figure that the holder's geometry does not. */
#include "tools/cli/share.h"

#include "abi/base/checked.h"
#include "tools/cli/args.h"

#include <stdio.h>
#include <string.h>

#define NAME "membrane share"
#define TOKENS_MAX (UINT64_C(1) << 40)
#define SEQUENCES_MAX (UINT64_C(1) << 32)
/* Room of the reservation unless more is asked for. A power of two keeps fragments on granules. */
#define ROOM_TOKENS_DEFAULT (UINT64_C(1) << 17)

enum {
    KEY_MODEL = 0x100,
    KEY_LAYOUT,
    KEY_GRANULE,
    KEY_EXTENT,
    KEY_WINDOW,
    KEY_MAX_TOKENS,
    KEY_PREFIX,
    KEY_SEQUENCES,
    KEY_BUDGET,
    KEY_PRIVATE,
    KEY_TP,
    KEY_FORMAT,
};

static const struct argp_option option_table[] = {
    {"model", KEY_MODEL, "MODEL|GEOMETRY", 0,
        "A known model, or layers=N,heads=N,dim=N,bytes=N,planes=N[,window=N][+next group]", 0},
    {"prefix", KEY_PREFIX, "TOKENS", 0, "Length of the common prefix", 0},
    {"layout", KEY_LAYOUT, "LAYOUT", 0,
        "head-major, seq-major, token-major or window-major (default)", 0},
    {"granule", KEY_GRANULE, "BYTES", 0, "The mechanism's granule (default 2MiB)", 0},
    {"extent", KEY_EXTENT, "BYTES", 0,
        "Fixed extents (default: growing in window-major, 2MiB elsewhere)", 0},
    {"window", KEY_WINDOW, "TOKENS", 0,
        "W of window-major (default: the smallest from 16 on that wastes at most 1 %)", 0},
    {"max-tokens", KEY_MAX_TOKENS, "TOKENS", 0,
        "Room of the reservation (default 131072, or the next power of two)", 0},
    {"sequences", KEY_SEQUENCES, "COUNT", 0, "Sequences that share: prints what they save", 0},
    {"budget", KEY_BUDGET, "BYTES", 0, "Pool: prints how many sequences fit with and without", 0},
    {"private", KEY_PRIVATE, "TOKENS", 0, "Tokens of each sequence behind the prefix (default 0)",
        0},
    {"tp", KEY_TP, "COUNT", 0, "Tensor parallel degree; figures are of one device (default 1)", 0},
    {"format", KEY_FORMAT, "human|json", 0, "Output (default human)", 0},
    {0},
};

static error_t parse_model(struct argp_state *state, mbr_share_options *options, const char *text)
{
    mbr_geometry_error error;
    if (mbr_geometry_parse(text, &options->geometry, &error) != MBR_GEOMETRY_OK)
        return mbr_args_bad(state, "--model: %s", error.text);
    return 0;
}

static error_t parse_layout(struct argp_state *state, mbr_share_options *options, const char *text)
{
    mbr_geometry_error error;
    if (mbr_layout_parse(text, &options->layout, &error) != MBR_GEOMETRY_OK)
        return mbr_args_bad(state, "--layout: %s", error.text);
    return 0;
}

static error_t parse_format(struct argp_state *state, mbr_share_options *options, const char *text)
{
    static const char *const formats[] = {"human", "json"};
    uint64_t index;
    error_t error = mbr_args_choice_option(state, "--format", text, formats, 2, &index);
    options->json = index == 1;
    return error;
}

/* What can only be judged when all options are known. */
static error_t finish(struct argp_state *state, mbr_share_options *options)
{
    mbr_geometry_error error;
    if (options->geometry.group_count == 0)
        return mbr_args_bad(state, "--model is missing; --model=llama-3-8b would work");
    if (options->prefix_tokens == 0)
        return mbr_args_bad(state, "--prefix is missing; --prefix=4096 would work");
    if (options->budget_bytes != 0 && options->budget_bytes < options->granule_bytes)
        return mbr_args_bad(state,
            "--budget: '%lu' is below one granule of %lu bytes; at least that would work",
            options->budget_bytes, options->granule_bytes);
    if (options->window_tokens != 0 && options->layout != MBR_LAYOUT_WINDOW_MAJOR)
        return mbr_args_bad(
            state, "--window: this layout has none; --layout=window-major would work");
    if (options->private_tokens != 0 && options->budget_bytes == 0)
        return mbr_args_bad(state,
            "--private says how many sequences fit a budget; --budget=80GiB "
            "beside it would work");
    uint64_t needed = options->prefix_tokens + options->private_tokens;
    if (options->max_tokens == 0)
        for (options->max_tokens = ROOM_TOKENS_DEFAULT; options->max_tokens < needed;)
            options->max_tokens *= 2;
    if (options->max_tokens < needed)
        return mbr_args_bad(state,
            "--max-tokens: '%lu' is below the prefix and the private tokens; at least %lu would "
            "work",
            options->max_tokens, needed);
    if (mbr_geometry_shard(&options->geometry, options->tensor_parallel, &options->geometry,
            &error) != MBR_GEOMETRY_OK)
        return mbr_args_bad(state, "--tp: %s", error.text);
    return 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    mbr_share_options *o = state->input;
    switch (key) {
    case KEY_MODEL:
        return parse_model(state, o, text);
    case KEY_LAYOUT:
        return parse_layout(state, o, text);
    case KEY_FORMAT:
        return parse_format(state, o, text);
    case KEY_GRANULE:
        return mbr_args_size_option(state, "--granule", text, 1, &o->granule_bytes);
    case KEY_EXTENT:
        return mbr_args_size_option(state, "--extent", text, 1, &o->extent_bytes);
    case KEY_BUDGET:
        return mbr_args_size_option(state, "--budget", text, 1, &o->budget_bytes);
    case KEY_WINDOW:
        return mbr_args_count_option(state, "--window", text, 1, TOKENS_MAX, &o->window_tokens);
    case KEY_MAX_TOKENS:
        return mbr_args_count_option(state, "--max-tokens", text, 1, TOKENS_MAX, &o->max_tokens);
    case KEY_PREFIX:
        return mbr_args_count_option(state, "--prefix", text, 1, TOKENS_MAX, &o->prefix_tokens);
    case KEY_PRIVATE:
        return mbr_args_count_option(state, "--private", text, 0, TOKENS_MAX, &o->private_tokens);
    case KEY_SEQUENCES:
        return mbr_args_count_option(state, "--sequences", text, 1, SEQUENCES_MAX, &o->sequences);
    case KEY_TP:
        return mbr_args_count_option(
            state, "--tp", text, 1, MBR_GEOMETRY_TENSOR_PARALLEL_MAX, &o->tensor_parallel);
    case ARGP_KEY_ARG:
        return mbr_args_bad(state, "unexpected argument '%s'; options alone would work", text);
    case ARGP_KEY_END:
        return finish(state, o);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static mbr_geometry_status compute_group(const mbr_share_options *options,
    const mbr_layer_group *group, mbr_share_group *answer, mbr_geometry_error *error)
{
    const mbr_layout_request request = {
        .kind = options->layout,
        .max_tokens = options->max_tokens,
        .granule_bytes = options->granule_bytes,
        .window_tokens = options->window_tokens,
    };
    mbr_layout layout;
    mbr_geometry_status status = mbr_layout_init(&layout, group, &request, error);
    if (status == MBR_GEOMETRY_OK)
        status = mbr_extents_init(&answer->extents, &layout, options->extent_bytes, error);
    if (status == MBR_GEOMETRY_OK)
        status =
            mbr_sharing_compute(&answer->extents, options->prefix_tokens, &answer->sharing, error);
    if (status != MBR_GEOMETRY_OK)
        return status;
    mbr_sharing_check(&answer->extents, options->prefix_tokens, true, true, &answer->refusal);
    answer->floor_bytes = mbr_commit_floor_bytes(&answer->extents);
    answer->private_bytes = mbr_sharing_private_bytes(
        &answer->extents, options->prefix_tokens, options->prefix_tokens + options->private_tokens);
    return MBR_GEOMETRY_OK;
}

/* Groups are at most 8 and each at most 2^62 bytes: the sum of two may pass 2^64, so it is checked.
 */
static bool add_group(mbr_share_answer *answer, const mbr_share_group *group)
{
    mbr_sharing *total = &answer->total;
    const mbr_sharing *part = &group->sharing;
    total->shared_extents += part->shared_extents;
    answer->shareable = answer->shareable || group->refusal.failed == 0;
    return mbr_add(total->prefix_bytes, part->prefix_bytes, &total->prefix_bytes) &&
        mbr_add(total->shared_bytes, part->shared_bytes, &total->shared_bytes) &&
        mbr_add(total->boundary_bytes, part->boundary_bytes, &total->boundary_bytes) &&
        mbr_add(answer->floor_bytes, group->floor_bytes, &answer->floor_bytes) &&
        mbr_add(answer->private_bytes, group->private_bytes, &answer->private_bytes);
}

static mbr_geometry_status compute(
    const mbr_share_options *options, mbr_share_answer *answer, mbr_geometry_error *error)
{
    answer->group_count = options->geometry.group_count;
    for (uint32_t i = 0; i < answer->group_count; i++) {
        mbr_share_group *group = &answer->groups[i];
        mbr_geometry_status status =
            compute_group(options, &options->geometry.groups[i], group, error);
        if (status != MBR_GEOMETRY_OK)
            return status;
        if (!add_group(answer, group))
            return mbr_geometry_refuse(error, MBR_GEOMETRY_OVERFLOW, "model", "", 0,
                "the groups together have more than 2^64 - 1 bytes; a shorter prefix would work");
    }
    answer->capacity = mbr_sharing_pool_capacity(
        options->budget_bytes, answer->total.shared_bytes, answer->private_bytes);
    if (options->sequences == 0)
        return MBR_GEOMETRY_OK;
    return mbr_sharing_saving(
        answer->total.shared_bytes, options->sequences, &answer->saving_bytes, error);
}

mbr_geometry_status mbr_share_compute(
    const mbr_share_options *options, mbr_share_answer *answer, mbr_geometry_error *error)
{
    memset(answer, 0, sizeof *answer);
    mbr_geometry_error_clear(error);
    mbr_geometry_status status = compute(options, answer, error);
    if (status != MBR_GEOMETRY_OK)
        memset(answer, 0, sizeof *answer);
    return status;
}

const mbr_share_group *mbr_share_nearest_refusal(const mbr_share_answer *answer)
{
    const mbr_share_group *nearest = &answer->groups[0];
    for (uint32_t i = 1; i < answer->group_count; i++) {
        uint64_t tokens = answer->groups[i].refusal.prefix_tokens;
        if (tokens != 0 &&
            (nearest->refusal.prefix_tokens == 0 || tokens < nearest->refusal.prefix_tokens))
            nearest = &answer->groups[i];
    }
    return nearest;
}

int mbr_cli_share(int argc, char **argv)
{
    const struct argp argp = {option_table, parse, NULL,
        "What sharing a prefix by whole extents saves and costs.\vExit code 1: this layout cannot "
        "share this prefix; the message says what would work.",
        NULL, NULL, NULL};
    mbr_share_options options = {
        .layout = MBR_LAYOUT_WINDOW_MAJOR,
        .granule_bytes = UINT64_C(2) << 20,
        .tensor_parallel = 1,
    };
    int exit_code;
    if (!mbr_args_run(NAME, &argp, argc, argv, &options, &exit_code))
        return exit_code;
    mbr_share_answer answer;
    mbr_geometry_error error;
    if (mbr_share_compute(&options, &answer, &error) != MBR_GEOMETRY_OK)
        return mbr_args_fail(NAME, "--%s: %s", error.key, error.text);
    if (!options.json)
        mbr_share_print_human(stdout, &options, &answer);
    else if (!mbr_share_print_json(stdout, &options, &answer))
        return mbr_args_refuse(NAME, "the output cannot be written");
    if (!answer.shareable)
        return mbr_args_refuse(NAME, "%s", mbr_share_nearest_refusal(&answer)->refusal.text);
    return MBR_EXIT_OK;
}
