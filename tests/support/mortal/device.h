/* The device of libmembrane-mortal.so: the test owns it and passes its address as the option
 * `device` (hexadecimal) when it opens the mechanism. */
#ifndef MEMBRANE_TESTS_SUPPORT_MORTAL_DEVICE_H
#define MEMBRANE_TESTS_SUPPORT_MORTAL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Changed by tests between calls only. */
struct mortal_device {
    bool lost;             /* every memory slot answers MBR_DEVICE_LOST */
    bool clings;           /* once lost, still reports its objects, and so cannot be closed */
    bool close_is_unknown; /* closes, and answers that nobody knows what it did */
    uint64_t late_calls;   /* of memory slots, since the loss */
    const void *clinging;  /* the instance */
};

#endif
