"""The repository `cuda`: the headers of a CUDA toolkit, where there is one.

Only targets tagged manual look at them, but a query over all targets walks those, too: the repository
is there without a toolkit, and then its library is empty.
"""

def _write(context):
    toolkit = context.path(context.attr.path + "/include")
    if toolkit.exists:
        context.symlink(toolkit, "include")
    context.file("BUILD", """
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
    visibility = ["//visibility:public"],
)
""")

cuda_toolkit = repository_rule(
    implementation = _write,
    attrs = {"path": attr.string(mandatory = True)},
    local = True,
)
