/* Responsible for the two outputs of `membrane share`. Never computes. */
#include "tools/cli/share.h"

#include "tools/cli/args.h"

#include <jansson.h>
#include <string.h>

#define CELL_CHARS 32
#define COLUMNS_MAX (MBR_GEOMETRY_GROUPS_MAX + 1)

/* A row of the table: one cell a group, and one for the sum where there are several. */
typedef struct row {
    const char *label;
    uint32_t count;
    char cells[COLUMNS_MAX][CELL_CHARS];
} row;

static uint32_t column_count(const mbr_share_answer *answer)
{
    return answer->group_count == 1 ? 1 : answer->group_count + 1;
}

static void print_row(FILE *out, const row *line)
{
    fprintf(out, "%-24s", line->label);
    for (uint32_t i = 0; i < line->count; i++)
        fprintf(out, "%s%*s", i == 0 ? "" : "  ", 14, line->cells[i]);
    fprintf(out, "\n");
}

static void print_bytes(FILE *out, const mbr_share_answer *answer, const char *label,
    const uint64_t values[COLUMNS_MAX])
{
    row line = {.label = label, .count = column_count(answer)};
    for (uint32_t i = 0; i < line.count; i++)
        mbr_args_format_bytes(line.cells[i], CELL_CHARS, values[i]);
    print_row(out, &line);
}

static void print_counts(FILE *out, const mbr_share_answer *answer, const char *label,
    const uint64_t values[COLUMNS_MAX])
{
    row line = {.label = label, .count = column_count(answer)};
    for (uint32_t i = 0; i < line.count; i++)
        snprintf(line.cells[i], CELL_CHARS, "%lu", values[i]);
    print_row(out, &line);
}

static void print_heads(FILE *out, const mbr_share_answer *answer)
{
    row line = {.label = "", .count = column_count(answer)};
    for (uint32_t i = 0; i < answer->group_count; i++) {
        uint64_t window = answer->groups[i].extents.layout.group.window_tokens;
        if (window == 0)
            snprintf(line.cells[i], CELL_CHARS, "full");
        else
            snprintf(line.cells[i], CELL_CHARS, "window %lu", window);
    }
    if (answer->group_count > 1)
        snprintf(line.cells[answer->group_count], CELL_CHARS, "total");
    print_row(out, &line);
}

/* Figures that describe the layout. */
static void print_layout(FILE *out, const mbr_share_answer *answer)
{
    uint64_t layers[COLUMNS_MAX] = {0}, token[COLUMNS_MAX] = {0}, fragments[COLUMNS_MAX] = {0};
    uint64_t floor[COLUMNS_MAX] = {0};
    uint32_t sum = answer->group_count;
    for (uint32_t i = 0; i < answer->group_count; i++) {
        const mbr_layout *layout = &answer->groups[i].extents.layout;
        layers[sum] += layers[i] = layout->group.layers;
        token[sum] += token[i] = mbr_layer_group_token_bytes(&layout->group);
        fragments[sum] += fragments[i] = layout->fragments;
        floor[i] = answer->groups[i].floor_bytes;
    }
    floor[sum] = answer->floor_bytes;
    print_counts(out, answer, "layers", layers);
    print_bytes(out, answer, "a token", token);
    print_counts(out, answer, "fragments", fragments);
    print_bytes(out, answer, "one-token floor", floor);
}

static void print_extents(FILE *out, const mbr_share_answer *answer)
{
    row windows = {.label = "window", .count = answer->group_count};
    row sizes = {.label = "extents", .count = answer->group_count};
    for (uint32_t i = 0; i < answer->group_count; i++) {
        const mbr_extents *extents = &answer->groups[i].extents;
        char low[CELL_CHARS], high[CELL_CHARS];
        uint64_t last = mbr_extent_rule_size_at(&extents->rule, extents->reservation_bytes - 1);
        mbr_args_format_bytes(low, sizeof low, extents->rule.unit_bytes);
        mbr_args_format_bytes(high, sizeof high, last);
        bool grows = last != extents->rule.unit_bytes;
        snprintf(
            sizes.cells[i], CELL_CHARS, "%.12s%s%.12s", low, grows ? ".." : "", grows ? high : "");
        snprintf(windows.cells[i], CELL_CHARS, "%lu tokens", extents->layout.window_tokens);
    }
    if (answer->groups[0].extents.layout.kind == MBR_LAYOUT_WINDOW_MAJOR)
        print_row(out, &windows);
    print_row(out, &sizes);
}

static void print_sharing(FILE *out, const mbr_share_answer *answer)
{
    uint64_t prefix[COLUMNS_MAX] = {0}, shared[COLUMNS_MAX] = {0}, maps[COLUMNS_MAX] = {0};
    uint64_t boundary[COLUMNS_MAX] = {0};
    row verdict = {.label = "shareable", .count = answer->group_count};
    for (uint32_t i = 0; i <= answer->group_count; i++) {
        bool sum = i == answer->group_count;
        const mbr_sharing *sharing = sum ? &answer->total : &answer->groups[i].sharing;
        prefix[i] = sharing->prefix_bytes;
        shared[i] = sharing->shared_bytes;
        maps[i] = sharing->shared_extents;
        boundary[i] = sharing->boundary_bytes;
        if (!sum && answer->groups[i].refusal.failed == 0)
            snprintf(verdict.cells[i], CELL_CHARS, "yes");
        else if (!sum && answer->groups[i].refusal.prefix_tokens != 0)
            snprintf(
                verdict.cells[i], CELL_CHARS, "from %lu", answer->groups[i].refusal.prefix_tokens);
        else if (!sum)
            snprintf(verdict.cells[i], CELL_CHARS, "no");
    }
    print_bytes(out, answer, "prefix", prefix);
    print_bytes(out, answer, "shared", shared);
    print_counts(out, answer, "extents to map a sharer", maps);
    print_bytes(out, answer, "copied by each sharer", boundary);
    print_row(out, &verdict);
}

static void print_capacity(FILE *out, const char *label, uint64_t sequences)
{
    if (sequences == MBR_SHARING_UNBOUNDED)
        fprintf(out, "%-24s%14s\n", label, "unbounded");
    else
        fprintf(out, "%-24s%14lu\n", label, sequences);
}

void mbr_share_print_human(
    FILE *out, const mbr_share_options *options, const mbr_share_answer *answer)
{
    char granule[CELL_CHARS], bytes[CELL_CHARS];
    mbr_args_format_bytes(granule, sizeof granule, options->granule_bytes);
    fprintf(out, "%s, %s, granule %s, prefix %lu of %lu tokens", options->geometry.name,
        mbr_layout_name(options->layout), granule, options->prefix_tokens, options->max_tokens);
    if (options->tensor_parallel > 1)
        fprintf(out, ", one of %lu devices", options->tensor_parallel);
    fprintf(out, "\n\n");
    print_heads(out, answer);
    print_layout(out, answer);
    print_extents(out, answer);
    print_sharing(out, answer);
    if (options->sequences != 0) {
        fprintf(out, "\n%-24s%14lu\n", "sequences", options->sequences);
        fprintf(out, "%-24s%14s\n", "saved",
            mbr_args_format_bytes(bytes, sizeof bytes, answer->saving_bytes));
    }
    if (options->budget_bytes != 0) {
        fprintf(out, "\n%-24s%14s\n", "budget",
            mbr_args_format_bytes(bytes, sizeof bytes, options->budget_bytes));
        fprintf(out, "%-24s%14s\n", "private of a sequence",
            mbr_args_format_bytes(bytes, sizeof bytes, answer->private_bytes));
        print_capacity(out, "sequences unshared", answer->capacity.unshared);
        print_capacity(out, "sequences shared", answer->capacity.shared);
    }
}

/* JSON's integers end at 2^63 - 1; the few sums above it lose their last digits. */
static json_t *number(uint64_t value)
{
    return value <= MBR_ARGS_MAX ? json_integer((json_int_t)value) : json_real((double)value);
}

static json_t *capacity_number(uint64_t sequences)
{
    return sequences == MBR_SHARING_UNBOUNDED ? json_null() : number(sequences);
}

static json_t *sharing_object(const mbr_sharing *sharing, uint64_t floor, uint64_t private_bytes)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "prefix_bytes",
        number(sharing->prefix_bytes), "shared_bytes", number(sharing->shared_bytes),
        "shared_extents", number(sharing->shared_extents), "boundary_bytes",
        number(sharing->boundary_bytes), "floor_bytes", number(floor), "private_bytes",
        number(private_bytes));
}

/* Appends and takes over `value`; NULL, and nothing left, once anything failed. */
static json_t *appended(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) == 0)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *refusal_object(const mbr_sharing_refusal *refusal)
{
    if (refusal->failed == 0)
        return json_null();
    json_t *layouts = json_array();
    for (uint32_t kind = 0; kind < MBR_LAYOUT_COUNT; kind++)
        if ((refusal->layouts & 1U << kind) != 0)
            layouts = appended(layouts, json_string(mbr_layout_name((mbr_layout_kind)kind)));
    return json_pack("{s:s, s:o, s:o, s:o, s:s}", "condition", "extent", "prefix_tokens",
        number(refusal->prefix_tokens), "extent_bytes", number(refusal->extent_bytes), "layouts",
        layouts, "text", refusal->text);
}

static json_t *group_object(const mbr_share_group *group)
{
    const mbr_layout *layout = &group->extents.layout;
    const mbr_layer_group *layers = &layout->group;
    const mbr_extent_rule *rule = &group->extents.rule;
    json_t *object = sharing_object(&group->sharing, group->floor_bytes, group->private_bytes);
    json_t *geometry = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "layers",
        (json_int_t)layers->layers, "heads", (json_int_t)layers->heads, "dim",
        (json_int_t)layers->dim, "element_bytes", (json_int_t)layers->element_bytes, "planes",
        (json_int_t)layers->planes, "window_tokens", number(layers->window_tokens), "token_bytes",
        number(mbr_layer_group_token_bytes(layers)));
    json_t *place = json_pack("{s:o, s:o, s:o, s:o, s:o}", "fragments", number(layout->fragments),
        "row_bytes", number(layout->row_bytes), "layout_window_tokens",
        number(layout->window_tokens), "layout_window_bytes", number(layout->window_bytes),
        "reservation_bytes", number(group->extents.reservation_bytes));
    json_t *extents = json_pack("{s:{s:o, s:o, s:o}, s:b, s:o}", "extents", "unit_bytes",
        number(rule->unit_bytes), "max_bytes", number(rule->max_bytes), "divisor",
        number(rule->divisor), "shareable", group->refusal.failed == 0, "refusal",
        refusal_object(&group->refusal));
    if (json_object_update_missing(geometry, place) != 0 ||
        json_object_update_missing(geometry, extents) != 0 ||
        json_object_update_missing(geometry, object) != 0) {
        json_decref(geometry);
        geometry = NULL;
    }
    json_decref(place);
    json_decref(extents);
    json_decref(object);
    return geometry;
}

static json_t *answer_object(const mbr_share_options *options, const mbr_share_answer *answer)
{
    json_t *groups = json_array();
    for (uint32_t i = 0; i < answer->group_count; i++)
        groups = appended(groups, group_object(&answer->groups[i]));
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "model",
        options->geometry.name, "tensor_parallel", number(options->tensor_parallel), "layout",
        mbr_layout_name(options->layout), "granule_bytes", number(options->granule_bytes),
        "max_tokens", number(options->max_tokens), "prefix_tokens", number(options->prefix_tokens),
        "private_tokens", number(options->private_tokens), "shareable", answer->shareable, "groups",
        groups, "total",
        sharing_object(&answer->total, answer->floor_bytes, answer->private_bytes));
}

static int add_saving(
    json_t *root, const mbr_share_options *options, const mbr_share_answer *answer)
{
    return json_object_set_new(root, "saving",
        json_pack("{s:o, s:o}", "sequences", number(options->sequences), "bytes",
            number(answer->saving_bytes)));
}

static int add_capacity(
    json_t *root, const mbr_share_options *options, const mbr_share_answer *answer)
{
    return json_object_set_new(root, "capacity",
        json_pack("{s:o, s:o, s:o}", "budget_bytes", number(options->budget_bytes),
            "unshared_sequences", capacity_number(answer->capacity.unshared), "shared_sequences",
            capacity_number(answer->capacity.shared)));
}

bool mbr_share_print_json(
    FILE *out, const mbr_share_options *options, const mbr_share_answer *answer)
{
    json_t *root = answer_object(options, answer);
    bool good = root != NULL;
    if (good && options->sequences != 0)
        good = add_saving(root, options, answer) == 0;
    if (good && options->budget_bytes != 0)
        good = add_capacity(root, options, answer) == 0;
    if (good)
        good = json_dumpf(root, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;
    json_decref(root);
    return good;
}
