/* What the faults of the file (group LNK, elf_faults.py) need in it: names in its string table, as
 * weak symbols that nobody defines. */
#include "tests/badplugins/bad.h"

extern const char relative_library __asm__("\"./libm.so.6\"") __attribute__((weak));
extern const char host_library __asm__("libmembrane.so.0") __attribute__((weak));

__attribute__((used)) static const char *const names[] = {&relative_library, &host_library};
