// Runs something in a forked child, which must not run what the parent has registered for its end.
#ifndef MEMBRANE_TESTS_SUPPORT_CHILD_H
#define MEMBRANE_TESTS_SUPPORT_CHILD_H

#include <cstdint>
#include <sys/wait.h>
#include <unistd.h>

namespace membrane
{

// The number that `work` gave in a child, or -1 if the child died. A child has no other thread and
// shares nothing that it changes: what it finds wrong it says by its number, up to 255.
template <typename Work> int in_child(Work work)
{
    pid_t child = fork();
    if (child == 0)
        _exit(work());
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0)
        continue;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace membrane

#endif
