// No two accesses race.
//
// A race is two accesses of the same byte by different threads, at least one of them a write, that nothing
// orders. Within a block, barriers order accesses (race_intervals.h), and within a warp bar.warp.sync does, too.
// Nothing else counts: there is no lockstep, and a shuffle orders no memory. Between blocks nothing is ordered but what the
// last block to draw a number does behind that (messages.h).
// Two strong operations (atomics, and loads and stores that say so) of one size do not race if the
// scope of both includes the other thread. For all other pairs the question is whether the two threads can
// meet in a byte at all (race_pair.h).
//
// A volatile load and a volatile store are strong. But a lane that reads in shared memory what another lane of its warp
// writes relies on lockstep, which a run reports as a race (checks/race_lanes.h), so such pairs are compared as well.
//
// Unrolled loops have many accesses that differ by a constant in their offset. They are compared as one,
// under the facts that hold for all of them; where that is not enough, one by one.
#include <fmt/format.h>

#include <algorithm>

#include "prove/messages.h"
#include "prove/race_pair.h"

namespace assay::prove {

namespace {

using ptx::Mod;
using ptx::Opcode;
using ptx::Space;

constexpr size_t kMostCandidates = 4;  // shapes that are looked for
constexpr size_t kMostChoices = 4;     // parts that one access is taken apart into
constexpr Int kMostStep = 1 << 20;     // of a ticket: 1024 of them stay below 2^31
constexpr size_t kMostOpen = 12;       // pairs not proved, after which the rest is not looked at

bool is_volatile(const Access& access) {
  return access.instruction->has(Mod::volatile_) && access.effect != Effect::Atomic;
}

bool orders_warp(const ptx::Instruction& i) {
  return i.opcode == Opcode::bar_warp_sync && i.operands[0].kind == ptx::Operand::Kind::Immediate &&
         static_cast<uint32_t>(i.operands[0].bits) == 0xffffffff;
}

// An offset that chooses between two values (an unrolled loop that begins with the remainder, say) is taken
// apart: with each of them it is a plain sum, of which the strides can be seen. One of the parts holds for every
// thread.
std::vector<Part> without_choices(Terms& terms, Part whole) {
  std::vector<Part> open = {std::move(whole)}, done;
  while (!open.empty()) {
    Part part = std::move(open.back());
    open.pop_back();
    Term choice = kNoTerm;
    for (const auto& [leaves, by] : terms.ring(part.address))
      for (const Term leaf : leaves)
        if (terms[leaf].op == Op::Ite) choice = leaf;
    if (choice == kNoTerm || done.size() + open.size() + 1 >= kMostChoices) {
      done.push_back(std::move(part));
      continue;
    }
    for (Part& side : sides_of(terms, part, choice)) open.push_back(std::move(side));
  }
  return done;
}

struct One {
  const Access* access;
  uint32_t at;        // instruction
  std::string place;  // the array, or the one that it may share its memory with
  bool shared = false;
  Part part;
  std::unique_ptr<Image> image;
  std::unique_ptr<Image> whole{};  // under all conditions of its path; made where it is needed
};

struct Family {
  std::vector<One*> members;
  std::unique_ptr<Image> image;
};

class Races {
 public:
  explicit Races(Setting& setting) : setting_(setting), summary_(setting.summary) {}

  Obligation run() {
    Obligation result;
    result.kernel = setting_.kernel.name;
    result.name = "race";
    const double start = work_seconds();
    gather(result);
    if (!ones_.empty()) {
      std::set<uint32_t> all_barriers, accesses;
      std::set<uint32_t>& block_barriers = block_barriers_;
      for (uint32_t i = 0; i < setting_.kernel.body.size(); ++i) {
        if (orders_block(setting_.kernel.body[i])) block_barriers.insert(i);
        if (orders_warp(setting_.kernel.body[i])) all_barriers.insert(i);
      }
      warp_barriers_ = !all_barriers.empty();
      all_barriers.insert(block_barriers.begin(), block_barriers.end());
      for (const One& one : ones_) accesses.insert(one.at);
      in_block_ = std::make_unique<Intervals>(summary_.graph, setting_.kernel, block_barriers, accesses);
      order_ = std::make_unique<BlockOrder>(setting_, *in_block_, block_barriers_);
      in_warp_ = std::make_unique<Intervals>(summary_.graph, setting_.kernel, all_barriers, accesses);
      for (const Ticket& ticket : summary_.tickets)
        if (differs_between_threads(ticket)) tickets_.push_back(ticket);
      compare_all();
    }
    for (const std::string& gap : summary_.gaps) result.open.push_back({{}, gap, std::nullopt});
    for (auto& [access, place] : open_) {
      Place here = setting_.place(*access->instruction, std::move(place.reason));
      here.candidate = std::move(place.candidate);
      result.open.push_back(std::move(here));
    }
    result.status = result.open.empty() ? Status::Proved : Status::Unknown;
    // Of a kernel that is not proved as a whole, some pairs may not have been looked at.
    if (result.status == Status::Proved)
      for (const Access& access : summary_.accesses)
        result.proved.push_back(setting_.place(*access.instruction));
    result.seconds = work_seconds() - start;
    return result;
  }

 private:
  // ---- what is compared

  std::string place_of(const Array& array) const {
    return array.tensor && !array.tensor->may_alias.empty() ? array.tensor->may_alias : array.name;
  }

  void gather(Obligation& result) {
    struct Found {
      const Access* access;
      Part part;
      const Array* array;
    };
    std::vector<Found> found;
    std::set<std::string> touched;  // by more than reads
    bool anywhere = false;
    for (const Access& access : summary_.accesses) {
      if (access.space == Space::Local || access.space == Space::Const || access.space == Space::Param)
        continue;
      ++result.total;
      for (const Part& part : parts_of(setting_.terms, access)) {
        const auto base = base_of(setting_.terms, part.address);
        if (!base) {
          note(access, "it is not clear which array the address begins in");
          anywhere |= access.effect != Effect::Read;
          continue;
        }
        const Array& array = summary_.arrays.at(*base);
        if (array.space == Space::Local || array.space == Space::Const) continue;
        for (Part& plain : without_choices(setting_.terms, part))
          found.push_back({&access, std::move(plain), &array});
        if (access.effect != Effect::Read) touched.insert(place_of(array));
      }
    }
    std::set<std::string> written = touched;
    if (anywhere)
      for (const auto& [base, array] : summary_.arrays) written.insert(array.name);
    for (const auto& [base, array] : summary_.arrays)
      if (touched.contains(place_of(array))) written.insert(array.name);
    for (const Found& one : found) {
      const std::string place = place_of(*one.array);
      if (!touched.contains(place)) continue;
      try {
        auto image = std::make_unique<Image>(setting_, *one.access, one.part, false, written);
        const auto at = static_cast<uint32_t>(one.access->instruction - setting_.kernel.body.data());
        ones_.push_back(
            {one.access, at, place, one.array->space == Space::Shared, one.part, std::move(image)});
      } catch (const TooHard& hard) {
        note(*one.access, hard.why);
      }
    }
    written_ = std::move(written);
    unclear_write_ = anywhere || !open_.empty();
    for (One& one : ones_) join(one);
  }

  void join(One& one) {
    for (Family& family : families_) {
      const One& first = *family.members.front();
      if (first.place != one.place || first.access->effect != one.access->effect ||
          first.access->bytes != one.access->bytes || first.access->loops != one.access->loops ||
          strength_of(*first.access) != strength_of(*one.access) ||
          is_volatile(*first.access) != is_volatile(*one.access) || is_special(first) || is_special(one))
        continue;
      if (!family.image->absorb(*one.image)) continue;
      family.members.push_back(&one);
      return;
    }
    families_.push_back({{&one}, std::make_unique<Image>(*one.image)});
  }

  // Compared by rules of their own.
  static bool is_special(const One& one) {
    return one.access->instruction->opcode == Opcode::wmma_store_d ||
           one.access->instruction->opcode == Opcode::cp_async || one.access->instruction->has(Mod::nc);
  }

  static bool conflict(const Access& a, const Access& b, Strength needed) {
    if (a.effect == Effect::Read && b.effect == Effect::Read) return false;
    return strength_of(a) < needed || strength_of(b) < needed || a.bytes != b.bytes;
  }

  // Of two lanes of a warp, in shared memory.
  static bool relies_on_step(const Access& a, const Access& b) {
    return is_volatile(a) && is_volatile(b) && a.effect != b.effect;
  }

  bool one_thread() const {
    return std::all_of(summary_.thread, summary_.thread + 3,
                       [&](Term t) { return setting_.terms.value(t).has_value(); });
  }
  bool one_block() const {
    return std::all_of(summary_.block, summary_.block + 3,
                       [&](Term t) { return setting_.terms.value(t).has_value(); });
  }

  // Two threads that draw from one counter of their block between the same barriers get different numbers, if
  // nothing else writes the counter there, and no thread draws twice: then each draw finds what the earlier ones
  // have left, which grows, and too few threads draw for it to wrap.
  bool differs_between_threads(const Ticket& ticket) {
    Terms& terms = setting_.terms;
    const auto base = base_of(terms, ticket.address);
    if (!base || summary_.arrays.at(*base).space != Space::Shared || ticket.step > kMostStep ||
        ticket.limit != kNoTerm)
      return false;
    const auto& vars = terms.mentions(ticket.address);
    if (std::any_of(vars.begin(), vars.end(), [&](Var v) { return terms.var(v).kind != VarKind::Base; }))
      return false;
    const auto at = static_cast<uint32_t>(ticket.instruction - setting_.kernel.body.data());
    const auto together = [&](const Meeting& meeting) {
      return std::all_of(ticket.loops.begin(), ticket.loops.end(), [&](Var count) {
        const auto found = meeting.ahead.find(summary_.loops.at(count).head);
        return found != meeting.ahead.end() && found->second == 0;
      });
    };
    const std::set<Meeting> own = in_block_->meetings(at, at);
    if (!std::all_of(own.begin(), own.end(), together)) return false;
    const std::string& place = summary_.arrays.at(*base).name;
    return !unclear_write_ && std::none_of(ones_.begin(), ones_.end(), [&](const One& one) {
      return one.place == place && one.access->effect != Effect::Read && one.at != at &&
             !in_block_->meetings(at, one.at).empty();
    });
  }

  // ---- comparing

  void compare_all() {
    for (size_t i = 0; i < families_.size(); ++i)
      for (size_t j = i; j < families_.size(); ++j) {
        if (families_[i].members.front()->place != families_[j].members.front()->place) continue;
        if (opened_ >= kMostOpen) return;
        compare(families_[i], families_[j]);
      }
    for (One& one : ones_) {
      if (one.access->instruction->opcode == Opcode::cp_async) compare_with_own(one);
      if (one.access->instruction->has(Mod::nc)) compare_cached(one);
    }
  }

  void compare(Family& a, Family& b) {
    const One &first = *a.members.front(), &second = *b.members.front();
    if (!one_thread() && conflict(*first.access, *second.access, Strength::Block)) {
      std::set<Meeting> meetings;
      for (One* x : a.members)
        for (One* y : b.members) meetings.merge(in_block_->meetings(x->at, y->at));
      keep_weakest(meetings);
      const bool single = a.members.size() == 1 && b.members.size() == 1;
      for (const Meeting& meeting : meetings) {
        if (!single && Pair(setting_, tickets_, *a.image, *b.image, Who::SameBlock, meeting).disjoint())
          continue;
        compare_members_in_block(a, b);
        break;
      }
    } else if (!one_thread() && first.shared && relies_on_step(*first.access, *second.access)) {
      for_members(a, b, [&](One& x, One& y) {
        for (const Meeting& meeting : in_warp_->meetings(x.at, y.at)) {
          if (apart(x, y, Who::SameWarp, meeting)) continue;
          open(x, y, Who::SameWarp, meeting);
          return;
        }
      });
    }
    if (!one_block() && !first.shared && conflict(*first.access, *second.access, Strength::Device) &&
        !Pair(setting_, tickets_, *a.image, *b.image, Who::OtherBlock, {}).disjoint())
      for_members(a, b, [&](One& x, One& y) {
        if (!ordered(*x.access, *y.access) && !apart(x, y, Who::OtherBlock, {}))
          open(x, y, Who::OtherBlock, {});
      });
  }

  bool ordered(const Access& a, const Access& b) {
    return order_->is_before(a, b) || order_->is_before(b, a);
  }

  // Whether a value that both have read decides if they get here follows from the path alone, and makes for
  // long questions: it is asked last.
  bool apart(One& x, One& y, Who who, const Meeting& meeting) {
    if (Pair(setting_, tickets_, *x.image, *y.image, who, meeting).disjoint()) return true;
    if (!reads_on_the_way(x) || !reads_on_the_way(y)) return false;
    try {
      return Pair(setting_, tickets_, whole(x), whole(y), who, meeting).disjoint();
    } catch (const TooHard&) {
      return false;
    }
  }

  bool reads_on_the_way(const One& one) {
    Terms& terms = setting_.terms;
    return std::any_of(one.access->path.begin(), one.access->path.end(), [&](Term condition) {
      const auto& vars = terms.mentions(condition);
      return std::any_of(vars.begin(), vars.end(), [&](Var v) {
        return terms.var(v).loaded_from != kNoTerm || terms.var(v).is_of_block;
      });
    });
  }

  Image& whole(One& one) {
    if (!one.whole) one.whole = std::make_unique<Image>(setting_, *one.access, one.part, true, written_);
    return *one.whole;
  }

  template <class Do>
  void for_members(const Family& a, const Family& b, Do act) {
    for (size_t i = 0; i < a.members.size(); ++i)
      for (size_t j = &a == &b ? i : 0; j < b.members.size(); ++j) {
        if (setting_.out_of_time()) {
          note(*a.members[i]->access, "time ran out");
          return;
        }
        if (opened_ < kMostOpen) act(*a.members[i], *b.members[j]);
      }
  }

  void compare_members_in_block(const Family& a, const Family& b) {
    for_members(a, b, [&](One& x, One& y) {
      for (const Meeting& meeting : in_block_->meetings(x.at, y.at)) {
        const bool fragment = &x == &y && x.access->instruction->opcode == Opcode::wmma_store_d;
        if (!fragment && apart(x, y, Who::SameBlock, meeting)) continue;
        if (warp_barriers_ || fragment) {
          if (apart(x, y, Who::OtherWarp, meeting) && apart_in_warp(x, y, fragment)) continue;
        }
        open(x, y, Who::SameBlock, meeting);
        return;
      }
    });
  }

  // Lanes of a warp: bar.warp.sync orders them, too. The lanes that store one fragment together store
  // different parts of it.
  bool apart_in_warp(One& x, One& y, bool fragment) {
    for (const Meeting& meeting : in_warp_->meetings(x.at, y.at)) {
      const bool together =
          fragment && std::all_of(x.access->loops.begin(), x.access->loops.end(), [&](Var count) {
            const auto found = meeting.ahead.find(summary_.loops.at(count).head);
            return found != meeting.ahead.end() && found->second == 0;
          });
      if (!together && !apart(x, y, Who::SameWarp, meeting)) return false;
    }
    return true;
  }

  // A copy under way and what its own thread does meanwhile.
  void compare_with_own(One& copy) {
    for (One& other : ones_) {
      if (other.place != copy.place || !conflict(*copy.access, *other.access, Strength::Device)) continue;
      const auto& during = in_block_->during(copy.at);
      const auto found = during.find(other.at);
      if (found == during.end()) continue;
      for (const Meeting& meeting : found->second) {
        if (apart(copy, other, Who::SameThread, meeting)) continue;
        open(copy, other, Who::SameThread, meeting);
        break;
      }
    }
  }

  // ld.global.nc may give what the memory held before the kernel wrote it, even to the thread that did, and also across
  // a barrier. One that reads before the write is fine: it takes a path from the write to the load, also where another
  // thread writes, because all threads pass the same barriers.
  void compare_cached(One& load) {
    for (One& other : ones_) {
      if (other.place != load.place || other.access->effect == Effect::Read ||
          !summary_.graph.reaches(other.at, load.at))
        continue;
      if (!apart(other, load, Who::SameThread, {})) {
        open(other, load, Who::SameThread, {});
      } else if (!one_thread() && !apart(other, load, Who::SameBlock, {})) {
        open(other, load, Who::SameBlock, {});
      }
    }
  }

  // ---- what is not proved

  void note(const Access& access, std::string reason) {
    open_.try_emplace(&access, Place{{}, std::move(reason), std::nullopt});
  }

  void open(One& x, One& y, Who who, const Meeting& meeting) {
    ++opened_;
    const auto effect = [](const Access& access) {
      return access.effect == Effect::Read ? "read" : access.effect == Effect::Write ? "write" : "atomic";
    };
    const Where other = setting_.where(*y.access->instruction);
    std::string reason =
        fmt::format("{} of {}: not proved disjoint from the {} at line {} {}", effect(*x.access),
                    x.image->array().name, effect(*y.access), other.line,
                    who == Who::OtherBlock   ? "by a thread of another block"
                    : who == Who::SameThread ? "by the same thread"
                    : who == Who::SameWarp   ? "by another lane of the warp, which may not run in lockstep"
                                             : "by another thread of the block, between the same barriers");
    Place place{{}, std::move(reason), std::nullopt};
    if (candidates_ < std::min(kMostCandidates, setting_.most_counterexamples) && !setting_.out_of_time()) {
      place.candidate = candidate(x, y, who, meeting);
      candidates_ += place.candidate.has_value();
    }
    const auto [at, is_new] = open_.try_emplace(x.access, place);
    if (!is_new && !at->second.candidate) at->second = std::move(place);
    if (!open_.contains(y.access)) note(*y.access, "see the other access");
  }

  std::optional<Candidate> candidate(One& x, One& y, Who who, const Meeting& meeting) {
    try {
      return Pair(setting_, tickets_, whole(x), whole(y), who, meeting).candidate();
    } catch (const TooHard&) {
      return std::nullopt;
    }
  }

  Setting& setting_;
  const Summary& summary_;
  std::vector<One> ones_;
  std::vector<Family> families_;
  std::set<std::string> written_;
  bool unclear_write_ = false;   // some access is not among `ones_`
  std::vector<Ticket> tickets_;  // that differ between threads
  std::set<uint32_t> block_barriers_;
  std::unique_ptr<Intervals> in_block_, in_warp_;
  std::unique_ptr<BlockOrder> order_;
  bool warp_barriers_ = false;
  std::map<const Access*, Place> open_;
  size_t opened_ = 0, candidates_ = 0;
};

}  // namespace

Obligation prove_races(Setting& setting) {
  return Races(setting).run();
}

}  // namespace assay::prove
