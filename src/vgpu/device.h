// The virtual GPU: loads PTX, owns memory, runs grids.
//
// Example:
//
//     Device device({.threads = 2});
//     auto module = device.load(ptx_text, "kernel.ptx");
//     auto kernel = device.kernel(*module, "embedding_grad");
//     auto x = device.memory().allocate(bytes, 256, MemoryKind::Device, "x");
//     LaunchOutcome outcome = device.launch(*kernel, {.grid = {64}, .block = {256}}, parameters);
//
// A launch either ends or names its fault; it never takes the process down. The order in which
// warps and blocks run follows Options::seed; equal seeds give equal runs. Blocks are spread over
// threads unless the kernel's result could depend on their order (atomics on floats, or whose old
// value is used), so results are reproducible by default.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vgpu/memory.h"
#include "vgpu/warp.h"
#include "vgpu/watch.h"

namespace assay::vgpu {

class Instrumenter;

struct LaunchInfo;
struct SiteBounds;

// Where warps of a long launch stand: a source line, and how many of those that were looked at are there.
struct Standing {
  std::string file;
  uint32_t line = 0;
  uint32_t warps = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};

// Which kernels run as machine code (compiled.h).
enum class Compiling : uint8_t { WhenHot, Always, Never };
Compiling
default_compiling();  // ASSAY_ENGINE: `interpret`, `compile` (all, from their first launch on), else when hot

struct Options {
  unsigned threads = 0;                // 0: as many as the host has
  uint64_t seed = 0;                   // of the schedule; 0: text order
  bool watch = false;                  // run the watched engine even without listeners
  bool fault_after_violation = false;  // a watched launch with an access that was left out ends as a fault
  uint64_t instruction_limit = 0;      // warp instructions of a launch before it counts as endless; 0: none
  uint64_t capacity = uint64_t{141} << 30;  // bytes of device memory
  uint32_t multiprocessors = 132;
  Instrumenter* instrumenter = nullptr;         // of modules as they are loaded (lowering.h); not owned
  std::function<void(std::string_view)> print;  // device printf; stdout when empty
  // Where the warps of one cluster stand, once a second of a launch that takes longer than that; most warps first.
  std::function<void(const LaunchInfo&, double seconds, std::span<const Standing>)> still_running;
  Compiling compiling = default_compiling();
  std::string code_cache{};  // folder of machine code from earlier runs; empty: none is kept
};

struct LaunchConfig {
  Dim3 grid, block;
  Dim3 cluster{0, 0, 0};  // 0: none beyond what the kernel itself requires
  uint32_t dynamic_shared = 0;
  bool cooperative = false;  // every block is resident from the start
  bool early = false;  // programmatic stream serialization: may start before the grid before it has ended
  // A grid before it in its stream still runs, and griddepcontrol.wait waits for GridRun::prior_ended().
  bool prior_runs = false;
  // Blocks stop at griddepcontrol.launch_dependents until GridRun::release().
  bool holds_at_trigger = false;
  uint64_t origin = 0;  // as the caller numbers what asked for the launch, for findings
  // Clusters (blocks, where there are no clusters) by their number in the grid: only these are run, as if the others
  // had not come to their turn yet. Empty: all, unless the launch is `sampled`.
  std::vector<uint64_t> only{};
  std::optional<std::vector<Listener*>> listeners{};  // instead of the device's
  // A sample of the grid: `only`, which may be empty, in this order whatever the seed says. After `seconds` no more
  // clusters are started, and after twice as many those under way are cut off; 0: no limit.
  bool sampled = false;
  double seconds = 0;
  // A sampled launch with these leaves out iterations of loops that are regular (skip.h): shares, 0 to 1, of all
  // iterations of a thread that are worth running.
  std::optional<std::vector<double>> iterations{};
  uint64_t iteration_seed = 0;  // of others that each warp runs as well
};

struct Program;  // a loaded module, decoded

struct Kernel {
  Program* program = nullptr;
  const Function* function = nullptr;
  std::string_view name() const { return function->ptx->name; }
};

struct LaunchInfo {
  uint64_t id = 0;  // in the order of start, from 1
  Kernel kernel;
  LaunchConfig config;
  std::span<const std::byte> parameters;
  uint64_t stream = 0;                 // as the caller numbered it
  const SiteBounds* bounds = nullptr;  // of a watched launch: where its accesses belong (provenance.h)
};

struct LaunchOutcome {
  FaultInfo fault;  // kind None: it ended well
  uint64_t warp_instructions = 0;
  double seconds = 0;
  uint64_t left_out = 0;  // clusters that a sampled launch had no time for
  bool cut = false;       // it was ended while clusters were under way
};

// A grid under way. Launches on different streams take turns: step() runs for a while, or for so many turns of its
// blocks; 0: no matter how many.
class GridRun {
 public:
  virtual ~GridRun() = default;
  // Stalled: every block polls for something outside. Held: all stand at griddepcontrol, having said that dependents may
  // start or waiting for the grid before.
  enum class State : uint8_t { Running, Stalled, Held, Ended };
  virtual State step(uint64_t turns = 0) = 0;
  virtual void
  give_up() = 0;  // after Stalled, when nobody else will write what its blocks poll for: ends it as a livelock
  virtual void release() = 0;      // blocks that are held go on
  virtual void prior_ended() = 0;  // the grid that LaunchConfig::prior_runs is about
  virtual const LaunchOutcome& outcome() const = 0;
  virtual const LaunchInfo& info() const = 0;
};

class Device {
 public:
  explicit Device(Options options);
  ~Device();

  Memory& memory();
  const Options& options() const;
  void set_seed(uint64_t seed);  // of launches that start later
  // Device printf from now on; returns what it was.
  std::function<void(std::string_view)> set_print(std::function<void(std::string_view)> print);
  void advance_clock(uint64_t cycles);  // %clock64 of launches that start later

  using ModuleId = uint32_t;
  Result<ModuleId> load(std::string_view ptx, std::string_view name);
  void unload(ModuleId module);
  Result<Kernel> kernel(ModuleId module, std::string_view name) const;
  std::vector<Kernel> kernels(ModuleId module) const;
  struct VariableInfo {
    Address address;
    uint64_t size;
  };
  Result<VariableInfo> variable(ModuleId module, std::string_view name) const;

  // `parameters` is the kernel's parameter block, laid out as Function::parameter_offsets says. The
  // configuration must be within the hardware's limits (the CUDA runtime checks them, with its error codes).
  std::unique_ptr<GridRun> start(const Kernel& kernel, const LaunchConfig& config,
                                 std::vector<std::byte> parameters, uint64_t stream = 0);
  LaunchOutcome launch(const Kernel& kernel, const LaunchConfig& config, std::vector<std::byte> parameters);

  // Listeners are not owned, and listen to one device at a time; there may be kMostListeners. Changing them affects
  // launches that start later.
  void listen(Listener* listener);
  void ignore(Listener* listener);

  // Blocks of a kernel that fit on one multiprocessor.
  uint32_t resident_blocks_per_multiprocessor(const Kernel& kernel, uint32_t threads,
                                              uint32_t dynamic_shared) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::vgpu
