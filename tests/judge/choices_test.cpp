// Contracts in which the kernel chooses: right choices pass, wrong ones do not.
#include "judge/choices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "base/random.h"
#include "finding/print.h"
#include "judge/relations.h"
#include "operators.h"

namespace assay::judge::testing {
namespace {

struct Case {
  Contract contract;
  reference::Reference reference;
  Bindings bindings;
};

// Tensors as "name dtype role shape", by spaces.
Case case_of(const std::string& formula, const std::vector<std::array<std::string, 4>>& tensors,
             const contract::Shape& shape) {
  std::string text = "[kernel]\nsource = \"k.cu\"\nentry = \"k\"\nargs = [";
  for (const auto& tensor : tensors) text += "\"" + tensor[0] + "\", ";
  text += "]\n[dims]\n";
  for (const auto& [name, value] : shape) text += name + " = { min = 1, max = 100000 }\n";
  for (const auto& [name, dtype, role, extents] : tensors)
    text += "[tensors." + name + "]\ndtype = \"" + dtype + "\"\nrole = \"" + role + "\"\nshape = [" +
            extents + "]\n";
  text += "[reference]\nformula = \"\"\"\n" + formula + "\n\"\"\"\n";
  auto contract = contract::parse(text);
  EXPECT_TRUE(contract) << contract.error().text();
  auto reference = reference::Reference::make(*contract);
  EXPECT_TRUE(reference) << reference.error().text();
  Bindings bindings;
  bindings.shape = shape;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (const contract::TensorSpec* spec : contract->inputs()) {
    Tensor tensor = Tensor::zeros(spec->dtype, *spec->extents(shape));
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.store(i, normal(random));
    bindings.inputs[spec->name] = std::make_shared<const Tensor>(std::move(tensor));
  }
  return {std::move(*contract), std::move(*reference), std::move(bindings)};
}

using Kernel = std::function<void(const Case&, std::map<std::string, Tensor>&, std::mt19937_64&)>;

// What is found, one line each.
std::string found(const Case& one, const Kernel& kernel, unsigned seed = 1) {
  std::map<std::string, Tensor> written;
  for (const contract::TensorSpec* spec : one.contract.outputs())
    written[spec->name] = spec->is_input() ? *one.bindings.inputs.at(spec->name)
                                           : Tensor::zeros(spec->dtype, *spec->extents(one.bindings.shape));
  std::mt19937_64 random(seed);
  kernel(one, written, random);
  Outputs outputs;
  for (auto& [name, tensor] : written) outputs[name] = std::make_shared<const Tensor>(std::move(tensor));
  const auto judgement = judge(one.contract, one.reference, one.bindings, outputs);
  EXPECT_TRUE(judgement) << judgement.error().text();
  std::string text;
  for (const Finding& finding : judgement->findings) text += message(finding) + "\n";
  return text;
}

void passes(const Case& one, const Kernel& kernel) {
  for (unsigned seed = 1; seed <= 5; ++seed) EXPECT_EQ(found(one, kernel, seed), "");
}

void fails(const Case& one, const std::string& says, const Kernel& kernel) {
  const std::string text = found(one, kernel);
  EXPECT_NE(text.find(says), std::string::npos) << "found: " << text;
}

double uniform(std::mt19937_64& random) {
  return std::uniform_real_distribution<double>()(random);
}

// y = x / 0.9 where `keep` says so.
Kernel dropout(const std::function<bool(int64_t i, std::mt19937_64&)>& keep, float scale = 1 / 0.9f) {
  return [=](const Case& one, std::map<std::string, Tensor>& out, std::mt19937_64& random) {
    const Tensor& x = *one.bindings.inputs.at("x");
    for (int64_t i = 0; i < x.count(); ++i) {
      const bool kept = keep(i, random);
      out.at("y").store(i, kept ? static_cast<float>(x.load(i)) * scale : 0);
      if (out.contains("mask")) out.at("mask").store_int(i, kept);
    }
  };
}

TEST(Choices, Dropout) {
  const contract::Shape shape = {{"M", 64}, {"N", 100}};
  const Case hidden =
      case_of("y[i, j] = if random(0.9) then x[i, j] / 0.9 else 0",
              {{"x", "f32", "in", "\"M\", \"N\""}, {"y", "f32", "out", "\"M\", \"N\""}}, shape);
  const Case named =
      case_of("keep[i, j] = random(0.9 + 0 * x[i, j])\ny[i, j] = if keep[i, j] then x[i, j] / 0.9 else 0",
              {{"x", "f32", "in", "\"M\", \"N\""}, {"y", "f32", "out", "\"M\", \"N\""}}, shape);
  const Case masked = case_of("mask[i, j] = random(0.9)\ny[i, j] = if mask[i, j] then x[i, j] / 0.9 else 0",
                              {{"x", "f32", "in", "\"M\", \"N\""},
                               {"y", "f32", "out", "\"M\", \"N\""},
                               {"mask", "u8", "out", "\"M\", \"N\""}},
                              shape);
  const auto right = [](int64_t, std::mt19937_64& random) { return uniform(random) < 0.9; };
  for (const Case* one : {&hidden, &named, &masked}) {
    passes(*one, dropout(right));
    fails(*one, "draws are true, where 5760 are expected",
          dropout([](int64_t, std::mt19937_64& random) { return uniform(random) < 0.1; }));
    fails(*one, "beyond what rounding can explain", dropout(right, 1));  // not rescaled
    std::vector<char> row;
    fails(*one, "equal the next along dimension 1", dropout([&row](int64_t i, std::mt19937_64& random) {
      if (i == 0) row.clear();
      if (i < 100) row.push_back(uniform(random) < 0.9);
      return row[static_cast<std::size_t>(i % 100)] != 0;
    }));
  }
  // The mask is another one than that which was used.
  fails(masked, "y: ", [&](const Case& one, std::map<std::string, Tensor>& out, std::mt19937_64& random) {
    dropout(right)(one, out, random);
    for (int64_t i = 0; i < 6400; ++i) out.at("mask").store_int(i, uniform(random) < 0.9);
  });
}

// One draw for each row.
TEST(Choices, DropPath) {
  const Case one = case_of(
      "keep[i] = random(0.5 + 0 * x[i, 0])\ny[i, j] = if keep[i] then 2 * x[i, j] else 0",
      {{"x", "f32", "in", "\"M\", \"N\""}, {"y", "f32", "out", "\"M\", \"N\""}}, {{"M", 400}, {"N", 7}});
  std::vector<char> rows;
  passes(one, dropout(
                  [&rows](int64_t i, std::mt19937_64& random) {
                    if (i == 0) rows.clear();
                    if (i % 7 == 0) rows.push_back(uniform(random) < 0.5);
                    return rows.back() != 0;
                  },
                  2));
  fails(one, "is one draw",
        dropout([](int64_t, std::mt19937_64& random) { return uniform(random) < 0.5; }, 2));
}

TEST(Choices, StochasticRounding) {
  const Case one = case_of("p[i] = sr_bf16(p[i] - 0.125 * g[i])",
                           {{"p", "bf16", "inout", "\"N\""}, {"g", "f32", "in", "\"N\""}}, {{"N", 5000}});
  const auto rounding = [](const std::function<bool(double, std::mt19937_64&)>& up) -> Kernel {
    return [=](const Case& of, std::map<std::string, Tensor>& out, std::mt19937_64& random) {
      const Tensor& g = *of.bindings.inputs.at("g");
      Tensor& p = out.at("p");
      for (int64_t i = 0; i < p.count(); ++i) {
        const float exact = static_cast<float>(p.load(i)) - 0.125f * static_cast<float>(g.load(i));
        const auto in = [&](numerics::Rounding mode) {
          return numerics::to_double(numerics::Format::BF16,
                                     numerics::from_double(numerics::Format::BF16, exact, mode));
        };
        const double low = in(numerics::Rounding::Down), high = in(numerics::Rounding::Up);
        const double part = high > low ? (exact - low) / (high - low) : 0;
        p.store(i, up(part, random) ? high : low);
      }
    };
  };
  passes(one, rounding([](double part, std::mt19937_64& random) { return uniform(random) < part; }));
  fails(one, "rounded up", rounding([](double, std::mt19937_64&) { return false; }));
  fails(one, "rounded up", rounding([](double part, std::mt19937_64&) { return part >= 0.5; }));
  fails(one, "rounded up",
        rounding([](double part, std::mt19937_64& random) { return uniform(random) < 0.8 * part; }));
  fails(one, "neither of the two neighbours",
        [&](const Case& of, std::map<std::string, Tensor>& out, std::mt19937_64& random) {
          rounding([](double part, std::mt19937_64& r) { return uniform(r) < part; })(of, out, random);
          out.at("p").store(17, out.at("p").load(17) * 1.02);
        });
}

TEST(Choices, Sampling) {
  const Case one =
      case_of("t[b] = sample[v](exp(x[b, v]))",
              {{"x", "f32", "in", "\"B\", \"V\""}, {"t", "i32", "out", "\"B\""}}, {{"B", 600}, {"V", 40}});
  const auto sampling = [](double temperature, bool shared) -> Kernel {
    return [=](const Case& of, std::map<std::string, Tensor>& out, std::mt19937_64& random) {
      const Tensor& x = *of.bindings.inputs.at("x");
      double u = uniform(random);
      for (int64_t b = 0; b < 600; ++b) {
        double total = 0, below = 0;
        for (int64_t v = 0; v < 40; ++v) total += std::exp(x.load(b * 40 + v) / temperature);
        if (!shared) u = uniform(random);
        int64_t v = 0;
        while (v < 39 && (below += std::exp(x.load(b * 40 + v) / temperature)) < u * total) ++v;
        out.at("t").store_int(b, v);
      }
    };
  };
  passes(one, sampling(1, false));
  fails(one, "probable", sampling(0.3, false));
  fails(one, "t: ", sampling(1, true));
  fails(one, "is not an index below 40",
        [&](const Case& of, std::map<std::string, Tensor>& out, std::mt19937_64& random) {
          sampling(1, false)(of, out, random);
          out.at("t").store_int(3, 40);
        });
}

// Few different values, so that there are equals.
TEST(Choices, TopK) {
  const contract::Shape shape = {{"M", 30}, {"N", 50}};
  const std::vector<std::array<std::string, 4>> tensors = {{"x", "i32", "in", "\"M\", \"N\""},
                                                           {"o", "i32", "out", "\"M\", \"4\""},
                                                           {"y", "i32", "out", "\"M\", \"4\""}};
  const Case any = case_of("o[i, k] = topk[j](x[i, j])\ny[i, k] = x[i, o[i, k]]", tensors, shape);
  const Case first = case_of("o[i, k] = topk_first[j](x[i, j])\ny[i, k] = x[i, o[i, k]]", tensors, shape);
  // Equals in their order, or in the opposite one.
  const auto sorting = [](bool backward) -> Kernel {
    return [=](const Case& of, std::map<std::string, Tensor>& out, std::mt19937_64&) {
      const Tensor& x = *of.bindings.inputs.at("x");
      for (int64_t i = 0; i < 30; ++i) {
        std::vector<int64_t> order;
        for (int64_t j = 0; j < 50; ++j) order.push_back(backward ? 49 - j : j);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return x.load_int(i * 50 + a) > x.load_int(i * 50 + b);
        });
        for (int64_t k = 0; k < 4; ++k) {
          out.at("o").store_int(4 * i + k, order[static_cast<std::size_t>(k)]);
          out.at("y").store_int(4 * i + k, x.load_int(i * 50 + order[static_cast<std::size_t>(k)]));
        }
      }
    };
  };
  passes(any, sorting(false));
  passes(any, sorting(true));
  passes(first, sorting(false));
  fails(first, "the first of equals comes first", sorting(true));
  const auto spoiled = [&](const std::function<void(Tensor&)>& spoil) -> Kernel {
    return [&sorting, spoil](const Case& of, std::map<std::string, Tensor>& out, std::mt19937_64& random) {
      sorting(false)(of, out, random);
      spoil(out.at("o"));
    };
  };
  fails(any, "is already there", spoiled([](Tensor& o) { o.store_int(1, o.load_int(0)); }));
  fails(any, "is not an index", spoiled([](Tensor& o) { o.store_int(1, -1); }));
  fails(any, "belongs before", spoiled([](Tensor& o) {
          const int64_t kept = o.load_int(0);
          o.store_int(0, o.load_int(3));
          o.store_int(3, kept);
        }));
}

// Values that are computed may be ordered either way where rounding decides.
TEST(Choices, OrdersWithinTheBudget) {
  const Case one = case_of("o[k] = argsort[j](x[j] / 3)",
                           {{"x", "f32", "in", "\"N\""}, {"o", "i32", "out", "\"N\""}}, {{"N", 3}});
  Tensor x = Tensor::zeros(DType::f32, {3});
  x.store(0, 1);
  x.store(1, std::nextafter(1.0f, 2.0f));
  x.store(2, 2);
  Case close = one;
  close.bindings.inputs["x"] = std::make_shared<const Tensor>(std::move(x));
  const auto order = [](int64_t a, int64_t b, int64_t c) -> Kernel {
    return [=](const Case&, std::map<std::string, Tensor>& out, std::mt19937_64&) {
      out.at("o").store_int(0, a);
      out.at("o").store_int(1, b);
      out.at("o").store_int(2, c);
    };
  };
  passes(close, order(0, 1, 2));
  passes(close, order(1, 0, 2));
  fails(close, "belongs before", order(0, 2, 1));
}

// Draws of calls with different seeds are compared where the formula names the seed.
TEST(Choices, Seeds) {
  const std::string text = R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "N", "seed"]
[dims]
N = { max = 10000 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[scalars.seed]
dtype = "u64"
values = [3, 4]
[reference]
formula = "y[i] = if random(0.75, seed) then x[i] / 0.75 else 0"
)";
  const auto contract = contract::parse(text);
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  Bindings bindings;
  bindings.shape = {{"N", 400}};
  bindings.scalars["seed"] = contract::Scalar::of_int(DType::u64, 3);
  Tensor x = Tensor::zeros(DType::f32, {400});
  for (int64_t i = 0; i < 400; ++i) x.store(i, static_cast<double>(i + 1));
  bindings.inputs["x"] = std::make_shared<const Tensor>(x);
  const std::vector<Companion> other = companions(*contract, *reference, bindings);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].text, "seed = 4");
  const auto call = [&](int64_t seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    Tensor y = Tensor::zeros(DType::f32, {400});
    for (int64_t i = 0; i < 400; ++i)
      y.store(i, uniform(random) < 0.75 ? static_cast<double>(i + 1) / 0.75 : 0);
    Outputs outputs;
    outputs["y"] = std::make_shared<const Tensor>(std::move(y));
    return outputs;
  };
  EXPECT_TRUE(compare(*contract, *reference, bindings, other[0], call(3), call(4)).empty());
  const std::vector<Finding> same = compare(*contract, *reference, bindings, other[0], call(3), call(3));
  ASSERT_EQ(same.size(), 1u);
  EXPECT_NE(message(same[0]).find(
                "400 of 400 draws are the same with seed = 3 and with seed = 4, where 250 are expected"),
            std::string::npos)
      << message(same[0]);
}

// Seeds that a kernel adds to the index give the same draws a place further on.
TEST(Choices, SeedsThatShiftTheDraws) {
  const auto contract = contract::parse(R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["m", "N", "seed"]
[dims]
N = { max = 10000 }
[tensors.m]
dtype = "bool"
shape = ["N"]
role = "out"
[scalars.seed]
dtype = "u64"
range = [0, 1e12]
[reference]
formula = "m[i] = random(0.5, seed)"
)toml");
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  const auto draws = [&](const auto& bit) {
    Tensor m = Tensor::zeros(DType::boolean, {1000});
    for (int64_t i = 0; i < 1000; ++i) m.store_int(i, bit(static_cast<uint64_t>(i)));
    Outputs outputs;
    outputs["m"] = std::make_shared<const Tensor>(std::move(m));
    return outputs;
  };
  Bindings bindings;
  bindings.shape = {{"N", 1000}};
  bindings.scalars["seed"] = contract::Scalar::of_int(DType::u64, 40);
  const std::vector<Companion> others = companions(*contract, *reference, bindings);
  ASSERT_GT(others.size(), 8u);  // neighbours, and seeds that differ in one bit
  const auto found = [&](const Companion& other, auto&& bit) {
    const auto seed = static_cast<uint64_t>(other.bindings.scalars.at("seed").as_int());
    return compare(*contract, *reference, bindings, other, draws([&](uint64_t i) { return bit(i, 40); }),
                   draws([&](uint64_t i) { return bit(i, seed); }));
  };
  const auto hash = [](uint64_t x) { return mix(x, 12345) >> 63; };
  int of_cut = 0;
  for (const Companion& other : others) {
    EXPECT_TRUE(found(other, [&](uint64_t i, uint64_t seed) { return hash(mix(seed, i)); }).empty())
        << other.text;
    const auto shifted = found(other, [&](uint64_t i, uint64_t seed) { return hash(i + seed); });
    const int64_t apart = std::abs(other.bindings.scalars.at("seed").as_int() - 40);
    EXPECT_EQ(!shifted.empty(), apart < 900) << other.text;
    if (!shifted.empty()) {
      EXPECT_EQ(shifted[0].kind, Kind::WrongDistribution);
    }
    of_cut += !found(other, [&](uint64_t i, uint64_t seed) { return hash(mix(seed & 0xffffff, i)); }).empty();
  }
  EXPECT_GE(of_cut, 5);  // those whose difference lies in the bits that were cut off
}

TEST(Choices, WhereNoneCanBeMade) {
  const auto refused = [](const std::string& formula, const std::string& says) {
    const std::string text =
        "[kernel]\nsource = \"k.cu\"\nentry = \"k\"\nargs = [\"x\", \"y\"]\n[dims]\nN = { max = 9 "
        "}\n[tensors.x]\ndtype = "
        "\"f32\"\nshape = [\"N\"]\n[tensors.y]\ndtype = \"bf16\"\nshape = [\"N\"]\nrole = "
        "\"out\"\n[reference]\nformula = "
        "\"\"\"\n" +
        formula + "\n\"\"\"\n";
    auto contract = contract::parse(text);
    ASSERT_TRUE(contract) << contract.error().text();
    const auto reference = reference::Reference::make(*contract);
    ASSERT_FALSE(reference) << formula;
    EXPECT_NE(reference.error().text().find(says), std::string::npos) << reference.error().text();
  };
  refused("y[i] = sum[k](if random(0.5) then x[k] else 0)", "make that an output");
  refused("keep[i] = random(x[i])\ns = sum[k](if keep[k] then x[k] else 0)\ny[i] = s + x[i]",
          "make `keep` an output");
  refused("keep[i] = random(x[i])\ny[i] = x[i]", "no output shows what `keep` was");
  refused("y[i] = 2 * sr_bf16(x[i])", "must be the whole right side of a statement");
  refused("y[i] = sr_f16(x[i])", "write sr_bf16(...)");
  refused("y[i] = topk[k](x[k])", "give it an integer dtype");
  refused("z[i] = sample[k](x[k] + 0 * x[i])\ny[i] = x[z[i]]", "must be an output");
}

}  // namespace
}  // namespace assay::judge::testing
