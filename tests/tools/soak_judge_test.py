#!/usr/bin/env python3
"""How a soak's samples are judged (tools/soak/judge.py), drawn and taken."""
import os
import pathlib
import random
import sys
import tempfile
import unittest
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/soak"))
import judge  # noqa: E402
import picture  # noqa: E402
import sample  # noqa: E402

MIB = 1 << 20
SEED = random.randrange(1 << 32)
print("seed", SEED)


def made(minutes=20, every=10, rate=4, **values):
    """Returns samples of a made-up run. `values` maps facts of gpupoold to functions of
    the seconds; others are constant."""
    samples = []
    for at in range(0, 60 * minutes, every):
        facts = {"pid": 7, "rss": 60 * MIB, "pss": 40 * MIB, "anonymous": 20 * MIB,
                 "descriptors": 50, "threads": 30}
        state = dict.fromkeys(sample.KINDS, MIB)
        for name, value in values.items():
            (state if name in state else facts)[name] = value(at)
        samples.append({"seconds": at, "operations": at * rate,
                        "processes": {"gpupoold": facts}, "state": state})
    return samples


def faults(samples, killed=()):
    return judge.judge_growth(samples, samples[-1]["seconds"], killed)[1]


class Judge(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)

    def test_flat_series_pass(self):
        self.assertEqual([], faults(made()))

    def test_noise_passes(self):
        self.assertEqual([], faults(made(
            rss=lambda _: self.random.gauss(60 * MIB, 3 * MIB),
            anonymous=lambda _: self.random.gauss(20 * MIB, 2 * MIB),
            descriptors=lambda _: self.random.randrange(40, 60))))

    def test_growth_before_the_end_of_the_warm_up_passes(self):
        self.assertEqual([], faults(made(rss=lambda at: MIB * min(at, 290))))

    def test_a_sawtooth_passes(self):
        self.assertEqual([], faults(made(audit=lambda at: 4096 * (at % 110))))

    def test_a_single_peak_passes(self):
        self.assertEqual([], faults(made(
            rss=lambda at: (900 if at in (600, 1190) else 60) * MIB)))

    def test_a_leak_of_memory_fails_and_is_named(self):
        found = faults(made(anonymous=lambda at: 20 * MIB + at * 20000 +
                            self.random.gauss(0, MIB)))
        self.assertEqual(1, len(found), found)
        self.assertIn("gpupoold.anonymous grew by", found[0])
        self.assertIn("per hour", found[0])
        self.assertIn("per operation", found[0])

    def test_a_leak_in_steps_fails(self):
        found = faults(made(anonymous=lambda at: 20 * MIB + at // 200 * 8 * MIB))
        self.assertEqual(1, len(found), found)

    def test_a_leak_of_descriptors_fails(self):
        self.assertIn("gpupoold.descriptors grew",
                      "".join(faults(made(descriptors=lambda at: 50 + at // 60))))

    def test_a_leak_of_threads_fails(self):
        self.assertIn("gpupoold.threads grew",
                      "".join(faults(made(threads=lambda at: 30 + at // 60))))

    def test_uploads_that_are_never_deleted_fail(self):
        self.assertIn("state.uploads grew",
                      "".join(faults(made(uploads=lambda at: at * 5000))))

    def test_growth_within_the_bytes_per_operation_passes(self):
        allowed = judge.bound_of("state.database").per_operation
        rate = 4
        self.assertEqual([], faults(made(database=lambda at: at * rate * allowed * 0.9)))
        self.assertIn("state.database grew", "".join(faults(
            made(minutes=60, database=lambda at: at * rate * allowed * 1.9))))

    def test_a_slow_leak_fails_in_a_long_run(self):
        slow = dict(rate=0, anonymous=lambda at: 20 * MIB + at * 1000 +
                    self.random.gauss(0, MIB))
        self.assertEqual([], faults(made(minutes=20, **slow)))
        self.assertNotEqual([], faults(made(minutes=6 * 60, **slow)))

    def test_a_short_run_says_that_growth_is_not_judged(self):
        samples = made(minutes=2, rss=lambda at: at * MIB)
        growths, found, notes = judge.judge_growth(samples, 120)
        self.assertEqual(([], []), (growths, found))
        self.assertIn("growth is not judged", notes[0])

    def test_the_warm_up_is_a_quarter_and_at_least_two_minutes(self):
        self.assertEqual(120, judge.warm_up_of(60))
        self.assertEqual(900, judge.warm_up_of(3600))

    def test_a_restart_that_nobody_ordered_is_a_fault(self):
        samples = made(pid=lambda at: 7 if at < 700 else 8)
        self.assertIn("gpupoold was restarted", "".join(faults(samples)))

    def test_a_process_that_is_killed_is_not_judged_and_said_so(self):
        samples = made(pid=lambda at: at // 60, rss=lambda at: at * MIB)
        _, found, notes = judge.judge_growth(samples, 1200, ("gpupoold",))
        self.assertEqual([], found)
        self.assertIn("gpupoold", "".join(notes))

    def test_every_series_has_a_bound(self):
        for name in judge.series_of(made()):
            judge.bound_of(name)
        with self.assertRaisesRegex(KeyError, "add a row to BOUNDS"):
            judge.bound_of("gpupoold.unheard")

    def test_many_points_are_joined(self):
        points = [judge.Point(at, at, 2 * at) for at in range(10000)]
        joined = judge.joined(points)
        self.assertLessEqual(len(joined), judge.MOST_POINTS)
        self.assertAlmostEqual(2, judge.slope_of(joined)[0])


class Logs(unittest.TestCase):
    def test_errors_that_name_a_killed_worker_are_expected(self):
        text = ('2026-11-30T09:36:28.866Z error worker lost device=cpu:1 pid=12\n'
                '2026-11-30T09:36:28.866Z error lost reason="(process 12: killed)"\n')
        self.assertEqual([], judge.error_lines(text, [12], ["cpu:1"]))

    def test_other_errors_are_found_and_other_severities_are_not(self):
        text = ('2026-11-30T09:36:28.866Z error disk is gone pid=123 device=cpu:10\n'
                '2026-11-30T09:36:28.866Z warning an error device=cpu:0\n'
                '2026-11-30T09:36:28.866Z critical out of words\n')
        found = judge.error_lines(text, [12], ["cpu:1"])
        self.assertEqual(2, len(found), found)


class Sample(unittest.TestCase):
    def test_files_of_the_state_folder_are_counted_by_kind(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {"gpupool.db": "database", "gpupool.db-wal": "database",
                     "blobs/ab": "blobs", "blobs/partial/cd": "uploads",
                     "workers/cpu-0/spool": "spools", "workers/cpu-0/log": "logs",
                     "workers/cpu-0/log.1": "logs", "audit/audit-00000001.jsonl": "audit",
                     "gpupoold.log": "logs", "lock": "other"}
            expected = dict.fromkeys(sample.KINDS, 0)
            for size, (name, kind) in enumerate(files.items(), 1):
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes(size))
                expected[kind] += size
            pathlib.Path(folder, "gpupool.db-reserve").write_bytes(bytes(1000))
            self.assertEqual(expected, sample.state_bytes(folder))

    def test_a_process_has_memory_descriptors_and_threads(self):
        before = sample.process_facts(os.getpid())
        self.assertGreater(before["rss"], MIB)
        self.assertGreaterEqual(before["threads"], 1)
        with open(os.devnull):
            after = sample.process_facts(os.getpid())
        self.assertEqual(before["descriptors"] + 1, after["descriptors"])

    def test_a_process_that_has_ended_is_left_out(self):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        self.assertIsNone(sample.process_facts(child), "a zombie")
        os.waitpid(child, 0)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual({}, sample.take({"gone": child}, folder)["processes"])


class Picture(unittest.TestCase):
    def test_the_picture_has_a_line_for_each_process_and_kind(self):
        for samples in (made(), made(rss=lambda _: 0)):
            document = xml.dom.minidom.parseString(
                picture.picture(samples, 1200, judge.warm_up_of(1200)))
            lines = document.getElementsByTagName("polyline")
            self.assertEqual(len(picture.PANELS) + len(sample.KINDS), len(lines))
            self.assertEqual(len(samples), len(lines[0].getAttribute("points").split()))

    def test_every_point_is_inside_its_panel(self):
        samples = made(rss=lambda at: at * MIB, audit=lambda at: at)
        document = xml.dom.minidom.parseString(picture.picture(samples, 1200, 300))
        lines = document.getElementsByTagName("polyline")
        for index, line in enumerate(lines):
            panel = min(index, len(picture.PANELS)) * picture.HEIGHT
            for point in line.getAttribute("points").split():
                x, y = map(float, point.split(","))
                self.assertTrue(picture.LEFT <= x <= picture.WIDTH - picture.RIGHT, point)
                self.assertTrue(panel + picture.TOP <= y <=
                                panel + picture.HEIGHT - picture.BOTTOM, point)

    def test_without_samples_it_is_still_a_picture(self):
        xml.dom.minidom.parseString(picture.picture([], 0, 120))


if __name__ == "__main__":
    unittest.main()
