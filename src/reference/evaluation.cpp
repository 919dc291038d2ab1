#include "reference/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace assay::reference {

Memo::Memo(int64_t count) : directories_(static_cast<std::size_t>((count + kSpan - 1) / kSpan)) {}

Memo::~Memo() {
  for (std::atomic<Directory*>& slot : directories_) {
    Directory* directory = slot.load();
    if (!directory) continue;
    for (std::atomic<Page*>& page : directory->pages) delete page.load();
    delete directory;
  }
}

Page* Memo::make(int64_t element) {
  std::atomic<Directory*>& slot = directories_[static_cast<std::size_t>(element / kSpan)];
  Directory* directory = slot.load(std::memory_order_acquire);
  if (!directory) {
    directory = new Directory();
    slot.store(directory, std::memory_order_release);
  }
  Page* page = new Page();
  directory->pages[element / Page::kCount % kPages].store(page, std::memory_order_release);
  return page;
}

void Memo::put(const int64_t* elements, int n, const Elements& values) {
  const std::scoped_lock lock(writing_);
  for (int l = 0; l < n; ++l) {
    Page* page = find(elements[l]);
    if (!page) page = make(elements[l]);
    const int at = static_cast<int>(elements[l] % Page::kCount);
    if (page->has(at)) continue;
    page->v[at] = values.v[l];
    page->b[at] = values.b[l];
    page->s[at] = values.s[l];
    page->terms[at] = static_cast<float>(values.terms[l]);
    page->f[at] = values.f[l];
    page->done[at / 64].fetch_or(uint64_t{1} << (at % 64), std::memory_order_release);
  }
}

Evaluation::Evaluation(const Contract& the_contract, const CompiledFormula& the_compiled,
                       ShapedFormula the_shaped, const Bindings& the_bindings,
                       const BudgetOptions& the_options, const Defect* defect)
    : contract(the_contract),
      compiled(the_compiled),
      shaped(std::move(the_shaped)),
      bindings(the_bindings),
      options(the_options),
      simulated(defect),
      precision(precision_of(the_contract.reference)) {
  for (const TensorSpec& spec : contract.tensors) {
    const auto found = bindings.inputs.find(spec.name);
    tensors.push_back(spec.is_input() && found != bindings.inputs.end() ? found->second.get() : nullptr);
    const auto presence = bindings.scalars.find(contract::presence_of(spec.name));
    absent.push_back(presence != bindings.scalars.end() && presence->second.as_int() == 0);
  }
  for (const ScalarSpec& spec : contract.scalars) {
    const auto found = bindings.scalars.find(spec.name);
    scalars.push_back(found != bindings.scalars.end() ? found->second : Scalar{});
  }
  chosen.assign(compiled.definitions.size(), nullptr);
  for (std::size_t i = 0; i < compiled.choices.size(); ++i) {
    const auto found = bindings.inputs.find(choice_input(compiled.choices[i].name));
    const auto id = static_cast<std::size_t>(compiled.choice_definitions[i]);
    if (found != bindings.inputs.end()) chosen[id] = found->second.get();
  }
  for (const ShapedDefinition& one : shaped.definitions) memos_.push_back(std::make_unique<Memo>(one.count));
  scatters_.resize(compiled.definitions.size());
  scatter_once_.resize(compiled.definitions.size());
  find_common_loads();
  find_maxima_under_exp();
}

Result<void> Evaluation::check() const {
  for (std::size_t i = 0; i < contract.tensors.size(); ++i) {
    const TensorSpec& spec = contract.tensors[i];
    if (!spec.is_input()) continue;
    const Tensor* tensor = tensors[i];
    if (!tensor) return Error{fmt::format("the input `{}` is missing", spec.name), contract.path};
    if (tensor->dtype != spec.dtype || tensor->extents != shaped.tensor_extents[i])
      return Error{fmt::format("the input `{}` does not have the contract's dtype and shape", spec.name),
                   contract.path};
    if (tensor->bytes.size() != static_cast<std::size_t>(tensor->count() * tensor->item_bytes()))
      return Error{fmt::format("the size of the input `{}` does not match its shape", spec.name),
                   contract.path};
  }
  for (std::size_t id = 0; id < chosen.size(); ++id)
    if (chosen[id] && chosen[id]->count() != shaped.definitions[id].count)
      return Error{fmt::format("the choice `{}` has another shape than the formula says",
                               compiled.definitions[id].name),
                   contract.path};
  for (const ScalarSpec& spec : contract.scalars)
    if (!bindings.scalars.contains(spec.name))
      return Error{fmt::format("the scalar `{}` has no value", spec.name), contract.path};
  return {};
}

void Evaluation::fail(Place place, std::string message) {
  const std::scoped_lock lock(error_lock_);
  if (!failed_.exchange(true)) error_ = contract.error_at(place, std::move(message));
}

// A load that does not depend on the loops of its sum is one value with one error:
// the sum of the terms' derivatives decides what that error does. All loads of the
// same element move together.
void Evaluation::find_common_loads() {
  for (const Definition& made : compiled.definitions) {
    std::vector<std::vector<int>>& groups = common_.emplace_back();
    const bool sums = made.reduce == Reduce::Sum || made.reduce == Reduce::Mean;
    if (!sums || made.type() != Type::Float || made.reduced.empty() || precision.dtype == DType::f64)
      continue;
    uint64_t loops = 0;
    for (const int variable : made.reduced) loops |= uint64_t{1} << variable;
    std::map<std::pair<int, std::string>, std::vector<int>> by_text;
    for (std::size_t id = 0; id < made.nodes.size(); ++id) {
      const Node& node = made.nodes[id];
      if (node.op != Op::Load || node.type != Type::Float || (node.indices & loops) != 0) continue;
      if (compiled.sources[static_cast<std::size_t>(node.ref)].is_input) continue;
      by_text[{node.ref, node.text}].push_back(static_cast<int>(id));
    }
    for (auto& [key, nodes] : by_text) groups.push_back(std::move(nodes));
  }
}

// exp(x - m), m a maximum: the definitions of such maxima.
void Evaluation::find_maxima_under_exp() {
  max_under_exp_.assign(compiled.definitions.size(), 0);
  for (const Definition& made : compiled.definitions)
    for (const Node& node : made.nodes) {
      if (node.op != Op::Exp && node.op != Op::Exp2) continue;
      const Node& argument = made.nodes[static_cast<std::size_t>(node.a)];
      if (argument.op != Op::Sub) continue;
      const Node* shift = &made.nodes[static_cast<std::size_t>(argument.b)];
      const Definition* holder = &made;
      // m itself may be a tensor that was assigned the maximum.
      while (shift->op == Op::CastFloat) shift = &holder->nodes[static_cast<std::size_t>(shift->a)];
      for (int step = 0; step < 8 && shift->op == Op::Load; ++step) {
        const Source& source = compiled.sources[static_cast<std::size_t>(shift->ref)];
        if (source.is_input) break;
        const auto id = static_cast<std::size_t>(source.definition);
        if (compiled.definitions[id].reduce == Reduce::Max) max_under_exp_[id] = 1;
        if (compiled.definitions[id].reduce != Reduce::None) break;
        holder = &compiled.definitions[id];
        shift = &holder->nodes[static_cast<std::size_t>(holder->body)];
      }
    }
}

const ScatterLists& Evaluation::scatter(int definition) {
  const auto id = static_cast<std::size_t>(definition);
  std::call_once(scatter_once_[id], [&] {
    scatters_[id] = std::make_unique<ScatterLists>(Evaluator(*this).scatter_lists(definition));
  });
  return *scatters_[id];
}

int Evaluation::threads() const {
  return useful_threads(options.threads);
}

Result<void> Evaluation::compute(int definition, std::span<const int64_t> elements, const Elements& out) {
  const int64_t count = static_cast<int64_t>(elements.size());
  // Few elements are dealt one by one; a evaluator keeps its place over several batches.
  const int64_t piece = std::clamp<int64_t>(count / (4 * threads()), 1, 16 * kLanes);
  in_parallel(threads(), count, piece, [&](int64_t begin, int64_t size) {
    Evaluator evaluator(*this);
    for (int64_t first = begin; first < begin + size && !failed(); first += kLanes) {
      const int n = static_cast<int>(std::min<int64_t>(kLanes, begin + size - first));
      const Elements part{out.v + first,         out.b + first,     out.s + first,
                          out.magnitude + first, out.terms + first, out.f + first};
      evaluator.compute(definition, elements.data() + first, n, part);
    }
  });
  if (failed()) return error_;
  return {};
}

Result<std::vector<AdmittedResult>> Evaluation::admitted_results(int definition, int64_t element) {
  std::vector<AdmittedResult> list = Evaluator(*this).admitted_results(definition, element);
  if (failed()) return error_;
  return list;
}

}  // namespace assay::reference
