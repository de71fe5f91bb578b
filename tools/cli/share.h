/* `membrane share`: the sharing arithmetic of a geometry, a layout, a granule and a prefix. */
#ifndef MEMBRANE_TOOLS_CLI_SHARE_H
#define MEMBRANE_TOOLS_CLI_SHARE_H

#include "host/holder/geometry/sharing.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The command. Prints its table or JSON object on stdout and an error on stderr. Returns 0 where
 * the prefix can be shared, 1 where it cannot (with the reason and what would work), 2 where the
 * arguments are not understood. */
int mbr_cli_share(int argc, char **argv);

/* What the user asked for. */
typedef struct mbr_share_options {
    mbr_geometry geometry; /* of one device, after tensor parallelism */
    uint64_t tensor_parallel;
    mbr_layout_kind layout;
    uint64_t granule_bytes;
    uint64_t extent_bytes;  /* 0: the layout's default rule */
    uint64_t window_tokens; /* W; 0: the default */
    uint64_t max_tokens;
    uint64_t prefix_tokens;
    uint64_t private_tokens; /* of each sequence behind the prefix */
    uint64_t sequences;      /* 0: not asked */
    uint64_t budget_bytes;   /* 0: not asked */
    bool json;
} mbr_share_options;

/* The answer for one layer group; the totals are of the whole geometry. */
typedef struct mbr_share_group {
    mbr_extents extents;
    mbr_sharing sharing;
    mbr_sharing_refusal refusal; /* failed == 0: this group shares */
    uint64_t floor_bytes;
    uint64_t private_bytes;
} mbr_share_group;

typedef struct mbr_share_answer {
    uint32_t group_count;
    mbr_share_group groups[MBR_GEOMETRY_GROUPS_MAX];
    mbr_sharing total;
    uint64_t floor_bytes;
    uint64_t private_bytes; /* of one sequence, with its private tokens */
    bool shareable;         /* some group shares */
    uint64_t saving_bytes;
    mbr_sharing_capacity capacity;
} mbr_share_answer;

/* Computes the answer; on a refusal it is zero. */
mbr_geometry_status mbr_share_compute(
    const mbr_share_options *options, mbr_share_answer *answer, mbr_geometry_error *error);

/* The group whose refusal asks for the least: the shortest prefix, or the first. */
const mbr_share_group *mbr_share_nearest_refusal(const mbr_share_answer *answer);

void mbr_share_print_human(
    FILE *out, const mbr_share_options *options, const mbr_share_answer *answer);

/* False when memory for the object is exhausted or `out` takes no more. */
bool mbr_share_print_json(
    FILE *out, const mbr_share_options *options, const mbr_share_answer *answer);

#endif
