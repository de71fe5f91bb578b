/* Opening a module on another table of system calls; for tests. */
#ifndef MEMBRANE_HOST_LOADER_OPEN_H
#define MEMBRANE_HOST_LOADER_OPEN_H

#include "host/loader/loader.h"
#include "host/loader/os.h"

/* As mbr_module_open. */
mbr_status mbr_module_open_on(const mbr_loader_os *os, const mbr_module_options *options,
    mbr_module **module, mbr_candidate *candidate, mbr_error *error);

#endif
