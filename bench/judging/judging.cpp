// What judging costs: operators of about ten million elements, judged as a check does (on a sample where they
// are many) and whole, and the rate of the exact reference on one core. Prints one JSON object a case.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "finding/message.h"
#include "judge/judge.h"
#include "trial/trial.h"

namespace {

using namespace assay;
using contract::Bindings;
using contract::Contract;
using contract::Tensor;

struct Case {
  const char* name;
  const char* tensors;  // "name dtype extents values", a line each; outputs begin with '>'
  const char* formula;
  contract::Shape shape;
  double work;  // terms or elements of the whole
  // One element of the output, as a kernel computes it.
  std::function<float(const std::map<std::string, std::vector<float>>&, const contract::Shape&, int64_t)> at;
};

const Case kCases[] = {
    {"silu",
     "x bf16 M,N activations\n>y bf16 M,N",
     "y[i, j] = x[i, j] * sigmoid(x[i, j])",
     {{"M", 10000}, {"N", 1000}},
     1e7,
     [](const auto& in, const auto&, int64_t i) {
       const float x = in.at("x")[static_cast<std::size_t>(i)];
       return x / (1 + std::exp(-x));
     }},
    {"add",
     "x f32 M,N\nz f32 M,N\n>y f32 M,N",
     "y[i, j] = x[i, j] + z[i, j]",
     {{"M", 10000}, {"N", 1000}},
     1e7,
     [](const auto& in, const auto&, int64_t i) {
       return in.at("x")[static_cast<std::size_t>(i)] + in.at("z")[static_cast<std::size_t>(i)];
     }},
    {"row_sum",
     "x bf16 M,N\n>y f32 M",
     "y[i] += x[i, k]",
     {{"M", 10000}, {"N", 1000}},
     1e7,
     [](const auto& in, const auto& shape, int64_t i) {
       const int64_t n = shape.at("N");
       float sum = 0;
       for (int64_t k = 0; k < n; ++k) sum += in.at("x")[static_cast<std::size_t>(i * n + k)];
       return sum;
     }},
    {"column_sum",
     "x bf16 M,N\n>y f32 N",
     "y[j] += x[i, j]",
     {{"M", 10000}, {"N", 1000}},
     1e7,
     [](const auto& in, const auto& shape, int64_t j) {
       const int64_t n = shape.at("N");
       float sum = 0;
       for (int64_t i = 0; i < shape.at("M"); ++i) sum += in.at("x")[static_cast<std::size_t>(i * n + j)];
       return sum;
     }},
    {"product",
     "a bf16 M,K\nb bf16 K,N\n>y f32 M,N",
     "y[i, j] += a[i, k] * b[k, j]",
     {{"M", 512}, {"N", 512}, {"K", 512}},
     512.0 * 512 * 512,
     [](const auto& in, const auto& shape, int64_t e) {
       const int64_t n = shape.at("N"), depth = shape.at("K"), i = e / n, j = e % n;
       float sum = 0;
       for (int64_t k = 0; k < depth; ++k)
         sum = std::fma(in.at("a")[static_cast<std::size_t>(i * depth + k)],
                        in.at("b")[static_cast<std::size_t>(k * n + j)], sum);
       return sum;
     }},
    {"scatter",
     "x bf16 M,N gradients\nt i64 M tokens(V)\n>y f32 V,N",
     "y[t[i], j] += x[i, j]",
     {{"M", 16384}, {"N", 512}, {"V", 4096}},
     16384.0 * 512,
     {}},
};

std::string text_of(const Case& one) {
  std::string dims = "[dims]\n", tensors, args;
  for (const auto& [name, extent] : one.shape)
    dims += fmt::format("{} = {{ min = 1, max = 100000 }}\n", name);
  std::string line;
  for (const char c : std::string(one.tensors) + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    std::vector<std::string> words(1);
    for (const char d : line) {
      if (d == ' ')
        words.emplace_back();
      else
        words.back() += d;
    }
    const bool out = words[0][0] == '>';
    const std::string name = words[0].substr(out);
    std::string shape;
    for (const char d : words[2]) shape += d == ',' ? std::string("\", \"") : std::string(1, d);
    tensors += fmt::format("[tensors.{}]\ndtype = \"{}\"\nshape = [\"{}\"]\n", name, words[1], shape);
    if (out) tensors += "role = \"out\"\n";
    if (words.size() > 3) tensors += fmt::format("values = \"{}\"\n", words[3]);
    args += (args.empty() ? "\"" : ", \"") + name + "\"";
    line.clear();
  }
  return fmt::format(
      "[kernel]\nsource = \"k.cu\"\nentry = \"k\"\nargs = [{}]\n{}{}[reference]\nformula = \"{}\"\n", args,
      dims, tensors, one.formula);
}

double cpu_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of the clock, or of the processors with BENCH_CPU set, which neighbours disturb less.
double now() {
  return cpu_seconds(std::getenv("BENCH_CPU") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().text());
    std::exit(1);
  }
  return std::move(*result);
}

// A sound kernel's output; for the scatter, that of a loop.
Tensor output_of(const Case& one, const Contract& contract, const Bindings& bindings) {
  const contract::TensorSpec& spec = *contract.outputs()[0];
  Tensor y = Tensor::zeros(spec.dtype, must(spec.extents(bindings.shape)));
  std::map<std::string, std::vector<float>> in;
  for (const auto& [name, tensor] : bindings.inputs) {
    std::vector<float>& list = in[name];
    for (int64_t i = 0; i < tensor->count(); ++i) list.push_back(static_cast<float>(tensor->load(i)));
  }
  if (one.at) {
    for (int64_t i = 0; i < y.count(); ++i) y.store(i, one.at(in, bindings.shape, i));
    return y;
  }
  const int64_t n = bindings.shape.at("N");
  std::vector<float> sums(static_cast<std::size_t>(y.count()));
  const Tensor& places = *bindings.inputs.at("t");
  for (int64_t i = 0; i < bindings.shape.at("M"); ++i) {
    for (int64_t j = 0; j < n; ++j)
      sums[static_cast<std::size_t>(places.load_int(i) * n + j)] +=
          in["x"][static_cast<std::size_t>(i * n + j)];
  }
  for (int64_t i = 0; i < y.count(); ++i) y.store(i, sums[static_cast<std::size_t>(i)]);
  return y;
}

// The best of three: seconds to judge, and how many elements.
std::pair<double, int64_t> judged(const Contract& contract, const reference::Reference& reference,
                                  const Bindings& bindings, const judge::Outputs& outputs,
                                  const judge::Options& options) {
  double best = 1e30;
  int64_t elements = 0;
  for (int i = 0; i < 3; ++i) {
    const double start = now();
    const judge::Judgement judgement = must(judge::judge(contract, reference, bindings, outputs, options));
    best = std::min(best, now() - start);
    elements = judgement.judged;
    if (!judgement.findings.empty()) fmt::print(stderr, "{}\n", message(judgement.findings[0]));
  }
  return {best, elements};
}

void run(const Case& one) {
  const Contract contract = must(contract::parse(text_of(one)));
  const reference::Reference reference = must(reference::Reference::make(contract));
  trial::Trial trial;
  trial.shape = one.shape;
  const Bindings bindings = must(trial::make_inputs(contract, trial));
  judge::Outputs outputs;
  const std::string name = contract.outputs()[0]->name;
  outputs[name] = std::make_shared<const Tensor>(output_of(one, contract, bindings));

  const auto [sample, sampled] = judged(contract, reference, bindings, outputs, {});
  const auto [whole, all] =
      judged(contract, reference, bindings, outputs, {.max_elements = int64_t{1} << 40, .max_work = 1e18});
  double rate = 0;
  for (int i = 0; i < 3; ++i) {
    const double before = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    must(reference.expect_all(bindings, name, {.threads = 1}));
    rate = std::max(rate, one.work / (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - before));
  }
  fmt::print(
      "{{\"case\": \"{}\", \"judge_s\": {:.4f}, \"judged\": {}, \"whole_s\": {:.4f}, \"elements\": {}, "
      "\"rate\": {:.4g}}}\n",
      one.name, sample, sampled, whole, all, rate);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Case& one : kCases) {
    if (argc < 2 || one.name == std::string_view(argv[1])) run(one);
  }
}
