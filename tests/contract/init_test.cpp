// The first contract that `assay init` writes.
#include "contract/init.h"

#include "support.h"

namespace assay::contract {
namespace {

const char* const kSource = R"cu(
#include <cuda_bf16.h>
// extern "C" void not_this(int a);
__global__ void kernel(const float* x) {}
template <class T> void helper(T a) {}
extern "C" {
void first(const float* x, float* y, int n, cudaStream_t stream) { kernel<<<1, 1>>>(x); }
int second(float a);
}
extern "C" cudaError_t rmsnorm(
    const __nv_bfloat16* __restrict__ x,   // the input
    const __nv_bfloat16 *w, __nv_bfloat16* out, float* rstd, void* workspace,
    const int64_t* ids, long long rows, int cols, float eps /* small */, cudaStream_t s) {
  return cudaSuccess;
}
)cu";

TEST(Init, FindsSignatures) {
  const std::vector<Signature> found = find_signatures(kSource);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "first");
  EXPECT_EQ(found[1].name, "second");
  EXPECT_EQ(found[2].name, "rmsnorm");
  EXPECT_EQ(found[2].returns, "cudaError_t");
  ASSERT_EQ(found[2].args.size(), 10u);
  EXPECT_EQ(found[2].args[1].type, "const __nv_bfloat16*");
  EXPECT_EQ(found[2].args[1].name, "w");
  EXPECT_EQ(found[2].args[6].name, "rows");
  EXPECT_EQ(found[2].line, 10);
}

TEST(Init, WritesAContractThatNeedsOnlyItsFormula) {
  Result<std::string> text = initial_contract(kSource, "rmsnorm.cu");
  ASSERT_TRUE(text) << text.error().text();
  Result<Contract> unfinished = parse(*text, "c.toml");
  ASSERT_FALSE(unfinished);
  EXPECT_NE(unfinished.error().message.find("the formula is empty"), std::string::npos)
      << unfinished.error().text();
  std::string whole = *text;
  const std::string hole = "formula = \"\"\"\n";
  whole.insert(whole.find(hole) + hole.size(), "out[i, j] = x[i, j] * w[i, j] * eps\nrstd[i, j] = 1\n");
  Result<Contract> contract = parse(whole, "c.toml");
  ASSERT_TRUE(contract) << contract.error().text() << "\n" << whole;
  EXPECT_EQ(contract->kernel.entry, "rmsnorm");
  EXPECT_TRUE(contract->kernel.returns_int);
  ASSERT_EQ(contract->kernel.args.size(), 10u);
  EXPECT_EQ(contract->kernel.args[4].kind, ArgKind::Workspace);
  EXPECT_EQ(contract->kernel.args[9].kind, ArgKind::Stream);
  EXPECT_EQ(contract->tensor("x")->dtype, DType::bf16);
  EXPECT_EQ(contract->tensor("ids")->dtype, DType::i64);
  EXPECT_EQ(contract->tensor("out")->role, Role::Out);
  EXPECT_EQ(contract->dim("rows")->type, DType::i64);
  EXPECT_EQ(contract->scalar("eps")->dtype, DType::f32);
}

// The line `shape = ...` of a tensor in the contract that is proposed for this source.
std::string proposed(const std::string& source, const std::string& tensor) {
  const Result<std::string> text = initial_contract(source, "k.cu");
  if (!text) return text.error().text();
  const std::size_t table = text->find("[tensors." + tensor + "]"), at = text->find("shape = ", table);
  return text->substr(at + 8, text->find("   #", at) - at - 8);
}

TEST(Init, TakesShapesFromSubscripts) {
  const std::string source = R"cu(
__global__ void norm(const float* in, const float* scale, float* out, int r, int c) {
  const int row = blockIdx.x;
  const float* mine = in + static_cast<int64_t>(row) * c;
  for (int j = threadIdx.x; j < c; j += blockDim.x) out[int64_t{row} * c + j] = mine[j] * scale[j];
}
extern "C" void rmsnorm(const float* x, const float* w, float* y, int rows, int cols, cudaStream_t stream) {
  norm<<<rows, 256, 0, stream>>>(x, w, y, rows, cols);
}
)cu";
  EXPECT_EQ(proposed(source, "x"), R"(["rows", "cols"])");
  EXPECT_EQ(proposed(source, "w"), R"(["cols"])");
  EXPECT_EQ(proposed(source, "y"), R"(["rows", "cols"])");
}

TEST(Init, TakesTheTypeOfAVoidPointerFromItsCast) {
  const std::string source = R"cu(
__global__ void k(const half* x, const float2* z, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" void run(const void* x, void const* z, void* y, const void* max_x, int n, cudaStream_t stream) {
  k<<<1, n, 0, stream>>>((const half*)x, reinterpret_cast<const float2*>(z), static_cast<float *>( y ), n);
}
)cu";
  const auto text = initial_contract(source, "k.cu");
  ASSERT_TRUE(text);
  const auto type_of = [&](const std::string& tensor) {
    const std::size_t table = text->find("[tensors." + tensor + "]"), at = text->find("dtype = ", table);
    return text->substr(at + 8, text->find('\n', at) - at - 8);
  };
  EXPECT_EQ(type_of("x"), "\"f16\"");
  EXPECT_EQ(type_of("z"), "\"f32\"");
  EXPECT_EQ(type_of("y"), "\"f32\"");
  EXPECT_NE(text->find("[tensors.y]"), std::string::npos);
  EXPECT_NE(text->find("role  = \"out\""), std::string::npos);
  EXPECT_EQ(type_of("max_x"), "\"f32\"   # a guess: the code does not tell the type");
}

TEST(Init, TheExampleHasTheContractsNames) {
  const std::string source = R"cu(
extern "C" void k(const float* key, float* cache, int T, int H, int D, cudaStream_t stream) {
  for (int i = 0; i < T; ++i) for (int h = 0; h < H; ++h) for (int d = 0; d < D; ++d)
    cache[(i * H + h) * D + d] = key[(i * H + h) * D + d];
}
)cu";
  EXPECT_NE(initial_contract(source, "k.cu")->find("#   cache[i, j, k] = 2 * key[i, j, k]\n"),
            std::string::npos);
}

TEST(Init, MultipliesSubscriptsOut) {
  const std::string source = R"cu(
__global__ void k(const float* q, float* y, int heads, int length, int width) {
  const int h = blockIdx.y, t = blockIdx.x * 4 + threadIdx.y;
  if (h >= heads || t >= length) return;
  for (int d = threadIdx.x; d < width; d += 32) y[(h * length + t) * width + d] = q[(h * length + t) * width + d];
}
extern "C" void copy(const float* q, float* y, int H, int T, int D, cudaStream_t stream) {
  k<<<dim3((T + 3) / 4, H), dim3(32, 4), 0, stream>>>(q, y, H, T, D);
}
)cu";
  EXPECT_EQ(proposed(source, "q"), R"(["H", "T", "D"])");
}

TEST(Init, TakesAFlatIndexApart) {
  const std::string source = R"cu(
__global__ void k(const float* x, const float* b, float* y, int64_t n, int cols) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + b[i % cols];
}
extern "C" void add(const float* x, const float* b, float* y, int rows, int cols, cudaStream_t stream) {
  const int64_t n = int64_t{rows} * cols;
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, b, y, n, cols);
}
)cu";
  EXPECT_EQ(proposed(source, "b"), R"(["cols"])");
}

TEST(Init, KnowsTablesWhoseRowsAreChosen) {
  const std::string source = R"cu(
extern "C" void gather(const float* table, const int* rows, float* y, int T, int D, int V, cudaStream_t stream) {
  for (int t = 0; t < T; ++t)
    for (int d = 0; d < D; ++d) y[t * D + d] = table[rows[t] * D + d];
}
)cu";
  EXPECT_EQ(proposed(source, "table"), R"(["V", "D"])");
  EXPECT_EQ(proposed(source, "rows"), R"(["T"])");
  EXPECT_NE(initial_contract(source, "k.cu")->find("it chooses elements of table"), std::string::npos);
}

TEST(Init, FallsBackToTheFirstDims) {
  EXPECT_EQ(proposed("extern \"C\" void f(const float* x, float* y, int n, int m) {}", "x"), R"(["n", "m"])");
}

// loss[0] is one number, however many dims there are.
TEST(Init, CountsWhatHasNumbersAsSubscripts) {
  const std::string source =
      "__global__ void sums(const float* x, float* loss, float* two, int n) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) { atomicAdd(&loss[0], x[i]); atomicAdd(&two[1], x[i] * x[i]); two[0] = 0; }\n"
      "}\n"
      "extern \"C\" void go(const float* x, float* loss, float* two, int n, cudaStream_t s) {\n"
      "  sums<<<n / 256 + 1, 256, 0, s>>>(x, loss, two, n);\n"
      "}\n";
  const auto text = initial_contract(source, "k.cu");
  ASSERT_TRUE(text) << text.error().text();
  const auto has = [&](const char* part) {
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
  };
  has("[tensors.x]\ndtype = \"f32\"\nshape = [\"n\"]");
  has("[tensors.loss]\ndtype = \"f32\"\nshape = [1]");
  has("[tensors.two]\ndtype = \"f32\"\nshape = [2]");
}

TEST(Init, SaysWhatIsMissing) {
  const Result<std::string> kernel_only = initial_contract("__global__ void k() {}", "k.cu");
  ASSERT_FALSE(kernel_only);
  EXPECT_NE(kernel_only.error().message.find("global = \"k\""), std::string::npos)
      << kernel_only.error().text();
  const Result<std::string> several = initial_contract(
      "extern \"C\" void run(const float* x, Odd o) { }\nextern \"C\" void other(int n);", "k.cu");
  ASSERT_TRUE(several);
  EXPECT_NE(several->find("entry  = \"run\""), std::string::npos) << *several;
  EXPECT_NE(several->find("--entry: other"), std::string::npos) << *several;
  EXPECT_NE(several->find("a guess"), std::string::npos) << *several;
  Result<std::string> wrong = initial_contract(kSource, "k.cu", "rmsnrom");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("did you mean `rmsnorm`"), std::string::npos);
}

// Complex numbers by their names; float2 may be two of anything, and is a row of two.
TEST(Init, KnowsComplexNumbersAndVectors) {
  const std::string source =
      "extern \"C\" void go(const cuComplex* a, const float2* z, const float4* q, double2* w,\n"
      "                   thrust::complex<double>* c, float2 g, cuFloatComplex h, int n) {}\n";
  const auto text = initial_contract(source, "k.cu");
  ASSERT_TRUE(text) << text.error().text();
  const auto has = [&](const char* part) {
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
  };
  has("[tensors.a]\ndtype = \"c64\"\nshape = [\"n\"]");
  has("[tensors.z]\ndtype = \"f32\"\nshape = [\"n\", 2]   # row-major, float2: pairs (complex numbers are "
      "c64); check");
  has("[tensors.q]\ndtype = \"f32\"\nshape = [\"n\", 4]   # row-major, 4 at a time by float4; check");
  has("[tensors.w]\ndtype = \"f64\"\nshape = [\"n\", 2]");
  has("[tensors.c]\ndtype = \"c128\"\nshape = [\"n\"]");
  has("[scalars.g]\ndtype = \"c64\"\nvalue = [1.0, 0.0]");
  has("[scalars.h]\ndtype = \"c64\"");
  has("accumulate = \"f64\"");
}

}  // namespace
}  // namespace assay::contract
