/* Includes a header of a library that it does not name. Must not compile under layering_check. */
#include "abi/base/checked.h"
#include "tests/canary/reaches_base.h"

bool canary_is_granule(uint64_t bytes);

bool canary_is_granule(uint64_t bytes)
{
    return mbr_is_power_of_two(bytes);
}
