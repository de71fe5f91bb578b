/* Group LOD: loading the file and what its constructors do. */
#include "tools/check/trial.h"

#include <dlfcn.h>

static void run_loads(mbr_trial *trial)
{
    void *library = dlopen(trial->page->path, RTLD_NOW | RTLD_LOCAL);
    MBR_EXPECT(trial, library != NULL, "dlopen with RTLD_NOW succeeds", "%s", dlerror());
}

static const mbr_check checks[] = {
    {"LOD-001", 1, MBR_STAGE_FILE, 0, "C31", "the file loads with every symbol bound at once",
        "A host loads with RTLD_NOW, so that a missing function is a refusal at open and not a "
        "crash "
        "in the middle of a release.",
        run_loads, MBR_CHECK_GATE | MBR_CHECK_OPENS, 0},
};

const mbr_group mbr_group_lod = MBR_GROUP("LOD", "load and constructors", checks);
