/* Ends the process on a programmer's error; never returns, never allocates. */
#include "abi/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void mbr_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "membrane: %s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}
