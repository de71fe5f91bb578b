// Identities: a handle names one object for ever, whatever comes and goes beside it.
#include "tests/unit/bind/host_world.h"

#include <string>

namespace membrane
{
namespace
{

struct Opened {
    mbr_plugin_handle plugin;
    mbr_mechanism_handle mechanism;
};

Opened open(HostWorld &world)
{
    Opened opened = {};
    mbr_plugin_open_request file = sized<mbr_plugin_open_request>();
    file.name = plugin_under_test().path;
    file.flags = MBR_PLUGIN_TRUSTED;
    EXPECT_EQ(mbr_manager_open_plugin(world.manager, &file, &opened.plugin, &world.error), MBR_OK)
        << world.error.text;
    mbr_mechanism_open_request request = sized<mbr_mechanism_open_request>();
    request.plugin = opened.plugin;
    EXPECT_EQ(mbr_manager_open_mechanism(world.manager, &request, &opened.mechanism, &world.error),
        MBR_OK)
        << world.error.text;
    return opened;
}

mbr_status read_name(HostWorld &world, mbr_mechanism_handle mechanism, std::string *name)
{
    mbr_mechanism_figures figures = sized<mbr_mechanism_figures>();
    mbr_status status =
        mbr_manager_read_mechanism(world.manager, mechanism, &figures, &world.error);
    *name = figures.name;
    return status;
}

void close(HostWorld &world, const Opened &opened)
{
    EXPECT_EQ(mbr_manager_close_mechanism(world.manager, opened.mechanism, &world.error), MBR_OK)
        << world.error.text;
    EXPECT_EQ(mbr_manager_close_plugin(world.manager, opened.plugin, &world.error), MBR_OK)
        << world.error.text;
}

TEST(Identity, PluginClosedInTheMiddle_OthersKeepTheirs)
{
    HostWorld world;
    Opened three[] = {open(world), open(world), open(world)};
    std::string name, first_name = world.figures().name;
    close(world, three[1]);
    for (const Opened &kept : {three[0], three[2]}) {
        EXPECT_EQ(read_name(world, kept.mechanism, &name), MBR_OK) << world.error.text;
        EXPECT_EQ(name, first_name);
    }
    EXPECT_NE(read_name(world, three[1].mechanism, &name), MBR_OK);
    EXPECT_NE(mbr_manager_close_plugin(world.manager, three[1].plugin, &world.error), MBR_OK);

    // Its place may be taken again, its identity never.
    Opened next = open(world);
    EXPECT_NE(next.plugin.value, three[1].plugin.value);
    EXPECT_NE(next.mechanism.value, three[1].mechanism.value);
    EXPECT_NE(read_name(world, three[1].mechanism, &name), MBR_OK);
    for (const Opened &opened : {three[0], three[2], next})
        close(world, opened);
}

} // namespace
} // namespace membrane
