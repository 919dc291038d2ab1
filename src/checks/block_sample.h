// A call of which only some blocks of each grid are run: which ones, what they write, and whether that can be judged.
//
// A grid over 2^32 elements cannot be run whole, but any of its blocks can. A block by itself does what it would do
// among all others only if blocks do not talk to each other. This listener watches for everything by which they do:
//
//   atomics whose old value is used      cooperative launches        strong loads of memory that is not an input
//   loads of what an earlier launch wrote, of which not all blocks were run, and copies of it
//   loads of memory that was not written (by blocks that were not run)
//   a block that waits for something that is never written     stores to memory that the host sees
//
// A thread that loops over the whole tensor runs some of its iterations (vgpu/skip.h), as long as no iteration reads what
// another one may have written: bytes of an inout tensor that it does not write itself.
//
// The first of them ends the sample: what was seen before counts, nothing after it does. Reductions (atomics whose
// old value is not used) end nothing, but what they add up to is not known.
//
// The listener comes before all others, so that they find the log closed (FindingLog::close) when they report what
// follows from a sample that has ended.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "checks/checks.h"
#include "protocol/messages.h"
#include "vgpu/device.h"
#include "vgpu/stream.h"
#include "vgpu/warp.h"

namespace assay::checks {

// Clusters of a grid (blocks, where there are no clusters) that are worth running, most telling first, no more than
// `request.blocks`: both ends, those at the request's shares of the grid in every order of its axes, the corners,
// random ones.
std::vector<uint64_t> chosen_clusters(vgpu::Dim3 clusters, const protocol::SampleRequest& request);

class BlockSample final : public vgpu::Listener {
 public:
  BlockSample(FindingLog& log, const vgpu::Memory& memory) : log_(log), memory_(memory) {}

  // From now on launches run a sample of their blocks.
  void begin(protocol::SampleRequest request);
  // As before; what there is to say.
  protocol::SampleReport end();
  // What the blocks that came to their end wrote to the allocation that starts at `base`, until the next begin():
  // pairs of offset and length, in order, each byte once.
  std::vector<std::pair<uint64_t, uint64_t>> written(vgpu::Address base) const;

  // Sets which blocks are run.
  void starts(vgpu::LaunchConfig& config);
  // Whether a copy or a fill is too large to be done; then the sample has ended.
  bool leaves_out(const vgpu::Work& work);

  bool wants_accesses(ptx::Space space) const override { return on_ && space == ptx::Space::Global; }
  void on_launch(const vgpu::LaunchInfo& info) override;
  void on_launch_end(const vgpu::LaunchInfo& info) override;
  void on_block(const vgpu::Block& block) override;
  void on_block_end(const vgpu::Block& block) override;
  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) override;
  void on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::ViolationInfo& info) override;
  bool may_skip(const vgpu::Warp& warp, uint32_t loop, uint64_t iterations) override;
  void on_copy(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to,
               const vgpu::RangeInfo& from) override;

 private:
  struct Range {
    vgpu::Address low = 0, high = 0;
  };
  // Memory that was accessed.
  struct Known {
    vgpu::Address low = 0, high = 0;
    std::string label;
    bool is_input = false;                    // it holds data from the start
    bool host_sees_it = false;                // managed or pinned memory
    std::atomic<uint64_t> partly_written{0};  // by this launch, of which not all blocks were run; 0: by none
    std::atomic<bool> reduced{false};
  };
  struct Launch {
    uint64_t id = 0;
    protocol::SampledLaunch report;
  };
  // Memory, each byte once when merged.
  struct Ranges {
    std::vector<Range> ranges;
    std::size_t merge_at = 4096;  // ranges: they are joined when there are so many
    void add(vgpu::Address low, vgpu::Address high);
    void merge();
    bool holds(const Range& range) const;  // after merge()
  };
  // What a warp did since it began an iteration of a loop.
  struct Iteration {
    Ranges loaded, stored;                                     // of memory that is both input and output
    std::vector<std::pair<const Known*, uint64_t>> now, most;  // bytes written: in this iteration, in any
  };
  // What one block wrote.
  struct Writes : Ranges {
    std::map<uint32_t, std::map<uint32_t, Iteration>> warps;  // by warp, by loop that it has come to
    std::vector<std::pair<const Known*, uint64_t>>
        left_out;             // bytes that iterations may write that were left out
    uint64_t iterations = 0;  // that were left out
    bool runs_all = false;    // iterations read what others may write: none may be left out
  };
  struct Written {
    Range range;
    std::size_t launch = 0;  // of launches_
  };

  Known* known(vgpu::Address address);
  void loaded(const vgpu::Warp& warp, Known& memory, const vgpu::Access& access, vgpu::Address address);
  void end_sample(std::string why);
  static std::map<uint32_t, Iteration>& loops_of(Writes& writes, const vgpu::Warp& warp) {
    return writes.warps[warp.index];
  }
  void end_iteration(Writes& writes, Iteration& iteration);
  static void add_piece(Launch& launch, const vgpu::Block& block, const Writes& writes, const Known& memory,
                        std::size_t buffer);
  Launch* launch_of(uint64_t id);

  static constexpr std::size_t kMostKnown = 64;

  FindingLog& log_;
  const vgpu::Memory& memory_;
  vgpu::BlockStates<Writes> states_{*this};
  std::atomic<bool> on_{false}, ended_{false};
  std::array<Known, kMostKnown> known_;
  std::atomic<std::size_t> known_count_{0};
  mutable std::mutex mutex_;  // of what follows, and of additions to known_
  protocol::SampleRequest request_;
  std::string why_;
  std::vector<Launch> launches_;
  std::vector<Written> written_;
};

}  // namespace assay::checks
