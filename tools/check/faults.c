/* Fails what the plugin asks of the system. System calls are failed through seccomp's user
 * notification: a filter on the check's thread tells a second thread of each call of these kinds,
 * and that thread answers with an errno or lets it go on. Never judges. */
#include "tools/check/faults.h"

#include "tools/check/failing_heap.h"
#include "tools/check/oracle.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define NOTICE_BYTES 512 /* room for structs of newer kernels */

static const struct {
    const char *word;
    int error;
    long calls[2];
} sources[MBR_FAULT_SOURCE_COUNT] = {
    [MBR_FAULT_HEAP] = {"malloc", ENOMEM, {-1, -1}},
    [MBR_FAULT_MMAP] = {"mmap", ENOMEM, {SYS_mmap, -1}},
    [MBR_FAULT_MUNMAP] = {"munmap", ENOMEM, {SYS_munmap, -1}},
    [MBR_FAULT_MPROTECT] = {"mprotect", ENOMEM, {SYS_mprotect, -1}},
    [MBR_FAULT_MADVISE] = {"madvise", ENOMEM, {SYS_madvise, -1}},
    [MBR_FAULT_MEMFD] = {"memfd_create", EMFILE, {SYS_memfd_create, -1}},
    [MBR_FAULT_FILE_SPACE] = {"fallocate or ftruncate", ENOSPC, {SYS_fallocate, SYS_ftruncate}},
    [MBR_FAULT_ADDRESSES] = {"RLIMIT_AS", ENOMEM, {-1, -1}},
    [MBR_FAULT_DESCRIPTORS] = {"RLIMIT_NOFILE", EMFILE, {-1, -1}},
    [MBR_FAULT_FILE_SIZE] = {"RLIMIT_FSIZE", EFBIG, {-1, -1}},
};

/* Written by the check's thread outside of slots; is_inside publishes it to the supervisor, which
 * counts left_count down and sets is_struck. */
static struct {
    mbr_trial *trial;
    mbr_fault_source source;
    uint64_t left_count; /* events before the one that fails, and that one; 0: none fails */
    uint64_t nth;
    bool is_for_good, is_struck, is_inside;
    uint64_t looked_count; /* the supervisor is done with what it read */
    struct rlimit limit;   /* as it was before the slot */
} plan;

/* ---- System calls ---------------------------------------------------------------------------- */

static int listener = -1;
static sem_t listener_is_there;

static bool is_of_source(long call)
{
    return call >= 0 &&
        (call == sources[plan.source].calls[0] || call == sources[plan.source].calls[1]);
}

/* On the supervisor's thread, while the check's thread waits in the call. */
static bool strikes(long call)
{
    if (!__atomic_load_n(&plan.is_inside, __ATOMIC_ACQUIRE) || !is_of_source(call))
        return false;
    uint64_t left_count = __atomic_load_n(&plan.left_count, __ATOMIC_ACQUIRE);
    if (left_count > 1 || (left_count == 1 && !plan.is_for_good))
        __atomic_store_n(&plan.left_count, left_count - 1, __ATOMIC_RELEASE);
    if (left_count == 1)
        __atomic_store_n(&plan.is_struck, true, __ATOMIC_RELEASE);
    return left_count == 1;
}

/* Answers every notice. Takes no lock and no memory from the first one on: the other thread may
 * hold any. */
static void *supervise(void *context)
{
    (void)context;
    while (sem_wait(&listener_is_there) != 0)
        continue; /* a signal */
    for (;;) {
        union {
            struct seccomp_notif notice;
            char room[NOTICE_BYTES];
        } in;
        union {
            struct seccomp_notif_resp response;
            char room[NOTICE_BYTES];
        } out;
        memset(&in, 0, sizeof in);
        memset(&out, 0, sizeof out);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &in) != 0)
            continue;
        out.response.id = in.notice.id;
        if (strikes(in.notice.data.nr))
            out.response.error = -sources[plan.source].error;
        else
            out.response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        __atomic_add_fetch(&plan.looked_count, 1, __ATOMIC_RELEASE);
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &out);
    }
    return NULL;
}

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define TELL_IF(call)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(call), 0, 1),                                   \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)

static int install_filter(void)
{
#ifdef ARCHITECTURE
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        TELL_IF(SYS_mmap),
        TELL_IF(SYS_munmap),
        TELL_IF(SYS_mprotect),
        TELL_IF(SYS_madvise),
        TELL_IF(SYS_memfd_create),
        TELL_IF(SYS_fallocate),
        TELL_IF(SYS_ftruncate),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(
        SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
#else
    errno = ENOSYS;
    return -1;
#endif
}

/* The supervisor starts before the filter, so that its own calls are not told. */
static void prepare_calls(mbr_trial *trial)
{
    pthread_t thread;
    if (listener >= 0)
        return;
    sem_init(&listener_is_there, 0, 0);
    if (pthread_create(&thread, NULL, supervise, NULL) != 0)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no thread for the supervisor");
    int fd = install_filter();
    if (fd < 0)
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "seccomp's user notification: %s", strerror(errno));
    listener = fd;
    sem_post(&listener_is_there);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static __rlimit_resource_t resource_of(mbr_fault_source source)
{
    return source == MBR_FAULT_ADDRESSES ? RLIMIT_AS
        : source == MBR_FAULT_FILE_SIZE  ? RLIMIT_FSIZE
                                         : RLIMIT_NOFILE;
}

/* 0, 1, 2, 4, … MiB */
static uint64_t room_bytes(void)
{
    return plan.nth < 2 ? 0 : MIB << (plan.nth - 2 < 40 ? plan.nth - 2 : 40);
}

static uint64_t first_free_descriptor(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? 0 : (uint64_t)fd;
}

static void lower_limit(void)
{
    struct rlimit low;
    getrlimit(resource_of(plan.source), &plan.limit);
    low = plan.limit;
    if (plan.source == MBR_FAULT_ADDRESSES)
        low.rlim_cur = mbr_oracle_address_bytes(plan.trial) + room_bytes();
    else if (plan.source == MBR_FAULT_FILE_SIZE)
        low.rlim_cur = room_bytes();
    else
        low.rlim_cur = first_free_descriptor() + plan.nth - 1;
    if (low.rlim_cur > plan.limit.rlim_cur)
        low.rlim_cur = plan.limit.rlim_cur;
    setrlimit(resource_of(plan.source), &low);
    plan.is_struck = true;
}

/* ---- Around a slot --------------------------------------------------------------------------- */

static void enter_slot(void)
{
    if (plan.nth == 0)
        return;
    if (plan.source >= MBR_FAULT_ADDRESSES)
        lower_limit();
    else if (plan.source == MBR_FAULT_HEAP)
        (void)mbr_failing_heap_arm(plan.left_count, plan.is_for_good);
    __atomic_store_n(&plan.is_inside, true, __ATOMIC_RELEASE);
}

static void leave_slot(void)
{
    if (!__atomic_exchange_n(&plan.is_inside, false, __ATOMIC_ACQ_REL))
        return;
    (void)__atomic_load_n(&plan.looked_count, __ATOMIC_ACQUIRE); /* its reads are behind us */
    if (plan.source >= MBR_FAULT_ADDRESSES)
        setrlimit(resource_of(plan.source), &plan.limit);
    if (plan.source == MBR_FAULT_HEAP) {
        plan.left_count = mbr_failing_heap_left();
        plan.is_struck |= mbr_failing_heap_arm(0, false) > 0;
    }
    if (mbr_faults_struck() && plan.source < MBR_FAULT_ADDRESSES)
        __atomic_store_n(&plan.left_count, 0, __ATOMIC_RELEASE);
}

void mbr_faults_prepare(mbr_trial *trial, mbr_fault_source source)
{
    plan.trial = trial;
    if (source == MBR_FAULT_HEAP && !mbr_failing_heap_is_there())
        mbr_trial_skip(trial, MBR_SKIP_SYSTEM, "this build's sanitizer owns the heap");
    if (source > MBR_FAULT_HEAP && source < MBR_FAULT_ADDRESSES)
        prepare_calls(trial);
    mbr_manner_now()->before = enter_slot;
    mbr_manner_now()->after = leave_slot;
}

void mbr_faults_plan(mbr_fault_source source, uint64_t nth, bool for_good)
{
    plan.source = source;
    plan.nth = plan.left_count = nth;
    plan.is_for_good = for_good;
    plan.is_struck = false;
}

bool mbr_faults_struck(void)
{
    return __atomic_load_n(&plan.is_struck, __ATOMIC_ACQUIRE);
}

const char *mbr_faults_words(void)
{
    static char text[96];
    snprintf(text, sizeof text, "%s %s%lu%s", sources[plan.source].word,
        plan.source >= MBR_FAULT_ADDRESSES ? "at step " : "", plan.nth,
        plan.is_for_good ? " and those behind it" : "");
    return text;
}
