#!/usr/bin/python3
"""Writes the seeds of tests/fuzz/corpus: small inputs that reach past the first refusals.

    make_corpus.py [FOLDER]

Files whose names start with `found-` are inputs that a fuzzer found; they are left alone. Run it again
when the contract's digest changes: the seeds of `note` carry it."""
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGEST = int(re.search(r"MBR_DIGEST_MINOR_0 UINT64_C\((0x[0-9a-f]+)\)",
                       (ROOT / "abi/membrane/layout.h").read_text()).group(1), 16)

PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS, PT_GNU_STACK = 1, 2, 4, 7, 0x6474E551
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_RPATH = 1, 4, 5, 6, 10, 15
DT_RUNPATH, DT_FLAGS, DT_GNU_HASH = 29, 30, 0x6FFFFEF5


def note(owner=b"Membrane\0", kind=1, major=1, low=0, high=0, flags=0, name=b"specimen", digests=None):
    body = struct.pack("<HHHH32s32s", major, low, high, flags, name, b"tests")
    body += b"".join(struct.pack("<Q", one) for one in (digests or [DIGEST] * (high + 1)))
    padded = owner + b"\0" * (-len(owner) % 4)
    return struct.pack("<III", len(owner), len(body), kind) + padded + body


def elf(notes=None, strings=b"\0libc.so.6\0membrane_plugin_v1\0$ORIGIN/lib\0", needed=1, path=None,
        symbols=((19, 0x12, 1), (1, 0x12, 0)), gnu_hash=True, extra=(), stack=6, note_align=4):
    """One read-only segment over the whole file, with all that the readers look at."""
    heads = 4 + len(extra)
    at = 64 + 56 * heads
    parts, place = b"", {}

    def put(name, data, align=8):
        nonlocal parts
        parts += b"\0" * (-(at + len(parts)) % align)
        place[name] = (at + len(parts), len(data))
        parts += data

    put("note", b"".join(notes if notes is not None else [note()]))
    put("strings", strings)
    table = b"\0" * 24 + b"".join(struct.pack("<IBBHQQ", n, info, 0, shndx, 64, 8)
                                  for n, info, shndx in symbols)
    put("symbols", table)
    count = len(table) // 24
    if gnu_hash:
        put("hash", struct.pack("<IIIIQI", 1, 1, 1, 0, 0, 1 if count > 1 else 0) +
            b"".join(struct.pack("<I", 2 | (i == count - 1)) for i in range(1, count)))
    else:
        put("hash", struct.pack("<III", 1, count, 0) + b"\0" * 4 * count)
    dynamic = [(DT_NEEDED, needed), (DT_STRTAB, place["strings"][0]), (DT_STRSZ, len(strings)),
               (DT_SYMTAB, place["symbols"][0]),
               (DT_GNU_HASH if gnu_hash else DT_HASH, place["hash"][0]), (DT_FLAGS, 0)]
    if path is not None:
        dynamic.append(path)
    put("dynamic", b"".join(struct.pack("<QQ", *entry) for entry in dynamic + [(0, 0)]))
    end = at + len(parts)

    def head(kind, start, size, flags=4, align=8):
        return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)

    file = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    file += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, heads, 64, 0, 0)
    file += head(PT_LOAD, 0, end) + head(PT_DYNAMIC, *place["dynamic"])
    file += head(PT_NOTE, *place["note"], 4, note_align) + head(PT_GNU_STACK, 0, 0, stack)
    return file + b"".join(extra) + parts


def notes():
    named, plain = b"\x08", b"\0"
    return {
        "good": named + elf(),
        "unnamed": plain + elf(),
        "short-reads": b"\x09" + elf(),
        "interrupted": b"\x0b" + elf(),
        "cut": b"\x0c" + elf(),
        "other-note-first": named + elf([note(b"GNU\0", 3), note()]),
        "note-align-8": named + elf(note_align=8),
        "two-notes": named + elf([note(), note()]),
        "other-major": named + elf([note(major=2)]),
        "minors-0-2": named + elf([note(high=2)]),
        "minors-1-2": named + elf([note(low=1, high=2)]),
        "unloadable": named + elf([note(flags=1)]),
        "bad-digest": named + elf([note(digests=[1])]),
        "sysv-hash": named + elf(gnu_hash=False),
        "unique-symbol": named + elf(symbols=((19, 0xA2, 1),)),
        "thread-key": named + elf(strings=b"\0libc.so.6\0pthread_key_create\0", symbols=((11, 0x12, 0),)),
        "runpath": named + elf(path=(DT_RUNPATH, 30 + 8)),
        "rpath-relative": named + elf(strings=b"\0libc.so.6\0lib:/usr/lib\0", path=(DT_RPATH, 11)),
        "tls": named + elf(extra=(struct.pack("<IIQQQQQQ", PT_TLS, 4, 0, 0, 0, 0, 8, 8),)),
        "exec-stack": named + elf(stack=7),
        "no-note": named + elf([]),
    }


def vtable(kind, size, slots, text=0, minor=0, stated=None):
    head = struct.pack("<IHH", size if stated is None else stated, kind, minor)
    return head + struct.pack(f"<{text + slots}Q", *range(0x1000, 0x1000 + text + slots))


def tables():
    seeds = {}
    kinds = (("plugin", 1, 6, 2), ("allocator", 2, 5, 0), ("virtual", 3, 8, 0), ("shared", 4, 1, 0),
             ("order", 5, 6, 0), ("transfer", 6, 4, 0))
    for index, (name, kind, slots, text) in enumerate(kinds):
        size = 8 + 8 * (text + slots)
        which = bytes([index])
        seeds[name] = which + vtable(kind, size, slots, text)
        seeds[name + "-grown"] = which + vtable(kind, size + 16, slots + 2, text, minor=3)
        seeds[name + "-lies"] = which + vtable(kind, size, slots - 1, text)
        seeds[name + "-huge"] = which + vtable(kind, size, slots, text, stated=0xFFFFFFFF)
        seeds[name + "-small"] = which + vtable(kind, size, slots, text, stated=size - 1)
    kind = 2166136261
    for byte in b"org.example.fuzz":
        kind = (kind ^ byte) * 16777619 & 0xFFFFFFFF
    kind = 0x8000 | kind & 0x7FFF
    drawn = b"\x06" + b"\x03\x01" + b"\x00\x01\x02"  # four slots: minors 0, 0, 1, 2; agreed 1
    seeds["foreign"] = drawn + vtable(kind, 40, 4, minor=2)
    seeds["foreign-minor-0"] = drawn + vtable(kind, 24, 2)
    seeds["foreign-half-a-slot"] = drawn + vtable(kind, 28, 3)
    return seeds


def replies():
    """Answers in the order of the calls; 0 is honest, see reply.c."""
    seeds = {"honest": b"\0" * 8}
    for place in range(48):
        seeds[f"lie-{place:02}"] = b"\0" * place + bytes([1 + place % 7, place, 1, 2])
    return seeds


def answers():
    """Configuration, how many operations, three bytes for each, answers; see answers.c."""
    seeds = {"honest": bytes(8)}
    for bit in range(8):
        seeds[f"config-{1 << bit:03}"] = bytes([1 << bit, 0])
    for config in (0, 1, 8, 72):
        for place in range(0, 60, 3):
            lie = bytes([1 + (place // 3) % 8 + 8 * (place % 7), place % 10, place % 3])
            seeds[f"lie-{config:02}-{place:02}"] = bytes([config, 0]) + bytes(place) + lie
    walk = b"".join(bytes([kind, a, b]) for kind, a, b in (
        (1, 0, 15), (1, 1, 15), (2, 0, 0x70), (6, 0, 7), (7, 1, 0), (11, 3, 5), (5, 8, 0), (8, 0, 0),
        (14, 0, 0), (12, 11, 0), (13, 0, 0), (15, 7, 1), (5, 1, 0)))
    seeds["walk"] = bytes([0, len(walk) // 3]) + walk
    seeds["walk-eager"] = bytes([1, len(walk) // 3]) + walk
    seeds["walk-releasable"] = bytes([16, len(walk) // 3]) + walk
    return seeds


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests/fuzz/corpus")
    for target, seeds in (("note", notes()), ("table", tables()), ("reply", replies()),
                          ("answers", answers())):
        place = folder / target
        place.mkdir(parents=True, exist_ok=True)
        for old in place.iterdir():
            if not old.name.startswith("found-"):
                old.unlink()
        for name, data in seeds.items():
            (place / name).write_bytes(data)


if __name__ == "__main__":
    main()
