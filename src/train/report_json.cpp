#include <cmath>

#include "train/report.h"

namespace assay::train {

namespace {

// JSON has no NaN or infinity.
Json finite_or_word(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

Json losses_json(const Curve& curve) {
  Json list = Json::array();
  for (const double loss : curve.loss) list.push_back(finite_or_word(loss));
  return list;
}

Json signal_json(const TensorSignal& signal) {
  const Comparison& seen = signal.candidate;
  Json json;
  json["tensor"] = signal.tensor;
  if (!signal.part.empty()) json["part"] = signal.part;
  json["gain"] = finite_or_word(seen.gain);
  json["cosine"] = finite_or_word(seen.cosine);
  json["relative_error"] = finite_or_word(seen.relative_error);
  json["noise_gain"] = finite_or_word(signal.noise_gain);
  json["noise_error"] = finite_or_word(signal.noise_error);
  json["update_to_weight"] = finite_or_word(signal.update_to_weight);
  if (seen.nonfinite > 0) json["nonfinite"] = seen.nonfinite;
  return json;
}

Json signals_json(const std::vector<StepSignals>& steps) {
  Json list = Json::array();
  for (const StepSignals& step : steps) {
    Json tensors = Json::array();
    for (const TensorSignal& signal : step.tensors) tensors.push_back(signal_json(signal));
    list.push_back(
        {{"step", step.step}, {"loss", finite_or_word(step.loss)}, {"tensors", std::move(tensors)}});
  }
  return list;
}

Json teacher_json(const Teacher& teacher) {
  Json json;
  json["steps"] = teacher.signals.size();
  json["log10_evidence"] = finite_or_word(teacher.log10_evidence);
  json["false_alarms"] = teacher.false_alarms;
  json["rejected"] = teacher.rejected_step >= 0;
  if (teacher.rejected_step >= 0) json["rejected_step"] = teacher.rejected_step;
  if (!teacher.tensor.empty()) json["tensor"] = teacher.tensor;
  if (!teacher.part.empty()) json["part"] = teacher.part;
  json["seconds"] = teacher.seconds;
  json["signals"] = signals_json(teacher.signals);
  return json;
}

Json sizes_json(const ModelSizes& sizes) {
  return {{"vocabulary", sizes.vocabulary},
          {"width", sizes.width},
          {"heads", sizes.heads},
          {"layers", sizes.layers},
          {"feed_forward", sizes.feed_forward},
          {"sequence", sizes.sequence},
          {"sequences", sizes.sequences},
          {"tied", sizes.tied}};
}

Json state_json(const StateReport& state) {
  Json json;
  json["name"] = state.name;
  json["model"] = sizes_json(state.sizes);
  json["step"] = state.step;
  json["calls"] = state.calls;
  json["elements"] = state.elements;
  json["seconds"] = state.seconds;
  if (!state.problem.empty()) json["problem"] = state.problem;
  if (!state.failed_site.empty()) json["failed_site"] = state.failed_site;
  return json;
}

Json states_json(const std::vector<StateReport>& states) {
  Json list = Json::array();
  for (const StateReport& state : states) list.push_back(state_json(state));
  return list;
}

// The signals by which a cell shows the fault, and the step at which each does.
Json unmasked_by_json(const Cell& cell) {
  Json list = Json::array();
  if (const int step = cell.teacher.wrong_step(); step >= 0)
    list.push_back({{"signal", "gradients"}, {"step", step}});
  if (const StateReport* const state = cell.wrong_state())
    list.push_back(
        {{"signal", "calls"}, {"step", state->step}, {"state", state->name}, {"site", state->failed_site}});
  if (cell.unmasked()) list.push_back({{"signal", "loss"}, {"step", cell.unmasked_step}});
  return list;
}

Json cell_json(const Cell& cell) {
  Json json;
  json["tokens"] = to_string(cell.source);
  json["optimizer"] = to_string(cell.optimizer);
  json["rate"] = cell.settings.rate;
  json["loss_gap"] = finite_or_word(cell.loss_gap);
  json["noise"] = finite_or_word(cell.noise);
  json["gap_step"] = cell.gap_step;
  json["unmasked"] = cell.unmasked();
  if (cell.unmasked()) json["unmasked_step"] = cell.unmasked_step;
  json["unmasked_by"] = unmasked_by_json(cell);
  json["gradients"] = teacher_json(cell.teacher);
  json["states"] = states_json(cell.states);
  json["loss"] = {{"reference", losses_json(cell.reference)},
                  {"trusted", losses_json(cell.trusted)},
                  {"reordered", losses_json(cell.reordered)},
                  {"candidate", losses_json(cell.candidate)}};
  if (cell.candidate.nonfinite > 0) json["nonfinite_gradients"] = cell.candidate.nonfinite;
  json["signals"] = signals_json(cell.signals);
  return json;
}

}  // namespace

Json to_json(const Training& training) {
  const Report& report = training.report;
  Json json;
  json["assay"] = "1";
  json["verdict"] = judge::to_string(report.verdict);
  json["contract"] = training.contract;
  json["title"] = training.title;
  json["slot"] = training.slot;
  json["device"] = training.device;
  json["seed"] = training.options.seed;
  json["model"] = sizes_json(training.options.sizes);
  if (!training.options.text.empty()) json["tokenizer"] = to_string(training.options.tokenizer);
  if (!report.reason.empty()) json["inconclusive"] = Json::array({report.reason});
  json["findings"] = Json::array();
  for (const Finding& finding : report.findings) json["findings"].push_back(to_json(finding));
  json["false_alarms"] = training.options.false_alarms;
  json["teacher"] = teacher_json(report.teacher);
  json["states"] = states_json(report.states);
  json["cells"] = Json::array();
  for (const Cell& cell : report.cells) json["cells"].push_back(cell_json(cell));
  json["sites"] = report.sites;
  json["refused"] = report.refused;
  json["calls"] = report.candidate_calls;
  json["seconds_of_calls"] = report.candidate_seconds;
  json["seconds"] = report.seconds;
  json["resumed"] = report.is_resumed;
  return json;
}

report::Report to_report(const Training& training) {
  report::Report page;
  page.contract = training.contract;
  page.title = training.title;
  page.verdict = training.report.verdict;
  page.findings = training.report.findings;
  if (!training.report.reason.empty()) page.unknown.push_back(training.report.reason);
  page.device = training.device;
  page.seed = training.options.seed;
  page.seconds = training.report.seconds;
  page.sources = training.sources;
  page.training = to_json(training);
  page.training.erase("findings");
  return page;
}

}  // namespace assay::train
