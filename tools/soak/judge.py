"""Judges the samples of a soak: after the warm-up nothing may grow.

The growth of a series is the slope of Theil and Sen (the median of the slopes of all
pairs of points) times the time that is judged. It may be at most

    floor + NOISE * deviation of the points from the line
          + bytes per hour * hours + bytes per operation * operations

where the bounds of each series are in BOUNDS. A sawtooth of a cache or of a file that
is renewed is noise. A leak is not: it goes on, while noise does not rise with time.
"""

import dataclasses
import statistics

NOISE = 3.0  # standard deviations
LEAST_POINTS = 12
MOST_POINTS = 300  # more are joined to medians: the slope takes pairs of points
WARM_UP_SHARE, LEAST_WARM_UP = 0.25, 120.0

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Bound:
    """How much a series may grow beside its noise."""
    floor: float
    per_hour: float = 0.0
    per_operation: float = 0.0


@dataclasses.dataclass(frozen=True)
class Point:
    seconds: float
    operations: int
    value: float


@dataclasses.dataclass(frozen=True)
class Growth:
    """What a series did after the warm-up."""
    name: str
    grown: float     # slope times hours
    allowed: float
    per_hour: float
    per_operation: float
    points: int

    @property
    def grew(self):
        return self.grown > self.allowed


# By the end of the series' name; the first that fits holds. Jobs are kept for 24 hours
# whatever --keep-jobs says, with their events and the manifests of their checkpoints.
# So within a day the database and the blobs grow with the operations. The daemon forgets
# ended jobs, but the page caches of SQLite, 2 MiB for each connection, fill slowly.
BOUNDS = (
    ("gpupoold.anonymous", Bound(8 * MIB)),
    ("gpupoold.rss", Bound(12 * MIB)),
    ("gpupoold.pss", Bound(12 * MIB)),
    (".anonymous", Bound(4 * MIB)),
    (".rss", Bound(8 * MIB)),
    (".pss", Bound(8 * MIB)),
    (".descriptors", Bound(4)),
    (".threads", Bound(4)),
    ("state.database", Bound(8 * MIB, 0, 2 * KIB)),
    ("state.blobs", Bound(1 * MIB, 0, 1 * KIB)),
    ("state.uploads", Bound(1 * MIB)),
    ("state.spools", Bound(1 * MIB)),
    ("state.audit", Bound(512 * KIB)),
    ("state.logs", Bound(64 * KIB, 0, 256)),
    ("state.other", Bound(64 * KIB)),
)


def bound_of(name):
    """Returns the bound of a series. Raises KeyError for one that has none."""
    for end, bound in BOUNDS:
        if name.endswith(end):
            return bound
    raise KeyError(f"series {name} has no bound; add a row to BOUNDS in {__file__}")


def warm_up_of(seconds):
    """Returns the seconds of a run that are not judged."""
    return max(seconds * WARM_UP_SHARE, LEAST_WARM_UP)


def joined(points):
    """Returns at most MOST_POINTS points: medians of neighbours."""
    if len(points) <= MOST_POINTS:
        return points
    size = -(-len(points) // MOST_POINTS)
    groups = [points[at:at + size] for at in range(0, len(points), size)]
    return [Point(statistics.median(p.seconds for p in group),
                  int(statistics.median(p.operations for p in group)),
                  statistics.median(p.value for p in group)) for group in groups]


def slope_of(points):
    """Returns the slope per second by Theil and Sen, and the standard deviation of the
    points from that line by their median deviation."""
    slopes = [(b.value - a.value) / (b.seconds - a.seconds)
              for at, a in enumerate(points) for b in points[at + 1:]
              if b.seconds > a.seconds]
    if not slopes:
        return 0.0, 0.0
    slope = statistics.median(slopes)
    left = [p.value - slope * p.seconds for p in points]
    middle = statistics.median(left)
    return slope, 1.4826 * statistics.median(abs(value - middle) for value in left)


def growth_of(name, points):
    """Returns the growth of a series over all of its points, at least two."""
    bound = bound_of(name)
    points = joined(points)
    slope, deviation = slope_of(points)
    seconds = points[-1].seconds - points[0].seconds
    operations = points[-1].operations - points[0].operations
    grown, hours = slope * seconds, seconds / 3600
    allowed = (bound.floor + NOISE * deviation + bound.per_hour * hours
               + bound.per_operation * operations)
    return Growth(name, grown, allowed, slope * 3600, grown / max(operations, 1),
                  len(points))


def series_of(samples):
    """Returns {name: points} of samples as soak.py writes them."""
    series = {}

    def add(sample, name, value):
        series.setdefault(name, []).append(
            Point(sample["seconds"], sample["operations"], value))
    for sample in samples:
        for process, facts in sample["processes"].items():
            for fact, value in facts.items():
                if fact != "pid":
                    add(sample, f"{process}.{fact}", value)
        for kind, value in sample["state"].items():
            add(sample, f"state.{kind}", value)
    return series


def restarted(samples):
    """Returns the names of processes that had several ids."""
    pids = {}
    for sample in samples:
        for process, facts in sample["processes"].items():
            pids.setdefault(process, set()).add(facts["pid"])
    return sorted(name for name, ids in pids.items() if len(ids) > 1)


def judge_growth(samples, seconds, killed=()):
    """Judges all series after the warm-up of a run of so many seconds.

    `killed` are processes that the soak kills: their series begin anew each time and
    are not judged. Returns (growths, faults, notes): faults are sentences that fail the
    soak, notes those that do not.
    """
    growths, faults, notes = [], [], []
    for name in restarted(samples):
        if name not in killed:
            faults.append(f"process {name} was restarted, and the soak did not kill it")
    warm_up = warm_up_of(seconds)
    late = [sample for sample in samples if sample["seconds"] >= warm_up]
    if len(late) < LEAST_POINTS:
        notes.append(f"growth is not judged: {len(late)} samples after a warm-up of "
                     f"{warm_up:.0f} s, and {LEAST_POINTS} are needed; run longer")
        return growths, faults, notes
    anew = set(killed) | set(restarted(samples))
    for name, points in sorted(series_of(late).items()):
        if name.rsplit(".", 1)[0] in anew:
            continue
        if len(points) < LEAST_POINTS:
            faults.append(f"{name} was there in {len(points)} of {len(late)} samples")
            continue
        growth = growth_of(name, points)
        growths.append(growth)
        if growth.grew:
            faults.append(
                f"{name} grew by {growth.grown:,.0f}, and {growth.allowed:,.0f} is "
                f"allowed: {growth.per_hour:,.0f} per hour, "
                f"{growth.per_operation:,.1f} per operation")
    if anew:
        notes.append("processes that were killed are not judged: " + ", ".join(sorted(anew)))
    return growths, faults, notes


def error_lines(text, killed_pids, killed_devices):
    """Returns the lines of severity error that no kill explains: a line of a kill names
    the process that was killed, or its device."""
    names = [f"pid={pid}" for pid in killed_pids] + \
            [f"process {pid}" for pid in killed_pids] + \
            [f"device={device}" for device in killed_devices]
    found = []
    for line in text.splitlines():
        words = line.split(" ", 3)
        if len(words) > 1 and words[1] in ("error", "critical"):
            whole = set(line.replace("(", " ").replace(":", " ").split())
            if not any(name in whole or (" " in name and name + ":" in line)
                       for name in names):
                found.append(line)
    return found
