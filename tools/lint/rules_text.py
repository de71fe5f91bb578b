"""Rules that read a file line by line, whatever its language.

A rule takes the tree and yields findings; it never changes a file. Words that a rule forbids are put
together from parts here, so that the rule does not find itself.
"""

import os
import re

CODE_SUFFIXES = (".c", ".h", ".cc", ".py", ".bzl", ".sh")
MAX_LINES = 600
FROZEN = "abi/history/"  # copies that stay as they were published


class Finding:
    def __init__(self, path, line, what):
        self.path = path
        self.line = line
        self.what = what

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}"


class Tree:
    """The files to check, by their paths below `root`."""

    def __init__(self, root, paths):
        self.root = root
        self.paths = sorted(path for path in paths if os.path.isfile(os.path.join(root, path)))
        self._lines = {}

    def full(self, path):
        return os.path.join(self.root, path)

    def text(self, path):
        """The lines without their ends, or None for a file that is not text."""
        if path not in self._lines:
            with open(self.full(path), "rb") as file:
                data = file.read()
            try:
                text = None if b"\0" in data else data.decode("utf-8")
            except UnicodeDecodeError:
                text = None
            self._lines[path] = None if text is None else text.split("\n")
        return self._lines[path]

    def ending(self, *suffixes):
        return [path for path in self.paths
                if path.endswith(suffixes) and not path.startswith(FROZEN)]

    def is_code(self, path):
        """Whether people write this file: code, build files, scripts, pages; not data of tests."""
        name = os.path.basename(path)
        if path.startswith(FROZEN):
            return False
        if path.endswith(CODE_SUFFIXES + (".md",)) or name in ("BUILD", "WORKSPACE"):
            return True
        lines = self.text(path)
        return bool(lines) and lines[0].startswith("#!")


def matches(tree, pattern, what):
    """A finding for each line of a text file where `pattern` is found; `{0}` is what was found."""
    for path in tree.paths:
        for number, line in enumerate(tree.text(path) or [], 1):
            for found in pattern.finditer(line):
                yield Finding(path, number, what.format(found.group(0)))


def blanks(tree):
    """No tabs, no trailing blanks, no carriage returns, one newline at the end of a file."""
    for path in tree.paths:
        if not tree.is_code(path) or tree.text(path) is None:
            continue
        lines = tree.text(path)
        for number, line in enumerate(lines, 1):
            if "\t" in line:
                yield Finding(path, number, "a tab")
            if line != line.rstrip():
                yield Finding(path, number, "blanks at the end of the line")
        if lines != [""] and (lines[-1] != "" or lines[-2:] == ["", ""]):
            yield Finding(path, len(lines), "a file ends with exactly one newline")


def length(tree):
    """No source file over MAX_LINES lines."""
    for path in tree.ending(*CODE_SUFFIXES):
        count = len(tree.text(path) or [""]) - 1
        if count > MAX_LINES:
            yield Finding(path, count, f"{count} lines; a file has at most {MAX_LINES}")


def head_comment(tree):
    """Each .c file starts with what it is responsible for."""
    for path in tree.ending(".c"):
        lines = tree.text(path)
        if not lines or not lines[0].startswith(("/*", "//")):
            yield Finding(path, 1, "the file starts without a comment that says what it is for")


MACHINE_PATH = re.compile(
    r"(?<![\w./-])/(?:" + "|".join(("wo" + "rk", "ro" + "ot", "fa" + "rm")) + r")(?![\w-])"
    r"|/tmp/" + "ba" + "sh")


def machine_paths(tree):
    """No path of one particular machine."""
    yield from matches(tree, MACHINE_PATH, "'{0}' is a path of one machine")


POSTPONED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")


def postponed(tree):
    """Nothing that is left for later is left in the tree."""
    yield from matches(tree, POSTPONED, "'{0}': do it, or write an issue")


SUPPRESSION_NAME = re.compile(r"suppressions?(\.txt)?$|\.supp$")
SUPPRESSION_TEXT = re.compile(r"\b__\w+_default_" + "suppressions" + r"\b|\b" + "suppressions" + r"=")


def suppressions(tree):
    """No report of a sanitizer or of valgrind is suppressed."""
    for path in tree.paths:
        if SUPPRESSION_NAME.search(path):
            yield Finding(path, 1, "a file that suppresses reports")
    yield from matches(tree, SUPPRESSION_TEXT, "'{0}' suppresses reports")


LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def links(tree):
    """Each relative link of a page leads to a file or folder of the tree."""
    for path in tree.ending(".md"):
        for number, line in enumerate(tree.text(path) or [], 1):
            for found in LINK.finditer(line):
                target = found.group(1)
                if re.match(r"[a-z]+:", target):
                    continue
                if not os.path.exists(os.path.join(tree.root, os.path.dirname(path), target)):
                    yield Finding(path, number, f"the link to '{target}' leads nowhere")

RULES_PAGES = ("docs/rules.md", "docs/scenarios.md")
QUOTED = re.compile(r"`([^`]+)`")


def test_names(tree, folder):
    """Suite.Name of each GoogleTest and unittest in the files of one package."""
    names = set()
    for path in tree.ending(".cc", ".py"):
        if os.path.dirname(path) != folder:
            continue
        text = "\n".join(tree.text(path) or [])
        names.update(".".join(found) for found in re.findall(
            r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", text, re.M))
        for suite, body in re.findall(r"^class (\w+)\(.*?\):\n(.*?)(?=^\S|\Z)", text, re.M | re.S):
            names.update(f"{suite}.{name}" for name in re.findall(r"^    def (test_\w+)", body, re.M))
    return names


def has_target(tree, folder, name):
    """Whether the BUILD file of `folder` makes the target, by its name or from a list of stems."""
    lines = tree.text(f"{folder}/BUILD") if f"{folder}/BUILD" in tree.paths else None
    stem = name[:-len("_test")] if name.endswith("_test") else name
    return lines is not None and any(
        f'"{name}"' in line or f'"{stem}"' in line for line in lines)


def rules_page(tree):
    """Each file, target and test that the pages of rules and scenarios name exists, and each rule and
    scenario names a test."""
    for page in RULES_PAGES:
        if page in tree.paths:
            yield from rules_of_page(tree, page)


def rules_of_page(tree, page):
    known = {}
    for number, line in enumerate(tree.text(page) or [], 1):
        cells = line.strip("|").split(" | ")
        if not line.startswith("| ") or len(cells) != 4 or cells[3].strip() in ("test", "---"):
            continue
        for path in QUOTED.findall(cells[2]):
            if page == RULES_PAGES[0] and path not in tree.paths:
                yield Finding(page, number, f"there is no file '{path}'")
        folder = None
        for quoted in QUOTED.findall(cells[3]):
            if quoted.startswith("//"):
                folder, target = quoted[2:].split(":")
                if not has_target(tree, folder, target):
                    yield Finding(page, number, f"there is no target '{quoted}'")
                continue
            if folder not in known:
                known[folder] = test_names(tree, folder)
            if quoted not in known[folder]:
                yield Finding(page, number, f"there is no test '{quoted}' in '{folder}'")
        if folder is None:
            yield Finding(page, number, f"'{cells[0].strip()}' names no test")


RULES = (blanks, length, head_comment, machine_paths, postponed, suppressions, links, rules_page)
