/* Geometries of KV caches: what one token costs and which layers keep it for how long.
 *
 * Thread rule: every function is pure and may be called from any thread. */
#ifndef MEMBRANE_HOLDER_GEOMETRY_MODEL_H
#define MEMBRANE_HOLDER_GEOMETRY_MODEL_H

#include "host/holder/geometry/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Bounds: beyond the largest published model by a wide margin, and small enough that the bytes of
 * one token never overflow. */
#define MBR_GEOMETRY_GROUPS_MAX 8
#define MBR_GEOMETRY_NAME_MAX 32
#define MBR_GEOMETRY_LAYERS_MAX 4096
#define MBR_GEOMETRY_HEADS_MAX 4096
#define MBR_GEOMETRY_DIM_MAX 65536
#define MBR_GEOMETRY_ELEMENT_BYTES_MAX 16
#define MBR_GEOMETRY_PLANES_MAX 2
#define MBR_GEOMETRY_WINDOW_TOKENS_MAX (UINT64_C(1) << 40)
#define MBR_GEOMETRY_TOKEN_BYTES_MAX (UINT64_C(1) << 45) /* product of the bounds above */
#define MBR_GEOMETRY_TENSOR_PARALLEL_MAX 4096

/* Layers of equal retention: they share a reservation and a layout.
 *
 *     token_bytes = planes * layers * heads * dim * element_bytes
 *     live tokens of a sequence of t tokens: [t - window_tokens, t), all of them when 0 */
typedef struct mbr_layer_group {
    uint32_t layers;
    uint32_t heads; /* KV heads on one device; 1 for a latent */
    uint32_t dim;   /* elements of one head, or of the latent */
    uint32_t element_bytes;
    uint32_t planes;        /* 2 for K and V, 1 for a latent */
    uint64_t window_tokens; /* of sliding layers; 0: full attention */
} mbr_layer_group;

typedef struct mbr_geometry {
    char name[MBR_GEOMETRY_NAME_MAX]; /* of the model, or "custom" */
    uint32_t group_count;             /* 1 to MBR_GEOMETRY_GROUPS_MAX */
    mbr_layer_group groups[MBR_GEOMETRY_GROUPS_MAX];
} mbr_geometry;

/* Known models, in the order of the table; an index in [0, count). */
uint64_t mbr_geometry_model_count(void);
const mbr_geometry *mbr_geometry_model(uint64_t index);

/* Reads a model's name (without regard to case) or a geometry text into *geometry. The text is
 * pairs of key and value with commas, groups joined by '+':
 *
 *     layers=32,heads=8,dim=128,bytes=2,planes=2
 *     layers=29,heads=4,dim=256,bytes=2,planes=2,window=1024+layers=5,heads=4,...
 *
 * Every key but `window` is required in each group. On a refusal *geometry is zero and *error,
 * which may be NULL, has the key, the value and what would work. */
mbr_geometry_status mbr_geometry_parse(
    const char *text, mbr_geometry *geometry, mbr_geometry_error *error);

/* The part of one device under tensor parallelism over `degree` devices: heads / degree, and 1
 * where the degree is above the heads (they are then repeated). Refused where a lower degree does
 * not divide the heads of a group. `whole` and `part` may be the same. */
mbr_geometry_status mbr_geometry_shard(
    const mbr_geometry *whole, uint64_t degree, mbr_geometry *part, mbr_geometry_error *error);

/* True when every field lies in its bounds; layouts assert it. */
bool mbr_layer_group_is_valid(const mbr_layer_group *group);

/* Bytes of one token in one group, in all groups, and in one row: heads * dim * element_bytes. */
uint64_t mbr_layer_group_token_bytes(const mbr_layer_group *group);
uint64_t mbr_geometry_token_bytes(const mbr_geometry *geometry);
uint64_t mbr_layer_group_row_bytes(const mbr_layer_group *group);

/* First live token of a sequence of `tokens`: what a sliding window has left behind is below. */
uint64_t mbr_layer_group_first_live(const mbr_layer_group *group, uint64_t tokens);

#endif
