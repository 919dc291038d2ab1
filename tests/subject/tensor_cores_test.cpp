#include "subject/tensor_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::subject {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kHead = ".version 9.0\n.target sm_90a\n.address_size 64\n";

ptx::Module module_of(const std::string& text) {
  auto module = ptx::parse(kHead + text);
  EXPECT_TRUE(module) << module.error().text();
  return std::move(*module);
}

std::string mma(const std::string& types, const std::string& shape = "m16n8k16") {
  const bool half = types.starts_with(".f16"), wide = types.starts_with(".f64");
  const std::string r = wide ? "%d" : half || !types.starts_with(".f32") ? "%r" : "%f";
  const std::string many = "{" + r + "0, " + r + "1, " + r + "2, " + r + "3}",
                    two = "{" + r + "0, " + r + "1}";
  if (wide) return "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%d0}, {%d0}, {%d0, %d1};";
  if (half)
    return "mma.sync.aligned.m16n8k16.row.col" + types + " " + two + ", {%r0, %r1, %r2, %r3}, {%r0, %r1}, " +
           two + ";";
  return "mma.sync.aligned." + shape + ".row.col" + types + " " + many +
         ", {%r0, %r1, %r2, %r3}, {%r0, %r1}, " + many + ";";
}

std::string matrix_kernel(const std::string& name, const std::string& body) {
  return ".visible .entry " + name + "()\n{\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n.reg .f64 %d<4>;\n" + body +
         "\nret;\n}\n";
}

TEST(TensorCores, AreSeenKernelByKernel) {
  const ptx::Module modules[] = {module_of(matrix_kernel("product", mma(".f32.bf16.bf16.f32")) +
                                           matrix_kernel("plain", "") +
                                           matrix_kernel("halves", mma(".f16.f16.f16.f16")))};
  const TensorCores used(modules);
  EXPECT_THAT(used.reasons(std::set<std::string>{"plain"}), IsEmpty());
  EXPECT_THAT(used.reasons(std::set<std::string>{"plain", "product"}),
              ElementsAre("kernel product uses mma (f32 += bf16 × bf16)"));
  EXPECT_THAT(used.reasons(std::set<std::string>{}), IsEmpty());
  EXPECT_THAT(used.reasons(std::nullopt), ElementsAre("kernel halves uses mma (f16 += f16 × f16)",
                                                      "kernel product uses mma (f32 += bf16 × bf16)"));
}

TEST(TensorCores, ThatAreExactOrRoundAsAnFmaDoNotCount) {
  const ptx::Module modules[] = {module_of(matrix_kernel("bytes", mma(".s32.s8.s8.s32", "m16n8k32")) +
                                           matrix_kernel("wide", mma(".f64")) +
                                           matrix_kernel("fence", "wgmma.fence.sync.aligned;"))};
  EXPECT_THAT(TensorCores(modules).reasons(std::nullopt), IsEmpty());
}

TEST(TensorCores, InWordsAreNone) {
  const ptx::Module modules[] = {
      module_of("// mma.sync wgmma cute wmma\n.file 1 \"/home/cute/mma.cu\"\n" +
                matrix_kernel("mma_sync", "/* wgmma.mma_async */ mov.u32 %r0, 1;"))};
  EXPECT_THAT(TensorCores(modules).reasons(std::set<std::string>{"mma_sync"}), IsEmpty());
}

TEST(TensorCores, OfAFunctionAreThoseOfItsCallers) {
  const std::string function =
      ".func inner()\n{\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n" + mma(".f32.f16.f16.f32") + "\nret;\n}\n";
  const ptx::Module modules[] = {module_of(function + ".func outer()\n{\ncall inner;\nret;\n}\n" +
                                           matrix_kernel("calls", "call outer;") +
                                           matrix_kernel("does_not", ""))};
  EXPECT_THAT(TensorCores(modules).reasons(std::nullopt),
              ElementsAre("kernel calls uses mma (f32 += f16 × f16)"));
}

TEST(TensorCores, OfUnknownCodeAreAllowedFor) {
  EXPECT_THAT(TensorCores(std::span<const ptx::Module>()).reasons(std::set<std::string>{"k"}),
              ElementsAre("the library holds machine code only, which may use them"));
  const ptx::Module modules[] = {module_of(matrix_kernel("plain", ""))};
  EXPECT_THAT(TensorCores(modules).reasons(std::set<std::string>{"_Z5otherv"}),
              ElementsAre("kernel other, whose code could not be read, may use them"));
}

}  // namespace
}  // namespace assay::subject
