#include "assayer/witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "assayer/locate.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/temporary_folder.h"
#include "report/elements.h"
#include "subject/sanitizer.h"
#include "trial/shapes.h"

namespace assay::assayer {

namespace fs = std::filesystem;
using subject::CallOutcome;
using trial::Trial;

namespace {

constexpr double kEndSeconds = 20;  // in which an observed worker must end
constexpr const char* kName = "compute-sanitizer";

// A call at this size, with plain inputs on an idle device.
Trial plain_trial(const contract::Contract& contract, int64_t size) {
  constexpr double kMostElements = 2e5, kMostBytes = 16e6;  // a tool makes a kernel a hundred times slower
  Trial trial;
  trial.shape = trial::fit(contract, trial::uniform_shape(contract, size), kMostElements, kMostBytes).shape;
  for (const contract::ScalarSpec& spec : contract.scalars) {
    const double value = spec.is_range() ? spec.low : spec.values.front();
    trial.scalars.emplace(spec.name, contract::is_float(spec.dtype)
                                         ? contract::Scalar::of(spec.dtype, value)
                                         : contract::Scalar::of_int(spec.dtype, static_cast<int64_t>(value)));
  }
  trial.condition.ordered = false;
  return trial;
}

// A GPU does not say where it stopped: what such a finding has is the function that was called.
bool is_without_line(const Finding& finding) {
  const evidence::CodePlace* code = code_of(finding);
  return code && code->kernel.empty();
}

bool is_same_file(const Where& a, const Where& b) {
  return fs::path(a.file).filename() == fs::path(b.file).filename();
}

bool is_same_line(const Where& a, const Where& b) {
  return a.line == b.line && is_same_file(a, b);
}

// The tool gives names of files without their folders.
void find_file(const contract::Contract& contract, Where& where) {
  std::error_code error;
  for (const std::string& source : contract.kernel.sources)
    if (!fs::exists(where.file, error) && is_same_file({source, 0}, where))
      where.file = contract.resolve(source);
}

}  // namespace

std::vector<Trial> trials_to_witness(const contract::Contract& contract) {
  constexpr int64_t kSizes[] = {64, 37, 1};  // a plain one, an odd one, the smallest
  std::vector<Trial> trials;
  for (const int64_t size : kSizes) {
    Trial trial = plain_trial(contract, size);
    const bool known = std::any_of(trials.begin(), trials.end(),
                                   [&](const Trial& other) { return other.shape == trial.shape; });
    if (!known && contract.check_shape(trial.shape)) trials.push_back(std::move(trial));
  }
  return trials;
}

Witnessed witness(const contract::Contract& contract, const subject::Subject& subject, std::string_view tool,
                  std::span<const Trial> trials, const CheckOptions& options, double call_seconds) {
  Witnessed witnessed{.tool = std::string(tool)};
  const auto begun = std::chrono::steady_clock::now();
  const std::string program = subject::find_sanitizer();
  if (program.empty()) {
    witnessed.problem = "compute-sanitizer is not installed; it is part of the CUDA toolkit";
    return witnessed;
  }
  const TemporaryFolder folder("witness");
  const std::string log = folder.file("log");
  subject::RunnerOptions runner_options = options.runner;
  runner_options.device = subject::Device::Cuda;
  runner_options.witness = subject::sanitizer_command(program, tool, log);
  runner_options.timeout = call_seconds;
  subject::Runner runner(contract, subject, runner_options);
  std::vector<protocol::BufferPlace> buffers;
  for (Trial trial : trials) {
    if (interrupted()) break;
    trial.condition.fresh = trial.condition.loaded = false;
    const auto inputs = trial::make_inputs(contract, trial, options.generator);
    if (!inputs) continue;
    const subject::Observation seen = runner.run(trial, *inputs);
    buffers.insert(buffers.end(), seen.buffers.begin(), seen.buffers.end());
    if (seen.outcome == CallOutcome::Ended) continue;
    if (seen.outcome != CallOutcome::DeviceError) witnessed.problem = seen.error;
    break;  // the process is of no further use
  }
  runner.finish(kEndSeconds);
  for (const subject::SanitizerRecord& record : subject::sanitizer_records(text_of(log))) {
    Finding finding = subject::finding_of(record, buffers);
    report::name_elements(finding);
    for_each_place(finding, [&](Where& where) {
      find_file(contract, where);
      where.file = shown(where.file);
    });
    finding.found.devices = {"cuda"};
    finding.found.witness = fmt::format("{} {}: {}", kName, tool, record.title);
    witnessed.findings.push_back(std::move(finding));
  }
  witnessed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return witnessed;
}

void add_witnessed(const Witnessed& witnessed, std::vector<Finding>& findings) {
  for (const Finding& finding : witnessed.findings) {
    const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& known) {
      return known.kind == finding.kind &&
             (is_without_line(known) || finding.where.line == 0 || is_same_line(known.where, finding.where));
    });
    if (same == findings.end()) {
      findings.push_back(finding);
      continue;
    }
    if (same->found.witness.empty()) same->found.witness = finding.found.witness;
    if (is_without_line(*same)) {
      if (!is_same_file(same->where, finding.where)) same->where.file = finding.where.file;
      same->where.line = finding.where.line;
      *code_of(*same) = *code_of(finding);
    }
  }
}

}  // namespace assay::assayer
