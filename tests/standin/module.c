/* Modules: of an image's text the names of its kernels alone, each of which run.c has under that
 * name. */
#include "tests/standin/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_module {
    char *text;
};

int sim_module_load(struct sim_module **made, const char *text)
{
    if (!text)
        return SIM_INVALID_VALUE;
    if (!strstr(text, ".entry"))
        return SIM_INVALID_IMAGE;
    struct sim_module *module = calloc(1, sizeof *module);
    char *kept = module ? strdup(text) : NULL;
    if (!kept)
        abort();
    module->text = kept;
    sim.ledger.module_count++;
    *made = module;
    return SIM_OK;
}

int sim_module_unload(struct sim_module *module)
{
    if (!module)
        return SIM_INVALID_HANDLE;
    free(module->text);
    free(module);
    sim.ledger.module_count--;
    return SIM_OK;
}

int sim_module_function(
    const struct sim_kernel **kernel, const struct sim_module *module, const char *name)
{
    char entry[80];
    if (!module)
        return SIM_INVALID_HANDLE;
    snprintf(entry, sizeof entry, ".entry %s(", name);
    if (!strstr(module->text, entry))
        return SIM_NOT_FOUND;
    *kernel = sim_kernel_find(name);
    if (!*kernel)
        sim_misuse("a kernel '%s' is asked for, which the stand-in cannot run", name);
    return SIM_OK;
}
