#!/usr/bin/env python3
"""The rules hold for this tree, and each rule catches what it is for."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import house_rules  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Tree:
    """A small git tree with the given files."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def findings(self):
        return "\n".join(house_rules.findings(self.root))


def header(include="", body=""):
    return f"// What it is for.\n#pragma once\n{include}\n{body}\n"


class HouseRules(unittest.TestCase):
    def expect(self, files, text):
        self.assertIn(text, Tree(files).findings())

    def test_this_tree_keeps_the_rules(self):
        self.assertEqual([], list(house_rules.findings(ROOT)))

    def test_a_good_header_has_no_finding(self):
        self.assertEqual("", Tree({"engine/base/a.h": header()}).findings())

    def test_the_scheduler_may_not_include_the_server(self):
        self.expect({"scheduler/a.h": header('#include "server/store/store.h"')},
                    "scheduler may not")

    def test_the_store_may_not_include_control(self):
        self.expect({"server/store/a.h": header('#include "server/control/x.h"')},
                    "server/store may not")

    def test_serving_may_include_the_sink_but_not_the_loop(self):
        good = Tree({"server/serving/a.h":
                     header('#include "server/control/serving_sink.h"')})
        self.assertEqual("", good.findings())
        self.expect({"server/serving/a.h":
                     header('#include "server/control/control_loop.h"')},
                    "server/serving may not")

    def test_grpc_stays_at_the_edge(self):
        self.expect({"server/control/a.h": header("#include <grpcpp/grpcpp.h>")},
                    "gRPC belongs in")

    def test_the_scheduler_touches_no_clock(self):
        self.expect({"scheduler/a.h": header("", "auto t = absl::Now();")},
                    "the scheduler is pure")

    def test_a_long_source_is_found(self):
        self.expect({"engine/base/a.cc": "int a;\n" * 601,
                     "engine/base/CMakeLists.txt": "a.cc"}, "at most 600")

    def test_a_long_function_is_found(self):
        self.expect({"engine/base/a.cc": "void F() {\n" + "  ;\n" * 80 + "}\n",
                     "engine/base/CMakeLists.txt": "a.cc"}, "a function of 81 lines")

    def test_a_long_function_with_a_long_signature_is_found(self):
        self.expect({"engine/base/a.cc": "void F(int a,\n       int b) {\n"
                     + "  ;\n" * 80 + "}\n",
                     "engine/base/CMakeLists.txt": "a.cc"}, "a function of 81 lines")

    def test_a_long_class_or_table_is_no_function(self):
        body = "class A {\n" + "  int a();\n" * 90 + "};\n"
        table = "constexpr int k[] = {\n" + "  1,\n" * 90 + "};\n"
        tree = Tree({"engine/base/a.cc": body + table,
                     "engine/base/CMakeLists.txt": "a.cc"})
        self.assertEqual("", tree.findings())

    def test_a_note_in_a_comment_is_found(self):
        self.expect({"engine/base/a.h": header("", "// " + "FIX" + "ME: later")},
                    "a note to oneself")

    def test_an_unregistered_source_is_found(self):
        self.expect({"engine/base/a.cc": "int a;\n",
                     "engine/base/CMakeLists.txt": "aa.cc"}, "no CMakeLists.txt names it")

    def test_a_shell_call_is_found(self):
        self.expect({"server/ipc/a.h": header("", 'int x = system("ls");')},
                    "never a shell")

    def test_a_header_without_guard_is_found(self):
        self.expect({"client/a.h": "// For.\nint a;\n"}, "no #pragma once")


if __name__ == "__main__":
    unittest.main()
