#!/usr/bin/python3
"""The derived table against the headers: committed files are current, every edit that matters moves
the digest, every construct outside rule 14 is refused with file and line."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get('MEMBRANE_ROOT', os.getcwd())
sys.path.insert(0, os.path.join(ROOT, 'abi/derive'))
sys.dont_write_bytecode = True

import contract as model  # noqa: E402
import derive  # noqa: E402

FRAME = '''#ifndef MEMBRANE_BASE_H
#define MEMBRANE_BASE_H
#include <stddef.h>
#include <stdint.h>
#define MBR_MINOR_0 0
{constants}
typedef int32_t mbr_status;
typedef struct mbr_instance mbr_instance;
typedef struct mbr_error {{
    uint32_t struct_size;
    uint32_t reserved_0;
}} mbr_error;
typedef struct mbr_frozen {{
    uint64_t value;
}} mbr_frozen;
typedef struct mbr_request {{
    uint32_t struct_size;
    uint32_t flags;
{fields}
}} mbr_request;
typedef struct mbr_outcome {{
    uint32_t struct_size;
    uint32_t reserved_0;
}} mbr_outcome;
typedef struct mbr_thing_vtable {{
    uint32_t struct_size;
    uint16_t kind;
    uint16_t minor;

    /* Does it. [any-thread] */
    mbr_status (*act)(mbr_instance *instance, const mbr_request *request, mbr_outcome *outcome,
        mbr_error *error);
{slots}
}} mbr_thing_vtable;
#endif
'''


def parse(text):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'base.h'), 'w', encoding='utf-8') as file:
            file.write(text)
        return model.parse_headers(folder, ['base'])


def frame(constants='', fields='', slots=''):
    return FRAME.format(constants=constants, fields=fields, slots=slots)


def slot(name, comment):
    return (f'    {comment}\n    mbr_status (*{name})(mbr_instance *instance, '
            'const mbr_request *request, mbr_outcome *outcome, mbr_error *error);\n')


class Committed(unittest.TestCase):
    def test_files_equal_what_the_program_writes(self):
        _, files = derive.derive(ROOT)
        for path, text in files.items():
            with open(os.path.join(ROOT, path), encoding='utf-8') as file:
                self.assertEqual(file.read(), text, f'{path} is stale: run abi/derive/derive.py .')

    def test_every_struct_and_field_of_the_headers_is_asserted(self):
        contract, files = derive.derive(ROOT)
        seen = set()
        for name in derive.header_names(ROOT):
            with open(os.path.join(ROOT, f'abi/membrane/{name}.h'), encoding='utf-8') as file:
                seen.update(re.findall(r'^(?:typedef )?struct (\w+) \{', file.read(), re.M))
        self.assertEqual(seen, set(contract.structs))
        count = sum(len(s.fields) for s in contract.structs.values())
        self.assertEqual(files['abi/derive/layout_asserts.h'].count('\nMBR_LAYOUT_FIELD('), count)

    def test_check_mode_names_the_stale_file(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copytree(os.path.join(ROOT, 'abi'), os.path.join(root, 'abi'))
            shutil.copytree(os.path.join(ROOT, 'docs'), os.path.join(root, 'docs'),
                            ignore=shutil.ignore_patterns('[!c]*'))
            run = [sys.executable, os.path.join(ROOT, 'abi/derive/derive.py'), root, '--check']
            self.assertEqual(subprocess.run(run, check=False).returncode, 0)
            path = os.path.join(root, 'abi/membrane/layout.h')
            os.chmod(path, 0o644)
            with open(path, 'a', encoding='utf-8') as file:
                file.write('/* by hand */\n')
            answer = subprocess.run(run, check=False, capture_output=True, text=True)
            self.assertEqual(answer.returncode, 1)
            self.assertIn('abi/membrane/layout.h differs', answer.stderr)


class Digest(unittest.TestCase):
    """Each edit of the published headers is seen; comments and places are not."""

    def digest_after(self, header, old, new):
        with tempfile.TemporaryDirectory() as root:
            shutil.copytree(os.path.join(ROOT, 'abi/membrane'), os.path.join(root, 'abi/membrane'))
            path = os.path.join(root, f'abi/membrane/{header}.h')
            with open(path, encoding='utf-8') as file:
                text = file.read()
            self.assertEqual(text.count(old), 1, f'{old!r} stands once in {header}.h')
            os.remove(path)
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text.replace(old, new))
            return derive.digest(derive.derive(root)[0], 0)

    def setUp(self):
        self.published = derive.digest(derive.derive(ROOT)[0], 0)

    def assert_moves(self, header, old, new):
        self.assertNotEqual(self.digest_after(header, old, new), self.published)

    def test_a_renamed_field(self):
        self.assert_moves('allocator', 'uint64_t keep_bytes;', 'uint64_t kept_bytes;')

    def test_a_retyped_field(self):
        self.assert_moves('allocator', 'uint64_t keep_bytes;', 'int64_t keep_bytes;')

    def test_two_swapped_fields(self):
        self.assert_moves('base', 'uint32_t state;                 /* MBR_STATE_… */\n'
                          '    uint32_t content; ', 'uint32_t content;\n    uint32_t state; ')

    def test_an_inserted_slot(self):
        self.assert_moves('transfer', '    /* Enqueues a fill. [any-thread] */',
                          slot('wipe', '/* [any-thread] */').replace(
                              'mbr_request', 'mbr_fill_request') +
                          '    /* Enqueues a fill. [any-thread] */')

    def test_a_changed_signature(self):
        self.assert_moves('plugin', 'mbr_report *outcome, mbr_error *error);',
                          'mbr_outcome *outcome, mbr_error *error);')

    def test_a_changed_status(self):
        self.assert_moves('base', '#define MBR_STALE 65544', '#define MBR_STALE 65599')

    def test_a_changed_string(self):
        self.assert_moves('plugin', '"membrane.order"', '"membrane.ordering"')

    def test_a_changed_array_length(self):
        self.assert_moves('base', '#define MBR_ERROR_TEXT_BYTES 256',
                          '#define MBR_ERROR_TEXT_BYTES 264')

    def test_a_changed_callback(self):
        self.assert_moves('plugin', 'const char *text, uint64_t text_bytes);',
                          'const char *text, uint32_t text_bytes);')

    def test_a_comment_does_not_move_it(self):
        same = self.digest_after('transfer', '/* Enqueues a fill. [any-thread] */',
                                 '/* Fills, in stream order. [any-thread] */')
        self.assertEqual(same, self.published)

    def test_a_parameter_name_does_not_move_it(self):
        same = self.digest_after('plugin', 'mbr_report *outcome, mbr_error *error);',
                                 'mbr_report *answer, mbr_error *error);')
        self.assertEqual(same, self.published)


class Minors(unittest.TestCase):
    OLD = frame()
    NEW = frame(constants='#define MBR_MINOR_1 1 /* since 1 */\n#define MBR_FLAG_NEW 2 /* since 1 */',
                fields='    uint32_t extra; /* since 1 */\n    uint32_t reserved_1; /* since 1 */',
                slots=slot('more', '/* Does more. [any-thread] since 1 */')).replace(
        'typedef struct mbr_outcome {',
        '/* Of the new slot only; since 1. */\ntypedef struct mbr_new {\n'
        '    uint32_t struct_size;\n    uint32_t reserved_0;\n} mbr_new;\n'
        'typedef struct mbr_outcome {')

    def test_minor_0_stays_as_it_was(self):
        old, new = parse(self.OLD), parse(self.NEW)
        self.assertEqual(derive.canonical_text(old, 0), derive.canonical_text(new, 0))
        self.assertEqual(derive.digest(old, 0), derive.digest(new, 0))

    def test_each_minor_has_its_minimum_and_its_digest(self):
        new = parse(self.NEW)
        self.assertEqual(new.highest_minor, 1)
        self.assertEqual(new.structs['mbr_request'].min_size(0), 8)
        self.assertEqual(new.structs['mbr_request'].min_size(1), 16)
        self.assertEqual(new.structs['mbr_thing_vtable'].min_size(0), 16)
        self.assertEqual(new.structs['mbr_thing_vtable'].min_size(1), 24)
        layout = derive.write_layout(new)
        self.assertIn('#define MBR_MIN_SIZE_REQUEST_MINOR_0 8\n', layout)
        self.assertIn('#define MBR_MIN_SIZE_REQUEST_MINOR_1 16\n', layout)
        self.assertIn('#define MBR_MIN_SIZE_NEW_MINOR_1 8\n', layout)
        self.assertNotIn('MBR_MIN_SIZE_NEW_MINOR_0', layout)
        self.assertNotEqual(derive.digest(new, 0), derive.digest(new, 1))
        self.assertIn('| `more` | no, since minor 1 |', derive.write_slots(new))

    def test_a_newer_field_before_an_older_one_is_refused(self):
        text = frame(fields='    uint64_t extra; /* since 1 */\n    uint64_t late;')
        with self.assertRaisesRegex(model.Refused, r'base\.h:\d+: mbr_request\.late .*appended'):
            parse(text)

    def test_a_frozen_struct_cannot_grow(self):
        text = frame().replace('    uint64_t value;\n', '    uint64_t value;\n'
                               '    uint64_t more; /* since 1 */\n')
        with self.assertRaisesRegex(model.Refused, 'frozen'):
            parse(text)

    def test_padding_at_the_end_of_an_older_minor_is_refused(self):
        text = frame(fields='    uint64_t wide;\n    uint32_t odd;\n    uint32_t later; /* since 1 */')
        with self.assertRaisesRegex(model.Refused, 'of minor 0 ends with 4 bytes'):
            parse(text)


class Refusals(unittest.TestCase):
    def refused(self, text, pattern):
        with self.assertRaises(model.Refused) as caught:
            parse(text)
        self.assertRegex(str(caught.exception), r'base\.h:\d+: .*' + pattern)
        return str(caught.exception)

    def field(self, declaration, pattern):
        """The refusal names the line that the field stands on."""
        text = frame(fields=f'    {declaration}')
        message = self.refused(text, pattern)
        line = text[:text.index(declaration)].count('\n') + 1
        self.assertIn(f'base.h:{line}: ', message)

    def test_types_outside_rule_14(self):
        for declaration in ('bool on;', '_Bool on;', 'size_t bytes;', 'long bytes;', 'int bytes;',
                            'unsigned bytes;', 'enum mbr_color color;', 'va_list list;',
                            'float f;', 'double d;', 'uintptr_t p;', 'ssize_t s;', 'wchar_t w;',
                            'mbr_unknown x;'):
            with self.subTest(declaration):
                self.field(declaration, r'not allowed|where|no type')

    def test_a_bit_field(self):
        self.field('uint32_t on : 1;', 'bit-field')

    def test_a_flexible_array(self):
        self.field('uint64_t tail[];', 'flexible array')

    def test_an_array_of_no_constant(self):
        self.field('uint64_t tail[n];', 'no constant')
        self.field('uint64_t tail[0];', 'no constant')

    def test_several_names_in_one_declaration(self):
        self.field('uint32_t a, b;', 'one declaration a field')

    def test_a_single_char(self):
        self.field('char c;', 'only in an array')

    def test_unnamed_padding(self):
        self.field('uint16_t odd;', 'unnamed padding')
        self.refused(frame(fields='    uint32_t odd;\n    uint64_t wide;'),
                     '4 bytes of unnamed padding')

    def test_a_growable_struct_by_value(self):
        self.field('mbr_error error;', 'growable struct by value')
        self.field('mbr_error errors[4];', 'growable struct in an array')

    def test_a_pointer_to_a_stranger(self):
        self.field('FILE *file;', 'no type of the contract')

    def test_nested_and_anonymous(self):
        self.field('struct { uint32_t a; } inner;', 'word|not allowed|where')
        self.field('union mbr_u u;', 'not allowed')

    def test_packing_and_conditions(self):
        for line in ('#pragma pack(1)', '#if MBR_MINOR_0', '#undef MBR_MINOR_0',
                     '#include <stdbool.h>', '#include "other.h"'):
            with self.subTest(line):
                self.refused(frame(constants=line), 'outside the style')

    def test_a_constant_that_is_no_number(self):
        self.refused(frame(constants='#define MBR_TWO (1 + 1)'), 'neither a whole number')
        self.refused(frame(constants='#define TWO 2'), 'begins with MBR_')
        self.refused(frame(constants='#define MBR_MINOR_0 1'), 'defined twice')

    def test_other_declarations(self):
        for line in ('enum mbr_color { MBR_RED };', 'typedef enum mbr_color mbr_color;',
                     'static int x;', 'int f(void);', 'typedef long mbr_word;',
                     'typedef void (*mbr_hook)(size_t bytes);',
                     'typedef void (*mbr_hook)(mbr_error error);'):
            with self.subTest(line):
                text = frame().replace('typedef struct mbr_frozen {', line +
                                       '\ntypedef struct mbr_frozen {')
                self.refused(text, '.')

    def test_a_slot_without_exactly_one_tag(self):
        self.refused(frame(slots=slot('more', '/* Does more. */')), 'more has 0 thread tags')
        self.refused(frame(slots=slot('more', '')), 'more has 0 thread tags')
        self.refused(frame(slots=slot('more', '/* [any-thread] [serial: line] */')),
                     'more has 2 thread tags')
        self.refused(frame(slots=slot('more', '/* [any thread] */')), 'more has 0 thread tags')

    def test_a_tag_broken_over_two_lines_is_read(self):
        contract = parse(frame(slots=slot('more', '/* Does more. [serial:\n     * line] */')))
        self.assertEqual(contract.structs['mbr_thing_vtable'].fields[-1].slot.tag, 'serial: line')

    def test_a_slot_outside_rule_1(self):
        more = slot('more', '/* [any-thread] */')
        for old, new in (('mbr_instance *instance, ', ''), ('const mbr_request', 'mbr_request'),
                         ('mbr_status (*more)', 'uint32_t (*more)'),
                         ('const mbr_request *request', 'const mbr_frozen *request'),
                         ('mbr_outcome *outcome', 'mbr_frozen *outcome'),
                         ('mbr_error *error', 'uint64_t bytes')):
            with self.subTest(new):
                self.refused(frame(slots=more.replace(old, new)), 'rule 1')

    def test_a_vtable_without_its_head(self):
        self.refused(frame().replace('    uint16_t kind;\n    uint16_t minor;\n',
                                     '    uint32_t kind;\n'), 'rule 10')

    def test_an_ownership_line_that_names_no_slot(self):
        head = '/* About.\n *\n *   created by   released by   thread\n *   act          undo  '\
               '        any\n */\n'
        self.refused(head + frame(), "'undo', which is no slot")

    def test_a_file_that_is_cut(self):
        text = frame()
        self.refused(text[:text.index('mbr_outcome;')], 'where|ends')


if __name__ == '__main__':
    unittest.main()
