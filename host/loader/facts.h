/* The facts of an open mechanism (rule 4). */
#ifndef MEMBRANE_HOST_LOADER_FACTS_H
#define MEMBRANE_HOST_LOADER_FACTS_H

#include "host/loader/loader.h"

/* Reads every fact once through the allocator, gives unknown ones their conservative default, and
 * validates them. MBR_CONTRACT_BROKEN names the fact, its value and what is allowed. */
mbr_status mbr_facts_read(mbr_mechanism *mechanism, mbr_error *error);

#endif
