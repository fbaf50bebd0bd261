#!/usr/bin/env python3
"""A setting of the daemon has one row: nothing else in the daemon names it, so
that a new one needs its row, its member and its user, and nothing more."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "server/settings.cc"
# Parts of Config that are passed on as a whole.
PARTS = ("ApiLimits", "SlotRingOptions", "QueuePolicy", "TlsFiles")
# Settings that two files read, with the second.
TWO_READERS = {"listen": "main.cc",               # warns
               "auth": "main.cc",                 # warns
               "state-dir": "main.cc",            # --check looks there
               "log-format": "main.cc",           # the daemon's own log
               "serving-target-delay": "config.cc"}  # a part of the policy


def rows():
    """Returns (name, owner of the member, member) of every row."""
    return re.findall(r'\{kGroup,\s*"([a-z-]+)",.*?In<&(\w+)::(\w+)>',
                      TABLE.read_text(), re.S)


class SettingsRows(unittest.TestCase):
    def test_the_table_is_found(self):
        text = TABLE.read_text()
        self.assertEqual(text.count("{kGroup,"), len(rows()))
        self.assertGreater(len(rows()), 30)

    def test_what_reads_and_shows_settings_names_none(self):
        files = [p for p in (ROOT / "server").glob("*.*")
                 if p.name.startswith(("config", "setting")) and p != TABLE]
        self.assertGreaterEqual(len(files), 10)
        for path in files:
            literals = re.findall(r'"([^"\n]*)"', path.read_text())
            for name, _, _ in rows():
                self.assertNotIn(name, literals, path.name)
                self.assertNotIn(f"--{name}", literals, path.name)

    def test_a_member_has_one_reader(self):
        sources = {p.name: p.read_text() for p in (ROOT / "server").glob("*.cc")
                   if p != TABLE}
        for name, owner, member in rows():
            pattern = re.compile(rf"\bconfig_?(\.|->){member}\b")
            readers = {f for f, text in sources.items() if pattern.search(text)}
            readers -= {TWO_READERS.get(name)}
            self.assertEqual(0 if owner in PARTS else 1, len(readers), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
