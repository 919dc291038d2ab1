// Two accesses in one question.
//
// Each access is lowered once, by itself, under the conditions of its own path: its offset becomes a
// polynomial, and all that is known about the polynomial's atoms (loops, wraps, quotients) is shown for one
// thread. A question about two threads is then put together from two such images: the atoms of the second
// become others, apart from those that both threads share (dims, what the block or a common iteration gives
// them), and the facts of both hold at once. Nothing is shown twice.
//
// Digits. An offset g s R + low with 0 <= low and low + bytes <= g s, for a stride s that all threads agree
// on, lies in cell R of size g s. Two accesses that overlap lie in the same cell: their R are equal, and what
// is left to compare is low. That low stays within the stride is shown once for each access. So rows and
// columns come apart, products vanish, and what the solver gets is linear.
#pragma once

#include <memory>
#include <tuple>

#include "prove/obligation.h"
#include "prove/race_intervals.h"

namespace assay::prove {

// An access, or several that differ by a constant in their offset, ready to be compared with others.
class Image {
 public:
  // `written`: the arrays that the kernel writes; two loads of one place of another one give one value.
  Image(Setting& setting, const Access& access, const Part& part, bool whole_path,
        const std::set<std::string>& written);

  // Takes another in. False: they differ by more than a constant.
  bool absorb(const Image& other);

  // Whether what is left of every member's offset without these strides stays within `size` times the last of
  // them.
  bool fits(const std::vector<Monomial>& strides, Int size, bool dims_only);

  // What all threads agree on in its offset, where the rest is never negative: it begins no earlier. By keys.
  std::optional<Poly> begin() const;
  // Whether every member ends before this.
  bool ends_before(const Poly& bound);

  const Access& access() const { return *accesses_.front(); }
  const std::vector<const Access*>& accesses() const { return accesses_; }
  const Array& array() const { return *lowered_->array; }

 private:
  friend class Pair;
  struct Load {
    Atom value;
    Poly address;
    Var base;
  };
  // Its offset by keys, without the constant.
  std::string shape() const;
  void find_loads(const std::set<std::string>& written);

  Setting& setting_;
  std::vector<const Access*> accesses_;
  std::shared_ptr<Lowered> lowered_;  // of the first
  Poly offset_;
  std::vector<Int> constants_;                     // of the members: how far each is from the first
  std::vector<std::shared_ptr<Lowered>> members_;  // the others
  std::vector<Load> loads_;
  std::vector<bool> common_;      // by fact: whether it holds for all members
  std::vector<Interval> bounds_;  // by atom: of all members
  std::map<std::tuple<std::vector<Monomial>, Int, bool>, bool> fits_;
  std::map<Poly, bool> ends_before_;
};

// Who the two threads are.
enum class Who : uint8_t {
  SameBlock,   // two threads of a block
  SameWarp,    // two lanes of a warp
  OtherWarp,   // threads of different warps of a block
  OtherBlock,  // threads of different blocks
  SameThread,  // one thread, twice
};

class Pair {
 public:
  // `tickets`: those that are known to differ between threads.
  Pair(Setting& setting, const std::vector<Ticket>& tickets, Image& a, Image& b, Who who, Meeting meeting);

  // No two such threads touch the same byte.
  bool disjoint();
  // A shape where they may.
  std::optional<Candidate> candidate();

 private:
  struct Side {
    Image& image;
    bool second;
    std::map<Atom, Poly> mapped;
    std::map<uint32_t, Atom> own;  // by key: atoms that the two do not share
  };
  bool is_shared(Var var) const;
  bool is_first(const Side& side, Var count) const;
  std::optional<int> ahead_of(Var count) const;
  Poly mapped(Side& side, Atom atom);
  Poly mapped(Side& side, const Poly& poly);
  Formula mapped(Side& side, const Formula& formula);
  Poly index(Side& side, Term term);
  Poly constant_of_member(Side& side);
  Poly warp(Side& side);
  Formula distinct();
  Formula overlap(const Poly& a, const Poly& b) const;
  Formula meet_by_digits();
  void take_facts(Side& side, bool linear_only);
  void take_loads(bool linear_only);
  void take_tickets();
  void take_ticket(Var drawn);
  void begin(double seconds);
  bool one_ends_before_the_other();
  bool has_other_strides() const;
  bool refuted(bool linear_only, double seconds);

  Setting& setting_;
  const std::vector<Ticket>& tickets_;
  Terms& terms_;
  Who who_;
  Meeting meeting_;
  std::unique_ptr<Lowering> joint_;
  std::map<uint32_t, Atom> shared_;  // by key
  bool dropped_ = false;             // a fact was left out
  bool dims_only_ = false;           // strides are products of dims
  Side sides_[2];
};

}  // namespace assay::prove
