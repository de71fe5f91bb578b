/* The one exported function of libmembrane-host.so, and the note that is read before it runs. */
#include "plugins/common/answer.h"
#include "plugins/host/core.h"

/* Unloadable: no thread, no thread-local storage, no function at exit. */
MBR_PLUGIN_NOTE("host", "membrane", MBR_NOTE_UNLOADABLE);

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    return mbr_answer_hello(&mbr_host_plugin, hello, reply, error);
}
