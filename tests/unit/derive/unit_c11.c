/* One of the units that hold the headers to the derived layout: GNU C11. */
#include "abi/derive/layout_asserts.h"

#include <stdint.h>

uint64_t layout_of_c11(void);

uint64_t layout_of_c11(void)
{
    return sizeof(mbr_outcome) + sizeof(mbr_mechanism_description);
}
