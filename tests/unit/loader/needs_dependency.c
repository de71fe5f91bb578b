/* A note without an entry of its own; the entry symbol is in a library that this file needs. */
#include "membrane/membrane_plugin.h"

MBR_PLUGIN_NOTE("specimen", "tests", 0);

MBR_EXPORT int specimen_dependency(void);
MBR_EXPORT int uses_dependency(void);

int uses_dependency(void)
{
    return specimen_dependency();
}
