"""Old and new on both sides of both interfaces (rule 21): plugins and hosts, clients and libraries,
each kept as a file, built from today's headers, and built from headers in which every growable
struct is 16 bytes longer. Every struct lies against a guard page.

Arguments: today's libmembrane.so and today's host-RAM plugin, as they are installed.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.getcwd()
sys.path.insert(0, os.path.join(ROOT, 'tests/compat'))
sys.dont_write_bytecode = True

import history  # noqa: E402

LIBRARY, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
PLUGIN_NAME = 'libmembrane-host.so'
derive, grow = history.import_derive(ROOT)
model = derive.model
SPECIMEN = os.path.join(ROOT, 'tests/unit/loader/specimen.c')
QUICK = ['-O0', '-w']


class World:
    """All that the tests run, built once: `at(age, name)` with age frozen, live or grown."""

    def __init__(self):
        os.umask(0o022)  # the loader refuses folders that a group may write
        self.work = tempfile.mkdtemp(dir=os.environ.get('TEST_TMPDIR'))
        self.headers = os.path.join(self.work, 'headers')
        grow.grow_tree(ROOT, self.headers)
        self.objects = {}
        self.build_live()
        self.build_grown()
        self.take_frozen()

    def at(self, age, name):
        path = os.path.join(self.work, age, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def install(self, age, name, path):
        shutil.copyfile(path, self.at(age, name))
        os.chmod(self.at(age, name), 0o755)

    def build_live(self):
        includes = history.live_includes(ROOT)
        self.install('live', 'libmembrane.so.0', LIBRARY)
        self.install('live', f'plugins/{PLUGIN_NAME}', PLUGIN)
        history.build_caller(includes, QUICK, self.at('live', 'caller'))
        history.build_client(includes, QUICK, LIBRARY, self.at('live', 'client'))
        loader = history.sources(ROOT, 'host/loader', 'abi/base')
        self.build_ceiling('live', includes, loader)

    def build_grown(self):
        includes = history.grown_includes(ROOT, self.headers)
        history.build_plugin(ROOT, includes, QUICK, self.at('grown', f'plugins/{PLUGIN_NAME}'))
        history.build_caller(includes, QUICK, self.at('grown', 'caller'))
        self.build_ceiling('grown', includes, history.library_sources(ROOT))
        history.build_library(ROOT, self.objects['grown'], self.at('grown', 'libmembrane.so.0'))
        history.build_client(includes, QUICK, self.at('grown', 'libmembrane.so.0'),
                             self.at('grown', 'client'))

    def build_ceiling(self, age, includes, files):
        folder = self.at(age, 'objects')
        self.objects[age] = history.build_objects(files, QUICK + includes, folder)
        history.gcc([*history.DEFINES, *QUICK, *includes, f'{ROOT}/tests/compat/ceiling.c',
                     *self.objects[age], '-o', self.at(age, 'ceiling'), '-ldl', '-lpthread', '-lm'])

    def take_frozen(self):
        folder = os.path.join(ROOT, history.SNAPSHOT, history.MACHINE)
        for name in ('caller', 'client'):
            self.install('frozen', name, os.path.join(folder, name))
        self.install('frozen', f'plugins/{PLUGIN_NAME}', os.path.join(folder, PLUGIN_NAME))

    def plugins(self, age):
        return os.path.join(self.work, age, 'plugins')

    def specimen(self, age, name, *defines):
        """A specimen of the loader's tests, in a folder of its own."""
        path = self.at(age, f'{name}/libmembrane-specimen.so')
        includes = history.live_includes(ROOT) if age == 'live' else \
            history.grown_includes(ROOT, self.headers)
        history.gcc(['-shared', '-fPIC', *history.DEFINES, *QUICK, *includes, *defines, SPECIMEN,
                     '-o', path])
        return path


def setUpModule():
    global world
    world = World()


def tearDownModule():
    shutil.rmtree(world.work)


def run(program, *arguments, library=None):
    environment = dict(os.environ)
    if library:
        environment['LD_LIBRARY_PATH'] = os.path.dirname(library)
    done = subprocess.run([program, *arguments], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


def kept_programs_run():
    if platform.machine() != history.MACHINE:
        return f'the kept programs are for {history.MACHINE}'
    return None


def headers_of(age):
    """The folders above membrane/ of a set of headers."""
    if age == 'frozen':
        return [os.path.join(ROOT, history.SNAPSHOT, kind) for kind in ('contract', 'client')]
    return [os.path.join(ROOT, folder) for folder in grow.FOLDERS]


class Snapshot(unittest.TestCase):
    def test_its_files_are_as_they_were_cut(self):
        record = history.read(os.path.join(ROOT, history.RECORD)).splitlines()
        self.assertRegex(record[0], '^status: (draft|frozen)$')
        self.assertRegex(record[1], '^reason: .{10}')
        self.assertEqual(record[2:], history.sums(ROOT))

    def test_headers_still_serve_what_was_built_against_them(self):
        self.assertEqual([], history.drift(ROOT), 'it breaks what was built against the snapshot; '
                         'if it must be: tests/compat/history.py . --cut "why"')

    def test_the_contract_of_minor_0_is_compared_in_full(self):
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(os.path.join(ROOT, 'abi'), os.path.join(copy, 'abi'))
            path = os.path.join(copy, 'abi/membrane/virtual.h')
            text = history.read(path)
            os.chmod(path, 0o644)
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text.replace('uint64_t align_bytes; ', 'uint64_t alignment; ', 1))
            self.assertIn('+  24 8 alignment uint64_t', history.drift(copy))

    def test_each_kind_of_drift_of_the_client_headers_is_noticed(self):
        old = '''
#define MBR_ONE 1
typedef struct mbr_grows { uint32_t struct_size; uint32_t a; } mbr_grows;
typedef struct mbr_value { uint64_t value; } mbr_value;
MBR_API mbr_status mbr_do(const mbr_grows *request, mbr_error *error);
'''
        def differs(was, now):
            self.assertIn(was, old)
            changed = history.declarations(old.replace(was, now))
            return history.client_drift(history.declarations(old), changed)
        for was, now in (('MBR_ONE 1', 'MBR_ONE 2'), ('#define MBR_ONE 1', ''),
                         ('uint32_t a;', 'uint64_t a;'), ('uint32_t a;', 'uint32_t b;'),
                         ('uint32_t a;', 'uint32_t z; uint32_t a;'), ('uint32_t a;', ''),
                         ('uint64_t value;', 'uint64_t value; uint64_t more;'),
                         ('mbr_error *error', 'uint32_t flags, mbr_error *error'),
                         ('mbr_status mbr_do', 'void mbr_do')):
            self.assertNotEqual([], differs(was, now), now)
        for was, now in (('uint32_t a;', 'uint32_t a; /* more */ uint64_t b;'),
                         ('#define MBR_ONE 1', '#define MBR_ONE 1\n#define MBR_TWO 2'),
                         ('MBR_API', 'MBR_API void mbr_more(void);\nMBR_API')):
            self.assertEqual([], differs(was, now), now)

    def test_only_a_draft_is_cut_again(self):
        with tempfile.TemporaryDirectory() as copy:
            path = os.path.join(copy, history.RECORD)
            os.makedirs(os.path.dirname(path))
            with open(path, 'w', encoding='utf-8') as file:
                file.write('status: frozen\n')
            with self.assertRaisesRegex(RuntimeError, 'frozen'):
                history.cut(copy, 'a reason')


class Matrix(unittest.TestCase):
    """{old, new, grown} on either side."""

    @unittest.skipIf(kept_programs_run(), kept_programs_run())
    def test_every_host_calls_every_slot_of_every_plugin(self):
        said = set()
        for host in ('frozen', 'live', 'grown'):
            for plugin in ('frozen', 'live', 'grown'):
                path = os.path.join(world.plugins(plugin), PLUGIN_NAME)
                status, text = run(world.at(host, 'caller'), path)
                self.assertEqual(0, status, f'{host} host, {plugin} plugin: {text}')
                said.add(text)
        self.assertEqual(1, len(said), said)
        self.assertGreater(int(said.pop().split()[0]), 40)

    @unittest.skipIf(kept_programs_run(), kept_programs_run())
    def test_every_client_uses_every_library_with_every_plugin(self):
        for client in ('frozen', 'live', 'grown'):
            for library in ('live', 'grown'):
                for plugin in ('frozen', 'live', 'grown'):
                    status, text = run(world.at(client, 'client'), world.plugins(plugin),
                                       library=world.at(library, 'libmembrane.so.0'))
                    self.assertEqual((0, 'owned 0, violations 0\n'), (status, text),
                                     f'{client} client, {library} library, {plugin} plugin')

    @unittest.skipIf(kept_programs_run(), kept_programs_run())
    def test_the_loader_of_every_host_takes_every_plugin(self):
        for host in ('live', 'grown'):
            for plugin in ('frozen', 'live', 'grown'):
                path = os.path.join(world.plugins(plugin), PLUGIN_NAME)
                status, text = run(world.at(host, 'ceiling'), path)
                self.assertEqual(0, status, f'{host} host, {plugin} plugin: {text}')
                self.assertRegex(text, '^agreed 0, table 0, newer slot (unknown|stub), ')

    def test_one_byte_past_a_struct_ends_the_program(self):
        source = world.at('live', 'past.c')
        with open(source, 'w', encoding='utf-8') as file:
            file.write('#include "membrane/membrane_plugin.h"\n#include "tests/compat/guard.h"\n'
                       'int main(int n, char **a) { (void)a; mbr_outcome *o = OUT(mbr_outcome);'
                       'return TOUCH((char *)(o + 1) - (n == 1)); }\n')
        program = world.at('live', 'past')
        history.gcc([*history.DEFINES, *history.live_includes(ROOT), source, '-o', program])
        self.assertEqual(0, run(program)[0])
        self.assertEqual(-11, run(program, 'past')[0])


class Grown(unittest.TestCase):
    def setUp(self):
        self.live = derive.derive(ROOT)[0]
        self.grown = derive.derive(world.headers)[0]

    def test_every_growable_struct_is_16_bytes_longer(self):
        for name, struct in self.live.structs.items():
            more = 16 if struct.growable and name not in grow.FROZEN else 0
            self.assertEqual(struct.size + more, self.grown.structs[name].size, name)

    def test_minor_0_of_the_grown_headers_is_todays(self):
        self.assertEqual(derive.canonical_text(self.live, 0), derive.canonical_text(self.grown, 0))
        self.assertNotEqual(derive.digest(self.grown, 0), derive.digest(self.grown, 1))

    def test_client_structs_that_state_their_size_have_grown(self):
        before, after = (history.client_declarations(
            [path for kind, path in history.public_headers(root) if kind == 'client'])
            for root in (ROOT, world.headers))
        grown = [name for name in before if len(after[name][1]) == len(before[name][1]) + 2]
        states = [name for name, (kind, parts) in before.items()
                  if kind == 'struct' and parts[0] == 'uint32_t struct_size']
        self.assertEqual(sorted(states), sorted(grown))
        self.assertGreater(len(grown), 30)


class Witness(unittest.TestCase):
    """abidiff of one function for each struct: what compilers make of the headers."""

    def copy(self, name, folders, edit):
        """One folder with all headers, each text put through `edit`."""
        place = world.at('witness', name)
        for folder in folders:
            for path in grow.headers(folder):
                grow.write(os.path.join(place, 'membrane', os.path.basename(path)),
                           edit(history.read(path)))
        return place

    def build(self, folder, names):
        grow.write(f'{folder}/witness.c', grow.witness(names))
        history.gcc(['-shared', '-fPIC', '-g', '-O0', *history.DEFINES, f'-I{folder}',
                     f'{folder}/witness.c', '-o', f'{folder}/witness.so'])
        return f'{folder}/witness.so'

    def compare(self, new, edit=lambda text: text):
        """abidiff of the snapshot and other headers, without what those appended."""
        old = self.copy('old', headers_of('frozen'), lambda text: text)
        counts = grow.field_counts(old)
        edited = self.copy('edited', new, lambda text: grow.cut_back(edit(text), counts))
        return run('abidiff', '--harmless', self.build(old, counts), self.build(edited, counts))

    @unittest.skipUnless(shutil.which('abidiff'), 'abidiff (abigail-tools) is not installed')
    def test_the_snapshots_and_todays_headers_are_one(self):
        self.assertEqual((0, ''), self.compare(headers_of('live')))

    @unittest.skipUnless(shutil.which('abidiff'), 'abidiff (abigail-tools) is not installed')
    def test_appends_pass_and_everything_else_fails(self):
        field = '    uint64_t align_bytes;    /* a power of two, or 0 for the granule */\n'
        more = '    uint64_t more;\n'
        for name, edit, passes in (
                ('appended', field + more, True), ('inserted', more + field, False),
                ('removed', '', False),
                ('narrowed', '    uint32_t align_bytes;\n    uint32_t reserved_0;\n', False),
                ('retyped and appended', '    int64_t align_bytes;\n' + more, False)):
            seen = []
            def change(text):
                seen.append(field in text)
                return text.replace(field, edit)
            status, text = self.compare(headers_of('frozen'), change)
            self.assertEqual(1, sum(seen))
            self.assertEqual(passes, status == 0, f'{name}: {text}')

    def test_every_struct_has_its_function(self):
        contract = derive.derive(ROOT)[0]
        self.assertEqual(sorted(contract.structs),
                         sorted(grow.field_counts(os.path.join(ROOT, 'abi'))))
        for name, (kind, _) in history.client_declarations(
                [path for kind, path in history.public_headers(ROOT) if kind == 'client']).items():
            if kind == 'struct':
                self.assertIn(name, grow.field_counts(f'{ROOT}/host/include') |
                              grow.field_counts(f'{ROOT}/governor'))


class Exports(unittest.TestCase):
    def test_a_plugin_exports_its_entry_alone(self):
        kept = os.path.join(ROOT, history.SNAPSHOT, history.MACHINE, PLUGIN_NAME)
        for path in (PLUGIN, kept, os.path.join(world.plugins('grown'), PLUGIN_NAME)):
            _, text = run('nm', '-D', '--defined-only', path)
            self.assertEqual(['membrane_plugin_v1'],
                             [line.split()[-1] for line in text.splitlines()], path)

    def test_a_client_needs_only_names_that_stay(self):
        """What the kept client takes from the library is still exported."""
        folder = os.path.join(ROOT, history.SNAPSHOT, history.MACHINE)
        names = [set(re.findall(pattern, run('nm', '-D', option, path)[1])) for option, path, pattern
                 in (('--undefined-only', os.path.join(folder, 'client'), r'U (mbr_\w+)'),
                     ('--defined-only', LIBRARY, r'T (mbr_\w+)'))]
        self.assertGreater(len(names[0]), 40)
        self.assertEqual(set(), names[0] - names[1])


class Ceilings(unittest.TestCase):
    """Plugins and hosts of minors 0 and 1, where 1 is that of the grown headers (rules 17 to 20)."""

    def setUp(self):
        self.digests = re.findall(r'MBR_DIGEST_MINOR_\d UINT64_C\((\w+)\)',
                                  history.read(f'{world.headers}/abi/membrane/layout.h'))

    def newer(self, name, *defines, digest=None, first=0):
        return world.specimen('grown', name, f'-DSPECIMEN_MINOR_MIN={first}',
                              '-DSPECIMEN_MINOR_MAX=1', '-DSPECIMEN_TABLE_MINOR=1',
                              f'-DSPECIMEN_DIGEST_1=UINT64_C({digest or self.digests[1]})', *defines)

    def ask(self, host, plugin):
        return run(world.at(host, 'ceiling'), plugin)

    def test_newer_plugin_under_todays_host_is_one_of_minor_0(self):
        self.assertEqual((0, f'agreed 0, table 0, newer slot unknown, digest {self.digests[0][2:]}\n'),
                         self.ask('live', self.newer('newer')))

    def test_newer_plugin_under_newer_host_has_the_newer_slot(self):
        self.assertEqual((0, f'agreed 1, table 1, newer slot plugin, digest {self.digests[1][2:]}\n'),
                         self.ask('grown', self.newer('newer')))

    def test_todays_plugin_under_newer_host_gets_a_stub(self):
        status, text = self.ask('grown', world.specimen('live', 'today'))
        self.assertEqual((0, f'agreed 0, table 0, newer slot stub, digest {self.digests[0][2:]}\n'),
                         (status, text))

    def test_slot_above_the_minor_that_its_table_states_is_absent(self):
        plugin = self.newer('low', '-USPECIMEN_TABLE_MINOR', '-DSPECIMEN_TABLE_MINOR=0')
        status, text = self.ask('grown', plugin)
        self.assertEqual(0, status, text)
        self.assertIn('agreed 1, table 0, newer slot stub', text)

    def test_plugin_without_minor_0_is_refused_with_both_ranges(self):
        plugin = self.newer('only-1', first=1)
        status, text = self.ask('live', plugin)
        self.assertEqual(1, status)
        self.assertIn('no-common-minor: it speaks minors 1 to 1, this host 0 to 0', text)
        self.assertEqual(0, self.ask('grown', plugin)[0])

    def test_digest_of_the_agreed_minor_is_the_one_compared(self):
        plugin = self.newer('patched', digest='0x1234')
        self.assertEqual(0, self.ask('live', plugin)[0])
        status, text = self.ask('grown', plugin)
        self.assertEqual(1, status)
        self.assertIn('digest: built against headers of minor 1 with digest 0000000000001234', text)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
