#!/usr/bin/env python3
"""Every command in the docs runs, and all files and headings that they name exist.

Blocks marked ```sh in README.md and docs/**/*.md are executed, file by file, in
order, by one bash from the root of the project, beside a running server (its
address in GPUPOOL_ADDRESS) and with the binaries in PATH. Blocks with another
mark are not commands to run here. The pages run twice: each against a server of
its own, and all against one server, so that no page leaves anything behind that
stops the next one.
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

DOCS = harness.ROOT / "docs"
PAGES = [harness.ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def commands(path):
    return re.findall(r"^```sh\n(.*?)^```$", path.read_text(), re.M | re.S)


def prose(path):
    """Returns the page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)


def anchors(path):
    """Returns the anchors that GitHub makes from the headings."""
    heads = re.findall(r"^#+ (.*)$", prose(path), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


class Commands(harness.TestCase):
    def run_blocks(self, path, server):
        script = "set -euo pipefail\n" + "\n".join(commands(path))
        env = dict(os.environ, GPUPOOL_ADDRESS=server.address,
                   GPUPOOL_METRICS=f"127.0.0.1:{server.ports['metrics_port']}",
                   GPUPOOL_HTTP=f"127.0.0.1:{server.ports['http_port']}",
                   GPUPOOL_INSIDE_TEST="1", PATH=f"{harness.BIN}:{os.environ['PATH']}")
        done = subprocess.run(["bash", "-c", script], cwd=harness.ROOT, env=env,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(0, done.returncode, f"{path.relative_to(harness.ROOT)}\n"
                         f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}")

    def test_every_command_of_every_page_runs(self):
        pages = [page for page in PAGES if commands(page)]
        self.assertGreater(len(pages), 10)
        for page in pages:
            with self.subTest(page=page.name):
                self.run_blocks(page, self.start("--devices", "cpu:2",
                                                 *harness.sandbox_for_programs()))

    def test_all_pages_run_one_after_the_other_against_one_server(self):
        server = self.start("--devices", "cpu:2", *harness.sandbox_for_programs())
        for page in PAGES:
            if page.name == "README.md" or not commands(page):
                continue  # the README's ./dev starts a server of its own
            with self.subTest(page=page.name):
                self.run_blocks(page, server)
                self.assertEqual([], self.left_behind(server))

    def left_behind(self, server):
        """Returns what would make the commands of another page wait or fail."""
        jobs = server.json("jobs", "--state", "queued,starting,running,backing_off")
        pending = server.json("reserve", "list").get("reservations", [])
        closed = [device["name"] for device in server.devices() if device.get("drain")]
        return [job["spec"]["name"] for job in jobs.get("jobs", [])] + [
            reservation["name"] for reservation in pending] + closed


class Text(unittest.TestCase):
    def test_the_readme_names_the_two_commands(self):
        text = "\n".join(commands(harness.ROOT / "README.md"))
        self.assertIn("./dev demo", text)
        self.assertIn("./dev test", text)

    def test_the_readme_puts_gpupool_on_the_path_before_using_it(self):
        text = "\n".join(commands(harness.ROOT / "README.md"))
        self.assertLess(text.index('export PATH="$PWD/build/release/bin'),
                        text.index("\ngpupool "))

    def test_an_accuracy_is_measured_on_held_out_rows(self):
        for page in (harness.ROOT / "README.md", DOCS / "tutorials/first_model.md"):
            for block in commands(page):
                for command in block.replace("\\\n", "").splitlines():
                    if "models infer" in command:
                        self.assertIn("--held-out-of", command, page.name)

    def test_a_page_that_uses_a_variable_of_the_test_explains_it(self):
        for page in PAGES:
            for name in ("GPUPOOL_METRICS", "GPUPOOL_HTTP"):
                if f"${name}" in page.read_text():
                    self.assertIn(f"`{name}` stands for", prose(page), page.name)

    def test_links_lead_to_files_and_headings(self):
        for page in (*PAGES, harness.ROOT / "ARCHITECTURE.md",
                     harness.ROOT / "CONTRIBUTING.md"):
            for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
                if "://" in target:
                    continue
                name, _, anchor = target.partition("#")
                path = (page.parent / name).resolve() if name else page
                self.assertTrue(path.exists(), f"{page.name}: {target}")
                if anchor and path.suffix == ".md":
                    self.assertIn(anchor, anchors(path), f"{page.name}: {target}")

    def test_the_index_leads_to_every_page(self):
        index = (DOCS / "README.md").read_text()
        for page in PAGES[1:]:
            name = str(page.relative_to(DOCS))
            if name != "README.md":
                self.assertIn(f"({name}", index)

    def test_pictures_are_well_formed_and_small(self):
        pictures = list((DOCS / "pictures").glob("*.svg"))
        self.assertGreaterEqual(len(pictures), 2)
        for picture in pictures:
            xml.dom.minidom.parse(str(picture))
            self.assertLess(picture.stat().st_size, 20_000)

    def test_the_picture_of_a_jobs_life_has_every_state(self):
        picture = (DOCS / "pictures/job_life.svg").read_text()
        proto = (harness.ROOT / "proto/gpupool/v1/job.proto").read_text()
        states = re.search(r"enum JobState \{(.*?)\}", proto, re.S).group(1)
        for state in re.findall(r"^  ([A-Z_]+) = [1-9]", states, re.M):
            self.assertIn(f">{state}<", picture)


def named_commands(path):
    """Returns the calls of gpupool in the text, without those in blocks of code."""
    for code in re.findall(r"`(gpupool [^`]+)`", prose(path)):
        yield re.split(r" [|>&] ?", " ".join(code.split()))[0].split()[1:]


@functools.cache
def help_of(verbs):
    done = subprocess.run([harness.BIN / "gpupool", *verbs, "--help"],
                          capture_output=True, text=True, check=True)
    return done.stdout


def verbs_below(verbs):
    listed = re.search(r"^Subcommands:\n(.*?)^$", help_of(verbs), re.M | re.S)
    return sorted(re.findall(r"^  (\S+)", listed.group(1), re.M)) if listed else []


class Verbs(unittest.TestCase):
    def check(self, words):
        """Fails if the words name a verb or an option that does not exist."""
        verbs, rest = (), words
        while rest and rest[0] in verbs_below(verbs):
            verbs, rest = (*verbs, rest[0]), rest[1:]
        if rest and rest[0].islower() and not rest[0].startswith("-"):
            self.assertEqual([], verbs_below(verbs), f"no verb {rest[0]}: {words}")
        options = help_of(verbs) + help_of(())
        for word in rest:
            if word.startswith("-"):
                self.assertRegex(options, rf"(?m)(^|[ ,]){re.escape(word)}\b",
                                 f"no option {word}: {words}")

    def test_the_help_has_every_verb_and_option_of_the_text(self):
        checked = 0
        for page in (*PAGES, harness.ROOT / "CHANGELOG.md"):
            for words in named_commands(page):
                with self.subTest(page=page.name, words=words):
                    self.check(words)
                    checked += 1
        self.assertGreater(checked, 100)

    def test_verbs_and_options_that_do_not_exist_are_found(self):
        for words in (["devices", "list"], ["wach", "JOB"], ["watch", "JOB", "--plott"]):
            with self.assertRaises(AssertionError):
                self.check(words)


class Products(unittest.TestCase):
    def test_the_example_of_letters_needs_only_the_folder_of_examples(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpupool-test-"))
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(harness.ROOT / "examples", folder / "examples",
                        ignore=shutil.ignore_patterns("out"))
        done = subprocess.run([sys.executable, "examples/next_letter.py"], cwd=folder,
                              capture_output=True, text=True)
        if "apt-get install python3-onnx" in done.stderr:
            self.skipTest("python3-onnx is not installed")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue((folder / "examples/out/letters.npz").exists())

    @unittest.skipUnless((harness.ROOT / ".git").exists(), "this is not a clone")
    def test_the_version_names_a_commit_in_a_clone(self):
        done = subprocess.run([harness.BIN / "gpupool", "version", "--client"],
                              capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"^client: \S+ \([0-9a-f]{12,}(-dirty)?\)$")


if __name__ == "__main__":
    harness.main()
