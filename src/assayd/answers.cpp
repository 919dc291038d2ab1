// What assayd answers: metrics for Prometheus, evidence for `assay fleet`, alarms, and a page for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assayd/daemon.h"
#include "assayd/page.h"
#include "monitor/fleet.h"

namespace assay::assayd {

using monitor::Drop;
using Json = nlohmann::json;

Answer Daemon::answer(std::string_view path) {
  if (path == "/metrics") return {200, "text/plain; version=0.0.4; charset=utf-8", metrics()};
  if (path == "/evidence") return {200, "application/json", evidence()};
  if (path == "/alarms") {
    const std::lock_guard lock(mutex_);
    return {200, "application/json",
            Json(store_.alarms()).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
  }
  if (path == "/") return {200, "text/html; charset=utf-8", page()};
  return {404, "text/plain; charset=utf-8", "there are /, /metrics, /evidence and /alarms\n"};
}

bool Daemon::has_alarm(const Watched& watched) const {
  return store_.is_raised(watched.name() + "-proof") || store_.is_raised(watched.name() + "-evidence");
}

std::map<const Watched*, Counts> Daemon::counted() const {
  std::map<const Watched*, Counts> counts;
  for (const auto& watched : watched_) counts[watched.get()] = watched->ended;
  for (const auto& client : clients_)
    if (client->ring) counts[client->watched].add(client->ring->counters());
  return counts;
}

std::string Daemon::evidence() {
  const std::lock_guard lock(mutex_);
  std::vector<monitor::SeenKernel> seen;
  for (const auto& watched : watched_) {
    const Watched::Identity& who = watched->identity();
    seen.push_back({who.kernel, who.contract, who.build, who.gpu, "", watched->detector.samples(),
                    watched->detector.log10_e_value(), has_alarm(*watched)});
  }
  return monitor::encode_evidence(seen);
}

std::string Daemon::page() {
  const std::lock_guard lock(mutex_);
  std::vector<KernelRow> rows;
  std::map<const Watched*, Counts> counts = counted();
  for (const auto& watched : watched_) {
    const Counts& of = counts[watched.get()];
    const Seen seen = watched->seen_in_all();
    KernelRow row{.who = watched->identity(), .calls = of.calls, .judged = seen.judged};
    for (const uint64_t dropped : of.dropped) row.dropped += dropped;
    row.unjudged = seen.unjudged;
    row.elements = seen.elements;
    row.wrong = seen.violations + seen.class_violations;
    row.log10_evidence = std::max(0.0, watched->detector.log10_evidence());
    row.drift = watched->drift.value();
    row.certificate_valid = watched->certificate_valid;
    row.certificate_problem = watched->certificate_problem;
    row.has_alarm = has_alarm(*watched);
    rows.push_back(std::move(row));
  }
  return page_of(rows, store_.alarms(),
                 {clients_.size(), refused_, store_.pending(), store_.captures, store_.captures_dropped,
                  store_.write_errors});
}

std::string Daemon::metrics() {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help) {
    text += fmt::format("# HELP assay_{} {}\n# TYPE assay_{} {}\n", name, help, name, type);
  };
  const auto put = [&](std::string_view name, const std::string& labels, auto value) {
    text += labels.empty() ? fmt::format("assay_{} {}\n", name, value)
                           : fmt::format("assay_{}{{{}}} {}\n", name, labels, value);
  };
  std::map<const Watched*, Counts> counts = counted();
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, auto value) {
    family(name, type, help);
    for (const auto& watched : watched_) put(name, watched->labels(), value(*watched));
  };
  each("calls_total", "counter", "Calls of the kernel.", [&](const Watched& w) { return counts[&w].calls; });
  each("samples_total", "counter", "Calls selected for sampling.",
       [&](const Watched& w) { return counts[&w].samples; });
  family("samples_dropped_total", "counter",
         "Samples that were dropped before they reached assayd, by reason.");
  for (const auto& watched : watched_)
    for (std::size_t i = 0; i < monitor::kDropCount; ++i)
      put("samples_dropped_total",
          fmt::format("{},reason=\"{}\"", watched->labels(), to_string(static_cast<Drop>(i))),
          counts[watched.get()].dropped[i]);
  const auto each_shape = [&](auto put_seen) {
    for (const auto& watched : watched_)
      for (const auto& [shape, seen] : watched->seen.all())
        put_seen(fmt::format("{},shape=\"{}\"", watched->labels(), shape), seen);
  };
  const auto count = [&](std::string_view name, std::string_view help, uint64_t Seen::*member) {
    family(name, "counter", help);
    each_shape([&](const std::string& labels, const Seen& seen) { put(name, labels, seen.*member); });
  };
  count("samples_judged_total", "Samples that were judged.", &Seen::judged);
  count("samples_unjudged_total", "Samples whose inputs the contract does not allow.", &Seen::unjudged);
  count("elements_judged_total", "Elements that were judged.", &Seen::elements);
  family("violations_total", "counter", "Elements that rounding cannot explain, by kind.");
  each_shape([&](const std::string& labels, const Seen& seen) {
    put("violations_total", labels + ",kind=\"bound\"", seen.violations);
    put("violations_total", labels + ",kind=\"class\"", seen.class_violations);
  });
  count("trusted_violations_total", "The same for the trusted kernel, in shadow mode.",
        &Seen::trusted_violations);
  family("error_over_budget", "histogram", "Errors of elements as fractions of the rounding budget.");
  each_shape([&](const std::string& labels, const Seen& seen) {
    uint64_t sum = 0;
    for (std::size_t i = 0; i < seen.shares.size(); ++i) {
      sum += seen.shares[i];
      const std::string limit = i < kShares.size() ? fmt::format("{}", kShares[i]) : "+Inf";
      put("error_over_budget_bucket", fmt::format("{},le=\"{}\"", labels, limit), sum);
    }
    put("error_over_budget_sum", labels, seen.share_sum);
    put("error_over_budget_count", labels, sum);
  });
  each("evidence_log10", "gauge", "Evidence that the kernel is wrong; an alarm at log10 of `arl`.",
       [](const Watched& w) { return std::max(0.0, w.detector.log10_evidence()); });
  each("e_value_log10", "gauge",
       "E-value against the kernel being right since assayd started; average it over GPUs.",
       [](const Watched& w) { return w.detector.log10_e_value(); });
  each("alarm", "gauge", "1 if an alarm was raised and not cleared.",
       [&](const Watched& w) { return has_alarm(w) ? 1 : 0; });
  family("drift", "gauge", "Share of elements whose errors are larger than when the kernel was certified.");
  for (const auto& watched : watched_)
    if (const auto drift = watched->drift.value()) put("drift", watched->labels(), *drift);
  each("judge_lag_seconds", "gauge", "Time from the copy of the last sample to its verdict.",
       [](const Watched& w) { return w.lag_seconds; });
  each("overhead_seconds_total", "counter", "Host time that sampled calls spent in the monitor.",
       [&](const Watched& w) { return 1e-9 * static_cast<double>(counts[&w].overhead_ns); });
  family("certificate_valid", "gauge",
         "1 if the certificate is genuine and matches this library and contract.");
  for (const auto& watched : watched_)
    if (watched->certificate_valid)
      put("certificate_valid", watched->labels(), *watched->certificate_valid ? 1 : 0);
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help, uint64_t value) {
    family(name, type, help);
    put(name, "", value);
  };
  one("alarms", "gauge", "Alarms that were raised and not cleared.", store_.alarms().size());
  one("applications", "gauge", "Applications that are connected.", clients_.size());
  one("applications_refused_total", "counter", "Applications that were refused.", refused_);
  one("captures_total", "counter", "Captures that were written.", store_.captures);
  one("captures_dropped_total", "counter", "Captures that were not kept: too many, or no room on the disk.",
      store_.captures_dropped);
  one("write_errors_total", "counter", "Files that could not be written.", store_.write_errors);
  one("alarms_not_on_disk", "gauge", "Alarms that wait for the disk.", store_.pending());
  return text;
}

}  // namespace assay::assayd
