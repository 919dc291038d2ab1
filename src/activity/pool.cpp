#include "activity/pool.h"

#include <algorithm>
#include <compare>
#include <set>
#include <unordered_map>

#include "activity/changes.h"

namespace assay::activity {

namespace {

// PyTorch's names are kMinBlockSize, kSmallSize, kSmallBuffer, kMinLargeAlloc, kLargeBuffer and kRoundLarge.
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGranule = 512;
constexpr uint64_t kMostSmall = kMiB, kSmallSegment = 2 * kMiB;
constexpr uint64_t kOwnSegment = 10 * kMiB;  // from here on
constexpr uint64_t kSharedSegment = 20 * kMiB, kLargeGranule = 2 * kMiB;

uint64_t round_up(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

uint64_t segment_for(uint64_t bytes) {
  return bytes <= kMostSmall   ? kSmallSegment
         : bytes < kOwnSegment ? kSharedSegment
                               : round_up(bytes, kLargeGranule);
}

class Allocator {
 public:
  explicit Allocator(const std::vector<Allocation>& allocations) : allocations_(allocations) {}

  // Whether it needed another segment.
  bool allocate(std::size_t allocation) {
    const uint64_t asked = allocations_[allocation].bytes;
    const uint64_t bytes = std::max(round_up(asked, kGranule), kGranule);
    const bool is_small = bytes <= kMostSmall;
    std::set<Free>& free = free_[is_small];
    auto found = free.lower_bound({bytes, 0, 0});
    const bool is_new = found == free.end();
    if (is_new) {
      add_segment(segment_for(bytes));
      found = free.insert(as_free(blocks_.size() - 1)).first;
    }
    const std::size_t taken = found->block;
    free.erase(found);
    const uint64_t rest = blocks_[taken].bytes - bytes;
    if (is_small ? rest >= kGranule : rest > kMostSmall) free.insert(as_free(split(taken, bytes)));
    blocks_[taken].allocation = allocation;
    place_of_[allocation] = taken;
    in_use_ += asked;
    return is_new;
  }

  void release(std::size_t allocation) {
    const auto found = place_of_.find(allocation);
    if (found == place_of_.end()) return;
    std::size_t block = found->second;
    place_of_.erase(found);
    in_use_ -= allocations_[allocation].bytes;
    blocks_[block].allocation.reset();
    std::set<Free>& free = free_[segments_[blocks_[block].segment].bytes == kSmallSegment];
    if (const std::size_t next = blocks_[block].next; is_free(next)) {
      free.erase(as_free(next));
      merge(block, next);
    }
    if (const std::size_t before = blocks_[block].before; is_free(before)) {
      free.erase(as_free(before));
      merge(before, block);
      block = before;
    }
    free.insert(as_free(block));
  }

  uint64_t in_use() const { return in_use_; }
  uint64_t reserved() const { return end_; }

  std::vector<PoolSegment> segments() const {
    std::vector<PoolSegment> all;
    for (const Segment& segment : segments_) {
      PoolSegment& one = all.emplace_back(PoolSegment{segment.bytes, {}});
      for (std::size_t block = segment.first; block != kNone; block = blocks_[block].next)
        one.blocks.push_back({blocks_[block].bytes, blocks_[block].allocation});
    }
    return all;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Block {
    uint64_t address = 0, bytes = 0;
    std::size_t segment = 0, before = kNone, next = kNone;
    std::optional<std::size_t> allocation;
  };
  struct Segment {
    uint64_t bytes = 0;
    std::size_t first = 0;  // block
  };
  struct Free {
    uint64_t bytes, address;
    std::size_t block;
    auto operator<=>(const Free&) const = default;
  };

  Free as_free(std::size_t block) const { return {blocks_[block].bytes, blocks_[block].address, block}; }
  bool is_free(std::size_t block) const { return block != kNone && !blocks_[block].allocation; }

  void add_segment(uint64_t bytes) {
    segments_.push_back({bytes, blocks_.size()});
    blocks_.push_back({.address = end_, .bytes = bytes, .segment = segments_.size() - 1});
    end_ += bytes;
  }
  // The new block behind the first `bytes` of one.
  std::size_t split(std::size_t block, uint64_t bytes) {
    const std::size_t rest = unused_.empty() ? blocks_.size() : unused_.back();
    if (unused_.empty())
      blocks_.emplace_back();
    else
      unused_.pop_back();
    Block& first = blocks_[block];
    blocks_[rest] = {.address = first.address + bytes,
                     .bytes = first.bytes - bytes,
                     .segment = first.segment,
                     .before = block,
                     .next = first.next};
    if (first.next != kNone) blocks_[first.next].before = rest;
    first.bytes = bytes;
    first.next = rest;
    return rest;
  }
  void merge(std::size_t block, std::size_t next) {
    blocks_[block].bytes += blocks_[next].bytes;
    blocks_[block].next = blocks_[next].next;
    if (blocks_[next].next != kNone) blocks_[blocks_[next].next].before = block;
    unused_.push_back(next);
  }

  const std::vector<Allocation>& allocations_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> unused_;  // blocks that were merged into others
  std::vector<Segment> segments_;
  std::set<Free> free_[2];                                 // large and small
  std::unordered_map<std::size_t, std::size_t> place_of_;  // blocks by allocation
  uint64_t in_use_ = 0, end_ = 0;
};

}  // namespace

Pool pool_of(const Activity& activity) {
  const std::vector<Change> changes = pool_changes_of(activity.allocations);
  Pool pool;
  Allocator all(activity.allocations);
  std::size_t until = 0;  // changes
  uint64_t fullest = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    if (change.is_end) {
      all.release(change.allocation);
      continue;
    }
    ++pool.allocations;
    if (all.allocate(change.allocation)) fullest = 0;
    if (all.in_use() > fullest) fullest = all.in_use(), until = i + 1;
    pool.most_in_use = std::max(pool.most_in_use, all.in_use());
  }
  if (until == 0) return pool;
  // Once more, up to there.
  Allocator then(activity.allocations);
  for (std::size_t i = 0; i < until; ++i)
    changes[i].is_end ? then.release(changes[i].allocation) : void(then.allocate(changes[i].allocation));
  pool.reserved = then.reserved();
  pool.seconds = changes[until - 1].seconds;
  pool.in_use = then.in_use();
  pool.segments = then.segments();
  for (const PoolSegment& segment : pool.segments)
    for (const PoolBlock& block : segment.blocks)
      (block.allocation ? pool.rounding : pool.gaps) += block.bytes;
  pool.rounding -= pool.in_use;
  return pool;
}

}  // namespace assay::activity
