/* Responsible for loading and launching kernels. Measures nothing. */
#include "tools/bench/gpu/kernels.h"

#include "tools/build/embed.h"

#define GRID_COUNT 1056 /* blocks: 8 for each of 132 processors, which fills the largest here */
#define BLOCK_THREADS 256
#define PIECE_BYTES 16

extern const mbr_embedded mbr_kernels_source[];

static bool open_words(mbr_hand *hand, mbr_kernels *kernels)
{
    void *words;
    if (!mbr_hand_did(hand,
            hand->call.host_allocate(
                &words, 4096, MBR_CUDA_HOST_PORTABLE | MBR_CUDA_HOST_DEVICE_MAP),
            "cuMemHostAlloc"))
        return false;
    kernels->flag = words;
    kernels->seen = kernels->flag + 64; /* a line of its own */
    *kernels->flag = *kernels->seen = 0;
    return true;
}

static bool open_functions(mbr_hand *hand, mbr_kernels *kernels)
{
    const struct {
        const char *name;
        mbr_cuda_function *function;
    } wanted[] = {{"spin", &kernels->spin}, {"store", &kernels->store},
        {"read_all", &kernels->read_all}, {"write_all", &kernels->write_all},
        {"check_all", &kernels->check_all}, {"write_floats", &kernels->write_floats},
        {"attend", &kernels->attend}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!mbr_hand_did(hand,
                hand->call.module_function(wanted[i].function, kernels->module, wanted[i].name),
                wanted[i].name))
            return false;
    return true;
}

bool mbr_kernels_open(mbr_hand *hand, mbr_kernels *kernels)
{
    *kernels = (mbr_kernels){0};
    return open_words(hand, kernels) &&
        mbr_hand_did(hand, hand->call.module_load(&kernels->module, mbr_kernels_source[0].text),
            "cuModuleLoadData") &&
        open_functions(hand, kernels);
}

bool mbr_kernels_close(mbr_hand *hand, mbr_kernels *kernels)
{
    bool done = true;
    if (kernels->flag != NULL) { /* a round that failed may have left a kernel that spins */
        mbr_kernels_let_go(kernels);
        done = mbr_hand_did(hand, hand->call.context_synchronize(), "cuCtxSynchronize");
    }
    if (kernels->module != NULL)
        done =
            mbr_hand_did(hand, hand->call.module_unload(kernels->module), "cuModuleUnload") && done;
    if (kernels->flag != NULL)
        done = mbr_hand_did(
                   hand, hand->call.host_free((void *)(uintptr_t)kernels->flag), "cuMemFreeHost") &&
            done;
    return done;
}

static bool launch(mbr_hand *hand, mbr_cuda_function kernel, unsigned blocks, unsigned threads,
    mbr_cuda_stream stream, void **arguments)
{
    return mbr_hand_did(hand,
        hand->call.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL),
        "cuLaunchKernel");
}

static uint64_t address_of(volatile uint32_t *word)
{
    return (uint64_t)(uintptr_t)word;
}

bool mbr_kernels_hold(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_stream stream)
{
    __atomic_store_n(kernels->flag, 0, __ATOMIC_SEQ_CST);
    uint64_t flag = address_of(kernels->flag);
    return launch(hand, kernels->spin, 1, 1, stream, (void *[]){&flag});
}

void mbr_kernels_let_go(mbr_kernels *kernels)
{
    __atomic_store_n(kernels->flag, 1, __ATOMIC_SEQ_CST);
}

bool mbr_kernels_tell(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_stream stream, uint32_t value)
{
    uint64_t at = address_of(kernels->seen);
    return launch(hand, kernels->store, 1, 1, stream, (void *[]){&at, &value});
}

bool mbr_kernels_read(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, mbr_cuda_stream stream)
{
    uint64_t pieces = bytes / PIECE_BYTES, result = address_of(kernels->seen);
    return launch(hand, kernels->read_all, GRID_COUNT, BLOCK_THREADS, stream,
        (void *[]){&address, &pieces, &result});
}

bool mbr_kernels_write(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, uint32_t seed, mbr_cuda_stream stream)
{
    uint64_t pieces = bytes / PIECE_BYTES;
    return launch(hand, kernels->write_all, GRID_COUNT, BLOCK_THREADS, stream,
        (void *[]){&address, &pieces, &seed});
}

bool mbr_kernels_check(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, uint32_t seed, mbr_cuda_stream stream)
{
    uint64_t pieces = bytes / PIECE_BYTES, result = address_of(kernels->seen);
    return launch(hand, kernels->check_all, GRID_COUNT, BLOCK_THREADS, stream,
        (void *[]){&address, &pieces, &seed, &result});
}

/* ---- Attention */
bool mbr_kernels_write_floats(mbr_hand *hand, mbr_kernels *kernels, mbr_cuda_address address,
    uint64_t bytes, uint32_t seed, mbr_cuda_stream stream)
{
    uint64_t words = bytes / sizeof(float);
    return launch(hand, kernels->write_floats, GRID_COUNT, BLOCK_THREADS, stream,
        (void *[]){&address, &words, &seed});
}

bool mbr_kernels_attend(mbr_hand *hand, mbr_kernels *kernels, const struct mbr_attend_job *job,
    mbr_cuda_address job_address, uint64_t offset_bytes, mbr_cuda_stream stream)
{
    return mbr_hand_did(hand,
        hand->call.launch(kernels->attend, (unsigned)job->heads, (unsigned)job->sequences, 1,
            BLOCK_THREADS, 1, 1, 0, stream, (void *[]){&job_address, &offset_bytes}, NULL),
        "cuLaunchKernel");
}
