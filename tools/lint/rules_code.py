"""Rules that need to know C: format, who includes whom, and whether each header stands alone.

The programs used (clang-format, gcc, clang, shellcheck, bazel) are found in PATH. A program that is
absent is an error of the set-up and ends the run; it is never a rule that passed.
"""

import concurrent.futures
import os
import re
import subprocess

from rules_text import Finding

C_SUFFIXES = (".c", ".h", ".cc")
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-D_GNU_SOURCE"]

# Folders whose `membrane/` subfolder holds public headers, included as "membrane/NAME.h".
PUBLIC_ROOTS = ("abi", "governor", "host/include")

# What each part may include, by the longest matching prefix of the including file. A folder may
# always include itself. docs/examples see what a user sees.
MAY_INCLUDE = {
    "abi/": (),
    "abi/membrane/": (),
    "abi/base/": ("abi/",),
    "governor/": ("abi/",),
    "host/": ("abi/", "governor/"),
    "plugins/": ("abi/", "plugins/common/"),
    "tools/": ("abi/", "governor/", "host/"),
    "tools/check/": ("abi/", "tools/cli/text.h"),
    # A driver's prototypes, which baselines call by hand; no plugin's code.
    "tools/bench/gpu/": ("abi/", "governor/", "host/", "tools/", "plugins/cuda/driver.h"),
    "docs/": ("abi/membrane/", "governor/membrane/", "host/include/"),
    "tests/": ("",),
}

# The same rule asked of Bazel, which also sees data and indirect dependencies.
FORBIDDEN_DEPENDENCIES = (
    ("//abi/...", "governor|host|plugins|tools|tests"),
    ("//governor/...", "host|plugins|tools|tests"),
    ("//host/...", "plugins|tools|tests"),
    ("//plugins/...", "governor|host|tools|tests"),
    ("//tools/check/...", "governor|host|plugins|tests"),
)


def run(command, **kwargs):
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **kwargs)


def chunks(items, size):
    return [items[start:start + size] for start in range(0, len(items), size)]


def in_parallel(work, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for findings in pool.map(work, items):
            yield from findings


DIAGNOSTIC = re.compile(r"^(?:\./)?([^:\s]+):(\d+):(?:\d+:)? (?:fatal )?(?:error|warning): (.*)")


def clang_format(tree):
    """Each C and C++ file is as clang-format writes it."""

    def check(paths):
        done = run(["clang-format", "--dry-run", "-Werror", "--style=file"] + paths, cwd=tree.root)
        seen = set()
        for line in done.stdout.splitlines():
            found = DIAGNOSTIC.match(line)
            if found and found.group(1) not in seen: # one line a file is enough: -i repairs it
                seen.add(found.group(1))
                yield Finding(found.group(1), int(found.group(2)), "run clang-format -i")
        if done.returncode != 0 and not seen:
            yield Finding(paths[0], 1, f"clang-format: {done.stdout.strip()[-300:]}")

    yield from in_parallel(lambda paths: list(check(paths)), chunks(tree.ending(*C_SUFFIXES), 24))


INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def resolve(tree, including, included):
    """The path of an included file below the root, or None."""
    if included.startswith("membrane/"):
        candidates = [f"{root}/{included}" for root in PUBLIC_ROOTS]
    else:
        candidates = [included, os.path.join(os.path.dirname(including), included)]
    for candidate in candidates:
        if os.path.isfile(tree.full(candidate)):
            return os.path.normpath(candidate)
    return None


def owner(path, prefixes):
    return max((prefix for prefix in prefixes if path.startswith(prefix)), key=len, default=None)


def part_of(path):
    """The folder that a file may include freely: plugins/host/ for a plugin, else the rule's own."""
    if path.startswith("plugins/"):
        return "/".join(path.split("/")[:2]) + "/"
    return owner(path, MAY_INCLUDE)


def includes(tree):
    """abi <- abi/base <- governor <- host <- tools; abi, abi/base <- plugins; nothing <- tests."""
    for path in tree.ending(*C_SUFFIXES):
        rule = owner(path, MAY_INCLUDE)
        if rule is None:
            yield Finding(path, 1, "the folder has no rule of what it may include")
            continue
        allowed = MAY_INCLUDE[rule] + (part_of(path),)
        for number, line in enumerate(tree.text(path) or [], 1):
            found = INCLUDE.match(line)
            target = resolve(tree, path, found.group(1)) if found else None
            if target and not target.startswith(allowed):
                yield Finding(path, number, f"{rule} may not include {target}")


def is_public(path):
    return any(path.startswith(f"{root}/membrane/") for root in PUBLIC_ROOTS)


def header_compilers(path):
    """Lists of commands; the header must pass one command of each list."""
    gcc = [["gcc", "-std=c17", "-x", "c"]]
    gxx = [["g++", "-std=c++17", "-x", "c++"]]
    if is_public(path):
        return [gcc, gxx, [["clang", "-std=c17", "-x", "c"]], [["clang++", "-std=c++17", "-x", "c++"]]]
    if path.startswith("tests/"): # a header of tests may be one of C or of C++
        return [gcc + gxx]
    return [gcc]


def headers_alone(tree):
    """Each header compiles with nothing before it, twice over: public ones in C and C++."""
    flags = WARNINGS + ["-fsyntax-only", "-I."] + [f"-I{root}" for root in PUBLIC_ROOTS]

    def check(path):
        findings = []
        source = f'#include "{path}"\n' * 2
        for alternatives in header_compilers(path):
            for command in alternatives:
                done = run(command + flags + ["-"], cwd=tree.root, input=source)
                if done.returncode == 0:
                    break
            else:
                found = re.search(DIAGNOSTIC.pattern, done.stdout, re.MULTILINE)
                where = (found.group(1), int(found.group(2))) if found else (path, 1)
                what = found.group(3) if found else done.stdout.strip()[-300:]
                findings.append(Finding(*where, f"{path} alone, {command[0]}: {what}"))
        return findings

    yield from in_parallel(check, tree.ending(".h"))


def shell(tree):
    """Each shell script passes shellcheck."""
    scripts = [
        path for path in tree.paths
        if path.endswith(".sh") or re.match(r"#!.*\b(ba)?sh\b", (tree.text(path) or [""])[0])]
    if not scripts:
        return
    done = run(["shellcheck", "-f", "gcc"] + scripts, cwd=tree.root)
    pattern = re.compile(r"^([^:]+):(\d+):\d+: \w+: (.*)")
    for line in done.stdout.splitlines():
        found = pattern.match(line)
        yield Finding(found.group(1), int(found.group(2)), found.group(3)) if found else Finding(
            scripts[0], 1, line)


def dependencies(tree):
    """What Bazel says of the same rule. genquery refuses //plugins/..., hence filter()."""
    for targets, forbidden in FORBIDDEN_DEPENDENCIES:
        if not os.path.isdir(tree.full(targets.strip("/.").rstrip("/"))):
            continue
        done = subprocess.run(
            ["bazel", "query", "--noshow_progress", "--output=label",
             f'filter("^//({forbidden})[/:]", deps({targets}))'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, cwd=tree.root)
        build_file = targets.strip("/.") + "/BUILD"
        if done.returncode != 0:
            yield Finding(build_file, 1, f"bazel query: {done.stderr.strip()[-500:]}")
        for label in done.stdout.split():
            yield Finding(build_file, 1, f"{targets} depends on {label}")


SLOTS = "abi/derive/slots.h"


def library_of(tree, path):
    """The text of the cc_library that compiles the file, from the nearest BUILD file."""
    folder = os.path.dirname(path)
    while folder and f"{folder}/BUILD" not in tree.paths:
        folder = os.path.dirname(folder)
    text = "\n".join(tree.text(f"{folder}/BUILD") or [])
    own = f'"{os.path.relpath(path, folder)}"' if folder else ""
    for block in re.findall(r"^cc_library\(.*?^\)", text, re.M | re.S):
        takes_all = re.search(r'srcs = glob\(\s*\["\*\.c"\]', block)
        if own in block or (takes_all and os.path.dirname(path) == folder):
            return block
    return ""


def slot_callers(tree):
    """Each file of the host that calls a slot is compiled without unwind tables (rule 26)."""
    listed = "\n".join(tree.text(SLOTS) or [] if SLOTS in tree.paths else [])
    names = "|".join(sorted(set(re.findall(r"X\(\w+, (\w+),", listed))))
    # A slot's first argument is an instance, or NULL where there is none yet.
    call = re.compile(rf"(?:\.|->)(?:{names})\(\s*(?:(?:\w+(?:\.|->))*instance|NULL),\s*&"
                      rf"|\bCALL\(\w+, \w+\.(?:{names}), &")
    for path in tree.ending(".c"):
        if not names or not path.startswith("host/"):
            continue
        text = "\n".join(tree.text(path) or [])
        found = call.search(text)
        if found and "SLOT_CALLER_COPTS" not in library_of(tree, path):
            yield Finding(path, text.count("\n", 0, found.start()) + 1,
                          "it calls a slot; its library needs copts = SLOT_CALLER_COPTS")


def order_callers(tree):
    """Lines and streams are called by an EP's context alone (host/ep/slot.c), and by the stand-ins for what is
    absent: never by the manager, the backing, an allocation or the governor (I23)."""
    call = re.compile(r"(?:\.|->)(?:order|transfer)(?:\.|->)\w+\(|\bCALL\(\w+, (?:order|transfer)\.")
    for path in tree.ending(".c"):
        if not path.startswith(("governor/", "host/")) or path == "host/ep/slot.c":
            continue
        for number, line in enumerate(tree.text(path) or [], 1):
            if call.search(line):
                yield Finding(path, number, "a slot of order or transfer is called by host/ep/slot.c alone")


RULES = (clang_format, includes, headers_alone, shell, slot_callers, order_callers, dependencies)
