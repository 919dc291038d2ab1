// The prover's picture of a kernel against the virtual GPU: every access that a run makes must be one that
// the summary allows, for that thread, block and shape. If the facts about the loops, the lowering or an
// instruction's meaning were wrong, some access that really happens would contradict them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <random>

#include "folders.h"
#include "prove/prove.h"
#include "subject/device_code.h"
#include "vgpu/device.h"

namespace assay::prove {
namespace {

struct Seen {
  uint32_t instruction;  // in the kernel's body
  ptx::Space space;
  vgpu::Address address;
  uint32_t thread, block[3];  // the thread's number in its block
};

// Keeps some of the accesses of a launch, evenly by instruction.
class Sampler : public vgpu::Listener {
 public:
  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) override {
    if (access.space != ptx::Space::Global && access.space != ptx::Space::Shared) return;
    const std::lock_guard lock(mutex_);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (!(access.lanes >> lane & 1)) continue;
      std::vector<Seen>& kept = seen_[inst.source];
      const uint64_t number = ++counts_[inst.source];
      const Seen seen{inst.source,
                      access.space,
                      access.addresses[lane],
                      warp.index * 32 + lane,
                      {warp.block->id[0], warp.block->id[1], warp.block->id[2]}};
      if (kept.size() < kKept)
        kept.push_back(seen);
      else if (const uint64_t at = random_() % number; at < kKept)
        kept[at] = seen;
    }
  }
  std::vector<Seen> take() {
    std::vector<Seen> all;
    for (auto& [instruction, kept] : seen_) all.insert(all.end(), kept.begin(), kept.end());
    return all;
  }

 private:
  static constexpr size_t kKept = 2;  // of each instruction
  std::mutex mutex_;
  std::mt19937_64 random_{5};
  std::map<uint32_t, std::vector<Seen>> seen_;
  std::map<uint32_t, uint64_t> counts_;
};

// A kernel's summary, and what is claimed of its loops, held against runs of it.
class Agreement {
 public:
  Agreement(const contract::Contract& contract, const std::string& ptx, const Launch& launch)
      : contract_(contract),
        ptx_(ptx),
        launch_(launch),
        module_(ptx::parse(ptx, "kernel.ptx")),
        kernel_(module_ ? module_->find(launch.kernel) : nullptr),
        dims_(terms_, contract) {
    if (!kernel_) return;
    auto summary = execute(terms_, dims_, *module_, *kernel_, launch, {});
    EXPECT_TRUE(summary) << summary.error().text();
    if (summary) summary_ = std::move(*summary);
    claims_.emplace(terms_, summary_, solver_);
  }

  // How many accesses were compared.
  size_t run(const contract::Shape& shape) {
    if (!kernel_) return 0;
    shape_ = shape;
    const std::vector<Seen> seen = observe();
    for (const Seen& one : seen) {
      bool possible = false, known = false;
      for (const Access& access : summary_.accesses) {
        if (access.instruction != &kernel_->body[one.instruction] || possible) continue;
        known = true;
        possible = allows(access, one);
      }
      EXPECT_TRUE(known) << "an access that the summary does not have: "
                         << ptx::print(*module_, *kernel_, kernel_->body[one.instruction]);
      EXPECT_TRUE(possible) << "contradicted at " << contract::to_string(shape_) << ", thread " << one.thread
                            << " of block " << one.block[0] << "," << one.block[1] << ": "
                            << ptx::print(*module_, *kernel_, kernel_->body[one.instruction]);
    }
    return seen.size();
  }

 private:
  // With the shape and the thread fixed, a contradiction is usually found at once.
  static constexpr double kSeconds = 5, kNonlinearSeconds = 1;

  // Inputs that the contract allows, at random.
  void fill(const contract::TensorSpec& tensor, std::byte* to, int64_t count) {
    const auto bound = [&](const contract::IntExpr& e) { return *e.eval(shape_); };
    const auto item = static_cast<size_t>(contract::info(tensor.dtype).bytes);
    using contract::ValuesKind;
    for (int64_t i = 0; i < count; ++i) {
      int64_t value = static_cast<int64_t>(random_() & 0x3f3f3f3f3f3f3f3f);
      if (tensor.values.kind == ValuesKind::Index || tensor.values.kind == ValuesKind::Tokens)
        value = static_cast<int64_t>(random_() % static_cast<uint64_t>(bound(tensor.values.a)));
      if (tensor.values.kind == ValuesKind::Mask) value = static_cast<int64_t>(random_() % 2);
      if (tensor.values.kind == ValuesKind::Integers)
        value = bound(tensor.values.a) +
                static_cast<int64_t>(
                    random_() % static_cast<uint64_t>(bound(tensor.values.b) - bound(tensor.values.a) + 1));
      std::memcpy(to + static_cast<size_t>(i) * item, &value, item);
    }
  }

  std::vector<Seen> observe() {
    start_.clear();
    vgpu::Device device({.threads = 1, .watch = true});
    const auto loaded = device.load(ptx_, "kernel.ptx");
    const auto kernel = device.kernel(*loaded, launch_.kernel);
    const auto allocate = [&](const std::string& name, int64_t bytes) {
      start_[name] = *device.memory().allocate(static_cast<uint64_t>(std::max<int64_t>(bytes, 1)), 256,
                                               vgpu::MemoryKind::Device, name);
      return device.memory().host(start_[name], static_cast<uint64_t>(std::max<int64_t>(bytes, 1)));
    };
    for (const contract::TensorSpec& tensor : contract_.tensors) {
      int64_t count = 1;
      const auto extents = tensor.extents(shape_);
      for (const int64_t extent : *extents) count *= extent;
      fill(tensor, allocate(tensor.name, count * contract::info(tensor.dtype).bytes), count);
    }
    allocate("workspace", *contract_.kernel.workspace_bytes.eval(shape_));
    std::vector<std::byte> parameters(kernel->function->parameter_bytes);
    const auto set = [&](uint32_t at, const void* value, size_t bytes) {
      if (at + bytes <= parameters.size()) std::memcpy(parameters.data() + at, value, bytes);
    };
    for (const auto& [at, word] : launch_.words) {
      const int64_t value = *evaluate(*word, shape_);
      set(at, &value, 4);
    }
    for (const auto& [at, pair] : launch_.pairs) {
      const int64_t value = *evaluate(*pair, shape_);
      set(at, &value, 8);
    }
    for (const auto& [at, pointer] : launch_.pointers) {
      const uint64_t address =
          start_.at(pointer.array) + static_cast<uint64_t>(*evaluate(*pointer.offset, shape_));
      set(at, &address, 8);
    }
    vgpu::LaunchConfig config;
    const auto number = [&](const ExprPtr& expr) { return static_cast<uint32_t>(*evaluate(*expr, shape_)); };
    config.grid = {number(launch_.grid[0]), number(launch_.grid[1]), number(launch_.grid[2])};
    config.block = {number(launch_.block[0]), number(launch_.block[1]), number(launch_.block[2])};
    config.dynamic_shared = number(launch_.dynamic_shared);
    block_ = {config.block.x, config.block.y};
    Sampler sampler;
    device.listen(&sampler);
    device.launch(*kernel, config, parameters);
    return sampler.take();
  }

  bool allows(const Access& access, const Seen& seen) {
    const auto base = base_of(terms_, access.address);
    if (!base) return true;  // says nothing
    Lowering lowering(terms_, summary_, &*claims_, solver_);
    const auto fix = [&](Term term, Int value) {
      lowering.assume(equal_to_zero(plus(lowering.poly(term), -value)));
    };
    for (const contract::Dim& dim : contract_.dims)
      if (const Term term = dims_.term(std::string_view(dim.name)); !terms_.is_constant(term))
        fix(term, shape_.at(dim.name));
    const Int thread[3] = {seen.thread % block_[0], seen.thread / block_[0] % block_[1],
                           seen.thread / block_[0] / block_[1]};
    for (Var var = 0; var < terms_.variables(); ++var)
      for (unsigned axis = 0; axis < 3; ++axis) {
        if (terms_.var(var).name == fmt::format("tid.{}", "xyz"[axis])) fix(terms_.of(var), thread[axis]);
        if (terms_.var(var).name == fmt::format("ctaid.{}", "xyz"[axis]))
          fix(terms_.of(var), seen.block[axis]);
      }
    try {
      for (const Term condition : access.path) lowering.assume(condition);
      Poly address = lowering.poly(access.address);
      if (seen.space == ptx::Space::Global) {
        const auto start = start_.find(summary_.arrays.at(*base).name);
        if (start == start_.end()) return true;
        fix(terms_.of(*base), Int{start->second});
      }
      const Formula here = equal_to_zero(plus(address, -Int{seen.address}));
      return lowering.ask(here, kSeconds).kind != Answer::Kind::Unsatisfiable &&
             lowering.ask_nonlinear(here, kNonlinearSeconds).kind != Answer::Kind::Unsatisfiable;
    } catch (const TooHard&) {
      return true;
    }
  }

  const contract::Contract& contract_;
  const std::string& ptx_;
  const Launch& launch_;
  const Result<ptx::Module> module_;
  const ptx::Function* kernel_;
  Terms terms_;
  Dims dims_;
  Summary summary_;
  Solver solver_;
  std::optional<Claims> claims_;
  contract::Shape shape_;
  std::map<std::string, vgpu::Address> start_;
  std::array<Int, 2> block_{1, 1};
  std::mt19937_64 random_{11};
};

class Corpus : public ::testing::TestWithParam<const char*> {};

TEST_P(Corpus, every_access_of_a_run_is_one_that_the_summary_allows) {
  if (subject::find_nvcc().empty()) GTEST_SKIP() << "nvcc was not found";
  const std::string folder = std::string(kSourceFolder) + "/corpus/" + GetParam();
  const auto contract = contract::load(folder + "/contract.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  const auto built = subject::build(*contract, {});
  ASSERT_TRUE(built.subject) << built.failure.error.text();
  const auto texts = subject::device_code(*built.subject, contract->kernel.arch);
  ASSERT_TRUE(texts && !texts->empty());
  RelationOptions options{.fitted = 60, .checked = 20};
  options.runner.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
  options.runner.cudart = std::string(kBinaryFolder) + "/lib";
  const auto relation = infer(*contract, *built.subject, options);
  ASSERT_TRUE(relation) << relation.error().text();
  ASSERT_TRUE(relation->gaps.empty()) << relation->gaps.front();
  ASSERT_EQ(relation->cases.size(), 1u);
  std::mt19937_64 random(3);
  std::vector<contract::Shape> shapes(2);
  for (contract::Shape& shape : shapes) {
    for (const contract::Dim& dim : contract->dims) {
      const int64_t reach =
          std::min<int64_t>(dim.highest(), dim.lowest() + (&shape == &shapes[0] ? 5 : 90 * dim.multiple_of));
      shape[dim.name] =
          dim.lowest() + static_cast<int64_t>(random() % static_cast<uint64_t>(reach - dim.lowest() + 1)) /
                             dim.multiple_of * dim.multiple_of;
    }
  }
  size_t compared = 0;
  for (const Launch& launch : relation->cases.front().launches)
    for (const std::string& text : *texts) {
      Agreement agreement(*contract, text, launch);
      for (const contract::Shape& shape : shapes) compared += agreement.run(shape);
    }
  EXPECT_GT(compared, 10u);
}

INSTANTIATE_TEST_SUITE_P(Prove, Corpus,
                         ::testing::Values("softmax", "gemm", "embedding_grad", "cross_entropy", "conv1d",
                                           "transpose"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace assay::prove
