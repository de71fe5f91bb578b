/* Whether what a holder's request names to pay with exists: a wrong one is refused when the holder
 * is made, and not at its first bytes. */
#ifndef MEMBRANE_HOST_HOLDER_COMMON_PAYER_H
#define MEMBRANE_HOST_HOLDER_COMMON_PAYER_H

#include "abi/base/growable.h"
#include "membrane/manager.h"

/* MBR_OK, or mbr_manager_read_binding's and mbr_manager_read_holder's. */
static inline mbr_status mbr_check_payer(
    mbr_manager *manager, mbr_binding_handle binding, mbr_holder_handle holder, mbr_error *error)
{
    mbr_binding_figures bound = {MBR_SIZED(mbr_binding_figures)};
    mbr_holder_figures payer = {MBR_SIZED(mbr_holder_figures)};
    mbr_status status = mbr_manager_read_binding(manager, binding, &bound, error);
    return status == MBR_OK ? mbr_manager_read_holder(manager, holder, &payer, error) : status;
}

#endif
