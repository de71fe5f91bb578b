/* A library that a specimen needs, and that offers the entry symbol in its place. */
#include "membrane/membrane_plugin.h"

MBR_EXPORT int specimen_dependency(void);

int specimen_dependency(void)
{
    return 1;
}

mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    (void)hello;
    (void)reply;
    (void)error;
    __builtin_trap(); /* a plugin's entry is its own: nobody may call this one */
}
