"""A fuzz target in its two forms."""

def fuzz_target(name, deps, rounds, corpus = None, **kwargs):
    """tests/fuzz/NAME.c as the test NAME_test, and for libFuzzer as NAME_fuzzer.

    Args:
      name: of the target and its file.
      deps: what the file includes.
      rounds: how many mutations the test makes of the corpus.
      corpus: whose corpus; its own where it is not said.
      **kwargs: for the test.
    """
    corpus = corpus or name
    native.cc_library(
        name = name,
        testonly = 1,
        srcs = [name + ".c"],
        deps = [":input"] + deps,
        alwayslink = 1,
    )
    native.cc_test(
        name = name + "_test",
        size = "small",
        srcs = ["replay.c"],
        args = [
            "tests/fuzz/corpus/" + corpus,
            str(rounds),
        ],
        data = native.glob(["corpus/%s/**" % corpus]),
        deps = [
            ":input",
            ":" + name,
        ],
        **kwargs
    )

    # Built with --config=fuzz alone, by .ci/fuzz: clang's own main.
    native.cc_binary(
        name = name + "_fuzzer",
        testonly = 1,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name],
    )
