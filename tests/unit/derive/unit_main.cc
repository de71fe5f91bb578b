// Links the four units: the headers define nothing that collides, and all agree on the sizes.
#include "abi/derive/layout_asserts.h"

extern "C" uint64_t layout_of_c11(void);
extern "C" uint64_t layout_of_c17(void);
uint64_t layout_of_cxx();

int main()
{
    uint64_t here = sizeof(mbr_outcome) + sizeof(mbr_mechanism_description);
    return layout_of_c11() == here && layout_of_c17() == here && layout_of_cxx() == here ? 0 : 1;
}
