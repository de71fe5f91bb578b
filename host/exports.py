"""The functions of the client interface, as the public headers declare them with MBR_API.

    exports.py --reference HEADER...   a C file that refers to each, so that linking the library from
                                       its archives takes every one of them along
    exports.py --list HEADER...        their names, one a line
"""

import re
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# A declaration: the mark, a type, a name, a parenthesis. `typedef` and `#define` never match.
DECLARATION = re.compile(r"^MBR_API\s[^;(]*?\b(mbr_\w+)\s*\(", re.MULTILINE)


def declared(texts):
    """Names in the order of the headers; a doubled one is an error of the headers."""
    names = [name for text in texts for name in DECLARATION.findall(COMMENT.sub("", text))]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise ValueError(f"declared twice: {', '.join(sorted(doubled))}")
    return names


def reference(names):
    lines = "".join(f"    (mbr_exported){name},\n" for name in names)
    return ("/* Generated from the public headers: the library's whole interface, so that nothing of "
            "it is\n * left out of the shared object. */\n"
            '#include "membrane/membrane.h"\n\n'
            "typedef void (*mbr_exported)(void);\n\n"
            "__attribute__((used)) static const mbr_exported exported[] = {\n" + lines + "};\n")


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("--reference", "--list"):
        sys.exit(__doc__)
    texts = []
    for path in arguments[1:]:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    names = declared(texts)
    print(reference(names) if arguments[0] == "--reference" else "\n".join(names), end="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
