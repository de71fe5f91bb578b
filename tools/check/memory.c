/* Stores and loads under a handler of its own, and transfers with a line behind them. Never judges:
 * what a refusal means is the check's. */
#include "tools/check/memory.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define WHOLE_MAX_BYTES (UINT64_C(1) << 20)
#define SPARSE_STRIDE_BYTES 512
#define WAIT_NS UINT64_C(1000000000)

static uint64_t stride_of(uint64_t bytes)
{
    return bytes <= WHOLE_MAX_BYTES ? sizeof(uint64_t) : SPARSE_STRIDE_BYTES;
}

static uint64_t word_of(uint64_t seed, uint64_t offset)
{
    return seed == 0
        ? 0
        : (seed * UINT64_C(0x9e3779b97f4a7c15)) ^ ((offset + 1) * UINT64_C(0xbf58476d1ce4e5b9));
}

/* ---- By the CPU ------------------------------------------------------------------------------ */

static sigjmp_buf refused;

static void refuse(int signal)
{
    (void)signal;
    siglongjmp(refused, 1);
}

/* Not in line: nothing of it may live in registers across the jump out of a handler. */
__attribute__((noinline)) static mbr_memory walk(
    volatile char *memory, uint64_t bytes, uint64_t seed, bool is_write)
{
    uint64_t stride = stride_of(bytes);
    for (uint64_t at = 0; at < bytes; at += stride) {
        volatile uint64_t *word = (volatile uint64_t *)(memory + at);
        if (is_write)
            *word = word_of(seed, at);
        else if (*word != word_of(seed, at))
            return MBR_MEMORY_OTHER;
    }
    return MBR_MEMORY_OK;
}

static mbr_memory by_cpu(uint64_t address, uint64_t bytes, uint64_t seed, bool is_write)
{
    struct sigaction action = {.sa_handler = refuse}, segv, bus;
    volatile mbr_memory answer = MBR_MEMORY_REFUSED;
    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
    if (sigsetjmp(refused, 1) == 0)
        answer = walk((volatile char *)(uintptr_t)address, bytes, seed, is_write);
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    return answer;
}

/* ---- By the plugin's transfer ---------------------------------------------------------------- */

/* One stream and one line for the child's whole life. */
static struct {
    bool is_open;
    mbr_native stream;
    uint64_t line_id;
} way;

static void open_way(mbr_trial *trial)
{
    mbr_subject *subject = &trial->subject;
    if ((subject->offered & MBR_NEEDS_TRANSFER) == 0 || (subject->offered & MBR_NEEDS_ORDER) == 0)
        mbr_trial_skip(trial, MBR_SKIP_NOT_OFFERED,
            "memory that the CPU cannot reach, without transfer and order");
    const mbr_stream_create_request create = {MBR_SIZED(mbr_stream_create_request)};
    mbr_stream_create_outcome created = {0};
    mbr_outcome outcome = {0};
    mbr_need_ok(trial, mbr_drive_stream_create(trial, subject, &create, &created), "stream_create");
    way.stream = created.stream;
    way.line_id = mbr_trial_id(trial);
    const mbr_line_open_request open = {
        MBR_SIZED(mbr_line_open_request), .line_id = way.line_id, .stream = way.stream};
    mbr_need_ok(trial, mbr_drive_line_open(trial, subject, &open, &outcome), "line_open");
    way.is_open = true;
}

static bool transfer(mbr_trial *trial, uint64_t to, uint64_t from, uint64_t bytes)
{
    mbr_subject *subject = &trial->subject;
    mbr_outcome outcome = {0};
    if (!way.is_open)
        open_way(trial);
    const mbr_copy_request copy = {MBR_SIZED(mbr_copy_request), .stream = way.stream,
        .to_address = to, .from_address = from, .bytes = bytes};
    if (mbr_drive_copy(trial, subject, &copy, &outcome) != MBR_OK)
        return false;
    const mbr_line_request line = {MBR_SIZED(mbr_line_request), .line_id = way.line_id};
    mbr_need_ok(trial, mbr_drive_signal(trial, subject, &line, &outcome), "signal");
    const mbr_line_wait_request wait = {MBR_SIZED(mbr_line_wait_request), .line_id = way.line_id,
        .value = outcome.value, .deadline_ns = mbr_now_ns() + WAIT_NS};
    return mbr_drive_wait(trial, subject, &wait, &outcome) == MBR_OK;
}

static mbr_memory by_transfer(
    mbr_trial *trial, uint64_t address, uint64_t bytes, uint64_t seed, bool is_write)
{
    /* Not of the heap, which the plugin shares and which keeps what it once had: the system's
     * figures would show it. */
    char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mbr_memory answer = MBR_MEMORY_OK;
    if (copy == MAP_FAILED)
        mbr_trial_give_up(trial, MBR_VERDICT_RESOURCE, "no memory for %lu bytes", bytes);
    uint64_t here = (uint64_t)(uintptr_t)copy;
    if (is_write)
        walk(copy, bytes, seed, true);
    if (!transfer(trial, is_write ? address : here, is_write ? here : address, bytes))
        answer = MBR_MEMORY_REFUSED;
    else if (!is_write)
        answer = walk(copy, bytes, seed, false);
    munmap(copy, bytes);
    return answer;
}

/* ---- Either ---------------------------------------------------------------------------------- */

static mbr_memory reach(
    mbr_trial *trial, uint64_t address, uint64_t bytes, uint64_t seed, bool is_write)
{
    return (trial->subject.offered & MBR_NEEDS_HOST_ACCESS) != 0
        ? by_cpu(address, bytes, seed, is_write)
        : by_transfer(trial, address, bytes, seed, is_write);
}

mbr_memory mbr_memory_write(mbr_trial *trial, uint64_t address, uint64_t bytes, uint64_t seed)
{
    return reach(trial, address, bytes, seed, true);
}

mbr_memory mbr_memory_read(mbr_trial *trial, uint64_t address, uint64_t bytes, uint64_t seed)
{
    return reach(trial, address, bytes, seed, false);
}

const char *mbr_memory_word(mbr_memory answer)
{
    static const char *const words[] = {"as written", "other contents", "no access"};
    return words[answer];
}
