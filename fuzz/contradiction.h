// A proof against the virtual GPU: a random kernel is proved, and then run at every shape of a small box, with
// several inputs, under all checks. A run that shows what was proved impossible contradicts the proof.
//
//   std::string text = contradiction(kernel, &tally);   // empty: none
//
// An obligation may rest on another: that nothing races, and that an output is covered, is proved of accesses that stay
// where they belong. So a run with an access out of bounds contradicts only `bounds`, unless bounds are proved as well.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "checks/checks.h"
#include "finding/message.h"
#include "fuzz/random_kernels.h"
#include "prove/prove.h"
#include "vgpu/device.h"

namespace assay::fuzz {

struct Tally {
  int kernels = 0, refused = 0, runs = 0;
  std::map<std::string, int> proved, violated;  // by obligation: proved of, and seen to fail in a run
};

class Contradiction {
 public:
  Contradiction(const RandomKernel& kernel, Tally& tally) : kernel_(kernel), tally_(tally) {}

  std::string find() {
    ++tally_.kernels;
    if (!read()) return problem_;
    prove_all();
    if (proved_.empty()) return "";
    const auto shapes = shapes_to_run();
    for (const contract::Shape& shape : shapes)
      for (int filling = 0; filling < kFillings; ++filling)
        if (std::string text = run(shape, filling); !text.empty()) return text;
    for (const std::string& name : seen_) ++tally_.violated[name];
    return "";
  }

  std::string ptx() const {
    return fmt::format(
        ".version 8.0\n.target sm_80\n.address_size 64\n{}\n.visible .entry k(.param .u64 p0, .param .u64 "
        "p1, "
        ".param .u32 p2, .param .u32 p3)\n{{\n.reg .pred %p<400>; .reg .b32 %r<900>; .reg .b64 %rd<400>; "
        ".reg .b16 %h<100>;\n{}ret;\n}}\n",
        kernel_.shared, kernel_.body);
  }
  std::string toml() const {
    return fmt::format(
        "[kernel]\nsource = \"k.ptx\"\nglobal = \"k\"\nargs = [\"x\", \"y\", \"n\", \"m\"]\ngrid = "
        "[\"{}\"]\nblock = "
        "[\"{}\"]\n[dims]\n{}\n[tensors.x]\n{}\n[tensors.y]\n{}\n[reference]\nformula = \"y[i{}] = "
        "y[i{}]\"\n",
        kernel_.grid, kernel_.block, kernel_.dims, kernel_.x, kernel_.y, two_dims() ? ", j" : "",
        two_dims() ? ", j" : "");
  }

 private:
  static constexpr int kFillings = 3;                    // indices at random, all the largest, all the same
  static constexpr uint64_t kMostInstructions = 300000;  // of a launch: endless loops are no contradiction
  static constexpr double kSeconds = 4, kAccessSeconds = 0.7;  // of the solver

  bool two_dims() const { return kernel_.y.find("\"n\", \"m\"") != std::string::npos; }

  bool read() {
    auto contract = contract::parse(toml(), "random.toml");
    if (!contract) return fail("the contract: " + contract.error().text());
    contract_ = std::move(*contract);
    auto module = ptx::parse(ptx(), "random.ptx");
    if (!module) return fail("the kernel: " + module.error().text());
    module_ = std::move(*module);
    const auto expr = [&](const std::string& text) { return *prove::parse_expr(text); };
    launch_.kernel = "k";
    launch_.grid[0] = expr(kernel_.grid);
    launch_.block[0] = expr(kernel_.block);
    for (size_t axis = 1; axis < 3; ++axis)
      launch_.grid[axis] = launch_.block[axis] = prove::Expr::literal(1);
    launch_.dynamic_shared = prove::Expr::literal(0);
    launch_.shared_limit = prove::Expr::literal(48 * 1024);
    launch_.static_shared = 4 * static_cast<int64_t>(kernel_.shared_words);
    launch_.pointers[0] = {"x", prove::Expr::literal(0)};
    launch_.pointers[8] = {"y", prove::Expr::literal(0)};
    launch_.words[16] = expr("n");
    launch_.words[20] = expr("m");
    launch_.parameter_bytes = 24;
    return true;
  }
  bool fail(std::string text) {
    problem_ = std::move(text);
    return false;
  }

  void prove_all() {
    std::vector<std::string> written;
    {
      prove::Terms terms;
      prove::Dims dims(terms, contract_);
      const auto first = prove::execute(terms, dims, module_, module_.functions.front(), launch_, {});
      if (!first) {
        ++tally_.refused;
        return;
      }
      written = prove::written_arrays(terms, *first);
    }
    prove::Terms terms;
    prove::Dims dims(terms, contract_);
    const auto summary = prove::execute(terms, dims, module_, module_.functions.front(), launch_, written);
    if (!summary) return;
    prove::Solver solver;
    prove::Claims claims(terms, *summary, solver);
    prove::Setting setting{terms,   dims,     module_, module_.functions.front(),
                           launch_, *summary, claims,  solver};
    setting.access_seconds = kAccessSeconds;
    using Prove = prove::Obligation (*)(prove::Setting&);
    for (const Prove prove : {Prove{prove::prove_bounds}, Prove{prove::prove_alignment},
                              Prove{prove::prove_barriers}, Prove{prove::prove_races}}) {
      setting.until = prove::work_seconds() + kSeconds;
      const prove::Obligation obligation = prove(setting);
      if (obligation.status != prove::Status::Proved) continue;
      // Barriers order accesses only if all threads pass the same ones.
      if (obligation.name == "race" && !proved_.contains("barrier")) continue;
      proved_.insert(obligation.name);
      ++tally_.proved[obligation.name];
    }
  }

  std::vector<contract::Shape> shapes_to_run() const {
    std::vector<contract::Shape> shapes;
    const std::vector<int64_t> n = kernel_.large
                                       ? std::vector<int64_t>{1, 2, 3, 4, 5, 8, 12, 17, 32, 33, 64, 100, 1000}
                                       : std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    for (const int64_t a : n)
      for (const int64_t b : {1, 2, 3, 4}) {
        const contract::Shape shape = {{"n", a}, {"m", b}};
        if (contract_.check_shape(shape)) shapes.push_back(shape);
      }
    return shapes;
  }

  // What one run shows, by obligation; contradicts what was proved.
  std::string run(const contract::Shape& shape, int filling) {
    ++tally_.runs;
    vgpu::Device device(
        {.threads = 1, .watch = true, .instruction_limit = kMostInstructions, .capacity = uint64_t{1} << 30});
    const auto loaded = device.load(ptx(), "random.ptx");
    if (!loaded) return "not loaded: " + loaded.error().text();
    const auto kernel = device.kernel(*loaded, "k");
    uint64_t addresses[2] = {};
    for (const int which : {0, 1}) {
      const contract::TensorSpec& tensor = *contract_.tensor(which == 0 ? "x" : "y");
      int64_t count = 1;
      const auto extents = tensor.extents(shape);
      for (const int64_t extent : *extents) count *= extent;
      const auto bytes = static_cast<uint64_t>(4 * count);
      addresses[which] = *device.memory().allocate(bytes, 256, vgpu::MemoryKind::Device, tensor.name);
      fill(reinterpret_cast<uint32_t*>(device.memory().host(addresses[which], bytes)), count,
           which == 0 ? shape.at("n") : 4, filling);
      device.memory().mark_initialised(addresses[which], bytes);
    }
    std::vector<std::byte> parameters(24);
    const auto n = static_cast<uint32_t>(shape.at("n")), m = static_cast<uint32_t>(shape.at("m"));
    std::memcpy(parameters.data(), addresses, 16);
    std::memcpy(parameters.data() + 16, &n, 4);
    std::memcpy(parameters.data() + 20, &m, 4);
    vgpu::LaunchConfig config;
    config.grid.x = static_cast<uint32_t>(*prove::evaluate(*launch_.grid[0], shape));
    config.block.x = static_cast<uint32_t>(*prove::evaluate(*launch_.block[0], shape));
    checks::FindingLog log;
    using protocol::Check;
    auto listeners = checks::make_checks(protocol::CheckSet{Check::Memory, Check::Races, Check::Sync}, log,
                                         device.memory());
    for (auto& listener : listeners) device.listen(listener.get());
    const vgpu::LaunchOutcome outcome = device.launch(*kernel, config, parameters);
    std::map<std::string, std::string> shows;
    for (const Finding& finding : log.take())
      if (finding.severity == Severity::Error)
        shows.try_emplace(obligation_of(finding.kind), message(finding));
    if (outcome.fault.kind == vgpu::FaultInfo::Kind::Deadlock)
      shows.try_emplace("barrier", outcome.fault.message);
    const bool misplaced = shows.contains("bounds");
    for (const auto& [name, text] : shows) {
      if (!name.empty()) seen_.insert(name);
      if (!proved_.contains(name) || (misplaced && name != "bounds" && !proved_.contains("bounds"))) continue;
      return fmt::format("{} was proved; at n={} m={}, inputs {}: {}\n{}\n{}", name, n, m, filling, text,
                         toml(), ptx());
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

  const RandomKernel& kernel_;
  Tally& tally_;
  std::string problem_;
  contract::Contract contract_;
  ptx::Module module_;
  prove::Launch launch_;
  std::set<std::string> proved_, seen_;
};

inline std::string contradiction(const RandomKernel& kernel, Tally& tally) {
  return Contradiction(kernel, tally).find();
}

}  // namespace assay::fuzz
