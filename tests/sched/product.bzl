"""The product's own files, compiled for fibers, and twins of them that lack one step."""

_BASE = [
    "error",
    "fork",
    "growable",
    "lock",
    "seam",
]

_GOVERNOR = [
    "admission",
    "arbiter",
    "asking",
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
    "shared_outside",
    "shared_page",
    "snapshot",
    "ticket",
]

_EP = [
    "audit",
    "capture",
    "chore",
    "context",
    "gate",
    "lines",
    "pool",
    "queue",
    "reactivate",
    "reap",
    "reaper",
    "signal",
    "slot",
    "stream",
    "thread",
]

_ALLOC = [
    "alloc",
    "arena",
    "audit",
    "cache",
    "class",
    "free",
    "map",
    "payer",
    "quarantine",
    "reactivate",
    "slab",
    "state",
    "table",
]

_BACKING = [
    "addresses",
    "ahead",
    "alias",
    "audit",
    "backing",
    "carry_out",
    "evict",
    "extent",
    "extent_rule",
    "groups",
    "grow",
    "hold",
    "plan",
    "port",
    "port_books",
    "prefix",
    "quarantine",
    "range",
    "release",
    "runs",
    "seal",
    "span",
]

# What scenarios run: by the name of the world that they are in.
_FILES = {
    "governor": {
        "//abi/base": _BASE,
        "//governor": _GOVERNOR,
    },
    "ep": {
        "//abi/base": _BASE,
        "//host/ep": _EP,
        "//host/loader": ["call"],
    },
    "alloc": {
        "//abi/base": _BASE,
        "//governor": _GOVERNOR,
        "//host/alloc": _ALLOC,
        "//host/ep": _EP,
        "//host/loader": ["call"],
    },
    "backing": {
        "//abi/base": _BASE + ["interval_tree"],
        "//governor": _GOVERNOR,
        "//host/alloc": _ALLOC,
        "//host/backing": _BACKING,
        "//host/ep": _EP,
        "//host/loader": ["call"],
    },
    "giver": {
        "//abi/base": _BASE,
        "//host/bind": ["giver"],
    },
    "kv": {
        "//abi/base": _BASE,
        "//host/backing": ["extent_rule"],
        "//host/holder/geometry": [
            "commit",
            "error",
            "extents",
            "layout",
            "model",
            "nearest",
        ],
        "//host/holder/kv": [
            "ahead",
            "grow",
            "pace",
        ],
    },
}

# Files with a header before them: it has the journal see what they do, or scenarios look.
_HEADED = [
    "audit",
    "ticket",
]

# What reads the insides of a world's structs for its scenarios.
_DOORS = {
    "governor": "door",
    "ep": "ep_door",
    "alloc": "ep_door",
    "backing": "ep_door",
    "giver": "giver_door",
    "kv": "kv_door",
}

# What the files of a world's scenarios include.
_INCLUDED = {
    "governor": [":governor_world"],
    "ep": [
        ":ep",
        ":ep_world",
    ],
    "alloc": [
        ":ep",
        ":product_headers",
    ],
    "backing": [
        ":backing",
        ":backing_world",
        ":ep",
        ":product_headers",
    ],
    "giver": [
        ":engine",
        ":explore",
    ],
    "kv": [
        ":engine",
        ":explore",
    ],
}

# Whoever replays the journals.
_READERS = ["//tests/model:__pkg__"]

def _object(name, source, stem, copts = []):
    if stem in _HEADED:
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

def _object_of(package, stem):
    return "object_%s_%s" % (package.strip("/").replace("/", "_"), stem)

def _objects(world, without = None):
    return [
        ":" + _object_of(package, stem)
        for package, stems in _FILES[world].items()
        for stem in stems
        if package + ":" + stem != without
    ] + [":object_" + _DOORS[world]]

def product(world):
    """Every file of the product that the world's scenarios run, and the door to its structs."""
    for package, stems in _FILES[world].items():
        for stem in stems:
            name = _object_of(package, stem)
            if not native.existing_rule(name):
                _object(name, "%s:%s.c" % (package, stem), stem)
    if not native.existing_rule("object_" + _DOORS[world]):
        _object("object_" + _DOORS[world], _DOORS[world] + ".c", _DOORS[world])
    native.cc_library(
        name = world + "_product",
        testonly = 1,
        deps = _objects(world),
    )

def twin(name, stem, edit, test, scenario, package = "//governor", world = "governor"):
    """A twin: the product with one step taken out of one file, and the scenario that must notice.

    Args:
      name: of the test: what is missing.
      stem: the file that is changed.
      edit: a sed script, which must change it.
      test: the test that has the scenario.
      scenario: a filter of GoogleTest.
      package: of the file.
      world: of the test.
    """
    native.genrule(
        name = name + "_source",
        srcs = ["%s:%s.c" % (package, stem)],
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
        ] + _objects(world, without = package + ":" + stem),
    )

def ep_twin(name, **more):
    """A twin with one step less in the release queue."""
    twin(name = name, package = "//host/ep", world = "ep", **more)

def alloc_twin(name, **more):
    """A twin with one step less in plain allocations."""
    twin(name = name, package = "//host/alloc", test = "alloc", world = "alloc", **more)

def backing_twin(name, test = "backing", **more):
    """A twin with one step less in the backing."""
    twin(name = name, package = "//host/backing", test = test, world = "backing", **more)

def giver_twin(name, **more):
    """A twin with one step less in who answers for a holder."""
    twin(name = name, package = "//host/bind", stem = "giver", test = "giver", world = "giver", **more)

def kv_twin(name, **more):
    """A twin with one step less in a KV cache's growth."""
    twin(name = name, package = "//host/holder/kv", test = "offer", world = "kv", **more)

def scenarios(name, world = "governor"):
    """The test NAME_test, whose file twins run too."""
    native.cc_library(
        name = name + "_scenarios",
        testonly = 1,
        srcs = [name + "_test.cc"],
        deps = _INCLUDED[world] + ["@googletest//:gtest"],
        alwayslink = 1,
        linkstatic = 1,
    )
    native.cc_test(
        name = name + "_test",
        size = "medium",
        tags = ["fibers"],
        visibility = _READERS,
        deps = [
            ":" + name + "_scenarios",
            ":%s_product" % world,
            "@googletest//:gtest_main",
        ],
    )
