// Right kernels in every slot, many runs of each: how often is one accused?
//
//     bench_right_kernels [runs of a slot, or seeds as 14-21] [threads] [seconds] [slot...]
//
// A right kernel is one whose results are those of the operator up to rounding. Here they are functions of the host that compute as kernels may:
//
//     order     f32, all sums in another order
//     exact     f64, rounded once
//     approx    f32, each result off by up to 2^-21, as approximate functions make it (docs/measurements/hardware.md has their errors); of
//               AdamW, the change of the weights is off by that much. Not where nothing but additions and products is computed
//     serial    f32, every long sum one addition after the other
//
// Each run has a seed, and so weights and batches, of its own, and is one cell of the matrix for one kind of kernel: gradients, single calls
// at all states, losses. Seeds go through the kinds and the cells in turn. Prints a row for each slot; a run that fails is printed with
// its finding.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "finding/message.h"
#include "train/host_candidate.h"
#include "train/train.h"

namespace assay::train {
namespace {

constexpr std::string_view kKinds[] = {"order", "exact", "approx", "serial"};
constexpr double kApproximate = 0x1p-21;

// Whether a right kernel may use approximate functions for this output: that of something with a root, an exponential or a quotient.
bool may_be_approximate(const Slot& slot, std::string_view output) {
  return slot.phase != Phase::Update || (slot.name == "adamw" && output == "p");
}
bool may_be_approximate(const Slot& slot) {
  return std::ranges::any_of(slot.tensors, [&](const SlotTensor& tensor) {
    return tensor.role != contract::Role::In && may_be_approximate(slot, tensor.name);
  });
}

// Results with errors of approximate functions.
void disturb(const Slot& slot, const contract::Bindings& bindings, uint64_t seed, Operands<float>& at) {
  Random random(seed);
  for (const SlotTensor& tensor : slot.tensors) {
    if (tensor.role == contract::Role::In || !may_be_approximate(slot, tensor.name)) continue;
    const contract::Tensor* const before =
        slot.phase == Phase::Update ? bindings.inputs.find(tensor.name)->second.get() : nullptr;
    std::vector<float>& values = at[tensor.name].values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      const double kept = before ? before->load(static_cast<int64_t>(i)) : 0;
      const double factor = 1 + kApproximate * (2 * random.uniform() - 1);
      values[i] = static_cast<float>(kept + (values[i] - kept) * factor);
    }
  }
}

bool has_serial(const Slot& slot) {
  return slot.name == "embedding_grad" || slot.name.starts_with("linear");
}
// The long sums of these slots, one addition after the other.
void add_serially(const Slot& slot, Operands<float>& at) {
  const auto rows = [&](const char* to, const char* from) {
    Array<float>& sums = at[to];
    std::ranges::fill(sums.values, 0.0f);
    const int64_t D = at.dim("D");
    for (int64_t t = 0; t < at.dim("T"); ++t)
      for (int64_t d = 0; d < D; ++d)
        sums.data()[at["tokens"].integers[static_cast<std::size_t>(t)] * D + d] += at[from].data()[t * D + d];
  };
  const auto product = [&](const char* to, const char* a, const char* b, int64_t m, int64_t n, int64_t k,
                           int64_t am, int64_t ak, int64_t bn, int64_t bk) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += at[a].data()[i * am + l * ak] * at[b].data()[j * bn + l * bk];
        at[to].data()[i * n + j] = sum;
      }
  };
  if (slot.name == "embedding_grad") {
    rows("dw", "dy");
  } else if (slot.name == "linear") {
    product("y", "x", "w", at.dim("T"), at.dim("N"), at.dim("K"), at.dim("K"), 1, 1, at.dim("N"));
  } else if (slot.name == "linear_grad_input") {
    product("dx", "dy", "w", at.dim("T"), at.dim("K"), at.dim("N"), at.dim("N"), 1, at.dim("N"), 1);
  } else {
    product("dw", "x", "dy", at.dim("K"), at.dim("N"), at.dim("T"), 1, at.dim("K"), 1, at.dim("N"));
  }
}

Candidate right_candidate(const Slot& slot, std::string_view kind, uint64_t seed) {
  const auto calls = std::make_shared<uint64_t>(mix(seed, hash("calls")));
  return host_candidate(slot, [&slot, kind, calls](const contract::Bindings& bindings) -> CallResult {
    if (kind == "exact") return host_outputs<double>(slot, {.rounds = false}, bindings, {});
    const Arithmetic arithmetic{.rounds = false, .reordered = kind == "order"};
    return host_outputs<float>(slot, arithmetic, bindings, [&](Operands<float>& at) {
      if (kind == "approx") disturb(slot, bindings, *calls = mix(*calls), at);
      if (kind == "serial") add_serially(slot, at);
    });
  });
}

// The kinds of a slot, and the cells that each is tried in, in turn.
std::vector<std::string_view> kinds_of(const Slot& slot) {
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : kKinds)
    if ((kind != "serial" || has_serial(slot)) && (kind != "approx" || may_be_approximate(slot)))
      kinds.push_back(kind);
  return kinds;
}

Options small_training(const Slot& slot, uint64_t seed) {
  Options options;
  options.sizes = {.vocabulary = 64,
                   .width = 16,
                   .heads = 2,
                   .layers = 1,
                   .feed_forward = 24,
                   .sequence = 32,
                   .sequences = 32};
  options.threads = 1;
  options.seed = seed;
  const std::size_t turn = seed / kinds_of(slot).size();
  options.sources = {turn % 2 ? TokenSource::Uniform : TokenSource::Zipf};
  options.optimizers = {kOptimizers[turn / 2 % kOptimizers.size()]};
  options.steps = 20;
  return options;
}

struct Row {
  const Slot* slot = nullptr;
  int runs = 0, failed = 0, undecided = 0;
  int64_t calls = 0, elements = 0;  // judged one by one
  double evidence = 0, ratio = 0;   // the largest
};

int run(int argc, char** argv) {
  const std::string asked = argc > 1 ? argv[1] : "100";
  const std::size_t dash = asked.find('-');
  const int first_seed = dash == std::string::npos ? 1 : std::atoi(asked.c_str());
  const int runs = std::atoi(asked.c_str() + (dash == std::string::npos ? 0 : dash + 1)) - first_seed + 1;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 1e9;
  std::vector<Row> rows;
  for (const Slot& slot : slots()) {
    bool is_wanted = argc <= 4;
    for (int i = 4; i < argc; ++i) is_wanted |= slot.name == argv[i];
    if (is_wanted) rows.push_back({&slot});
  }
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t job = next++; job < rows.size() * static_cast<std::size_t>(runs); job = next++) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() > seconds) return;
      Row& row = rows[job % rows.size()];  // every row once, then again: cut short, all have as many
      const uint64_t seed = static_cast<uint64_t>(first_seed) + job / rows.size();
      const std::vector<std::string_view> kinds = kinds_of(*row.slot);
      const std::string_view kind = kinds[seed % kinds.size()];
      const Report report =
          train(examined(right_candidate(*row.slot, kind, seed)), small_training(*row.slot, seed));
      const std::lock_guard lock(mutex);
      ++row.runs;
      row.failed += report.verdict == judge::Verdict::Fail;
      row.undecided += report.verdict == judge::Verdict::Inconclusive;
      for (const StateReport& state : report.states) {
        row.calls += state.calls;
        row.elements += state.elements;
      }
      row.evidence = std::max(row.evidence, report.teacher.log10_evidence);
      for (const Cell& cell : report.cells)
        if (cell.noise > 0) row.ratio = std::max(row.ratio, cell.loss_gap / cell.noise);
      for (const Finding& finding : report.findings)
        fmt::print("{} {}, seed {}: {}\n", row.slot->name, kind, seed, message(finding));
    }
  };
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) team.emplace_back(work);
  for (std::thread& thread : team) thread.join();
  fmt::print(
      "| slot | runs | failed | not decided | calls judged | results judged | largest evidence, "
      "log10 | "
      "largest gap / noise in a cell |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  int failed = 0;
  for (const Row& row : rows) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {:.1f} | {:.1f} |\n", row.slot->name, row.runs, row.failed,
               row.undecided, row.calls, row.elements, row.evidence, row.ratio);
    failed += row.failed;
  }
  return failed > 0;
}

}  // namespace
}  // namespace assay::train

int main(int argc, char** argv) {
  return assay::train::run(argc, argv);
}
