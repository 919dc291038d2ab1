#!/usr/bin/env python3
"""Opens a report in a headless Chromium and uses it as a reader would.

    browser.py PAGE.html [--shots FOLDER]

Speaks the DevTools protocol over a pipe; needs nothing but Python and Chromium. Prints what is wrong and exits
with 1; exits with 77 where there is no Chromium.
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


class Browser:
    def __init__(self, program, profile):
        down_read, self.down = os.pipe()
        self.up, up_write = os.pipe()
        os.set_inheritable(down_read, True)
        os.set_inheritable(up_write, True)

        def place():  # the browser reads from 3 and writes to 4
            os.dup2(down_read, 103)
            os.dup2(up_write, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run", "about:blank"],
            close_fds=False, preexec_fn=place, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(down_read)
        os.close(up_write)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def receive(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.up, 1 << 16)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.down, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer.get("result", {})
            self.events.append(answer)

    def wait(self, event):
        while not any(e.get("method") == event for e in self.events):
            self.events.append(self.receive())

    def open(self, url, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events = [e for e in self.events if e.get("method") != "Page.loadEventFired"]
        begun = self.processor_seconds()
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
        return self.processor_seconds() - begun

    def processor_seconds(self):
        """What the browser's processes have used so far: unlike the time of day, other work does not lengthen it."""
        ticks = 0
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            if int(fields[3]) == self.process.pid:  # the session of the browser
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def key(self, text):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=text, text=text if kind == "keyDown" and len(text) == 1 else "",
                      windowsVirtualKeyCode={"Tab": 9}.get(text, 0))

    def shot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        self.process.wait()


class Test:
    def __init__(self, browser, url, data):
        self.browser, self.url, self.data, self.problems = browser, url, data, []

    def expect(self, condition, what):
        if not condition:
            self.problems.append(what)

    def contents(self):
        b = self.browser
        seconds = b.open(self.url, 1280, 900)
        self.expect(seconds < 1, f"opening took {seconds:.2f} s of processor time")
        for report in self.data["reports"]:
            self.expect(report["trials"] is not None, "no trials")
        shown = next((r for r in self.data["reports"] if r["verdict"] == "fail"), self.data["reports"][0])
        kinds = b.run("[...document.querySelectorAll('[data-finding] h3')].map(e => e.textContent)")
        self.expect(sorted(kinds) == sorted(f["kind"] for f in shown["findings"]), f"findings shown: {kinds}")
        text = b.run("document.body.innerText")
        for finding in shown["findings"]:
            if finding["severity"] != "note":
                self.expect(finding["message"][:40] in text, f"message missing: {finding['message']}")
        self.expect((shown["title"] or shown["contract"]) in text, "the title is missing")
        figures = b.run("document.querySelectorAll('#error figure').length")
        self.expect(figures >= 3 * len(shown["pictures"]), f"{figures} plots for {len(shown['pictures'])} outputs")
        painted = b.run("[...document.querySelectorAll('canvas')].every(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v))")
        self.expect(painted, "an error map is empty")
        rows = b.run("document.querySelectorAll('.matrix tbody tr').length")
        self.expect(rows == min(250, len({t[0] for t in shown["trials"]["rows"]})), f"{rows} rows of coverage")
        if any(f["evidence"].get("precision") for f in shown["findings"]):
            self.expect(b.run("document.querySelectorAll('.heat i').length") > 0, "no heat beside the source")
        if shown["sources"]:
            part = "proof" if shown["device"] == "proof" else "source"
            self.expect(b.run(f"document.querySelectorAll('#{part} .line').length") > 0, "no source")
        if shown.get("proof"):
            self.proof(shown["proof"])
        self.expect(b.run("document.querySelectorAll('script[src], link[href^=http], img[src^=http]').length") == 0, "something is linked")

    def proof(self, proof):
        b = self.browser
        rows = b.run("document.querySelectorAll('#proof .obligations tr').length")
        self.expect(rows == len(proof["obligations"]), f"{rows} obligations")
        lines = {(place["where"]["file"], place["where"]["line"], place["status"]) for one in proof["obligations"]
                 for place in one["places"] if place["where"]["line"] > 0}
        for status in ("proved", "unknown", "refuted"):
            worse = {"proved": ("unknown", "refuted"), "unknown": ("refuted",), "refuted": ()}[status]
            expected = {(file, line) for file, line, own in lines if own == status
                        and not any((file, line, other) in lines for other in worse)}
            shown = b.run(f"document.querySelectorAll('#proof .code:not(.sourceless) .line.{status}').length")
            self.expect(shown == len(expected), f"{shown} lines marked {status}, not {len(expected)}")
        text = b.run("document.getElementById('proof').textContent")
        for one in proof["obligations"]:
            for place in one["places"]:
                self.expect(place.get("reason", "") in text, f"a reason is missing: {place.get('reason')}")
        for assumption in proof["assumptions"]:
            self.expect(assumption in text, f"an assumption is missing: {assumption}")

    def theme(self):
        b = self.browser
        colour = "getComputedStyle(document.body).backgroundColor"
        light = b.run(colour)
        b.run("document.getElementById('theme').click()")
        dark = b.run(colour)
        self.expect(light != dark, "the button does not change the theme")
        b.key("t")
        self.expect(b.run(colour) == light, "t does not change it back")
        b.run("localStorage.clear(); delete document.documentElement.dataset.theme")
        b.open(self.url, 1280, 900, dark=True)
        self.expect(b.run(colour) == dark, "the system's dark is not followed")

    def keyboard(self):
        b = self.browser
        b.open(self.url, 1280, 900)
        b.key("Tab")
        self.expect(b.run("document.activeElement.className") == "skip", "the skip link is not first")
        count = b.run("[...document.querySelectorAll('[data-finding]')].filter(f => f.offsetParent).length")
        at = "[...document.querySelectorAll('[data-finding]')].filter(f => f.offsetParent).indexOf(document.activeElement)"
        if count:
            b.key("j")
            self.expect(b.run(at) == 0, "j does not go to the first finding")
        if count > 1:
            b.key("j")
            self.expect(b.run(at) == 1, "j does not go on")
            b.key("k")
            self.expect(b.run(at) == 0, "k does not go back")

    def tables(self):
        b = self.browser
        found = b.run("""(() => {
          const table = [...document.querySelectorAll('table')].find(t => t.querySelector('th button') && t.tBodies[0].rows.length > 1);
          if (!table) return null;
          const column = table.tHead.rows[0].cells.length - 1, head = table.tHead.rows[0].cells[column];
          const read = () => [...table.tBodies[0].rows].map(r => r.cells[column].textContent);
          head.querySelector('button').click();
          const down = [head.getAttribute('aria-sort'), ...read()];
          head.querySelector('button').click();
          return { down, up: [head.getAttribute('aria-sort'), ...read()] };
        })()""")
        if found:
            self.expect(found["down"][0] == "descending" and found["up"][0] == "ascending", "sorting is not announced")
            same = len(set(found["down"][1:])) < 2
            self.expect(same or found["down"][1:] != found["up"][1:], "sorting does nothing")
        chips = b.run("document.querySelectorAll('.chips button').length")
        if chips > 1:
            before = b.run("document.querySelector('.matrix').innerText")
            b.run("document.querySelectorAll('.chips button')[1].click()")
            self.expect(b.run("document.querySelectorAll('.chips button')[1].getAttribute('aria-pressed')") == "true", "a condition cannot be chosen")
            self.expect(b.run("document.querySelector('.matrix').innerText") != before, "choosing a condition shows the same trials")

    def phone(self):
        b = self.browser
        b.open(self.url, 390, 844)
        wide = b.run("document.documentElement.scrollWidth")
        self.expect(wide <= 390, f"on a phone the page is {wide} pixels wide")

    def quiet(self):
        for event in self.browser.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                self.problems.append(f"exception: {params['exceptionDetails'].get('exception', {}).get('description')}")
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                self.problems.append(f"console: {params['args']}")
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                self.problems.append(f"log: {params['entry']['text']}")
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                self.expect(url.startswith(("file:", "data:", "about:")), f"asks the network for {url}")


def shots(browser, url, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for width, height, name in ((1280, 900, "desktop"), (390, 844, "phone")):
        for dark in (False, True):
            browser.open(url, width, height, dark)
            browser.shot(folder / f"{name}-{'dark' if dark else 'light'}.png")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--shots", type=pathlib.Path)
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("there is no chromium: the page was not tested in a browser")
        return 77
    text = options.page.read_text()
    start = text.index('id="data">') + len('id="data">')
    data = json.loads(text[start:text.index("</script>", start)])
    url = options.page.resolve().as_uri()
    with tempfile.TemporaryDirectory(prefix="assay-browser-") as profile:
        browser = Browser(program, profile)
        try:
            test = Test(browser, url, data)
            browser.open("about:blank", 1280, 900)  # the first page of a new browser is slow
            browser.open(url, 1280, 900)
            for part in (test.contents, test.theme, test.keyboard, test.tables, test.phone, test.quiet):
                part()
            if options.shots:
                shots(browser, url, options.shots)
        finally:
            browser.close()
    for problem in test.problems:
        print(problem)
    return 1 if test.problems else 0


if __name__ == "__main__":
    sys.exit(main())
