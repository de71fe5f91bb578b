/* The list of groups. A new group file is one line in each of two places here. */
#include "tools/check/self_test.h"

#include <string.h>

extern const mbr_group mbr_group_lnk, mbr_group_lod, mbr_group_neg, mbr_group_opn, mbr_group_vtb,
    mbr_group_alc, mbr_group_alc_books, mbr_group_alc_ids, mbr_group_ord, mbr_group_trf;
extern const mbr_group mbr_group_thr, mbr_group_thr_use, mbr_group_thr_context;
extern const mbr_group mbr_group_vir_reserve, mbr_group_vir_extent, mbr_group_vir_map;
extern const mbr_group mbr_group_vir_protect, mbr_group_vir_unmap, mbr_group_vir_said,
    mbr_group_shr;
extern const mbr_group mbr_group_err, mbr_group_unw;
extern const mbr_group mbr_group_flt, mbr_group_env, mbr_group_lif, mbr_group_lif_unload,
    mbr_group_lif_flow;
extern const mbr_group mbr_group_log, mbr_group_prf, mbr_group_sok;

const mbr_group *const mbr_groups[] = {
    &mbr_group_lnk,
    &mbr_group_lod,
    &mbr_group_neg,
    &mbr_group_vtb,
    &mbr_group_opn,
    &mbr_group_alc,
    &mbr_group_alc_books,
    &mbr_group_alc_ids,
    &mbr_group_ord,
    &mbr_group_trf,
    &mbr_group_thr,
    &mbr_group_thr_use,
    &mbr_group_thr_context,
    &mbr_group_vir_reserve,
    &mbr_group_vir_extent,
    &mbr_group_vir_map,
    &mbr_group_vir_protect,
    &mbr_group_vir_unmap,
    &mbr_group_vir_said,
    &mbr_group_shr,
    &mbr_group_err,
    &mbr_group_unw,
    &mbr_group_flt,
    &mbr_group_lif,
    &mbr_group_lif_unload,
    &mbr_group_lif_flow,
    &mbr_group_env,
    &mbr_group_log,
    &mbr_group_prf,
    &mbr_group_sok,
};

const uint32_t mbr_group_count = sizeof mbr_groups / sizeof mbr_groups[0];

void mbr_check_each(bool (*visit)(void *context, const mbr_check *check), void *context)
{
    for (uint32_t group = 0; group < mbr_group_count; group++)
        for (uint32_t i = 0; i < mbr_groups[group]->count; i++)
            if (!visit(context, &mbr_groups[group]->checks[i]))
                return;
}

static const mbr_check *find_in(const mbr_group *group, const char *id)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (strcmp(group->checks[i].id, id) == 0)
            return &group->checks[i];
    return NULL;
}

const mbr_check *mbr_check_find(const char *id)
{
    const mbr_check *check = find_in(&mbr_group_self, id);
    for (uint32_t i = 0; i < mbr_group_count && check == NULL; i++)
        check = find_in(mbr_groups[i], id);
    return check;
}

const char *mbr_stage_word(mbr_stage stage)
{
    static const char *const words[MBR_STAGE_COUNT] = {"file", "loaded", "greeted", "opened"};
    return stage < MBR_STAGE_COUNT ? words[stage] : "";
}
