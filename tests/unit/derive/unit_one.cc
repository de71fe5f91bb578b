// One of the units that hold the headers to the derived layout: C++17, with a note of its own.
#include "abi/derive/layout_asserts.h"

MBR_PLUGIN_NOTE("layout", "tests", 0);

uint64_t layout_of_cxx();

uint64_t layout_of_cxx()
{
    return sizeof(mbr_outcome) + sizeof(mbr_mechanism_description);
}
