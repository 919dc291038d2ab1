// Which block of a grid writes which elements of an output: inferred from small shapes that run in full, and used at giant ones of
// which some blocks were run.
//
// Most kernels cut an output into tiles, and give each block one. Seen as a box (an output of three dims is also one of
// two or one, where neighbours are taken together), tile (q0, q1, …) begins at element (q0 w0, q1 w1, …), and the numbers
// q of a tile are the block's places on the axes of the grid, or the digits of one of them:
//
//     blockIdx.y, blockIdx.x                         rows and columns of tiles
//     blockIdx.x / tiles, blockIdx.x % tiles         the same, numbered
//     blockIdx.x                                     256 elements each, in order
//
// A rule says which axis each q comes from, and in which order. It holds if it explains every block of every small shape
// exactly. The sizes w of a tile are those that are seen at each shape, so they may change with it.
//
// At a giant shape a rule that explains all blocks that were run, but for some that write less than their tile, says who
// should have written what is missing. One block that writes something else than its own tile, and the rule says
// nothing: then another block may well have written what one left out. Swizzled grids, blocks that take several tiles, and
// tiles that are no boxes have no rule, and nothing is said of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/messages.h"

namespace assay::assayer {

// What blocks of one launch wrote to one output, in elements.
struct LaunchWrites {
  // `first`, … and the `length - 1` after it, `count` times `stride` apart, and all that `count2` times `stride2` apart.
  struct Piece {
    int64_t first = 0, length = 0, stride = 0, count = 1, stride2 = 0, count2 = 1;
  };
  std::array<int64_t, 3> grid{1, 1, 1};
  std::vector<int64_t> extents;      // of the output
  std::map<uint64_t, Piece> blocks;  // that were run; length 0: it wrote nothing
};

// None where a block wrote what is no such piece, or left out iterations of a loop.
std::optional<LaunchWrites> writes_of(const protocol::SampledLaunch& launch, const std::string& output,
                                      const std::vector<int64_t>& extents, int64_t bytes_of_element);

struct TileRule {
  std::vector<bool> joined;  // by dim of the output: taken together with the next one
  std::array<std::vector<std::size_t>, 3>
      on;  // by axis: the dims whose tiles its places number, the fastest first
};

class Ownership {
 public:
  // From launches of which all blocks were run.
  static Ownership learn(std::span<const LaunchWrites> whole);

  struct Missing {
    int64_t element = 0;            // one that is missing
    int64_t count = 0;              // at least
    std::optional<uint64_t> owner;  // the block that should have written it; none: the grid does not have it
  };
  // The part that no block writes, of an output of which some blocks were run. None: nothing is missing, or no rule tells.
  std::optional<Missing> missing(const LaunchWrites& some) const;

  bool empty() const { return rules_.empty(); }

 private:
  std::vector<TileRule> rules_;
};

}  // namespace assay::assayer
