"""How a backend plugin is built: one shared object, `libmembrane-NAME.so`."""

# A plugin has one visible symbol, its entry, which its own source marks and the version script lets
# through (without it the linker would add symbols of its own). Nothing unwinds through
# the boundary (no exception crosses it), so that no unwind table is needed.
PLUGIN_COPTS = [
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
]

# Beside this file: `membrane new-plugin` writes both, and the label of that place, into a plugin's folder.
PLUGIN_EXPORTS = "//plugins:plugin.lds"

# Every symbol resolved at link time and bound at load time: a plugin that lacks a function is
# refused when it is opened, not in the middle of a release. No `-z nodelete`: whether a plugin may
# leave the process is the host's decision.
PLUGIN_LINKOPTS = [
    "-Wl,-z,noexecstack",
    "-Wl,--no-undefined",
    "-Wl,-z,now",
    "-Wl,--version-script=$(location %s)" % PLUGIN_EXPORTS,
]

def membrane_plugin(name, srcs, deps = [], copts = [], linkopts = [], **kwargs):
    """Builds `libmembrane-NAME.so`, the file that the loader's search finds for plugin NAME.

    Args:
      name: the plugin's short name, such as "host"; the target is `libmembrane-<name>.so`.
      srcs: sources and private headers; the entry function and the ELF note must be here, because
        an object that comes from `deps` alone is left out of a shared object unless something
        refers to it.
      deps: libraries, among them the headers of the contract.
      copts: further compiler options.
      linkopts: further linker options.
      **kwargs: as for cc_binary (data, visibility, tags, ...).
    """
    if not srcs:
        fail("membrane_plugin %s: srcs is empty, and the shared object would be too" % name)
    native.cc_binary(
        name = "libmembrane-%s.so" % name,
        srcs = srcs,
        copts = PLUGIN_COPTS + copts,
        linkopts = PLUGIN_LINKOPTS + linkopts,
        linkshared = 1,
        deps = deps + [PLUGIN_EXPORTS],
        **kwargs
    )
