#!/usr/bin/env python3
"""Lists the machine code and the PTX inside a library with CUDA kernels.

    fatbin_list.py [--json] LIBRARY

One line for each compiled .cu file: what is inside, compressed or not, and how
many bytes of the library it takes. cuobjdump of the CUDA toolkit tells the
same; this needs Python alone.

The kernels of a .cu file are a "fat binary" in the section .nv_fatbin, all
numbers little-endian:
  header   u32 magic 0xBA55ED50, u16 version, u16 header bytes, u64 bytes behind
  entries  u16 kind (1 PTX, 2 machine code), u16 version, u32 header bytes,
           u64 bytes behind, u32 compressed bytes (0: not compressed), u32, u32,
           u32 compute capability times ten, ...
"""
import argparse
import collections
import json
import struct
import sys

MAGIC = 0xBA55ED50
KINDS = {1: "ptx", 2: "code"}
HEADER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQIIII")

Entry = collections.namedtuple("Entry", "kind capability compressed bytes")


class Malformed(Exception):
    """Raised when the file is not an ELF library with kernels as described above."""


def section(data, wanted):
    """Returns the bytes of a section of a 64-bit little-endian ELF file, or b""."""
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        raise Malformed("it is no 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if size < 64 or table + size * count > len(data) or names >= max(count, 1):
        raise Malformed("its table of sections is cut off")

    def header(index):
        at = table + size * index
        name, kind = struct.unpack_from("<II", data, at)
        offset, length = struct.unpack_from("<QQ", data, at + 24)
        return name, kind, offset, length

    if count == 0:
        return b""
    _, _, names_at, names_length = header(names)
    strings = data[names_at:names_at + names_length]
    for index in range(count):
        name, kind, offset, length = header(index)
        end = strings.find(b"\0", name)
        if strings[name:end] == wanted.encode() and kind != 8:  # 8: no bytes
            if offset + length > len(data):
                raise Malformed(f"its section {wanted} is cut off")
            return data[offset:offset + length]
    return b""


def entries(region):
    """Returns the entries of one fat binary. `region` is what follows its header."""
    found, at = [], 0
    while at < len(region):
        if at + ENTRY.size > len(region):
            raise Malformed("an entry of a fat binary is cut off")
        kind, _, header, length, compressed, _, _, capability = \
            ENTRY.unpack_from(region, at)
        if header < ENTRY.size or at + header + length > len(region):
            raise Malformed("an entry of a fat binary is cut off")
        if kind not in KINDS:
            raise Malformed(f"an entry of a fat binary has the kind {kind}")
        found.append(Entry(KINDS[kind], capability, compressed != 0, length))
        at += header + length
    return found


def regions(fatbin):
    """The entries of each fat binary of a section, in order."""
    found, at = [], 0
    while at < len(fatbin):
        if fatbin[at:at + 8] == bytes(8):  # the linker's alignment
            at += 8
            continue
        if at + HEADER.size > len(fatbin):
            raise Malformed("a fat binary is cut off")
        magic, _, header, length = HEADER.unpack_from(fatbin, at)
        if magic != MAGIC:
            raise Malformed(f"no fat binary begins at byte {at} of .nv_fatbin")
        end = at + header + length
        if header < HEADER.size or end > len(fatbin):
            raise Malformed("a fat binary is cut off")
        found.append(entries(fatbin[at + header:end]))
        at = end
    return found


def list_library(path):
    with open(path, "rb") as file:
        return regions(section(file.read(), ".nv_fatbin"))


def text(region):
    words = [f"{'PTX ' if e.kind == 'ptx' else ''}{e.capability // 10}."
             f"{e.capability % 10}{'' if e.compressed else ' uncompressed'}"
             for e in region]
    return f"{', '.join(words)} ({sum(e.bytes for e in region)} bytes)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("file", help="a library with CUDA kernels")
    arguments = parser.parse_args()
    try:
        found = list_library(arguments.file)
    except (OSError, Malformed) as error:
        print(f"{arguments.file}: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps([[e._asdict() for e in region] for region in found]))
    else:
        for region in found:
            print(text(region))
        if not found:
            print("no kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
