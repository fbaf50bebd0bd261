#!/usr/bin/env python3
"""Reads a full memory snapshot by the rules of PyTorch's viewer.

    check_snapshot.py FILE DEVICE

Only opcodes that its reader knows; lists in batches of at most 1000; segments
tiled by their blocks; events replayed backwards from the final state. Prints
how much there was, ends with 1 and a line on the first rule that is broken.
"""
import pickle
import pickletools
import sys

OPCODES = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "APPENDS", "SETITEMS",
           "BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "TUPLE2",
           "NEWTRUE", "NEWFALSE", "STOP"}
STATES = {"active_allocated", "active_pending_free", "inactive"}
SEGMENT = {"device", "address", "total_size", "allocated_size", "active_size",
           "requested_size", "stream", "segment_type", "segment_pool_id",
           "is_expandable", "frames", "blocks"}


def check(condition, rule):
    if not condition:
        sys.exit(f"broken: {rule}")


def check_opcodes(data):
    # Values on top of each open mark. Within a list's batch they are counted.
    marks = []
    for opcode, argument, _ in pickletools.genops(data):
        check(opcode.name in OPCODES, f"opcode {opcode.name}")
        if opcode.name == "PROTO":
            check(argument in (2, 3, 4), f"protocol {argument}")
        elif opcode.name == "MARK":
            marks.append(0)
        elif opcode.name == "APPENDS":
            check(marks.pop() <= 1000, "a batch of more than 1000")
        elif opcode.name == "SETITEMS":
            marks.pop()
        elif opcode.name == "TUPLE2":
            marks[-1] -= 1
        elif marks and opcode.name != "STOP":
            marks[-1] += 1


def check_segment(segment, device):
    check(set(segment) == SEGMENT, f"fields of a segment: {sorted(segment)}")
    check(segment["device"] == device, "the segment's device")
    check(segment["segment_pool_id"] == (0, 0), "a pair for the pool")
    address, active, allocated = segment["address"], 0, 0
    for block in segment["blocks"]:
        check(block["address"] == address, "blocks tile their segment")
        check(block["state"] in STATES, f"state {block['state']}")
        check(block["requested_size"] <= block["size"], "requested <= size")
        active += block["size"] * (block["state"] != "inactive")
        allocated += block["size"] * (block["state"] == "active_allocated")
        address += block["size"]
    check(address == segment["address"] + segment["total_size"],
          "blocks fill their segment")
    check(active == segment["active_size"], "active size")
    check(allocated == segment["allocated_size"], "allocated size")


class Replay:
    """The state before each event, from the last one on."""

    def __init__(self, segments):
        self.mapped = [(s["address"], s["address"] + s["total_size"])
                       for s in segments]
        # Address -> whether it was given back.
        self.blocks = {b["address"]: b["state"] == "active_pending_free"
                       for s in segments for b in s["blocks"]
                       if b["state"] != "inactive"}

    def check_inside(self, event):
        begin, end = event["addr"], event["addr"] + event["size"]
        check(any(a <= begin and end <= b for a, b in self.mapped),
              f"{event['action']} at {begin:#x} lies in a segment")

    def undo(self, event):
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            self.check_inside(event)
            check(self.blocks.pop(address, None) is False,
                  "an allocation is there until it is freed")
        elif action == "free_completed":
            self.check_inside(event)
            check(address not in self.blocks, "a block is freed once")
            self.blocks[address] = True
        elif action == "free_requested":
            check(self.blocks.get(address) is True,
                  "free_requested comes before free_completed")
            self.blocks[address] = False
        elif action == "segment_map":
            self.unmap(address, address + event["size"])
        elif action == "segment_unmap":
            self.map(address, address + event["size"])
        else:
            check(action == "oom" and event["device_free"] >= 0,
                  f"action {action}")

    def unmap(self, begin, end):
        for i, (a, b) in enumerate(self.mapped):
            if a <= begin and end <= b:
                rest = [(a, begin), (end, b)]
                self.mapped[i:i + 1] = [r for r in rest if r[0] < r[1]]
                return
        check(False, "a mapping was there")

    def map(self, begin, end):
        self.mapped = sorted(self.mapped + [(begin, end)])
        merged = []
        for a, b in self.mapped:
            if merged and merged[-1][1] == a:
                merged[-1] = (merged[-1][0], b)
            else:
                check(not merged or merged[-1][1] < a, "mappings overlap")
                merged.append((a, b))
        self.mapped = merged


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    device = int(sys.argv[2])
    check_opcodes(data)
    snapshot = pickle.loads(data)
    for segment in snapshot["segments"]:
        check_segment(segment, device)
    traces = snapshot["device_traces"]
    check(len(traces) == device + 1, "one list of events per device")
    replay = Replay(snapshot["segments"])
    events = traces[device]
    times = [event["time_us"] for event in events]
    check(times == sorted(times), "events in the order of time")
    for event in reversed(events):
        check({"action", "size", "stream", "frames"} <= set(event),
              "fields of an event")
        for frame in event["frames"]:
            check(set(frame) == {"filename", "name", "line"}, "a frame")
        replay.undo(event)
    print(f"segments {len(snapshot['segments'])} events {len(events)} "
          f"left {len(replay.blocks)} mapped {len(replay.mapped)}")


if __name__ == "__main__":
    main()
