/* The isolation groups that a device has served: whose memory that is, its mechanisms share. */
#ifndef MEMBRANE_HOST_BACKING_GROUPS_H
#define MEMBRANE_HOST_BACKING_GROUPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zeroed at first. */
struct mbr_groups {
    _Atomic uint64_t first_group; /* that was served, + 1; 0: none yet */
    _Atomic bool are_several;
};

#endif
