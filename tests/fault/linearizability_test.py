#!/usr/bin/env python3
"""The checker of histories finds what is wrong and lets pass what is right."""
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from linearizability import Call, linearizable  # noqa: E402


class Linearizability(unittest.TestCase):
    def test_one_after_the_other(self):
        self.assertTrue(linearizable([
            Call("submit", 0, 1, 7, "QUEUED"), Call("get", 2, 3, 7, "QUEUED"),
            Call("cancel", 4, 5, 7, "CANCELLED"), Call("get", 6, 7, 7, "CANCELLED"),
            Call("submit", 8, 9, 7, "CANCELLED")]))

    def test_an_acknowledged_job_that_is_made_again_is_found(self):
        self.assertFalse(linearizable([
            Call("submit", 0, 1, 7, "QUEUED"), Call("submit", 2, 3, 8, "QUEUED")]))

    def test_a_cancelled_job_that_waits_again_is_found(self):
        self.assertFalse(linearizable([
            Call("submit", 0, 1, 7, "QUEUED"), Call("cancel", 2, 3, 7, "CANCELLED"),
            Call("get", 4, 5, 7, "QUEUED")]))

    def test_a_job_that_is_cancelled_by_nobody_is_found(self):
        self.assertFalse(linearizable([
            Call("submit", 0, 1, 7, "QUEUED"), Call("get", 2, 3, 7, "CANCELLED")]))
        self.assertFalse(linearizable([Call("submit", 0, 1, 7, "CANCELLED")]))

    def test_calls_at_the_same_time_may_be_in_either_order(self):
        at_once = [Call("submit", 0, 1, 7, "QUEUED"), Call("cancel", 2, 5, 7, "CANCELLED")]
        for state in ("QUEUED", "CANCELLED"):
            self.assertTrue(linearizable([*at_once, Call("get", 3, 4, 7, state)]))
        # But not back again.
        self.assertFalse(linearizable([*at_once, Call("get", 2.5, 3, 7, "CANCELLED"),
                                       Call("get", 3.5, 4, 7, "QUEUED")]))

    def test_a_call_without_answer_may_have_an_effect_late_or_never(self):
        lost = Call("cancel", 2, math.inf, 7)
        made = Call("submit", 0, 1, 7, "QUEUED")
        self.assertTrue(linearizable([made, lost, Call("get", 9, 10, 7, "QUEUED")]))
        self.assertTrue(linearizable([made, lost, Call("get", 9, 10, 7, "QUEUED"),
                                      Call("get", 11, 12, 7, "CANCELLED")]))
        self.assertFalse(linearizable([made, lost, Call("get", 3, 4, 7, "CANCELLED"),
                                       Call("get", 11, 12, 7, "QUEUED")]))
        self.assertTrue(linearizable([Call("submit", 0, math.inf),
                                      Call("submit", 1, 2, 7, "QUEUED")]))
        self.assertTrue(linearizable([Call("submit", 0, math.inf),
                                      Call("submit", 1, 2, 7, "QUEUED"),
                                      Call("get", 3, 4, 7, "QUEUED")]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
