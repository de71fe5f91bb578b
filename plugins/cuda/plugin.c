/* The one exported function of libmembrane-cuda.so, and the note that is read before it runs. */
#include "plugins/common/answer.h"
#include "plugins/cuda/core.h"

/* Unloadable: no thread, no thread-local storage, nothing of it is called by the driver. */
MBR_PLUGIN_NOTE("cuda", "membrane", MBR_NOTE_UNLOADABLE);

MBR_EXPORT mbr_status membrane_plugin_v1(const mbr_hello *hello, mbr_reply *reply, mbr_error *error)
{
    return mbr_answer_hello(&mbr_cuda_plugin, hello, reply, error);
}
