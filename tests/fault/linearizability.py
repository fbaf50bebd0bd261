"""Checks histories of submit, cancel and get against a model of one job.

The search is Wing and Gong's: an order of the calls is looked for in which each
call takes effect at one moment between its begin and its end, and which a job
that does one thing at a time would have answered alike. Calls that were never
answered may take effect at any later moment, or never.
"""
import dataclasses
import math

ABSENT = ("absent", 0)


@dataclasses.dataclass(frozen=True)
class Call:
    kind: str            # "submit", "cancel" or "get"
    begin: float
    end: float           # math.inf: it was never answered
    job: int = 0         # the id that was answered or asked for
    state: str = ""      # as answered: "QUEUED", "CANCELLED" or "" (unknown)


def step(model, call):
    """The model after the call, or None when it would have answered otherwise.

    A model is ("absent", 0), ("QUEUED", id) or ("CANCELLED", id).
    """
    name, job = model
    answered = call.end != math.inf
    if call.kind == "submit":
        if name == "absent":
            # It was never answered, so no client knows its id yet.
            return ("QUEUED", call.job) if not answered or call.state == "QUEUED" else None
        if job == 0:
            job, model = call.job, (name, call.job)
        if answered and (call.job != job or call.state != name):
            return None
        return model
    if name == "absent" or (job and job != call.job):
        return None
    if call.kind == "cancel":
        if answered and call.state != "CANCELLED":
            return None
        return ("CANCELLED", call.job)
    return (name, call.job) if not answered or call.state == name else None


def linearizable(calls, model=ABSENT):
    """Returns whether there is such an order."""
    calls = sorted(calls, key=lambda call: call.begin)
    seen = set()

    def search(left, model):
        if all(calls[i].end == math.inf for i in left):
            return True
        if (left, model) in seen:
            return False
        seen.add((left, model))
        first_end = min(calls[i].end for i in left)
        for i in left:
            if calls[i].begin > first_end:
                continue
            after = step(model, calls[i])
            if after is not None and search(left - {i}, after):
                return True
        return False

    return search(frozenset(range(len(calls))), model)
