/* Several tenants under one budget: the same traces each way, compared. */
#ifndef MEMBRANE_TOOLS_CLI_REPLAY_TENANTS_H
#define MEMBRANE_TOOLS_CLI_REPLAY_TENANTS_H

#include "tools/cli/replay/replay.h"

#include <argp.h>

/* A run of all tenants one way. */
typedef struct mbr_replay_arm {
    mbr_replay_way way;
    mbr_replay_report report;
} mbr_replay_arm;

/* What completed tokens are in the elastic arm against the static one. */
typedef struct mbr_replay_ratios {
    bool known; /* both arms ran to their end */
    double total, worst;
    uint32_t worst_index; /* of the tenant */
} mbr_replay_ratios;

typedef struct mbr_replay_tenants {
    mbr_replay_load loads[MBR_REPLAY_TENANT_LIMIT_COUNT];
    uint64_t share_percents[MBR_REPLAY_TENANT_LIMIT_COUNT];
    uint64_t alone_peak_bytes[MBR_REPLAY_TENANT_LIMIT_COUNT]; /* 0: not measured */
    uint32_t count;
    uint64_t budget_bytes;
    mbr_replay_arm arms[MBR_REPLAY_WAY_COUNT];
    uint32_t arm_count;
    mbr_replay_ratios ratios;
} mbr_replay_tenants;

const char *mbr_replay_way_name(mbr_replay_way way);

/* One value of --tenant, cut up in place; and what only all together show. */
error_t mbr_replay_parse_tenant(
    const struct argp_state *state, char *text, mbr_replay_options *options);
error_t mbr_replay_check_tenants(const struct argp_state *state, const mbr_replay_options *options);

/* The command with --tenant, from reading the traces to printing the report. MBR_EXIT_… */
int mbr_replay_run_tenants(const mbr_replay_options *options);

void mbr_replay_tenants_print_human(const mbr_replay_options *options, mbr_replay_tenants *tenants);
bool mbr_replay_tenants_print_json(const mbr_replay_options *options, mbr_replay_tenants *tenants);
bool mbr_replay_tenants_plot(const mbr_replay_options *options, const mbr_replay_tenants *tenants,
    char text[MBR_REPLAY_TEXT_BYTES]);

#endif
