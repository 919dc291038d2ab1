// A training run on the terminal: verdict and findings, the teacher-forced comparison, the matrix.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "train/report.h"

namespace assay::train {

namespace {

constexpr std::size_t kNameWidth = 10, kCellWidth = 28;

std::string paint_verdict(judge::Verdict verdict, bool colour) {
  std::string word(judge::to_string(verdict));
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const char* code = verdict == judge::Verdict::Pass   ? "1;32"
                     : verdict == judge::Verdict::Fail ? "1;31"
                                                       : "1;33";
  return colour ? fmt::format("\033[{}m{}\033[0m", code, word) : word;
}

// Two digits: a gap is read against its noise.
std::string short_number(double x) {
  if (!std::isfinite(x)) return std::isnan(x) ? "NaN" : "inf";
  return x != 0 && std::abs(x) < 1e-4 ? fmt::format("{:.1e}", x) : fmt::format("{:.2g}", x);
}

std::string counted_word(int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// The signal that the evidence is about, at the last step.
const TensorSignal* strongest(const Teacher& teacher) {
  if (teacher.signals.empty()) return nullptr;
  for (const TensorSignal& signal : teacher.signals.back().tensors)
    if (signal.tensor == teacher.tensor && signal.part == teacher.part) return &signal;
  return nullptr;
}

// "zipf + sgd": gradients and single calls are printed for the first cell; the matrix has those of all.
std::string first_cell(const Teacher& teacher) {
  return fmt::format("{} + {}", to_string(teacher.source), to_string(teacher.optimizer));
}

std::string teacher_text(const Training& training) {
  const Teacher& teacher = training.report.teacher;
  if (teacher.signals.empty()) return "";
  const std::size_t steps = teacher.signals.size();
  std::string text =
      fmt::format("gradient at the weights of the reference run, {}, {}, {:.1f} s: ", first_cell(teacher),
                  counted_word(static_cast<int64_t>(steps), "step"), teacher.seconds);
  const TensorSignal* signal = strongest(teacher);
  const std::string about =
      !signal ? ""
              : fmt::format("; {}{}: gain {:.4g} (noise {}), relative error {} (noise {})", signal->tensor,
                            signal->part.empty() ? "" : ", " + signal->part, signal->candidate.gain,
                            short_number(signal->noise_gain), short_number(signal->candidate.relative_error),
                            short_number(signal->noise_error));
  return text +
         (teacher.rejected_step >= 0 ? fmt::format("wrong (evidence 10^{:.0f})", teacher.log10_evidence)
                                     : "within the noise") +
         about;
}

// "single calls, 7 states of the model, 64 calls, 1.2 million results: all within the rounding budget"
std::string states_text(const Report& report) {
  int64_t calls = 0, elements = 0, states = 0;
  double seconds = 0;
  std::vector<std::string> without;
  std::string problem;
  for (const StateReport& state : report.states) {
    calls += state.calls;
    elements += state.elements;
    seconds += state.seconds;
    if (state.elements > 0) ++states;
    if (problem.empty()) problem = state.problem;
    if (state.elements == 0 && state.failed_site.empty()) without.push_back(state.name);
  }
  if (report.states.empty()) return "";
  const StateReport& last = report.states.back();
  std::string text = fmt::format(
      "single calls at {} of the model, {}, {}, {} results, {:.1f} s: ", counted_word(states, "state"),
      first_cell(report.teacher), counted_word(calls, "call"), elements, seconds);
  text += last.failed_site.empty()
              ? std::string(elements > 0 ? "within the rounding budget" : "the contract accepts none")
              : fmt::format("wrong in the state \"{}\", at {}", last.name, last.failed_site);
  if (!without.empty() && elements > 0)
    text += fmt::format("; not accepted by the contract: {}", fmt::join(without, ", "));
  if (!problem.empty()) text += fmt::format("; some could not be judged: {}", problem);
  return text;
}

// What became of a cell: the gap of its losses, and for a wrong kernel which signal shows that and which hides it.
std::vector<std::string> cell_lines(const Cell& cell, bool is_wrong) {
  const std::string gap = fmt::format("{} (noise {})", short_number(cell.loss_gap), short_number(cell.noise));
  if (!is_wrong) return {gap, "within the noise"};
  const auto line = [](std::string_view signal, int step) {
    return step >= 0 ? fmt::format("{}: step {}", signal, step) : fmt::format("{}: masked", signal);
  };
  std::vector<std::string> lines = {gap, line("loss", cell.unmasked_step),
                                    line("gradients", cell.teacher.wrong_step())};
  const StateReport* const state = cell.wrong_state();
  if (!cell.states.empty()) lines.push_back(state ? fmt::format("calls: {}", state->name) : "calls: masked");
  return lines;
}

constexpr std::string_view kLegend =
    "For each cell: the largest gap between the losses with and without the kernel, and the step at which it "
    "stands out of the noise; the step at which gradients at the weights of the reference run are wrong; the "
    "state of the model in which a single call is. Masked: it does not show there.";

std::string matrix_text(const Report& report, int width) {
  if (report.cells.empty()) return "";
  std::vector<TokenSource> sources;
  std::vector<Optimizer> optimizers;
  for (const Cell& cell : report.cells) {
    if (std::ranges::find(sources, cell.source) == sources.end()) sources.push_back(cell.source);
    if (std::ranges::find(optimizers, cell.optimizer) == optimizers.end())
      optimizers.push_back(cell.optimizer);
  }
  const auto padded = [](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  };
  std::string head = fmt::format("  {:<{}}", "tokens", kNameWidth);
  for (const Optimizer optimizer : optimizers)
    head += fmt::format("{:<{}}", to_string(optimizer), kCellWidth);
  const bool is_wrong = report.verdict == judge::Verdict::Fail;
  std::string text = fmt::format("\n{}\n{}",
                                 is_wrong ? report::wrapped(std::string(kLegend), width, "")
                                          : "largest loss gap between runs with and without the kernel\n",
                                 padded(head));
  for (const TokenSource source : sources) {
    std::vector<std::string> lines = {fmt::format("  {:<{}}", to_string(source), kNameWidth)};
    for (std::size_t column = 0; column < optimizers.size(); ++column) {
      const auto cell = std::ranges::find_if(report.cells, [&](const Cell& c) {
        return c.source == source && c.optimizer == optimizers[column];
      });
      if (cell == report.cells.end()) continue;
      const std::vector<std::string> own = cell_lines(*cell, is_wrong);
      if (own.size() > lines.size()) lines.resize(own.size());
      for (std::size_t i = 0; i < own.size(); ++i)
        lines[i] = fmt::format("{:<{}}{}", lines[i], 2 + kNameWidth + column * kCellWidth, own[i]);
    }
    for (const std::string& line : lines) text += padded(line);
  }
  return text;
}

std::string amounts_text(const Training& training) {
  const Report& report = training.report;
  const ModelSizes& sizes = training.options.sizes;
  std::string text = fmt::format("slot {}", training.slot);
  if (!report.sites.empty()) text += fmt::format(", at {}", fmt::join(report.sites, ", "));
  for (const std::string& refused : report.refused) text += fmt::format("\nnot at {}", refused);
  text += fmt::format("\n{}, width {}, vocabulary {}, {} tokens per step, seed {}",
                      counted_word(sizes.layers, "layer"), sizes.width, sizes.vocabulary, sizes.tokens(),
                      training.options.seed);
  text += fmt::format("\n{} of the kernel on the {} device in {:.1f} s, everything in {:.1f} s{}",
                      counted_word(report.candidate_calls, "call"), training.device, report.candidate_seconds,
                      report.seconds, report.is_resumed ? " after a checkpoint" : "");
  text +=
      fmt::format("\nthe gradient comparison fails a correct kernel with a probability of at most {:.0e}{}",
                  training.options.false_alarms, report.cells.size() > 1 ? " over all cells" : "");
  if (!report.cells.empty()) text += "; a loss gap counts if it exceeds the noise of six trusted runs";
  return text;
}

}  // namespace

std::string terminal(const Training& training, const report::TerminalOptions& options) {
  const Report& report = training.report;
  std::string text = fmt::format("{}  {}", paint_verdict(report.verdict, options.colour), training.contract);
  if (!training.title.empty()) text += fmt::format("  {}", training.title);
  text += "\n";
  for (const Finding& finding : report.findings)
    text += fmt::format("\n{}", report::finding_text(finding, options));
  if (!report.reason.empty())
    text += report::wrapped(
        (report.verdict == judge::Verdict::Fail ? "ended early: " : "could not be decided: ") + report.reason,
        options.width, "  ");
  if (const std::string teacher = teacher_text(training); !teacher.empty())
    text += fmt::format("\n{}", report::wrapped(teacher, options.width, ""));
  if (const std::string states = states_text(report); !states.empty())
    text += fmt::format("\n{}", report::wrapped(states, options.width, ""));
  text += matrix_text(report, options.width);
  return fmt::format("{}\n{}", text, report::wrapped(amounts_text(training), options.width, "  "));
}

}  // namespace assay::train
