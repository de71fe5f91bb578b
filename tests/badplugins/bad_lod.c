/* Faults of loading and of constructors (group LOD). */
#include "tests/badplugins/bad.h"

#include <stdlib.h>

__attribute__((constructor)) static void construct(void)
{
    if (bad_is("crashes_in_constructor"))
        abort();
}

void bad_install_lod(void) {}
