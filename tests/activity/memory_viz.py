#!/usr/bin/env python3
"""Opens a snapshot of `assay run --memory` in PyTorch's own memory viewer, in a headless Chromium.

    memory_viz.py MEMORY.pickle --viewer MemoryViz.js --d3 d3.min.js [--shots FOLDER]

MemoryViz.js is torch/utils/viz/MemoryViz.js of PyTorch's repository; d3.min.js is version 5 of d3 (Debian: node-d3). Neither is part
of this project, and the viewer asks the network for d3, so this is no test of ./test. Prints what is wrong and exits with 1.
"""
import argparse
import base64
import pathlib
import pickle
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
from browser import Browser  # noqa: E402

VIEWS = ("Active Memory Timeline", "Allocator State History", "Active Cached Segment Timeline")


def page_of(viewer, d3, snapshot, view):
    """The viewer in one page: its imports of d3 become what the script has loaded."""
    viewer = re.sub(r'^import \* as d3 from ".*";$', "const d3 = window.d3;", viewer, flags=re.M)
    viewer = re.sub(r'^import \{(.*)\} from ".*";$', r"const {\1} = window.d3;", viewer, flags=re.M)
    viewer = re.sub(r"^export (function|\{.*\};)", lambda m: m[1] if m[1] == "function" else "", viewer, flags=re.M)
    data = base64.b64encode(snapshot).decode()
    return ('<!doctype html><meta charset="utf-8"><body><script>' + d3 + '</script><script type="module">' + viewer +
            '\nadd_local_files([{name: "memory", base64: "%s"}], "%s");\nwindow.is_drawn = true;</script></body>' % (data, view))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snapshot", type=pathlib.Path)
    parser.add_argument("--viewer", type=pathlib.Path, required=True)
    parser.add_argument("--d3", type=pathlib.Path, required=True)
    parser.add_argument("--shots", type=pathlib.Path)
    options = parser.parse_args()
    data = options.snapshot.read_bytes()
    snapshot = pickle.loads(data)
    # The viewer shows free_requested and free_completed as one.
    events = sum(event["action"] != "free_completed" for event in snapshot["device_traces"][0])
    problems = []
    with tempfile.TemporaryDirectory(prefix="assay-viz-") as folder:
        browser = Browser(shutil.which("chromium"), folder + "/profile")
        try:
            for view in VIEWS:
                page = pathlib.Path(folder, "page.html")
                page.write_text(page_of(options.viewer.read_text(), options.d3.read_text(), data, view))
                seconds = browser.open(page.as_uri(), 1280, 900)
                if not browser.run("window.is_drawn === true"):
                    problems.append(f"{view}: the viewer did not finish")
                shapes = browser.run("document.querySelectorAll('svg polygon, svg rect').length")
                if shapes < 2:
                    problems.append(f"{view}: nothing is drawn")
                shown = browser.run("document.querySelectorAll('pre').length")
                if view == VIEWS[1] and shown < events:
                    problems.append(f"{view}: {shown} events of {events}")
                print(f"{view}: {shapes} shapes, {shown} lines, {seconds:.1f} s")
                if options.shots:
                    browser.shot(options.shots / (view.replace(" ", "-").lower() + ".png"), whole=False)
            for event in browser.events:
                if event.get("method") == "Runtime.exceptionThrown":
                    problems.append(str(event["params"]["exceptionDetails"].get("exception", {}).get("description"))[:300])
        finally:
            browser.close()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
