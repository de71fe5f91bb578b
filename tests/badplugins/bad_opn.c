/* Faults of mechanisms and open (group OPN). */
#include "tests/badplugins/bad.h"

static mbr_status refuse_open(mbr_instance *none, const mbr_open_request *request,
    mbr_open_outcome *outcome, mbr_error *error)
{
    (void)none, (void)request, (void)error;
    outcome->instance = NULL;
    return MBR_NO_DEVICE;
}

void bad_install_opn(void)
{
    if (bad_is("refuses_every_open"))
        bad.plugin.open = refuse_open;
}
