/* The value of --tenant: NAME=TRACE[,model=MODEL][,share=PERCENT]. A model may be a geometry, which
 * has commas and equal signs of its own: after `model=` every other key is the geometry's. */
#include "tools/cli/args.h"
#include "tools/cli/replay/tenants.h"

#include <ctype.h>
#include <string.h>

#define NAME_LIMIT_BYTES 32
#define KEY_COUNT 2

static const char *const keys[KEY_COUNT] = {"model", "share"};

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '-')
        length++;
    return length;
}

/* Index of the key that begins here; KEY_COUNT: another one, or none. */
static uint64_t key_at(const char *text, size_t length)
{
    uint64_t index = 0;
    while (index < KEY_COUNT &&
        (strlen(keys[index]) != length || strncmp(text, keys[index], length) != 0))
        index++;
    return index;
}

/* The next ",key=" behind `text`, which ends there; NULL: none. */
static error_t cut(const struct argp_state *state, char *text, bool is_model, char **next)
{
    *next = NULL;
    for (char *at = strchr(text, ','); at != NULL; at = strchr(at + 1, ',')) {
        size_t length = word_length(at + 1);
        if (length == 0 || at[1 + length] != '=')
            continue;
        if (key_at(at + 1, length) < KEY_COUNT) {
            *at = '\0';
            *next = at + 1;
            return 0;
        }
        if (!is_model)
            return mbr_args_bad(state, "--tenant: unknown key '%.*s'; model and share would work",
                (int)length, at + 1);
    }
    return 0;
}

static error_t parse_share(
    const struct argp_state *state, char *text, mbr_replay_tenant_options *tenant)
{
    size_t length = strlen(text);
    if (length != 0 && text[length - 1] == '%')
        text[length - 1] = '\0';
    return mbr_args_count_option(state, "--tenant: share", text, 1, 100, &tenant->share_percent);
}

static error_t parse_field(
    const struct argp_state *state, char *field, mbr_replay_tenant_options *tenant, char **next)
{
    char *value = strchr(field, '=') + 1;
    bool is_model = key_at(field, (size_t)(value - 1 - field)) == 0;
    error_t error = cut(state, value, is_model, next);
    if (error != 0)
        return error;
    if (!is_model)
        return parse_share(state, value, tenant);
    tenant->model = value;
    return 0;
}

static error_t take_name(
    const struct argp_state *state, char *text, const mbr_replay_options *options, char **behind)
{
    size_t length = word_length(text);
    if (length == 0 || length > NAME_LIMIT_BYTES || text[length] != '=' || text[length + 1] == '\0')
        return mbr_args_bad(state,
            "--tenant: '%s' has no name and trace; NAME=TRACE[,model=MODEL][,share=PERCENT] would "
            "work, with a name of 1 to %d letters, digits, '-' or '_'",
            text, NAME_LIMIT_BYTES);
    text[length] = '\0';
    *behind = text + length + 1;
    for (uint32_t i = 0; i < options->tenant_count; i++) {
        if (strcmp(options->tenants[i].name, text) == 0)
            return mbr_args_bad(
                state, "--tenant: two tenants have the name '%s'; another would work", text);
    }
    return 0;
}

error_t mbr_replay_parse_tenant(
    const struct argp_state *state, char *text, mbr_replay_options *options)
{
    if (options->tenant_count == MBR_REPLAY_TENANT_LIMIT_COUNT)
        return mbr_args_bad(
            state, "--tenant: '%s' is one more than %d", text, MBR_REPLAY_TENANT_LIMIT_COUNT);
    mbr_replay_tenant_options *tenant = &options->tenants[options->tenant_count];
    char *trace = NULL, *field = NULL;
    error_t error = take_name(state, text, options, &trace);
    if (error == 0)
        error = cut(state, trace, false, &field);
    if (error != 0)
        return error;
    if (trace[0] == '\0')
        return mbr_args_bad(state, "--tenant: '%s' has no trace; %s=TRACE would work", text, text);
    tenant->name = text;
    tenant->trace_path = trace;
    while (field != NULL && error == 0)
        error = parse_field(state, field, tenant, &field);
    options->tenant_count++;
    return error;
}

static error_t check_shares(const struct argp_state *state, const mbr_replay_options *options)
{
    uint64_t sum = 0;
    const char *without = NULL;
    for (uint32_t i = 0; i < options->tenant_count; i++) {
        sum += options->tenants[i].share_percent;
        if (options->tenants[i].share_percent == 0)
            without = options->tenants[i].name;
    }
    if (sum > 100)
        return mbr_args_bad(
            state, "--tenant: the shares are %lu %% together; at most 100 would work", sum);
    if (without != NULL && sum > 100 - options->tenant_count)
        return mbr_args_bad(state,
            "--tenant: shares of %lu %% leave nothing for '%s'; give it a share, too", sum,
            without);
    return 0;
}

error_t mbr_replay_check_tenants(const struct argp_state *state, const mbr_replay_options *options)
{
    if (options->tenant_count == 0 && options->budget_percent != 0)
        return mbr_args_bad(state,
            "--budget: a percentage is of the peaks of several tenants; --budget=BYTES would work");
    bool both = options->arms[MBR_REPLAY_ELASTIC] && options->arms[MBR_REPLAY_STATIC];
    if (options->tenant_count == 0 && !both)
        return mbr_args_bad(
            state, "--arms: several tenants are compared; two of --tenant=NAME=TRACE would work");
    if (options->tenant_count == 0)
        return 0;
    if (options->trace_path != NULL)
        return mbr_args_bad(state,
            "a trace '%s' beside --tenant; NAME=%s as one more --tenant would work",
            options->trace_path, options->trace_path);
    if (options->tenant_count == 1)
        return mbr_args_bad(state, "one --tenant; at least two, or a trace alone, would work");
    if (options->budget_percent == 0 && options->budget_bytes == UINT64_MAX)
        return mbr_args_bad(state,
            "--tenant needs a budget; --budget=BYTES, or --budget=60%% of the sum of the tenants' "
            "own peaks, would work");
    if (options->shared != NULL)
        return mbr_args_bad(state,
            "--shared: tenants divide a budget that is theirs alone; without --shared it would "
            "work");
    if (options->eager != MBR_KV_GROWING)
        return mbr_args_bad(state, "--eager: tenants lend extents; without --eager it would work");
    return check_shares(state, options);
}
