#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "prove/obligation.h"

namespace assay::prove {

namespace {

constexpr int kMostParts = 8;
constexpr double kQuestionShare = 0.25;  // of the time that is left, for one question; chosen
constexpr double kLeastSeconds = 0.5;    // with which most questions that have an answer are answered

}  // namespace

std::string_view to_string(Status status) {
  constexpr std::string_view kNames[] = {"proved", "refuted", "unknown", "agrees"};
  return kNames[static_cast<size_t>(status)];
}

bool Setting::out_of_time() const {
  return work_seconds() > until;
}

double Setting::question_seconds() const {
  return std::min(access_seconds, std::max(kLeastSeconds, (until - work_seconds()) * kQuestionShare));
}

Where Setting::where(const ptx::Instruction& instruction) const {
  uint32_t at = instruction.location;
  if (at == ptx::kNone)
    return ptx_file.empty() ? Where{} : Where{ptx_file, static_cast<int>(instruction.line)};
  // Code that was inlined is placed where the kernel calls it.
  while (module.locations[at].inlined_at != ptx::kNone) at = module.locations[at].inlined_at;
  const ptx::SourceLocation& location = module.locations[at];
  return {location.file < module.files.size() ? module.files[location.file] : "",
          static_cast<int>(location.line)};
}

Place Setting::place(const ptx::Instruction& instruction, std::string reason) const {
  return {where(instruction), std::move(reason), std::nullopt, ptx::print(module, kernel, instruction)};
}

std::vector<Part> parts_of(Terms& terms, const Access& access) {
  std::vector<Part> open = {{access.address, {}}}, done;
  while (!open.empty()) {
    Part part = open.back();
    open.pop_back();
    Term choice = kNoTerm;
    for (const auto& [leaves, by] : terms.ring(part.address))
      for (const Term leaf : leaves)
        if (terms[leaf].op == Op::Ite && base_of(terms, leaf) != std::nullopt) choice = leaf;
    // Two bases inside one leaf: base_of says none, though there are.
    if (choice == kNoTerm && !base_of(terms, part.address))
      for (const auto& [leaves, by] : terms.ring(part.address))
        for (const Term leaf : leaves)
          if (terms[leaf].op == Op::Ite) choice = leaf;
    if (choice == kNoTerm || done.size() + open.size() >= kMostParts) {
      done.push_back(std::move(part));
      continue;
    }
    for (Part& side : sides_of(terms, part, choice)) open.push_back(std::move(side));
  }
  return done;
}

std::array<Part, 2> sides_of(Terms& terms, const Part& part, Term choice) {
  const Node node = terms[choice];
  const unsigned width = terms.width(part.address);
  const Ring ring = terms.ring(part.address);
  const auto side = [&](Term chosen, Term condition) {
    Part result{terms.constant(0, width), part.conditions};
    for (const auto& [leaves, by] : ring) {
      Term product = terms.constant(by, width);
      for (const Term leaf : leaves) product = terms.mul(leaf == choice ? chosen : leaf, product);
      result.address = terms.add(result.address, product);
    }
    result.conditions.push_back(condition);
    return result;
  };
  return {side(node.b, node.a), side(node.c, terms.negation(node.a))};
}

bool is_alone_in_memory(const Setting& setting, const Array& array) {
  const auto& tensors = setting.dims.contract().tensors;
  return !array.tensor || (array.tensor->may_alias.empty() &&
                           std::none_of(tensors.begin(), tensors.end(),
                                        [&](const auto& tensor) { return tensor.may_alias == array.name; }));
}

Strength strength_of(const Access& access) {
  const ptx::Instruction& i = *access.instruction;
  const bool ordered = i.has(ptx::Mod::relaxed) || i.has(ptx::Mod::acquire) || i.has(ptx::Mod::release) ||
                       i.has(ptx::Mod::acq_rel);
  if (i.has(ptx::Mod::volatile_) || i.has(ptx::Mod::mmio))
    return Strength::Device;  // as relaxed at system scope
  if (access.effect != Effect::Atomic && !ordered) return Strength::Weak;
  // Blocks of one cluster only: no help between any two.
  return i.has(ptx::Mod::cta) || i.has(ptx::Mod::cluster) ? Strength::Block : Strength::Device;
}

Path relevant(Terms& terms, const Summary& summary, const Path& path, Term term) {
  std::set<Var> vars;
  const std::function<void(Term)> include = [&](Term from) {
    for (const Var var : std::vector<Var>(terms.mentions(from))) {
      if (!vars.insert(var).second) continue;
      for (const Term fact : std::vector<Term>(terms.var(var).facts)) include(fact);
      // How often a loop repeats may depend on what an outer loop has counted so far.
      if (const auto loop = summary.loops.find(var); loop != summary.loops.end())
        for (const Term condition : loop->second.repeats) include(condition);
    }
  };
  include(term);
  std::vector<bool> kept(path.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < path.size(); ++i) {
      if (kept[i]) continue;
      bool particular = false, shared = false;
      for (const Var var : terms.mentions(path[i])) {
        const VarKind kind = terms.var(var).kind;
        if (kind != VarKind::Count && kind != VarKind::Unknown) continue;
        particular = true;
        shared |= vars.contains(var);
      }
      if (particular && !shared) continue;
      kept[i] = changed = true;
      include(path[i]);
    }
  }
  Path result;
  for (size_t i = 0; i < path.size(); ++i)
    if (kept[i]) result.push_back(path[i]);
  return result;
}

namespace {

// Every dim has one value: as the range of its atom, so that intervals of what is made of dims show most of what would be a
// question otherwise.
void fix_dims(Setting& setting, const contract::Shape& shape, Lowering& lowering) {
  for (const auto& [name, value] : shape) {
    const Poly dim = lowering.poly(setting.dims.term(std::string_view(name)));
    lowering.assume(equal_to_zero(plus(dim, -Int{value})));
    if (dim.size() != 1 || dim.begin()->first.size() != 1) continue;
    const auto& [monomial, by] = *dim.begin();
    if (by > 0 && value % by == 0) lowering.bound(monomial.front(), value / by, value / by);
  }
}

}  // namespace

Lowered lowered(Setting& setting, const Access& access, const Part& part, bool whole_path,
                const contract::Shape* shape) {
  Terms& terms = setting.terms;
  const auto base = base_of(terms, part.address);
  if (!base) throw TooHard{"it is not clear which array the address begins in"};
  if (!setting.summary.arrays.at(*base).is_reached_from(access.space))
    throw TooHard{"the address is not one of the memory that the instruction names"};
  Lowered result{Lowering(terms, setting.summary, &setting.claims, setting.solver),
                 &setting.summary.arrays.at(*base),
                 {},
                 {}};
  Lowering& lowering = result.lowering;
  lowering.set_deadline(std::min(setting.access_seconds, setting.until - work_seconds()));
  if (shape) fix_dims(setting, *shape, lowering);
  for (const Term condition :
       whole_path ? access.path : relevant(terms, setting.summary, access.path, part.address))
    lowering.assume(condition);
  for (const Term condition : part.conditions) lowering.assume(condition);
  result.address = lowering.poly(part.address);
  const auto atom = lowering.base_atom(*base);
  const Int align = terms.var(*base).multiple_of;
  result.offset = atom ? add(result.address, atom_poly(*atom, align), -1) : result.address;
  for (const auto& [monomial, by] : result.offset)
    if (atom && std::find(monomial.begin(), monomial.end(), *atom) != monomial.end())
      throw TooHard{"the address is not a sum of a pointer and an offset"};
  if (!atom) throw TooHard{"the address is not a sum of a pointer and an offset"};
  return result;
}

Obligation for_accesses(Setting& setting, std::string name,
                        const std::function<std::optional<Place>(const Access&)>& check) {
  Obligation result;
  result.kernel = setting.kernel.name;
  result.name = std::move(name);
  const double start = work_seconds();
  setting.counterexamples = setting.most_counterexamples;
  for (const Access& access : setting.summary.accesses) {
    ++result.total;
    std::optional<Place> place;
    if (setting.out_of_time()) {
      place = Place{{}, "time ran out", std::nullopt};
    } else {
      try {
        place = check(access);
      } catch (const TooHard& hard) {
        place = Place{{}, hard.why, std::nullopt};
      }
    }
    Place here = setting.place(*access.instruction);
    if (!place) {
      result.proved.push_back(std::move(here));
      continue;
    }
    here.reason = std::move(place->reason);
    here.candidate = std::move(place->candidate);
    result.open.push_back(std::move(here));
  }
  for (const std::string& gap : setting.summary.gaps) result.open.push_back({{}, gap, std::nullopt});
  result.status = result.open.empty() ? Status::Proved : Status::Unknown;
  result.seconds = work_seconds() - start;
  return result;
}

Candidate candidate_from(const Setting& setting, const std::map<Var, Int>& values) {
  Candidate candidate{setting.dims.shape(values), ""};
  for (const auto& [var, value] : values) {
    const Variable& variable = setting.terms.var(var);
    if (variable.kind == VarKind::Dim || variable.kind == VarKind::Base) continue;
    if (candidate.words.size() < 120)
      candidate.words +=
          fmt::format("{}{} = {}", candidate.words.empty() ? "" : ", ", variable.name, decimal(value));
  }
  return candidate;
}

std::optional<Candidate> counterexample(Setting& setting, const Access& access, const Part& part,
                                        const std::function<Formula(Lowered&)>& bad) {
  if (setting.counterexamples == 0) return std::nullopt;
  --setting.counterexamples;
  try {
    Lowered whole = lowered(setting, access, part, true);
    const Answer answer = whole.lowering.small_model(bad(whole), kCounterexampleSeconds, setting.until);
    if (answer.kind != Answer::Kind::Satisfiable) return std::nullopt;
    return candidate_from(setting, whole.lowering.values(answer));
  } catch (const TooHard&) {
  }
  return std::nullopt;
}

}  // namespace assay::prove
