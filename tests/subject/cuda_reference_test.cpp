#include "subject/cuda_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using contract::Contract;
using contract::DType;
using contract::Tensor;

constexpr const char* kNaive = R"(
#include <cuda_bf16.h>
__global__ void naive_kernel(const __nv_bfloat16* x, const float* w, __nv_bfloat16* y, int N, int D, float eps) {
  const int i = blockIdx.x;
  if (threadIdx.x > 0) return;
  float sum = 0.0f;
  for (int d = 0; d < D; ++d) {
    const float v = __bfloat162float(x[i * D + d]);
    sum += v * v;
  }
  const float scale = rsqrtf(sum / D + eps);
  for (int d = 0; d < D; ++d)
    y[i * D + d] = __float2bfloat16(__bfloat162float(x[i * D + d]) * scale * w[d]);
}
extern "C" void naive(const __nv_bfloat16* x, const float* w, __nv_bfloat16* y, int N, int D, float eps,
                      cudaStream_t stream) {
  naive_kernel<<<N, 1, 0, stream>>>(x, w, y, N, D, eps);
}
)";

constexpr const char* kContract = R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "w", "y", "N", "D", "eps", "stream"]
[dims]
N = { min = 1, max = 64 }
D = { min = 1, max = 64 }
[tensors.x]
dtype = "bf16"
shape = ["N", "D"]
[tensors.w]
dtype = "f32"
shape = ["D"]
[tensors.y]
dtype = "bf16"
shape = ["N", "D"]
role = "out"
[scalars.eps]
dtype = "f32"
value = 1e-3
[reference]
cuda = { source = "naive.cu", entry = "naive" }
)toml";

class CudaReference : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvcc().empty()) GTEST_SKIP() << "nvcc is not here";
    std::string pattern = (fs::temp_directory_path() / "assay-reference-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    write("naive.cu", kNaive);
    contract_ = std::move(*contract::parse(kContract, (folder_ / "k.toml").string()));
    trial::Trial trial;
    trial.shape = {{"N", 7}, {"D", 33}};
    trial.scalars["eps"] = contract::Scalar::of(DType::f32, 1e-3);
    bindings_ = std::move(*trial::make_inputs(contract_, trial));
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  reference::Reference reference() const {
    auto made = reference::Reference::make(
        contract_, cuda_reference(contract_, {.cache = (folder_ / "cache").string()}, {}));
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }

  double exact(int64_t element) const {
    const Tensor &x = *bindings_.inputs.at("x"), &w = *bindings_.inputs.at("w");
    const int64_t row = element / 33 * 33;
    double sum = 0;
    for (int64_t d = 0; d < 33; ++d) sum += x.load(row + d) * x.load(row + d);
    return x.load(element) / std::sqrt(sum / 33 + bindings_.scalars.at("eps").as_double()) *
           w.load(element % 33);
  }

  fs::path folder_;
  Contract contract_;
  contract::Bindings bindings_;
};

// Unrounded, though y is bf16 and everything is written in float.
TEST_F(CudaReference, ComputesInDouble) {
  const auto e = reference().expect_all(bindings_, "y");
  ASSERT_TRUE(e) << e.error().text();
  ASSERT_EQ(e->size(), 7u * 33);
  for (std::size_t i = 0; i < e->size(); ++i) {
    const double value = exact(static_cast<int64_t>(i));
    EXPECT_NEAR(e->value[i], value, 1e-13 * std::abs(value)) << i;
    EXPECT_LT(e->bound[i], 1e-4 * std::max(1.0, std::abs(value)));
  }
}

// A check learns from its first trial what trials cost.
TEST_F(CudaReference, IsBuiltBeforeItIsAsked) {
  const auto files = [&] {
    int64_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache"))
      count += entry.is_regular_file();
    return count;
  };
  const reference::Reference made = reference();
  const int64_t built = files();
  EXPECT_GE(built, 2);
  ASSERT_TRUE(made.expect_all(bindings_, "y"));
  EXPECT_EQ(files(), built);
}

TEST_F(CudaReference, AdmitsWhatRoundingExplains) {
  const auto e = reference().expect_all(bindings_, "y");
  ASSERT_TRUE(e) << e.error().text();
  for (std::size_t i = 0; i < e->size(); ++i) {
    const double value = exact(static_cast<int64_t>(i));
    EXPECT_TRUE(e->admits(i, contract::rounded(DType::bf16, static_cast<float>(value)))) << i;
    EXPECT_FALSE(e->admits(i, contract::rounded(DType::bf16, 1.02 * value))) << i;
  }
}

TEST_F(CudaReference, SaysWhatTheCompilerSaid) {
  write("naive.cu", "extern \"C\" void naive() { no such thing }");
  const auto e = reference().expect_all(bindings_, "y");
  ASSERT_FALSE(e);
  EXPECT_NE(e.error().message.find("the cuda reference does not compile"), std::string::npos);
}

}  // namespace
}  // namespace assay::subject
