/* A library of its own with a governor inside, to be unloaded under a thread that used it. */
#include "governor/governor.h"

__attribute__((visibility("default"))) int loaded_book(void);

/* Books once in the calling thread; 1 if the thread had credit, so that its end is watched. */
int loaded_book(void)
{
    mbr_governor *governor;
    mbr_authority *authority;
    mbr_holder *holder;
    mbr_authority_options pool = {"pool", MBR_TIER_DEVICE, UINT64_C(1) << 30, NULL, 0, NULL};
    mbr_holder_options kv = {
        .name = "kv", .role = MBR_ROLE_KV, .allowance_bytes = MBR_NO_ALLOWANCE};
    mbr_authority_figures figures = {.struct_size = sizeof(figures)};
    if (mbr_governor_create(NULL, &governor, NULL) != MBR_OK ||
        mbr_authority_create(governor, &pool, &authority, NULL) != MBR_OK ||
        mbr_holder_create(authority, &kv, &holder, NULL) != MBR_OK ||
        mbr_grant(holder, 100, NULL) != MBR_OK)
        return 0;
    mbr_authority_figures_read(authority, &figures);
    mbr_grant_return(holder, 100);
    if (mbr_holder_destroy(holder, NULL) != MBR_OK ||
        mbr_authority_destroy(authority, NULL) != MBR_OK ||
        mbr_governor_destroy(governor, NULL) != MBR_OK)
        return 0;
    return figures.claimed_bytes > 100;
}
