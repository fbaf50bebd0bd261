#!/usr/bin/env python3
"""docs/triton.md has a row for every call, parameter, extension, path and field of
config.pbtxt, and no row for one that does not exist. The .proto files and the source
of the server say what exists, and which of it is refused."""
import functools
import pathlib
import re
import unittest

from proto_messages import message_of, parse_messages

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/triton.md"
WORDS = ("works", "differs", "refused")

# Extensions that Triton announces and this server does not.
UNANNOUNCED = {"cuda_shared_memory", "schedule_policy"}


@functools.cache
def source(path):
    """Returns the file without its comments."""
    return re.sub(r"//.*", "", (ROOT / path).read_text())


def strings_in(text):
    return re.findall(r'"([^"\n]*)"', text)


def table(path, name):
    """Returns what stands between the braces of the table `name` of a source file."""
    return re.search(rf"\b{name}\[\] = \{{(.*?)\}};", source(path), re.S).group(1)


def body(path, start):
    """Returns the function that begins with the text `start`."""
    return re.search(rf"^{re.escape(start)}.*?^}}$", source(path), re.M | re.S).group()


def constants(path, text):
    """Replaces names of constants that are strings by these strings."""
    known = dict(re.findall(r'constexpr \S+ (k\w+)(?:\[\])?\s*=\s*"([^"]*)"', source(path)))
    return re.sub(r"\bk[A-Z]\w+", lambda m: f'"{known.get(m.group(), "")}"', text)


# ---------------------------------------------------------------- .proto files


CONFIG = parse_messages(source("proto/inference/model_config.proto"))


def config_paths(message="ModelConfig", above=""):
    """Yields the path of every field. The fields of a message that is refused as a
    whole have none."""
    for field, (of_type, is_map) in CONFIG[message].items():
        path = above + field
        yield path
        inner = None if is_map else message_of(CONFIG, of_type, message)
        if inner and path in known_paths():
            yield from config_paths(inner, path + ".")


def known_paths():
    return set(strings_in(table("server/repository/config_fields.cc", "kKnown")))


def remedies():
    rows = table("server/repository/config_fields.cc", "kRemedies")
    return dict(re.findall(r'\{"([^"]+)",\s*"([^"]+)"\}', rows))


def enum_values():
    """Returns the names of all enums' values; a name may be there twice."""
    text = source("proto/inference/model_config.proto")
    return re.findall(r"^\s*([A-Z][A-Z0-9_]+) = \d+;", text, re.M)


# --------------------------------------------------------------- other sources


def rpcs():
    return set(re.findall(r"\brpc (\w+)\(", source("proto/inference/grpc_service.proto")))


def refused_rpcs():
    return set(re.findall(r"InferenceService::(\w+)\([^{]*\{\s*return NotOffered",
                          source("server/api/inference/inference_service.cc")))


def paths():
    """Returns every "METHOD /path" of the REST routes, with * for a name."""
    found, names = set(), {}
    calls = re.compile(
        r"for \(const std::string (\w+) :\s*\{([^}]*)\}|"
        r"Add(Get|Post)\(\s*router,\s*\{([^,]+),[^}]*\},\s*&Impl::")
    for name, values, method, pattern in calls.findall(source("server/http/rest_routes.cc")):
        if name:
            names[name] = strings_in(values)
            continue
        word = re.match(r"\w+", pattern)
        for first in names[word.group()] if word else [""]:
            found.add(f"{method.upper()} {first}{''.join(strings_in(pattern))}")
    return found


def parameters():
    """Returns the keys that the server knows, by the heading of their table."""
    tensors = "server/api/inference/request_tensors.cc"
    regions = "server/api/inference/region_tensors.cc"
    rest = "server/http/rest/rest_infer_request.cc"
    comparisons = re.findall(r'key == ("\w+")', source(tensors))
    named = re.findall(r"(?:contains|find)\(std::string\((k\w+)\)\)", source(tensors))
    places = re.findall(r"constexpr char (?:kRegion|kByteSize|kOffset)\[\] = (\"\w+\")",
                        source(regions))
    quoted = re.findall(r'contains\(("\w+")\)', source(tensors))
    http = dict(re.findall(r'constexpr char (kBinary\w+)\[\] = "(\w+)"', source(rest)))
    trace = "server/api/inference/trace_settings.cc"
    log = "server/api/inference/log_settings.cc"
    settings = [re.findall(rf"constexpr absl::string_view {name} = \"(\w+)\"", source(file))
                for file, name in ((trace, r"kTrace\w+"), (log, r"kLog\w+"))]
    return {
        "Of a request": set(strings_in(" ".join(comparisons))) | {http["kBinaryOutput"]},
        "Of an input or an output":
            set(strings_in(constants(tensors, " ".join(named + quoted + places)))) |
            {http["kBinarySize"], http["kBinaryData"]},
        "Of a response": set(re.findall(r'mutable_parameters\(\)\)\["(\w+)"\]',
                                        source("server/api/inference/stream_reactor.cc"))),
        "Settings of traces":
            set(settings[0]) | set(re.findall(r'\{"(\w+)", "', table(trace, "kFixed"))),
        "Settings of the log":
            set(settings[1]) | set(strings_in(table(log, "kLevelSettings"))),
    }


def announced():
    service = "server/api/inference/inference_service.cc"
    extra = re.findall(r'add_extensions\("(\w+)"\)', source(service))
    return set(strings_in(table(service, "kExtensions"))) | set(extra)


def datatypes():
    """Returns the datatypes of the protocol, and those that the server has."""
    every = {"BYTES" if name == "TYPE_STRING" else name[len("TYPE_"):]
             for name in enum_values() if name.startswith("TYPE_")} - {"INVALID"}
    here = set(re.findall(r'GPUPOOL_DTYPE\([^)]*"(\w+)"\)',
                          source("engine/base/dtype_table.inc")))
    here |= set(re.findall(r"GPUPOOL_WIDENED_TYPE\(\w+, (\w+),",
                           source("engine/base/widened_types.inc")))
    here |= set(re.findall(r'\{v1::STRING, "(\w+)"',
                           source("server/serving/tensor/data_type.cc")))
    return every, here


# -------------------------------------------------------------------- the page


def rows_below(heading, text=None):
    """Returns (names, here, how) of each row of the table below a heading. The names are
    the code in the first cell."""
    text = PAGE.read_text() if text is None else text
    part = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    found = []
    for line in re.findall(r"^\| (?!in Triton \|)(.*) \|$", part.group(1), re.M):
        cells = [cell.strip() for cell in (line + " ").split(" | ")]
        if len(cells) != 3:
            raise AssertionError(f"{heading}: a row has {len(cells)} cells: {line}")
        found.append((re.findall(r"`([^`]+)`", cells[0]), cells[1], cells[2]))
    return found


def words_below(heading):
    """Returns {name: word} of the table below a heading."""
    return {name: here for names, here, _ in rows_below(heading) for name in names}


def expand(path):
    """Returns the patterns of a path of the page, such as /v2[/models/NAME]/stats."""
    optional = re.search(r"\[([^\]]*)\]", path)
    if optional is None:
        method, _, rest = path.partition(" ")
        return {f"{method} {re.sub('[A-Z]+', '*', rest)}"}
    before, after = path[:optional.start()], path[optional.end():]
    return expand(before + after) | expand(before + optional.group(1) + after)


class TritonTable(unittest.TestCase):
    def assertRows(self, heading, expected):
        """Checks that the table names all of `expected`, once, and nothing else."""
        names = [name for row in rows_below(heading) for name in row[0]]
        self.assertEqual(len(set(names)), len(names), f"{heading}: a name is there twice")
        self.assertEqual(set(), set(expected) - set(names), f"{heading}: no row")
        self.assertEqual(set(), set(names) - set(expected), f"{heading}: does not exist")

    def test_every_row_has_one_of_the_three_words(self):
        headings = re.findall(r"^##+ (.*)$", PAGE.read_text(), re.M)
        count = 0
        for heading in headings:
            for names, here, how in rows_below(heading):
                self.assertIn(here, WORDS, f"{heading}: {names}")
                self.assertTrue(how or here == "works", f"{heading}: {names}")
                count += 1
        self.assertGreater(count, 150)

    def test_every_rpc_has_a_row(self):
        health = {"grpc.health.v1.Health/Check"}
        self.assertIn("EnableDefaultHealthCheckService(true)",
                      source("server/api/api_server.cc"))
        self.assertGreater(len(rpcs()), 15)
        self.assertRows("Calls by gRPC", rpcs() | health)

    def test_the_refused_rpcs_are_those_that_the_service_does_not_offer(self):
        words = words_below("Calls by gRPC")
        refused = {name for name, here in words.items() if here == "refused"}
        self.assertEqual(refused_rpcs(), refused)

    def test_every_path_has_a_row(self):
        have = {path for name in words_below("Paths over HTTP") for path in expand(name)}
        self.assertGreater(len(paths()), 25)
        self.assertEqual(set(), paths() - have, "no row")
        self.assertEqual(set(), have - paths(), "does not exist")

    def test_every_parameter_and_setting_has_a_row(self):
        for heading, keys in parameters().items():
            self.assertTrue(keys, heading)
            words = words_below(heading)
            self.assertEqual(set(), keys - set(words), f"{heading}: no row")
            # Rows about keys that are not known say so without a name of their own.
            unknown = set(words) - keys - {"triton_"}
            self.assertEqual(set(), unknown, f"{heading}: does not exist")

    def test_a_load_refuses_every_parameter(self):
        self.assertIn("if (!request->parameters().empty())",
                      source("server/api/inference/inference_service.cc"))
        words = words_below("Of loading and unloading")
        self.assertEqual({"config", "file:", "unload_dependents", "repository_name"},
                         set(words))
        self.assertEqual("refused", words["config"])
        self.assertEqual("refused", words["file:"])

    def test_every_extension_has_a_row(self):
        self.assertRows("Extensions", announced() | UNANNOUNCED)
        self.assertEqual(set(), announced() & UNANNOUNCED, "announced now")
        for names, here, how in rows_below("Extensions"):
            says_so = here != "refused" and "not announced" not in how
            self.assertEqual(set(names) <= announced(), says_so, names)

    def test_every_datatype_has_a_row(self):
        every, here = datatypes()
        self.assertGreater(len(here), 10)
        words = {name: word for name, word in words_below("Tensors").items()
                 if name.isupper()}
        self.assertEqual(every, set(words))
        self.assertEqual(every - here, {n for n, word in words.items() if word == "refused"})

    def test_every_field_of_config_pbtxt_has_a_row(self):
        expected = list(config_paths())
        self.assertGreater(len(expected), 60)
        self.assertRows("config.pbtxt", expected)

    def test_the_refused_fields_are_those_that_the_source_does_not_know(self):
        self.assertLessEqual(known_paths(), set(config_paths()))
        for names, here, _ in rows_below("config.pbtxt"):
            for name in names:
                self.assertEqual(name not in known_paths(), here == "refused", name)

    def test_a_refused_field_has_the_remedy_of_the_error(self):
        self.assertLessEqual(set(remedies()), set(config_paths()) - known_paths())
        for names, here, how in rows_below("config.pbtxt"):
            for name in names if here == "refused" else ():
                self.assertTrue(how.startswith(remedies().get(name, "remove it")), name)

    def test_the_fields_of_model_config_are_those_that_the_server_fills_in(self):
        filled = set(re.findall(
            r"\bconfig->(?:set|add|mutable)_(\w+)\(",
            body("server/api/inference/model_messages.cc", "void FillConfig(")))
        self.assertLessEqual(filled, set(CONFIG["ModelConfig"]))
        self.assertRows("Answers of ModelConfig", filled)

    def test_values_of_enums_exist(self):
        named = re.findall(r"`((?:KIND|TYPE|FORMAT|PRIORITY|BATCH|CONTROL)_[A-Z0-9_]+)`",
                           PAGE.read_text())
        self.assertTrue(named)
        self.assertLessEqual(set(named), set(enum_values()))

    def test_settings_of_the_server_exist(self):
        settings = set(re.findall(r'\{kGroup,\s*"([a-z-]+)"', source("server/settings.cc")))
        for names, here, how in rows_below("Options of the server"):
            for option in re.findall(r"`--([a-z-]+)", how):
                self.assertIn(option, settings, names)
            if here == "works" and "same name" in how:
                self.assertLessEqual({name[2:] for name in names}, settings)


class Reading(unittest.TestCase):
    """What the checks above read, they read right."""

    def test_messages_of_a_proto_file(self):
        messages = parse_messages("""
            message A {
              enum Kind { NONE = 0; }
              message B { repeated int64 x = 1; }
              oneof choice { B b = 1; string s = 2; }
              map<string, B> all = 3;
            }
            """)
        self.assertEqual({"x": ("int64", False)}, messages["A.B"])
        self.assertEqual({"b": ("B", False), "s": ("string", False),
                          "all": ("map<string, B>", True)}, messages["A"])

    def test_every_field_of_the_proto_file_is_read(self):
        numbers = re.findall(r" = \d+;", source("proto/inference/model_config.proto"))
        self.assertEqual(len(numbers), len(enum_values()) + sum(map(len, CONFIG.values())))

    def test_paths_with_parts_that_may_be_left_out(self):
        self.assertEqual({"GET /v2/models/*/stats", "GET /v2/models/*/versions/*/stats"},
                         expand("GET /v2/models/NAME[/versions/VERSION]/stats"))

    def test_every_route_of_the_source_is_read(self):
        calls = re.findall(r"\bAdd(?:Get|Post)\(\s*router,", source("server/http/rest_routes.cc"))
        read = re.findall(r"\bAdd(?:Get|Post)\(\s*router,\s*\{[^,]+,[^}]*\},\s*&Impl::",
                          source("server/http/rest_routes.cc"))
        self.assertEqual(len(calls), len(read))

    def test_a_row_with_another_number_of_cells_is_found(self):
        with self.assertRaises(AssertionError):
            rows_below("A", "## A\n| in Triton | here | how |\n| `x` | works |\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
