#!/usr/bin/env python3
"""tools/fatbin_list.py on files that are made here, byte by byte."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import fatbin_list  # noqa: E402


def entry(kind, capability, payload=b"kernels!", compressed=True, more=b""):
    return struct.pack("<HHIQIIIIIIQQQ", kind, 0x101, 64 + len(more), len(payload),
                       len(payload) if compressed else 0, 0, 0, capability, 0, 0, 0,
                       0, 0) + more + payload


def fatbin(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(sections):
    """Returns an ELF file with these sections and the table of their names."""
    sections = dict(sections, **{".names": b""})
    names, starts = b"\0", {}
    for name in sections:
        starts[name] = len(names)
        names += name.encode() + b"\0"
    sections[".names"] = names
    body, headers = b"", [bytes(64)]
    for name, data in sections.items():
        headers.append(struct.pack("<IIQQQQIIQQ", starts[name], 1, 0, 0,
                                   64 + len(body), len(data), 0, 0, 8, 0))
        body += data
    return (b"\x7fELF\x02\x01\x01" + bytes(9)
            + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0,
                          64, len(headers), len(headers) - 1)
            + body + b"".join(headers))


FIRST = fatbin(entry(2, 75), entry(2, 120, compressed=False, more=bytes(48)))
TWO = FIRST + bytes(8) + fatbin(entry(2, 80), entry(1, 80, b"more of this PTX"))


class FatbinList(unittest.TestCase):
    def listed(self, data):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(data)
            file.flush()
            return fatbin_list.list_library(file.name)

    def test_every_entry_of_every_region_is_listed(self):
        first, second = self.listed(library({".text": b"code", ".nv_fatbin": TWO}))
        self.assertEqual([("code", 75, True, 8), ("code", 120, False, 8)],
                         [tuple(e) for e in first])
        self.assertEqual([("code", 80, True, 8), ("ptx", 80, True, 16)],
                         [tuple(e) for e in second])
        self.assertEqual("7.5, 12.0 uncompressed (16 bytes)", fatbin_list.text(first))
        self.assertEqual("8.0, PTX 8.0 (24 bytes)", fatbin_list.text(second))

    def test_a_library_without_kernels_has_none(self):
        self.assertEqual([], self.listed(library({".text": b"code"})))

    def test_a_cut_file_is_said_to_be_cut(self):
        whole = library({".nv_fatbin": TWO})
        for length in range(len(whole)):
            with self.assertRaises(fatbin_list.Malformed, msg=f"{length} bytes"):
                self.listed(whole[:length])

    def test_cut_and_strange_fat_binaries_are_refused(self):
        for length in range(1, len(TWO)):
            if length in (len(FIRST), len(FIRST) + 8):
                self.assertEqual(1, len(fatbin_list.regions(TWO[:length])))
                continue
            with self.assertRaises(fatbin_list.Malformed, msg=f"{length} bytes"):
                fatbin_list.regions(TWO[:length])
        for strange in (fatbin(entry(3, 80)), b"\1" + TWO):
            with self.assertRaises(fatbin_list.Malformed):
                fatbin_list.regions(strange)

    def test_the_command_says_what_is_wrong_with_a_file(self):
        def run(*arguments):
            return subprocess.run([sys.executable, ROOT / "tools/fatbin_list.py",
                                   *arguments], capture_output=True, text=True)
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(library({".nv_fatbin": TWO}))
            file.flush()
            self.assertEqual(2, len(run(file.name).stdout.splitlines()))
            regions = json.loads(run("--json", file.name).stdout)
            self.assertEqual({"kind": "ptx", "capability": 80, "compressed": True,
                              "bytes": 16}, regions[1][1])
        wrong = run(__file__)
        self.assertEqual(1, wrong.returncode)
        self.assertIn("no 64-bit little-endian ELF file", wrong.stderr)
        self.assertIn("/nowhere.so", run("/nowhere.so").stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
