// Knowing a forked child, with the page that the kernel wipes and without one.
extern "C" {
#include "abi/base/fork.h"
}
#include "tests/support/child.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sys/mman.h>

namespace
{

void *no_page(size_t)
{
    return nullptr;
}

int is_child(mbr_fork_guard &guard)
{
    return mbr_fork_guard_is_child(&guard) ? 1 : 0;
}

TEST(Fork, Guard_TellsChildrenFromTheirParent)
{
    for (bool has_page : {true, false}) {
        mbr_fork_guard guard;
        if (has_page)
            mbr_fork_guard_init(&guard);
        else
            mbr_fork_guard_init_with(&guard, no_page);
        EXPECT_FALSE(mbr_fork_guard_is_child(&guard));
        EXPECT_EQ(membrane::in_child([&] { return is_child(guard); }), 1);
        // A grandchild as well, and a guard that the child made for itself does not know it.
        EXPECT_EQ(membrane::in_child([&] {
            mbr_fork_guard own;
            mbr_fork_guard_init(&own);
            int grandchild = membrane::in_child([&] { return is_child(guard) + is_child(own); });
            return 10 * is_child(own) + grandchild;
        }),
            2);
        EXPECT_FALSE(mbr_fork_guard_is_child(&guard));
        mbr_fork_guard_finish(&guard);
    }
}

TEST(Fork, Flag_IsDownInAChild)
{
    mbr_fork_guard guard;
    mbr_fork_guard_init(&guard);
    const auto *flag = reinterpret_cast<const unsigned char *>(mbr_fork_guard_flag(&guard));
    ASSERT_NE(flag, nullptr) << "the kernel has no MADV_WIPEONFORK";
    EXPECT_NE(flag, guard.mark);
    EXPECT_EQ(*flag, 0);
    *const_cast<unsigned char *>(flag) = 1;
    EXPECT_EQ(membrane::in_child([&] { return int{*flag}; }), 0);
    EXPECT_EQ(*flag, 1);
    EXPECT_FALSE(mbr_fork_guard_is_child(&guard)); // another byte
    mbr_fork_guard_finish(&guard);
    mbr_fork_guard_init_with(&guard, no_page);
    EXPECT_EQ(mbr_fork_guard_flag(&guard), nullptr);
    mbr_fork_guard_finish(&guard);
}

TEST(Fork, Page_IsUsedHereAndGivenBack)
{
    mbr_fork_guard guard;
    mbr_fork_guard_init(&guard);
    ASSERT_NE(guard.mark, nullptr) << "the kernel has no MADV_WIPEONFORK";
    void *page = (void *)(uintptr_t)guard.mark;
    unsigned char seen;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    EXPECT_EQ(mincore(page, page_bytes, &seen), 0);
    mbr_fork_guard_finish(&guard);
    EXPECT_EQ(guard.mark, nullptr);
    EXPECT_EQ(mincore(page, page_bytes, &seen), -1);
    mbr_fork_guard_finish(&guard); // of one that has no page
}

} // namespace
