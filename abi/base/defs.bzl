"""What tests compile once more."""

def compiled_again(fibers = False):
    """The package's sources, which tests/compat builds against other headers.

    Args:
      fibers: whether tests/sched, too, compiles them: for fibers, some with a step less.
    """
    sched = ["//tests/sched:__pkg__"] if fibers else []
    native.filegroup(
        name = "sources",
        srcs = native.glob(
            [
                "**/*.c",
                "**/*.h",
            ],
            allow_empty = True,
        ),
        visibility = ["//tests/compat:__pkg__"] + sched,
    )
    if fibers:
        native.exports_files(
            native.glob(["*.c"]),
            visibility = sched,
        )
