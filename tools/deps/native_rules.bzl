"""The repositories `rules_cc` and `rules_java` without a network.

The toolchains of Bazel 4, which Debian 12 has, load these rules from repositories that it would fetch,
though they are in Bazel itself.
"""

def _write(context):
    lines = ["{0} = native.{0}".format(rule) for rule in context.attr.rules]
    context.file(context.attr.language + "/BUILD")
    context.file(context.attr.language + "/defs.bzl", "\n".join(lines) + "\n")

_native_rules = repository_rule(
    implementation = _write,
    attrs = {
        "language": attr.string(mandatory = True),
        "rules": attr.string_list(mandatory = True),
    },
)

def native_rules():
    """Declares both, but leaves a Bazel other than 4 its own, whose toolchains may load more."""
    if not (native.bazel_version or "4.").startswith("4."):  # Debian's 4.2.3 says no version
        return
    _native_rules(
        name = "rules_cc",
        language = "cc",
        rules = [
            "cc_binary",
            "cc_import",
            "cc_library",
            "cc_test",
            "cc_toolchain",
            "cc_toolchain_suite",
        ],
    )
    _native_rules(
        name = "rules_java",
        language = "java",
        rules = [
            "java_binary",
            "java_import",
            "java_library",
            "java_runtime",
            "java_toolchain",
        ],
    )
