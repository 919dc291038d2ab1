// A proof against the virtual GPU: a random call is proved, and then run at every shape of a small box, with
// several inputs, under all checks. A run that shows what was proved impossible contradicts the proof.
//
//   std::string text = contradiction(call, &tally);   // empty: none
//
// `overflow` is contradicted by a second run with companions of all registers (index_trace.h), `coverage` by elements that
// are not initialised at the end, `launch` by its numbers, also at shapes that are not run.
//
// An obligation may rest on another: that nothing races, and that an output is covered, is proved of accesses that stay
// where they belong. So a run with an access out of bounds contradicts only `bounds`, unless bounds are proved as well.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "checks/checks.h"
#include "finding/message.h"
#include "fuzz/index_trace.h"
#include "fuzz/random_calls.h"
#include "prove/coverage.h"
#include "prove/messages.h"
#include "prove/prove.h"
#include "vgpu/device.h"

namespace assay::fuzz {

struct Tally {
  int calls = 0, launches = 0, refused = 0, runs = 0;
  std::map<std::string, int> proved, violated;  // by obligation: proved of, and seen to fail in a run
};

class Contradiction {
 public:
  Contradiction(const RandomCall& call, Tally& tally) : call_(call), tally_(tally) {}

  std::string find() {
    ++tally_.calls;
    if (!read()) return problem_;
    prove_all();
    if (proved_.empty()) return "";
    for (const Launched& one : launched_)
      if (std::string text = illegal(one); !text.empty()) return text;
    for (const contract::Shape& shape : shapes_to_run())
      for (int filling = 0; filling < kFillings; ++filling)
        if (std::string text = run(shape, filling); !text.empty()) return text;
    for (const std::string& name : seen_) ++tally_.violated[name];
    return "";
  }

  static std::string ptx(const RandomLaunch& launch, bool with_trace) {
    return fmt::format(
        ".version 8.0\n.target sm_80\n.address_size 64\n{}\n.visible .entry k(.param .u64 p0, .param .u64 "
        "p1, .param .u32 p2, .param .u32 p3, .param .u64 p4{})\n{{\n.reg .pred %p<400>; .reg .b32 %r<900>; "
        ".reg .b64 "
        "%rd<400>; "
        ".reg .b16 %h<100>;\n{}{}ret;\n}}\n",
        launch.shared, with_trace ? ", .param .u64 p5" : "", with_trace ? IndexTrace::kRegisters : "",
        with_trace ? "  ld.param.u64 %flag, [p5]; cvta.to.global.u64 %flag, %flag;\n" + traced(launch.body)
                   : launch.body);
  }

  // Everything, to read or to run again.
  std::string text() const {
    std::string all = toml();
    for (const Launched& one : launched_) {
      std::string when;
      for (const prove::Condition& condition : one.launch.when) when += " if " + condition.text();
      all += fmt::format("\n// case {}{}: grid {}, block {} x {}, dynamic shared memory {}\n{}", one.of, when,
                         one.text->grid, one.text->block, one.text->block_y, one.text->dynamic_shared,
                         ptx(*one.text, false));
    }
    return all;
  }

 private:
  static constexpr int kFillings = 3;                    // indices at random, all the largest, all the same
  static constexpr uint64_t kMostInstructions = 300000;  // of a launch: endless loops are no contradiction
  static constexpr double kSeconds = 2, kAccessSeconds = 0.5;  // of the solver
  static constexpr int64_t kMostThreads = 20000;               // of a launch that is run
  static constexpr int kLegalShapes = 200;                     // at which a launch is looked at only
  static constexpr int64_t kSharedLimit = 48 * 1024;           // bytes
  static constexpr uint64_t kWorkspace = 1040;                 // bytes
  static constexpr uint64_t kReach = uint64_t{64} << 20;       // bytes

  // A launch of the call, with the case that it belongs to.
  struct Launched {
    size_t of = 0;
    const RandomLaunch* text = nullptr;
    ptx::Module module;
    prove::Launch launch;
    std::set<std::string> proved;
  };

  bool two_dims() const { return call_.y.find("\"n\", \"m\"") != std::string::npos; }

  std::string toml() const {
    const char* j = two_dims() ? ", j" : "";
    return fmt::format(
        "[kernel]\nsource = \"k.ptx\"\nglobal = \"k\"\nargs = [\"x\", \"y\", \"n\", \"m\", "
        "\"workspace\"]\ngrid = "
        "[1]\nblock = [1]\nworkspace_bytes = \"1040\"\n"
        "[dims]\n{}\n[tensors.x]\n{}\n[tensors.y]\n{}\n[reference]\nformula = \"y[i{}] = {}\"\n",
        call_.dims, call_.x, call_.y, j, call_.output ? "0" : fmt::format("y[i{}]", j));
  }

  bool fail(std::string text) {
    problem_ = std::move(text);
    return false;
  }

  static std::vector<prove::Condition> condition_of(RandomCase::When when) {
    using When = RandomCase::When;
    using Kind = prove::Condition::Kind;
    switch (when) {
      case When::MultipleOf4:
        return {{Kind::Multiple, "n", 4}};
      case When::NoMultipleOf4:
        return {{Kind::NoMultiple, "n", 4}};
      case When::AtLeast5:
        return {{Kind::AtLeast, "n", 5}};
      case When::AtMost4:
        return {{Kind::AtMost, "n", 4}};
      default:
        return {};
    }
  }

  bool read() {
    auto contract = contract::parse(toml(), "random.toml");
    if (!contract) return fail("the contract: " + contract.error().text() + "\n" + toml());
    contract_ = std::move(*contract);
    for (size_t of = 0; of < call_.cases.size(); ++of) {
      prove::Case one;
      one.when = condition_of(call_.cases[of].when);
      for (const RandomLaunch& text : call_.cases[of].launches) {
        auto module = ptx::parse(ptx(text, false), "random.ptx");
        if (!module) return fail("the kernel: " + module.error().text() + "\n" + ptx(text, false));
        launched_.push_back({of, &text, std::move(*module), launch_of(text, one.when), {}});
        one.launches.push_back(launched_.back().launch);
      }
      if (!call_.cases[of].filled.empty()) {
        one.fills.push_back({"y", prove::Expr::literal(0), *prove::parse_expr(call_.cases[of].filled)});
        one.filled = {"y"};
      }
      cases_.push_back(std::move(one));
    }
    return true;
  }

  static prove::Launch launch_of(const RandomLaunch& text, const std::vector<prove::Condition>& when) {
    const auto expr = [&](const std::string& what) { return *prove::parse_expr(what); };
    prove::Launch launch;
    launch.kernel = "k";
    launch.when = when;
    launch.grid[0] = expr(text.grid);
    launch.block[0] = expr(text.block);
    launch.block[1] = expr(text.block_y);
    launch.grid[1] = launch.grid[2] = launch.block[2] = prove::Expr::literal(1);
    launch.dynamic_shared = expr(text.dynamic_shared);
    launch.shared_limit = prove::Expr::literal(kSharedLimit - text.static_shared);
    launch.static_shared = text.static_shared;
    launch.pointers[0] = {"x", prove::Expr::literal(0)};
    launch.pointers[8] = {"y", prove::Expr::literal(0)};
    launch.words[16] = expr("n");
    launch.words[20] = expr("m");
    launch.pointers[24] = {"workspace", prove::Expr::literal(0)};
    launch.parameter_bytes = 32;
    if (text.zeroed > 0)
      launch.zeroed = {{"workspace", prove::Expr::literal(0), prove::Expr::literal(text.zeroed), true, 0}};
    return launch;
  }

  // ---- proofs

  // Arrays that some launch of the call, or the host, writes.
  std::vector<std::string> written() {
    std::set<std::string> names;
    for (const prove::Case& one : cases_) names.insert(one.filled.begin(), one.filled.end());
    for (Launched& one : launched_) {
      prove::Terms terms;
      prove::Dims dims(terms, contract_);
      const auto summary =
          prove::execute(terms, dims, one.module, one.module.functions.front(), one.launch, {});
      if (!summary || !summary->gaps.empty()) return {"x", "y", "workspace"};
      for (const std::string& name : prove::written_arrays(terms, *summary)) names.insert(name);
    }
    return {names.begin(), names.end()};
  }

  void prove_all() {
    const std::vector<std::string> changed = written();
    prove::Solver solver;
    for (Launched& one : launched_) prove_launched(one, changed, solver);
    if (call_.output) prove_output(changed, solver);
  }

  void prove_launched(Launched& one, const std::vector<std::string>& changed, prove::Solver& solver) {
    ++tally_.launches;
    prove::Terms terms;
    prove::Dims dims(terms, contract_);
    const ptx::Function& kernel = one.module.functions.front();
    auto summary = prove::execute(terms, dims, one.module, kernel, one.launch, changed);
    if (!summary) {
      ++tally_.refused;
      return;
    }
    prove::Claims claims(terms, *summary, solver);
    prove::Setting setting{terms, dims, one.module, kernel, one.launch, *summary, claims, solver};
    setting.access_seconds = kAccessSeconds;
    setting.most_counterexamples = 0;
    setting.until = prove::work_seconds() + kSeconds;
    // What threads exchange is what it is taken for if all of them get there, as in Prover::prove_one.
    if ((summary->exchanges |= prove::describe_messages(setting)) &&
        !prove::prove_barriers(setting).threads_agree)
      return;
    bool threads_agree = false;
    using Prove = prove::Obligation (*)(prove::Setting&);
    for (const Prove prove :
         {Prove{prove::prove_launch}, Prove{prove::prove_bounds}, Prove{prove::prove_overflow},
          Prove{prove::prove_alignment}, Prove{prove::prove_barriers}, Prove{prove::prove_races}}) {
      setting.until = prove::work_seconds() + kSeconds;
      const prove::Obligation obligation = prove(setting);
      threads_agree |= obligation.threads_agree;
      if (obligation.status != prove::Status::Proved) continue;
      // Barriers order accesses only if all threads pass the same ones, and arrays are apart only as long as no access
      // leaves its own.
      if (obligation.name == "race" && !(threads_agree && one.proved.contains("bounds"))) continue;
      one.proved.insert(obligation.name);
      proved_.insert(obligation.name);
      ++tally_.proved[obligation.name];
    }
  }

  void prove_output(const std::vector<std::string>& changed, prove::Solver& solver) {
    prove::Obligation result;
    prove::CoverageSetting setting{contract_, solver, changed};
    setting.output_seconds = kSeconds;
    setting.counterexamples = false;
    for (size_t of = 0; of < cases_.size(); ++of) {
      std::vector<prove::LaunchedKernel> kernels;
      for (const Launched& one : launched_)
        if (one.of == of) kernels.push_back({&one.module, &one.module.functions.front(), &one.launch});
      setting.until = prove::work_seconds() + kSeconds;
      prove::prove_coverage(setting, cases_[of], kernels, result);
    }
    if (!result.open.empty()) return;
    proved_.insert("coverage");
    ++tally_.proved["coverage"];
  }

  // ---- runs

  std::vector<contract::Shape> shapes_to_run() const {
    std::vector<contract::Shape> shapes;
    const std::vector<int64_t> n = call_.large
                                       ? std::vector<int64_t>{1, 2, 3, 4, 5, 8, 12, 17, 32, 33, 64, 100, 1000}
                                       : std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (const int64_t a : n)
      for (const int64_t b : {1, 2, 3, 4}) {
        const contract::Shape shape = {{"n", a}, {"m", b}};
        if (contract_.check_shape(shape)) shapes.push_back(shape);
      }
    return shapes;
  }

  static int64_t at(const prove::ExprPtr& expr, const contract::Shape& shape) {
    return prove::evaluate(*expr, shape).value_or(-1);
  }
  static bool applies(const std::vector<prove::Condition>& when, const contract::Shape& shape) {
    for (const prove::Condition& condition : when)
      if (!condition.holds(shape)) return false;
    return true;
  }
  static bool legal(const prove::Launch& launch, const contract::Shape& shape) {
    const int64_t grid = at(launch.grid[0], shape), x = at(launch.block[0], shape),
                  y = at(launch.block[1], shape);
    const int64_t shared = at(launch.dynamic_shared, shape);
    return grid >= 1 && grid < (int64_t{1} << 31) && x >= 1 && y >= 1 && x * y <= 1024 && shared >= 0 &&
           shared + launch.static_shared <= kSharedLimit;
  }

  // A shape at which a launch is illegal though it was proved legal.
  std::string illegal(const Launched& one) {
    std::mt19937 random(1);
    std::vector<contract::Shape> shapes = shapes_to_run();
    for (int i = 0; i < kLegalShapes; ++i) {
      contract::Shape shape;
      for (const char* name : {"n", "m"}) {
        const contract::Dim& dim = *contract_.dim(name);
        const int64_t steps = (dim.max - dim.lowest()) / dim.multiple_of;
        const int64_t step = i < 2 ? i * steps : static_cast<int64_t>(random()) % (steps + 1);
        shape[name] = dim.lowest() + step * dim.multiple_of;
      }
      shapes.push_back(shape);
    }
    for (const contract::Shape& shape : shapes) {
      if (!applies(one.launch.when, shape) || legal(one.launch, shape)) continue;
      seen_.insert("launch");
      if (one.proved.contains("launch"))
        return fmt::format("launch was proved; it is illegal at {}\n{}", contract::to_string(shape), text());
    }
    return "";
  }

  struct Memory {
    uint64_t x = 0, y = 0, workspace = 0, flag = 0, y_bytes = 0;
  };

  Memory allocate(vgpu::Device& device, const contract::Shape& shape, int filling) {
    Memory memory;
    for (const char* name : {"x", "y"}) {
      const contract::TensorSpec& tensor = *contract_.tensor(name);
      int64_t count = 1;
      const auto extents = tensor.extents(shape);
      for (const int64_t extent : *extents) count *= extent;
      const auto bytes = static_cast<uint64_t>(4 * count);
      const uint64_t address = *device.memory().allocate(bytes, 256, vgpu::MemoryKind::Device, tensor.name);
      const bool is_x = tensor.name == "x";
      fill(reinterpret_cast<uint32_t*>(device.memory().host(address, bytes)), count, is_x ? shape.at("n") : 4,
           filling);
      if (is_x || !call_.output) device.memory().mark_initialised(address, bytes);
      (is_x ? memory.x : memory.y) = address;
      if (!is_x) memory.y_bytes = bytes;
    }
    memory.workspace = *device.memory().allocate(kWorkspace, 256, vgpu::MemoryKind::Device, "workspace");
    fill(reinterpret_cast<uint32_t*>(device.memory().host(memory.workspace, kWorkspace)), kWorkspace / 4, 9,
         filling);
    device.memory().mark_initialised(memory.workspace, kWorkspace);
    // Out of the reach of accesses that leave the tensors.
    (void)device.memory().allocate(kReach, 256, vgpu::MemoryKind::Device, "nothing");
    memory.flag = *device.memory().allocate(4, 256, vgpu::MemoryKind::Device, "flag");
    device.memory().mark_initialised(memory.flag, 4);
    return memory;
  }

  static vgpu::LaunchOutcome launch(vgpu::Device& device, const Launched& one, const contract::Shape& shape,
                                    const Memory& memory, bool with_trace) {
    const auto loaded = device.load(ptx(*one.text, with_trace), "random.ptx");
    if (!loaded) {
      std::fprintf(stderr, "%s\n%s", loaded.error().text().c_str(), ptx(*one.text, with_trace).c_str());
      std::abort();
    }
    const auto n = static_cast<uint32_t>(shape.at("n")), m = static_cast<uint32_t>(shape.at("m"));
    std::vector<std::byte> parameters(with_trace ? 40 : 32);
    if (one.text->zeroed > 0)
      std::memset(device.memory().host(memory.workspace, one.text->zeroed), 0, one.text->zeroed);
    std::memcpy(parameters.data(), &memory.x, 8);
    std::memcpy(parameters.data() + 8, &memory.y, 8);
    std::memcpy(parameters.data() + 16, &n, 4);
    std::memcpy(parameters.data() + 20, &m, 4);
    std::memcpy(parameters.data() + 24, &memory.workspace, 8);
    if (with_trace) std::memcpy(parameters.data() + 32, &memory.flag, 8);
    vgpu::LaunchConfig config;
    config.grid.x = static_cast<uint32_t>(at(one.launch.grid[0], shape));
    config.block.x = static_cast<uint32_t>(at(one.launch.block[0], shape));
    config.block.y = static_cast<uint32_t>(at(one.launch.block[1], shape));
    config.dynamic_shared = static_cast<uint32_t>(at(one.launch.dynamic_shared, shape));
    return device.launch(*device.kernel(*loaded, "k"), config, parameters);
  }

  // The launches of the case that a shape belongs to. None: one of them cannot be run.
  std::vector<const Launched*> launches_at(const contract::Shape& shape) const {
    std::vector<const Launched*> found;
    for (const Launched& one : launched_) {
      if (!applies(one.launch.when, shape)) continue;
      const int64_t threads =
          at(one.launch.grid[0], shape) * at(one.launch.block[0], shape) * at(one.launch.block[1], shape);
      if (!legal(one.launch, shape) || threads > kMostThreads) return {};
      found.push_back(&one);
    }
    return found;
  }

  // What one call shows, by obligation; contradicts what was proved.
  std::string run(const contract::Shape& shape, int filling) {
    const std::vector<const Launched*> launches = launches_at(shape);
    if (launches.empty()) return "";
    ++tally_.runs;
    vgpu::Device device({.threads = 1,
                         .seed = static_cast<uint64_t>(filling),
                         .watch = true,
                         .instruction_limit = kMostInstructions,
                         .capacity = uint64_t{1} << 30});
    const Memory memory = allocate(device, shape, filling);
    const prove::Case& one = cases_[launches.front()->of];
    for (const prove::Fill& fill : one.fills)
      device.memory().mark_initialised(memory.y, static_cast<uint64_t>(at(fill.bytes, shape)));
    checks::FindingLog log;
    using protocol::Check;
    auto listeners = checks::make_checks(protocol::CheckSet{Check::Memory, Check::Races, Check::Sync}, log,
                                         device.memory());
    for (auto& listener : listeners) device.listen(listener.get());
    const auto report = [&](const std::string& name, const std::string& what) {
      return fmt::format("{} was proved; at {}, inputs {}: {}\n{}", name, contract::to_string(shape), filling,
                         what, text());
    };
    bool ended = true;  // every launch ran to its end, and all accesses were where they belong
    for (const Launched* launched : launches) {
      const vgpu::LaunchOutcome outcome = launch(device, *launched, shape, memory, false);
      std::map<std::string, std::string> shows;
      for (const Finding& finding : log.take())
        if (finding.severity == Severity::Error)
          shows.try_emplace(obligation_of(finding.kind), message(finding));
      if (outcome.fault.kind == vgpu::FaultInfo::Kind::Deadlock)
        shows.try_emplace("barrier", outcome.fault.message);
      const bool misplaced = shows.contains("bounds");
      ended &=
          outcome.fault.kind == vgpu::FaultInfo::Kind::None && !misplaced && !shows.contains("alignment");
      for (const auto& [name, what] : shows) {
        if (!name.empty()) seen_.insert(name);
        if (launched->proved.contains(name) &&
            (!misplaced || name == "bounds" || launched->proved.contains("bounds")))
          return report(name, what);
      }
      if (!ended)
        return trace(shape, filling, launches, report);  // what comes after it is not promised anything
    }
    const auto unwritten = device.memory().first_uninitialised(memory.y, memory.y_bytes);
    if (call_.output && unwritten) {
      seen_.insert("coverage");
      if (proved_.contains("coverage"))
        return report("coverage", fmt::format("element {} is not written", (*unwritten - memory.y) / 4));
    }
    return trace(shape, filling, launches, report);
  }

  template <class Report>
  std::string trace(const contract::Shape& shape, int filling, const std::vector<const Launched*>& launches,
                    const Report& report) {
    vgpu::Device device({.threads = 1,
                         .seed = static_cast<uint64_t>(filling),
                         .watch = true,
                         .instruction_limit = 20 * kMostInstructions,
                         .capacity = uint64_t{1} << 30});
    const Memory memory = allocate(device, shape, filling);
    for (const Launched* launched : launches) {
      launch(device, *launched, shape, memory, true);
      uint32_t wrapped = 0;
      std::memcpy(&wrapped, device.memory().host(memory.flag, 4), 4);
      if (wrapped != 1) continue;
      seen_.insert("overflow");
      if (launched->proved.contains("overflow")) return report("overflow", "an index wraps");
      return "";
    }
    return "";
  }

  static void fill(uint32_t* to, int64_t count, int64_t below, int filling) {
    std::mt19937 random(static_cast<uint32_t>(count * 7 + filling));
    for (int64_t i = 0; i < count; ++i)
      to[i] = filling == 0   ? random() % static_cast<uint32_t>(below)
              : filling == 1 ? static_cast<uint32_t>(below - 1)
                             : 0;
  }

  static std::string obligation_of(Kind kind) {
    switch (kind) {
      case Kind::OutOfBounds:
        return "bounds";
      case Kind::Misaligned:
        return "alignment";
      case Kind::DataRace:
        return "race";
      case Kind::BarrierDivergence:
      case Kind::Deadlock:
        return "barrier";
      default:
        return "";
    }
  }

  const RandomCall& call_;
  Tally& tally_;
  std::string problem_;
  contract::Contract contract_;
  std::vector<prove::Case> cases_;
  std::vector<Launched> launched_;
  std::set<std::string> proved_, seen_;
};

inline std::string contradiction(const RandomCall& call, Tally& tally) {
  return Contradiction(call, tally).find();
}

}  // namespace assay::fuzz
