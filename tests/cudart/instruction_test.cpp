// How much of memory an instruction wanted, told by instructions that do fault.
#include "cudart/instruction.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>

namespace assay::cudart {
namespace {

constexpr size_t kPage = 4096;
std::byte* closed = nullptr;  // the second of two pages
Operand seen;

void on_fault(int, siginfo_t* info, void* data) {
  auto& context = *static_cast<ucontext_t*>(data);
  const bool writes = (context.uc_mcontext.gregs[REG_ERR] & 2) != 0;
  seen = operand_at(reinterpret_cast<uint64_t>(info->si_addr), writes, context);
  mprotect(closed, kPage, PROT_READ | PROT_WRITE);
}

class Instruction : public testing::Test {
 protected:
  Instruction() {
    pages_ = static_cast<std::byte*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    closed = pages_ + kPage;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~Instruction() override {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(pages_, 2 * kPage);
  }
  std::byte* pages_;
  struct sigaction before_ {};
};

// How many bytes an instruction on (%rax), or near it, is found to want.
#define EXPECT_BYTES(wanted, text)                                \
  do {                                                            \
    mprotect(closed, kPage, PROT_NONE);                           \
    seen = {};                                                    \
    void* at = closed;                                            \
    long index = 3, value = 5;                                    \
    asm volatile(text                                             \
                 : "+a"(at), "+c"(index), "+d"(value)             \
                 :                                                \
                 : "rsi", "rdi", "xmm1", "xmm2", "memory", "cc"); \
    EXPECT_EQ(seen.bytes, uint64_t{wanted}) << text;              \
  } while (0)

TEST_F(Instruction, OfIntegers) {
  EXPECT_BYTES(1, "movb (%%rax), %%dl");
  EXPECT_BYTES(2, "movw 8(%%rax), %%dx");
  EXPECT_BYTES(4, "movl (%%rax,%%rcx,4), %%edx");
  EXPECT_BYTES(8, "movq %%rdx, 512(%%rax,%%rcx,8)");
  EXPECT_BYTES(4, "movl $7, (%%rax)");
  EXPECT_BYTES(4, "addl %%edx, (%%rax)");
  EXPECT_BYTES(8, "addq $1, (%%rax)");
  EXPECT_BYTES(1, "cmpb $1, (%%rax)");
  EXPECT_BYTES(1, "movzbl (%%rax), %%edx");
  EXPECT_BYTES(2, "movswl (%%rax), %%edx");
  EXPECT_BYTES(4, "movslq (%%rax), %%rdx");
  EXPECT_BYTES(4, "lock xaddl %%edx, (%%rax)");
  EXPECT_BYTES(8, "imulq (%%rax), %%rdx");
}

TEST_F(Instruction, OfVectors) {
  EXPECT_BYTES(4, "movss (%%rax), %%xmm1");
  EXPECT_BYTES(8, "movsd (%%rax), %%xmm1");
  EXPECT_BYTES(16, "movaps (%%rax), %%xmm1");
  EXPECT_BYTES(16, "movdqu %%xmm1, 3(%%rax)");
  EXPECT_BYTES(16, "paddd (%%rax), %%xmm1");
  EXPECT_BYTES(4, "movd (%%rax), %%xmm1");
  EXPECT_BYTES(8, "movq (%%rax), %%xmm1");
  EXPECT_BYTES(8, "movhps (%%rax), %%xmm1");
  EXPECT_BYTES(4, "cvtss2sd (%%rax), %%xmm1");
  EXPECT_BYTES(4, "cvtsi2ssl (%%rax), %%xmm1");
  EXPECT_BYTES(8, "addsd (%%rax), %%xmm1");
}

TEST_F(Instruction, OfWiderVectors) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "no AVX2 here";
  EXPECT_BYTES(32, "vmovups (%%rax), %%ymm1");
  EXPECT_BYTES(32, "vmovdqu %%ymm1, 64(%%rax)");
  EXPECT_BYTES(32, "vpaddd (%%rax,%%rcx,1), %%ymm1, %%ymm2");
  EXPECT_BYTES(4, "vaddss (%%rax), %%xmm1, %%xmm2");
  EXPECT_BYTES(32, "vfmadd231ps (%%rax), %%ymm1, %%ymm2");
  EXPECT_BYTES(8, "vfmadd231sd (%%rax), %%xmm1, %%xmm2");
  EXPECT_BYTES(4, "vbroadcastss (%%rax), %%ymm1");
  EXPECT_BYTES(8, "vpmovzxbd (%%rax), %%ymm1");
  if (!__builtin_cpu_supports("avx512f")) return;
  EXPECT_BYTES(64, "vmovups (%%rax), %%zmm1");
  EXPECT_BYTES(64, "vmovups 128(%%rax), %%zmm1");
  EXPECT_BYTES(4, "vaddps (%%rax)%{1to16%}, %%zmm1, %%zmm2");
  EXPECT_BYTES(1, "kmovw %%ecx, %%k1; vmovups (%%rax), %%zmm1 %{%%k1%}");  // not known
}

TEST_F(Instruction, OfRanges) {
  EXPECT_BYTES(100, "movq %%rax, %%rdi; movl $100, %%ecx; rep stosb");
  EXPECT_TRUE(seen.repeats);
  EXPECT_BYTES(80, "movq %%rax, %%rsi; leaq -512(%%rax), %%rdi; movl $10, %%ecx; rep movsq");
  EXPECT_BYTES(70, "leaq -30(%%rax), %%rdi; movl $100, %%ecx; rep stosb");  // from an open page
}

// An access that begins in an open page faults where the closed one begins.
TEST_F(Instruction, AcrossPages) {
  EXPECT_BYTES(5, "movq -3(%%rax), %%rdx");
  EXPECT_BYTES(1, "movdqu -15(%%rax), %%xmm1");
}

}  // namespace
}  // namespace assay::cudart
