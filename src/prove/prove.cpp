#include "prove/prove.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <span>

#include "assayer/constants.h"
#include "assayer/locate.h"
#include "base/diagnostic.h"
#include "base/symbol.h"
#include "finding/message.h"
#include "prove/coverage.h"
#include "prove/launch_log.h"
#include "prove/messages.h"
#include "prove/recording.h"
#include "prove/values.h"
#include "prove/witness.h"
#include "subject/device_code.h"
#include "trial/shapes.h"

namespace assay::prove {

namespace {

constexpr size_t kMostWitnesses = 4;  // shapes tried for one obligation
// Seconds of runs for one obligation's counterexamples: a shape takes up to eight trials. Chosen; the corpus shows what
// is refuted within it.
constexpr double kWitnessSeconds = 12;
constexpr double kLeastWitnessSeconds =
    4;  // in which a small shape is run with every family of inputs; chosen
// Where the solver leaves a place open, with a counterexample that no run shows or with none: all dims at one, just above
// a warp and just above the usual blocks. There most tails begin, and each takes a fraction of a second. Chosen.
constexpr int64_t kUsualSizes[] = {1, 33, 257};
constexpr int64_t kUnequalSizes[] = {3, 257};  // of every other dim
// Elements, and bytes where one has many: what is larger is run by a sample of the blocks (witness.cpp).
constexpr double kMostUsual = 0x1p18, kMostUsualBytes = 0x1p22;
constexpr const char* kPending = "not decided yet";

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr const char* kAssumptions[] = {
    "the host code is a function of its arguments, and launches what the relation says",
    // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one sentence in two parts
    "tensors (with the gaps between their elements) and the workspace have the promised sizes and do not "
    "overlap, except as may_alias allows",
    "inputs satisfy `values`",
    // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): one sentence in two parts
    "the machine code does what the PTX says, and the shared memory of a block begins at a multiple of 128 "
    "bytes",
    "no thread runs more than 2^62 iterations of a loop, and (for coverage) loops end",
    "no other call that uses the same memory (module variables included) runs at the same time",
};

// The part of the time that values are compared for.
constexpr double kValuesShare = 0.1;

// In this order. Of a kernel's time some is kept for each: what cannot be decided must not leave the later ones without
// any. What is kept and not used goes to those after it. The shares are chosen: bounds and races ask the most
// questions, and alignment, the first to look at the addresses, asks about the loops for all.
struct KernelObligation {
  const char* name;
  Obligation (*prove)(Setting&);
  double kept;  // of the kernel's time
};
constexpr double kBarrierShare = 0.1;
constexpr KernelObligation kObligations[] = {
    {"launch", prove_launch, 0},
    {"alignment", prove_alignment, 0.1},
    {"bounds", prove_bounds, 0.2},
    {"overflow", prove_overflow, 0.15},
    {"barrier", prove_barriers, kBarrierShare},
    {"race", prove_races, 0.25},
};
// What is left to the outputs, in parts of the time of one kernel.
constexpr double kPartOfOutputs = 0.5;

class Prover {
 public:
  Prover(const contract::Contract& contract, const Options& options)
      : contract_(contract), options_(options), log_(contract) {
    if (!options.dump.empty()) solver_.on_unsatisfiable([this](const Question& question) { dump(question); });
  }

  Proof run() {
    proof_.contract = contract_.path;
    proof_.title = contract_.title;
    for (const contract::Dim& dim : contract_.dims) {
      std::string text = dim.is_constant() ? fmt::format("{} = {}", dim.name, dim.min)
                                           : fmt::format("{} from {} to {}", dim.name, dim.min, dim.max);
      if (dim.multiple_of != 1) text += fmt::format(", a multiple of {}", dim.multiple_of);
      proof_.shapes.push_back(std::move(text));
    }
    if (contract_.only_listed_shapes)
      proof_.shapes.push_back(fmt::format("only the listed shapes ({})", contract_.shapes.size()));
    start_ = now();
    if (const std::string memory = unknown_memory(contract_); !memory.empty())
      run_only(memory);
    else if (prepare())
      prove_all();
    decide();
    proof_.finished = true;
    proof_.seconds = now() - start_;
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

  // `race` rests on two others, which are then decided, too.
  bool is_asked(std::string_view obligation) const {
    const auto named = [&](std::string_view name) {
      return std::find(options_.only.begin(), options_.only.end(), name) != options_.only.end();
    };
    const bool needed = obligation == "barrier" || obligation == "bounds";
    return options_.only.empty() || named(obligation) || (needed && named("race"));
  }

  bool prepare() {
    progress("compiling");
    subject::BuildOutcome built = subject::build(contract_, {.cache = options_.cache});
    if (!built.subject) {
      proof_.contract_wrong = built.failure.contract_wrong;
      proof_.problem = diagnostic(built.failure.error);
      if (!built.failure.output.empty()) proof_.problem += "\n" + built.failure.output;
      return false;
    }
    subject_ = std::move(*built.subject);
    auto texts = subject::device_code(*subject_, contract_.kernel.arch);
    if (!texts || texts->empty()) {
      proof_.problem = texts ? "the subject holds no PTX" : texts.error().text();
      return false;
    }
    texts_ = std::move(*texts);
    for (const std::string& text : texts_) {
      const std::string source = ptx_source();
      auto module = ptx::parse(text, source.empty() ? "the subject's PTX" : assayer::shown(source));
      if (!module) {
        proof_.problem = module.error().text();
        return false;
      }
      modules_.push_back(std::move(*module));
    }
    progress("recording launches");
    auto relation = infer(
        contract_, *subject_,
        {.seconds = options_.recording_seconds, .constants = assayer::read_constants(contract_, *subject_)});
    if (!relation) {
      proof_.problem = relation.error().text();
      return false;
    }
    relation_ = std::move(*relation);
    if (const std::string name = ambiguous_name(); !name.empty())
      relation_.gaps.push_back(fmt::format(
          "a variable of the module has the name of a tensor, and which of both the host code fills "
          "is not clear: {}",
          name));
    proof_.relation = to_json(relation_);
    until_ = work_seconds() + options_.seconds;
    return true;
  }

  // What the host code fills or copies to is recorded by name.
  std::string ambiguous_name() const {
    for (const ptx::Module& module : modules_)
      for (const ptx::Variable& variable : module.variables)
        if ((variable.space == ptx::Space::Global || variable.space == ptx::Space::Const) &&
            (contract_.tensor(variable.name) || variable.name == "workspace"))
          return variable.name;
    return "";
  }

  // Nothing is proved of a call with such tensors. It is run all the same: an error that a run shows is one.
  void run_only(const std::string& why) {
    progress("compiling");
    std::vector<Obligation> open;
    for (const auto& [name, prove, own] : kObligations) open.push_back(left_open(entry(), name, why));
    for (const char* name : {"coverage", "values"}) open.push_back(left_open(entry(), name, why));
    std::erase_if(open, [&](const Obligation& obligation) { return !is_asked(obligation.name); });
    const std::vector<contract::Shape> shapes = usual_shapes();
    std::vector<std::string> refuted;
    while (auto witness = replayed("", shapes.front(), [&](const assayer::CheckOptions& check) {
             return shown_at_usual_shapes(contract_, shapes, refuted, check);
           })) {
      refuted.emplace_back(obligation_of(witness->findings.front().kind));
      for (Obligation& obligation : open)
        if (obligation.name == refuted.back()) refute(obligation, std::move(*witness));
    }
    for (Obligation& obligation : open) add(std::move(obligation));
  }

  std::optional<Found> find(const std::string& symbol) const {
    for (const ptx::Module& module : modules_)
      if (const ptx::Function* kernel = module.find(symbol); kernel && kernel->is_entry)
        return Found{&module, kernel};
    return std::nullopt;
  }

  // Of one whose PTX was not found nothing is known: it may write anywhere, and never end.
  bool has_all_kernels() const {
    return std::all_of(relation_.cases.begin(), relation_.cases.end(), [&](const Case& one) {
      return std::all_of(one.launches.begin(), one.launches.end(),
                         [&](const Launch& launch) { return find(launch.kernel).has_value(); });
    });
  }

  static std::string relation_text(const Launch& launch) {
    return fmt::format("{}", fmt::join(launch.text(), ", "));
  }

  // All of it: what is printed leaves out what most launches have in common.
  static std::string key_of(const Launch& launch) {
    Relation alone;
    alone.cases.emplace_back();
    alone.cases.back().launches = {launch};
    return relation_text(launch) + to_json(alone).dump();
  }

  // Launches of the same kernel under the same relation are one.
  std::vector<Job> jobs() {
    std::vector<Job> jobs;
    std::set<std::string> seen;
    for (const Case& one : relation_.cases) {
      for (const Launch& launch : one.launches) {
        const std::string text = relation_text(launch);
        if (!seen.insert(key_of(launch)).second) continue;
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
    for (const char* name : {"bounds", "overflow", "alignment", "launch", "barrier", "race"})
      add(left_open(kernel, name, reason));
  }

  static Obligation left_open(const std::string& kernel, const char* name, const std::string& reason) {
    Obligation open;
    open.kernel = kernel;
    open.name = name;
    open.open.push_back({{}, reason, std::nullopt});
    return open;
  }

  // Arrays whose contents may change during the call: what the contract says of an input's values holds of
  // others only.
  std::vector<std::string> written(const std::vector<Job>& jobs) {
    std::set<std::string> names;
    for (const Case& one : relation_.cases) names.insert(one.filled.begin(), one.filled.end());
    for (const contract::TensorSpec& tensor : contract_.tensors)
      if (!tensor.may_alias.empty()) names.insert(tensor.may_alias);
    bool anywhere = !has_all_kernels();
    for (const auto& [launch, found] : jobs) {
      Terms terms;
      Dims dims(terms, contract_, limits_of(launch.when));
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
    expect(all);
    proof_.all_shapes_recorded = relation_.all;
    proof_.recorded = relation_.recorded;
    const std::vector<std::string> changed = written(all);
    size_t number = 0;
    for (const auto& [launch, found] : all) {
      progress(fmt::format("{} ({} of {})", plain_name(launch.kernel), ++number, all.size()));
      const double left = until_ - work_seconds();
      const double kernels = static_cast<double>(all.size() - number + 1);
      prove_one(launch, found, changed, until_ - left * (1 - 1 / (kernels + kPartOfOutputs)));
    }
    if (is_asked("coverage")) prove_outputs(changed);
    if (is_asked("values")) compare_values_with_formula();
    for (const Refusal& refusal : relation_.refused) note_refusal(refusal);
  }

  // What there is to decide, so that a result that is read before the end lists all of it.
  void expect(const std::vector<Job>& jobs) {
    for (const auto& [launch, found] : jobs) {
      for (const KernelObligation& one : kObligations)
        if (is_asked(one.name)) pending_.emplace_back(launch.kernel, one.name);
    }
    const auto& tensors = contract_.tensors;
    if (is_asked("coverage") &&
        std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return !t.is_input(); }))
      pending_.emplace_back(entry(), "coverage");
    if (is_asked("values")) pending_.emplace_back(entry(), "values");
  }

  // The function that the contract is about.
  const std::string& entry() const {
    return contract_.kernel.entry.empty() ? contract_.kernel.global : contract_.kernel.entry;
  }

  void prove_one(const Launch& launch, const Found& found, const std::vector<std::string>& changed,
                 double until) {
    Terms terms;
    Dims dims(terms, contract_, limits_of(launch.when));
    auto summary = execute(terms, dims, *found.module, *found.kernel, launch, changed);
    if (!summary) return leave_unknown(launch.kernel, summary.error().message);
    waits_ |= !summary->flag_reads.empty();
    Claims claims(terms, *summary, solver_);
    Setting setting{terms, dims, *found.module, *found.kernel, launch, *summary, claims, solver_};
    setting.ptx_file = ptx_source();
    double kept = 0;
    for (const KernelObligation& obligation : kObligations)
      if (is_asked(obligation.name)) kept += obligation.kept;
    const double whole = until - work_seconds(), replays = replay_work_;
    setting.until = until;
    summary->exchanges |= describe_messages(setting);
    // Values that threads exchange are what they are taken for if all of them get there.
    bool exchanged = true;
    if (summary->exchanges) {
      setting.until = until - whole * (kept - kBarrierShare);
      asked_for_ = fmt::format("{}-exchanges", plain_name(launch.kernel));
      exchanged = prove_barriers(setting).threads_agree;
      all_exchanged_ &= exchanged;
    }
    for (const auto& [name, prove, own] : kObligations) {
      if (!is_asked(name)) continue;
      kept -= own;
      setting.until = until + replay_work_ - replays - whole * kept;
      asked_for_ = fmt::format("{}-{}", plain_name(launch.kernel), name);
      Obligation obligation = prove(setting);
      if (obligation.name == "race") rest_on_others(obligation);
      if (obligation.name == "race" && launch.overlaps) rest_on_order(obligation);
      if (!exchanged) rest_on_exchange(obligation);
      if (obligation.status != Status::Proved) look_for_witness(obligation);
      add(std::move(obligation));
    }
  }

  // Barriers order accesses only if all threads pass the same ones, and arrays are apart only as long as no access
  // leaves the one it began in.
  void rest_on_others(Obligation& race) {
    if (race.status != Status::Proved) return;
    for (const Obligation& other : proof_.obligations) {
      if (other.kernel != race.kernel || other.status == Status::Proved || other.threads_agree) continue;
      if (other.name != "barrier" && other.name != "bounds") continue;
      race.status = Status::Unknown;
      race.open.push_back({{},
                           other.name == "barrier"
                               ? "it depends on the kernel's barriers, which are not proved"
                               : "it depends on accesses being in bounds, which is not proved",
                           std::nullopt});
    }
  }

  // Accesses of one launch are compared with each other, and with those of no other: what runs before and after it is taken to
  // have ended and not to have begun.
  static void rest_on_order(Obligation& race) {
    if (race.status != Status::Proved) return;
    race.status = Status::Unknown;
    race.open.push_back(
        {{},
         "parts of the call may run concurrently, and accesses of several launches are not compared",
         std::nullopt});
  }

  static void rest_on_exchange(Obligation& obligation) {
    if (obligation.status != Status::Proved || obligation.name == "launch") return;
    obligation.status = Status::Unknown;
    obligation.open.push_back(
        {{},
         "it depends on values that threads exchange, and not all threads may reach the exchange",
         std::nullopt});
  }

  // That the outputs are written is a matter of all launches of a call together.
  void prove_outputs(const std::vector<std::string>& changed) {
    Obligation coverage;
    coverage.kernel = entry();
    coverage.name = "coverage";
    CoverageSetting setting{contract_, solver_, changed};
    setting.until = until_;
    for (const Obligation& barrier : proof_.obligations) {
      if (barrier.name != "barrier") continue;
      const bool agree = barrier.status == Status::Proved || barrier.threads_agree;
      const auto [at, is_new] = setting.threads_agree.try_emplace(barrier.kernel, agree);
      at->second &= agree;
    }
    asked_for_ = fmt::format("{}-{}", plain_name(coverage.kernel), coverage.name);
    progress("coverage of the outputs");
    for (const Case& one : relation_.cases) {
      std::vector<LaunchedKernel> kernels;
      for (const Launch& launch : one.launches)
        if (const auto found = find(launch.kernel))
          kernels.push_back({found->module, found->kernel, &launch});
      prove_coverage(setting, one, kernels, coverage);
    }
    if (coverage.total == 0) return;  // no outputs that are only written
    if (!has_all_kernels()) coverage.open.push_back({{}, "the PTX of a kernel was not found", std::nullopt});
    coverage.status = coverage.open.empty() ? Status::Proved : Status::Unknown;
    if (!all_exchanged_) rest_on_exchange(coverage);
    if (coverage.status != Status::Proved) look_for_witness(coverage);
    add(std::move(coverage));
  }

  // What the call stores, held against the formula.
  void compare_values_with_formula() {
    progress("comparing values");
    std::vector<contract::Shape> examples;
    std::set<std::string> kernels;
    for (const Case& one : relation_.cases) {
      examples.push_back(one.example);
      for (const Launch& launch : one.launches) kernels.insert(launch.kernel);
    }
    ValuesOutcome outcome = compare_values({.contract = contract_,
                                            .subject = *subject_,
                                            .texts = texts_,
                                            .modules = modules_,
                                            .examples = examples,
                                            .kernels = {kernels.begin(), kernels.end()},
                                            .seconds = kValuesShare * options_.seconds});
    if (!outcome.trials.empty()) {
      decide_by_witness(outcome.obligation, outcome.trials.front().shape,
                        [&](const assayer::CheckOptions& check) {
                          return shown_by(contract_, outcome.trials, "values", check);
                        });
    }
    add(std::move(outcome.obligation));
  }

  // Where most defects show: all dims of a few sizes, and each dim at its largest with the others small, where that is still
  // small enough to be run whole.
  std::vector<contract::Shape> usual_shapes() const {
    std::vector<contract::Shape> shapes;
    for (const int64_t size : kUsualSizes)
      shapes.push_back(
          trial::fit(contract_, trial::uniform_shape(contract_, size), kMostUsual, kMostUsualBytes).shape);
    // Dims of one size hide it where a kernel takes one for another.
    for (size_t large : {0, 1}) {
      contract::Shape shape = trial::uniform_shape(contract_, kUnequalSizes[0]);
      for (size_t i = 0; i < contract_.dims.size(); ++i)
        if (i % 2 == large) shape[contract_.dims[i].name] = trial::snap(contract_.dims[i], kUnequalSizes[1]);
      if (contract_.dims.size() > 1 && contract_.check_shape(shape))
        shapes.push_back(trial::fit(contract_, std::move(shape), kMostUsual, kMostUsualBytes).shape);
    }
    for (const contract::Dim& dim : contract_.dims) {
      contract::Shape shape = trial::uniform_shape(contract_, 1);
      shape[dim.name] = dim.highest();
      const auto size = trial::size_of(contract_, shape);
      if (size && size->elements <= kMostUsual && contract_.check_shape(shape))
        shapes.push_back(std::move(shape));
    }
    if (contract_.only_listed_shapes) shapes = contract_.shapes;
    return shapes;
  }

  // A candidate counts once a run has shown it; one that no run shows is a gap. A place of which the solver said nothing
  // may still fail where most do.
  void look_for_witness(Obligation& obligation) {
    std::vector<contract::Shape> shapes;
    const auto include = [&](contract::Shape shape) {
      if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(std::move(shape));
    };
    bool undecided = false;
    for (const Place& place : obligation.open) {
      if (place.candidate && shapes.size() < kMostWitnesses) include(place.candidate->shape);
      undecided |= !place.instruction.empty() || obligation.name == "coverage";
    }
    if (shapes.empty() && !undecided) return;
    const size_t candidates = shapes.size();
    for (contract::Shape& shape : usual_shapes()) include(std::move(shape));
    const Tried& tried = tried_[obligation.name];
    decide_by_witness(obligation, shapes.front(), [&](const assayer::CheckOptions& check) {
      const auto beside =
          std::find_if(obligation.open.begin(), obligation.open.end(),
                       [](const Place& place) { return place.candidate && place.candidate->control; });
      if (beside != obligation.open.end()) {
        const std::span<const contract::Shape> expected(shapes.data(), candidates);
        if (auto witness = shown_beside(contract_, expected, *beside->candidate->control, tried, check))
          return witness;
      }
      return shown(contract_, shapes, obligation.name, tried, check);
    });
  }

  using Replay = std::function<std::optional<Witness>(const assayer::CheckOptions&)>;
  void decide_by_witness(Obligation& obligation, const contract::Shape& first, const Replay& replay) {
    const bool run = may_replay();
    auto witness = replayed(obligation.name, first, replay);
    if (!witness) {
      std::set<contract::Shape> listed;
      for (const Place& place : obligation.open)
        if (place.candidate && listed.size() < kMostWitnesses && listed.insert(place.candidate->shape).second)
          proof_.gaps.push_back(fmt::format(
              "{}: {} at {}{}{}: {}", obligation.name, place.reason,
              contract::to_string(place.candidate->shape), place.candidate->words.empty() ? "" : ", ",
              place.candidate->words, run ? "not seen on the virtual GPU" : "not run for lack of time"));
      return;
    }
    refute(obligation, std::move(*witness));
  }

  void refute(Obligation& obligation, Witness witness) {
    obligation.status = Status::Refuted;
    obligation.where = witness.findings.front().where;
    obligation.reason = message(witness.findings.front());
    if (const evidence::CodePlace* code = code_of(witness.findings.front()))
      obligation.refuted_at = code->instruction;
    proof_.files = std::move(witness.files);
    for (Finding& finding : witness.findings) add_finding(std::move(finding));
  }

  bool may_replay() const { return replayed_ < options_.replay_seconds; }

  // An equal part of what is left for each obligation that is not decided yet: counterexamples that no run confirms would leave
  // the later ones without runs otherwise.
  double replay_budget() const {
    const double left = options_.replay_seconds - replayed_;
    const double share = left / static_cast<double>(std::max<size_t>(1, pending_.size()));
    return std::min({left, kWitnessSeconds, std::max(share, kLeastWitnessSeconds)});
  }

  std::optional<Witness> replayed(const std::string& obligation, const contract::Shape& first,
                                  const Replay& replay) {
    if (!may_replay()) return std::nullopt;
    progress(fmt::format("replaying {}", contract::to_string(first)));
    assayer::CheckOptions check;
    check.budget = replay_budget();
    check.cache = options_.cache;
    Tried tried;  // joins the others at the end: who makes the list of trials looks at those
    check.launched = [&](const trial::Trial& trial, const subject::Observation& seen) {
      log_.add(trial, seen);
      tried.insert(trial::to_string(trial));
    };
    const double began = now(), work = work_seconds();
    auto witness = replay(check);
    tried_[obligation].merge(tried);
    replayed_ += now() - began;
    replay_work_ += work_seconds() - work;
    until_ += work_seconds() - work;  // what a replay takes is not the solver's
    hold_relation();
    return witness;
  }

  // Replays are runs of the host code at new shapes: where one of them deviates, nothing that was proved stands.
  void hold_relation() {
    if (!proof_.deviations.empty() || relation_.cases.empty()) return;
    for (const Deviation& deviation : log_.against(relation_)) {
      if (!deviation.gpu.empty()) continue;
      proof_.deviations.push_back(deviation.text);
      relation_.gaps.insert(relation_.gaps.begin(), void_reason(deviation));
      for (Obligation& obligation : proof_.obligations) make_void(obligation);
    }
  }

  void make_void(Obligation& obligation) const {
    if (relation_.gaps.empty() || obligation.status != Status::Proved) return;
    obligation.status = Status::Unknown;
    obligation.open.push_back({{}, relation_.gaps.front(), std::nullopt});
  }

  // Two obligations may be refuted by one failure: of one instruction, at two shapes.
  void add_finding(Finding finding) {
    const evidence::CodePlace* code = code_of(finding);
    const bool known = std::any_of(proof_.findings.begin(), proof_.findings.end(), [&](const Finding& f) {
      const evidence::CodePlace* other = code_of(f);
      const bool same_code =
          code && other && !code->instruction.empty() && code->instruction == other->instruction;
      return f.kind == finding.kind && f.where == finding.where &&
             (same_code || message(f) == message(finding));
    });
    if (!known) proof_.findings.push_back(std::move(finding));
  }

  // Where the kernel itself is PTX, its lines are the source.
  std::string ptx_source() const {
    const std::vector<std::string>& sources = contract_.kernel.sources;
    return sources.size() == 1 && sources.front().ends_with(".ptx") ? contract_.resolve(sources.front()) : "";
  }

  // Adds one, and notifies readers of the growing result.
  void add(Obligation obligation) {
    make_void(obligation);
    const auto pending =
        std::find(pending_.begin(), pending_.end(), std::pair(obligation.kernel, obligation.name));
    if (pending != pending_.end()) pending_.erase(pending);
    proof_.obligations.push_back(std::move(obligation));
    if (!options_.decided) return;
    Proof so_far = proof_;
    for (const auto& [kernel, name] : pending_) {
      Obligation open;
      open.kernel = kernel;
      open.name = name;
      open.pending = true;
      open.open.push_back({{}, kPending, std::nullopt});
      so_far.obligations.push_back(std::move(open));
    }
    std::swap(so_far, proof_);
    decide();
    std::swap(so_far, proof_);
    if (so_far.verdict == Status::Proved) so_far.verdict = Status::Unknown;
    so_far.seconds = now() - start_;
    options_.decided(so_far);
  }

  // The host code was run, and the runtime refused a launch: that is enough, but a run that can be repeated is better.
  void note_refusal(const Refusal& refusal) {
    if (std::any_of(proof_.obligations.begin(), proof_.obligations.end(),
                    [](const Obligation& o) { return o.name == "launch" && o.status == Status::Refuted; }))
      return;
    Obligation failed;
    failed.kernel = entry();
    failed.name = "launch";
    failed.status = Status::Refuted;
    failed.reason = fmt::format("at {} the runtime refuses the launch: {}",
                                contract::to_string(refusal.shape), refusal.error);
    const auto replay = [&](const assayer::CheckOptions& check) {
      return shown(contract_, std::span(&refusal.shape, 1), failed.name, {}, check);
    };
    if (auto witness = replayed(failed.name, refusal.shape, replay)) {
      failed.reason = message(witness->findings.front());
      proof_.files = std::move(witness->files);
      for (Finding& finding : witness->findings) add_finding(std::move(finding));
    } else {
      add_finding({.kind = Kind::LaunchFailure,
                   .evidence = evidence::Launch{.status = refusal.status, .detail = failed.reason}});
    }
    add(std::move(failed));
  }

  // Products are unknowns of their own in most questions; the others are about integers and their products.
  void dump(const Question& question) {
    const std::string path = fmt::format("{}/{}-{:04}.smt2", options_.dump, asked_for_, ++dumped_);
    std::ofstream(path) << "(set-logic " << (question.nonlinear ? "QF_NIA" : "QF_LIA")
                        << ")\n(set-info :status unsat)\n"
                        << question.smt << "(check-sat)\n";
  }

  void decide() {
    proof_.assumptions.assign(std::begin(kAssumptions), std::end(kAssumptions));
    if (waits_) proof_.assumptions.emplace_back("blocks that have started go on");
    if (!proof_.all_shapes_recorded)
      proof_.assumptions.push_back(
          fmt::format("the launch relation, which was checked at {} shapes, holds at all", proof_.recorded));
    if (trial::may_be_better_aligned(contract_))
      proof_.assumptions.push_back(
          "the launch relation, which was checked for some alignments of the pointers, holds for all");
    if (has_other_scalars(contract_))
      proof_.assumptions.push_back(
          "the launch relation, which was checked for some values of the scalars, holds for all");
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
  std::optional<subject::Subject> subject_;
  std::vector<std::string> texts_;  // its PTX
  std::vector<ptx::Module> modules_;
  Relation relation_;
  LaunchLog log_;                                             // of replays
  std::vector<std::pair<std::string, std::string>> pending_;  // kernels and obligations
  bool waits_ = false;                                        // a block may wait for another
  bool all_exchanged_ = true;  // all lanes take part where values are exchanged
  double start_ = 0, until_ = 0;
  double replayed_ = 0, replay_work_ = 0;  // seconds of replays: elapsed, and of work_seconds()
  std::map<std::string, Tried> tried_;     // by obligation: replays of it
  std::string asked_for_ = "loops";        // what the solver is asked for, for the names of dumped questions
  int dumped_ = 0;
};

}  // namespace

std::string unknown_memory(const contract::Contract& contract) {
  for (const contract::TensorSpec& tensor : contract.tensors)
    if (tensor.pointers || !tensor.buffer.empty())
      return fmt::format("proofs need tensors with separate memory; the tensor `{}` is {}", tensor.name,
                         tensor.pointers ? "behind an array of pointers" : "a part of a buffer");
  return "";
}

Proof prove(const contract::Contract& contract, const Options& options) {
  return Prover(contract, options).run();
}

}  // namespace assay::prove
