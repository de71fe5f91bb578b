/* A good plugin, the host plugin's own code, with one fault before its slots.
 *
 * All code is compiled once; a plugin for a fault is a link that chooses the fault's name
 * (bad_plugin.bzl), so that four hundred bad plugins cost one build. A file bad_GROUP.c holds the
 * faults of one group of checks: its install function replaces slots of the tables where its fault
 * is the chosen one. faults.bzl says which check must fail each. */
#ifndef MEMBRANE_TESTS_BADPLUGINS_BAD_H
#define MEMBRANE_TESTS_BADPLUGINS_BAD_H

#include "membrane/membrane_plugin.h"
#include "plugins/host/core.h"

#include <stdbool.h>

struct bad_tables {
    mbr_entry_function entry;
    mbr_plugin_vtable plugin;
    mbr_allocator_vtable allocator;
    mbr_virtual_vtable virtual_;
    mbr_shared_vtable shared;
    mbr_order_vtable order;
    mbr_transfer_vtable transfer;
    bool has_virtual, has_shared, has_order; /* offered; transfer goes with order */
};

extern struct bad_tables bad;             /* what the plugin publishes */
extern const struct bad_tables *bad_good; /* the slots without a fault */

/* Whether the plugin was linked for this fault. */
bool bad_is(const char *fault);
bool bad_is_any(const char *const *faults); /* up to a NULL */

/* Whether its name begins with hostile_. */
bool bad_is_hostile(void);

/* Puts what checks the structs of a call before every faulty slot; and leaves it out, for a fault
 * that is about NULL or short structs. */
void bad_guard(void);
void bad_see_parts(void);

/* One a file; called once, before the entry answers. */
void bad_install_hostile(void);
void bad_install_neg(void);
void bad_install_vtb(void);
void bad_install_opn(void);
void bad_install_alc(void);
void bad_install_alc_release(void);
void bad_install_ord(void);
void bad_install_trf(void);
void bad_install_thr(void);
void bad_install_vir(void);
void bad_install_shr(void);
void bad_install_err(void);
void bad_install_unw(void);
void bad_install_flt(void);
void bad_install_env(void);
void bad_install_lif(void);
void bad_install_log(void);
void bad_install_prf(void);
void bad_install_device(void);

#endif
