// Functions in many styles, built once into one library, and the contracts that they fit or do not.
#include "subject/signature.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct SignatureCase {
  const char *name, *parameters, *args;
  const char* expected;  // part of the message; "" where all fits
  const char* returns = "void";
  const char* elsewhere = "";  // in the same source
};

// Tensors by dtype, dims n (i32) and m (i64), scalars s (f32) and d (f64), c an output of f32.
constexpr const char* kRest = R"(
[dims]
n = { min = 1, max = 64 }
m = { min = 1, max = 64, type = "i64" }
[tensors.f]
dtype = "f32"
shape = ["n"]
[tensors.b]
dtype = "bf16"
shape = ["n"]
[tensors.h]
dtype = "f16"
shape = ["n"]
[tensors.q]
dtype = "e4m3"
shape = ["n"]
[tensors.t]
dtype = "i64"
shape = ["n"]
[tensors.i]
dtype = "i32"
shape = ["n"]
[tensors.k]
dtype = "i8"
shape = ["n"]
[tensors.c]
dtype = "f32"
shape = ["n"]
role = "out"
[scalars.s]
dtype = "f32"
value = 1
[scalars.d]
dtype = "f64"
value = 1
[scalars.e]
dtype = "i32"
value = 1
[reference]
formula = "c[j] = f[j] + n + m + s + d + e + b[j] + h[j] + q[j] + t[j] + i[j] + k[j]"
)";

constexpr SignatureCase kSignatures[] = {
    // What fits.
    {"plain", "(const float* f, const __nv_bfloat16* b, float* c, int n, int64_t m, cudaStream_t stream)",
     "f b c n m stream", ""},
    {"aliases", "(const real* f, bf const* b, extent t, Stream stream)", "f b m stream", ""},
    {"macros", "(IN(float) f, IN(half) h, OUT(float) c, SIZE n)", "f h c n", ""},
    {"arrays", "(const float f[], __half h[4], float c[], unsigned n, unsigned long m)", "f h c n m", ""},
    {"commented", "(const float* f /* , int* more */, // , float\n    int n,\n    int64_t m)", "f n m", ""},
    {"restricted", "(const float* __restrict__ f, float* __restrict__ const c, const int n)", "f c n", ""},
    {"raw", "(const void* f, const uint16_t* b, const unsigned char* h, const char* q, int8_t* k)",
     "f b h q k", ""},
    {"integers", "(uintptr_t f, unsigned long long b, size_t m, long long stream)", "f b m stream", ""},
    {"packed", "(const int* k, const uint4* b, const float4* f, const uint32_t* h)", "k b f h", ""},
    {"same_size", "(const float* i, const __nv_bfloat16* h, const int* f, const unsigned long* t)", "i h f t",
     ""},
    {"fp8", "(const __nv_fp8_e4m3* q, const signed char* k, const bool* q2)", "q k q", ""},
    {"references", "(const float& f, float&& c)", "f c", ""},
    {"structs", "(View<float> f, Sizes n, Callback stream)", "f n stream", ""},
    {"defaults", "(const float* f, int n = 4, cudaStream_t stream = nullptr)", "f n stream", ""},
    {"scalars", "(float s, double d, int e, unsigned e2)", "s d e e", ""},
    {"enumerated", "(const float* f, Mode n, bool e)", "f n e", ""},
    {"returning", "(const float* f)", "f", "", "int"},
    {"unnamed", "(const float*, int, cudaStream_t)", "f n stream", ""},
    {"narrow", "(short n, unsigned char e)", "n e", ""},
    {"variadic", "(const float* f, ...)", "f n", ""},
    {"work", "(void* workspace, float* w2)", "workspace workspace", ""},
    {"cast", "(const float* b, const float* c)", "b c", "", "void",
     "__device__ float first(const float* b) { return float(((const __nv_bfloat16*)b)[0]); }"},
    {"erased", "(const float* b)", "b", "", "void", "void launch(const void *p);"},
    // What does not.
    {"few", "(const float* f, int n)", "f n stream",
     "few takes 2 arguments (f, n), but the contract passes 3"},
    {"many", "(const float* f, int n, int = 0)", "f n", "many takes 3 arguments (f, n, int)"},
    {"none", "(void)", "f", "none takes 0 arguments, but the contract passes 1"},
    {"wide", "(const float* f, int64_t cols)", "f n",
     "parameter 2 of wide is `int64_t cols`, but the contract passes dim n as i32; write type = \"i64\" in "
     "[dims] n"},
    {"sized", "(size_t rows)", "n", "parameter 1 of sized is `size_t rows`, but the contract passes dim n"},
    {"slim", "(const float* f, int n)", "f m",
     "is `int n`, but the contract passes dim m as i64; write type = \"i32\" in [dims] m"},
    {"swapped", "(int n, const float* f)", "f n",
     "parameter 1 of swapped is `int n`, but the contract passes the address of tensor f"},
    {"misplaced", "(const float* f, const float* n)", "f n", "passes dim n as i32"},
    {"streamless", "(const float* f, float* c, int n)", "f stream n",
     "parameter 2 of streamless is `float* c`, but the contract passes the stream"},
    {"streams", "(cudaStream_t stream, const float* f)", "f stream",
     "parameter 1 of streams is `cudaStream_t stream`, but the contract passes the address of tensor f"},
    {"short_stream", "(int stream)", "stream", "but the contract passes the stream"},
    {"other_dtype", "(const float* b)", "b",
     "parameter 1 of other_dtype is `const float* b`, but tensor b is bf16; write dtype = \"f32\" in "
     "[tensors.b]"},
    {"half_for_float", "(const half* f)", "f",
     "is `const half* f`, but tensor f is f32; write dtype = \"f16\""},
    {"alias_hides", "(const bf* f)", "f", "is `const bf* f`, but tensor f is f32"},
    {"short_tokens", "(const int* t)", "t", "is `const int* t`, but tensor t is i64; write dtype = \"i32\""},
    {"long_indices", "(const int64_t* i)", "i", "but tensor i is i32; write dtype = \"i64\""},
    {"constant_output", "(const float* c)", "c", "but tensor c is an output, which it could not write"},
    {"macro_hides", "(IN(float) c)", "c", "but tensor c is an output"},
    {"double_scalar", "(double s)", "s",
     "is `double s`, but the contract passes scalar s as f32; write dtype = \"f64\" in [scalars.s]"},
    {"float_scalar", "(float d)", "d", "write dtype = \"f32\" in [scalars.d]"},
    {"int_scalar", "(int s)", "s", "is `int s`, but the contract passes scalar s as f32"},
    {"real_scalar", "(float e)", "e", "is `float e`, but the contract passes scalar e as i32"},
    {"real_dim", "(double n)", "n", "is `double n`, but the contract passes dim n as i32"},
    {"by_reference", "(const int& n)", "n", "is `const int& n`, but the contract passes dim n as i32"},
    {"void_result", "(const float* f)", "f",
     "void_result returns void, but the contract says returns = \"int\"", "int"},
};

class SignatureTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (find_nvcc().empty()) return;
    std::string pattern = (fs::temp_directory_path() / "assay-signatures-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    std::string source = R"(#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cstdint>
using real = float;
typedef __nv_bfloat16 bf;
using extent = long long;
typedef cudaStream_t Stream;
#define IN(T) const T* __restrict__
#define OUT(T) T* __restrict__
#define SIZE unsigned int
template <class T> struct View { T* data; };
struct Sizes { int n; };
using Callback = void (*)(int);
enum class Mode { A, B };
namespace outer { namespace {
)";
    for (const SignatureCase& one : kSignatures) {
      const bool returns =
          std::string_view(one.returns) == "int" && std::string_view(one.name) == "returning";
      source += fmt::format("extern \"C\" {} {}{} {{ {} }}\n", returns ? "cudaError_t" : "void", one.name,
                            one.parameters, returns ? "return cudaSuccess;" : "");
    }
    source += "}}\n";
    std::ofstream(folder_ + "/k.cu") << source;
    const auto built =
        run_command({find_nvcc(), "-shared", "-Xcompiler", "-fPIC", "-Xcompiler", "-g", "-O3", "-cudart",
                     "shared", "-arch=sm_90", "-o", folder_ + "/k.so", folder_ + "/k.cu"},
                    120);
    ASSERT_TRUE(built && built->status == 0) << built->output;
    bytes_ = text_of(folder_ + "/k.so");
  }
  static void TearDownTestSuite() {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  static std::string folder_, bytes_;
};
std::string SignatureTest::folder_, SignatureTest::bytes_;

// Arguments in any order and number, more freely than a contract file allows.
contract::Contract contract_of(const SignatureCase& one) {
  const std::string text =
      std::string("[kernel]\nsource = \"k.cu\"\nentry = \"k\"\nargs = [\"c\"]\n") + kRest;
  auto contract = contract::parse(text);
  EXPECT_TRUE(contract) << contract.error().text();
  contract->kernel.returns_int = std::string_view(one.returns) == "int";
  contract->kernel.args.clear();
  std::istringstream words(one.args);
  for (std::string word; words >> word;) {
    using contract::ArgKind;
    contract->kernel.args.push_back({contract->tensor(word)   ? ArgKind::Tensor
                                     : contract->dim(word)    ? ArgKind::Dim
                                     : contract->scalar(word) ? ArgKind::Scalar
                                     : word == "stream"       ? ArgKind::Stream
                                                              : ArgKind::Workspace,
                                     word});
  }
  return std::move(*contract);
}

TEST_F(SignatureTest, IsComparedWithTheContract) {
  if (bytes_.empty()) GTEST_SKIP() << "no nvcc";
  const auto library = fatbinary::read_elf(bytes_);
  ASSERT_TRUE(library);
  for (const SignatureCase& one : kSignatures) {
    SCOPED_TRACE(one.name);
    const contract::Contract contract = contract_of(one);
    const auto signature = signature_of(*library, one.name);
    ASSERT_TRUE(signature);
    const std::string text = fmt::format("void {}{} {{}}\n{}", one.name, one.parameters, one.elsewhere);
    const std::string why = misfit(contract, one.name, *signature, {text});
    if (std::string_view(one.expected).empty())
      EXPECT_EQ(why, "");
    else
      EXPECT_THAT(why, HasSubstr(one.expected));
  }
}

TEST_F(SignatureTest, IsNotReadWhereTheLibraryDoesNotTell) {
  EXPECT_FALSE(signature_of(fatbinary::ElfFile{}, "plain"));
  if (bytes_.empty()) GTEST_SKIP() << "no nvcc";
  EXPECT_FALSE(signature_of(*fatbinary::read_elf(bytes_), "lain"));
  // Whatever is cut off or wrong ends the reading, and nothing worse.
  for (std::size_t size = 0; size < bytes_.size(); size += 997) {
    const std::string part = bytes_.substr(0, size);
    if (const auto library = fatbinary::read_elf(part)) signature_of(*library, "plain");
  }
  for (std::size_t at = 64; at < bytes_.size(); at += 61) {
    std::string changed = bytes_;
    changed[at] = static_cast<char>(changed[at] ^ 0xff);
    if (const auto library = fatbinary::read_elf(changed)) signature_of(*library, "plain");
  }
}

TEST(ReinterpretsMemory, SeesCastsAndNothingElse) {
  for (const char* text : {"a = *(const float*)x;", "b = (T *) (x + 1);", "f(reinterpret_cast<T*>(x))",
                           "(float * __restrict__)p", "(T* const) p", "static_cast<T*>(p)", "void *q = x;",
                           "typedef float *P;", "cudaMemcpyAsync(a, b, n);", "__half_as_ushort(x)"})
    EXPECT_TRUE(reinterprets_memory(text)) << text;
  for (const char* text :
       {"void f(const float* x, float* y) { y[0] = x[0] * (2); }", "// (float*)x\nint a;", "a = (b * c) + d;",
        "void f(float*, int n);", "k<<<1, 2>>>(x, y);", "\"(float*)x\"", "y[i] = (x[i] * s) * t;"})
    EXPECT_FALSE(reinterprets_memory(text)) << text;
}

}  // namespace
}  // namespace assay::subject
