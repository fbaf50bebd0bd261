#!/usr/bin/env python3
"""Curves of jobs as files for TensorBoard, through the real processes. The files are
read by a parser of this test, and by TensorBoard's own where it is installed."""
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None


def masked_crc(data):
    """The CRC-32C of the format, computed bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def payloads(data):
    """Yields the payloads of whole records. The last record may not be whole yet."""
    while len(data) >= 12:
        length, crc = struct.unpack_from("<QI", data)
        assert crc == masked_crc(data[:8]), "checksum of a length"
        if len(data) < 16 + length:
            return
        payload = data[12:12 + length]
        (crc,) = struct.unpack_from("<I", data, 12 + length)
        assert crc == masked_crc(payload), "checksum of a payload"
        yield payload
        data = data[16 + length:]


def varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def fields(data):
    """Yields (number of the field, value) of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        elif kind == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        else:
            raise AssertionError(f"wire type {kind}")
        yield key >> 3, value


def scalar(message):
    """Returns (tag, value) of a Summary.Value."""
    found = dict(fields(message))
    metadata = dict(fields(found[9]))
    assert dict(fields(metadata[1]))[1] == b"scalars", metadata
    return found[1].decode(), found[2]


def curves(path):
    """Returns tag -> list of (step, wall time, value), as TensorBoard shows them: the
    start of a session drops what is at its step and after it."""
    found = {}
    for number, payload in enumerate(payloads(path.read_bytes())):
        event = dict(fields(payload))
        step = event.get(2, 0)
        if number == 0:
            assert event[3] == b"brain.Event:2", event
        if 7 in event:
            assert dict(fields(event[7])) == {1: 1}, event
            for points in found.values():
                points[:] = [point for point in points if point[0] < step]
        for field, value in fields(event.get(5, b"")):
            assert field == 1
            tag, value = scalar(value)
            found.setdefault(tag, []).append((step, event[1], value))
    return found


class Tensorboard(harness.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-runs-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def only_file(self, folder):
        files = list(folder.iterdir())
        self.assertEqual(1, len(files), files)
        return files[0]

    def events(self, server, job, kind):
        """Returns the events of a kind that `gpupool logs` prints."""
        lines = server.cli("logs", job, "--all", "-o", "json").splitlines()
        found = [json.loads(line) for line in lines]
        return [event[kind] for event in found if kind in event]

    def assert_matches_the_events(self, server, job, path):
        found = curves(path)
        progress = self.events(server, job, "progress")
        self.assertEqual([int(p["step"]) for p in progress],
                         [step for step, _, _ in found["loss/training"]])
        for (_, _, value), event in zip(found["loss/training"], progress):
            self.assertTrue(math.isclose(value, event["loss"], rel_tol=1e-6))
        evaluations = self.events(server, job, "evaluation")
        self.assertEqual([int(e["step"]) for e in evaluations],
                         [step for step, _, _ in found["loss/held_out"]])
        self.assertTrue(math.isclose(found["held_out/accuracy"][-1][2],
                                     evaluations[-1]["accuracy"], rel_tol=1e-6))
        self.assertIn("speed/samples_per_second", found)
        for (_, _, value), event in zip(found["progress/learning_rate"], progress):
            self.assertTrue(math.isclose(value, event["learning_rate"], rel_tol=1e-6))
        return found

    def test_an_ended_job_has_all_its_curves(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        before = time.time()
        job = server.submit(harness.digits_job(steps=400))
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        after = time.time()
        folder = self.folder() / "digits"
        said = server.json("logs", job, "--tensorboard", folder)
        path = self.only_file(folder)
        self.assertEqual(str(path), said["file"])
        self.assertRegex(path.name, rf"^events\.out\.tfevents\.\d+\..+\.{job}$")
        found = self.assert_matches_the_events(server, job, path)
        self.assertEqual(sorted(found), said["curves"])
        self.assertEqual(sum(map(len, found.values())), said["points"])
        for points in found.values():
            for _, wall_time, _ in points:
                self.assertTrue(before - 1 <= wall_time <= after + 1, wall_time)
        self.check_with_tensorboard(folder, found)

    def check_with_tensorboard(self, folder, found):
        if event_accumulator is None:
            print("python package tensorboard is not installed: not read with it",
                  file=sys.stderr)
            return
        reader = event_accumulator.EventAccumulator(
            str(folder), size_guidance={event_accumulator.SCALARS: 0,
                                        event_accumulator.TENSORS: 0})
        reader.Reload()
        # Versions from 2.x on turn scalars into tensors as they read them.
        tags = reader.Tags()
        names = set(tags["scalars"]) | set(tags.get("tensors", []))
        self.assertEqual(set(found), names)
        for tag in tags["scalars"]:
            self.assertEqual([(step, value) for step, _, value in found[tag]],
                             [(e.step, e.value) for e in reader.Scalars(tag)])

    def test_a_file_grows_while_its_job_runs(self):
        server, job, hold = self.start_held_job(150)
        folder = self.folder() / "digits"
        follower = subprocess.Popen(
            [harness.BIN / "gpupool", "--address", server.address, "logs", str(job),
             "--tensorboard", folder, "--follow"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(follower.kill)

        def first_points():
            files = list(folder.iterdir()) if folder.exists() else []
            return files and "loss/training" in curves(files[0])
        harness.wait_until(first_points, what="points of a job that runs")
        self.assertIsNone(follower.poll(), "it follows the job")
        self.assertLess(curves(self.only_file(folder))["loss/training"][-1][0], 150)
        hold.release()
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        out, err = follower.communicate(timeout=harness.PATIENCE)
        self.assertEqual(0, follower.returncode, err)
        self.assertIn(f"until job {job} ends", err)
        self.assertIn("tensorboard --logdir", out)
        self.assert_matches_the_events(server, job, self.only_file(folder))

    def test_a_job_that_lost_its_worker_has_each_step_once(self):
        server, job, _ = self.start_held_job(190)
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        self.assertGreater(server.job(job)["attempt"], 1)
        folder = self.folder()
        server.cli("logs", job, "--tensorboard", folder)
        found = curves(self.only_file(folder))
        for tag, points in found.items():
            steps = [step for step, _, _ in points]
            self.assertEqual(sorted(set(steps)), steps, tag)
        self.assertEqual(400, found["loss/training"][-1][0])

    def test_a_second_file_of_a_job_replaces_the_first_and_others_are_refused(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        jobs = [server.submit(harness.digits_job(name, steps=40))
                for name in ("one", "two")]
        for job in jobs:
            self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        folder = self.folder()
        for _ in range(2):
            server.cli("logs", jobs[0], "--tensorboard", folder)
        first, second = sorted(folder.iterdir())
        self.assertEqual(curves(first), curves(second))
        refused = server.cli("logs", jobs[1], "--tensorboard", folder, code=6)
        self.assertIn("one run", refused)
        self.assertIn(f"{folder}/job-{jobs[1]}", refused)

    def test_a_folder_that_cannot_be_written_is_refused(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=40))
        path = self.folder() / "file"
        path.write_text("x")
        with self.assertRaises(harness.CommandFailed) as failed:
            server.cli("logs", job, "--tensorboard", path)
        self.assertIn(f"cannot write events to the folder {path}: Not a directory",
                      failed.exception.stderr)


if __name__ == "__main__":
    harness.main()
