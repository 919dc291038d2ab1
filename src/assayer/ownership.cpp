#include "assayer/ownership.h"

#include <algorithm>
#include <numeric>

namespace assay::assayer {

namespace {

using Piece = LaunchWrites::Piece;
using Numbers = std::vector<int64_t>;

constexpr std::size_t kMostDims =
    4;  // of an output as it is seen: more have more rules than are worth trying
// Blocks that must have written all of their tile, and their share of those that have one, before the others are thought
// to lack something. Chosen: a rule that explains no block does not hold at this shape.
constexpr int64_t kLeastExact = 8, kExactShare = 4;

// The extents of an output, some neighbours of which are taken together.
Numbers seen_as(const Numbers& extents, const std::vector<bool>& joined) {
  Numbers seen;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (d > 0 && joined[d - 1])
      seen.back() *= extents[d];
    else
      seen.push_back(extents[d]);
  }
  return seen;
}

struct Box {
  Numbers low, size;
  bool operator==(const Box&) const = default;

  bool holds(const Box& other) const {
    for (std::size_t d = 0; d < low.size(); ++d)
      if (other.low[d] < low[d] || other.low[d] + other.size[d] > low[d] + size[d]) return false;
    return true;
  }
  int64_t elements() const {
    return std::accumulate(size.begin(), size.end(), int64_t{1}, std::multiplies<>());
  }
};

int64_t element_of(const Numbers& extents, const Numbers& at) {
  int64_t element = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) element = element * extents[d] + at[d];
  return element;
}

// A piece as a box of an output with these extents; none where it is not one.
std::optional<Box> box_of(const Piece& piece, const Numbers& extents) {
  struct Level {
    int64_t stride, count;
  };
  std::vector<Level> levels = {{1, piece.length}, {piece.stride, piece.count}, {piece.stride2, piece.count2}};
  std::erase_if(levels, [](const Level& level) { return level.count == 1; });
  Box box{Numbers(extents.size()), Numbers(extents.size(), 1)};
  int64_t rest = piece.first, stride = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    box.low[d] = d == 0 ? rest : rest % extents[d];
    rest /= extents[d];
  }
  for (std::size_t d = extents.size(); d-- > 0; stride *= extents[d]) {
    const auto level =
        std::find_if(levels.begin(), levels.end(), [&](const Level& l) { return l.stride == stride; });
    if (level == levels.end()) continue;
    if (box.low[d] + level->count <= extents[d]) {
      box.size[d] = level->count;
      levels.erase(level);
    } else if (d > 0 && box.low[d] == 0 &&
               level->count % extents[d] == 0) {  // whole rows, one after the other
      box.size[d] = extents[d];
      *level = {stride * extents[d], level->count / extents[d]};
      // The next level may go on where this one ends.
      std::erase_if(levels, [](const Level& l) { return l.count == 1; });
    } else {
      return std::nullopt;
    }
  }
  if (!levels.empty()) return std::nullopt;
  return box;
}

// What a rule is asked at one shape.
class Tiles {
 public:
  // The sizes of a tile are the largest that are seen. None where a block wrote no box.
  static std::optional<Tiles> seen(const LaunchWrites& writes, const std::vector<bool>& joined) {
    Tiles tiles;
    tiles.extents_ = seen_as(writes.extents, joined);
    if (tiles.extents_.size() > kMostDims) return std::nullopt;
    tiles.grid_ = writes.grid;
    tiles.size_.assign(tiles.extents_.size(), 1);
    for (const auto& [block, piece] : writes.blocks) {
      if (piece.length == 0) {
        tiles.boxes_.emplace_back(block, std::nullopt);
        continue;
      }
      auto box = box_of(piece, tiles.extents_);
      if (!box) return std::nullopt;
      for (std::size_t d = 0; d < tiles.size_.size(); ++d)
        tiles.size_[d] = std::max(tiles.size_[d], box->size[d]);
      tiles.boxes_.emplace_back(block, std::move(box));
    }
    for (std::size_t d = 0; d < tiles.size_.size(); ++d)
      tiles.count_.push_back((tiles.extents_[d] + tiles.size_[d] - 1) / tiles.size_[d]);
    return tiles;
  }

  std::size_t dims() const { return extents_.size(); }

  // The tile of a block; none where it has none.
  std::optional<Box> tile(const TileRule& rule, uint64_t block) const {
    const std::array<int64_t, 3> at = place(block);
    Numbers numbers(dims());
    for (std::size_t axis = 0; axis < 3; ++axis) {
      int64_t rest = at[axis];
      for (const std::size_t d : rule.on[axis]) {
        numbers[d] = rest % count_[d];
        rest /= count_[d];
      }
      if (rest != 0) return std::nullopt;
    }
    Box box{Numbers(dims()), Numbers(dims())};
    for (std::size_t d = 0; d < dims(); ++d) {
      box.low[d] = numbers[d] * size_[d];
      box.size[d] = std::min(size_[d], extents_[d] - box.low[d]);
    }
    return box;
  }

  struct Count {
    int64_t exact = 0;
    bool other = false;                      // a block wrote what is not its own
    std::optional<Ownership::Missing> less;  // blocks that wrote only a part of their tile, or nothing
  };
  Count compare(const TileRule& rule) const {
    Count count;
    for (const auto& [block, box] : boxes_) {
      const std::optional<Box> own = tile(rule, block);
      if (box == own) {
        count.exact += own.has_value();
        continue;
      }
      if (!own || (box && !own->holds(*box))) {
        count.other = true;
        return count;
      }
      if (!count.less) count.less = Ownership::Missing{.element = lacking(*own, box), .owner = block};
      count.less->count += own->elements() - (box ? box->elements() : 0);
    }
    return count;
  }

  // Tiles that no block of the grid has.
  std::optional<Ownership::Missing> beyond(const TileRule& rule) const {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      int64_t needed = 1;
      for (const std::size_t d : rule.on[axis]) needed *= count_[d];
      if (needed <= grid_[axis]) continue;
      Numbers at(dims());
      int64_t rest = grid_[axis], others = 1;
      for (const std::size_t d : rule.on[axis]) {
        at[d] = rest % count_[d] * size_[d];
        rest /= count_[d];
      }
      for (std::size_t d = 0; d < dims(); ++d) others *= count_[d];
      return Ownership::Missing{.element = element_of(extents_, at),
                                .count = others / needed * (needed - grid_[axis])};
    }
    return std::nullopt;
  }

  int64_t blocks_with_tile(const TileRule& rule) const {
    return std::count_if(boxes_.begin(), boxes_.end(),
                         [&](const auto& one) { return tile(rule, one.first).has_value(); });
  }

 private:
  std::array<int64_t, 3> place(uint64_t block) const {
    const auto at = static_cast<int64_t>(block);
    return {at % grid_[0], at / grid_[0] % grid_[1], at / grid_[0] / grid_[1]};
  }

  // An element of `own` that is not in `box`.
  int64_t lacking(const Box& own, const std::optional<Box>& box) const {
    Numbers at = own.low;
    for (std::size_t d = 0; box && d < dims(); ++d) {
      if (box->low[d] > own.low[d]) break;
      const int64_t end = box->low[d] + box->size[d];
      if (end == own.low[d] + own.size[d]) continue;
      at[d] = end;
      break;
    }
    return element_of(extents_, at);
  }

  Numbers extents_, size_, count_;  // of the output as it is seen; of a tile; of tiles, by dim
  std::array<int64_t, 3> grid_{};
  std::vector<std::pair<uint64_t, std::optional<Box>>> boxes_;
};

// Calls `use` with every rule for an output that is seen with so many dims.
template <class Use>
void each_rule(const std::vector<bool>& joined, std::size_t dims, Use use) {
  std::vector<std::size_t> order(dims);
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    std::size_t assignments = 1;
    for (std::size_t d = 0; d < dims; ++d) assignments *= 3;
    for (std::size_t a = 0; a < assignments; ++a) {
      TileRule rule{.joined = joined};
      std::size_t rest = a, last = 0;
      bool in_order = true;  // of the orders of dims on different axes, which are the same rule, one
      for (const std::size_t d : order) {
        const std::size_t axis = rest % 3;
        rest /= 3;
        in_order &= axis >= last;
        last = axis;
        rule.on[axis].push_back(d);
      }
      if (in_order) use(rule);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace

std::optional<LaunchWrites> writes_of(const protocol::SampledLaunch& launch, const std::string& output,
                                      const std::vector<int64_t>& extents, int64_t bytes_of_element) {
  LaunchWrites writes{.extents = extents};
  for (std::size_t axis = 0; axis < 3; ++axis) writes.grid[axis] = static_cast<int64_t>(launch.grid[axis]);
  for (const protocol::BlockPiece& piece : launch.pieces) {
    Piece& own = writes.blocks.try_emplace(piece.block).first->second;
    if (!piece.writes || launch.writes.at(*piece.writes).buffer != output) continue;
    if (piece.count == 0 || own.length != 0) return std::nullopt;
    for (const uint64_t bytes : {piece.offset, piece.length, piece.stride, piece.stride2})
      if (static_cast<int64_t>(bytes) % bytes_of_element != 0) return std::nullopt;
    const auto elements = [&](uint64_t bytes) { return static_cast<int64_t>(bytes) / bytes_of_element; };
    own = {elements(piece.offset),  elements(piece.length),
           elements(piece.stride),  static_cast<int64_t>(piece.count),
           elements(piece.stride2), static_cast<int64_t>(piece.count2)};
  }
  return writes;
}

Ownership Ownership::learn(std::span<const LaunchWrites> whole) {
  Ownership learnt;
  if (whole.empty()) return learnt;
  const std::size_t dims = whole[0].extents.size();
  if (dims == 0 || dims > 2 * kMostDims) return learnt;
  for (std::size_t mask = 0; mask < std::size_t{1} << (dims - 1); ++mask) {
    std::vector<bool> joined;
    for (std::size_t d = 0; d + 1 < dims; ++d) joined.push_back(mask >> d & 1);
    std::vector<Tiles> tiles;
    for (const LaunchWrites& writes : whole) {
      auto seen = Tiles::seen(writes, joined);
      if (!seen) break;
      tiles.push_back(std::move(*seen));
    }
    if (tiles.size() < whole.size()) continue;
    each_rule(joined, tiles[0].dims(), [&](const TileRule& rule) {
      const bool holds = std::all_of(tiles.begin(), tiles.end(), [&](const Tiles& at) {
        const Tiles::Count count = at.compare(rule);
        return !count.other && !count.less && !at.beyond(rule);
      });
      if (holds) learnt.rules_.push_back(rule);
    });
  }
  return learnt;
}

std::optional<Ownership::Missing> Ownership::missing(const LaunchWrites& some) const {
  std::optional<Missing> found;
  for (const TileRule& rule : rules_) {
    const auto tiles = Tiles::seen(some, rule.joined);
    if (!tiles) continue;
    const Tiles::Count count = tiles->compare(rule);
    if (count.other) continue;
    if (count.exact < kLeastExact || count.exact * kExactShare < tiles->blocks_with_tile(rule)) continue;
    std::optional<Missing> missing = count.less ? count.less : tiles->beyond(rule);
    if (!missing) return std::nullopt;  // a rule by which all is well
    if (!found) found = missing;
  }
  return found;
}

}  // namespace assay::assayer
