// Launch expressions from examples, and terms against plain arithmetic.
#include <random>

#include "kernel.h"

namespace assay::prove::testing {
namespace {

contract::Contract two_dims() {
  KernelText text;
  auto contract = contract::parse(R"([kernel]
source = "k.ptx"
global = "k"
args = ["x"]
grid = [1]
block = [1]
[dims]
n = { min = 1, max = 100000 }
m = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n", "m"]
role = "out"
[reference]
formula = "x[i, j] = 0"
)",
                                  "test.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  return *contract;
}

std::string fitted(const std::function<int64_t(int64_t, int64_t)>& value,
                   const std::vector<ExprPtr>& known = {}) {
  const contract::Contract contract = two_dims();
  std::mt19937 random(1);
  std::vector<contract::Shape> shapes;
  for (int i = 0; i < 60; ++i)
    shapes.push_back(
        {{"n", 1 + static_cast<int64_t>(random() % 5000)}, {"m", 1 + static_cast<int64_t>(random() % 5000)}});
  std::vector<Point> points;
  for (const contract::Shape& shape : shapes) points.push_back({&shape, value(shape.at("n"), shape.at("m"))});
  const ExprPtr found = fit(contract, points, known);
  return found ? text(*found) : "none";
}

TEST(Fit, finds_what_launchers_compute) {
  EXPECT_EQ(fitted([](int64_t, int64_t) { return 7; }), "7");
  EXPECT_EQ(fitted([](int64_t n, int64_t) { return n; }), "n");
  EXPECT_EQ(fitted([](int64_t n, int64_t m) { return n * m; }), "n * m");
  EXPECT_EQ(fitted([](int64_t n, int64_t) { return (n + 255) / 256; }), "ceil_div(n, 256)");
  EXPECT_EQ(fitted([](int64_t n, int64_t) { return 4 * n + 12; }), "4 * n + 12");
  EXPECT_EQ(fitted([](int64_t n, int64_t) { return std::min<int64_t>((n + 127) / 128, 16); }),
            "min(ceil_div(n, 128), 16)");
  EXPECT_EQ(fitted([](int64_t n, int64_t m) { return (n + 31) / 32 * m; }), "m * ceil_div(n, 32)");
}

TEST(Fit, finds_what_is_sized_by_two_dims) {
  EXPECT_EQ(fitted([](int64_t n, int64_t m) { return (n + m + 255) / 256; }), "ceil_div(n + m, 256)");
  EXPECT_EQ(fitted([](int64_t n, int64_t m) { return std::max(n, m); }), "max(n, m)");
  EXPECT_EQ(fitted([](int64_t n, int64_t m) { return (std::max(n, m) + 127) / 128; }),
            "ceil_div(max(n, m), 128)");
}

TEST(Fit, finds_parts_of_what_32_bits_do_not_count) {
  EXPECT_EQ(fitted([](int64_t n, int64_t) { return n - (int64_t{3} << 30); }), "n - 3221225472");
}

TEST(Fit, uses_what_the_kernel_is_also_given) {
  const auto blocks = [](int64_t n, int64_t m) { return (n * ((m + 1) / 2) + 127) / 128; };
  EXPECT_EQ(fitted(blocks), "none");
  EXPECT_EQ(fitted(blocks, {expr("n * ceil_div(m, 2)")}), "ceil_div(n * ceil_div(m, 2), 128)");
}

TEST(Fit, says_none_rather_than_guess) {
  EXPECT_EQ(fitted([](int64_t n, int64_t m) { return (n * n) ^ m; }), "none");
}

// Every constructor against the machine's arithmetic, whatever it folds or rewrites.
TEST(Terms, are_what_the_machine_computes) {
  std::mt19937_64 random(42);
  Terms terms;
  std::vector<Term> pool;
  std::vector<Bits> values;
  for (int i = 0; i < 4; ++i) {
    pool.push_back(terms.unknown(32, "v"));
    values.push_back(random() >> (random() % 40));
  }
  const auto of = [&](Var var) { return var < values.size() ? values[var] : Bits{0}; };
  std::vector<Bits> expected;
  for (const Term term : pool) expected.push_back(terms.evaluate(term, of));
  for (int i = 0; i < 4000; ++i) {
    const size_t x = random() % pool.size(), y = random() % pool.size();
    const Op op = static_cast<Op>(static_cast<int>(Op::Add) + static_cast<int>(random() % 12));
    Term term = kNoTerm;
    Bits value = 0;
    switch (random() % 4) {
      case 0: {  // with a constant
        const Bits c = random() % 3 ? random() % 40 : random();
        term = terms.bitwise(op, pool[x], terms.constant(c, 32));
        value = apply(op, 32, expected[x], c & mask_of(32));
        if (c == 0 && (op == Op::UDiv || op == Op::URem || op == Op::SDiv || op == Op::SRem)) continue;
        break;
      }
      case 1: {
        const unsigned w = random() % 2 ? 64 : 16;
        const bool sign = random() % 2;
        term = terms.trunc(sign ? terms.sext(pool[x], w) : terms.zext(pool[x], w), 16);
        term = terms.zext(term, 32);
        value = expected[x] & 0xffff;
        break;
      }
      case 2: {
        const Term test = terms.compare(Op::Slt, pool[x], pool[y]);
        term = terms.ite(test, pool[y], terms.canonical(terms.sub(pool[x], pool[y])));
        value = signed_of(expected[x], 32) < signed_of(expected[y], 32)
                    ? expected[y]
                    : (expected[x] - expected[y]) & mask_of(32);
        break;
      }
      default:
        term = terms.bitwise(op, pool[x], pool[y]);
        value = apply(op, 32, expected[x], expected[y]);
    }
    ASSERT_EQ(terms.evaluate(term, of), value) << terms.text(term);
    ASSERT_EQ(terms.evaluate(terms.canonical(term), of), value) << terms.text(term);
    if (pool.size() < 200) {
      pool.push_back(term);
      expected.push_back(value);
    }
  }
}

}  // namespace
}  // namespace assay::prove::testing
