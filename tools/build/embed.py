#!/usr/bin/python3 -B
"""Writes C source that holds files as constants: `embed.py SYMBOL OUT.c NAME=FILE ...`.

The table SYMBOL has one row {name, text} for each file, in the order given, and a last row of NULLs.
"""

import sys


def literal(data):
    """The bytes as string literals, one a line of the file."""
    escapes = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\t"): "\\t"}
    lines = []
    for line in data.splitlines(keepends=True):
        text = "".join(escapes.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in line)
        lines.append(f'        "{text}"')
    return "\n".join(lines) or '        ""'


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: embed.py SYMBOL OUT.c NAME=FILE ...")
    symbol, out = sys.argv[1:3]
    rows = []
    for pair in sys.argv[3:]:
        name, _, path = pair.partition("=")
        with open(path, "rb") as file:
            rows.append(f'    {{"{name}",\n{literal(file.read())}}},\n')
    with open(out, "w", encoding="ascii") as file:
        file.write('/* Written by tools/build/embed.py. */\n#include "tools/build/embed.h"\n\n'
                   f"const mbr_embedded {symbol}[] = {{\n{''.join(rows)}    {{0, 0}},\n}};\n")


if __name__ == "__main__":
    main()
