"""A bad plugin: the plugin without a fault, linked once more with the name of its fault.

All code is compiled once (:parts). It holds the name of every fault as a symbol; which of them a plugin
has, the linker is told by an alias. So a further fault costs one link and no compilation.
"""

load("//plugins:defs.bzl", "PLUGIN_EXPORTS", "PLUGIN_LINKOPTS")
load(":faults.bzl", "CODE_FAULTS", "FILE_FAULTS", "HOSTILE", "PAIRS")

FILE_NAME = "libmembrane-bad.so"
FILE_NAMES = {"other_file_name": "libmembrane-other.so"}

# Not a fault: the plugin that must pass everything.
NONE = "none"

def _written(ctx):
    ctx.actions.write(ctx.outputs.out, ctx.attr.content)

written = rule(
    implementation = _written,
    doc = "A file with this content.",
    attrs = {
        "content": attr.string(mandatory = True),
        "out": attr.output(mandatory = True),
    },
)

def fault_names(name):
    """The C file NAME with the name of every fault of the code, as a symbol that a link can choose."""
    faults = [NONE] + CODE_FAULTS.keys() + HOSTILE
    written(
        name = name + "_written",
        testonly = True,
        out = name,
        content = "/* Names of faults, for the linker (bad_plugin.bzl). */\n" + "".join([
            "extern const char bad_name_{0}[];\nconst char bad_name_{0}[] = \"{0}\";\n".format(fault)
            for fault in faults
        ]),
    )

def _linked(name, faults):
    """The plugin as a file NAME, with one or two faults of the code."""
    native.cc_binary(
        name = name,
        testonly = True,
        linkopts = PLUGIN_LINKOPTS + [
            "-Wl,--strip-debug",
            "-Wl,--defsym=bad_fault=bad_name_" + faults[0],
            "-Wl,--defsym=bad_second_fault=bad_name_" + faults[-1],
        ],
        linkshared = True,
        tags = ["manual"],
        deps = [
            ":parts",
            PLUGIN_EXPORTS,
        ],
    )

def _with_fault_of_file(name, fault, plain):
    """A copy of the plugin `plain` as a file NAME, with a fault of the file."""
    native.genrule(
        name = name.replace("/", "_"),
        testonly = True,
        srcs = [plain],
        outs = [name],
        cmd = "/usr/bin/python3 -B $(location elf_faults.py) %s $< $@" % fault,
        tags = ["manual"],
        tools = ["elf_faults.py"],
    )

def bad_plugin(name, beside):
    """The plugin with this fault, or with two and a '+' between, and libraries that it wants beside it.

    They lie in a folder of that name, because the file's own name is given by the plugin's.
    """
    faults = name.split("+")
    of_file = [fault for fault in faults if fault in FILE_FAULTS]
    of_code = [fault for fault in faults if fault not in FILE_FAULTS]
    file = name + "/" + FILE_NAMES.get(name, FILE_NAME)
    if not of_file:
        _linked(file, of_code)
    elif not of_code:
        _with_fault_of_file(file, of_file[0], NONE + "/" + FILE_NAME)
    else:
        _linked(name + "/linked/" + FILE_NAME, of_code)
        _with_fault_of_file(file, of_file[0], name + "/linked/" + FILE_NAME)
    native.filegroup(
        name = name,
        testonly = True,
        srcs = [file] + beside,
        tags = ["manual"],
    )

def judged_faults():
    """Each fault or pair with its checks."""
    judged = dict(FILE_FAULTS)
    judged.update(CODE_FAULTS)
    judged.update(PAIRS)
    return judged

def bad_plugins(table, beside):
    """A target for each fault and pair, and one without a fault.

    Args:
      table: a file of each fault or pair and its checks, as JSON.
      beside: for some faults, the library that the plugin wants in its own folder.
    """
    for fault in [NONE] + judged_faults().keys() + HOSTILE:
        bad_plugin(fault, [beside[fault]] if fault in beside else [])
    written(
        name = table + "_written",
        testonly = True,
        out = table,
        content = json.encode(judged_faults()),
    )
