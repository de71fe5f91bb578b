#!/usr/bin/python3
"""Writes what follows from the contract headers (rules 13, 14, 20, 23, 25):

  abi/membrane/layout.h        minimum sizes and digests, for loaders and for the ELF note
  abi/derive/layout_asserts.h  static assertions of every size and offset
  abi/derive/slots.h           every slot with its types, to build stubs and checks from
  abi/derive/fields.h          every number in every struct, to print calls from
  docs/contract-slots.md       thread tag, creator and releaser of every slot

  derive.py ROOT            writes them
  derive.py ROOT --check    compares, names the file that differs, writes nothing
  derive.py ROOT --digest N prints the canonical text that the digest of minor N is taken of
"""
import hashlib
import os
import sys

import contract as model

SELF = 'abi/derive/derive.py'
NUMBERS = ('uint32_t', 'int32_t', 'uint64_t', 'int64_t')


def header_names(root):
    folder = os.path.join(root, 'abi/membrane')
    return sorted(n[:-2] for n in os.listdir(folder) if n.endswith('.h') and n != 'layout.h')


def canonical_text(contract, minor):
    """All that both sides must agree on at this minor, cumulative, without comments. Sorted by
    name, so that moving a declaration to another header changes nothing."""
    lines = [f'membrane contract 1 minor {minor} lp64 little']
    for name, scalar in sorted(contract.aliases.items()):
        lines.append(f'type {name} {scalar}')
    for name, (value, since) in sorted(contract.constants.items()):
        if since <= minor:
            lines.append(f'constant {name} {value}')
    for name, (signature, since) in sorted(contract.functions.items()):
        if since <= minor:
            lines.append(f'function {name} {signature}')
    for name, struct in sorted(contract.structs.items()):
        if struct.since > minor:
            continue
        lines.append(f'struct {name} {struct.min_size(minor)}')
        for field in struct.fields:
            if field.since <= minor:
                lines.append(f'  {field.offset} {field.size} {field.name} {field.ctype}')
    return '\n'.join(lines) + '\n'


def digest(contract, minor):
    text = canonical_text(contract, minor).encode('utf-8')
    return int.from_bytes(hashlib.sha256(text).digest()[:8], 'big')


def macro_stem(struct):
    return struct.name.removeprefix('mbr_').upper()


def write_layout(contract):
    lines = [
        f'/* Written by {SELF} from the contract headers; do not edit (rule 13).',
        ' * The smallest struct_size that holds every field of a minor, and the digest of a minor: the',
        ' * first 64 bits of SHA-256 over all structs, slots and constants up to it (rule 20). */',
        '#ifndef MEMBRANE_LAYOUT_H', '#define MEMBRANE_LAYOUT_H', '', '#include <stdint.h>', '']
    for minor in range(contract.highest_minor + 1):
        lines.append(f'#define MBR_DIGEST_MINOR_{minor} UINT64_C(0x{digest(contract, minor):016x})')
    lines.append('')
    for struct in contract.structs.values():
        if not struct.growable:
            continue
        for minor in range(struct.since, contract.highest_minor + 1):
            lines.append(f'#define MBR_MIN_SIZE_{macro_stem(struct)}_MINOR_{minor} '
                         f'{struct.min_size(minor)}')
    lines += ['', '#endif', '']
    return '\n'.join(lines)


def write_asserts(contract):
    lines = [
        f'/* Written by {SELF} from the contract headers; do not edit (rules 13, 14).',
        ' * Holds the compiler to the layout that the digest was taken of: the size of every struct',
        ' * and the offset and size of every field. */',
        '#ifndef MEMBRANE_DERIVE_LAYOUT_ASSERTS_H', '#define MEMBRANE_DERIVE_LAYOUT_ASSERTS_H', '',
        '#include "membrane/membrane_plugin.h"', '',
        '#ifdef __cplusplus',
        '#define MBR_LAYOUT_ASSERT(condition, text) static_assert(condition, text)',
        '#else',
        '#define MBR_LAYOUT_ASSERT(condition, text) _Static_assert(condition, text)',
        '#endif', '',
        '/* clang-format off */',
        '#define MBR_LAYOUT_SIZE(type, bytes) \\',
        '    MBR_LAYOUT_ASSERT(sizeof(type) == (bytes), "size of " #type)',
        '#define MBR_LAYOUT_FIELD(type, field, offset, bytes) \\',
        '    MBR_LAYOUT_ASSERT(offsetof(type, field) == (offset), "offset of " #type "." #field); \\',
        '    MBR_LAYOUT_ASSERT(sizeof(((type *)0)->field) == (bytes), "size of " #type "." #field)',
        '']
    for name, scalar in contract.aliases.items():
        lines.append(f'MBR_LAYOUT_SIZE({name}, {model.SCALARS[scalar]});')
    for struct in contract.structs.values():
        lines += ['', f'MBR_LAYOUT_SIZE({struct.name}, {struct.size});']
        for field in struct.fields:
            lines.append(f'MBR_LAYOUT_FIELD({struct.name}, {field.name}, {field.offset}, '
                         f'{field.size});')
    lines += ['', '#undef MBR_LAYOUT_FIELD', '#undef MBR_LAYOUT_SIZE', '/* clang-format on */',
              '', '#endif', '']
    return '\n'.join(lines)


def write_slot_lists(contract):
    lines = [
        f'/* Written by {SELF} from the contract headers; do not edit (rule 13).',
        ' * MBR_SLOTS_<TABLE>(X) calls X(table, slot, request type, outcome type, minor, serial object)',
        ' * for each slot; the serial object is "" for [any-thread]. */',
        '#ifndef MEMBRANE_DERIVE_SLOTS_H', '#define MEMBRANE_DERIVE_SLOTS_H', '',
        '#include "membrane/membrane_plugin.h"', '', '/* clang-format off */']
    for struct in contract.structs.values():
        if not struct.is_vtable:
            continue
        rows = []
        for field in struct.fields:
            if not field.slot:
                continue
            _, request, outcome, _ = field.slot.parameters
            serial = field.slot.tag.removeprefix('serial: ') if ': ' in field.slot.tag else ''
            rows.append(f'    X({struct.name}, {field.name}, {request[6:-2]}, {outcome[:-2]}, '
                        f'{field.since}, "{serial}")')
        lines += [f'#define MBR_SLOTS_{macro_stem(struct)}(X) \\', ' \\\n'.join(rows), '']
    lines += write_minor_lists(contract)
    lines += ['/* clang-format on */', '', '#endif', '']
    return '\n'.join(lines)


def write_fields(contract):
    lines = [
        f'/* Written by {SELF} from the contract headers; do not edit (rule 13).',
        ' * MBR_FIELDS_<struct>(X) calls X(struct, field) for each field that holds a number of 32 or 64',
        ' * bits and is neither struct_size nor reserved. */',
        '#ifndef MEMBRANE_DERIVE_FIELDS_H', '#define MEMBRANE_DERIVE_FIELDS_H', '',
        '#include "membrane/membrane_plugin.h"', '', '/* clang-format off */']
    for struct in contract.structs.values():
        if not struct.growable or struct.is_vtable:
            continue
        rows = [f'    X({struct.name}, {field.name})' for field in struct.fields
                if contract.aliases.get(field.ctype, field.ctype) in NUMBERS
                and field.name != 'struct_size' and not field.name.startswith('reserved_')]
        lines += [' \\\n'.join([f'#define MBR_FIELDS_{struct.name}(X)'] + rows), '']
    lines += ['/* clang-format on */', '', '#endif', '']
    return '\n'.join(lines)


def write_minor_lists(contract):
    """What a host needs of every minor, so that a new minor reaches it without a second edit."""
    minors = range(contract.highest_minor + 1)
    lines = [
        '/* The highest minor of these headers, and by minor, from 0: the digests, and the sizes of',
        ' * each vtable, 0 before it existed. For hosts alone: a plugin states its own minor. */',
        f'#define MBR_DERIVED_MINOR_MAX {contract.highest_minor}',
        f"#define MBR_DERIVED_DIGESTS {', '.join(f'MBR_DIGEST_MINOR_{m}' for m in minors)}"]
    for struct in contract.structs.values():
        if struct.is_vtable:
            stem = macro_stem(struct)
            sizes = [f'MBR_MIN_SIZE_{stem}_MINOR_{m}' if m >= struct.since else '0' for m in minors]
            lines.append(f"#define MBR_DERIVED_SIZES_{stem} {', '.join(sizes)}")
    return lines + ['']


def write_slots(contract):
    lines = [
        '# Slots of the plugin contract', '',
        f'Written by `{SELF}` from the contract headers; do not edit. One row a slot: whether a plugin',
        'must fill it (rule 19), its thread tag (rule 25), and who releases what it creates (rule 23).',
        '`any-thread`: any thread, also several at once. `serial: X`: the host makes one call at a',
        'time for one X.', '']
    created = {}
    released = {}
    for _, creators, releasers, _ in contract.ownership:
        for name in creators:
            created.setdefault(name, []).extend(releasers)
        for name in releasers:
            released.setdefault(name, []).extend(creators)
    for struct in contract.structs.values():
        if not struct.is_vtable:
            continue
        lines += [f'## `{struct.name}` ({contract.vtable_file[struct.name]})', '',
                  '| slot | required | thread | released by | releases |',
                  '| --- | --- | --- | --- | --- |']
        for field in struct.fields:
            if not field.slot:
                continue
            required = 'yes' if field.since == 0 else f'no, since minor {field.since}'
            lines.append(f'| `{field.name}` | {required} | {field.slot.tag} '
                         f'| {names(created.get(field.name))} | {names(released.get(field.name))} |')
        lines.append('')
    lines += ['## Ownership', '', 'What a call created with `MBR_OK` is released exactly once.', '',
              '| created by | released by | thread and conditions |', '| --- | --- | --- |']
    for _, creators, releasers, rule in contract.ownership:
        lines.append(f'| {names(creators)} | {names(releasers)} | {rule} |')
    return '\n'.join(lines) + '\n'


def names(slots):
    return ', '.join(f'`{s}`' for s in slots) if slots else ''


def derive(root):
    contract = model.parse_headers(os.path.join(root, 'abi/membrane'), header_names(root))
    return contract, {
        'abi/membrane/layout.h': write_layout(contract),
        'abi/derive/layout_asserts.h': write_asserts(contract),
        'abi/derive/slots.h': write_slot_lists(contract),
        'abi/derive/fields.h': write_fields(contract),
        'docs/contract-slots.md': write_slots(contract),
    }


def read(path):
    try:
        with open(path, encoding='utf-8') as file:
            return file.read()
    except FileNotFoundError:
        return None


def main(arguments):
    if not arguments or (len(arguments) > 1 and arguments[1] not in ('--check', '--digest')):
        sys.stderr.write(__doc__)
        return 2
    root = arguments[0]
    try:
        contract, files = derive(root)
    except model.Refused as refusal:
        sys.stderr.write(f'{refusal}\n')
        return 1
    if arguments[1:2] == ['--digest']:
        sys.stdout.write(canonical_text(contract, int(arguments[2])))
        return 0
    stale = [p for p, text in files.items() if read(os.path.join(root, p)) != text]
    if arguments[1:2] == ['--check']:
        for path in stale:
            sys.stderr.write(f'{path} differs from what {SELF} writes; run: {SELF} .\n')
        return 1 if stale else 0
    for path in stale:
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, 'w', encoding='utf-8') as file:
            file.write(files[path])
        print(f'wrote {path}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
