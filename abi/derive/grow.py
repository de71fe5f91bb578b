#!/usr/bin/python3
"""Writes a copy of the public headers in which every growable struct is 16 bytes longer (rule 21),
as if a minor 1 had appended to each: two words, and two optional slots in a vtable. What follows
from the contract headers is derived anew, so that the copy is a contract of its own whose minor 0
is today's.

  grow.py ROOT OUT           writes OUT/abi, OUT/host/include, OUT/governor

Also the witness: C with one function for each struct, because a struct that no function names is
invisible to abidiff; and headers without what was appended, because a suppression of abidiff would
hide every other change of the same struct.
"""
import glob
import os
import re
import sys

import contract as model
import derive

FOLDERS = ('abi', 'host/include', 'governor')  # each with membrane/*.h
# Begins every vtable and so can never grow: what follows it is a slot.
FROZEN = {'mbr_vtable_head'}
STRUCT = re.compile(r'^(?:typedef )?struct (\w+) \{\n(.*?)^\}( \w+)?;\n', re.M | re.S)
MINOR = '#define MBR_MINOR_0 0\n'


def headers(folder):
    return sorted(glob.glob(os.path.join(folder, 'membrane', '*.h')))


def is_growable(body):
    return re.match(r'\s*uint32_t struct_size;', body) is not None


def first_slot(body):
    """The parameters of a vtable's first slot."""
    found = re.search(r'mbr_status \(\*\w+\)\((.*?)\);', body, re.S)
    return ' '.join(found.group(1).split())


def appended(name, body):
    if not name.endswith('_vtable'):
        return ''.join(f'    uint64_t grown_{n}; /* since 1 */\n' for n in (0, 1))
    parameters = first_slot(body)
    return ''.join(f'    /* since 1 [any-thread] */\n    mbr_status (*grown_{n})({parameters});\n'
                   for n in (0, 1))


def grow(text):
    def longer(found):
        name, body = found.group(1), found.group(2)
        if name in FROZEN or not is_growable(body):
            return found.group(0)
        end = found.end(2) - found.start()
        return found.group(0)[:end] + appended(name, body) + found.group(0)[end:]
    grown = STRUCT.sub(longer, text)
    return grown.replace(MINOR, f'{MINOR}#define MBR_MINOR_1 1 /* since 1 */\n')


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def grow_tree(root, out):
    for folder in FOLDERS:
        for path in headers(os.path.join(root, folder)):
            write(os.path.join(out, os.path.relpath(path, root)), grow(derive.read(path)))
    _, files = derive.derive(out)
    for path, text in files.items():
        write(os.path.join(out, path), text)


def fields_of(body):
    """The declarations in a struct, without comments."""
    bare = re.sub(r'/\*.*?\*/', ' ', body, flags=re.S)
    return [' '.join(field.split()) for field in bare.split(';') if field.strip()]


def field_counts(folder):
    """{struct: number of its fields} of the headers in folder/membrane."""
    return {name: len(fields_of(body)) for path in headers(folder)
            for name, body, _ in STRUCT.findall(derive.read(path))}


def cut_back(text, counts):
    """A header without the fields that its growable structs got after `counts` was taken."""
    def shorter(found):
        name, body = found.group(1), found.group(2)
        if name not in counts or not is_growable(body):
            return found.group(0)
        kept = ''.join(f'    {field};\n' for field in fields_of(body)[:counts[name]])
        return found.group(0).replace(body, kept)
    return STRUCT.sub(shorter, text)


def witness(names):
    lines = ['#include "membrane/membrane.h"', '#include "membrane/membrane_plugin.h"', '']
    for name in names:
        function = f'witness_{name}'
        lines += [f'__attribute__((visibility("default"))) void {function}(const struct {name} *);',
                  f'void {function}(const struct {name} *it)', '{', '    (void)it;', '}']
    return '\n'.join(lines) + '\n'


def main(arguments):
    if len(arguments) != 2:
        sys.stderr.write(__doc__)
        return 2
    try:
        grow_tree(*arguments)
    except model.Refused as refusal:
        sys.stderr.write(f'{refusal}\n')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
