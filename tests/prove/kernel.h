// A kernel in PTX under a contract and a launch, for tests: what is proved of it, and whether its summary is
// true.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "prove/coverage.h"
#include "prove/prove.h"

namespace assay::prove::testing {

inline ExprPtr expr(const std::string& text) {
  auto parsed = parse_expr(text);
  EXPECT_TRUE(parsed) << text;
  return *parsed;
}

struct KernelText {
  std::string dims = "n = { min = 1, max = 100000 }";
  std::string x = R"(dtype = "f32"
shape = ["n"])";
  std::string more_tensors;  // tables of their own
  std::string y = R"(dtype = "f32"
shape = ["n"])";
  std::string left = "y[i]";  // of the formula
  std::string grid = "ceil_div(n, 256)", block = "256", block_y = "1", grid_y = "1", shared;
  // Parameters in the order of the PTX: "x", "x + 4 * n" (a pointer) or "= n" (a 32-bit number) or "== n" (64
  // bits).
  std::vector<std::string> parameters = {"x", "y", "= n"};
  std::string registers =
      ".reg .pred %p<20>; .reg .b32 %r<60>; .reg .b64 %rd<60>; .reg .f32 %f<20>; .reg .b16 %h<20>;";
  std::string body;
};

// Everything that the obligations need, kept together.
class ProvedKernel {
 public:
  explicit ProvedKernel(const KernelText& text)
      : contract_(contract_of(text)), module_(module_of(text)), launch_(launch_of(text)) {
    summary_ = std::make_unique<Result<Summary>>(
        execute(terms_, dims(), module_, module_.functions.front(), launch_, written_in_a_first_run()));
  }

  Summary& summary() { return **summary_; }
  bool executed() const { return static_cast<bool>(*summary_); }
  Terms& terms() { return terms_; }
  Dims& dims() { return *(dims_ ? dims_ : dims_ = std::make_unique<Dims>(terms_, contract_)); }
  const ptx::Module& module() const { return module_; }
  const contract::Contract& contract() const { return contract_; }
  const Launch& launch() const { return launch_; }
  Solver& solver() { return solver_; }

  Obligation prove(Obligation (*which)(Setting&)) {
    if (!executed()) return {};
    Claims claims(terms_, summary(), solver_);
    Setting setting{terms_, dims(), module_, module_.functions.front(), launch_, summary(), claims, solver_};
    setting.until = 1e300;
    return which(setting);
  }
  Status bounds() { return prove(prove_bounds).status; }
  Status overflow() { return prove(prove_overflow).status; }
  Status alignment() { return prove(prove_alignment).status; }
  Status barriers() { return prove(prove_barriers).status; }
  Status legality() { return prove(prove_launch).status; }

  // Whether every element of y is written, by this kernel and what `fills` says.
  Obligation coverage(std::vector<Fill> fills = {}) { return coverage_with({}, std::move(fills)); }
  // The same with other kernels of the same contract launched beside it.
  Obligation coverage_with(const std::vector<ProvedKernel*>& others, std::vector<Fill> fills = {},
                           std::vector<Condition> when = {}) {
    std::vector<LaunchedKernel> kernels = {{&module_, &module_.functions.front(), &launch_}};
    for (const ProvedKernel* other : others)
      kernels.push_back({&other->module_, &other->module_.functions.front(), &other->launch_});
    Case one;
    one.fills = std::move(fills);
    one.when = std::move(when);
    CoverageSetting setting{contract_, solver_, {"y"}};
    setting.until = 1e300;
    Obligation result;
    prove_coverage(setting, one, kernels, result);
    result.status = result.open.empty() ? Status::Proved : Status::Unknown;
    return result;
  }

 private:
  static contract::Contract contract_of(const KernelText& text) {
    const std::string toml = fmt::format(
        "[kernel]\nsource = \"k.ptx\"\nglobal = \"k\"\nargs = [\"x\", \"y\"]\ngrid = [1]\nblock = "
        "[1]\n[dims]\n{}\n[tensors.x]\n{}\n{}\n"
        "[tensors.y]\n{}\nrole = \"out\"\n[reference]\nformula = \"{} = 0\"\n",
        text.dims, text.x, text.more_tensors, text.y, text.left);
    auto contract = contract::parse(toml, "test.toml");
    EXPECT_TRUE(contract) << contract.error().text();
    return *contract;
  }

  static ptx::Module module_of(const KernelText& text) {
    std::string parameters;
    for (size_t i = 0; i < text.parameters.size(); ++i)
      parameters += fmt::format("{}.param .{} p{}", i ? ", " : "",
                                text.parameters[i].starts_with("= ") ? "u32" : "u64", i);
    auto module = ptx::parse(fmt::format(".version 9.0\n.target sm_90\n.address_size 64\n{}\n.visible .entry "
                                         "k({})\n{{\n{}\n{}\nret;\n}}\n",
                                         text.shared, parameters, text.registers, text.body),
                             "test.ptx");
    EXPECT_TRUE(module) << module.error().text();
    return *module;
  }

  static Launch launch_of(const KernelText& text) {
    Launch launch;
    launch.kernel = "k";
    launch.grid[0] = expr(text.grid);
    launch.block[0] = expr(text.block);
    launch.grid[1] = expr(text.grid_y);
    launch.block[1] = expr(text.block_y);
    launch.grid[2] = launch.block[2] = Expr::literal(1);
    launch.dynamic_shared = Expr::literal(0);
    launch.shared_limit = Expr::literal(48 * 1024);
    uint32_t at = 0;
    for (const std::string& parameter : text.parameters) {
      const bool word = parameter.starts_with("= "), pair = parameter.starts_with("== ");
      at = word ? at : (at + 7) / 8 * 8;
      if (word)
        launch.words[at] = expr(parameter.substr(2));
      else if (pair)
        launch.pairs[at] = expr(parameter.substr(3));
      else
        launch.pointers[at] = {parameter.substr(0, parameter.find(' ')),
                               parameter.find('+') == std::string::npos
                                   ? Expr::literal(0)
                                   : expr(parameter.substr(parameter.find('+') + 1))};
      at += word ? 4 : 8;
    }
    launch.parameter_bytes = at;
    return launch;
  }

  std::vector<std::string> written_in_a_first_run() {
    Terms terms;
    Dims dims(terms, contract_);
    const auto summary = execute(terms, dims, module_, module_.functions.front(), launch_, {});
    return summary ? written_arrays(terms, *summary) : std::vector<std::string>{};
  }

  Solver solver_;
  contract::Contract contract_;
  ptx::Module module_;
  Launch launch_;
  Terms terms_;
  std::unique_ptr<Dims> dims_;
  std::unique_ptr<Result<Summary>> summary_;
};

// %rd1 = x, %rd2 = y, %r1 = n, %r2 = the thread's index in the grid.
inline constexpr const char* kStart = R"(
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r1, [p2];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r2, %r3, %r4, %r5;
)";

// A kernel that goes on like this after it.
inline KernelText kernel(const std::string& body) {
  KernelText text;
  text.body = kStart + body;
  return text;
}

}  // namespace assay::prove::testing
