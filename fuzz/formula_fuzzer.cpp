// Any bytes as the formula of a contract that has a bit of everything.
#include "contracts.h"

namespace {

constexpr std::string_view kBefore = R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "w", "t", "y", "q", "v", "M", "N"]
[dims]
M = { min = 2, max = 64 }
N = { min = 3, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["M", "N"]
[tensors.w]
dtype = "bf16"
shape = ["N"]
[tensors.t]
dtype = "i64"
shape = ["M"]
values = "index(N)"
[tensors.y]
dtype = "f32"
shape = ["M", "N"]
role = "out"
[tensors.q]
dtype = "e4m3"
shape = ["M"]
role = "out"
[tensors.v]
dtype = "i32"
shape = ["N"]
role = "inout"
[scalars.s]
dtype = "f32"
value = 0.3
[reference]
formula = '''
)toml";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view formula(reinterpret_cast<const char*>(data), size);
  if (formula.find("'''") != std::string_view::npos) return 0;  // the contract fuzzer's business
  assay::fuzz::try_contract(std::string(kBefore).append(formula).append("\n'''\n"));
  return 0;
}
