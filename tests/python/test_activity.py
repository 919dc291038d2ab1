"""Memory snapshots, traces and the page of `assay run` and `assay events`, as their readers see them: Python's own
pickle, PyTorch's memory viewer where torch is installed, a validator of trace events, and a browser."""

import contextlib
import gzip
import io
import json
import pickle
import pickletools
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import PROGRAM, ROOT, is_installed, needs_program

# What the reader of PyTorch's viewer (MemoryViz.js) knows.
OPCODES = {"PROTO", "FRAME", "STOP", "MARK", "APPEND", "APPENDS", "LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE",
           "NEWFALSE", "NEWTRUE", "NONE", "BINGET", "LONG_BINGET", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
           "EMPTY_DICT", "EMPTY_LIST", "MEMOIZE", "BINPUT", "LONG_BINPUT", "SETITEM", "SETITEMS", "DICT",
           "SHORT_BINUNICODE", "BINUNICODE"}
GIB = 1 << 30


def stack(number, *frames):
    return {"event": "stack", "id": number, "calls": [],
            "stack": [{"file": file, "line": line, "function": function} for file, line, function in frames]}


def allocation(number, address, size, seconds, stack_number=1):
    return {"event": "allocation", "id": number, "address": address, "bytes": size, "label": "cudaMalloc", "host": False,
            "stack": stack_number, "seconds": seconds}


def release(number, seconds, held=False):
    return {"event": "release", "id": number, "seconds": seconds, "called": seconds, "held": held, "counted": True, "never_written": 16,
            "never_read": 32, "last_use": seconds / 2, "writer": "_Z5twicePfi", "file": "k.cu", "line": 6}


def kernel(number, begin, end, stream=0):
    return {"event": "operation", "id": number, "stream": stream, "kind": "kernel", "called": begin / 2, "returned": begin / 2,
            "begin": begin, "end": end, "graph": False, "kernel": "_Z5twicePfi", "grid": [4, 1, 1], "block": [128, 1, 1],
            "shared_bytes": 0, "warp_instructions": 64, "fault": ""}


def copy(number, begin, end, stream=0):
    return {"event": "operation", "id": number, "stream": stream, "kind": "copy", "called": begin, "returned": begin,
            "begin": begin, "end": end, "graph": False, "bytes": 4096, "from_host": True, "to_host": False}


EVENTS = [
    stack(1, ("train.py", 31, "step"), ("train.py", 50, "<module>")),
    allocation(1, 0x7F0000000000, 3 * GIB, 0.001),  # an address and a size of more than 32 bits
    allocation(2, 0x7F1000000000, 512, 0.002),
    copy(1, 0.003, 0.004),
    kernel(2, 0.004, 0.009, stream=7),
    {"event": "finding", "finding": {"kind": "leak", "evidence": {}}},
    {"event": "out-of-memory", "bytes": 200 * GIB, "free": 130 * GIB, "stack": 1, "seconds": 0.0095},
    release(2, 0.010),
    release(1, 0.012, held=True),
]


@contextlib.contextmanager
def files_for(events):
    """The three files that `assay events` makes of these events."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "events").write_text("".join(json.dumps(event) + "\n" for event in events))
        subprocess.run([str(PROGRAM), "events", "events", "--memory", "memory.pickle", "--trace", "trace.json", "--html",
                        "page.html"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        yield path


def wrong_trace_events(events):
    """What Perfetto and chrome://tracing would refuse or drop."""
    needed = {"X": {"name", "ts", "dur", "pid", "tid"}, "C": {"name", "ts", "pid", "args"}, "i": {"name", "ts", "s"},
              "M": {"name", "pid", "args"}, "s": {"id", "ts", "pid", "tid", "cat"}, "f": {"id", "ts", "pid", "tid", "cat", "bp"}}
    for event in events:
        if event.get("ph") not in needed or needed[event["ph"]] - event.keys():
            yield event
        elif any(not isinstance(event[key], (int, float)) or event[key] < 0 for key in ("ts", "dur") if key in event):
            yield event


def crossing_events(events):
    """Pairs of slices of one lane that overlap and do not lie in each other: viewers drop or misplace these."""
    lanes = {}
    for event in events:
        if event["ph"] == "X":
            lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"], event))
    for lane in lanes.values():
        open_until = []
        for begin, negative, event in sorted(lane, key=lambda one: one[:2]):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            if open_until and begin - negative > open_until[-1] + 1e-6:
                yield event
            open_until.append(begin - negative)


def flows_without_slices(events):
    """Arrows that begin or end where no slice begins."""
    begins = {(one["pid"], one["tid"], one["ts"]) for one in events if one["ph"] == "X"}
    arrows = [one for one in events if one["ph"] in "sf"]
    yield from (one for one in arrows if (one["pid"], one["tid"], one["ts"]) not in begins)
    starts, ends = ({one["id"] for one in arrows if one["ph"] == ph} for ph in "sf")
    yield from starts ^ ends


@needs_program
class ActivityTest(unittest.TestCase):
    def test_pickle(self):
        with files_for(EVENTS) as folder:
            data = (folder / "memory.pickle").read_bytes()
        opcodes = list(pickletools.genops(data))
        self.assertEqual({op.name for op, _, _ in opcodes} - OPCODES, set())
        snapshot = pickle.loads(data)
        frames = [{"filename": "train.py", "line": 31, "name": "step"}, {"filename": "train.py", "line": 50, "name": "<module>"}]
        self.assertEqual([(one["address"], one["total_size"], one["frames"]) for one in snapshot["segments"]],
                         [(0x7F0000000000, 3 * GIB, frames)])
        self.assertEqual([(one["action"], one.get("addr"), one["size"]) for one in snapshot["device_traces"][0]],
                         [("segment_alloc", 0x7F0000000000, 3 * GIB), ("alloc", 0x7F0000000000, 3 * GIB),
                          ("segment_alloc", 0x7F1000000000, 512), ("alloc", 0x7F1000000000, 512),
                          ("oom", None, 200 * GIB),
                          ("free_requested", 0x7F1000000000, 512), ("free_completed", 0x7F1000000000, 512),
                          ("segment_free", 0x7F1000000000, 512)])
        self.assertEqual(snapshot["device_traces"][0][4]["device_free"], 130 * GIB)

    def test_long_pickle(self):
        """The viewer's reader puts the items of one APPENDS on its call stack."""
        events = [stack(1, ("train.py", 31, "step"))]
        for i in range(3000):
            events += [allocation(i + 1, 0x7F0000000000 + 4096 * i, 4096, i / 1000), release(i + 1, i / 1000 + 0.5)]
        with files_for(events) as folder:
            data = (folder / "memory.pickle").read_bytes()
        self.assertEqual(len(pickle.loads(data)["device_traces"][0]), 15000)
        self.assertLess(len(data), 100 * 15000)
        marks, most = [], 0
        for op, _, position in pickletools.genops(data):
            if op.name == "MARK":
                marks.append(0)
            elif op.name in ("APPENDS", "SETITEMS"):
                most = max(most, marks.pop())
            if op.name in ("SETITEMS", "EMPTY_DICT") and marks:
                marks[-1] += op.name == "EMPTY_DICT"
        self.assertLessEqual(most, 1000)

    @unittest.skipUnless(is_installed("torch"), "torch is not installed")
    def test_viewer_of_torch(self):
        with files_for(EVENTS) as folder:
            code = ("import pickle, sys; from torch.cuda import _memory_viz as viz\n"
                    "snapshot = pickle.load(open(sys.argv[1], 'rb'))\n"
                    "print(viz.segsum(snapshot)); print(viz.trace(snapshot))\n"
                    "assert 'train.py' in viz.memory(snapshot, format_flamegraph=lambda text: text)\n"
                    "assert len(viz.trace_plot(snapshot)) > 1000 and len(viz.segment_plot(snapshot)) > 1000\n")
            done = subprocess.run([sys.executable, "-c", code, str(folder / "memory.pickle")], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("3.0GiB", done.stdout)
        self.assertIn("raise OutOfMemoryError # 200.0GiB requested, 130.0GiB free", done.stdout)

    def test_trace(self):
        with files_for(EVENTS) as folder:
            trace = json.loads((folder / "trace.json").read_text())
        events = trace["traceEvents"]
        self.assertEqual(list(wrong_trace_events(events)), [])
        self.assertEqual(list(crossing_events(events)), [])
        self.assertEqual(list(flows_without_slices(events)), [])
        by_category = {}
        for event in events:
            by_category.setdefault(event.get("cat", event["name"]), []).append(event)
        self.assertEqual([one["name"] for one in by_category["kernel"]], ["twice"])
        self.assertEqual([one["name"] for one in by_category["gpu_memcpy"]], ["Memcpy HtoD"])
        self.assertEqual([one["name"] for one in by_category["cuda_runtime"]], ["cudaMemcpyAsync", "cudaLaunchKernel"])
        self.assertEqual(by_category["finding"][0]["name"], "error: leak")
        self.assertEqual([one["args"]["bytes"] for one in by_category["allocated bytes"]],
                         [3 * GIB, 3 * GIB + 512, 3 * GIB])
        self.assertEqual({one["ph"] for one in by_category["ac2g"]}, {"s", "f"})
        self.assertEqual(len(by_category["ac2g"]), 4)

    def test_packed_trace(self):
        with files_for(EVENTS) as folder:
            subprocess.run([str(PROGRAM), "events", "events", "--trace", "trace.json.gz"], cwd=folder,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual(gzip.decompress((folder / "trace.json.gz").read_bytes()), (folder / "trace.json").read_bytes())

    def test_calls_of_two_threads(self):
        """Calls that overlap are on lanes of their own; what one graph launch asked for is on one."""
        first, second, third, fourth = (kernel(number, 0.01 * number, 0.01 * number + 0.005, number) for number in (1, 2, 3, 4))
        first.update(called=0.001, returned=0.004)
        second.update(called=0.002, returned=0.006)  # another thread's
        for one in (third, fourth):
            one.update(called=0.005, returned=0.008, graph=True)
        with files_for([first, second, third, fourth]) as folder:
            events = json.loads((folder / "trace.json").read_text())["traceEvents"]
        self.assertEqual([one["tid"] for one in events if one.get("cat") == "cuda_runtime"], [0, 1, 0, 0])
        self.assertEqual(list(crossing_events(events)), [])
        self.assertEqual(list(flows_without_slices(events)), [])
        names = [one["args"]["name"] for one in events if one["ph"] == "M" and one["name"] == "thread_name" and one["pid"] == 1]
        self.assertEqual(names, ["CUDA calls", "CUDA calls at the same time, 2"])

    def test_page(self):
        """A small page, and one of a long run: it must not take time out of proportion, also on a busy machine."""
        many = EVENTS[:1]
        for i in range(4000):
            many += [allocation(i + 1, 0x7F0000000000 + 4096 * i, 4096 + i, i / 1000), kernel(i + 1, i / 1000, (i + 0.5) / 1000),
                     release(i + 1, i / 1000 + 0.2)]
        for events in (EVENTS, many):
            with files_for(events) as folder:
                done = subprocess.run([sys.executable, str(ROOT / "tests/activity/browser.py"), str(folder / "page.html"),
                                       "--seconds", "15"], stdout=subprocess.PIPE, encoding="utf-8", check=False)
            if done.returncode == 77:
                self.skipTest(done.stdout.strip())
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_nothing_happened(self):
        with files_for([]) as folder:
            snapshot = pickle.loads((folder / "memory.pickle").read_bytes())
            self.assertEqual((snapshot["segments"], snapshot["device_traces"]), ([], [[]]))
            self.assertEqual(list(wrong_trace_events(json.loads((folder / "trace.json").read_text())["traceEvents"])), [])


if __name__ == "__main__":
    unittest.main()
