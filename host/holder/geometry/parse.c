/* Responsible for reading a model's name or a geometry text. Never accepts what it does not fully
 * understand, and never reads past the terminating zero. */
#include "host/holder/geometry/model.h"

#include "abi/base/checked.h"
#include "host/holder/geometry/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A part of the text, not terminated. */
typedef struct slice {
    const char *begin;
    uint64_t length;
} slice;

enum { KEY_LAYERS, KEY_HEADS, KEY_DIM, KEY_BYTES, KEY_PLANES, KEY_WINDOW, KEY_COUNT };

static const struct {
    const char *name;
    uint64_t highest;
    bool required;
} keys[KEY_COUNT] = {
    [KEY_LAYERS] = {"layers", MBR_GEOMETRY_LAYERS_MAX, true},
    [KEY_HEADS] = {"heads", MBR_GEOMETRY_HEADS_MAX, true},
    [KEY_DIM] = {"dim", MBR_GEOMETRY_DIM_MAX, true},
    [KEY_BYTES] = {"bytes", MBR_GEOMETRY_ELEMENT_BYTES_MAX, true},
    [KEY_PLANES] = {"planes", MBR_GEOMETRY_PLANES_MAX, true},
    [KEY_WINDOW] = {"window", MBR_GEOMETRY_WINDOW_TOKENS_MAX, false},
};

static const char *const key_list = "layers, heads, dim, bytes, planes and window";

/* Cuts *rest at the first `separator` and returns what stood before it. *more says whether the
 * separator was there. */
static slice cut(slice *rest, char separator, bool *more)
{
    const char *found = memchr(rest->begin, separator, rest->length);
    slice head = *rest;
    *more = found != NULL;
    if (found != NULL)
        head.length = (uint64_t)(found - rest->begin);
    uint64_t used = head.length + (found != NULL ? 1 : 0);
    rest->begin += used;
    rest->length -= used;
    return head;
}

static const char *key_name_at(const void *context, uint64_t index)
{
    (void)context;
    return keys[index].name;
}

static const char *model_name_at(const void *context, uint64_t index)
{
    (void)context;
    return mbr_geometry_model(index)->name;
}

static uint64_t key_index(const char *name)
{
    uint64_t index = 0;
    while (index < KEY_COUNT && strcmp(keys[index].name, name) != 0)
        index++;
    return index;
}

static mbr_geometry_status refuse_key(mbr_geometry_error *error, const char *name, bool has_value)
{
    if (!has_value)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_UNKNOWN_KEY, name, "", 0,
            "geometry: '%s' is no pair of key and value; the keys are %s, as in layers=32", name,
            key_list);
    uint64_t nearest = mbr_nearest_name(name, KEY_COUNT, key_name_at, NULL);
    if (nearest == KEY_COUNT)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_UNKNOWN_KEY, name, "", 0,
            "geometry: unknown key '%s'; the keys are %s", name, key_list);
    return mbr_geometry_refuse(error, MBR_GEOMETRY_UNKNOWN_KEY, name, "", 0,
        "geometry: unknown key '%s'; did you mean '%s'? The keys are %s", name, keys[nearest].name,
        key_list);
}

static mbr_geometry_status refuse_range(
    mbr_geometry_error *error, uint64_t key, const char *text, uint64_t nearest)
{
    const char *advice = key == KEY_WINDOW ? " (leave window out for full attention)" : "";
    return mbr_geometry_refuse(error, MBR_GEOMETRY_OUT_OF_RANGE, keys[key].name, text, nearest,
        "geometry: %s=%s is out of range; 1 to %lu would work%s", keys[key].name, text,
        keys[key].highest, advice);
}

/* Digits only: no sign, no blank, no fraction. */
static mbr_geometry_status parse_number(
    uint64_t key, slice digits, uint64_t *out, mbr_geometry_error *error)
{
    char text[sizeof error->value];
    mbr_geometry_copy_printable(text, sizeof text, digits.begin, digits.length);
    uint64_t value = 0;
    bool fits = true;
    for (uint64_t i = 0; i < digits.length; i++) {
        char c = digits.begin[i];
        if (c < '0' || c > '9')
            digits.length = 0;
        else
            fits =
                fits && mbr_mul(value, 10, &value) && mbr_add(value, (uint64_t)(c - '0'), &value);
    }
    if (digits.length == 0)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_NOT_A_NUMBER, keys[key].name, text, 0,
            "geometry: %s='%s' is not a whole number; 1 to %lu would work", keys[key].name, text,
            keys[key].highest);
    if (!fits || value > keys[key].highest)
        return refuse_range(error, key, text, keys[key].highest);
    if (value == 0)
        return refuse_range(error, key, text, key == KEY_WINDOW ? 0 : 1);
    *out = value;
    return MBR_GEOMETRY_OK;
}

static mbr_geometry_status parse_pair(
    slice pair, uint64_t values[KEY_COUNT], mbr_geometry_error *error)
{
    bool has_value;
    char name[sizeof error->key];
    slice key_text = cut(&pair, '=', &has_value);
    mbr_geometry_copy_printable(name, sizeof name, key_text.begin, key_text.length);
    uint64_t key = key_index(name);
    if (!has_value || key == KEY_COUNT)
        return refuse_key(error, name, has_value);
    if (values[key] != 0)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_DOUBLED_KEY, name, "", 0,
            "geometry: '%s' stands twice in one group; a further group begins with '+'", name);
    return parse_number(key, pair, &values[key], error);
}

static mbr_geometry_status parse_group(
    slice text, mbr_layer_group *group, mbr_geometry_error *error)
{
    uint64_t values[KEY_COUNT] = {0};
    for (bool more = true; more;) {
        mbr_geometry_status status = parse_pair(cut(&text, ',', &more), values, error);
        if (status != MBR_GEOMETRY_OK)
            return status;
    }
    for (uint64_t key = 0; key < KEY_COUNT; key++)
        if (keys[key].required && values[key] == 0)
            return mbr_geometry_refuse(error, MBR_GEOMETRY_MISSING_KEY, keys[key].name, "", 0,
                "geometry: '%s' is missing; add %s=NUMBER (1 to %lu)", keys[key].name,
                keys[key].name, keys[key].highest);
    *group = (mbr_layer_group){
        .layers = (uint32_t)values[KEY_LAYERS],
        .heads = (uint32_t)values[KEY_HEADS],
        .dim = (uint32_t)values[KEY_DIM],
        .element_bytes = (uint32_t)values[KEY_BYTES],
        .planes = (uint32_t)values[KEY_PLANES],
        .window_tokens = values[KEY_WINDOW],
    };
    return MBR_GEOMETRY_OK;
}

static mbr_geometry_status parse_text(
    const char *text, mbr_geometry *geometry, mbr_geometry_error *error)
{
    slice rest = {text, strlen(text)};
    for (bool more = true; more;) {
        slice group = cut(&rest, '+', &more);
        if (geometry->group_count == MBR_GEOMETRY_GROUPS_MAX)
            return mbr_geometry_refuse(error, MBR_GEOMETRY_TOO_MANY_GROUPS, "groups", "",
                MBR_GEOMETRY_GROUPS_MAX, "geometry: more than %d groups; at most %d would work",
                MBR_GEOMETRY_GROUPS_MAX, MBR_GEOMETRY_GROUPS_MAX);
        mbr_geometry_status status =
            parse_group(group, &geometry->groups[geometry->group_count], error);
        if (status != MBR_GEOMETRY_OK)
            return status;
        geometry->group_count++;
    }
    snprintf(geometry->name, sizeof geometry->name, "custom");
    return MBR_GEOMETRY_OK;
}

/* Names the nearest model where one is near, and all of them otherwise. */
static mbr_geometry_status refuse_model(mbr_geometry_error *error, const char *text)
{
    char name[sizeof error->value];
    char known[sizeof error->text - 160] = "";
    mbr_geometry_copy_printable(name, sizeof name, text, strlen(text));
    uint64_t count = mbr_geometry_model_count();
    uint64_t nearest = mbr_nearest_name(text, count, model_name_at, NULL);
    if (nearest != count)
        return mbr_geometry_refuse(error, MBR_GEOMETRY_UNKNOWN_MODEL, "model", name, 0,
            "unknown model '%s'; did you mean '%s'? A geometry such as "
            "layers=32,heads=8,dim=128,bytes=2,planes=2 would work too",
            name, mbr_geometry_model(nearest)->name);
    for (uint64_t i = 0; i < count; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
            mbr_geometry_model(i)->name);
    }
    return mbr_geometry_refuse(error, MBR_GEOMETRY_UNKNOWN_MODEL, "model", name, 0,
        "unknown model '%s'; known are %s; or a geometry such as "
        "layers=32,heads=8,dim=128,bytes=2,planes=2",
        name, known);
}

mbr_geometry_status mbr_geometry_parse(
    const char *text, mbr_geometry *geometry, mbr_geometry_error *error)
{
    memset(geometry, 0, sizeof *geometry);
    mbr_geometry_error_clear(error);
    if (strchr(text, '=') != NULL) {
        mbr_geometry parsed = {0};
        mbr_geometry_status status = parse_text(text, &parsed, error);
        if (status == MBR_GEOMETRY_OK)
            *geometry = parsed;
        return status;
    }
    for (uint64_t i = 0; i < mbr_geometry_model_count(); i++)
        if (strcasecmp(mbr_geometry_model(i)->name, text) == 0) {
            *geometry = *mbr_geometry_model(i);
            return MBR_GEOMETRY_OK;
        }
    return refuse_model(error, text);
}
