// Right kernels in every slot, many runs of each: how often does one fail?
//
//     bench_right_kernels [runs of a slot, or seeds as 14-21] [threads] [seconds] [slot...]
//
// The kinds of right kernels are those of tests/train/right_candidate.h.
//
// Each run has a seed, and so weights and batches, of its own, and is one cell of the matrix for one kind of kernel: gradients, single calls
// at all states, losses. Seeds go through the kinds and the cells in turn. Prints a row for each slot; a run that fails is printed with
// its finding.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "finding/message.h"
#include "train/right_candidate.h"
#include "train/train.h"

namespace assay::train {
namespace {

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
        fmt::print("{} {}, seed {}, {}: {}\n", row.slot->name, kind, seed, finding.found.found_with,
                   message(finding));
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
