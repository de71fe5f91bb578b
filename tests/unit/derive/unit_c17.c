/* One of the units that hold the headers to the derived layout: C17. */
#include "abi/derive/layout_asserts.h"

#include <stdint.h>

uint64_t layout_of_c17(void);

uint64_t layout_of_c17(void)
{
    return sizeof(mbr_outcome) + sizeof(mbr_mechanism_description);
}
