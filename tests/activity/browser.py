#!/usr/bin/env python3
"""Opens a page of `assay run --html` in a headless Chromium and looks at it as a reader would.

    browser.py PAGE.html [--seconds MOST] [--shots FOLDER]

Prints what is wrong and exits with 1; exits with 77 where there is no Chromium.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
from browser import Browser  # noqa: E402

INK = """(id => { const c = document.getElementById(id), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; })"""
# Whether a canvas has the colour of one of the first three places that allocate.
ALLOCATIONS = """(id => { const c = document.getElementById(id), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  for (let i = 0; i < d.length; i += 4) if ([0x4e79a7, 0xf28e2c, 0x59a14f].includes(d[i] << 16 | d[i + 1] << 8 | d[i + 2])) return true; return false; })"""
HOVER = """(id => { const c = document.getElementById(id), r = c.getBoundingClientRect(), said = new Set();
  for (let x = 75; x < r.width - 8; x += 3) for (let y = 3; y < r.height; y += 6) {
    c.dispatchEvent(new MouseEvent('mousemove', { clientX: r.left + x, clientY: r.top + y }));
    said.add(document.getElementById(id + '-tip').textContent); }
  return [...said]; })"""


def problems_of(browser, url, data, most_seconds):
    problems = []

    def expect(good, what):
        if not good:
            problems.append(what)

    seconds = browser.open(url, 1280, 900)
    expect(most_seconds is None or seconds < most_seconds, f"took {seconds:.1f} s of processor time to open")
    text = " ".join(browser.run("document.body.innerText").split())
    for section in ("Device memory over time", "Launches and copies", "What causes the peak", "Held until the end", "Findings over time", "Fragmentation of a pool"):
        expect(section in text, f"lacks `{section}`")
    expect(data["program"] in text, "does not name the program")
    for finding in data["findings"]:
        expect(finding["kind"] in text and " ".join(finding["message"].split()) in text, f"lacks the finding {finding['kind']}")
    device = [one for one in data["allocations"] if not one["host"]]
    held = [one for one in device if one["end"] is None]
    expect(browser.run("document.querySelectorAll('#held-table tbody tr').length") == min(50, len(held)), "does not list what is held")
    expect(browser.run("document.querySelectorAll('#peak-table tbody tr').length") == min(50, len(data["peak"]["held"])), "does not list the peak")
    expect(browser.run("document.querySelectorAll('#failures-table tbody tr').length") == min(50, len(data["failures"])), "does not list what failed")
    for failed in data["failures"][:50]:
        expect(failed["place"] in text, f"does not say where an allocation failed: {failed['place']}")
    for one in held[:50]:
        expect(one["caller"] in text, f"does not say who called {one['place']}: {one['caller']}")
    if device:
        expect(browser.run(f"{INK}('live')") > 2, "the plot of memory is blank")
        said = browser.run(f"{HOVER}('live')")
        largest = max(device, key=lambda one: one["bytes"])
        expect(any(line.startswith(largest["label"] + " of ") for line in said), f"pointing shows no allocation: {said[:3]}")
    pool, words = data["pool"], browser.run("document.getElementById('pool-text').textContent")
    if pool["allocations"]:
        expect(f" {pool['allocations']:,} allocation" in words, f"does not describe the pool: {words}")
        expect(browser.run(f"{ALLOCATIONS}('segments')"), "the segments of the pool show no allocation")
        said = browser.run(f"{HOVER}('segments')")
        expect(any(line.startswith("a gap of ") for line in said), f"pointing shows no gap: {said[:3]}")
        expect(any(" of " in line and not line.startswith("a gap") for line in said), f"pointing shows no allocation in the pool: {said[:3]}")
        full = sum(1 for segment in pool["segments"][:24] if segment["gaps"])
        expect(browser.run("document.querySelectorAll('#pool-table tbody tr').length") == full, "does not list the segments with gaps")
    else:
        expect("uses no pool" in words, "does not say that there is no pool")
    if data["operations"]:
        expect(browser.run(f"{INK}('lanes')") > 2, "the lanes are blank")
        said = browser.run(f"{HOVER}('lanes')")
        longest = max(data["operations"], key=lambda one: one["end"] - one["begin"])
        expect(any(line.startswith(longest["name"]) for line in said), f"pointing shows no operation: {said[:3]}")
    browser.open(url, 390, 844)
    wide = browser.run("document.documentElement.scrollWidth")
    expect(wide <= 390, f"on a phone the page is {wide} pixels wide")
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            problems.append(f"exception: {params['exceptionDetails'].get('exception', {}).get('description')}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            problems.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            asked = params["request"]["url"]
            expect(asked.startswith(("file:", "data:", "about:")), f"asks the network for {asked}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, help="that opening may take")
    parser.add_argument("--shots", type=pathlib.Path)
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("there is no chromium: the page was not tested in a browser")
        return 77
    text = options.page.read_text()
    start = text.index('id="data">') + len('id="data">')
    data = json.loads(text[start:text.index("</script>", start)])
    with tempfile.TemporaryDirectory(prefix="assay-browser-") as profile:
        browser = Browser(program, profile)
        try:
            browser.open("about:blank", 1280, 900)  # the first page of a new browser is slow
            problems = problems_of(browser, options.page.resolve().as_uri(), data, options.seconds)
            if options.shots:
                options.shots.mkdir(parents=True, exist_ok=True)
                for dark in (False, True):
                    browser.open(options.page.resolve().as_uri(), 1280, 900, dark)
                    browser.shot(options.shots / f"memory-{'dark' if dark else 'light'}.png")
        finally:
            browser.close()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
