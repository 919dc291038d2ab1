// assay replay CAPTURE. A call that went wrong in production is repeated with the same library, arguments and inputs.
//
//   captured   virtual GPU   GPU       fault
//   wrong      wrong         any       kernel: the same code is wrong on a device without defects
//   wrong      right         wrong     hardware: this GPU is wrong again where the code is right
//   wrong      right         right     transient: neither shows it again
//   wrong      right         not run   hardware-or-transient
//   right      right         any       none
//
// On the virtual GPU the call is made under several schedules with all checks on: a race that gave a wrong result once is
// found although the values are right now.
#include "cli/replay_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "assayer/replay_built.h"
#include "base/temporary_folder.h"
#include "cli/arguments.h"
#include "cli/gpu_reason.h"
#include "cli/terminal.h"
#include "finding/message.h"
#include "judge/judge.h"
#include "monitor/capture.h"
#include "subject/cuda_reference.h"
#include "subject/uses_tensor_cores.h"

namespace assay::cli {

using assayer::CheckOptions;
using assayer::CheckOutcome;
using monitor::Capture;
using subject::Device;

namespace {

// Of the virtual GPU; 0 is the order of the text. Chosen: each takes a fraction of a second.
constexpr uint64_t kSchedules[] = {0, 1, 2};

enum class Answer : uint8_t { Right, Wrong, Unknown };

struct Replayed {
  std::string device;  // "virtual GPU"
  Answer answer = Answer::Right;
  std::string why;        // of Wrong and Unknown
  int64_t differing = 0;  // elements whose bits are not those captured
  Json findings = Json::array();
};

std::string_view word(Answer answer) {
  constexpr std::string_view kWords[] = {"right", "wrong", "unknown"};
  return kWords[static_cast<std::size_t>(answer)];
}

int64_t differing_elements(const monitor::CapturedOutputs& captured, const monitor::CapturedOutputs& again) {
  int64_t differing = 0;
  for (const auto& [name, tensor] : captured) {
    const auto other = again.find(name);
    if (other == again.end()) continue;
    for (int64_t e = 0; e < tensor->count(); ++e)
      differing += std::memcmp(tensor->at(e), other->second->at(e),
                               static_cast<std::size_t>(tensor->item_bytes())) != 0;
  }
  return differing;
}

// The captured library, ready to be called; where the capture has none, what the contract's sources are built into.
Result<subject::Subject> subject_of(const Capture& capture, const contract::Contract& contract,
                                    const std::string& folder) {
  if (capture.library.bytes.empty() || contract.kernel.entry.empty()) {
    auto built = subject::build(contract, {});
    if (built.subject) return std::move(*built.subject);
    Error error = built.failure.error;
    if (!built.failure.output.empty()) error.message += "\n" + built.failure.output;
    return error;
  }
  subject::Subject subject;
  subject.library = folder + "/" + subject::kLibraryName;
  subject.symbol = contract.kernel.entry;
  std::ofstream file(subject.library, std::ios::binary);
  file << capture.library.bytes;
  if (!file.flush()) return Error{"cannot be written", subject.library};
  return subject;
}

class CaptureReplay {
 public:
  // `gpu_problem`: why no GPU can be used, as far as is known; what is said if none turns out to be usable.
  CaptureReplay(const Capture& capture, const contract::Contract& contract, const subject::Subject& subject,
                const std::string& gpu_problem)
      : capture_(capture), contract_(contract), subject_(subject), gpu_problem_(gpu_problem) {}

  // The outputs as they were captured.
  Result<Replayed> judge_captured() const {
    const auto reference = reference::Reference::make(contract_, subject::cuda_reference(contract_, {}, {}));
    if (!reference) return reference.error();
    judge::Options options;
    options.tensor_cores = subject::may_use_tensor_cores(subject_, contract_.kernel.arch);
    const auto judgement = judge::judge(contract_, *reference, capture_.bindings, capture_.outputs, options);
    if (!judgement) return judgement.error();
    Replayed captured{.device = "as captured"};
    take(judgement->findings, captured);
    return captured;
  }

  Replayed replay(Device device) const {
    Replayed replayed{.device = device == Device::Virtual ? "virtual GPU" : "GPU"};
    for (const uint64_t schedule : kSchedules) {
      if (device == Device::Cuda && schedule > 0) break;
      run(device, schedule, replayed);
      if (replayed.answer != Answer::Right) break;
    }
    return replayed;
  }

 private:
  static void take(const std::vector<Finding>& findings, Replayed& replayed) {
    for (const Finding& finding : findings) {
      replayed.findings.push_back({{"kind", info(finding.kind).name}, {"message", message(finding)}});
      if (finding.severity != Severity::Error || replayed.answer == Answer::Wrong) continue;
      replayed.answer = Answer::Wrong;
      replayed.why = message(finding);
    }
  }

  void run(Device device, uint64_t schedule, Replayed& replayed) const {
    trial::Trial trial{.shape = capture_.bindings.shape, .scalars = capture_.bindings.scalars};
    trial.condition.schedule = schedule;
    for (const contract::TensorSpec* input : contract_.inputs())
      trial.families[input->name] = trial::Family::Problem;
    CheckOptions options;
    options.device = device;
    if (device == Device::Cuda) options.device_problem = gpu_problem_;
    options.generator = [this](const contract::Shape&, uint64_t) {
      std::map<std::string, contract::Tensor> inputs;
      for (const auto& [name, tensor] : capture_.bindings.inputs) inputs.emplace(name, *tensor);
      return Result<std::map<std::string, contract::Tensor>>(std::move(inputs));
    };
    bool is_first = true;
    options.launched = [&](const trial::Trial&, const subject::Observation& observation) {
      if (is_first && !observation.calls.empty())
        replayed.differing = differing_elements(capture_.outputs, observation.calls.front().outputs);
      is_first = false;
    };
    const CheckOutcome outcome = assayer::replay_built(contract_, subject_, trial, options);
    take(outcome.report.findings, replayed);
    if (replayed.answer == Answer::Wrong || outcome.report.verdict == judge::Verdict::Pass) return;
    replayed.answer = Answer::Unknown;
    replayed.why = outcome.problem;
    if (replayed.why.empty() && !outcome.report.unknown.empty())
      replayed.why = outcome.report.unknown.front();
  }

  const Capture& capture_;
  const contract::Contract& contract_;
  const subject::Subject& subject_;
  const std::string& gpu_problem_;
};

struct Fault {
  std::string name;
  std::string meaning;
};

Fault fault_of(const Replayed& captured, const Replayed& on_virtual, const Replayed* on_gpu) {
  if (on_virtual.answer == Answer::Unknown)
    return {"unknown", "The call could not be repeated on the virtual GPU."};
  if (on_virtual.answer == Answer::Wrong)
    return {"kernel", captured.answer == Answer::Right
                          ? "The captured values are right, but the same call shows a defect of the kernel."
                      : on_virtual.differing == 0
                          ? "The same code gives the same wrong values on a device without defects."
                          : "The same code is wrong on a device without defects as well."};
  if (captured.answer == Answer::Right) return {"none", "The captured values are right."};
  if (!on_gpu)
    return {"hardware-or-transient",
            "The same code computes this call correctly on the virtual GPU, under several schedules and with "
            "all checks on. To tell a broken GPU from an error that happened once, add --device cuda on the "
            "machine where it happened."};
  if (on_gpu->answer == Answer::Unknown)
    return {"hardware-or-transient", "The call could not be repeated on a GPU here."};
  if (on_gpu->answer == Answer::Wrong)
    return {
        "hardware",
        "The code is right on the virtual GPU, and this GPU is wrong again. If another GPU gives the same "
        "wrong values, the machine code that was made from the PTX is at fault."};
  return {"transient", "Neither the virtual GPU nor this GPU shows it again: it happened once."};
}

int status_of(const Fault& fault) {
  return fault.name == "none" ? 0 : fault.name == "unknown" ? 3 : 1;
}

Json replay_json(const Replayed& replayed) {
  Json json = {{"device", replayed.device}, {"answer", word(replayed.answer)}};
  if (!replayed.why.empty()) json["why"] = replayed.why;
  json["elements_that_differ"] = replayed.differing;
  json["findings"] = replayed.findings;
  return json;
}

void print(const std::string& path, const Capture& capture, const std::vector<Replayed>& all,
           const Fault& fault) {
  const int width = terminal_options().width;
  fmt::print("{}: {}, {}\n", path, std::filesystem::path(capture.contract.path).filename().string(),
             contract::to_string(capture.bindings.shape));
  if (capture.call > 0)
    fmt::print("  call {} of {} on {}\n", capture.call, capture.application, capture.device.name);
  fmt::print("\n");
  for (const Replayed& one : all) {
    fmt::print("  {:<12} {}\n", one.device, word(one.answer));
    if (!one.why.empty()) fmt::print("{}", report::wrapped(one.why, width, "    "));
  }
  fmt::print("\nfault: {}\n{}", fault.name, report::wrapped(fault.meaning, width, "  "));
}

}  // namespace

int replay_capture(const std::string& path, Device device, const std::string& json) {
  const auto capture = monitor::read_capture(path);
  if (!capture) return complain(capture.error());
  const std::string gpu_problem = device == Device::Cuda ? why_gpu_unusable() : "";
  const TemporaryFolder folder("replay");
  if (folder.path().empty()) return complain({"no temporary folder can be created", temporary_place()});
  const auto contract = monitor::restore_contract(*capture, folder.path());
  if (!contract) return complain(contract.error());
  announce_cache();
  const auto subject = subject_of(*capture, *contract, folder.path());
  if (!subject) return complain(subject.error());
  const CaptureReplay replay(*capture, *contract, *subject, gpu_problem);
  const auto captured = replay.judge_captured();
  if (!captured) return complain(captured.error());
  std::vector<Replayed> all = {*captured, replay.replay(Device::Virtual)};
  if (device == Device::Cuda) all.push_back(replay.replay(Device::Cuda));
  const Fault fault = fault_of(all[0], all[1], all.size() > 2 ? &all[2] : nullptr);
  print(path, *capture, all, fault);
  if (json.empty()) return status_of(fault);
  Json report = {{"assay", "1"}, {"fault", fault.name}, {"shape", capture->bindings.shape}};
  for (const Replayed& one : all) report["replays"].push_back(replay_json(one));
  if (!write_text(json, report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n")) return kWrongUse;
  return status_of(fault);
}

}  // namespace assay::cli
