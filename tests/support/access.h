// Asks the MMU whether this process may read or write a byte, by way of a system call that copies
// it, so that nothing faults; or lets it fault, in a process that is to end by it.
#ifndef MEMBRANE_TESTS_SUPPORT_ACCESS_H
#define MEMBRANE_TESTS_SUPPORT_ACCESS_H

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <unistd.h>

namespace membrane
{

struct OneBytePipe {
    int ends[2];
    OneBytePipe() { EXPECT_EQ(pipe(ends), 0); }
    ~OneBytePipe()
    {
        ::close(ends[0]);
        ::close(ends[1]);
    }
    bool take(uint64_t address) { return ::write(ends[1], pointer(address), 1) == 1; }
    bool give(uint64_t address) { return ::read(ends[0], pointer(address), 1) == 1; }
    static void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }
};

inline bool can_read(uint64_t address)
{
    OneBytePipe pipe;
    return pipe.take(address);
}

// Rewrites the byte that it finds there.
inline bool can_write(uint64_t address)
{
    OneBytePipe pipe;
    return pipe.take(address) && pipe.give(address);
}

constexpr int kAccessFaultExit = 42;

// In the statement of an EXPECT_EXIT: a mapping that is there and may not be accessed so ends the
// process with kAccessFaultExit, any other segmentation fault with another code.
inline void exit_on_access_fault()
{
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t *info, void *) {
        _exit(info->si_code == SEGV_ACCERR ? kAccessFaultExit : kAccessFaultExit + 1);
    };
    sigaction(SIGSEGV, &action, nullptr);
}

} // namespace membrane

#endif
