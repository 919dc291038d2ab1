// The race check's record of a block's shared memory: three cells of 32 bits for every word, so that a warp's
// access is compared and stored with a few vector instructions, whatever its addresses.
//
//   write   the last write
//   read    the first read since it
//   other   the latest read by another thread
//
//   bits  0-3   bytes    of the word; 0: nothing
//         4-5   share    which lanes of the warp: one, several, or one for each half or byte
//         6-10  lane     the first of them
//        11-15  warp
//        16     strong
//        17-31  author   a tick and an instruction, numbered in the order of arrival, 1 to 16,383. Above:
//                        copies in flight, and other blocks of the cluster (race_cluster.h)
//
// Author numbers grow with time, so one number says how much of another warp happens before: all its cells
// below that number. This decides nearly every comparison; the rest goes to race_judge.h. When the numbers
// run out, everything so far is forgotten, which can hide a race but never invents one.
//
// Most phases between two barriers either write or read. So reads are queued until the first write, and
// compared then; a barrier of the whole block empties the queue.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "checks/race_shadow.h"
#include "vgpu/watch.h"

namespace assay::checks {

struct Actor;
struct BlockClock;
struct BlockState;
using BlockId = uint32_t;
struct RaceContext;

class SharedShadow {
 public:
  // A block begins. What an earlier one left is past.
  // `alone`: no other block reaches its memory.
  void begin(uint32_t bytes, size_t warps, bool vectors, bool alone);
  // The clocks of some warps may have advanced: what they know is taken over. `whole`: all threads have met.
  void advance(const BlockClock& clock, bool whole);
  void advance(const BlockClock& clock, uint32_t warp);

  // Notes a read, if that is enough for now.
  bool note(Who who, const vgpu::Access& access) {
    const Known& known = recent_[who.warp() * kCached + who.site() % kCached];
    if (may_meet_writes() || known.who != who || noted_ == room_ ||
        (known.cell >> kAuthorShift) < first_author_)
      return false;
    if (access.shape == vgpu::Shape::Other) return note_places(known.cell, access);
    const vgpu::Address* at = access.addresses;
    reads_[noted_++] = {known.cell, access.lanes,  access.bytes,  access.shape,
                        0,          narrow(at[0]), narrow(at[16])};
    return true;
  }
  // The same for many of one warp; their instructions are looked up when they are caught up on. `who` has no
  // site.
  bool note(RaceContext& context, BlockState& state, const vgpu::Warp& warp, Who who,
            std::span<const vgpu::ShapedLoad> loads);
  void access(RaceContext& context, const Actor& actor);
  // An access that is remembered as that of `author`, who is not of this block: another block's warp, or a
  // copy.
  void access_from_outside(RaceContext& context, const Actor& actor, Who author);
  // All other blocks' accesses so far come before everything to come. Copies stay: they have the number
  // `copies`.
  void forget_outside(BlockId copies);
  // Other blocks' accesses so far are done before this one ends, whether anything else orders them or not.
  void keep_outside() { kept_ = next_flying_; }
  // What is remembered of weak accesses by other blocks, since then.
  struct Outside {
    Who who;
    uint32_t lane, word;
  };
  std::vector<Outside> weak_from_outside(BlockId copies) const;
  // Copies in flight no longer read this.
  void land(vgpu::Address low, uint64_t bytes);

 private:
  static constexpr uint32_t kBytes = 0xf, kShare = 3u << 4, kLane = 31u << 6, kWarp = 31u << 11,
                            kStrongBit = 1u << 16, kFlying = 1u << 31;
  static constexpr uint32_t kAuthorShift = 17, kMostAuthors = 1u << 14, kCached = 16;
  enum Share : uint32_t { kOne = 0, kSeveral = 1u << 4, kHalves = 2u << 4, kQuarters = 3u << 4 };

  struct Known {  // an author, and the cells of it without lane and bytes
    Who who;
    uint32_t cell = 0;
  };
  struct Knowledge {
    alignas(64) uint32_t below[32];  // by warp: cells below this come before
  };
  // What one access brings along.
  struct Visit {
    RaceContext& context;
    const Actor& actor;
    uint32_t cell;  // the author's, without lane, share and bytes
    bool writes;
    const uint32_t* below;
  };
  struct Read {  // noted
    uint32_t cell;
    uint32_t lanes;
    uint32_t bytes;
    vgpu::Shape shape;
    uint32_t places;         // index into places_, where there is no shape; else:
    uint32_t first, second;  // addresses of lanes 0 and 16
  };
  using Places = std::array<uint32_t, 32>;
  static constexpr uint32_t kMostReads = 256, kMostPlaces = 128, kMostLoads = 512;
  static uint32_t narrow(vgpu::Address a) { return a < UINT32_MAX ? static_cast<uint32_t>(a) : UINT32_MAX; }
  struct WideEight;  // the same for several words at a time (race_shared_vectors.h)
  struct WideSixteen;
  friend struct WideEight;
  friend struct WideSixteen;

  uint32_t words_ = 0;
  std::vector<uint32_t> cells_;  // all writes, then all reads, then all others
  uint32_t next_ = 1;            // author
  uint32_t past_ = 0;            // cells below are of earlier phases
  bool wrote_ = false;           // there was a write in this phase,
  bool read_ = false;            // or read,
  bool copies_read_ = false;     // or had a copy in flight read, in this phase or before
  std::vector<Who> authors_;     // of this phase
  uint32_t first_author_ = 1;
  std::vector<Who> flying_;  // a ring
  uint32_t next_flying_ = 0;
  bool outside_ = false;              // other blocks have been here
  uint32_t kept_ = 0;                 // authors that fly below this do not outlive the block
  std::vector<Known> recent_;         // by warp and site
  std::vector<Knowledge> knowledge_;  // by warp
  Knowledge beginning_;               // what everybody knows
  std::vector<uint32_t> ticks_;       // by warp
  std::vector<uint32_t>
      ordered_;                  // by warp: one that flies and came before it, as it turned out last; 0: none
  std::vector<uint32_t> began_;  // by warp: the next author when its tick began
  enum class Vectors : uint8_t { None, Eight, Sixteen } vectors_ = Vectors::None;
  std::vector<Read> reads_;  // of this phase, in which there was no write: the first noted_
  std::vector<Places> places_;
  uint32_t noted_ = 0, placed_ = 0, room_ = 0;
  struct Batch {  // of loads_
    Who who;      // without site
    uint32_t count;
  };
  std::vector<vgpu::ShapedLoad> loads_;  // noted too: the first loaded_
  std::vector<Batch> batches_;
  uint32_t loaded_ = 0;

  uint32_t* write() { return cells_.data(); }
  uint32_t* read() { return cells_.data() + words_; }
  uint32_t* other() { return cells_.data() + 2 * size_t{words_}; }

  uint32_t cell_of(Who who, bool flies);
  uint32_t next_author(Who who, bool flies);
  Who who_of(uint32_t cell) const;
  void forget_all();
  void forget_flying();
  void begin_phase();

  bool note_places(uint32_t cell, const vgpu::Access& access);
  void catch_up(RaceContext& context, BlockState& state, const vgpu::Warp& warp);
  // Nobody has written: there is nothing to compare, only to remember.
  void remember(RaceContext& context, BlockState& state, uint32_t cell, const vgpu::Access& access);
  void compare(const Visit& visit);
  void by_lane(const Visit& visit, uint32_t lanes);
  void at_one_place(const Visit& visit, vgpu::Address address, uint32_t lane, uint32_t lanes);
  bool in_run(const Visit& visit, vgpu::Address address, uint32_t lane, uint32_t lanes, Share share);
  void word(const Visit& visit, uint32_t word, uint32_t mine);
  void remember_read(uint32_t word, uint32_t mine);
  void judge(const Visit& visit, uint32_t before, uint32_t mine, uint32_t word);
  bool came_before(const Visit& visit, uint32_t flying, uint32_t mine);
  // Whether a cell may still be a conflict for anybody.
  bool may_meet_writes() const { return wrote_ || next_flying_ != 0; }

  // race_shared_wide.cpp: words [first, first + count) of a run; all lanes where they are.
  struct Run {
    uint32_t first, count;
    uint32_t cell;         // without lane
    uint32_t lane, shift;  // byte b of the run belongs to lane + (b >> shift)
  };
  static Vectors widest();
  void run_wide(const Visit& visit, const Run& run);
  void run_sixteen(const Visit& visit, const Run& run);
  void lanes_wide(const Visit& visit, uint32_t lanes);
  void lanes_sixteen(const Visit& visit, uint32_t lanes);
};

}  // namespace assay::checks
