// Draws a report from the data in the page. Text from the report only ever becomes text nodes.
(() => {
"use strict";
const book = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");

// ------------------------------------------------------------------ small tools
function fill(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}
function assign(node, attributes) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  return node;
}
const h = (tag, attributes, ...children) => fill(assign(document.createElement(tag), attributes), children);
const s = (tag, attributes, ...children) =>
  fill(assign(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes), children);

const plural = (n, one, many) => `${grouped(n)} ${n === 1 ? one : many || one + "s"}`;
const grouped = (n) => Math.abs(n) >= 10000 ? String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f") : String(n);
function brief(x, digits = 4) {
  if (x === null || x === undefined) return "";
  if (typeof x === "string") return x;
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e6) return minus(String(x));
  return minus(size >= 1e5 || size < 1e-3 ? x.toExponential(Math.max(0, digits - 2)) : String(Number(x.toPrecision(digits))));
}
const minus = (text) => text.replace(/-/g, "\u2212");
const percent = (share) => share >= 0.995 ? "100 %" : share >= 0.1 ? `${Math.round(share * 100)} %` : share >= 0.001 ? `${(share * 100).toFixed(1)} %` : "";
const base = (path) => path.slice(path.lastIndexOf("/") + 1);
const scroller = (label, ...children) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);

// ------------------------------------------------------------------ verdict
const words = { pass: ["PASS", "Passed"], fail: ["FAIL", "Failed"], inconclusive: ["OPEN", "Inconclusive"] };
const proofWords = { proved: "Proved", refuted: "Refuted", unknown: "Unknown" };
// A page of `assay prove` alone: nothing was tried.
const isProof = (report) => report.device === "proof";
const called = (report) => isProof(report) ? proofWords[report.proof.verdict] : words[report.verdict][1];
function stamp(report) {
  const text = isProof(report) ? { proved: "PROVED", refuted: "WRONG", unknown: "OPEN" }[report.proof.verdict] : words[report.verdict][0];
  return s("svg", { class: "stamp", viewBox: "0 0 100 100", role: "img", "aria-label": called(report) },
    s("path", { d: "M50 3 L90.7 26.5 V73.5 L50 97 L9.3 73.5 V26.5 Z", fill: "none", stroke: "currentColor", "stroke-width": 3 }),
    s("path", { d: "M50 10.5 L84.2 30.2 V69.8 L50 89.5 L15.8 69.8 V30.2 Z", fill: "none", stroke: "currentColor", "stroke-width": 1 }),
    s("text", { x: 50, y: 56, style: text.length > 4 ? "font-size:13px" : null }, text));
}
function fact(name, value) { return h("div", {}, h("dt", {}, name), h("dd", {}, value)); }
function opening(report) {
  const c = report.coverage;
  return [
    h("div", { class: `verdict ${report.verdict}` }, stamp(report),
      h("div", {}, h("h1", {}, report.title || base(report.contract)),
        h("p", { class: "path mono" }, report.contract))),
    isProof(report) ? proofFacts(report.proof) : report.training ? trainingFacts(report) : h("dl", { class: "facts" },
      fact("verdict", words[report.verdict][1]), fact("trials", grouped(c.trials ?? 0)), fact("shapes", grouped(c.shapes ?? 0)),
      fact("elements judged", grouped(c.elements_judged ?? 0)), fact("time", `${report.seconds.toFixed(1)} s`),
      fact("device", report.device), fact("seed", report.seed)),
  ];
}

const ofTheCall = ["coverage", "values"];  // not of a single kernel

function proofFacts(p) {
  const of = (status) => p.obligations.filter((o) => o.status === status).length;
  return h("dl", { class: "facts" },
    fact("verdict", proofWords[p.verdict]), fact("kernels", new Set(p.obligations.filter((o) => !ofTheCall.includes(o.obligation)).map((o) => o.kernel)).size),
    fact("obligations proved", `${of("proved")} of ${p.obligations.length}`), of("refuted") > 0 && fact("refuted", of("refuted")),
    of("unknown") > 0 && fact("unknown", of("unknown")), of("agrees") > 0 && fact("values", "agree"), fact("time", `${p.seconds.toFixed(1)} s`));
}

function trainingFacts(report) {
  const t = report.training;
  return h("dl", { class: "facts" },
    fact("verdict", words[report.verdict][1]), fact("slot", t.slot), fact("tokens per step", grouped(t.model.sequence * t.model.sequences)),
    fact("kernel calls", grouped(t.calls)), fact("time", `${report.seconds.toFixed(1)} s`), fact("device", report.device), fact("seed", report.seed));
}

// ------------------------------------------------------------------ code
const keyword = /\b(?:if|else|for|while|do|return|const|constexpr|static|auto|void|int|float|double|bool|unsigned|char|short|long|struct|template|typename|namespace|using|extern|inline|true|false|sizeof|__\w+__)\b/;
const token = new RegExp(`(//.*$)|("(?:[^"\\\\]|\\\\.)*")|(${keyword.source})`, "g");
function tinted(text) {
  const out = [];
  let end = 0;
  for (const match of text.matchAll(token)) {
    out.push(text.slice(end, match.index), h("span", { class: match[1] ? "c" : match[2] ? "s" : "k" }, match[0]));
    end = match.index + match[0].length;
  }
  out.push(text.slice(end));
  return out;
}
// Lines `from` to `to`; `marks` maps a line to a class, `heat` to a share.
function listing(source, from, to, marks, heat) {
  const code = h("div", { class: heat ? "code heated" : "code" });
  for (let n = Math.max(from, source.first); n <= Math.min(to, source.first + source.lines.length - 1); ++n) {
    const share = heat && heat.get(n);
    code.append(h("div", { class: `line ${marks.get(n) || ""}`, "data-line": n },
      heat && h("span", { class: "heat", title: share ? `${(share * 100).toFixed(1)} % of the error` : null },
        share > 0 && h("i", { style: `width:${Math.max(2, share * 100)}%` }), share > 0 && h("b", {}, percent(share))),
      h("span", { class: "n" }, n), h("span", { class: "text" }, ...tinted(source.lines[n - source.first]))));
  }
  return code;
}

// ------------------------------------------------------------------ findings
const place = (where) => where.file ? `${where.file}${where.line ? `:${where.line}` : ""}` : "";
// The name of a C++ function as its source has it: _ZN5space4nameEPf is space::name.
function unmangled(name) {
  let rest = (/^_ZN?(?=\d)(.*)$/.exec(name) || [])[1];
  const parts = [];
  for (let m; rest && (m = /^(\d+)/.exec(rest)); rest = rest.slice(m[1].length + Number(m[1]))) parts.push(rest.slice(m[1].length, m[1].length + Number(m[1])));
  return parts.filter((p) => !p.startsWith("_GLOBAL__N") && !p.startsWith("_INTERNAL")).join("::") || name;
}
function evidence(finding) {
  const e = finding.evidence, pairs = [];
  const worst = e.worst;
  if (worst) {
    const text = worst.text || { stored: brief(worst.stored, 7), exact: brief(worst.exact, 7) };
    pairs.push(["worst element", `${e.output || ""}${worst.element}`], ["stored", minus(text.stored)], ["exact", minus(text.exact)]);
    if (text.error) pairs.push(["error", text.error]);
    if (text.times) pairs.push(["budget", `${text.budget} (the error is ${times(text)})`]);
    else if (text.error && Math.abs(worst.z) < 1e6) pairs.push(["in units of σ", brief(Math.abs(worst.z), 3)]);
    if (worst.terms > 1) pairs.push(["terms summed", brief(worst.terms)]);
  }
  if (e.elements_outside > 0) pairs.push(["outside", `${grouped(e.elements_outside)} of ${grouped(e.elements_judged)}`]);
  const [top] = e.error_line && e.error_line.share > 0 ? sharesOf(e.precision, e.output) : [];  // unless roundings do not explain it
  if (top) pairs.push(["error enters at", `${base(top.file)}:${top.line}, ${percent(top.share)}`]);
  if (finding.who) pairs.push(["thread", finding.who]);
  else if (e.kernel) pairs.push(["kernel", unmangled(e.kernel)]);
  if (e.instruction) pairs.push(["instruction", e.count > 1 ? `${e.instruction}  (${e.count} times)` : e.instruction]);
  return pairs.length ? h("dl", { class: "numbers" }, pairs.map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v)))) : null;
}
// "3.2 times as large", of an error beside its budget.
function times(text) {
  return `${text.times} times as large`;
}
function copyable(command) {
  const button = h("button", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(command); button.textContent = "Copied"; } catch { button.textContent = "Not allowed"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return h("div", { class: "again" }, h("code", { tabindex: 0, "aria-label": "The command that reproduces it" }, command), button);
}
// The lines that a finding speaks of: its own and, of a race, the other side's.
function excerpts(report, finding) {
  const kind = finding.severity === "note" ? "marked" : "faulty";
  const places = [finding.where, finding.other].filter((place) => place && place.line > 0 && report.sources[place.file]);
  if (!places.length) return null;
  const [first, second] = places.sort((a, b) => a.line - b.line);
  const marks = (...lines) => new Map(lines.map((line) => [line, kind]));
  if (second && first.file === second.file && second.line - first.line <= 8)
    return listing(report.sources[first.file], first.line - 2, second.line + 2, marks(first.line, second.line), null);
  return places.map((place) => [second && h("p", { class: "soft mono" }, `${place.file}:${place.line}`),
    listing(report.sources[place.file], place.line - 2, place.line + 2, marks(place.line), null)]);
}
function article(report, finding) {
  const source = excerpts(report, finding);
  return h("article", { class: `finding card ${finding.severity}`, tabindex: -1, "data-finding": finding.kind },
    h("header", {}, h("h3", {}, finding.kind), h("span", { class: "place mono" }, place(finding.where))),
    h("p", { class: "says" }, finding.message),
    source && scroller("Source", source),
    finding.chains.map((chain) => h("p", { class: "soft mono" }, chain)),
    evidence(finding),
    finding.fix && h("p", { class: "soft" }, `Fix: ${finding.fix}`),
    (finding.evidence.symptoms || []).map((text) => h("p", { class: "soft" }, `Consequence: ${text}`)),
    finding.evidence.trials > 1 && h("p", { class: "soft" }, `Seen in ${plural(finding.evidence.trials, "trial")}.`),
    finding.evidence.smallest && h("p", { class: "soft" }, "Smallest case: ", h("span", { class: "mono" }, finding.evidence.smallest),
      finding.evidence.smallest_shows && ["; there ", h("span", { class: "mono" }, finding.evidence.smallest_shows)]),
    finding.reproduce && copyable(finding.reproduce));
}
function findings(report) {
  const real = report.findings.filter((f) => f.severity !== "note");
  const notes = report.findings.filter((f) => f.severity === "note");
  if (isProof(report) && !real.length && !report.inconclusive.length) return null;
  const none = report.verdict === "pass"
    ? "No defect was found in anything that was tried. The coverage is listed below."
    : "No defect was found, but not everything could be checked.";
  return h("section", { id: "findings", "aria-label": "Findings", "data-part": "Findings" },
    h("h2", {}, real.length ? plural(real.length, "finding") : "No findings"),
    !real.length && h("p", { class: "lede" }, none),
    report.inconclusive.length > 0 && [h("p", { class: "lede" }, "Could not be checked:"),
      h("ul", { class: "plain" }, report.inconclusive.map((reason) => h("li", {}, reason)))],
    real.map((finding) => article(report, finding)),
    notes.length > 0 && h("details", { class: "quiet", id: "notes", open: real.length > 0 || null },
      h("summary", {}, `${plural(notes.length, "note")} from static analysis: places to look, not part of the verdict`),
      notes.map((finding) => article(report, finding))));
}

// ------------------------------------------------------------------ tables
function sortable(columns, rows, label) {
  const body = h("tbody");
  const put = () => body.replaceChildren(...rows.map((row) =>
    h("tr", {}, columns.map((column) => h("td", { class: column.left ? "left" : null }, column.show ? column.show(row) : row[column.key])))));
  const heads = columns.map((column) => {
    const head = h("th", { scope: "col", class: column.left ? "left" : null }, h("button", { type: "button", onclick: () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = column.value || ((row) => row[column.key]);
      rows.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : (x ?? -Infinity) - (y ?? -Infinity);
        return down ? -order : order;
      });
      put();
    } }, column.title));
    return head;
  });
  put();
  return scroller(label, h("table", {}, h("thead", {}, h("tr", {}, heads)), body));
}

// ------------------------------------------------------------------ source and shares
// Lines by their share of one output's error, or of all where that is not told.
function sharesOf(precision, name) {
  const output = (precision.outputs || []).find((o) => o.name === name && o.lines && o.lines.length);
  return (output || precision).lines.slice().sort((a, b) => b.share - a.share);
}
function source(report) {
  const files = Object.keys(report.sources);
  if (!files.length || isProof(report)) return null;
  const holder = report.findings.find((f) => f.evidence.precision && f.evidence.precision.lines);
  const precision = holder && holder.evidence.precision;
  const faulty = report.findings.filter((f) => f.severity !== "note").map((f) => f.where);
  const blocks = files.map((file) => {
    const text = report.sources[file];
    const marks = new Map(), heat = precision ? new Map() : null;
    for (const f of report.findings) if (f.severity === "note" && f.where.file === file) marks.set(f.where.line, "marked");
    for (const w of faulty) if (w.file === file) marks.set(w.line, "faulty");
    if (precision) for (const l of sharesOf(precision, holder.evidence.output)) if (l.file === file || base(l.file) === base(file)) heat.set(l.line, (heat.get(l.line) || 0) + l.share);
    const box = scroller(`Source of ${file}`, listing(text, 1, Infinity, marks, heat));
    box.classList.add("source", "card");
    const first = [...marks].find(([, kind]) => kind === "faulty") || [...marks][0];
    if (first) queueMicrotask(() => {
      const row = box.querySelector(`[data-line="${first[0]}"]`);
      if (row) box.scrollTop = row.offsetTop - box.offsetTop - box.clientHeight / 2;
    });
    return h("details", { open: heat ? heat.size > 0 || files.length === 1 : marks.size > 0 }, h("summary", { class: "mono" }, file), box);
  });
  return h("section", { id: "source", "aria-label": "Source", "data-part": "Source" }, h("h2", {}, "Source"),
    h("p", { class: "lede" }, precision
      ? `Beside each line, the share of the error of ${holder.evidence.output || "the outputs"} that enters there: every value was carried along in FP64 and compared.${
        holder.evidence.error_line && holder.evidence.error_line.share > 0 ? "" : " Rounding does not explain this finding; the shares are those of the small error that it adds."}`
      : "Lines that findings refer to are marked."),
    blocks, precision && shares(precision));
}
function shares(precision) {
  const number = (key, title) => ({ key, title, show: (row) => brief(row[key], 3) });
  const out = [h("h3", { class: "minor" }, "Where the error comes from"),
    sortable([
      { title: "line", left: true, key: "line", value: (row) => `${row.file}:${row.line}`, show: (row) => h("span", { class: "mono" }, `${base(row.file)}:${row.line}`) },
      { key: "operation", title: "operation", left: true },
      { key: "share", title: "share", show: (row) => percent(row.share) || "0" },
      number("introduced", "introduced"), number("inherited", "inherited"), number("amplification", "amplified"),
      number("executions", "executed"), number("cancelled_bits", "bits cancelled"), number("stagnated", "stagnated"),
      number("overflowed", "overflowed"), number("flushed", "flushed"),
    ].filter((column) => precision.lines.some((row) => row[column.key])), precision.lines.slice(), "Lines by their share of the error")];
  const outputs = precision.outputs || [];
  if (outputs.length > 1) {
    out.push(h("ul", { class: "plain" }, outputs.map((o) => h("li", {}, h("span", { class: "mono" }, o.name), ": ",
      (o.lines || []).slice(0, 3).map((l) => `${base(l.file)}:${l.line} ${percent(l.share)}`).join(", ")))));
  }
  const others = outputs.filter((o) => o.others > 0.01);
  if (others.length) out.push(h("p", { class: "soft" }, others.map((o) => `${percent(o.others)} of the error of ${o.name} enters at lines that were not separated.`).join(" ")));
  const lost = precision.retaken || [];
  if (lost.length) {
    out.push(h("p", { class: "soft" }, "Not tracked; earlier errors are not counted:"),
      h("ul", { class: "plain" }, lost.map((d) => h("li", {}, h("span", { class: "mono" }, `${base(d.file)}:${d.line}`), ` ${d.operation}, ${plural(d.count, "time")}`))));
  }
  const decisions = precision.decisions || [];
  if (decisions.length) {
    out.push(h("p", { class: "soft" }, "Decided differently by the exact value:"),
      h("ul", { class: "plain" }, decisions.map((d) => h("li", {}, h("span", { class: "mono" }, `${base(d.file)}:${d.line}`), ` ${d.what}, ${plural(d.count, "time")}`))));
  }
  return out;
}

// ------------------------------------------------------------------ proof
const marks = { proved: "\u2713", agrees: "\u2248", unknown: "?", refuted: "\u2717" };
const worse = (a, b) => ["proved", "unknown", "refuted"].indexOf(a) > ["proved", "unknown", "refuted"].indexOf(b) ? a : b;
// "bounds, alignment 4 of 4, race 2 of 3": what was looked at on a line.
function summary(facts) {
  const names = [...new Set(facts.map((f) => f.obligation))];
  return names.map((name) => {
    const own = facts.filter((f) => f.obligation === name), proved = own.filter((f) => f.status === "proved").length;
    return `${name} ${proved} of ${own.length}`;
  }).join(", ");
}
// Reasons of what is not proved there, each once.
function reasons(facts) {
  const seen = new Map();
  for (const f of facts) {
    if (f.status === "proved") continue;
    const key = `${f.obligation} ${f.status}: ${f.reason}`;
    seen.set(key, [...(seen.get(key) || []), f.instruction]);
  }
  return [...seen].map(([text, instructions]) => {
    const code = [...new Set(instructions.filter(Boolean))];
    return h("li", {}, text, code.length > 0 && [" ", h("code", {}, code.slice(0, 3).join("   ") + (code.length > 3 ? "   \u2026" : ""))]);
  });
}
function proofLine(n, text, facts) {
  const status = facts.length ? facts.map((f) => f.status).reduce(worse) : "";
  const row = h("div", { class: `line ${status}`, "data-line": n },
    h("span", { class: "status", title: facts.length ? summary(facts) : null }, facts.length > 0 && marks[status]),
    h("span", { class: "n" }, n), h("span", { class: "text" }, ...tinted(text)));
  return [row, status && status !== "proved" && h("ul", { class: `why ${status}` }, reasons(facts))];
}
function proofListing(file, source, facts) {
  const byLine = new Map();
  for (const f of facts) byLine.set(f.where.line, [...(byLine.get(f.where.line) || []), f]);
  const code = h("div", { class: "code proof" });
  source.lines.forEach((text, i) => fill(code, proofLine(source.first + i, text, byLine.get(source.first + i) || [])));
  const box = scroller(`Proof of ${file}`, code);
  box.classList.add("source", "card");
  return h("details", { open: true }, h("summary", { class: "mono" }, file), box);
}
function instructionListing(facts) {
  const byText = new Map();
  for (const f of facts) byText.set(`${f.kernel}: ${f.instruction}`, [...(byText.get(`${f.kernel}: ${f.instruction}`) || []), f]);
  const code = h("div", { class: "code proof sourceless" });
  [...byText].forEach(([text, own], i) => fill(code, proofLine(i + 1, text, own)));
  const box = scroller("Instructions without a source line", code);
  box.classList.add("source", "card");
  return h("details", {}, h("summary", {}, `${plural(byText.size, "instruction")} without a source line`), box);
}
function proof(report) {
  const p = report.proof;
  if (report.no_proof)
    return h("section", { id: "proof", "aria-label": "Proof", "data-part": "Proof" }, h("h2", {}, "Proof"), h("p", { class: "lede" }, `No proofs: ${report.no_proof}.`));
  if (!p || !p.obligations) return null;
  const kernels = [...new Set(p.obligations.map((o) => o.kernel))];
  const facts = p.obligations.flatMap((o) => (o.places || []).map((place) => ({ ...place, kernel: o.kernel, obligation: o.obligation })));
  const files = [...new Set(facts.map((f) => f.where.file))].filter((file) => file && report.sources[file]);
  const loose = facts.filter((f) => f.instruction && !(f.where.line > 0 && files.includes(f.where.file)));
  const at = (o) => o.status !== "proved" && o.where.line > 0 ? `${base(o.where.file)}:${o.where.line}: ` : "";
  return h("section", { id: "proof", "aria-label": "Proof", "data-part": "Proof" }, h("h2", {}, "Proof"),
    p.problem && h("p", { class: "lede" }, p.problem),
    h("p", { class: "lede" }, `For ${p.shapes.join("; ") || "the only shape"}; every thread, and every input that the contract allows${p.gpu ? `; on an ${p.gpu}` : ""}.`),
    (p.deviations || []).map((d) => h("p", { class: "lede" }, `The launch relation does not hold: ${d}.`)),
    kernels.map((kernel) => [h("h3", { class: "minor mono" }, kernel),
      p.launch.filter((l) => l.kernel === kernel).map((l) => h("p", { class: "soft" }, "launched with ", h("span", { class: "mono" }, l.relation),
        l.checked === "all" ? " (checked at every shape)" : " (checked at some shapes, assumed at the others)")),
      scroller(`Obligations of ${kernel}`, h("table", { class: "obligations" }, h("tbody", {}, p.obligations.filter((o) => o.kernel === kernel).map((o) =>
        h("tr", {}, h("td", { class: `left status ${o.status}` }, `${marks[o.status]} ${o.status}`), h("th", { class: "left", scope: "row" }, o.obligation),
          h("td", { class: "left says" }, o.statement, o.status !== "proved" && h("span", { class: "soft" }, `${at(o)}${o.reason}`)),
          h("td", {}, o.total > 0 ? `${o.proved} of ${o.total}` : ""))))))]),
    files.length > 0 && [h("h3", { class: "minor" }, "Line by line"),
      h("p", { class: "lede" }, "\u2713 everything on the line is proved; ? something is not, with the reason below it; \u2717 refuted by a run. Lines without a mark have nothing to prove.")],
    files.map((file) => proofListing(file, report.sources[file], facts.filter((f) => f.where.file === file))),
    loose.length > 0 && instructionListing(loose),
    h("h3", { class: "minor" }, "Assumed"), h("ul", { class: "plain" }, p.assumptions.map((a) => h("li", {}, a))),
    p.unconfirmed.length > 0 && h("details", {}, h("summary", {}, "Counterexamples that no run confirmed: limits of the prover, not findings"),
      h("ul", { class: "plain" }, p.unconfirmed.map((a) => h("li", {}, a)))));
}

// ------------------------------------------------------------------ plots
const redraws = [];
const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function mix(a, b, t) {
  const parse = (c) => {
    const full = c.length === 4 ? c.replace(/[0-9a-f]/gi, "$&$&") : c;  // #abc is #aabbcc
    return [1, 3, 5].map((i) => parseInt(full.slice(i, i + 2), 16));
  };
  const [x, y] = [parse(a), parse(b)];
  return x.map((v, i) => Math.round(v + (y[i] - v) * t));
}
// Up to one σ is calm; every doubling beyond it is one step hotter, to 64.
function heatOf(z) {
  const calm = mix(tone("--raised"), tone("--dots"), 0.32);
  if (z <= 1) return mix(tone("--raised"), tone("--dots"), 0.32 * z);
  const t = Math.min(1, Math.log2(z) / 6);
  const hex = "#" + calm.map((v) => v.toString(16).padStart(2, "0")).join("");
  return t < 0.5 ? mix(hex, tone("--heat"), t * 2) : mix(tone("--heat"), tone("--ink"), (t - 0.5) * 1.1);
}
// Integers, and results that nothing rounds, are right or wrong: there is no σ to measure them by.
const isMeasured = (p) => p.grid.some((z) => z > 0);
const kFewest = { cells: 4, spread: 20, points: 8 };  // that a map, a histogram, a scatter plot takes to tell something
function errorMap(p) {
  const measured = isMeasured(p), row = p.rows === 1;
  if (p.grid.length < kFewest.cells || (!measured && p.outside === 0)) return null;
  const canvas = h("canvas", { width: p.columns_drawn, height: p.rows_drawn, role: "img",
    "aria-label": `Error of ${p.output} over ${p.rows} rows and ${p.columns} columns; ${p.outside} elements lie outside what rounding explains` });
  const ratio = row ? 0.05 : Math.min(0.66, Math.max(0.12, p.rows_drawn / p.columns_drawn));
  canvas.style.aspectRatio = String(1 / ratio);
  const ramp = h("span", { class: "ramp" });
  const swatch = h("span", { class: "swatch" });
  const draw = () => {
    const ink = canvas.getContext("2d"), image = ink.createImageData(p.columns_drawn, p.rows_drawn);
    const table = new Map();
    p.grid.forEach((z, i) => {
      if (z === null) return;
      if (!table.has(z)) table.set(z, z < 0 ? mix(tone("--ink"), tone("--ink"), 0) : heatOf(z));
      image.data.set([...table.get(z), 255], 4 * i);
    });
    ink.putImageData(image, 0, 0);
    const stops = [0, 1, 2, 4, 8, 16, 32, 64].map((z) => `rgb(${heatOf(z).join(" ")})`);
    ramp.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    swatch.style.background = tone("--ink");
  };
  redraws.push(draw);
  const reading = h("span", { class: "reading", "aria-live": "off" }, "\u00a0");
  const span = (cell, cells, all) => {
    const from = Math.ceil(cell * all / cells), to = Math.ceil((cell + 1) * all / cells) - 1;
    return from >= to ? `${from}` : `${from}–${to}`;
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const c = Math.min(p.columns_drawn - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * p.columns_drawn)));
    const r = Math.min(p.rows_drawn - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * p.rows_drawn)));
    const z = p.grid[r * p.columns_drawn + c];
    reading.textContent = (row ? `element ${span(c, p.columns_drawn, p.columns)}: ` : `row ${span(r, p.rows_drawn, p.rows)}, column ${span(c, p.columns_drawn, p.columns)}: `) +
      (z === null ? "not judged" : z < 0 ? "wrong" : measured ? `${brief(z, 3)} σ` : "right");
  });
  const pooled = p.rows_drawn < p.rows || p.columns_drawn < p.columns;
  const size = row ? `${grouped(p.columns)} elements` : `${grouped(p.rows)} × ${grouped(p.columns)}`;
  return h("figure", { class: row ? "card wide" : "card" },
    h("figcaption", {}, h("strong", {}, "Where it is wrong"), measured ? `${size}; error in units of σ` : `${size}, ${grouped(p.outside)} of them wrong`,
      pooled && (measured ? ", the largest of each cell" : "; a cell is dark if one of its elements is")),
    h("div", { class: "grid-picture" },
      h("div", { class: "ends rows" }, !row && [h("span", {}, "0"), h("span", {}, p.rows - 1)]), canvas,
      h("span", {}), h("div", { class: "ends" }, h("span", {}, "0"), h("span", {}, row ? "elements" : "columns"), h("span", {}, p.columns - 1))),
    h("div", { class: "legend" }, measured && ["0", ramp, "64 σ"], p.grid.some((z) => z < 0) && h("span", {}, swatch, measured ? "wrong, with no finite error or no σ" : "wrong"), reading));
}

// Letters keep their size, so a narrow screen gets a smaller drawing.
const frame = { w: innerWidth < 500 ? 340 : 460, h: innerWidth < 500 ? 225 : 260, left: 46, right: 12, top: 10, bottom: 34 };
const tick = (x, y, text, anchor) => s("text", { x, y, "text-anchor": anchor }, text);
function histogram(p) {
  const { w, h: height, left, right, top, bottom } = frame;
  const bins = p.histogram.length, total = p.histogram.reduce((a, b) => a + b, 0);
  if (!isMeasured(p) || total < kFewest.spread) return null;
  const step = (w - left - right) / bins, floor = height - bottom;
  const width = 2 * p.range / (bins - 2);
  const bell = (z) => Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI) * width;
  const shares = p.histogram.map((n) => n / total);
  const most = Math.max(...shares, bell(0));
  const y = (share) => floor - (floor - top) * share / most;
  const x = (z) => left + step + (z + p.range) / width * step;
  const parts = [s("line", { class: "axis", x1: left, x2: w - right, y1: floor, y2: floor })];
  shares.forEach((share, i) => {
    if (share <= 0) return;
    const edge = i === 0 || i === bins - 1;
    const up = Math.max(1.2, floor - y(share));
    parts.push(s("rect", { class: edge ? "bar out" : "bar", x: left + i * step + 0.4, width: Math.max(1, step - 0.8), y: floor - up, height: up },
      s("title", {}, `${edge ? `beyond ${p.range}` : `${brief(-p.range + (i - 1) * width, 3)} to ${brief(-p.range + i * width, 3)}`} σ: ${grouped(p.histogram[i])} elements`)));
  });
  const curve = [];
  for (let z = -p.range; z <= p.range; z += 0.1) curve.push(`${curve.length ? "L" : "M"}${x(z).toFixed(1)} ${y(bell(z)).toFixed(1)}`);
  parts.push(s("path", { class: "normal", d: curve.join("") }));
  for (let z = -p.range; z <= p.range; z += 2) parts.push(tick(x(z), floor + 15, brief(z), "middle"));
  parts.push(tick(left - 6, top + 9, `${(most * 100).toFixed(most < 0.1 ? 1 : 0)} %`, "end"), tick(left - 6, floor, "0", "end"),
    tick((left + w) / 2, height - 2, "error, in units of σ", "middle"));
  const beyond = p.histogram[0] + p.histogram[bins - 1];
  return h("figure", { class: "card" },
    h("figcaption", {}, h("strong", {}, "How the errors are spread"), "Dashed: the normal curve. ",
      beyond ? `${grouped(beyond)} of ${grouped(total)} elements lie beyond ±${p.range}.` : `None of ${grouped(total)} elements lies beyond ±${p.range}.`),
    s("svg", { viewBox: `0 0 ${w} ${height}`, role: "img", "aria-label": `Histogram of errors; ${beyond} of ${total} beyond ${p.range} σ` }, parts));
}

function decades(low, high) {
  const from = Math.floor(Math.log10(low)), to = Math.max(from + 1, Math.ceil(Math.log10(high)));
  return [from, to];
}
function tenTo(n) {
  if (n === 0 || n === 1) return [n === 0 ? "1" : "10"];
  return ["10", s("tspan", { dy: -4, "font-size": 8 }, minus(String(n)))];
}
// Dots on logarithmic axes; what is zero lies on the axis itself.
function scatter(options) {
  const { w, h: height, left, right, top, bottom } = frame;
  const { points, title, caption, xTitle, yTitle } = options;
  const positive = (k) => points.map((q) => q[k]).filter((v) => v > 0);
  const xs = positive("x"), ys = positive("y");
  if (!xs.length || points.length < kFewest.points) return null;
  const low = (list) => list.reduce((a, b) => Math.min(a, b), Infinity), high = (list) => list.reduce((a, b) => Math.max(a, b), 0);
  const [x0, x1] = decades(low(xs), high(xs)), [y0, y1] = ys.length ? decades(low(ys), high(ys)) : [-1, 0];
  const floor = height - bottom, lane = 12;
  const x = (v) => left + lane + (w - left - right - lane) * (Math.log10(v) - x0) / (x1 - x0);
  const y = (v) => floor - lane - (floor - lane - top) * (Math.log10(v) - y0) / (y1 - y0);
  const path = (list) => list.map((q) => `M${(q.x > 0 ? x(q.x) : left + 3).toFixed(1)} ${(q.y > 0 ? y(q.y) : floor - 3).toFixed(1)}h0`).join("");
  const parts = [s("path", { class: "axis", d: `M${left} ${top}V${floor}H${w - right}` })];
  const every = (n) => Math.max(1, Math.ceil(n / 7));
  for (let d = x0; d <= x1; d += every(x1 - x0)) parts.push(s("line", { class: "tick", x1: x(10 ** d), x2: x(10 ** d), y1: top, y2: floor }), s("text", { x: x(10 ** d), y: floor + 15, "text-anchor": "middle" }, tenTo(d)));
  for (let d = y0; d <= y1; d += every(y1 - y0)) parts.push(s("line", { class: "tick", x1: left, x2: w - right, y1: y(10 ** d), y2: y(10 ** d) }), s("text", { x: left - 6, y: y(10 ** d) + 4, "text-anchor": "end" }, tenTo(d)));
  parts.push(tick(left - 6, floor, "0", "end"));
  parts.push(s("path", { class: "points", d: path(points.filter((q) => q.ok)) }), s("path", { class: "points out", d: path(points.filter((q) => !q.ok)) }));
  if (options.line) {
    const dots = options.line.filter(([a, b]) => a > 0 && b > 0 && b >= 10 ** y0 / 2 && b <= 10 ** y1 * 2);
    if (dots.length > 1) parts.push(s("path", { class: "budget", d: dots.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("") }));
  }
  parts.push(tick((left + w) / 2, height - 2, xTitle, "middle"));
  const outside = points.filter((q) => !q.ok).length;
  return h("figure", { class: "card" }, h("figcaption", {}, h("strong", {}, title), caption),
    s("svg", { viewBox: `0 0 ${w} ${height}`, role: "img", "aria-label": `${title}: ${yTitle} against ${xTitle}, ${points.length} elements, ${outside} outside` }, parts),
    h("div", { class: "legend" }, h("span", {}, h("span", { class: "swatch", style: "background:var(--dots)" }), "within the rounding budget"),
      outside > 0 && h("span", {}, h("span", { class: "swatch", style: "background:var(--fail)" }), "outside")));
}
// The middle of the budgets in each of some slices of the x axis.
function budgetLine(points) {
  const sorted = points.filter((q) => q.x > 0 && q.budget > 0).sort((a, b) => a.x - b.x);
  const slices = 12, line = [];
  for (let i = 0; i < slices; ++i) {
    const part = sorted.slice(Math.floor(i * sorted.length / slices), Math.floor((i + 1) * sorted.length / slices));
    if (!part.length) continue;
    const budgets = part.map((q) => q.budget).sort((a, b) => a - b);
    line.push([part[Math.floor(part.length / 2)].x, budgets[Math.floor(budgets.length / 2)]]);
  }
  return line;
}
function plots(report) {
  const drawn = report.pictures.map((p) => [p, figures(p)]).filter(([, list]) => list.length > 0);
  if (!drawn.length) return null;
  return h("section", { id: "error", "aria-label": "Error", "data-part": "Error" }, h("h2", {}, "Error"),
    h("p", { class: "lede" }, drawn.some(([p]) => isMeasured(p)) && "σ is the deviation that rounding alone is expected to give an element. ", "Seen in ",
      h("span", { class: "mono" }, report.picture_of), "."),
    drawn.map(([p, list]) => [
      h("h3", { class: "output" }, h("span", { class: "mono" }, `${p.output}[${p.extents.join(", ")}]`), h("span", { class: "soft" }, ` ${p.dtype}`)),
      h("div", { class: "plots" }, list),
    ]));
}
// The pictures of one output that tell something.
function figures(p) {
  const points = p.points.map(([magnitude, error, budget, hits, ok]) => ({ magnitude, error, budget, hits, ok: ok === 1 }));
  const sizes = points.map((q) => ({ x: q.magnitude, y: q.error, budget: q.budget, ok: q.ok }));
  const measured = isMeasured(p);
  return [errorMap(p), histogram(p),
    scatter({ points: sizes, title: "Error and size", xTitle: "size of the exact value", yTitle: "error", caption: measured ? "Dashed: σ." : "Of the elements that are wrong.", line: budgetLine(sizes) }),
    p.hits_vary && measured && scatter({ points: points.map((q) => ({ x: q.hits, y: q.budget > 0 ? q.error / q.budget : 0, ok: q.ok })), title: "Error and number of terms",
      xTitle: "terms summed into the element", yTitle: "error in σ", caption: "In units of σ: a sound sum stays level, however long." }),
  ].filter(Boolean);
}

// ------------------------------------------------------------------ training
// Lines over the steps of a run, and a band about zero or about a line. Losses that are not numbers are left out.
function curves(lines, band, yTitle, height, count) {
  const { w, left, right, top } = frame, bottom = 22, floor = height - bottom;
  const values = [...lines.flatMap((l) => l.values), ...(band ? [...band.low, ...band.high] : [])].filter(Number.isFinite);
  const steps = Math.max(2, count);
  if (!values.length) return null;
  let low = Math.min(...values), high = Math.max(...values);
  if (high === low) { low -= 0.5; high += 0.5; }
  const x = (i) => left + (w - left - right) * i / (steps - 1), y = (v) => floor - (floor - top) * (v - low) / (high - low);
  const path = (list) => {
    let drawn = false;
    return list.map((v, i) => {
      if (!Number.isFinite(v)) { drawn = false; return ""; }
      const d = `${drawn ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      drawn = true;
      return d;
    }).join("");
  };
  const parts = [s("path", { class: "axis", d: `M${left} ${top}V${floor}H${w - right}` })];
  if (band) {
    const there = band.low.map((v, i) => i).filter((i) => Number.isFinite(band.low[i]) && Number.isFinite(band.high[i]));
    const edge = [...there.map((i) => [i, band.high[i]]), ...there.reverse().map((i) => [i, band.low[i]])];
    parts.push(s("path", { class: "band", d: edge.map(([i, v], n) => `${n ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("") + "Z" }));
  }
  for (const line of lines) parts.push(s("path", { class: `curve ${line.name}`, d: path(line.values) }));
  for (const v of [low, high]) parts.push(tick(left - 6, y(v) + 4, brief(v, 3), "end"));
  parts.push(tick(left, height - 4, "0", "start"), tick(w - right, height - 4, steps - 1, "end"), tick((left + w) / 2, height - 4, "step", "middle"));
  return s("svg", { viewBox: `0 0 ${w} ${height}`, role: "img", "aria-label": `${yTitle} over ${steps} steps` }, parts);
}
// What trusted runs differ by so far: the noise of a step is the largest until then.
function noiseBand(trusted, reordered) {
  let noise = 0;
  return trusted.map((v, i) => {
    const gap = Math.abs(reordered[i] - v);
    if (Number.isFinite(gap)) noise = Math.max(noise, gap);
    return noise;
  });
}
function cellFigure(cell, failed) {
  const { reference, trusted, reordered, candidate } = cell.loss;
  const noise = noiseBand(trusted, reordered), count = Math.max(reference.length, trusted.length, candidate.length);
  const gap = candidate.map((v, i) => Number.isFinite(v) ? v - trusted[i] : NaN);
  const state = cell.unmasked ? `unmasked at step ${cell.unmasked_step}` : failed ? "masked by the loss" : "within the noise";
  return h("figure", { class: "card" },
    h("figcaption", {}, h("strong", {}, `${cell.tokens} tokens, ${cell.optimizer}`),
      `${state}; the largest gap is ${brief(cell.loss_gap, 3)}, the noise ${brief(cell.noise, 3)}; learning rate ${brief(cell.rate)}`),
    curves([{ name: "reference", values: reference }, { name: "trusted", values: trusted }, { name: "candidate", values: candidate }],
      { low: trusted.map((v, i) => v - noise[i]), high: trusted.map((v, i) => v + noise[i]) }, "loss", 190, count),
    curves([{ name: "candidate", values: gap }], { low: noise.map((v) => -v), high: noise }, "loss gap", 120, count),
    h("div", { class: "legend" }, [["reference", "fp32"], ["trusted", "trusted kernels"], ["candidate", "your kernel"]].map(([name, text]) =>
      h("span", {}, h("span", { class: `swatch ${name}` }), text)), h("span", {}, h("span", { class: "swatch band" }), "noise")));
}
// The table of all cells is below; those of gradients and calls are of the first.
const firstCell = (t) => t.cells.length > 1 ? `With ${t.cells[0].tokens} tokens and ${t.cells[0].optimizer}. ` : "";
function teacher(t) {
  const steps = t.teacher.signals, last = steps[steps.length - 1];
  if (!last) return null;
  return [h("h3", { class: "minor" }, "Gradient at the weights of the reference run"),
    h("p", { class: "lede" }, `${firstCell(t)}${plural(steps.length, "step")}, ${t.teacher.seconds.toFixed(1)} s. ${t.teacher.rejected
      ? `A correct kernel shows this with a probability of at most ${brief(t.teacher.false_alarms)}.` : "Within the noise."} A gain of 1 is right.`),
    sortable([
      { title: "tensor", left: true, value: (r) => r.tensor, show: (r) => h("span", { class: "mono" }, r.tensor) },
      { title: "part", left: true, value: (r) => r.part || "", show: (r) => r.part || "all" },
      { title: "gain", value: (r) => r.gain, show: (r) => brief(r.gain) }, { title: "noise of gain", value: (r) => r.noise_gain, show: (r) => brief(r.noise_gain, 2) },
      { title: "relative error", value: (r) => r.relative_error, show: (r) => brief(r.relative_error, 3) },
      { title: "noise of error", value: (r) => r.noise_error, show: (r) => brief(r.noise_error, 2) },
      { title: "cosine", value: (r) => r.cosine, show: (r) => brief(r.cosine, 5) },
      { title: "not finite", value: (r) => r.nonfinite || 0, show: (r) => r.nonfinite || "" },
    ], last.tensors, "Gradients with the kernel against trusted ones")];
}
// Single calls at states of the model, judged by the contract.
function states(t) {
  if (!t.states || t.states.length === 0) return null;
  return [h("h3", { class: "minor" }, "Single calls"),
    h("p", { class: "lede" }, firstCell(t), "Inputs as the model has them in each state; every result is compared with its exact value and rounding budget."),
    sortable([
      { title: "state", left: true, value: (r) => r.name, show: (r) => r.name },
      { title: "tokens", value: (r) => r.model.sequence * r.model.sequences, show: (r) => r.model.sequence * r.model.sequences },
      { title: "width", value: (r) => r.model.width, show: (r) => r.model.width },
      { title: "vocabulary", value: (r) => r.model.vocabulary, show: (r) => r.model.vocabulary },
      { title: "calls", value: (r) => r.calls, show: (r) => r.calls }, { title: "results", value: (r) => r.elements, show: (r) => r.elements },
      { title: "verdict", left: true, value: (r) => r.failed_site || "", show: (r) => r.failed_site ? `wrong at ${r.failed_site}` : r.elements ? "within rounding" : "not accepted by the contract" },
    ], t.states, "Calls judged in each state of the model")];
}
// What each cell shows of a wrong kernel, signal by signal: a fault that the losses hide may be plain in a gradient or a call.
function signalTable(cells) {
  const shown = (cell, signal) => (cell.unmasked_by || []).find((s) => s.signal === signal);
  const column = (signal, title, text) => ({ title, left: true, value: (c) => { const s = shown(c, signal); return s ? s.step : Infinity; },
    show: (c) => { const s = shown(c, signal); return s ? text(s) : h("span", { class: "soft" }, "masked"); } });
  return [h("h3", { class: "minor" }, "What each cell shows"),
    h("p", { class: "lede" }, "The first step at which each signal shows the fault. Masked: it does not show there."),
    sortable([
      { title: "tokens", left: true, value: (c) => c.tokens, show: (c) => c.tokens },
      { title: "optimizer", left: true, value: (c) => c.optimizer, show: (c) => c.optimizer },
      { title: "largest gap of the losses", value: (c) => c.loss_gap, show: (c) => brief(c.loss_gap, 3) },
      { title: "noise", value: (c) => c.noise, show: (c) => brief(c.noise, 3) },
      column("loss", "loss", (s) => `step ${s.step}`),
      column("gradients", "gradients", (s) => `step ${s.step}`),
      column("calls", "single calls", (s) => `${s.state}, at ${s.site}`),
    ], cells, "Signals of each cell")];
}
function training(report) {
  const t = report.training;
  if (!t) return null;
  return h("section", { id: "training", "aria-label": "Training", "data-part": "Training" }, h("h2", {}, "Training"),
    h("p", { class: "lede" }, `The kernel filled the slot ${t.slot}${t.sites.length ? ` at ${t.sites.join(", ")}` : ""}.`, t.refused.map((r) => ` Not at ${r}.`)),
    teacher(t),
    states(t),
    t.cells.length > 0 && report.verdict === "fail" && signalTable(t.cells),
    t.cells.length > 0 && [h("h3", { class: "minor" }, "Loss curves"),
      h("p", { class: "lede" }, "Above, the loss of each run; below, how far the run with your kernel is from the trusted one. The band is the difference between two trusted runs with different summation orders."),
      h("div", { class: "plots" }, t.cells.map((cell) => cellFigure(cell, report.verdict === "fail")))]);
}

// ------------------------------------------------------------------ the smallest case
// Where the element with this linear index lies.
function coordinates(extents, index) {
  const out = [];
  for (let d = extents.length - 1; d >= 0; --d) {
    out.unshift(index % extents[d]);
    index = Math.floor(index / extents[d]);
  }
  return out;
}
function sheet(t) {
  const columns = t.extents.length ? t.extents[t.extents.length - 1] : 1;
  const rows = Math.ceil(t.values.length / Math.max(1, columns));
  const wrongs = new Map((t.wrong || []).map((w) => [w.at, w]));
  const index = (r) => coordinates(t.extents.slice(0, -1), r).join(", ");
  const body = [];
  for (let r = 0; r < rows; ++r) {
    const row = h("tr", {}, h("th", { scope: "row" }, index(r)));
    for (let c = 0; c < columns && r * columns + c < t.values.length; ++c) {
      const i = r * columns + c, wrong = wrongs.get(i);
      row.append(h("td", { class: wrong ? "wrong" : null, title: wrong ? `should be ${minus(wrong.exact)}` : null }, minus(t.values[i])));
    }
    body.push(row);
  }
  const heads = [h("th", {})];
  for (let c = 0; c < Math.min(columns, t.values.length); ++c) heads.push(h("th", { scope: "col" }, c));
  return h("details", { open: t.is_output || t.values.length <= 64 },
    h("summary", {}, h("span", { class: "mono" }, `${t.name}[${t.extents.join(", ")}]`), ` ${t.dtype}${t.is_output ? ", as the kernel left it" : ""}${t.is_cut ? `, the first ${t.values.length} values` : ""}`),
    scroller(`Values of ${t.name}`, h("table", { class: "sheet" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body))));
}
const kListed = 20;
function smallest(report) {
  if (!report.numbers.length) return null;
  const wrong = [];
  for (const t of report.numbers) for (const w of t.wrong || []) wrong.push({ t, ...w });
  const count = wrong.length;
  const size = (row) => Number.isFinite(row.size) ? row.size : Infinity;
  wrong.sort((a, b) => (size(b) === size(a) ? 0 : size(b) - size(a)) || a.at - b.at).splice(kListed);
  const at = (row) => `${row.t.name}[${coordinates(row.t.extents, row.at).join(", ")}]`;
  const integers = wrong.every((row) => !row.error);
  return h("section", { id: "smallest", "aria-label": "Smallest case", "data-part": "Smallest case" }, h("h2", {}, "Smallest failing case"),
    h("p", { class: "lede mono" }, report.numbers_of),
    wrong.length > 0 && sortable([
      { title: "element", left: true, value: at, show: (row) => h("span", { class: "mono" }, at(row)) },
      { title: "stored", value: (row) => Number(row.stored), show: (row) => minus(row.stored) },
      { title: "exact", value: (row) => Number(row.exact), show: (row) => minus(row.exact) },
      ...(integers ? [] : [
        { title: "error", value: size, show: (row) => row.error },
        { title: "budget", value: (row) => Number(row.budget), show: (row) => row.budget },
        { title: "error / budget", value: (row) => size(row) / Number(row.budget), show: (row) => row.budget ? brief(size(row) / Number(row.budget), 3) : "" },
      ]),
    ], wrong, "Elements that are wrong"),
    count > kListed && h("p", { class: "soft" }, `The ${kListed} largest errors of ${grouped(count)}; all wrong elements are marked below.`),
    h("div", { class: "sheets" }, report.numbers.map(sheet)));
}

// ------------------------------------------------------------------ coverage
function coverage(report) {
  if (isProof(report) || report.training) return null;
  const c = report.coverage, trials = report.trials;
  const parts = [h("h2", {}, "What was covered")];
  const dims = Object.entries(c.dims || {}).map(([name, d]) => ({ name, ...d }));
  if (dims.length) parts.push(sortable([{ key: "name", title: "dim", left: true },
    { key: "tried_min", title: "smallest tried" }, { key: "tried_max", title: "largest tried" }, { key: "promised_min", title: "promised from" }, { key: "promised_max", title: "promised to" }],
  dims, "Dims and how far they were tried"));
  const largest = c.largest || {}, required = c.required;
  const facts = [];
  if (c.planned) facts.push(fact("planned trials run", `${grouped(c.planned_run)} of ${grouped(c.planned)}`));
  if (largest.promised_elements) facts.push(fact("most elements at once", `${grouped(largest.elements)} of ${grouped(largest.promised_elements)} promised`));
  if (required) for (const [group, n] of Object.entries(required.groups || {})) facts.push(fact(group, n.met === n.of ? `all ${n.of}` : `${n.met} of ${n.of}`));
  if (facts.length) parts.push(h("dl", { class: "facts" }, facts));
  if (required && required.missing.length) parts.push(h("h3", { class: "minor" }, "Required for a pass and not tried"), h("p", {}, required.missing.join("; ")));
  if (trials.rows.length) parts.push(matrix(trials));
  const wider = c.wider_budgets || [];
  if (wider.length) parts.push(h("h3", { class: "minor" }, "Budgets allow for tensor-core rounding"), h("ul", { class: "plain" }, wider.map((w) => h("li", {}, w))));
  const missed = c.not_covered || [];
  if (missed.length) parts.push(h("h3", { class: "minor" }, "Not covered"), h("ul", { class: "plain" }, missed.map((m) => h("li", {}, m))));
  return h("section", { id: "coverage", "aria-label": "Coverage", "data-part": "Coverage" }, parts);
}
const kShapes = 250;
function matrix(trials) {
  const holder = h("div", { class: "matrix-box" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Conditions" });
  // A trial may have several conditions at once: each has a button of its own.
  const parts = trials.conditions.map((text) => text.split(", "));
  const used = [...new Set(trials.rows.flatMap((t) => parts[t[2]]))];
  const show = (condition, all = false) => {
    const rows = trials.rows.filter((t) => !condition || parts[t[2]].includes(condition));
    const cells = new Map(), failing = new Set(), tried = new Set(), inputs = [...new Set(rows.map((t) => t[1]))];
    for (const [shape, input, , failed] of rows) {
      tried.add(shape);
      if (failed) failing.add(shape);
      const key = `${shape}/${input}`, cell = cells.get(key) || { n: 0, failed: 0 };
      cells.set(key, { n: cell.n + 1, failed: cell.failed + failed });
    }
    const counts = new Map();
    for (const t of rows) counts.set(t[1], (counts.get(t[1]) || 0) + 1);
    inputs.sort((a, b) => counts.get(b) - counts.get(a));
    const shapes = all || tried.size <= kShapes ? [...tried] : [...new Set([...failing, ...tried])].slice(0, kShapes);
    const more = tried.size - shapes.length;
    const most = Math.max(1, ...[...cells.values()].map((cell) => cell.n));
    holder.replaceChildren(scroller("Trials by shape and inputs", h("table", { class: "matrix" },
      h("thead", {}, h("tr", {}, h("th", { class: "corner", scope: "col" }, plural(rows.length, "trial")), inputs.map((i) => h("th", { scope: "col" }, h("span", {}, trials.inputs[i]))))),
      h("tbody", {}, shapes.map((shape) => h("tr", {}, h("th", { scope: "row" }, trials.shapes[shape] || "—"), inputs.map((input) => {
        const cell = cells.get(`${shape}/${input}`);
        return h("td", { class: cell && cell.failed ? "failed" : null },
          cell && h("i", { style: `--w:${14 + 34 * Math.sqrt(cell.n / most)}`, title: `${plural(cell.n, "trial")}${cell.failed ? ", failed" : ""}` }, cell.n));
      })))))));
    if (more > 0) holder.append(h("p", {}, h("button", { type: "button", onclick: () => show(condition, true) }, `Show ${plural(more, "more shape")}`)));
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.condition === condition));
  };
  const chip = (condition, text) => h("button", { type: "button", "data-condition": condition, onclick: () => show(condition) }, text);
  chips.append(chip("", "all conditions"), ...used.map((part) => chip(part, part)));
  show("");
  return [h("h3", { class: "minor" }, "Shapes, inputs and conditions"), used.length > 1 && chips, holder];
}

// ------------------------------------------------------------------ the page
function contents() {
  document.getElementById("parts").replaceChildren(...[...main.querySelectorAll("[data-part]")].map((part) => h("a", { href: `#${part.id}` }, part.dataset.part)));
}
function show(index) {
  const report = book.reports[index];
  redraws.length = 0;
  const parts = [opening(report), findings(report), source(report), training(report), plots(report), smallest(report), proof(report), coverage(report)];
  const list = book.reports.length > 1 ? overview(index) : null;
  main.replaceChildren();
  fill(main, [list, parts]);
  document.title = `${called(report)}: ${report.title || base(report.contract)} – Assay`;
  contents();
  redraws.forEach((draw) => draw());
}
function overview(chosen) {
  const rows = book.reports.map((r, i) => h("tr", { class: i === chosen ? "chosen" : null },
    h("td", {}, h("button", { type: "button", "aria-current": i === chosen ? "true" : null, onclick: () => { show(i); main.focus(); } }, r.contract)),
    h("td", { class: "left", style: `color:var(--${r.verdict})` }, called(r)),
    h("td", { class: "left" }, r.findings.filter((f) => f.severity !== "note").map((f) => f.kind).join(", ")), h("td", {}, `${r.seconds.toFixed(1)} s`)));
  return h("section", { id: "contracts", "aria-label": "Contracts", "data-part": "Contracts" }, h("h2", {}, plural(rows.length, "contract")),
    scroller("Contracts", h("table", {}, h("thead", {}, h("tr", {}, ["contract", "verdict", "findings", "time"].map((t) => h("th", { class: "left", scope: "col" }, t)))), h("tbody", {}, rows))));
}

const root = document.documentElement;
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const themeButton = document.getElementById("theme");
function theme(name) {
  if (name) root.dataset.theme = name;
  try { if (name) localStorage.setItem("assay-theme", name); } catch { /* a page opened from a file may have no storage */ }
  themeButton.textContent = dark() ? "Light" : "Dark";
  redraws.forEach((draw) => draw());
}
themeButton.addEventListener("click", () => theme(dark() ? "light" : "dark"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme());
matchMedia("print").addEventListener("change", () => redraws.forEach((draw) => draw()));  // paper has colours of its own

function step(by) {
  const list = [...main.querySelectorAll("[data-finding]")].filter((f) => f.offsetParent);
  if (!list.length) return;
  const at = list.indexOf(document.activeElement);
  const next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by))];
  next.focus();
  next.scrollIntoView({ block: "center" });
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(?:INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "t") theme(dark() ? "light" : "dark");
});

let kept = null;
try { kept = localStorage.getItem("assay-theme"); } catch { /* none */ }
if (kept === "dark" || kept === "light") root.dataset.theme = kept;
show(Math.max(0, book.reports.findIndex((r) => r.verdict === "fail")));
theme();
})();
