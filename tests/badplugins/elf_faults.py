"""Puts a fault of the file into a copy of a plugin: each changes a few bytes of its image.

Usage: elf_faults.py FAULT PLUGIN COPY
"""

import struct
import sys

PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_GNU_STACK = 1, 2, 4, 0x6474E551
DT_NEEDED, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SONAME = 1, 5, 6, 10, 14
DT_RUNPATH, DT_FLAGS, DT_FLAGS_1, DT_VERSYM, DT_AUXILIARY = 29, 30, 0x6FFFFFFB, 0x6FFFFFF0, 0x7FFFFFFD
DT_RELACOUNT = 0x6FFFFFF9 # only advice to the loader: the entry to use for another
NOTE_HEAD = 12 + 12 # lengths and type, the owner padded
MAJOR, MINOR_MIN, MINOR_MAX, FLAGS, NAME, VENDOR, DIGEST = 0, 2, 4, 6, 8, 40, 72


class Image:
    def __init__(self, data):
        self.data = bytearray(data)
        offset, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        self.headers = [offset + i * size for i in range(count)]

    def header(self, kind):
        return next(at for at in self.headers if struct.unpack_from("<I", self.data, at)[0] == kind)

    def dynamic(self, tag):
        """Offset of a dynamic entry."""
        at, = struct.unpack_from("<Q", self.data, self.header(PT_DYNAMIC) + 8)
        while struct.unpack_from("<Q", self.data, at)[0] != tag:
            assert struct.unpack_from("<Q", self.data, at)[0] != 0, f"no dynamic entry {tag:#x}"
            at += 16
        return at

    def value(self, tag):
        return struct.unpack_from("<Q", self.data, self.dynamic(tag) + 8)[0]

    def set_value(self, tag, value):
        struct.pack_into("<Q", self.data, self.dynamic(tag) + 8, value)

    def add_dynamic(self, tag, text):
        """An entry with a string that is in the string table already."""
        start, size = self.value(DT_STRTAB), self.value(DT_STRSZ) # the first segment: offset = address
        at = self.data.index(b"\0" + text.encode() + b"\0", start, start + size) + 1
        struct.pack_into("<QQ", self.data, self.dynamic(DT_RELACOUNT), tag, at - start)

    def symbol(self, name):
        """Index and offset of a dynamic symbol."""
        names, symbols, index = self.value(DT_STRTAB), self.value(DT_SYMTAB), 0
        while True:
            at = symbols + index * 24
            text = names + struct.unpack_from("<I", self.data, at)[0]
            if self.data[text:self.data.index(0, text)] == name.encode():
                return index, at
            index += 1

    def note(self):
        return self.data.index(b"Membrane\0") - 12 + NOTE_HEAD

    def set_note(self, field, data):
        at = self.note() + field
        self.data[at:at + len(data)] = data


def or_value(tag, bits):
    return lambda image: image.set_value(tag, image.value(tag) | bits)


def set_note(field, data):
    return lambda image: image.set_note(field, data)


def segment_flag(kind, bits):
    def apply(image):
        image.data[image.header(kind) + 4] |= bits
    return apply


def no_note(image):
    image.data[image.data.index(b"Membrane\0")] = ord("N")


def second_note(image):
    """In the place of the linker's build id, which has 4 bytes of owner and 20 of description."""
    at = image.data.index(b"GNU\0") - 12
    image.data[at:at + 36] = struct.pack("<III", 9, 12, 1) + b"Membrane\0\0\0\0" + struct.pack(
        "<HHHHI", 1, 0, 0, 0, 0)


def short_note(image):
    at = image.note() - NOTE_HEAD + 4
    struct.pack_into("<I", image.data, at, struct.unpack_from("<I", image.data, at)[0] - 4)


def entry_is_data(image):
    image.data[image.symbol("membrane_plugin_v1")[1] + 4] = 1 << 4 | 1


def entry_is_unique(image):
    image.data[image.symbol("membrane_plugin_v1")[1] + 4] = 10 << 4 | 2


def entry_of_other_major(image):
    at = image.symbol("membrane_plugin_v1")[1]
    text = image.value(DT_STRTAB) + struct.unpack_from("<I", image.data, at)[0]
    image.data[text + 17] = ord("2")


def exports_more(image):
    """Defines a symbol that was undefined and weak, as a function of the entry's address."""
    entry = image.symbol("membrane_plugin_v1")[1]
    at = image.symbol("_ITM_registerTMCloneTable")[1]
    image.data[at + 4] = 2 << 4 | 2 # still weak
    image.data[at + 5:at + 24] = image.data[entry + 5:entry + 24]


def needs_host_symbol(image):
    """fprintf, used by failed assertions alone, becomes a function of a library of the tool's own."""
    index, at = image.symbol("fprintf")
    text = image.value(DT_STRTAB) + struct.unpack_from("<I", image.data, at)[0]
    image.data[text:text + 7] = b"elf_end"
    struct.pack_into("<H", image.data, image.value(DT_VERSYM) + 2 * index, 1) # of any version


def relative_search_path(image):
    image.add_dynamic(DT_RUNPATH, "fstat")


def other_soname(image):
    image.add_dynamic(DT_SONAME, "fstat")


def has_filter(image):
    image.add_dynamic(DT_AUXILIARY, "fstat")


def needs_relative_library(image):
    image.add_dynamic(DT_NEEDED, "./libm.so.6")


def needs_host_library(image):
    image.add_dynamic(DT_NEEDED, "libmembrane.so.0")


def cut_off(image):
    del image.data[-100:] # of the section table


def nothing(image):
    """For what is no fault of the bytes."""


FAULTS = {
    "no_string_table_size": lambda image: image.set_value(DT_STRSZ, 0),
    "no_note": no_note,
    "second_note": second_note,
    "short_note": short_note,
    "note_of_major_2": set_note(MAJOR, b"\2\0"),
    "note_minors_backwards": set_note(MINOR_MIN, b"\1\0"),
    "patched_header": set_note(DIGEST, b"\0\0\0\0"),
    "unknown_note_flag": set_note(FLAGS, b"\x41\0"),
    "note_name_with_capital": set_note(NAME, b"Bad"),
    "other_file_name": nothing, # the build names it
    "unterminated_vendor": set_note(VENDOR, b"v" * 32),
    "entry_is_data": entry_is_data,
    "exports_more": exports_more,
    "needs_host_symbol": needs_host_symbol,
    "entry_is_unique": entry_is_unique,
    "executable_stack": segment_flag(PT_GNU_STACK, 1),
    "writable_code": segment_flag(PT_LOAD, 2),
    "text_relocations": or_value(DT_FLAGS, 4),
    "relative_search_path": relative_search_path,
    "needs_relative_library": needs_relative_library,
    "needs_host_library": needs_host_library,
    "has_filter": has_filter,
    "other_soname": other_soname,
    "static_tls": or_value(DT_FLAGS, 16),
    "forbids_unloading": or_value(DT_FLAGS_1, 8),
    "loads_global": or_value(DT_FLAGS_1, 2),
    "writable_by_all": nothing, # no build gives a file such a mode: specimen.py
    "cut_off": cut_off,
    "entry_of_other_major": entry_of_other_major,
}


def main():
    fault, plugin, copy = sys.argv[1:]
    with open(plugin, "rb") as file:
        image = Image(file.read())
    FAULTS[fault](image)
    with open(copy, "wb") as file:
        file.write(image.data)


if __name__ == "__main__":
    main()
