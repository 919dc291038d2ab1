#include "prove/prove.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/symbol.h"
#include "finding/message.h"
#include "prove/witness.h"
#include "subject/device_code.h"

namespace assay::prove {

namespace {

constexpr size_t kMostWitnesses = 4;  // shapes tried for one obligation

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr const char* kAssumptions[] = {
    "the host code is a function of its arguments, and launches what the relation says",
    "tensors and the workspace do not overlap, except where may_alias says so, and have the promised sizes",
    "inputs hold what `values` allows",
    "the machine code does what the PTX says",
    "no thread makes more than 2^62 iterations of a loop",
};

// Obligations that no question is asked for yet.
constexpr const char* kNotYet[] = {"race", "coverage", "values"};

class Prover {
 public:
  Prover(const contract::Contract& contract, const Options& options)
      : contract_(contract), options_(options) {}

  Proof run() {
    const double start = now();
    proof_.contract = contract_.path;
    proof_.title = contract_.title;
    for (const contract::Dim& dim : contract_.dims) {
      std::string text = dim.is_constant() ? fmt::format("{} = {}", dim.name, dim.min)
                                           : fmt::format("{} from {} to {}", dim.name, dim.min, dim.max);
      if (dim.multiple_of != 1) text += fmt::format(", a multiple of {}", dim.multiple_of);
      proof_.shapes.push_back(std::move(text));
    }
    if (prepare()) prove_all();
    decide();
    proof_.seconds = now() - start;
    return std::move(proof_);
  }

 private:
  struct Found {
    const ptx::Module* module;
    const ptx::Function* kernel;
  };
  using Job = std::pair<Launch, Found>;

  void progress(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  bool prepare() {
    progress("compiling");
    const subject::BuildOutcome built = subject::build(contract_, {.cache = options_.cache});
    if (!built.subject) {
      proof_.contract_wrong = built.failure.contract_wrong;
      proof_.problem = built.failure.error.text();
      return false;
    }
    const auto texts = subject::device_code(*built.subject, contract_.kernel.arch);
    if (!texts || texts->empty()) {
      proof_.problem = texts ? "the subject holds no PTX" : texts.error().text();
      return false;
    }
    for (const std::string& text : *texts) {
      auto module = ptx::parse(text, "the subject's PTX");
      if (!module) {
        proof_.problem = module.error().text();
        return false;
      }
      modules_.push_back(std::move(*module));
    }
    progress("recording launches");
    auto relation = infer(contract_, *built.subject, {});
    if (!relation) {
      proof_.problem = relation.error().text();
      return false;
    }
    relation_ = std::move(*relation);
    until_ = now() + options_.seconds;
    return true;
  }

  std::optional<Found> find(const std::string& symbol) const {
    for (const ptx::Module& module : modules_)
      if (const ptx::Function* kernel = module.find(symbol); kernel && kernel->is_entry)
        return Found{&module, kernel};
    return std::nullopt;
  }

  static std::string relation_text(const Launch& launch) {
    return fmt::format("{}", fmt::join(launch.text(), ", "));
  }

  // Launches of the same kernel under the same relation are one.
  std::vector<Job> jobs() {
    std::vector<Job> jobs;
    std::set<std::string> seen;
    for (const Case& one : relation_.cases) {
      for (const Launch& launch : one.launches) {
        const std::string text = relation_text(launch);
        if (!seen.insert(launch.kernel + text).second) continue;
        proof_.launches.push_back({launch.kernel, text});
        const auto found = find(launch.kernel);
        if (found)
          jobs.emplace_back(launch, *found);
        else
          leave_unknown(launch.kernel, "its PTX was not found");
      }
    }
    return jobs;
  }

  void leave_unknown(const std::string& kernel, const std::string& reason) {
    for (const char* name : {"bounds", "overflow", "alignment", "launch", "barrier"}) {
      Obligation open;
      open.kernel = kernel;
      open.name = name;
      open.open.push_back({{}, reason, std::nullopt});
      proof_.obligations.push_back(std::move(open));
    }
  }

  // Arrays whose contents may change during the call: what the contract says of an input's values holds of
  // others only.
  std::vector<std::string> written(const std::vector<Job>& jobs) {
    std::set<std::string> names;
    for (const Case& one : relation_.cases) names.insert(one.filled.begin(), one.filled.end());
    for (const contract::TensorSpec& tensor : contract_.tensors)
      if (!tensor.may_alias.empty()) names.insert(tensor.may_alias);
    bool anywhere = false;
    for (const auto& [launch, found] : jobs) {
      Terms terms;
      Dims dims(terms, contract_);
      const auto summary = execute(terms, dims, *found.module, *found.kernel, launch, {});
      if (!summary) {
        anywhere = true;
        continue;
      }
      for (const std::string& name : written_arrays(terms, *summary)) names.insert(name);
      for (const Access& access : summary->accesses) {
        const auto& vars = terms.mentions(access.address);
        anywhere |= access.effect != Effect::Read && std::none_of(vars.begin(), vars.end(), [&](Var v) {
                      return terms.var(v).kind == VarKind::Base;
                    });
      }
      anywhere |= !summary->gaps.empty();
    }
    if (anywhere)
      for (const contract::TensorSpec& tensor : contract_.tensors) names.insert(tensor.name);
    return {names.begin(), names.end()};
  }

  void prove_all() {
    const std::vector<Job> all = jobs();
    proof_.all_shapes_recorded = relation_.all;
    proof_.recorded = relation_.recorded;
    const std::vector<std::string> changed = written(all);
    size_t number = 0;
    for (const auto& [launch, found] : all) {
      progress(fmt::format("{} ({} of {})", plain_name(launch.kernel), ++number, all.size()));
      const double left = until_ - now();
      prove_one(launch, found, changed,
                until_ - left * (1 - 1.0 / static_cast<double>(all.size() - number + 1)));
    }
    for (const Refusal& refusal : relation_.refused) note_refusal(refusal);
    if (!relation_.gaps.empty())
      for (Obligation& obligation : proof_.obligations)
        if (obligation.status == Status::Proved) {
          obligation.status = Status::Unknown;
          obligation.open.push_back({{}, relation_.gaps.front(), std::nullopt});
        }
  }

  void prove_one(const Launch& launch, const Found& found, const std::vector<std::string>& changed,
                 double until) {
    Terms terms;
    Dims dims(terms, contract_);
    const auto summary = execute(terms, dims, *found.module, *found.kernel, launch, changed);
    if (!summary) return leave_unknown(launch.kernel, summary.error().message);
    Claims claims(terms, *summary, solver_);
    Setting setting{terms, dims, *found.module, *found.kernel, launch, *summary, claims, solver_};
    if (!options_.dump.empty())
      setting.dump = [&](const std::string& name, const std::string& smt) { dump(launch.kernel, name, smt); };
    setting.until = until;
    for (const auto& prove : {prove_launch, prove_alignment, prove_bounds, prove_overflow, prove_barriers}) {
      Obligation obligation = prove(setting);
      if (obligation.status != Status::Proved) look_for_witness(obligation);
      proof_.obligations.push_back(std::move(obligation));
    }
    for (const char* name : kNotYet) {
      Obligation open;
      open.kernel = launch.kernel;
      open.name = name;
      open.open.push_back({{}, "not modelled yet", std::nullopt});
      proof_.obligations.push_back(std::move(open));
    }
  }

  void look_for_witness(Obligation& obligation) {
    std::set<contract::Shape> tried;
    for (const Place& place : obligation.open) {
      if (!place.candidate || tried.size() >= kMostWitnesses || !tried.insert(place.candidate->shape).second)
        continue;
      progress(fmt::format("replaying {}", contract::to_string(place.candidate->shape)));
      if (auto finding = shown(contract_, place.candidate->shape, obligation.name)) {
        obligation.status = Status::Refuted;
        obligation.where = finding->where;
        obligation.reason = message(*finding);
        proof_.findings.push_back(std::move(*finding));
        return;
      }
      proof_.gaps.push_back(fmt::format("{}: {} at {}{}{}: not seen on the virtual GPU", obligation.name,
                                        place.reason, contract::to_string(place.candidate->shape),
                                        place.candidate->words.empty() ? "" : ", ", place.candidate->words));
    }
  }

  // The host code was run, and the runtime refused a launch: that needs no further witness.
  void note_refusal(const Refusal& refusal) {
    if (std::any_of(proof_.obligations.begin(), proof_.obligations.end(),
                    [](const Obligation& o) { return o.name == "launch" && o.status == Status::Refuted; }))
      return;
    Obligation failed;
    failed.kernel = contract_.kernel.entry.empty() ? contract_.kernel.global : contract_.kernel.entry;
    failed.name = "launch";
    failed.status = Status::Refuted;
    failed.reason = fmt::format("at {} the runtime refuses the launch: {}",
                                contract::to_string(refusal.shape), refusal.error);
    Finding finding{.kind = Kind::LaunchFailure,
                    .evidence = evidence::Launch{.status = refusal.status, .detail = failed.reason}};
    proof_.findings.push_back(std::move(finding));
    proof_.obligations.push_back(std::move(failed));
  }

  void dump(const std::string& kernel, const std::string& name, const std::string& smt) {
    std::error_code error;
    std::filesystem::create_directories(options_.dump, error);
    const std::string path =
        fmt::format("{}/{}-{}-{:04}.smt2", options_.dump, plain_name(kernel), name, ++dumped_);
    std::ofstream(path) << "(set-logic QF_LIA)\n(set-info :status unsat)\n" << smt << "(check-sat)\n";
  }

  void decide() {
    proof_.assumptions.assign(std::begin(kAssumptions), std::end(kAssumptions));
    if (!proof_.all_shapes_recorded)
      proof_.assumptions.push_back(
          fmt::format("the launch relation, which was checked at {} shapes, holds at all", proof_.recorded));
    for (Obligation& obligation : proof_.obligations) {
      if (obligation.reason.empty() && !obligation.open.empty()) {
        obligation.reason = obligation.open.front().reason;
        obligation.where = obligation.open.front().where;
      }
    }
    const auto any = [&](Status status) {
      return std::any_of(proof_.obligations.begin(), proof_.obligations.end(),
                         [&](const Obligation& o) { return o.status == status; });
    };
    proof_.verdict = any(Status::Refuted)                                 ? Status::Refuted
                     : any(Status::Unknown) || proof_.obligations.empty() ? Status::Unknown
                                                                          : Status::Proved;
  }

  const contract::Contract& contract_;
  const Options& options_;
  Proof proof_;
  Solver solver_;
  std::vector<ptx::Module> modules_;
  Relation relation_;
  double until_ = 0;
  int dumped_ = 0;
};

}  // namespace

Proof prove(const contract::Contract& contract, const Options& options) {
  return Prover(contract, options).run();
}

}  // namespace assay::prove
