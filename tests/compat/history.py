#!/usr/bin/python3
"""The frozen history of the two interfaces (rule 21): the public headers of each minor as they were
published, and programs that were built against them and are kept as files.

  history.py ROOT --check        says how the headers of ROOT drifted from the newest snapshot in a
                                 way that breaks those who were built against it; nothing if not
  history.py ROOT --cut REASON   replaces the snapshot, while it is a draft

A draft is re-cut by whoever breaks it, with the reason; once frozen, a snapshot stays for ever.
"""
import concurrent.futures
import difflib
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SNAPSHOT = 'abi/history/minor_0'
RECORD = f'{SNAPSHOT}/CUT'
MACHINE = 'x86_64'  # what the kept programs run on
PROGRAMS = ('caller', 'client', 'libmembrane-host.so')
MAX_BYTES = 40_000  # of one kept program

DEFINES = ['-std=c17', '-D_GNU_SOURCE', '-fvisibility=hidden']
# The same bytes wherever the tree lies and whenever it is built.
KEPT = ['-Os', '-s', '-DNDEBUG', '-ffunction-sections', '-fdata-sections', '-fno-exceptions',
        '-fno-unwind-tables', '-fno-asynchronous-unwind-tables', '-Wl,--gc-sections',
        '-Wl,--build-id=none', '-Wl,-z,noseparate-code', '-Wl,-z,noexecstack', '-Wl,-z,now']


def import_derive(root):
    sys.path.insert(0, os.path.join(root, 'abi/derive'))
    sys.dont_write_bytecode = True
    import derive
    import grow
    return derive, grow


def public_headers(root):
    """(kind, path) of every published header."""
    for folder, kind in (('abi', 'contract'), ('host/include', 'client'), ('governor', 'client')):
        for path in sorted(glob.glob(os.path.join(root, folder, 'membrane/*.h'))):
            yield kind, path


# ---- Building -------------------------------------------------------------------------------------

def live_includes(root):
    return ['-iquote', root] + [f'-I{root}/{f}' for f in ('abi', 'host/include', 'governor')]


def grown_includes(root, grown):
    """The grown headers before those of the tree, by either form of include."""
    return ['-iquote', grown] + live_includes(grown) + ['-iquote', root]


def frozen_includes(root):
    folder = os.path.join(root, SNAPSHOT)
    return ['-iquote', root, f'-I{folder}/contract', f'-I{folder}/client']


def gcc(arguments):
    done = subprocess.run(['gcc'] + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"gcc {' '.join(arguments)}\n{done.stdout.decode()}")


def sources(root, *folders):
    found = [path for folder in folders for path in glob.glob(os.path.join(root, folder, '*.c'))]
    return sorted(found)


def build_objects(files, flags, out):
    """Objects of the files, two at a time."""
    os.makedirs(out, exist_ok=True)
    objects = [os.path.join(out, f"{index}.o") for index in range(len(files))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: gcc(['-c', '-fPIC', *DEFINES, *flags, pair[0], '-o', pair[1]]),
                      zip(files, objects)))
    return objects


def build_plugin(root, includes, flags, out):
    files = sources(root, 'plugins/host', 'plugins/common', 'abi/base')
    gcc(['-shared', '-fPIC', *DEFINES, *flags, *includes, *files, '-o', out,
         f'-Wl,--version-script={root}/plugins/plugin.lds', '-Wl,--no-undefined'])


def build_caller(includes, flags, out):
    gcc([*DEFINES, *flags, *includes, f'{HERE}/caller.c', '-o', out, '-ldl'])


def build_client(includes, flags, library, out):
    """The library is found by its soname where the program runs."""
    gcc([*DEFINES, *flags, *includes, f'{HERE}/client.c', '-o', out, library])


def build_library(root, objects, out):
    gcc(['-shared', *objects, '-o', out, '-Wl,-soname,libmembrane.so.0', '-lpthread', '-ldl', '-Wl,-z,nodelete',
         f'-Wl,--version-script={root}/host/libmembrane.lds', '-Wl,--no-undefined', '-lm'])


def library_sources(root):
    return sources(root, 'abi/base', 'governor', 'host/*', 'host/*/*')


# ---- Drift ----------------------------------------------------------------------------------------

def lost_lines(old, new, name):
    lines = difflib.unified_diff(old, new, f'{name} of the snapshot', f'{name} now', '', '', 0, '')
    return list(lines)


def declarations(text):
    """{name: (kind, parts)} of a client header, without comments. A struct's parts are its fields."""
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S).replace('\\\n', ' ')
    text = re.sub(r'^#ifdef __cplusplus\n.*?^#endif\n', '', text, flags=re.M | re.S)
    found = {}
    for name, value in re.findall(r'^#define (MBR_\w+) +(\S.*)$', text, re.M):
        found[name] = ('constant', [' '.join(value.split())])
    text = re.sub(r'^#.*$', '', text, flags=re.M)
    struct = re.compile(r'typedef struct (\w+) \{(.*?)\} \w+;', re.S)
    for name, body in struct.findall(text):
        fields = [' '.join(field.split()) for field in body.split(';')]
        found[name] = ('struct', [field for field in fields if field])
    for text in struct.sub('', text).split(';'):
        text = ' '.join(text.split())
        name = re.search(r'(\w+) ?\(|(\w+)$', text)
        if name:
            found[name.group(1) or name.group(2)] = ('declaration', [text])
    return found


def client_drift(old, new):
    """What a program that was built against the old headers would miss. Appending is allowed: new
    names, and new fields of a struct that states its size."""
    lost = []
    for name, (kind, parts) in sorted(old.items()):
        now = new.get(name, (None, []))[1]
        grows = kind == 'struct' and parts[0] == 'uint32_t struct_size'
        if now[:len(parts)] != parts or (not grows and len(now) > len(parts)):
            lost += lost_lines(parts, now, name)
    return lost


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def client_declarations(paths):
    found = {}
    for path in paths:
        found.update(declarations(read(path)))
    return found


def contract_drift(root):
    """The canonical text of minor 0, of which the digest is taken, must stay as it was."""
    derive, _ = import_derive(root)
    texts = []
    for folder in (f'{SNAPSHOT}/contract/membrane', 'abi/membrane'):
        path = os.path.join(root, folder)
        names = sorted(n[:-2] for n in os.listdir(path) if n.endswith('.h') and n != 'layout.h')
        contract = derive.model.parse_headers(path, names)
        texts.append(derive.canonical_text(contract, 0).splitlines())
    return lost_lines(*texts, 'the contract of minor 0')


def drift(root):
    frozen = glob.glob(os.path.join(root, SNAPSHOT, 'client/membrane/*.h'))
    live = [path for kind, path in public_headers(root) if kind == 'client']
    return contract_drift(root) + client_drift(client_declarations(frozen),
                                               client_declarations(live))


# ---- The snapshot -----------------------------------------------------------------------------------

def kept_files(root):
    folder = os.path.join(root, SNAPSHOT)
    for path in sorted(glob.glob(f'{folder}/**', recursive=True)):
        if os.path.isfile(path) and os.path.relpath(path, root) != RECORD:
            yield path


def sums(root):
    lines = []
    for path in kept_files(root):
        with open(path, 'rb') as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        lines.append(f'{digest}  {os.path.relpath(path, os.path.join(root, SNAPSHOT))}')
    return lines


def is_draft(root):
    path = os.path.join(root, RECORD)
    return not os.path.exists(path) or read(path).startswith('status: draft\n')


def build_kept(root, out):
    """The programs of a snapshot, against its headers and the sources of today."""
    os.makedirs(out)
    map_flag = [f'-ffile-prefix-map={root}=.', f'-ffile-prefix-map={HERE}=tests/compat']
    flags = KEPT + map_flag
    includes = frozen_includes(root)
    build_plugin(root, includes, flags, os.path.join(out, 'libmembrane-host.so'))
    build_caller(includes, flags, os.path.join(out, 'caller'))
    with tempfile.TemporaryDirectory() as work:
        objects = build_objects(library_sources(root), ['-O0', '-w', *live_includes(root)], work)
        library = os.path.join(work, 'libmembrane.so.0')
        build_library(root, objects, library)
        build_client(includes, flags, library, os.path.join(out, 'client'))
    for name in PROGRAMS:
        path = os.path.join(out, name)
        subprocess.run(['strip', '--strip-all', '-R', '.comment', path], check=True)
        if os.path.getsize(path) > MAX_BYTES:
            raise RuntimeError(f'{name} has {os.path.getsize(path)} bytes, more than {MAX_BYTES}')


def cut(root, reason):
    if not is_draft(root):
        raise RuntimeError(f'{RECORD}: the snapshot is frozen; a breaking change needs a new major')
    if platform.machine() != MACHINE:
        raise RuntimeError(f'the kept programs are for {MACHINE}; this is {platform.machine()}')
    folder = os.path.join(root, SNAPSHOT)
    shutil.rmtree(folder, ignore_errors=True)
    for kind, path in public_headers(root):
        target = os.path.join(folder, kind, 'membrane', os.path.basename(path))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(path, target)
    build_kept(root, os.path.join(folder, MACHINE))
    with open(os.path.join(root, RECORD), 'w', encoding='utf-8') as file:
        file.write('\n'.join(['status: draft', f'reason: {reason}', *sums(root)]) + '\n')


def main(arguments):
    root = os.path.abspath(arguments[0]) if arguments else ''
    if len(arguments) == 3 and arguments[1] == '--cut':
        cut(root, arguments[2])
        return 0
    if len(arguments) != 2 or arguments[1] != '--check':
        sys.stderr.write(__doc__)
        return 2
    found = drift(root)
    if found:
        sys.stderr.write('\n'.join(found) + '\nThis breaks what was built against the snapshot. If '
                         'it must be: tests/compat/history.py . --cut "why"\n')
    return 1 if found else 0


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except RuntimeError as refusal:
        sys.exit(str(refusal))
