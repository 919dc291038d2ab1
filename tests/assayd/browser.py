#!/usr/bin/env python3
"""Opens the page of assayd in a headless Chromium and looks at it as an operator would.

    browser.py http://127.0.0.1:9464 --kernel NAME --alarms N [--shots FOLDER]

Prints what is wrong and exits with 1; exits with 77 where there is no Chromium.
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
from browser import Browser  # noqa: E402


def problems_of(browser, address, kernel, alarms):
    problems = []

    def expect(good, what):
        if not good:
            problems.append(what)

    expect(browser.open(address + "/", 1280, 900) < 2, "took more than 2 s of processor time to open")
    text = " ".join(browser.run("document.body.innerText").split())
    rows = browser.run("[...document.querySelectorAll('table tbody tr')].map(r => [...r.cells].map(c => c.innerText))")
    heads = browser.run("[...document.querySelectorAll('table thead th')].map(c => c.innerText)")
    expect(any(row[0] == kernel for row in rows), f"does not list {kernel}: {rows}")
    expect(all(len(row) == len(heads) for row in rows), "rows and headings differ")
    expect(browser.run("document.querySelectorAll('.alarm').length") == alarms, "does not show the alarms")
    expect(browser.run("document.title").startswith(f"{alarms} alarm" if alarms else "no alarm"), "the title does not count alarms")
    if alarms:
        expect("assay replay /" in text and "should be" in text, f"does not say what is wrong: {text}")
    expect(browser.run("getComputedStyle(document.querySelector('h1')).fontSize") == "32px", "the style is not applied")
    for link in browser.run("[...document.querySelectorAll('a')].map(a => a.href)"):
        browser.open(link, 1280, 900)
        body = browser.run("document.body.innerText")
        expect("assay" in body or "scale" in body, f"{link} shows nothing: {body[:80]}")
    browser.open(address + "/", 390, 844)
    wide = browser.run("document.documentElement.scrollWidth")
    expect(wide <= 390, f"on a phone the page is {wide} pixels wide")
    for event in browser.events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            problems.append(f"exception: {params['exceptionDetails'].get('exception', {}).get('description')}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            if params["entry"].get("url", "").endswith("/favicon.ico"):  # browsers ask for it beside plain text
                continue
            problems.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            asked = params["request"]["url"]
            expect(asked.startswith((address, "data:", "about:")), f"asks the network for {asked}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--alarms", type=int, default=0)
    parser.add_argument("--shots", type=pathlib.Path)
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("there is no chromium: the page was not tested in a browser")
        return 77
    with tempfile.TemporaryDirectory(prefix="assay-browser-") as profile:
        browser = Browser(program, profile)
        try:
            browser.open("about:blank", 1280, 900)  # the first page of a new browser is slow
            problems = problems_of(browser, options.address.rstrip("/"), options.kernel, options.alarms)
            if options.shots:
                options.shots.mkdir(parents=True, exist_ok=True)
                for name, width, dark in (("light", 1280, False), ("dark", 1280, True), ("phone", 390, False)):
                    browser.open(options.address, width, 900, dark)
                    browser.shot(options.shots / f"assayd-{name}.png")
        finally:
            browser.close()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
