#include "prove/values_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/symbol.h"
#include "prove/solve.h"
#include "vgpu/device.h"

namespace assay::prove {

using contract::TensorSpec;

namespace {

constexpr int64_t kDevicePart = 32;                    // elements of an input that are made together
constexpr int64_t kMadeAtOnce = int64_t{1} << 16;      // inputs up to this size are made whole
constexpr uint64_t kWholeThreads = uint64_t{1} << 16;  // calls of no more threads are run whole
constexpr int kBlocks = 4;                             // of a larger grid: the first, the last, and others
constexpr size_t kKept = 24;                           // elements of an output that are kept from one run
constexpr int kMostRounds = 5;  // a loaded index leads to another part: rarely more than twice
// Warp instructions of a launch, and elements of all inputs that are made for a run: each about a quarter of a second.
// What takes more is left out.
constexpr uint64_t kMostInstructions = 4'000'000;
constexpr int64_t kMostDeviceMade = int64_t{1} << 23;

// Memory of the call on the device.
struct DeviceArray {
  const TensorSpec* tensor = nullptr;  // null: the workspace
  vgpu::Address base = 0;
  uint64_t shift = 0;  // from `base` to the first element: a pointer is aligned to what the contract promises
  uint64_t bytes = 0;
  contract::Layout layout{};            // of a tensor
  int64_t elements = 0;                 // of it
  std::vector<bool> made, asked;        // by part, of inputs: what is made, and what was read
  std::vector<int64_t> missing, parts;  // parts that were read and not made; those that are made

  bool is_input() const { return tensor && tensor->is_input(); }
  uint64_t bits() const { return static_cast<uint64_t>(contract::info(tensor->dtype).bits); }
  // Places for elements: those between elements are counted, too.
  int64_t count() const { return static_cast<int64_t>(bytes * 8 / bits()); }
  uint64_t at(int64_t place) const { return static_cast<uint64_t>(place) * bits() / 8; }  // bytes
  bool is_packed() const { return bits() < 8; }

  // The element at a place; none: the place is between elements.
  std::optional<int64_t> element(int64_t place) const {
    if (layout.is_plain()) return place;
    if (is_packed()) return place < elements ? std::optional(place) : std::nullopt;  // half of the last byte
    const auto index = layout.element_at(static_cast<int64_t>(at(place)));
    if (!index) return std::nullopt;
    int64_t element = 0;
    for (size_t i = 0; i < index->size(); ++i) element = element * layout.extents[i] + (*index)[i];
    return element;
  }
};

// Two elements in a byte follow each other in the order of the tensor.
bool is_understood(const contract::Layout& layout) {
  return contract::info(layout.dtype).bits >= 8 || layout.strides == contract::dense_strides(layout.extents);
}

// What the blocks of a run read and write.
class BlocksObserver : public vgpu::Listener {
 public:
  BlocksObserver(std::vector<DeviceArray>& arrays, const vgpu::Memory& memory, bool whole, Random& random)
      : arrays_(arrays),
        memory_(memory),
        whole_(whole),
        random_(random),
        kept_(arrays.size()),
        seen_(arrays.size()) {}

  bool wants_accesses(ptx::Space space) const override { return space == ptx::Space::Global; }

  void on_access(const vgpu::Warp&, const vgpu::Inst&, const vgpu::Access& access) override {
    using vgpu::AccessKind;
    const bool updates = access.kind == AccessKind::Atomic || access.kind == AccessKind::Reduction;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (!(access.lanes >> lane & 1)) continue;
      const vgpu::Address at = access.addresses[lane];
      DeviceArray* array = find(at);
      if (!array) continue;  // a variable of the module
      if (updates && !whole_) problem("its blocks add to memory by atomics, and not all of them can be run");
      if (access.kind == AccessKind::Load || updates) read(*array, at, access.bytes);
      if (access.kind == AccessKind::Store || updates) stored(*array, at, access.bytes);
    }
  }

  void on_violation(const vgpu::Warp&, const vgpu::Inst&, const vgpu::ViolationInfo& info) override {
    using vgpu::Violation;
    violation_ |= info.what == Violation::OutOfBounds || info.what == Violation::Misaligned;
  }

  const std::string& problem() const { return problem_; }
  bool violation() const { return violation_; }
  const std::vector<int64_t>& kept(size_t array) const { return kept_[array]; }

 private:
  DeviceArray* find(vgpu::Address at) {
    const auto holds = [&](const DeviceArray& a) { return at >= a.base && at < a.base + a.shift + a.bytes; };
    if (last_ < arrays_.size() && holds(arrays_[last_])) return &arrays_[last_];
    for (last_ = 0; last_ < arrays_.size(); ++last_)
      if (holds(arrays_[last_])) return &arrays_[last_];
    return nullptr;
  }

  void read(DeviceArray& array, vgpu::Address at, uint32_t bytes) {
    if (!array.is_input()) {
      if (!memory_.first_uninitialised(at, bytes)) return;
      problem(whole_ ? "it reads memory that no kernel has written"
                     : "its blocks read what other blocks or kernels write, and not all of them can be run");
      return;
    }
    if (at < array.base + array.shift) return;
    const uint64_t offset = at - array.base - array.shift, part = array.at(kDevicePart);
    for (uint64_t p = offset / part; p <= (offset + bytes - 1) / part && p < array.made.size(); ++p)
      if (!array.made[p] && !array.asked[p]) {
        array.asked[p] = true;
        array.missing.push_back(static_cast<int64_t>(p));
      }
  }

  // Keeps some of the places, each with the same chance, and the last.
  void stored(DeviceArray& array, vgpu::Address at, uint32_t bytes) {
    if (!array.tensor || !array.tensor->is_output() || at < array.base + array.shift) return;
    const uint64_t offset = at - array.base - array.shift;
    std::vector<int64_t>& kept = kept_[last_];
    const auto first = static_cast<int64_t>(offset * 8 / array.bits());
    const auto end = static_cast<int64_t>(((offset + bytes) * 8 + array.bits() - 1) / array.bits());
    for (int64_t element = first; element < std::min(end, array.count()); ++element) {
      const uint64_t number = ++seen_[last_];
      if (kept.size() < kKept) {
        kept.push_back(element);
        continue;
      }
      kept.back() = element;
      const auto place = static_cast<uint64_t>(random_.between(0, static_cast<int64_t>(number) - 1));
      if (place + 1 < kKept) kept[place] = element;
    }
  }

  void problem(const char* text) {
    if (problem_.empty()) problem_ = text;
  }

  std::vector<DeviceArray>& arrays_;
  const vgpu::Memory& memory_;
  const bool whole_;
  Random& random_;
  std::vector<std::vector<int64_t>> kept_;  // by array
  std::vector<uint64_t> seen_;
  size_t last_ = 0;
  std::string problem_;
  bool violation_ = false;
};

}  // namespace

struct ValuesBlocks::Impl {
  using Launch = protocol::RecordedLaunchEvent;

  Impl(const contract::Contract& the_contract, std::span<const std::string> texts)
      : contract(the_contract),
        device({.threads = 1,
                .watch = true,
                .instruction_limit = kMostInstructions,
                .print = [](std::string_view) {}}) {
    for (const std::string& text : texts)
      if (auto module = device.load(text, "the subject's PTX")) modules.push_back(*module);
  }

  const contract::Contract& contract;
  vgpu::Device device;
  std::vector<vgpu::Device::ModuleId> modules;
  std::vector<DeviceArray> arrays;

  std::optional<vgpu::Kernel> find(const std::string& symbol) const {
    for (const vgpu::Device::ModuleId module : modules)
      if (auto kernel = device.kernel(module, symbol)) return *kernel;
    return std::nullopt;
  }

  // Memory as it is before the call: fresh, with the parts of the inputs that are known to be read. An error
  // text; empty: none.
  std::string prepare(const ValuesInputs& inputs) {
    release();
    const contract::Shape& shape = inputs.bindings().shape;
    const bool first = arrays.empty();
    if (first) {
      for (const TensorSpec& tensor : contract.tensors) {
        DeviceArray array{.tensor = &tensor};
        auto layout = tensor.layout(shape);
        if (!layout) return layout.error().message;
        if (!is_understood(*layout)) return fmt::format("the layout of `{}` is not understood", tensor.name);
        array.layout = std::move(*layout);
        array.bytes = static_cast<uint64_t>(array.layout.bytes);
        array.elements = 1;
        for (const int64_t extent : array.layout.extents) array.elements *= extent;
        array.shift = tensor.align < 256 ? static_cast<uint64_t>(tensor.align) : 0;
        if (array.is_input())
          array.made.resize(static_cast<size_t>((array.count() + kDevicePart - 1) / kDevicePart));
        array.asked = array.made;
        if (array.is_input() && array.count() <= kMadeAtOnce)
          for (size_t part = 0; part < array.made.size(); ++part)
            array.missing.push_back(static_cast<int64_t>(part));
        arrays.push_back(std::move(array));
      }
      DeviceArray workspace;
      if (const auto bytes = contract.kernel.workspace_bytes.eval(shape); bytes && *bytes > 0)
        workspace.bytes = static_cast<uint64_t>(*bytes);
      arrays.push_back(std::move(workspace));
    }
    int64_t total = 0;
    for (DeviceArray& array : arrays) {
      const auto base = device.memory().allocate(std::max<uint64_t>(array.shift + array.bytes, 1), 256,
                                                 vgpu::MemoryKind::Device, name_of(array));
      if (!base) return base.error().message;
      array.base = *base;
      for (const int64_t part : array.missing) {
        array.made[static_cast<size_t>(part)] = true;
        array.parts.push_back(part);
      }
      array.missing.clear();
      total += static_cast<int64_t>(array.parts.size()) * kDevicePart;
      if (total > kMostDeviceMade) return "its blocks read more of the inputs than can be generated";
      for (const int64_t part : array.parts) make(array, part, inputs);
    }
    return "";
  }

  void make(const DeviceArray& array, int64_t part, const ValuesInputs& inputs) {
    const int64_t first = part * kDevicePart, count = std::min(kDevicePart, array.count() - first);
    const vgpu::Address at = array.base + array.shift + array.at(first);
    const uint64_t bytes = (static_cast<uint64_t>(count) * array.bits() + 7) / 8;
    std::byte* to = device.memory().host(at, bytes);
    if (array.layout.is_plain())
      inputs.copy(*array.tensor, first, count, to);
    else
      for (int64_t place = first; place < first + count; ++place) make_one(array, place, first, inputs, to);
    device.memory().mark_initialised(at, bytes);
  }

  // What lies between elements is the caller's: some value of the same kind, which belongs to no tensor.
  static void make_one(const DeviceArray& array, int64_t place, int64_t first, const ValuesInputs& inputs,
                       std::byte* to) {
    const auto element = array.element(place);
    std::byte* const here = to + (array.at(place) - array.at(first));
    if (!array.is_packed()) {
      inputs.copy(*array.tensor, element.value_or(~place), 1, here);
      return;
    }
    std::byte code{};
    inputs.copy(*array.tensor, element.value_or(~place), 1, &code);
    *here = place % 2 == 0 ? code & std::byte{0xf} : (*here & std::byte{0xf}) | (code << 4);
  }

  static std::string name_of(const DeviceArray& array) {
    return array.tensor ? array.tensor->name : "workspace";
  }

  void release() {
    for (DeviceArray& array : arrays)
      if (array.base) device.memory().release(std::exchange(array.base, 0));
  }

  // The parameters with this run's addresses in the place of the recorded ones.
  std::optional<std::vector<std::byte>> parameters(const Launch& launch, const vgpu::Kernel& kernel) const {
    std::vector<std::byte> bytes(std::max<size_t>(kernel.function->parameter_bytes, launch.words.size() * 4));
    std::memcpy(bytes.data(), launch.words.data(), launch.words.size() * 4);
    for (const protocol::RecordedPointer& pointer : launch.pointers) {
      const auto array = std::find_if(arrays.begin(), arrays.end(),
                                      [&](const DeviceArray& a) { return name_of(a) == pointer.to.label; });
      if (array == arrays.end()) return std::nullopt;
      const vgpu::Address address = array->base + pointer.to.offset;
      std::memcpy(bytes.data() + pointer.at, &address, sizeof address);
    }
    bytes.resize(kernel.function->parameter_bytes);
    return bytes;
  }

  contract::Tensor value_at(const DeviceArray& array, int64_t place) {
    contract::Tensor value = contract::Tensor::zeros(array.tensor->dtype, {});
    const uint64_t item = std::max<uint64_t>(1, array.bits() / 8);
    const std::byte* from = device.memory().host(array.base + array.shift + array.at(place), item);
    if (array.is_packed())
      value.store_code(0, static_cast<uint8_t>(place % 2 == 0 ? *from & std::byte{0xf} : *from >> 4));
    else
      std::memcpy(value.at(0), from, item);
    return value;
  }

  static uint64_t blocks_of(const Launch& launch) {
    return uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  }
  static uint64_t threads_of(const Launch& launch) {
    return blocks_of(launch) * launch.block[0] * launch.block[1] * launch.block[2];
  }

  static std::vector<uint64_t> some_blocks(uint64_t count, Random& random) {
    std::set<uint64_t> chosen = {0, count - 1};
    for (int i = 2; i < kBlocks; ++i)
      chosen.insert(static_cast<uint64_t>(random.between(0, static_cast<int64_t>(count) - 1)));
    return {chosen.begin(), chosen.end()};
  }

  // One run of the chosen blocks from the start. An error text; empty: none.
  std::string round(std::span<const Launch> launches, std::span<const std::vector<uint64_t>> chosen,
                    double until) {
    for (size_t i = 0; i < launches.size(); ++i) {
      const Launch& launch = launches[i];
      const auto kernel = find(launch.kernel);
      if (!kernel) return fmt::format("the PTX of {} was not found", plain_name(launch.kernel));
      const auto words = parameters(launch, *kernel);
      if (!words) return "it uses memory that the host code allocates itself";
      vgpu::LaunchConfig config;
      config.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
      config.block = {launch.block[0], launch.block[1], launch.block[2]};
      config.dynamic_shared = static_cast<uint32_t>(launch.dynamic_shared);
      config.cooperative = launch.cooperative;
      config.only = chosen[i];
      const std::unique_ptr<vgpu::GridRun> run = device.start(*kernel, config, *words);
      for (auto state = run->step(); state != vgpu::GridRun::State::Ended; state = run->step()) {
        if (work_seconds() > until) return "time ran out";
        if (state == vgpu::GridRun::State::Stalled) run->give_up();
      }
      const vgpu::LaunchOutcome& outcome = run->outcome();
      if (outcome.fault.kind != vgpu::FaultInfo::Kind::None)
        return fmt::format("blocks of {} do not finish within {} instructions, or fail",
                           plain_name(launch.kernel), kMostInstructions);
    }
    return "";
  }
};

ValuesBlocks::ValuesBlocks(const contract::Contract& contract, std::span<const std::string> texts)
    : impl_(std::make_unique<Impl>(contract, texts)) {}
ValuesBlocks::~ValuesBlocks() = default;

BlocksOutcome ValuesBlocks::run(std::span<const protocol::Event> events, const ValuesInputs& inputs,
                                Random& random, double until) {
  BlocksOutcome outcome;
  std::vector<Impl::Launch> launches;
  uint64_t threads = 0;
  for (const protocol::Event& event : events) {
    if (const auto* launch = std::get_if<Impl::Launch>(&event)) {
      launches.push_back(*launch);
      threads += Impl::threads_of(*launch);
      if (std::any_of(launch->cluster.begin(), launch->cluster.end(), [](uint32_t n) { return n > 1; }))
        outcome.problem = "it launches clusters";
    }
    if (std::holds_alternative<protocol::RecordedFillEvent>(event) ||
        std::holds_alternative<protocol::RecordedCopyEvent>(event))
      outcome.problem = "the host code fills or copies memory, with values that are not recorded";
  }
  if (launches.empty()) outcome.problem = "nothing is launched";
  const bool whole = threads <= kWholeThreads;
  if (!whole && std::any_of(launches.begin(), launches.end(), [](const auto& l) { return l.cooperative; }))
    outcome.problem = "all blocks of a cooperative launch are needed, and not all of them can be run";
  if (!outcome.problem.empty()) return outcome;

  std::vector<std::vector<uint64_t>> chosen;
  for (const Impl::Launch& launch : launches)
    chosen.push_back(whole ? std::vector<uint64_t>{} : Impl::some_blocks(Impl::blocks_of(launch), random));
  Impl& impl = *impl_;
  impl.release();
  impl.arrays.clear();
  for (int number = 0;; ++number) {
    outcome.problem = impl.prepare(inputs);
    if (!outcome.problem.empty()) return outcome;
    BlocksObserver observer(impl.arrays, impl.device.memory(), whole, random);
    impl.device.listen(&observer);
    const std::string failed = impl.round(launches, chosen, until);
    impl.device.ignore(&observer);
    const bool incomplete = std::any_of(impl.arrays.begin(), impl.arrays.end(),
                                        [](const DeviceArray& array) { return !array.missing.empty(); });
    if (incomplete && number < kMostRounds && work_seconds() < until) continue;
    if (incomplete && work_seconds() > until) {
      outcome.problem = "time ran out";
      return outcome;
    }
    outcome.problem = incomplete ? "loaded indices reach more and more of the inputs" : failed;
    if (outcome.problem.empty()) outcome.problem = observer.problem();
    outcome.violation = !incomplete && observer.violation();
    if (outcome.violation) outcome.problem = "a block makes an access that is out of bounds or misaligned";
    if (!outcome.problem.empty()) return outcome;
    for (const Impl::Launch& launch : launches) outcome.kernels.insert(launch.kernel);
    for (size_t i = 0; i < impl.arrays.size(); ++i) {
      const DeviceArray& array = impl.arrays[i];
      std::set<int64_t> places(observer.kept(i).begin(), observer.kept(i).end());
      for (const int64_t place : places)
        if (const auto element = array.element(place))
          outcome.stored.push_back({array.tensor, *element, impl.value_at(array, place)});
    }
    return outcome;
  }
}

}  // namespace assay::prove
