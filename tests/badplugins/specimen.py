"""Makes a bad plugin: a copy of the good one with a fault's name in it, or with a fault of the file."""

import ctypes
import os
import shutil

import elf_faults

MARK = b"MEMBRANE-FAULT:"
NAME_BYTES = 128
DRIVER = "libdriver.so" # beside the plugin
NEED_DRIVER = ("changes_current_context",)


def path_of_libm():
    ctypes.CDLL("libm.so.6")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "/libm.so.6" in line)


def make(plugin, fault, folder):
    """A copy with the fault in it, or several with '+' between, as an Image; its path is
    FOLDER/file_name."""
    with open(plugin, "rb") as file:
        image = elf_faults.Image(file.read())
    image.fault = fault
    named = []
    for one in fault.split("+"):
        if one in elf_faults.FAULTS:
            elf_faults.FAULTS[one](image)
        elif one != "none":
            assert one.encode() + b"\0" in image.data, f"no bad_*.c knows {one}"
            named.append(one)
    if named:
        name = "+".join(named)
        at = image.data.index(MARK)
        assert image.data.count(MARK) == 1 and len(MARK) + len(name) < NAME_BYTES, fault
        image.data[at:at + NAME_BYTES] = (MARK + name.encode()).ljust(NAME_BYTES, b"\0")
    path = os.path.join(folder, image.file_name)
    with open(path, "wb") as file:
        file.write(image.data)
    os.chmod(path, image.mode)
    if fault in NEED_DRIVER:
        shutil.copy(os.path.join(os.path.dirname(plugin), DRIVER), folder)
    if image.library:
        shutil.copy(path_of_libm(), os.path.join(folder, image.library))
    return image
