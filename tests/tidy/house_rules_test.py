#!/usr/bin/env python3
"""The rules hold for this tree, and each rule finds a violation."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bounds  # noqa: E402
import cpp_functions  # noqa: E402
import folder_rules  # noqa: E402
import house_rules  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Tree:
    """Makes a small git tree with the given files."""

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
    return f"// An example of a header.\n#pragma once\n{include}\n{body}\n"


class HouseRules(unittest.TestCase):
    def expect(self, files, text):
        self.assertIn(text, Tree(files).findings())

    def test_this_tree_keeps_the_rules(self):
        self.assertEqual([], list(house_rules.findings(ROOT)))

    def test_the_tables_name_nothing_that_is_gone(self):
        self.assertEqual([], list(house_rules.stale(ROOT)))

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

    def test_two_sources_of_a_folder_may_not_share_an_unnamed_name(self):
        def source(body):
            return f"namespace a {{\nnamespace {{\n{body}\n}}  // namespace\n}}\n"

        def found(one, other, folder="engine/base"):
            return Tree({"engine/base/a.cc": source(one),
                         f"{folder}/b.cc": source(other),
                         "engine/base/CMakeLists.txt": "a.cc b.cc",
                         "engine/tensor/CMakeLists.txt": "b.cc"}).findings()

        for line in ("int Twice(int x) {\n  return 2 * x;\n}",
                     "constexpr uint64_t kMiB = 1 << 20;",
                     "struct Row {\n  int a;\n};",
                     "template <typename T>\nT* Twice(T& x) {\n  return &x;\n}"):
            self.assertIn("in the unnamed namespaces of engine/base/a.cc, "
                          "engine/base/b.cc", found(line, line), line)
            self.assertEqual("", found(line, line, "engine/tensor"))
        self.assertIn("'Row'", found("using Row = int;", "using Row = long;"))
        self.assertEqual("", found("using Row = int;", "using Row = int;"))
        self.assertEqual("", found("using ::testing::_;", "using ::testing::_;"))
        alone = '#include "hwy/foreach_target.h"\nstruct Row {\n  int a;\n};'
        self.assertNotIn("unnamed", found(alone, alone), "it is compiled by itself")

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

    def test_a_long_function_in_a_class_is_found(self):
        text = ("class A : public B {\n public:\n  A(int a) : a_{a}, b_(a) {\n"
                + "    ;\n" * 80 + "  }\n  int a_;\n};\n")
        self.expect({"engine/base/a.h": header("", text)}, "a function of 81 lines")

    def test_cuda_sources_are_checked_like_others(self):
        self.expect({"engine/backends/cuda/a.cu": "void F() {\n" + "  ;\n" * 80 + "}\n",
                     "engine/backends/cuda/CMakeLists.txt": "a.cu"},
                    "a function of 81 lines")
        self.expect({"engine/backends/cuda/a.cu": "int a;\n" * 601,
                     "engine/backends/cuda/CMakeLists.txt": "a.cu"}, "at most 600")
        self.expect({"engine/backends/cuda/a.cu": '#include "server/ipc/slot.h"\n',
                     "engine/backends/cuda/CMakeLists.txt": "a.cu"}, "engine may not")
        self.expect({"engine/backends/cuda/a.cu": "int a;\n",
                     "engine/backends/cuda/CMakeLists.txt": ""}, "no CMakeLists.txt names")
        self.expect({"engine/backends/cuda/a.cuh": "int a;\n"}, "no #pragma once")


class Floors(unittest.TestCase):
    def test_a_floor_may_use_those_before_it(self):
        tree = Tree({"engine/train/a.h": header('#include "engine/graph/graph.h"')})
        self.assertEqual("", tree.findings())

    def test_a_floor_may_not_use_those_after_it(self):
        tree = Tree({"engine/graph/a.h": header('#include "engine/train/training.h"')})
        self.assertIn("uses only the floors before its own", tree.findings())

    def test_neighbours_on_a_floor_stay_apart(self):
        tree = Tree({"engine/serving/a.h": header('#include "engine/train/training.h"')})
        self.assertIn("uses only the floors before its own", tree.findings())

    def test_a_new_folder_needs_a_floor(self):
        tree = Tree({"engine/attic/a.h": header()})
        self.assertIn("engine/attic stands on no floor", tree.findings())

    def test_an_exception_is_for_one_file(self):
        include = '#include "engine/import/onnx/graph/onnx_import.h"'
        row = {("engine/model/a.h", "engine/import/onnx"): "why"}
        with mock.patch.object(folder_rules, "FLOOR_EXCEPTIONS", row):
            self.assertEqual("", Tree({"engine/model/a.h": header(include)}).findings())
            self.assertIn("floors before", Tree(
                {"engine/model/b.h": header(include)}).findings())
            self.assertIn("FLOOR_EXCEPTIONS names", "\n".join(
                folder_rules.stale_rows({"engine/model/a.h": ""})))


class Rooms(unittest.TestCase):
    ROOMS = {"server/pool": [["wire"], ["process"], ["."]],
             "engine/graph": [["ops"], ["."]]}

    def findings(self, path, include):
        with mock.patch.object(folder_rules, "LADDERS", self.ROOMS):
            return Tree({path: header(f'#include "{include}"')}).findings()

    def test_a_room_may_use_those_before_it(self):
        for path, include in (
                ("server/pool/process/a.h", "server/pool/wire/b.h"),
                ("server/pool/process/a.h", "server/pool/process/b.h"),
                ("server/pool/a.h", "server/pool/process/b.h")):
            self.assertEqual("", self.findings(path, include))

    def test_a_room_may_not_use_those_after_it(self):
        for path, include in (
                ("server/pool/wire/a.h", "server/pool/process/b.h"),
                ("server/pool/process/a.h", "server/pool/b.h"),
                ("server/pool/process/a.h", "server/pool/attic/b.h")):
            self.assertIn("uses only the rooms of server/pool before its own",
                          self.findings(path, include))

    def test_a_new_room_needs_a_row_and_a_row_a_file(self):
        self.assertIn("attic is no room of server/pool",
                      self.findings("server/pool/attic/a.h", "server/ipc/b.h"))
        with mock.patch.object(folder_rules, "LADDERS", self.ROOMS):
            self.assertIn("server/pool: LADDERS names wire, where no file is",
                          list(folder_rules.stale_rooms({"server/pool/a.h": ""})))

    def test_a_room_stands_on_the_floor_of_its_folder(self):
        self.assertEqual("", self.findings(
            "engine/graph/ops/a.h", "engine/tensor/shape.h"))
        self.assertIn("engine/graph uses only the floors before", self.findings(
            "engine/graph/ops/a.h", "engine/runtime/program.h"))
        self.assertIn("stands on no floor", self.findings(
            "engine/graph/attic/a.h", "engine/tensor/shape.h"))

    def test_a_folder_holds_a_bounded_number_of_files(self):
        files = [f"tests/a/f{i}.py" for i in range(40)]
        few = files + ["tests/a/b/more.py", "tests/a/data.bin"]
        with mock.patch.object(bounds, "FILES", {}):
            self.assertEqual([], list(folder_rules.check_files(few)))
            self.assertIn("tests/a: 41 files, at most 40", "".join(
                folder_rules.check_files(files + ["tests/a/README.md"])))
        with mock.patch.object(bounds, "FILES", {"tests/a": 41}):
            self.assertEqual([], list(folder_rules.check_files(files + ["tests/a/x.h"])))
            self.assertIn("FILES names tests/a, which holds 40 files", "".join(
                folder_rules.stale_files(files)))


class Doors(unittest.TestCase):
    INCLUDE = '#include "engine/runtime/executor.h"'

    def test_the_session_is_the_door(self):
        self.assertEqual("", Tree({"server/worker/a.h": header(
            '#include "engine/session.h"')}).findings())
        self.assertIn("a side door", Tree({"server/worker/a.h": header(
            self.INCLUDE)}).findings())

    def test_a_side_door_has_a_row_and_a_row_a_side_door(self):
        rows = {"server/worker/a.h": ["engine/runtime/executor.h"]}
        with mock.patch.object(folder_rules, "SIDE_DOORS", rows):
            self.assertEqual("", Tree({"server/worker/a.h": header(
                self.INCLUDE)}).findings())
            self.assertIn("SIDE_DOORS names engine/runtime/executor.h", "\n".join(
                folder_rules.stale_rows({"server/worker/a.h": ""})))

    def test_an_arrow_that_no_include_uses_is_found(self):
        arrows = {"server/pool": ["server/ipc", "proto:messages"]}
        texts = {"server/pool/a.h": '#include "gpupool/v1/job.pb.h"\n'}
        self.assertEqual(["server/pool: no include uses its arrow to server/ipc"],
                         list(folder_rules.unused_arrows(arrows, texts)))

    def test_a_link_that_no_include_uses_is_found(self):
        lists = {"server/ipc/CMakeLists.txt": "gpupool_library(gpupool_ipc SOURCES i.cc)",
                 "server/pool/CMakeLists.txt":
                     "gpupool_library(gpupool_pool SOURCES a.cc\n  DEPS gpupool_ipc absl::x)"}
        used = {"server/pool/a.cc": '#include "server/ipc/i.h"\n'}
        self.assertEqual([], list(folder_rules.unused_links(lists, used)))
        below = {"server/pool/a.cc": '#include "server/ipc/wire/i.h"\n'}
        self.assertEqual([], list(folder_rules.unused_links(lists, below)))
        own = dict(lists, **{"server/ipc/wire/CMakeLists.txt":
                             "gpupool_library(gpupool_wire SOURCES w.cc)"})
        self.assertIn("gpupool_pool links gpupool_ipc", "".join(
            folder_rules.unused_links(own, below)))
        self.assertIn("gpupool_pool links gpupool_ipc, but includes nothing", "".join(
            folder_rules.unused_links(lists, {"server/pool/a.cc": ""})))


class Waits(unittest.TestCase):
    def found(self, path, line):
        with mock.patch.object(house_rules.wait_rules, "WAITS", {
                ("tests/a_test.cc", "SleepFor(kDeviceTime)"): "a device's time"}):
            return "\n".join(house_rules.wait_rules.check_waits(path, line + "\n"))

    def test_sleeping_short_waits_and_measured_bounds_are_found(self):
        for line, finding in (
                ("absl::SleepFor(absl::Milliseconds(5));", "sleeps"),
                ("std::this_thread::sleep_for(time);", "sleeps"),
                ("usleep(200);", "sleeps"),
                ("done.WaitForNotificationWithTimeout(absl::Seconds(5))", "less than 10 s"),
                ("future.wait_for(std::chrono::milliseconds(500))", "less than 10 s"),
                ("EXPECT_LT(absl::Now() - start, absl::Seconds(60));", "compares how long")):
            self.assertIn(finding, self.found("tests/server/a_test.cc", line), line)
        for line, finding in (
                ("        time.sleep(5)", "sleeps"),
                ("server.wait_job(job, seconds=5)", "less than 10 s"),
                ("urlopen(url, timeout=2)", "less than 10 s"),
                ("self.assertLess(self.slowest, 20)", "compares how long")):
            self.assertIn(finding, self.found("tests/e2e/a_test.py", line), line)

    def test_waits_for_states_are_no_findings(self):
        for path, line in (
                ("tests/server/a_test.cc", "EXPECT_TRUE(WaitUntil([&] { return ready; }));"),
                ("tests/server/a_test.cc", "done.WaitForNotificationWithTimeout(kPatience)"),
                ("tests/server/a_test.cc", "EXPECT_GE(absl::Now() - start, kDelay);"),
                ("tests/a_test.cc", "absl::SleepFor(kDeviceTime);"),
                ("tests/wait_until.h", "absl::SleepFor(absl::Milliseconds(1));"),
                ("tests/e2e/a_test.py", "server.wait_job(job, seconds=300)"),
                ("tests/e2e/harness.py", "time.sleep(0.02)")):
            self.assertEqual("", self.found(path, line), line)

    def test_an_excuse_that_nobody_needs_is_found(self):
        self.assertTrue(list(house_rules.wait_rules.stale_rows({})))


class Bounds(unittest.TestCase):
    WIDE = "int F(int a, int b, std::map<int, int> c, int d, int e) { return a; }"

    def judged(self, files, **tables):
        tree = Tree(files)
        with mock.patch.multiple(bounds, **tables):
            return ("\n".join(house_rules.findings(tree.root)),
                    "\n".join(house_rules.notes(tree.root)))

    def test_parameters_are_counted_against_the_folders_bound(self):
        files = {"engine/base/a.h": header("", self.WIDE)}
        self.assertIn("engine: 1 functions with more than four parameters, at most 0",
                      self.judged(files, PARAMETERS={}, FRAGMENTS={})[0])
        self.assertEqual(("", ""), self.judged(
            files, PARAMETERS={"engine": 1}, FRAGMENTS={}))
        self.assertIn('lower the bound to 1: PARAMETERS["engine/base"]', self.judged(
            files, PARAMETERS={"engine/base": 3}, FRAGMENTS={})[1])

    def test_fragments_are_counted_against_the_folders_bound(self):
        for opening in ("Of it, in a row.", "That it may use.", "Those of a job.",
                        "Whose bytes they are.", "What it holds.", "Which devices.",
                        "Where they lie.", "As RequeueJob."):
            files = {"engine/base/a.h": header("", f"// {opening}\nint a;")}
            found, _ = self.judged(files, PARAMETERS={}, FRAGMENTS={})
            self.assertIn("comments that open as a fragment, at most 0", found, opening)

    def test_a_sentence_or_a_noun_phrase_is_no_fragment(self):
        for opening in ("Returns the bytes of it.", "Bytes of what is loaded.",
                        "Where the system refuses, they are staged.",
                        "How long does a step take?", "Adds one.\n// Of the others."):
            files = {"engine/base/a.h": header("", f"// {opening}\nint a;")}
            self.assertNotIn("fragment", self.judged(
                files, PARAMETERS={}, FRAGMENTS={})[0], opening)


class Functions(unittest.TestCase):
    def counts(self, text):
        return [(f.name, f.parameters) for f in cpp_functions.functions(text)]

    def test_kinds_of_functions(self):
        self.assertEqual([
            ("F", 2), ("A", 1), ("~A", 0), ("operator_", 1), ("G", 2), ("H", 1),
            ("B::Run", 3)], [(n, p) for n, p in self.counts("""
namespace x {
std::map<int, int> F(std::map<int, int> a, int (*b)(int, int)) { return a; }
class A : public C<int, int> {
  explicit A(int a) : a_{a}, b_(a), c_{} { for (;;) {} }
  ~A() override {}
  bool operator<(const A& o) const { return a_ < o.a_; }
  virtual int G(int a, int b) = 0;
  int later(int a, int b, int c, int d, int e);
  std::vector<int> v_ = {1, 2};
};
template <typename T, int n = 3>
auto H(T a) -> std::vector<T> { return {a}; }  // not one, (two, three) {
const auto lambda = [](int a, int b) { return a; };
constexpr int table[] = {1, 2, 3};
}  // namespace x
absl::Status B::Run(
    int a, absl::Span<const int> b,
    const char* c = "{(,") const {
  if (a) { return {}; }
  return {};
}
""")])


if __name__ == "__main__":
    unittest.main()
