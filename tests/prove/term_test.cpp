// Terms against an evaluator: whatever the constructors fold, and whatever is said of a term's bits, holds for random
// values of its variables.
#include "prove/term.h"

#include <gtest/gtest.h>

#include <random>

namespace assay::prove {
namespace {

// Random terms over three variables, each with its value computed beside it, step by step and without folding.
class RandomTerms {
 public:
  explicit RandomTerms(uint64_t seed) : random_(seed) {
    for (const unsigned width : {32u, 32u, 64u}) {
      Variable variable{"v", VarKind::Unknown};
      variable.width = static_cast<uint8_t>(width);
      variable.multiple_of = Int{1} << random_() % 5;
      const Bits value = random_() * static_cast<Bits>(variable.multiple_of) & mask_of(width);
      values_.push_back(value);
      made_.push_back({terms.variable(std::move(variable)), value});
    }
  }

  void step() {
    static constexpr Op kBinary[] = {Op::Add,  Op::Mul,  Op::And,  Op::Or,   Op::Xor,  Op::Shl,
                                     Op::LShr, Op::AShr, Op::UDiv, Op::URem, Op::SDiv, Op::SRem};
    const auto [a, x] = any();
    const unsigned width = terms.width(a);
    switch (random_() % 6) {
      case 0: {
        const unsigned to = width == 32 ? 64 : 32;
        if (to > width && random_() % 2)
          return keep(terms.sext(a, to), static_cast<Bits>(signed_of(x, width)) & mask_of(to));
        return keep(terms.zext(a, to), x & mask_of(to));
      }
      case 1: {
        const auto [b, y] = any_of_width(width);
        const auto [c, z] = any_of_width(width);
        return keep(terms.ite(terms.compare(Op::Slt, b, c), a, b), apply(Op::Slt, width, y, z) ? x : y);
      }
      default: {
        const Op op = kBinary[random_() % std::size(kBinary)];
        const auto [b, y] = any_of_width(width);
        const bool divides = op == Op::UDiv || op == Op::URem || op == Op::SDiv || op == Op::SRem;
        if (!divides || y != 0) keep(terms.bitwise(op, a, b), apply(op, width, x, y));
      }
    }
  }

  struct Made {
    Term term;
    Bits value;
  };
  const std::vector<Made>& made() const { return made_; }
  Bits evaluated(Term term) const {
    return terms.evaluate(term, [&](Var var) { return values_[var]; });
  }
  Terms terms;

 private:
  Made any() { return made_[random_() % made_.size()]; }
  // One of those, or a number.
  Made any_of_width(unsigned width) {
    for (int tries = 0; tries < 3; ++tries)
      if (const Made one = any(); terms.width(one.term) == width) return one;
    const Bits number = random_() % 3 ? random_() % 70 : random_() & mask_of(width);
    return {terms.constant(number, width), number};
  }
  void keep(Term term, Bits value) { made_.push_back({term, value}); }

  std::mt19937_64 random_;
  std::vector<Bits> values_;
  std::vector<Made> made_;
};

TEST(Term, has_the_value_and_the_zeros_that_are_said_of_it) {
  size_t multiples = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomTerms random(seed);
    for (int i = 0; i < 40; ++i) random.step();
    for (const auto& [term, value] : random.made()) {
      ASSERT_TRUE(random.evaluated(term) == value) << seed << ": " << random.terms.text(term);
      const unsigned zeros = random.terms.trailing_zeros(term);
      ASSERT_LE(zeros, random.terms.width(term));
      ASSERT_TRUE((value & ((Bits{1} << zeros) - 1)) == 0) << seed << ": " << random.terms.text(term);
      multiples += zeros > 0 && zeros < random.terms.width(term);
    }
  }
  EXPECT_GT(multiples, 1000u);
}

// 4 * i & 4 * (2^32 - 1) is 4 * (uint32_t)i.
TEST(Term, a_mask_of_32_bits_is_a_conversion) {
  Terms terms;
  Variable variable{"i"};
  variable.width = 64;
  const Term i = terms.variable(std::move(variable));
  std::mt19937_64 random(5);
  for (const unsigned shift : {0u, 2u, 3u}) {
    const Term times = terms.mul(i, terms.constant(Bits{3} << shift, 64));
    const Bits mask = Bits{0xffffffff} << shift;
    const Term masked = terms.bitwise(Op::And, times, terms.constant(mask, 64));
    EXPECT_EQ(masked, terms.mul(terms.zext(terms.trunc(terms.mul(i, terms.constant(3, 64)), 32), 64),
                                terms.constant(Bits{1} << shift, 64)));
    for (int tries = 0; tries < 100; ++tries) {
      const uint64_t value = random() >> (random() % 40);
      EXPECT_TRUE(terms.evaluate(masked, [&](Var) { return Bits{value}; }) ==
                  ((value * (uint64_t{3} << shift)) & static_cast<uint64_t>(mask)));
    }
  }
  const Term bytes = terms.mul(i, terms.constant(4, 64));
  EXPECT_EQ(terms.bitwise(Op::And, bytes, terms.constant(0xfffffffc, 64)),
            terms.zext(terms.trunc(bytes, 32), 64));
  // Of what is no multiple, and other masks.
  EXPECT_EQ(terms[terms.bitwise(Op::And, i, terms.constant(0xfffffffc, 64))].op, Op::And);
  EXPECT_EQ(terms[terms.bitwise(Op::And, i, terms.constant(Bits{0xffffffff} << 2, 64))].op, Op::And);
  EXPECT_EQ(terms[terms.bitwise(Op::And, i, terms.constant(0xff, 64))].op, Op::And);
}

TEST(Term, a_mask_of_16_bits_is_a_conversion) {
  Terms terms;
  for (const unsigned width : {32u, 64u}) {
    Variable variable{"i", VarKind::Unknown};
    variable.width = static_cast<uint8_t>(width);
    variable.high = static_cast<Int>(mask_of(width));
    const Term i = terms.variable(std::move(variable));
    EXPECT_EQ(terms.bitwise(Op::And, i, terms.constant(0xffff, width)),
              terms.zext(terms.trunc(i, 16), width));
    EXPECT_NE(terms.bitwise(Op::And, i, terms.constant(0xff, width)), terms.zext(terms.trunc(i, 8), width));
  }
}

// 4 * (uint16_t)i as nvcc writes it: (uint64_t)(4 * i) & 4 * 65535, with 4 * i in 32 bits.
TEST(Term, a_shifted_mask_of_16_bits_is_a_conversion) {
  Terms terms;
  Variable variable{"i", VarKind::Unknown};
  variable.width = 32;
  variable.high = static_cast<Int>(mask_of(32));
  const Term i = terms.variable(std::move(variable));
  for (const unsigned shift : {1u, 2u, 4u, 16u}) {
    const Bits mask = Bits{0xffff} << shift;
    const Term times = terms.mul(i, terms.constant(Bits{1} << shift, 32));
    const Term index = terms.zext(terms.trunc(i, 16), 32);
    const Term masked = terms.bitwise(Op::And, terms.zext(times, 64), terms.constant(mask, 64));
    EXPECT_EQ(masked, terms.zext(terms.mul(index, terms.constant(Bits{1} << shift, 32)), 64)) << shift;
    for (const uint32_t value : {0u, 1u, 65535u, 65536u, 70000u, 0x7fffffffu, 0xfffffffeu})
      EXPECT_TRUE(terms.evaluate(masked, [&](Var) { return Bits{value}; }) ==
                  ((value << shift) & static_cast<uint32_t>(mask)));
  }
  // Of a number that is no multiple, and a mask that the type cuts off, it is none.
  EXPECT_EQ(terms[terms.bitwise(Op::And, i, terms.constant(Bits{0xffff} << 2, 32))].op, Op::And);
  const Term times = terms.mul(i, terms.constant(Bits{1} << 17, 32));
  EXPECT_EQ(terms[terms.bitwise(Op::And, times, terms.constant(Bits{0x7fff} << 17, 32))].op, Op::And);
}

}  // namespace
}  // namespace assay::prove
