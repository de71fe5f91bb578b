"""The product's own files, compiled for fibers, and twins of them that lack one step."""

_FILES = {
    "//abi/base": [
        "error",
        "fork",
        "growable",
        "lock",
        "seam",
    ],
    "//governor": [
        "admission",
        "arbiter",
        "audit",
        "authority",
        "books",
        "change",
        "claims",
        "credit",
        "governor",
        "holder",
        "lease",
        "limit",
        "pressure",
        "refusal",
        "shared",
        "shared_file",
        "shared_os",
        "shared_page",
        "snapshot",
        "ticket",
    ],
}

# Files with a header before them, which has the journal see what they do.
_JOURNALED = ["ticket"]

# Whoever replays the journals.
_READERS = ["//tests/model:__pkg__"]

def _object(name, source, stem, copts = []):
    if stem in _JOURNALED:
        copts = copts + ["-include", "tests/sched/shim/%s.h" % stem]
    native.cc_library(
        name = name,
        testonly = 1,
        srcs = [source],
        copts = [
            "-Itests/sched/shim",
            "-include",
            "tests/sched/shim/local.h",
        ] + copts,
        deps = [
            ":engine",
            ":product_headers",
            "//abi",
            "@system//:uthash",
        ],
        alwayslink = 1,
        linkstatic = 1,
    )

def _objects(without = None):
    return [
        ":object_" + stem
        for stems in _FILES.values()
        for stem in stems
        if stem != without
    ]

def product(name):
    """Every file of the product that the scenarios run, and the door to its structs."""
    for package, stems in _FILES.items():
        for stem in stems:
            _object("object_" + stem, "%s:%s.c" % (package, stem), stem)
    _object("object_door", "door.c", "door")
    native.cc_library(
        name = name,
        testonly = 1,
        deps = _objects(),
    )

def twin(name, stem, edit, test, scenario):
    """The product with one step less, in which a scenario must fail.

    Args:
      name: of the test: what is missing.
      stem: the governor's file that is changed.
      edit: a sed script, which must change it.
      test: the test that has the scenario.
      scenario: a filter of GoogleTest.
    """
    native.genrule(
        name = name + "_source",
        srcs = ["//governor:%s.c" % stem],
        outs = ["twins/%s/%s.c" % (name, stem)],
        cmd = "sed -E '%s' $< >$@ && ! cmp -s $< $@" % edit,
        testonly = 1,
    )

    # What the missing step used may be used by nobody else.
    _object(name + "_object", name + "_source", stem, ["-Wno-unused-function"])
    native.cc_test(
        name = name + "_twin_test",
        size = "small",
        args = [scenario],
        tags = [
            "fibers",
            "once",
        ],
        visibility = _READERS,
        deps = [
            ":twin_main",
            ":" + test + "_scenarios",
            ":" + name + "_object",
            ":object_door",
        ] + _objects(without = stem),
    )

def scenarios(name):
    """The test NAME_test, whose file twins run too."""
    native.cc_library(
        name = name + "_scenarios",
        testonly = 1,
        srcs = [name + "_test.cc"],
        deps = [
            ":world",
            "@googletest//:gtest",
        ],
        alwayslink = 1,
        linkstatic = 1,
    )
    native.cc_test(
        name = name + "_test",
        size = "small",
        tags = ["fibers"],
        visibility = _READERS,
        deps = [
            ":" + name + "_scenarios",
            ":object_door",
            ":product",
            "@googletest//:gtest_main",
        ],
    )
