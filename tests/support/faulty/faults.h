/* The fault plan of libmembrane-faulty.so: the test owns it and passes its address as the option
 * `faults` (hexadecimal) when it opens the mechanism. */
#ifndef MEMBRANE_TESTS_SUPPORT_FAULTY_FAULTS_H
#define MEMBRANE_TESTS_SUPPORT_FAULTY_FAULTS_H

#include "membrane/base.h"

#define FAULTY_RESERVE 0
#define FAULTY_EXTENT_CREATE 1
#define FAULTY_MAP 2
#define FAULTY_PROTECT 3
#define FAULTY_UNMAP 4
#define FAULTY_MAP_SHARED 5
#define FAULTY_ALLOCATE 6
#define FAULTY_CLOSE 7 /* closes, and says that nothing happened: an answer that is forbidden */
#define FAULTY_SLOT_COUNT 8

/* Read and written by the slots of one mechanism; tests change it between calls only. */
struct faulty_plan {
    uint64_t calls[FAULTY_SLOT_COUNT];
    uint64_t fail_from[FAULTY_SLOT_COUNT];  /* this call of the slot, counted from 1, is refused */
    uint64_t fail_count[FAULTY_SLOT_COUNT]; /* and so many in all; 0: none */
    mbr_status status;                      /* with this */
    uint64_t met;                           /* refusals so far */
};

#endif
