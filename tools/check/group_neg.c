/* Group NEG: version negotiation through the entry. */
#include "tools/check/trial.h"

static mbr_status greet(
    mbr_trial *trial, uint16_t low, uint16_t high, mbr_reply *reply, mbr_error *error)
{
    const mbr_hello hello = {MBR_SIZED(mbr_hello), .minor_min = low, .minor_max = high};
    *reply = (mbr_reply){MBR_SIZED(mbr_reply)};
    *error = (mbr_error){MBR_SIZED(mbr_error)};
    return trial->entry(&hello, reply, error);
}

static void run_same(mbr_trial *trial)
{
    mbr_reply reply;
    mbr_error error;
    mbr_status status = greet(trial, 0, 0, &reply, &error);
    MBR_EXPECT(trial, status == MBR_OK && reply.plugin != NULL,
        "the entry answers MBR_OK and a table to a host of minor 0", "%s, table %p",
        mbr_status_name(status), (const void *)reply.plugin);
}

static const mbr_check checks[] = {
    {"NEG-001", 1, MBR_STAGE_LOADED, 0, "C16, C17", "the entry answers a host of minor 0",
        "Every host of major 1 knows minor 0. A plugin that refuses it can be opened by nobody.",
        run_same, MBR_CHECK_OPENS, 0},
};

const mbr_group mbr_group_neg = MBR_GROUP("NEG", "version negotiation", checks);
