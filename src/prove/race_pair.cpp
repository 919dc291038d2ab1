#include "prove/race_pair.h"

#include <fmt/format.h>

#include <algorithm>

namespace assay::prove {

namespace {

constexpr double kFitsSeconds = 1.5;    // for showing that a row index stays within its row
constexpr double kLinearSeconds = 1.0;  // for a pair without products
constexpr double kWholeSeconds = 3.0;   // for a pair with all that is known
constexpr size_t kMostLoads = 6;        // of a thread, that are compared with the other's
constexpr Int kWarp = 32;
constexpr Var kSecond = Var{1} << 31;  // truth values of the second thread

std::string text_of(const Lowering& lowering, const Formula& formula) {
  switch (formula.kind) {
    case Formula::Kind::AtLeastZero:
      return lowering.key_text(formula.poly);
    case Formula::Kind::Bool:
      return fmt::format("{}b{}", formula.positive ? "" : "!", formula.var);
    default:
      break;
  }
  std::string text = formula.kind == Formula::Kind::All ? "(and" : "(or";
  for (const Formula& part : formula.parts) text += " " + text_of(lowering, part);
  return text + ")";
}

Int constant_in(const Poly& poly) {
  const auto found = poly.find({});
  return found == poly.end() ? 0 : found->second;
}

bool is_linear(const Formula& formula) {
  return std::all_of(formula.poly.begin(), formula.poly.end(),
                     [](const auto& item) { return item.first.size() < 2; }) &&
         std::all_of(formula.parts.begin(), formula.parts.end(), is_linear);
}

// One address means one place to all threads: local memory is each thread's own, shared memory each block's.
bool is_of_device(const Array& array) {
  return array.space == ptx::Space::Global || array.space == ptx::Space::Const;
}

bool is_uniform(const Terms& terms, const AtomInfo& atom) {
  return std::all_of(atom.depends.begin(), atom.depends.end(),
                     [&](Var var) { return terms.var(var).kind == VarKind::Dim; });
}

// An offset by its strides: products of what all threads agree on, or of dims alone, by their keys. The empty one has the rest.
std::map<Monomial, Poly> by_stride(const Terms& terms, const Lowering& lowering, const Poly& offset,
                                   bool dims_only = false) {
  std::map<Monomial, Poly> result;
  for (const auto& [monomial, by] : offset) {
    Monomial stride, rest;
    for (const Atom atom : monomial) {
      const AtomInfo& info = lowering.atoms()[atom];
      if (dims_only ? info.is_dim : is_uniform(terms, info))
        stride.push_back(info.key);
      else
        rest.push_back(atom);
    }
    std::sort(stride.begin(), stride.end());
    result[stride][rest] = by;
  }
  return result;
}

Poly product_of(const Lowering& lowering, const Monomial& keys) {
  Poly product = constant_poly(1);
  for (const uint32_t key : keys) {
    const auto& atoms = lowering.atoms();
    const auto found =
        std::find_if(atoms.begin(), atoms.end(), [&](const AtomInfo& info) { return info.key == key; });
    if (found == atoms.end()) throw TooHard{"strides differ"};
    product = multiply(product, atom_poly(static_cast<Atom>(found - atoms.begin())));
  }
  return product;
}

}  // namespace

// ---- images

Image::Image(Setting& setting, const Access& access, const Part& part, bool whole_path,
             const std::set<std::string>& written)
    : setting_(setting),
      accesses_{&access},
      lowered_(std::make_shared<Lowered>(lowered(setting, access, part, whole_path))),
      offset_(lowered_->offset),
      constants_{0} {
  // That the thread exists and gets to the iteration, even if nothing else depends on it: a counterexample needs
  // it.
  if (whole_path) {
    for (const Var count : access.loops) lowered_->lowering.count(count);
    for (int axis = 0; axis < 3; ++axis)
      for (const Term index : {setting.summary.thread[axis], setting.summary.block[axis]})
        lowered_->lowering.poly(index);
  }
  find_loads(written);
  common_.assign(lowered_->lowering.facts().size(), true);
  for (const AtomInfo& info : lowered_->lowering.atoms()) bounds_.push_back({info.low, info.high});
}

// Loaded values among the atoms, with the addresses that they come from. Lowering an address may bring in
// others.
void Image::find_loads(const std::set<std::string>& written) {
  Lowering& lowering = lowered_->lowering;
  for (Atom atom = 0; atom < lowering.atoms().size() && loads_.size() < kMostLoads; ++atom) {
    const auto var = lowering.atoms()[atom].var;
    if (!var) continue;
    const Term address = setting_.terms.var(*var).loaded_from;
    if (address == kNoTerm) continue;
    const auto base = base_of(setting_.terms, address);
    if (!base) continue;
    const Array& array = setting_.summary.arrays.at(*base);
    if (!is_of_device(array) || written.contains(array.name)) continue;
    try {
      loads_.push_back({atom, lowering.poly(address), *base});
    } catch (const TooHard&) {
    }
  }
}

std::string Image::shape() const {
  return lowered_->lowering.key_text(add(offset_, constant_poly(constant_in(offset_)), -1));
}

bool Image::absorb(const Image& other) {
  if (!other.members_.empty() || other.shape() != shape()) return false;
  accesses_.push_back(other.accesses_.front());
  constants_.push_back(constant_in(other.offset_) - constant_in(offset_));
  members_.push_back(other.lowered_);
  const Lowering &mine = lowered_->lowering, &theirs = other.lowered_->lowering;
  std::set<std::string> known;
  for (const Formula& fact : theirs.facts()) known.insert(text_of(theirs, fact));
  for (size_t i = 0; i < common_.size(); ++i)
    if (common_[i]) common_[i] = known.contains(text_of(mine, mine.facts()[i]));
  std::map<uint32_t, const AtomInfo*> by_key;
  for (const AtomInfo& info : theirs.atoms()) by_key[info.key] = &info;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    const AtomInfo& info = mine.atoms()[i];
    const auto found = by_key.find(info.key);
    Interval range{-kInfinity, kInfinity};
    if (found != by_key.end()) {
      range = {found->second->low, found->second->high};
    } else if (info.var) {
      const Variable& variable = setting_.terms.var(*info.var);
      range = {variable.low / variable.multiple_of, variable.high / variable.multiple_of};
    }
    bounds_[i] = {std::min(bounds_[i].low, range.low), std::max(bounds_[i].high, range.high)};
  }
  // What was loaded on the way to one member may not have been on the way to another.
  std::erase_if(loads_, [&](const Load& load) {
    return std::none_of(other.loads_.begin(), other.loads_.end(), [&](const Load& their) {
      return theirs.atoms()[their.value].key == mine.atoms()[load.value].key;
    });
  });
  return true;
}

bool Image::fits(const std::vector<Monomial>& strides, Int size, bool dims_only) {
  const auto [at, is_new] = fits_.try_emplace({strides, size, dims_only}, false);
  if (!is_new) return at->second;
  const auto member_fits = [&](Lowered& member) {
    Poly low;
    for (const auto& [stride, rows] : by_stride(setting_.terms, member.lowering, member.offset, dims_only))
      if (std::find(strides.begin(), strides.end(), stride) == strides.end())
        low = add(low, multiply(rows, product_of(member.lowering, stride)));
    const Poly cell = scale(product_of(member.lowering, strides.back()), size);
    const Poly grouped = member.lowering.delinearised(low);
    const Int bytes = accesses_.front()->bytes;
    member.lowering.set_deadline(std::min(kFitsSeconds, setting_.until - work_seconds()));
    return member.lowering.proves(
        all_of({at_least_zero(grouped), at_least_zero(plus(add(cell, grouped, -1), -bytes))}), kFitsSeconds);
  };
  bool all = false;
  try {
    all = member_fits(*lowered_) &&
          std::all_of(members_.begin(), members_.end(), [&](const auto& m) { return member_fits(*m); });
  } catch (const TooHard&) {
  }
  return at->second = all;
}

std::optional<Poly> Image::begin() const {
  Poly begin;
  for (const auto& [stride, rows] : by_stride(setting_.terms, lowered_->lowering, offset_)) {
    if (lowered_->lowering.interval(product_of(lowered_->lowering, stride)).low < 0) return std::nullopt;
    Poly varying = rows;
    if (const auto fixed = varying.find({}); fixed != varying.end()) {
      begin[stride] = fixed->second;
      varying.erase(fixed);
    }
    Int low = 0;
    for (const auto& [monomial, by] : varying) {
      Int least = by, most = by;
      for (const Atom atom : monomial) {
        if (bounds_[atom].low < 0) return std::nullopt;
        least = saturated_mul(least, bounds_[atom].low);
        most = saturated_mul(most, bounds_[atom].high);
      }
      low = saturated_add(low, std::min(least, most));
    }
    if (low < 0) return std::nullopt;
  }
  begin[Monomial{}] += *std::min_element(constants_.begin(), constants_.end());
  return begin;
}

bool Image::ends_before(const Poly& bound) {
  const auto [at, is_new] = ends_before_.try_emplace(bound, false);
  if (!is_new) return at->second;
  const auto member_ends = [&](Lowered& member) {
    Poly end;
    for (const auto& [keys, by] : bound) end = add(end, scale(product_of(member.lowering, keys), by));
    const Poly after = plus(add(end, member.offset, -1), -Int{accesses_.front()->bytes});
    member.lowering.set_deadline(std::min(kFitsSeconds, setting_.until - work_seconds()));
    return member.lowering.proves(at_least_zero(member.lowering.delinearised(after)), kFitsSeconds);
  };
  bool all = false;
  try {
    all = member_ends(*lowered_) &&
          std::all_of(members_.begin(), members_.end(), [&](const auto& m) { return member_ends(*m); });
  } catch (const TooHard&) {
  }
  return at->second = all;
}

// ---- pairs

Pair::Pair(Setting& setting, const std::vector<Ticket>& tickets, Image& a, Image& b, Who who, Meeting meeting)
    : setting_(setting),
      tickets_(tickets),
      terms_(setting.terms),
      who_(who),
      meeting_(std::move(meeting)),
      sides_{{a, false, {}, {}}, {b, true, {}, {}}} {}

void Pair::begin(double seconds) {
  joint_ = std::make_unique<Lowering>(terms_, setting_.summary, nullptr, setting_.solver);
  joint_->set_deadline(std::min(seconds, setting_.until - work_seconds()));
  shared_.clear();
  dropped_ = false;
  for (Side& side : sides_) {
    side.mapped.clear();
    side.own.clear();
  }
}

std::optional<int> Pair::ahead_of(Var count) const {
  const auto loop = setting_.summary.loops.find(count);
  if (loop == setting_.summary.loops.end()) return std::nullopt;
  const auto found = meeting_.ahead.find(loop->second.head);
  return found == meeting_.ahead.end() ? std::nullopt : std::optional(found->second);
}

bool Pair::is_first(const Side& side, Var count) const {
  const auto loop = setting_.summary.loops.find(count);
  return loop != setting_.summary.loops.end() && meeting_.first[side.second].contains(loop->second.head);
}

bool Pair::is_shared(Var var) const {
  switch (terms_.var(var).kind) {
    case VarKind::Dim:
    case VarKind::Base:
      return true;
    case VarKind::Block:
      return who_ != Who::OtherBlock;
    case VarKind::Thread:
      return who_ == Who::SameThread;
    case VarKind::Count:
      return ahead_of(var) == 0;
    default:
      break;
  }
  if (terms_.var(var).is_of_block) return who_ != Who::OtherBlock;
  if (terms_.var(var).is_fixed) {
    const std::vector<Var> vars = terms_.mentions(terms_.var(var).loaded_from);
    return std::all_of(vars.begin(), vars.end(), [&](Var v) { return is_shared(v); });
  }
  const auto count = shifted_in(terms_, setting_.summary, var);
  return count && ahead_of(*count) == 0;
}

Poly Pair::mapped(Side& side, Atom atom) {
  if (const auto found = side.mapped.find(atom); found != side.mapped.end()) return found->second;
  AtomInfo info = side.image.lowered_->lowering.atoms()[atom];
  if (atom < side.image.bounds_.size() && side.image.accesses_.size() > 1) {
    info.low = side.image.bounds_[atom].low;
    info.high = side.image.bounds_[atom].high;
  }
  const auto take = [&](std::map<uint32_t, Atom>& known) {
    const auto found = known.find(info.key);
    if (found != known.end()) {
      joint_->bound(found->second, info.low, info.high);
      return found->second;
    }
    return known[info.key] = joint_->add_atom(info);
  };
  Poly result;
  const int ahead = info.var ? ahead_of(*info.var).value_or(0) : 0;
  if (info.var && is_first(side, *info.var)) {
    joint_->assume(at_least_zero(constant_poly(-info.low)));  // the count is 0
    joint_->assume(at_least_zero(constant_poly(info.high)));
  } else if (ahead != 0) {
    // The count of the first thread; the second's is so much more.
    const Interval range{info.low, info.high};
    if (side.second) {
      info.low = info.high = 0;
      const auto found = shared_.find(info.key);
      const Variable& variable = terms_.var(*info.var);
      info.low = variable.low;
      info.high = variable.high;
      const Atom first = found != shared_.end() ? found->second : shared_[info.key] = joint_->add_atom(info);
      result = plus(atom_poly(first), ahead);
      joint_->assume(at_least_zero(plus(result, -range.low)));
      joint_->assume(at_least_zero(plus(scale(result, -1), range.high)));
    } else {
      result = atom_poly(take(shared_));
    }
  } else if (std::all_of(info.depends.begin(), info.depends.end(), [&](Var v) { return is_shared(v); })) {
    result = atom_poly(take(shared_));
  } else {
    if (side.second) info.var.reset();  // a model speaks of the first thread
    result = atom_poly(take(side.own));
  }
  return side.mapped[atom] = result;
}

Poly Pair::mapped(Side& side, const Poly& poly) {
  Poly result;
  for (const auto& [monomial, by] : poly) {
    Poly product = constant_poly(by);
    for (const Atom atom : monomial) product = multiply(product, mapped(side, atom));
    result = add(result, product);
  }
  return result;
}

Formula Pair::mapped(Side& side, const Formula& formula) {
  Formula result = formula;
  if (formula.kind == Formula::Kind::AtLeastZero) result.poly = mapped(side, formula.poly);
  if (formula.kind == Formula::Kind::Bool && side.second && !is_shared(formula.var))
    result.var = formula.var | kSecond;
  for (Formula& part : result.parts) part = mapped(side, part);
  return result;
}

// The value of an index of the thread or the block. An access that does not speak of it leaves it open.
Poly Pair::index(Side& side, Term term) {
  if (const auto known = terms_.value(term)) return constant_poly(static_cast<Int>(*known));
  const Var var = terms_.mentions(term).front();
  if (const auto atom = side.image.lowered_->lowering.base_atom(var)) return mapped(side, *atom);
  std::map<uint32_t, Atom>& known = is_shared(var) ? shared_ : side.own;
  const uint32_t key = terms_.intern(fmt::format("var{}", var));
  if (const auto found = known.find(key); found != known.end()) return atom_poly(found->second);
  const Variable& variable = terms_.var(var);
  AtomInfo info{.name = variable.name, .low = variable.low, .high = variable.high};
  info.key = key;
  info.depends = {var};
  if (!side.second) info.var = var;
  return atom_poly(known[key] = joint_->add_atom(std::move(info)));
}

// Which of the members of an image it is, by its distance from the first.
Poly Pair::constant_of_member(Side& side) {
  std::set<Int> constants(side.image.constants_.begin(), side.image.constants_.end());
  const Int first = *constants.begin(), last = *constants.rbegin();
  if (constants.size() == 1) return constant_poly(first);
  const auto count = static_cast<Int>(constants.size());
  AtomInfo info{.name = "member", .low = 0, .high = count - 1};
  info.key = terms_.intern("member");
  const Int step = (last - first) / (count - 1);
  bool even = (last - first) % (count - 1) == 0;
  for (Int i = 0; even && i < count; ++i) even = constants.contains(first + i * step);
  if (even) return plus(atom_poly(joint_->add_atom(info), step), first);
  info.low = first;
  info.high = last;
  Poly one = atom_poly(joint_->add_atom(info));
  std::vector<Formula> any;
  for (const Int constant : constants) any.push_back(equal_to_zero(plus(one, -constant)));
  joint_->assume(any_of(std::move(any)));
  return one;
}

// The number of the thread's warp: threads are numbered along x, then y, then z.
Poly Pair::warp(Side& side) {
  Poly number;
  for (int axis = 2; axis >= 0; --axis) {
    const auto extent = terms_.value(setting_.summary.threads[axis]);
    if (!extent && !number.empty()) throw TooHard{"the extents of a block are not constant"};
    number = add(scale(number, extent ? static_cast<Int>(*extent) : 0),
                 index(side, setting_.summary.thread[axis]));
  }
  AtomInfo info{.name = "warp", .low = 0, .high = joint_->interval(number).high / kWarp};
  Poly warp = atom_poly(joint_->add_atom(info));
  const Poly lane = add(number, warp, -kWarp);
  joint_->assume(at_least_zero(lane));
  joint_->assume(at_least_zero(plus(scale(lane, -1), kWarp - 1)));
  return warp;
}

Formula Pair::distinct() {
  std::vector<Formula> any;
  const auto differ = [&](const Poly& a, const Poly& b) {
    any.push_back(at_least_zero(plus(add(a, b, -1), -1)));
    any.push_back(at_least_zero(plus(add(b, a, -1), -1)));
  };
  if (who_ == Who::SameThread) return all_of({});
  if (who_ == Who::OtherWarp) {
    differ(warp(sides_[0]), warp(sides_[1]));
    return any_of(std::move(any));
  }
  const Term* indices = who_ == Who::OtherBlock ? setting_.summary.block : setting_.summary.thread;
  for (int axis = 0; axis < 3; ++axis)
    if (!terms_.value(indices[axis]))
      differ(index(sides_[0], indices[axis]), index(sides_[1], indices[axis]));
  Formula distinct = any_of(std::move(any));
  if (who_ != Who::SameWarp) return distinct;
  return all_of({std::move(distinct), equal_to_zero(add(warp(sides_[0]), warp(sides_[1]), -1))});
}

// Bytes [a, a + its size) and [b, b + its size) have one in common.
Formula Pair::overlap(const Poly& a, const Poly& b) const {
  const Poly distance = add(b, a, -1);
  return all_of({at_least_zero(plus(scale(distance, -1), Int{sides_[0].image.access().bytes} - 1)),
                 at_least_zero(plus(distance, Int{sides_[1].image.access().bytes} - 1))});
}

Formula Pair::meet_by_digits() {
  std::map<Monomial, Poly> rows[2];
  for (int i : {0, 1})
    rows[i] = by_stride(terms_, sides_[i].image.lowered_->lowering, sides_[i].image.offset_, dims_only_);
  std::set<Monomial> all;
  for (const auto& side : rows)
    for (const auto& [stride, row] : side)
      if (!stride.empty()) all.insert(stride);
  std::vector<Monomial> strides(all.begin(), all.end()), taken;
  std::stable_sort(strides.begin(), strides.end(),
                   [](const Monomial& a, const Monomial& b) { return a.size() > b.size(); });
  std::vector<Formula> parts;
  for (const Monomial& stride : strides) {
    Int size = 0;
    for (auto& side : rows)
      for (const auto& [rest, by] : side[stride]) size = common_divisor(size, by);
    taken.push_back(stride);
    if (size == 0 || !sides_[0].image.fits(taken, size, dims_only_) ||
        !sides_[1].image.fits(taken, size, dims_only_)) {
      taken.pop_back();
      break;
    }
    Poly difference;
    for (int i : {0, 1})
      for (const auto& [rest, by] : rows[i][stride])
        difference = add(difference, mapped(sides_[i], Poly{{rest, by / size}}), i == 0 ? 1 : -1);
    parts.push_back(equal_to_zero(difference));
  }
  Poly low[2];
  for (int i : {0, 1}) {
    const Lowering& lowering = sides_[i].image.lowered_->lowering;
    for (const auto& [stride, row] : rows[i])
      if (std::find(taken.begin(), taken.end(), stride) == taken.end() && !row.empty())
        low[i] = add(low[i], mapped(sides_[i], multiply(row, product_of(lowering, stride))));
    low[i] = add(low[i], constant_of_member(sides_[i]));
  }
  parts.push_back(overlap(joint_->delinearised(low[0]), joint_->delinearised(low[1])));
  return all_of(std::move(parts));
}

void Pair::take_facts(Side& side, bool linear_only) {
  const Image& image = side.image;
  const std::vector<Formula> facts = image.lowered_->lowering.facts();
  for (size_t i = 0; i < facts.size(); ++i) {
    // Facts found after others were taken in hold for the first alone.
    if (i < image.common_.size() ? !image.common_[i] : image.accesses_.size() > 1) continue;
    if (linear_only && !is_linear(facts[i])) {
      dropped_ = true;
      continue;
    }
    joint_->assume(mapped(side, facts[i]));
  }
}

// Memory that the kernel does not write: what is read at one address is one value. And of a tensor that promises different
// elements, what is read at two addresses is two values (of slots, if it is no -1): both are whole elements, since only
// those are marked so, and accesses are in bounds.
void Pair::take_loads(bool linear_only) {
  for (const Image::Load& a : sides_[0].image.loads_) {
    for (const Image::Load& b : sides_[1].image.loads_) {
      if (a.base != b.base) continue;
      const auto width = [&](const Side& side, Atom atom) {
        return terms_.var(*side.image.lowered_->lowering.atoms()[atom].var).width;
      };
      if (width(sides_[0], a.value) != width(sides_[1], b.value)) continue;
      const Poly distance = add(mapped(sides_[1], b.address), mapped(sides_[0], a.address), -1);
      const Poly difference = add(mapped(sides_[1], b.value), mapped(sides_[0], a.value), -1);
      Formula same = any_of({at_least_zero(plus(distance, -1)), at_least_zero(plus(scale(distance, -1), -1)),
                             equal_to_zero(difference)});
      if (linear_only && !is_linear(same))
        dropped_ = true;
      else
        joint_->assume(same);
      const auto distinct = [&](const Side& side, Atom atom) {
        return terms_.var(*side.image.lowered_->lowering.atoms()[atom].var).is_one_of_distinct;
      };
      // Of one base, so both or neither.
      if (!distinct(sides_[0], a.value) || !distinct(sides_[1], b.value)) continue;
      Formula different = any_of({equal_to_zero(distance), at_least_zero(plus(difference, -1)),
                                  at_least_zero(plus(scale(difference, -1), -1)),
                                  at_least_zero(plus(scale(mapped(sides_[0], a.value), -1), -1))});
      if (linear_only && !is_linear(different))
        dropped_ = true;
      else
        joint_->assume(different);
    }
  }
}

// Numbers that two threads drew from one counter are different (Ticket), and so are those of two blocks (GridTicket).
void Pair::take_tickets() {
  if (who_ == Who::SameThread) return;
  if (who_ == Who::OtherBlock) {
    for (const GridTicket& ticket : setting_.grid_tickets) take_ticket(ticket.ticket.drawn);
    return;
  }
  for (const Ticket& ticket : tickets_) {
    const bool together = std::all_of(ticket.loops.begin(), ticket.loops.end(),
                                      [&](Var count) { return ahead_of(count) == 0; });
    if (together) take_ticket(ticket.drawn);
  }
}

void Pair::take_ticket(Var drawn) {
  const auto a = sides_[0].image.lowered_->lowering.base_atom(drawn),
             b = sides_[1].image.lowered_->lowering.base_atom(drawn);
  if (!a || !b) return;
  const Poly difference = add(mapped(sides_[0], *a), mapped(sides_[1], *b), -1);
  joint_->assume(
      any_of({at_least_zero(plus(difference, -1)), at_least_zero(plus(scale(difference, -1), -1))}));
}

bool Pair::refuted(bool linear_only, double seconds) {
  begin(seconds);
  const Formula goal = all_of({distinct(), meet_by_digits()});
  for (Side& side : sides_) take_facts(side, linear_only);
  take_loads(linear_only);
  take_tickets();
  joint_->set_deadline(std::min(seconds, setting_.until - work_seconds()));
  return joint_->ask(goal, seconds).kind == Answer::Kind::Unsatisfiable;
}

// The rest after the vectors: one access begins, for all threads, where the other has ended.
bool Pair::one_ends_before_the_other() {
  const std::optional<Poly> begins[2] = {sides_[0].image.begin(), sides_[1].image.begin()};
  for (const int i : {0, 1})
    if (begins[i] && begins[i]->size() > 1 && begins[i] != begins[1 - i] &&
        sides_[1 - i].image.ends_before(*begins[i]))
      return true;
  return false;
}

// A row index may be a multiple of something that all threads agree on, such as how many blocks there are: as a stride of
// its own that is a digit too many where rows and columns are enough. Any choice of strides is a true one.
bool Pair::has_other_strides() const {
  return std::any_of(std::begin(sides_), std::end(sides_), [&](const Side& side) {
    const auto& atoms = side.image.lowered_->lowering.atoms();
    return std::any_of(side.image.offset_.begin(), side.image.offset_.end(), [&](const auto& item) {
      return std::any_of(item.first.begin(), item.first.end(),
                         [&](Atom atom) { return !atoms[atom].is_dim && is_uniform(terms_, atoms[atom]); });
    });
  });
}

bool Pair::disjoint() {
  try {
    dims_only_ = false;
    if (refuted(true, kLinearSeconds)) return true;
    if (has_other_strides()) {
      dims_only_ = true;
      const bool apart = refuted(true, kLinearSeconds);
      dims_only_ = false;
      if (apart) return true;
    }
    if (!dropped_) return false;
    return one_ends_before_the_other() || refuted(false, kWholeSeconds);
  } catch (const TooHard&) {
    return false;
  }
}

std::optional<Candidate> Pair::candidate() {
  try {
    begin(kCounterexampleSeconds);
    const Formula far = distinct();
    Poly at[2];
    for (int i : {0, 1})
      at[i] = add(mapped(sides_[i], sides_[i].image.offset_), constant_of_member(sides_[i]));
    const Formula goal = all_of({far, overlap(at[0], at[1])});
    for (Side& side : sides_) take_facts(side, false);
    take_loads(false);
    take_tickets();
    const Answer answer = joint_->small_model(goal, kCounterexampleSeconds, setting_.until);
    if (answer.kind != Answer::Kind::Satisfiable) return std::nullopt;
    const std::map<Var, Int> values = joint_->values(answer);
    Candidate candidate{setting_.dims.shape(values), ""};
    for (const auto& [var, value] : values) {
      const Variable& variable = terms_.var(var);
      if (variable.kind != VarKind::Thread && variable.kind != VarKind::Block) continue;
      candidate.words +=
          fmt::format("{}{} = {}", candidate.words.empty() ? "" : ", ", variable.name, decimal(value));
    }
    return candidate;
  } catch (const TooHard&) {
  }
  return std::nullopt;
}

}  // namespace assay::prove
