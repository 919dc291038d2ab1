// A kernel in PTX under a contract and a launch, for tests: what is proved of it, and whether its summary is
// true.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "prove/coverage.h"
#include "prove/obligation.h"

namespace assay::prove::testing {

ExprPtr expr(const std::string& text);

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
  // bits) or "= ?" (32 bits that the launch relation does not tell).
  std::vector<std::string> parameters = {"x", "y", "= n"};
  std::vector<Fill> zeroed{};  // before the launch
  std::string directives{};    // of the kernel: ".reqntid 64"
  bool overlaps = false;
  std::string registers =
      ".reg .pred %p<20>; .reg .b32 %r<60>; .reg .b64 %rd<60>; .reg .f32 %f<20>; .reg .b16 %h<20>;";
  std::string body;
};

// Everything that the obligations need, kept together.
class ProvedKernel {
 public:
  explicit ProvedKernel(const KernelText& text);
  ~ProvedKernel();

  Summary& summary() { return **summary_; }
  bool executed() const { return static_cast<bool>(*summary_); }
  Terms& terms() { return terms_; }
  Dims& dims();
  const ptx::Module& module() const { return module_; }
  const contract::Contract& contract() const { return contract_; }
  const Launch& launch() const { return launch_; }
  Solver& solver() { return solver_; }

  // Whether something is proved. A counterexample is looked for only where a test asks for it.
  Obligation prove(Obligation (*which)(Setting&), bool counterexamples = false);
  Status bounds() { return prove(prove_bounds).status; }
  Status overflow() { return prove(prove_overflow).status; }
  Status alignment() { return prove(prove_alignment).status; }
  Status barriers() { return prove(prove_barriers).status; }
  Status legality() { return prove(prove_launch).status; }

  // Whether every element of y is written, by this kernel and what `fills` says.
  Obligation coverage(std::vector<Fill> fills = {}, bool counterexamples = false) {
    return coverage_with({}, std::move(fills), {}, counterexamples);
  }
  // The same with other kernels of the same contract launched beside it.
  Obligation coverage_with(const std::vector<ProvedKernel*>& others, std::vector<Fill> fills = {},
                           std::vector<Condition> when = {}, bool counterexamples = false);
  std::map<std::string, bool> threads_agree;  // for coverage

 private:
  std::vector<std::string> written_in_a_first_run();

  Solver solver_;
  contract::Contract contract_;
  ptx::Module module_;
  Launch launch_;
  Terms terms_;
  std::unique_ptr<Dims> dims_;
  std::unique_ptr<Result<Summary>> summary_;
  bool described_ = false;  // its messages
  std::vector<GridTicket> grid_tickets_;
  std::map<Var, Term> broadcast_;
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
