// One evaluation of a compiled formula: inputs, results so far, evaluators.
//
// An Evaluation belongs to one shape and one set of inputs. Elements of definitions
// are computed on demand, in batches, and kept in pages; asking for an element
// computes what it depends on and nothing else. Several evaluators may compute at
// once: an element that two of them need is computed twice at worst, with the
// same result.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "reference/accumulator.h"
#include "reference/arithmetic.h"
#include "reference/compiled_formula.h"
#include "reference/reference.h"
#include "reference/shaped_formula.h"

namespace assay::reference {

// What is known of some elements of a definition.
struct Elements {
  double* v = nullptr;  // Int and Bool: the int64's bits
  double* b = nullptr;
  double* s = nullptr;
  double* magnitude = nullptr;  // sum of |terms|
  double* terms = nullptr;
  uint8_t* f = nullptr;
};

// A thousand elements of a definition, some of them computed.
struct Page {
  static constexpr int kCount = 1024;
  double v[kCount], b[kCount], s[kCount];
  float terms[kCount];
  uint8_t f[kCount];
  std::atomic<uint64_t> done[kCount / 64];

  bool has(int at) const { return (done[at / 64].load(std::memory_order_acquire) >> (at % 64) & 1) != 0; }
};

// Pages by place, in two levels: a definition may have far more elements than are
// ever asked for.
class Memo {
 public:
  explicit Memo(int64_t count);
  ~Memo();
  Memo(const Memo&) = delete;
  Memo& operator=(const Memo&) = delete;

  Page* find(int64_t element) const {
    const Directory* directory =
        directories_[static_cast<std::size_t>(element / kSpan)].load(std::memory_order_acquire);
    return directory ? directory->pages[element / Page::kCount % kPages].load(std::memory_order_acquire)
                     : nullptr;
  }
  bool has(int64_t element) const {
    const Page* page = find(element);
    return page && page->has(static_cast<int>(element % Page::kCount));
  }
  void put(const int64_t* elements, int n, const Elements& values);

 private:
  static constexpr int64_t kPages = 1024;
  static constexpr int64_t kSpan = kPages * Page::kCount;
  struct Directory {
    std::atomic<Page*> pages[kPages] = {};
  };
  Page* make(int64_t element);

  std::vector<std::atomic<Directory*>> directories_;
  std::mutex writing_;
};

// One of several results that a sound kernel may come to.
struct AdmittedResult {
  double value = 0;
  double low = 0, high = 0;
};

// For a scatter: which loop iterations reach a place. The key of a place is
// made of its computed coordinates and of the plain indices that they use.
struct ScatterLists {
  std::vector<int> looped;                    // variables that an entry fixes
  std::vector<int> keyed;                     // plain variables in the key
  std::vector<int64_t> key_extents;           // of computed coordinates, then of keyed variables
  std::vector<int64_t> keys;                  // sorted, once each
  std::vector<int64_t> first;                 // by key, and one more: into entries
  std::vector<std::vector<int64_t>> entries;  // by looped variable
};

// The lanes of a batch: for every variable of a definition, one value for all or
// one for each.
struct Batch {
  int definition = -1;
  int n = 0;
  uint64_t id = 0;  // changes with the varying values
  int64_t* index[64] = {};
  int64_t uniform[64] = {};
  double* terms = nullptr;  // longest sum met while loading, by lane
  bool values_only = false;
};

class Evaluation {
 public:
  Evaluation(const Contract& contract, const CompiledFormula& compiled, ShapedFormula shaped,
             const Bindings& bindings, const BudgetOptions& options, const Defect* simulated);

  // Checks that every input and scalar is there and has its shape.
  Result<void> check() const;
  // Computes elements of a definition into `out`, on all threads.
  Result<void> compute(int definition, std::span<const int64_t> elements, const Elements& out);
  // Of an element that is undecided because of its outermost argmax or `if`: all its
  // admitted_results, the formula's own first. Empty: the budget's interval is all there is.
  Result<std::vector<AdmittedResult>> admitted_results(int definition, int64_t element);

  const Contract& contract;
  const CompiledFormula& compiled;
  const ShapedFormula shaped;
  const Bindings& bindings;
  const BudgetOptions options;
  const Defect* const simulated;
  const Precision precision;

  int threads() const;
  // What is wrong with the sum of a definition when a defect is simulated.
  const Defect& defect_of(int definition) const {
    static const Defect kSound;
    const bool elsewhere = simulated->only_sum >= 0 && simulated->only_sum != definition;
    return elsewhere || simulated->only_value >= 0 ? kSound : *simulated;
  }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  void fail(Place place, std::string message);
  std::vector<const Tensor*> tensors;  // by Contract::tensors; null for pure outputs
  std::vector<bool> absent;            // by tensor: an optional one that the kernel is not given
  std::vector<Scalar> scalars;         // by Contract::scalars
  std::vector<const Tensor*>
      chosen;  // by definition: what the kernel chose; null: not a choice, or not given

  Memo& memo(int definition) { return *memos_[static_cast<std::size_t>(definition)]; }
  const ScatterLists& scatter(int definition);
  // Loads of a definition's body whose error is common to all terms of its sum.
  const std::vector<std::vector<int>>& common_loads(int definition) const {
    return common_[static_cast<std::size_t>(definition)];
  }

  bool is_max_under_exp(int definition) const {
    return max_under_exp_[static_cast<std::size_t>(definition)] != 0;
  }

 private:
  void find_common_loads();
  void find_maxima_under_exp();

  std::vector<std::unique_ptr<Memo>> memos_;
  std::vector<std::unique_ptr<ScatterLists>> scatters_;
  std::deque<std::once_flag> scatter_once_;
  std::vector<std::vector<std::vector<int>>> common_;
  std::vector<char> max_under_exp_;  // by definition
  std::atomic<bool> failed_{false};
  std::mutex error_lock_;
  Error error_;
};

// How a load that is common to all terms enters: with its error, without it, or moved.
enum class Shift : uint8_t { None, Exact, Up, Down, Deviation };

class Evaluator {
 public:
  explicit Evaluator(Evaluation& evaluation);

  void compute(int definition, const int64_t* elements, int n, const Elements& out);
  Lanes eval(Batch& batch, int node);
  Lanes eval_node(Batch& batch, int node);
  // Of a node with two operands, which have these values.
  Lanes binary(const Batch& batch, const Node& node, const Lanes& a, const Lanes& b);
  Batch batch_of(int definition, const int64_t* elements, int n);
  ScatterLists scatter_lists(int definition);
  std::vector<AdmittedResult> admitted_results(int definition, int64_t element);
  // A sum over (a - m)², m the same for all terms.
  static bool is_variance(const Definition& made);
  // Its `a - m`.
  static const Node& deviation(const Definition& made);
  static bool is_product(const Definition& made);
  // A product of two fp8 inputs: Hopper's tensor cores sum those in 14 bits.
  static bool is_fp8_product(const Contract& contract, const CompiledFormula& compiled,
                             const Definition& made);

 private:
  friend class Evaluation;
  struct LoadCache {
    uint64_t batch = 0;
    bool uniform = false, contiguous = false;
    int64_t base[kLanes];
  };
  struct Bounds {
    int64_t low = 0, high = 0;
    bool uniform = true;
    Lanes lows, highs;
  };

  const Definition& definition(int id) const {
    return evaluation_.compiled.definitions[static_cast<std::size_t>(id)];
  }
  const ShapedDefinition& shaped(int id) const {
    return evaluation_.shaped.definitions[static_cast<std::size_t>(id)];
  }

  // evaluation.cpp: expressions
  Lanes load(Batch& batch, int node_id, const Node& node);
  struct Offsets {
    int64_t* at = nullptr;
    bool uniform = false, contiguous = false;
    bool* uncertain = nullptr;  // a subscript could be another within the budget
  };
  bool offsets(Batch& batch, int node_id, const Node& node, Offsets& result);
  void announce_reads(const Batch& batch, const Source& source, const Offsets& offset);
  Lanes load_input(const Batch& batch, const Source& source, const Offsets& offset);
  Lanes load_definition(Batch& batch, int node_id, const Node& node, int definition_id,
                        const Offsets& offset);
  void demand(int definition_id, const int64_t* elements, int n);
  void out_of_range(const Batch& batch, const Node& node, std::size_t subscript, int64_t value, int lane);
  Lanes scalar(const Batch& batch, const Node& node);
  Lanes with_defect(const Batch& batch, int node_id, const Lanes& r);
  struct Exponent;
  Exponent new_exponent(int n);
  Lanes exponent(Batch& batch, int node_id, Exponent& found);
  Lanes exponential(Batch& batch, const Node& node);
  Lanes logarithm(Batch& batch, const Node& node);
  Lanes in_any_order(Batch& batch, int node_id, const Node& node);
  Lanes conditional(Batch& batch, const Node& node);
  void widen_undecided(const Lanes& condition, const Lanes branches[2], int* const lanes[2],
                       const int count[2], int n, const Arithmetic& math, Lanes& r);
  void write(const Lanes& value, int n, const Elements& out) const;
  void write_choice(int definition_id, const int64_t* elements, int n, const Elements& out);
  Lanes logical(Batch& batch, const Node& node);
  Batch select(const Batch& batch, const int* lanes, int n);
  // … which notes the sums that it loads, if `batch` does, in a place of its own.
  Batch select_with_terms(const Batch& batch, const int* lanes, int n);

  // reduce.cpp: sums and extremes over batches
  using Loops = std::vector<int>;  // variables, outermost first
  void reduce(Batch& batch, const int64_t* elements, const Elements& out);
  void reduce_into(Batch& batch, const int64_t* elements, Accumulator& total);
  void reduce_by_terms(const Batch& batch, int lane, const Loops& loops, Accumulator& total, int at);
  void loop(Batch& batch, const Loops& loops, std::size_t depth, const int* map, Accumulator& total);
  void term(Batch& batch, const int* map, Accumulator& total);
  void common_mode(Batch& batch, const int64_t* elements, Accumulator& total);
  void note_centre(Batch& batch, Accumulator& total, const double* slope);
  void add_previous(Batch& batch, const int64_t* elements, Accumulator& total);
  void finish(const Batch& batch, const Accumulator& total, const Elements& out);
  int64_t trips(const Loops& loops, int definition_id) const;
  Bounds bounds(Batch& batch, int variable);
  void set_shift(int definition_id, const std::vector<int>& nodes, Shift shift);
  bool is_dropped(int definition_id, int variable) const;
  int64_t partial_terms(const Batch& batch) const;
  std::optional<LeastNormals> least_normals(const Batch& batch) const;
  void report_trouble(const Arithmetic& math, const Node& node);
  Lanes keep(const Lanes& filter, const int* lanes, int count);
  void open_filter(const Lanes& filter, int n, double neutral, Lanes& t);
  Lanes previous(Batch& batch, const int64_t* elements);
  bool one_pass_variance(Batch& batch, Accumulator& total);
  void finish_extreme(const Definition& made, const Accumulator& total, int l, const Elements& out);
  void finish_integer_sum(const Definition& made, const Accumulator& total, int l, const Elements& out);
  void finish_product(const Accumulator& total, int l, const Elements& out) const;
  void finish_sum(const Batch& batch, const Accumulator& total, int l, const Elements& out);
  void add_tensor_core(const Accumulator& total, int l, bool fp8, double v, double& b, double& s,
                       uint8_t& flags) const;
  void add_variance(const Accumulator& total, int l, double& b, double& s) const;
  double simulated_sum(const Accumulator& total, int l, bool mean, const Defect& defect) const;

  // scatter.cpp: computed places on the left
  void reduce_scatter(Batch& batch, const int64_t* elements, Accumulator& total);
  void assign_scatter(Batch& batch, const int64_t* elements, const Elements& out);
  void scatter_batch(Batch& full, const ScatterLists& lists, std::vector<int64_t>& keys,
                     std::vector<std::vector<int64_t>>& values);
  static std::pair<int64_t, int64_t> scatter_entries(const ScatterLists& lists, int64_t key);
  int64_t scatter_end(int definition_id, const ScatterLists& lists) const;
  void scatter_run(Batch& batch, const ScatterLists& lists, const Loops& rest, int first, int n,
                   int64_t begin, int64_t end, Accumulator& total);
  void scatter_by_terms(const Batch& part, const ScatterLists& lists, int lane, int64_t begin, int64_t end,
                        Accumulator& total, int at);
  std::vector<AdmittedResult> admitted_indices(int definition_id, int64_t element);
  AdmittedResult mapped(const Definition& made, const std::vector<int>& chain, const AdmittedResult& inner);
  void keep_previous(Batch& batch, const int64_t* elements, const Elements& out);
  int64_t scatter_key(const Batch& batch, const ScatterLists& lists, int64_t element, int lane) const;

  // Calls `flush` with batches of iterations of `loops`, up to 256 at a time, in order.
  using Flush = std::function<void(Batch& batch)>;
  struct Tuples;
  void enumerate(const Batch& batch, const Loops& loops, const Flush& flush);
  void enumerate_from(Batch& batch, std::size_t depth, Tuples& tuples);
  void flush_tuples(const Batch& batch, Tuples& tuples);

  Evaluation& evaluation_;
  Arena arena_;
  Arithmetic budget_, plain_;
  uint64_t next_batch_ = 1;
  std::vector<std::vector<std::unique_ptr<LoadCache>>> caches_;
  std::vector<std::vector<Shift>> shifts_;     // by definition and node
  std::vector<std::vector<char>> suppressed_;  // a load marked exact that was not
};

}  // namespace assay::reference
