/* What the faults of virtual memory have in common. */
#ifndef MEMBRANE_TESTS_BADPLUGINS_BAD_VIR_H
#define MEMBRANE_TESTS_BADPLUGINS_BAD_VIR_H

#include "tests/badplugins/bad.h"

#include "abi/base/error.h"

/* A slot of a bad plugin, and the good one with the same arguments. */
#define BAD_SLOT(name, request_type, outcome_type)                                                 \
    static mbr_status name(mbr_instance *instance, const request_type *request,                    \
        outcome_type *outcome, mbr_error *error)
#define GOOD(slot) bad_good->virtual_.slot(instance, request, outcome, error)

struct mbr_host_extent *bad_extent(mbr_instance *instance, uint64_t id); /* NULL: none */
struct mbr_reservation *bad_reservation(mbr_instance *instance, uint64_t id);

/* What stands at an offset; extent_id 0: nothing, or no such reservation. */
mbr_query_outcome bad_look(mbr_instance *instance, uint64_t reservation_id, uint64_t offset_bytes);

/* Puts a part of the memory file at an address, behind the books' back. */
void bad_alias(const mbr_instance *instance, uint64_t address, uint64_t bytes,
    uint64_t file_offset_bytes, int protection);

/* Empties or writes a part of the memory file. */
void bad_empty(const mbr_instance *instance, uint64_t file_offset_bytes, uint64_t bytes);
void bad_soil(const mbr_instance *instance, uint64_t file_offset_bytes);

/* Takes memory that nobody is told of and nobody gives back. */
void bad_hoard(uint64_t bytes);

/* Parts of bad_install_vir. */
void bad_install_vir_make(void);
void bad_install_vir_use(void);
void bad_install_vir_said(void);

#endif
