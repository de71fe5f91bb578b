/* What a thread has of its own on a hot path. */
#ifndef MEMBRANE_BASE_THREAD_H
#define MEMBRANE_BASE_THREAD_H

/* Found by one load instead of a call, around which nothing stays in a register. A library that is
 * loaded later has such data in the little that the C library keeps free for all of them (glibc:
 * 1664 bytes), so it is small and there is little of it. */
#ifndef MBR_THREAD_HOT /* threads of another kind have it elsewhere */
#define MBR_THREAD_HOT _Thread_local __attribute__((tls_model("initial-exec")))
#endif

#endif
