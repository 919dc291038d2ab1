#include "assayd/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace assay::assayd {

namespace {

// One page without scripts: a browser asks for it again every five seconds.
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="5"><title>{} · assayd</title><link rel="icon" href="data:,">
<style>
:root {{ --paper:#faf8f3; --raised:#fffefb; --ink:#211f1b; --soft:#6a6459; --rule:#e3ddd0; --bad:#a5321a; --good:#2a6845; --warn:#855f00; --link:#2b5a83 }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper:#161512; --raised:#1e1c19; --ink:#ebe6dc; --soft:#a79f91; --rule:#38352e; --bad:#f2917a; --good:#86cba2; --warn:#e2b95f; --link:#97c1e5 }} }}
body {{ overflow-wrap:anywhere; margin:0 auto; max-width:74rem; padding:2rem 1.5rem; background:var(--paper); color:var(--ink); font:1rem/1.5 system-ui,sans-serif }}
h1, h2 {{ font-family:"Iowan Old Style",Palatino,Georgia,serif; line-height:1.2 }} h1 {{ margin:0 }} h2 {{ margin:2.2rem 0 .6rem; font-size:1.3rem }}
a {{ color:var(--link) }} .soft {{ color:var(--soft) }} .bad {{ color:var(--bad); font-weight:600 }} .good {{ color:var(--good) }} .warn {{ color:var(--warn) }}
code {{ font-family:ui-monospace,Menlo,Consolas,monospace; font-size:.875em; overflow-wrap:anywhere }}
.wide {{ overflow-x:auto }} table {{ border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums }}
th, td {{ text-align:right; padding:.35rem .7rem; border-bottom:1px solid var(--rule); white-space:nowrap }} th {{ color:var(--soft); font-weight:500; font-size:.875rem }}
th:first-child, td:first-child, .left {{ text-align:left }} .alarm {{ background:var(--raised); border:1px solid var(--rule); border-left:4px solid var(--bad); border-radius:6px; padding:.8rem 1.1rem; margin:.7rem 0 }}
.alarm p {{ margin:.3rem 0 }} pre {{ margin:.5rem 0 0; white-space:pre-wrap }}
</style></head><body>
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return result;
}

// 1234567 as 1,234,567.
std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string counted(uint64_t number, std::string_view what) {
  return fmt::format("{} {}{}", grouped(number), what, number == 1 ? "" : "s");
}

std::string text_in(const nlohmann::json& alarm, const char* key) {
  const auto found = alarm.find(key);
  return found != alarm.end() && found->is_string() ? escaped(found->get<std::string>()) : "";
}

std::string card_of(const std::string& name, const nlohmann::json& alarm) {
  const int64_t time =
      alarm.contains("time") && alarm["time"].is_number_integer() ? alarm["time"].get<int64_t>() : 0;
  const std::string capture = text_in(alarm, "capture"), kind = text_in(alarm, "alarm"),
                    problem = text_in(alarm, "certificate_problem");
  const std::string function = text_in(alarm, "function"), build = text_in(alarm, "build");
  std::string text =
      fmt::format("<div class=\"alarm\"><p><b>{}</b> <span class=\"soft\">{}</span></p>\n<p>{}</p>\n",
                  function.empty() ? escaped(name) : function + (build.empty() ? "" : ", build " + build),
                  kind == "evidence" ? "too many elements differ from the correct rounding"
                                     : "an element that rounding cannot explain",
                  text_in(alarm, "why"));
  text += fmt::format("<p class=\"soft\">{:%Y-%m-%d %H:%M:%S} UTC, {}, on {} {}</p>\n",
                      fmt::gmtime(static_cast<std::time_t>(time)), text_in(alarm, "application"),
                      text_in(alarm, "device"), text_in(alarm, "gpu"));
  if (!problem.empty())
    text += fmt::format("<p class=\"warn\">Its certificate is not valid: {}</p>\n", problem);
  if (capture.empty())
    text += "<p class=\"soft\">The call was not captured.</p>\n";
  else
    text += fmt::format(
        "<p>Kernel or hardware? Run the captured call again:</p><pre><code>assay replay {}</code></pre>\n",
        capture);
  text += fmt::format(
      "<p class=\"soft\">To clear it, delete <code>alarms/{}.json</code> and send SIGHUP to assayd.</p>\n",
      escaped(name));
  return text + "</div>\n";
}

std::string row_of(const KernelRow& row) {
  const std::string state = row.has_alarm    ? "<span class=\"bad\">alarm</span>"
                            : row.judged > 0 ? "<span class=\"good\">right so far</span>"
                                             : "<span class=\"soft\">not judged yet</span>";
  const std::string certificate = !row.certificate_valid ? "<span class=\"soft\">not checked</span>"
                                  : *row.certificate_valid
                                      ? "<span class=\"good\">valid</span>"
                                      : fmt::format("<span class=\"bad\" title=\"{}\">not valid</span>",
                                                    escaped(row.certificate_problem));
  const std::string drift = !row.drift ? "<span class=\"soft\">–</span>"
                            : *row.drift > kMuchDrift
                                ? fmt::format("<span class=\"warn\">+{:.0f} %</span>", 100 * *row.drift)
                                : fmt::format("{:.0f} %", 100 * *row.drift);
  return fmt::format(
      "<tr><td>{}</td><td class=\"left\"><code>{}</code></td><td class=\"left\"><code>{}</code></td><td "
      "class=\"left\">{}</td>"
      "<td "
      "class=\"left\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td><td>{}</"
      "td></tr>\n",
      escaped(row.who.kernel), row.who.build.empty() ? "unknown" : escaped(row.who.build),
      escaped(row.who.gpu.substr(0, 12)), state, certificate, grouped(row.calls), grouped(row.judged),
      grouped(row.dropped + row.unjudged), grouped(row.elements), grouped(row.wrong), row.log10_evidence,
      drift);
}

}  // namespace

std::string page_of(const std::vector<KernelRow>& rows, const std::map<std::string, nlohmann::json>& alarms,
                    const PageTotals& totals) {
  const std::string state = alarms.empty() ? "no alarm" : counted(alarms.size(), "alarm");
  std::string text = fmt::format(fmt::runtime(kHead), state);
  text += fmt::format("<h1>assayd: <span class=\"{}\">{}</span></h1>\n<p class=\"soft\">{}, {} written",
                      alarms.empty() ? "good" : "bad", state, counted(totals.applications, "application"),
                      counted(totals.captures, "capture"));
  if (totals.captures_dropped > 0)
    text += fmt::format(", {} not kept", counted(totals.captures_dropped, "capture"));
  if (totals.refused > 0) text += fmt::format(", {} refused", counted(totals.refused, "application"));
  text += "</p>\n";
  if (totals.alarms_not_on_disk > 0 || totals.write_errors > 0)
    text += fmt::format("<p class=\"bad\">{} could not be written; {} for the disk.</p>\n",
                        counted(totals.write_errors, "file"),
                        totals.alarms_not_on_disk == 1
                            ? "1 alarm waits"
                            : fmt::format("{} alarms wait", totals.alarms_not_on_disk));
  if (!alarms.empty()) text += "<h2>Alarms</h2>\n";
  for (const auto& [name, alarm] : alarms) text += card_of(name, alarm);
  text += "<h2>Kernels</h2>\n";
  if (rows.empty()) {
    text += "<p class=\"soft\">No application has connected yet.</p>\n";
  } else {
    text +=
        "<div class=\"wide\"><table><thead><tr><th>kernel</th><th class=\"left\">build</th><th "
        "class=\"left\">GPU</th><th class=\"left\">state</th>"
        "<th class=\"left\">certificate</th><th>calls</th><th>judged</th><th>not "
        "judged</th><th>elements</th><th>wrong</th>"
        "<th title=\"log10; an alarm at log10 of the contract's arl\">evidence</th>"
        "<th title=\"share of elements with larger errors than when it was "
        "certified\">drift</th></tr></thead>\n<tbody>\n";
    for (const KernelRow& row : rows) text += row_of(row);
    text += "</tbody></table></div>\n";
  }
  return text +
         "<p class=\"soft\"><a href=\"/metrics\">metrics</a> for Prometheus, <a "
         "href=\"/evidence\">evidence</a> for "
         "<code>assay fleet</code>, <a href=\"/alarms\">alarms</a> as JSON</p>\n</body></html>\n";
}

}  // namespace assay::assayd
