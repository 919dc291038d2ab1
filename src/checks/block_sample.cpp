#include "checks/block_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/random.h"
#include "base/symbol.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

// Bytes of a copy or a fill that is not done: it would touch so much memory, and no block of the sample needs most of
// it. Chosen: a fraction of a second.
constexpr uint64_t kMostMoved = 64 << 20;
// Ranges that are kept of what all blocks wrote: about 16 bytes each in the report.
constexpr std::size_t kMostWritten = 1 << 20;

using Axes = std::array<uint64_t, 3>;

uint64_t linear(const Axes& extents, const Axes& at) {
  return at[0] + extents[0] * (at[1] + extents[1] * at[2]);
}

// What a block wrote to one buffer, as a piece of evenly spaced stretches; `ranges` is in order.
template <class Range>
protocol::BlockPiece piece_of(std::span<const Range> ranges, vgpu::Address base) {
  protocol::BlockPiece piece{.offset = ranges[0].low - base, .length = ranges[0].high - ranges[0].low};
  const protocol::BlockPiece none{.count = 0};
  const auto is_even = [&](std::size_t from, std::size_t step, uint64_t stride) {
    for (std::size_t i = from + step; i < ranges.size(); i += step)
      if (ranges[i].low - ranges[i - step].low != stride) return false;
    return true;
  };
  for (const Range& range : ranges)
    if (range.high - range.low != piece.length) return none;
  if (ranges.size() == 1) return piece;
  piece.stride = ranges[1].low - ranges[0].low;
  while (piece.count < ranges.size() && ranges[piece.count].low - ranges[piece.count - 1].low == piece.stride)
    ++piece.count;
  if (piece.count == ranges.size()) return piece;
  if (ranges.size() % piece.count != 0) return none;
  piece.count2 = ranges.size() / piece.count;
  piece.stride2 = ranges[piece.count].low - ranges[0].low;
  for (std::size_t i = 0; i < piece.count; ++i)
    if (!is_even(i, piece.count, piece.stride2)) return none;
  for (std::size_t i = 1; i < piece.count; ++i)
    if (ranges[i].low - ranges[i - 1].low != piece.stride) return none;
  return piece;
}

template <class Memory>
uint64_t bytes_of(const std::vector<std::pair<const Memory*, uint64_t>>& list, const Memory* memory) {
  for (const auto& [known, bytes] : list)
    if (known == memory) return bytes;
  return 0;
}
template <class Memory>
void add_bytes(std::vector<std::pair<const Memory*, uint64_t>>& list, const Memory* memory, uint64_t bytes) {
  for (auto& [known, sum] : list) {
    if (known != memory) continue;
    sum += bytes;
    return;
  }
  list.emplace_back(memory, bytes);
}

// The cluster at position `place` where axis order[0] changes fastest.
uint64_t in_order(const Axes& extents, const Axes& order, uint64_t place) {
  Axes at{};
  for (const uint64_t axis : order) {
    at[axis] = place % extents[axis];
    place /= extents[axis];
  }
  return linear(extents, at);
}

}  // namespace

std::vector<uint64_t> chosen_clusters(vgpu::Dim3 clusters, const protocol::SampleRequest& request) {
  const Axes extents = {clusters.x, clusters.y, clusters.z};
  const uint64_t count = clusters.count();
  std::vector<uint64_t> chosen;
  std::set<uint64_t> seen;
  const auto add = [&](uint64_t cluster) {
    if (chosen.size() < request.blocks && cluster < count && seen.insert(cluster).second)
      chosen.push_back(cluster);
  };
  if (count == 0) return chosen;
  for (const uint64_t cluster : request.wanted) add(cluster);
  add(0);
  add(count - 1);
  constexpr Axes kOrders[] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}};
  const auto place_of = [&](double share) {
    return std::min(count - 1, static_cast<uint64_t>(share * static_cast<double>(count)));
  };
  for (const double share : request.shares)
    for (const Axes& order : kOrders) add(in_order(extents, order, place_of(share)));
  Random random(request.seed);
  const auto any = [&] { return static_cast<uint64_t>(random.between(0, static_cast<int64_t>(count) - 1)); };
  for (int i = 0; i < 8; ++i) add(any());
  for (const double share : request.shares) {
    const uint64_t place = place_of(share);
    for (const Axes& order : kOrders) {
      if (place > 0) add(in_order(extents, order, place - 1));
      if (place + 1 < count) add(in_order(extents, order, place + 1));
    }
  }
  for (unsigned corner = 0; corner < 8; ++corner)
    add(linear(extents, {corner & 1 ? extents[0] - 1 : 0, corner & 2 ? extents[1] - 1 : 0,
                         corner & 4 ? extents[2] - 1 : 0}));
  if (count <= request.blocks) {
    for (uint64_t cluster = 0; cluster < count; ++cluster) add(cluster);
  } else {
    for (uint64_t tries = 0; tries < 2 * request.blocks; ++tries) add(any());
  }
  return chosen;
}

// ---- What a block writes

void BlockSample::Ranges::add(vgpu::Address low, vgpu::Address high) {
  if (!ranges.empty() && ranges.back().high == low) {
    ranges.back().high = high;
    return;
  }
  ranges.push_back({low, high});
  if (ranges.size() < merge_at) return;
  merge();
  merge_at = std::max<std::size_t>(4096, 2 * ranges.size());
}

void BlockSample::Ranges::merge() {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  std::size_t kept = 0;
  for (const Range& range : ranges) {
    if (kept > 0 && range.low <= ranges[kept - 1].high)
      ranges[kept - 1].high = std::max(ranges[kept - 1].high, range.high);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

bool BlockSample::Ranges::holds(const Range& range) const {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), range.low,
                                      [](vgpu::Address low, const Range& r) { return low < r.low; });
  return after != ranges.begin() && range.high <= std::prev(after)->high;
}

// ---- Begin and end

void BlockSample::begin(protocol::SampleRequest request) {
  const std::lock_guard lock(mutex_);
  request_ = std::move(request);
  why_.clear();
  launches_.clear();
  written_.clear();
  known_count_ = 0;
  ended_ = false;
  on_ = true;
}

protocol::SampleReport BlockSample::end() {
  const std::lock_guard lock(mutex_);
  on_ = false;
  log_.open();
  protocol::SampleReport report;
  report.ended = why_;
  for (const Launch& launch : launches_) report.launches.push_back(launch.report);
  // Bytes that several blocks of a launch wrote, once.
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    for (protocol::SampledWrites& writes : report.launches[i].writes) {
      const auto memory = std::find_if(known_.begin(), known_.begin() + known_count_,
                                       [&](const Known& k) { return k.label == writes.buffer; });
      Ranges all;
      for (const Written& one : written_)
        if (one.launch == i && one.range.low >= memory->low && one.range.high <= memory->high)
          all.ranges.push_back(one.range);
      all.merge();
      for (const Range& range : all.ranges) writes.distinct += range.high - range.low;
    }
  }
  for (std::size_t k = 0; k < known_count_; ++k)
    if (known_[k].reduced) report.reduced.push_back(known_[k].label);
  return report;
}

std::vector<std::pair<uint64_t, uint64_t>> BlockSample::written(vgpu::Address base) const {
  const std::lock_guard lock(mutex_);
  const auto allocation = memory_.find(base);
  if (!allocation) return {};
  Ranges all;
  for (const Written& one : written_)
    if (one.range.low >= base && one.range.high <= allocation->end()) all.ranges.push_back(one.range);
  all.merge();
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const Range& range : all.ranges) pairs.emplace_back(range.low - base, range.high - range.low);
  return pairs;
}

void BlockSample::end_sample(std::string why) {
  log_.close();
  const std::lock_guard lock(mutex_);
  if (why_.empty()) why_ = std::move(why);
  ended_ = true;
}

// ---- Launches

void BlockSample::starts(vgpu::LaunchConfig& config) {
  if (!on_) return;
  const uint64_t blocks = config.grid.count();
  const vgpu::Dim3 cluster = config.cluster.count() == 0 ? vgpu::Dim3{} : config.cluster;
  const vgpu::Dim3 clusters{config.grid.x / cluster.x, config.grid.y / cluster.y, config.grid.z / cluster.z};
  protocol::SampleRequest request;
  {
    const std::lock_guard lock(mutex_);
    request = request_;
  }
  if (config.cooperative && clusters.count() > request.blocks)
    end_sample(fmt::format("all {} blocks of a cooperative launch are needed", blocks));
  config.sampled = true;
  config.seconds = request.seconds;
  config.iterations = request.shares;
  config.iteration_seed = request.seed;
  config.only.clear();
  if (ended_) return;
  request.seed = mix(request.seed, blocks);
  for (uint64_t& block : request.wanted) {  // as clusters
    const uint64_t x = block % config.grid.x, y = block / config.grid.x % config.grid.y,
                   z = block / config.grid.x / config.grid.y;
    block = linear({clusters.x, clusters.y, clusters.z}, {x / cluster.x, y / cluster.y, z / cluster.z});
  }
  config.only = chosen_clusters(clusters, request);
}

bool BlockSample::leaves_out(const vgpu::Work& work) {
  if (!on_) return false;
  uint64_t bytes = 0;
  const char* what = "copies";
  if (const auto* copy = std::get_if<vgpu::CopyWork>(&work)) bytes = copy->width * copy->height * copy->depth;
  if (const auto* fill = std::get_if<vgpu::FillWork>(&work)) {
    bytes = fill->width * fill->height * fill->depth;
    what = "fills";
  }
  if (bytes <= kMostMoved) return false;
  end_sample(fmt::format("the host code {} {} bytes", what, bytes));
  return true;
}

BlockSample::Launch* BlockSample::launch_of(uint64_t id) {
  const auto found =
      std::find_if(launches_.begin(), launches_.end(), [&](const Launch& launch) { return launch.id == id; });
  return found == launches_.end() ? nullptr : &*found;
}

void BlockSample::on_launch(const vgpu::LaunchInfo& info) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  Launch launch{.id = info.id};
  launch.report.kernel = std::string(info.kernel.name());
  launch.report.blocks = info.config.grid.count();
  launch.report.grid = {info.config.grid.x, info.config.grid.y, info.config.grid.z};
  launches_.push_back(std::move(launch));
}

// Of a launch whose blocks were all run, what it wrote is known as a whole.
void BlockSample::on_launch_end(const vgpu::LaunchInfo& info) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  const Launch* launch = launch_of(info.id);
  if (!launch || launch->report.run < launch->report.blocks || launch->report.left_out > 0) return;
  for (std::size_t i = 0; i < known_count_; ++i) {
    uint64_t writer = info.id;
    known_[i].partly_written.compare_exchange_strong(writer, 0);
  }
}

void BlockSample::on_block(const vgpu::Block& block) {
  states_.take(block);  // of one that was cut off
  if (on_) states_.put(block, std::make_unique<Writes>());
}

void BlockSample::on_block_end(const vgpu::Block& block) {
  const std::unique_ptr<Writes> writes = states_.take(block);
  if (!writes || !on_) return;
  for (auto& [index, loops] : writes->warps)
    for (auto& [loop, iteration] : loops) end_iteration(*writes, iteration);
  if (ended_) return;
  writes->merge();
  std::vector<std::pair<const Known*, uint64_t>> bytes;
  for (const Range& range : writes->ranges)
    if (const Known* memory = known(range.low)) add_bytes(bytes, memory, range.high - range.low);
  const std::lock_guard lock(mutex_);
  Launch* launch = launch_of(block.grid->info.id);
  if (!launch) return;
  ++launch->report.run;
  launch->report.left_out += writes->iterations;
  if (written_.size() + writes->ranges.size() > kMostWritten) {
    if (why_.empty()) why_ = "its blocks write more pieces of memory than can be kept";
    ended_ = true;
    return;
  }
  for (const Range& range : writes->ranges)
    written_.push_back({range, static_cast<std::size_t>(launch - launches_.data())});
  if (bytes.empty()) launch->report.pieces.push_back({.block = block.linear});
  for (const auto& [memory, count] : bytes) {
    auto& all = launch->report.writes;
    auto found = std::find_if(
        all.begin(), all.end(),
        [&label = memory->label](const protocol::SampledWrites& w) { return w.buffer == label; });
    if (found == all.end()) {
      all.push_back({.buffer = memory->label, .least = ~uint64_t{0}});
      found = std::prev(all.end());
    }
    const uint64_t whole = count + bytes_of(writes->left_out, memory);
    add_piece(*launch, block, *writes, *memory, static_cast<std::size_t>(found - all.begin()));
    ++found->writers;
    found->least = std::min(found->least, whole);
    found->most = std::max(found->most, whole);
    found->sum += count;
    found->whole += whole;
  }
}

// Which bytes of a buffer the block wrote: which of them are its own follows from that.
void BlockSample::add_piece(Launch& launch, const vgpu::Block& block, const Writes& writes,
                            const Known& memory, std::size_t buffer) {
  std::vector<Range> own;
  for (const Range& range : writes.ranges)
    if (range.low >= memory.low && range.high <= memory.high) own.push_back(range);
  protocol::BlockPiece piece = writes.iterations == 0 && !own.empty()
                                   ? piece_of(std::span<const Range>(own), memory.low)
                                   : protocol::BlockPiece{.count = 0};
  piece.block = block.linear;
  piece.writes = buffer;
  launch.report.pieces.push_back(piece);
}

// ---- Accesses

BlockSample::Known* BlockSample::known(vgpu::Address address) {
  const auto search = [&](std::size_t from, std::size_t to) -> Known* {
    for (std::size_t i = from; i < to; ++i)
      if (address >= known_[i].low && address < known_[i].high) return &known_[i];
    return nullptr;
  };
  const std::size_t count = known_count_.load(std::memory_order_acquire);
  if (Known* found = search(0, count)) return found;
  const auto allocation = memory_.find(address);
  if (!allocation) return nullptr;
  const std::lock_guard lock(mutex_);
  if (Known* found = search(count, known_count_)) return found;
  if (known_count_ == kMostKnown) {
    if (why_.empty()) why_ = fmt::format("it uses more than {} allocations", kMostKnown);
    ended_ = true;
    return nullptr;
  }
  Known& memory = known_[known_count_];
  memory.low = allocation->base;
  memory.high = allocation->end();
  memory.label = allocation->label;
  memory.is_input = allocation->made && !allocation->initialised;
  memory.host_sees_it =
      allocation->kind == vgpu::MemoryKind::Managed || allocation->kind == vgpu::MemoryKind::Pinned;
  memory.partly_written = 0;
  memory.reduced = false;
  known_count_.store(known_count_ + 1, std::memory_order_release);
  return &memory;
}

void BlockSample::loaded(const vgpu::Warp& warp, Known& memory, const vgpu::Access& access,
                         vgpu::Address address) {
  const uint64_t writer = memory.partly_written;
  if (writer != 0 && writer < warp.grid->info.id)
    return end_sample(fmt::format("{} reads what an earlier kernel wrote, and not all of its blocks were run",
                                  plain_name(warp.grid->entry->ptx->name)));
  if (memory.is_input) return;
  if (access.order != vgpu::Order::Weak)
    return end_sample("its blocks communicate through memory (volatile, relaxed or acquiring loads)");
  if (memory_.first_uninitialised(address, access.bytes))
    end_sample(fmt::format("{} reads memory that other blocks or kernels write, and not all of them were run",
                           plain_name(warp.grid->entry->ptx->name)));
}

void BlockSample::on_access(const vgpu::Warp& warp, const vgpu::Inst&, const vgpu::Access& access) {
  using vgpu::AccessKind;
  if (!on_ || ended_) return;
  Writes* writes = &states_[*warp.block];
  const bool is_run = access.shape == vgpu::Shape::Unit;
  const uint64_t bytes = is_run ? uint64_t{access.bytes} * vgpu::kWarpSize : access.bytes;
  for (uint32_t lane = 0; lane < vgpu::kWarpSize; ++lane) {
    if (!(access.lanes >> lane & 1)) continue;
    const vgpu::Address address = access.addresses[lane];
    Known* memory = known(address);
    if (!memory) continue;
    switch (access.kind) {
      case AccessKind::Load:
        loaded(warp, *memory, access, address);
        if (memory->is_input && memory->partly_written != 0)
          for (auto& [loop, iteration] : loops_of(*writes, warp))
            iteration.loaded.add(address, address + bytes);
        break;
      case AccessKind::Atomic:
        return end_sample("its blocks use the old values of atomics on device memory");
      case AccessKind::Reduction:
        memory->reduced = true;
        [[fallthrough]];
      case AccessKind::Store: {
        if (memory->host_sees_it) return end_sample("it writes memory that the host sees");
        uint64_t none = 0;
        memory->partly_written.compare_exchange_strong(none, warp.grid->info.id);
        if (access.kind == AccessKind::Reduction) break;
        writes->add(address, address + bytes);
        for (auto& [loop, iteration] : loops_of(*writes, warp)) {
          add_bytes<Known>(iteration.now, memory, bytes);
          if (memory->is_input) iteration.stored.add(address, address + bytes);
        }
        break;
      }
    }
    // The other lanes' bytes follow, or are the same; a run never leaves an allocation.
    if (is_run || access.shape == vgpu::Shape::Uniform) {
      if (access.kind == AccessKind::Load && is_run && !memory->is_input)
        for (uint32_t other = 1; other < vgpu::kWarpSize && !ended_; ++other)
          loaded(warp, *memory, access, access.addresses[other]);
      return;
    }
  }
}

void BlockSample::on_violation(const vgpu::Warp& warp, const vgpu::Inst& inst,
                               const vgpu::ViolationInfo& info) {
  if (!on_ || ended_) return;
  if (info.what == vgpu::Violation::Deadlock)
    end_sample("a block waits for something that only blocks that were not run could do");
  if (info.what != vgpu::Violation::Endless) return;
  const vgpu::SourcePlace place = vgpu::place_of(*warp.grid->program, *warp.frame->function, inst);
  const std::lock_guard lock(mutex_);
  Launch* launch = launch_of(warp.grid->info.id);
  if (launch && !launch->report.endless)
    launch->report.endless =
        protocol::EndlessLoop{place.file, static_cast<int>(place.line), !info.detail.empty()};
}

// ---- Iterations

void BlockSample::end_iteration(Writes& writes, Iteration& iteration) {
  for (const auto& [memory, bytes] : iteration.now) {
    const uint64_t before = bytes_of(iteration.most, memory);
    if (bytes > before) add_bytes(iteration.most, memory, bytes - before);
  }
  iteration.now.clear();
  iteration.stored.merge();
  const auto& loaded = iteration.loaded.ranges;
  const bool reads_others = std::any_of(loaded.begin(), loaded.end(),
                                        [&](const Range& range) { return !iteration.stored.holds(range); });
  iteration.loaded = iteration.stored = {};
  if (!reads_others) return;
  writes.runs_all = true;
  if (writes.iterations > 0)
    end_sample("an iteration of its loop reads what others may have written, and not all of them were run");
}

bool BlockSample::may_skip(const vgpu::Warp& warp, uint32_t loop, uint64_t iterations) {
  if (!on_ || ended_) return false;
  Writes& writes = states_[*warp.block];
  auto& loops = writes.warps[warp.index];
  Iteration& iteration = loops[loop];
  if (iterations == 0) end_iteration(writes, iteration);
  if (writes.runs_all) return false;
  for (const auto& [memory, most] : iteration.most) {
    const uint64_t bytes = most * iterations;
    add_bytes(writes.left_out, memory, bytes);
    // An iteration of a loop around it would have written these, too.
    for (auto& [other, its] : loops)
      if (other != loop) add_bytes(its.now, memory, bytes);
  }
  writes.iterations += iterations;
  return true;
}

void BlockSample::on_copy(const vgpu::OperationInfo&, const vgpu::RangeInfo&, const vgpu::RangeInfo& from) {
  if (!on_ || ended_ || from.host) return;
  const Known* memory = known(from.address);
  if (memory && memory->partly_written != 0)
    end_sample("the host code copies what a kernel wrote, and not all of its blocks were run");
}

}  // namespace assay::checks
