// A forked child of the process that loaded a plugin (rule 27): its calls are refused with a status
// that says so, unless the plugin's note says that it may; the parent goes on.
#include "tests/support/child.h"
#include "tests/unit/loader/support.h"

#include <gtest/gtest.h>

#include <cstring>

namespace
{

using membrane::in_child;

bool is_refused(mbr_status status, const Error &error)
{
    return status == MBR_STALE && error.status == MBR_STALE &&
        strstr(error.text, "fork") != nullptr && strstr(error.text, "specimen") != nullptr;
}

// Of the steps that a child tries, the first that is not refused; 0 if all are.
int first_not_refused(Specimen &specimen)
{
    mbr_mechanism_description description;
    mbr_mechanism second;
    Error errors[3];
    if (!is_refused(
            mbr_module_describe(specimen.opened.module, 0, &description, &errors[0]), errors[0]))
        return 1;
    if (!is_refused(
            mbr_mechanism_open(specimen.opened.module, &specimen.options, &second, &errors[1]),
            errors[1]))
        return 2;
    if (!is_refused(mbr_mechanism_close(&specimen.mechanism, &errors[2]), errors[2]))
        return 3;
    return specimen.mechanism.instance == nullptr ? 4 : 0;
}

TEST(Fork, Child_IsRefusedAndTheParentGoesOn)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    specimen_counts before = specimen.counts();
    EXPECT_EQ(in_child([&] { return first_not_refused(specimen); }), 0);
    // Nothing of the plugin ran there, which a grandchild sees as well.
    EXPECT_EQ(in_child([&] { return in_child([&] { return first_not_refused(specimen); }); }), 0);
    EXPECT_EQ(memcmp(&before, &specimen.counts(), sizeof before), 0);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

TEST(Fork, ChildOfAForkSafePlugin_MayUseIt)
{
    Specimen specimen("forksafe");
    ASSERT_EQ(specimen.open(), MBR_OK);
    EXPECT_EQ(specimen.mechanism.fork, nullptr);
    EXPECT_EQ(in_child([&] {
        mbr_mechanism second;
        if (mbr_mechanism_open(specimen.opened.module, &specimen.options, &second, nullptr) !=
            MBR_OK)
            return 1;
        return mbr_mechanism_close(&second, nullptr) == MBR_OK &&
                mbr_mechanism_close(&specimen.mechanism, nullptr) == MBR_OK
            ? 0
            : 2;
    }),
        0);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

TEST(Fork, Child_MayLoadThePluginItself)
{
    Specimen specimen;
    ASSERT_EQ(specimen.open(), MBR_OK);
    EXPECT_EQ(in_child([&] {
        Opened own(specimen.path, true);
        mbr_mechanism mechanism;
        if (own.status != MBR_OK ||
            mbr_mechanism_open(own.module, &specimen.options, &mechanism, nullptr) != MBR_OK)
            return 1;
        return mbr_mechanism_close(&mechanism, nullptr) == MBR_OK ? 0 : 2;
    }),
        0);
    EXPECT_EQ(mbr_mechanism_close(&specimen.mechanism, nullptr), MBR_OK);
}

} // namespace
