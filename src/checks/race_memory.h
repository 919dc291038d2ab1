// Compares each access to device memory with what memory remembers of earlier ones (race_shadow.h), and
// remembers it.
//
// An access goes three ways, each for what the one before cannot judge: the lanes that share a row against
// its marks; the row word by word; lane by lane.
#pragma once

#include "checks/race_grid_reads.h"
#include "checks/race_settled.h"
#include "checks/race_state.h"
#include "checks/race_words.h"
#include "checks/spin_lock.h"

namespace assay::checks {

// Holds the lock of one row at a time.
class RowLock {
 public:
  // That one lock covers: as much as two warps read side by side. Blocks that run in step over neighbouring columns of a
  // matrix waited for each other when it was more: with 16 KiB, a product on 16 cores took as long as on one.
  static constexpr uint64_t kBytes = 256;
  explicit RowLock(std::vector<SpinLock>& locks) : locks_(locks) {}
  ~RowLock() {
    if (held_) held_->unlock();
  }
  RowLock(const RowLock&) = delete;
  RowLock& operator=(const RowLock&) = delete;
  void hold(vgpu::Address address) {
    SpinLock* lock = &locks_[address / kBytes & (locks_.size() - 1)];
    if (lock == held_) return;
    if (held_) held_->unlock();
    (held_ = lock)->lock();
  }

 private:
  std::vector<SpinLock>& locks_;
  SpinLock* held_ = nullptr;
};

class RaceMemory {
 public:
  explicit RaceMemory(RaceContext& context);
  // Whether a weak read of a block teaches nothing.
  bool is_settled(const BlockState& state, const vgpu::Access& access) const {
    return state.settles && settled_.covers(state.operation->first, access);
  }
  bool is_settled(const BlockState& state, const vgpu::ShapedLoad& load) const {
    return state.settles && settled_.covers(state.operation->first, AddressPattern(load));
  }
  void prefetch(const vgpu::ShapedLoad& load) const {
    global_.prefetch(load.first, load.first + 1);
    global_.prefetch(load.second, load.second + 1);
  }
  // The rows that an instruction will want when it goes on as it did since `last`.
  void prefetch(const vgpu::Access& access, vgpu::Address last) const {
    const vgpu::Address ahead = access.addresses[0] - last;
    if (access.kind == vgpu::AccessKind::Store && access.shape != vgpu::Shape::Other &&
        !global_.is_detailed(access.addresses[0]))
      return global_.prefetch_whole(access.addresses[0] + ahead);
    global_.prefetch(access.addresses[0] + ahead, access.addresses[31] + access.bytes + ahead);
    if (access.shape != vgpu::Shape::Other || access.kind != vgpu::AccessKind::Load) return;
    for (const Address at : std::span(access.addresses, vgpu::kWarpSize)) words_.prefetch(at + ahead);
  }
  // Before the blocks of a grid: its number among the authors of accesses to single words. `alone`: no other is under way.
  uint32_t number_grid(bool alone) {
    if (alone) words_.make_room();
    return words_.number_grid();
  }
  // What a grid, or another operation that writes, does with memory, as far as can be told when it begins. Under the
  // context's mutex.
  GridReads::Uses begin_grid(const vgpu::LaunchInfo& launch, const Operation& operation,
                             uint32_t ordered_below) {
    return reads_.begin_grid(launch, operation, ordered_below);
  }
  void end_grid(const Operation& operation) { reads_.end_grid(operation); }
  bool begin_write(const vgpu::RangeInfo& range, const Operation& operation, uint32_t ordered_below) {
    return !range.host && reads_.begin_write(range.address, operation, ordered_below);
  }
  // A weak load of what its grid cannot write. False: `access` has to remember it.
  template <class Loads>
  bool note_only_read(const BlockState& state, Who who, const Loads& loads) {
    return !context_.scope.between_operations || reads_.note(*state.operation, who, loads);
  }
  void access(const Actor& actor);
  // A weak load or store of regular addresses: compares it with the marks of its rows, and remembers it, where these can
  // tell. False: `access` has to judge it. What was remembered until then, `access` remembers again.
  bool note(const Actor& actor, const AddressPattern& pattern);
  // A copy or a fill.
  void touch(BlockState& state, const vgpu::RangeInfo& range, vgpu::AccessKind kind);
  void clear() {
    global_.clear();
    settled_.clear();
    words_.clear();
    reads_.clear();
  }

 private:
  using Address = vgpu::Address;

  RaceContext& context_;
  RowShadow global_;
  SettledRows settled_;
  SingleWords words_;
  GridReads reads_;
  std::vector<SpinLock> locks_;

  Row& row_at(RowLock& lock, Address address) {
    lock.hold(address);
    return global_.at(address);
  }
  // Compares and remembers; false: the marks of a row cannot tell.
  inline bool try_row(const Actor& actor, Row& row, const RowMark& now);
  inline void by_row(const Actor& actor, RowLock& lock, Address start, const RowMark& now);
  // The same for a weak write of a whole row; false: `by_row` has to do it.
  inline bool note_whole(const Actor& actor, RowLock& lock, Address start, const RowMark& now);
  inline void fold(Address start, Row& row, const RowMark& now);
  void by_words(const Actor& actor, Row& row, Address start, const RowMark& now);
  // Compares and remembers weak loads of single words, and stores. Those lanes for which that does not work.
  uint32_t load_words(const Actor& actor, RowLock& lock, uint32_t lanes);
  uint32_t store_words(const Actor& actor, RowLock& lock, uint32_t lanes);
  bool fit_words(const Actor& actor) const;
  void judge_word(const Actor& actor, const Touch& before, const Touch& now, Address word);
  // Compares an access to a word with the last store to it.
  void meet_store(const Actor& actor, Address word, const Touch& now);
  // Whether marks and cells hold no write of the grid to these words of a row.
  // `marks`: the others of the row are expected to be read, too.
  bool open(const Actor& actor, RowLock& lock, Address start, uint16_t words, bool marks);
  // Words of a row are written. False: nothing is remembered of its single words.
  bool close(const Actor& actor, Address at, uint16_t words);
  // Compares an access to a row with what is remembered of its single words.
  void meet_words(const Actor& actor, Address start, const RowMark& now);
  void meet_word(const Actor& actor, Address word, const Touch& now);
  // Words of a row whose last store to a single word may still matter.
  uint16_t stored_words(const Actor& actor, Address start);
  // After an access to a row: which of its words are settled now.
  void settle(const Actor& actor, Row& row, Address start, uint16_t touched);
  // The same for a row that has marks; words of which stores are remembered are not settled.
  inline void settle_marks(const Actor& actor, const Row& row, Address start, uint16_t stored);
  uint16_t settled_of(const Actor& actor, const Cells& cells, uint16_t words) const;
  bool stay(const Actor& actor, Who a, Who b) const;
  // Bytes [low, high), whole words, of consecutive lanes from `lane` on; with `several`, all by several
  // lanes.
  inline void by_range(const Actor& actor, RowLock& lock, Address low, Address high, uint32_t lane,
                       uint32_t shift, bool several);
  // The same, as long as marks can tell.
  inline bool note_range(const Actor& actor, RowLock& lock, Address low, Address high, uint32_t lane,
                         uint32_t shift, bool several);
  bool in_run(const Actor& actor, RowLock& lock, uint32_t lane, uint32_t lanes, bool several);
  void at_one_place(const Actor& actor, RowLock& lock, uint32_t lane, uint32_t lanes);
  void by_groups(const Actor& actor, RowLock& lock, uint32_t lanes);
  void by_lane(const Actor& actor, RowLock& lock, uint32_t lanes);
  void by_word(const Actor& actor, RowLock& lock, uint32_t lane, Address address, uint64_t size,
               bool several);
  void visit(const Actor& actor, Cells& cells, uint32_t word, Address address, const Touch& now);
  void judge(const Actor& actor, const Touch& before, const Touch& now, Address address);
  void touch_bytes(const Actor& actor, RowLock& lock, Address low, uint64_t bytes);
  // Compares a write with reads that are remembered by rows only (race_grid_reads.h).
  void meet_reads(const Actor& actor, uint32_t lane, Address low, uint64_t bytes);
  void meet_reads(const Actor& actor);
};

}  // namespace assay::checks
