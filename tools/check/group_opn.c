/* Group OPN: mechanisms and opening them. */
#include "tools/check/trial.h"

#include <string.h>

/* The open of a host: no options, a log. */
static void run_opens(mbr_trial *trial)
{
    mbr_mechanism_description description = {MBR_SIZED(mbr_mechanism_description)};
    const mbr_mechanisms_request request = {
        MBR_SIZED(mbr_mechanisms_request), .index = trial->page->device_index};
    mbr_subject subject;
    mbr_expect_status(trial, mbr_drive_mechanisms(trial, &trial->subject, &request, &description),
        MBR_OK, "mechanisms");
    memcpy(trial->mechanism, description.name, sizeof trial->mechanism);
    trial->mechanism[sizeof trial->mechanism - 1] = '\0';
    mbr_error error = {MBR_SIZED(mbr_error)};
    mbr_status status = mbr_subject_open(trial, NULL, 0, &subject, &error);
    MBR_EXPECT(trial, status == MBR_OK, "a mechanism opens without options", "%s: %.200s",
        mbr_status_name(status), error.text);
}

static const mbr_check checks[] = {
    {"OPN-001", 1, MBR_STAGE_GREETED, 0, "C2, C23", "the mechanism opens without options",
        "A host knows no option of a stranger's plugin: what it must have is found by the plugin.",
        run_opens, MBR_CHECK_OPENS, 0},
};

const mbr_group mbr_group_opn = MBR_GROUP("OPN", "mechanisms and open", checks);
