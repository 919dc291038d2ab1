#include "train/subject_candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/interrupt.h"
#include "subject/tensor_cores.h"
#include "train/call_findings.h"
#include "train/examined_call.h"

namespace assay::train {

using contract::Bindings;
using contract::Contract;
using contract::Shape;
using contract::Tensor;

namespace {

// The dims along which the calls of a slot can be divided.
constexpr std::string_view kBatchDims[] = {"T", "H", "n"};

// All that calls of one shape have in common.
struct CallShape {
  Shape own;
  std::vector<Placement> placements;  // of the binding's tensors
};

class SubjectCalls {
 public:
  SubjectCalls(const Contract& contract, const Binding& binding, const subject::Subject& subject,
               subject::RunnerOptions options)
      : contract_(contract),
        binding_(binding),
        subject_(subject),
        options_(std::move(options)),
        runner_(contract_, subject_, without_checks(options_)),
        tensor_cores_(subject::tensor_cores_of(subject_, contract_.kernel.arch)),
        batch_dim_(batch_dim()) {}

  std::string refuses(const Shape& shape) {
    std::string why = refuses_whole(shape);
    if (why.empty() || slice_of(shape) > 0) return "";
    if (!shape.contains(batch_dim_)) return why;
    Shape one = shape;
    one[batch_dim_] = 1;
    const std::string of_one = refuses_whole(one);  // what no division helps against
    return of_one.empty() ? why : of_one;
  }

  CallResult call(const Bindings& bindings) {
    if (refuses_whole(bindings.shape).empty()) return call_once(bindings);
    const int64_t slice = slice_of(bindings.shape);
    if (slice == 0) return CallFailure{{}, {refuses_whole(bindings.shape)}};
    return call_in_slices(bindings, slice);
  }

  // Of a batch that is divided, the first and the last slice.
  ExamineResult examine(const Bindings& bindings, const CallJudge& judge, const ExamineOptions& options) {
    if (refuses_whole(bindings.shape).empty()) return examine_once(bindings, judge, options);
    const int64_t slice = slice_of(bindings.shape);
    if (slice == 0) return CallFailure{{}, {refuses_whole(bindings.shape)}};
    const int64_t whole = bindings.shape.find(batch_dim_)->second;
    ExamineResult first = examine_once(slice_at(bindings, 0, slice), judge, options);
    auto* const examined = std::get_if<Examined>(&first);
    if (!examined || !examined->findings.empty()) return first;
    ExamineResult last = examine_once(slice_at(bindings, whole - slice, slice), judge, options);
    if (auto* const both = std::get_if<Examined>(&last)) both->elements += examined->elements;
    return last;
  }

 private:
  static subject::RunnerOptions without_checks(subject::RunnerOptions options) {
    options.checks = {};
    return options;
  }

  std::string batch_dim() const {
    const auto leads = [&](std::string_view dim) {
      return std::ranges::all_of(binding_.tensors, [&](const BoundTensor& bound) {
        const SlotTensor& tensor = *binding_.slot->tensor(bound.slots());
        const auto at = std::ranges::find(tensor.dims, dim);
        const bool is_first = at == tensor.dims.begin();
        return bound.to.empty() ? is_first || at == tensor.dims.end() : is_first;
      });
    };
    for (const std::string_view dim : kBatchDims)
      if (leads(dim)) return std::string(dim);
    return "";
  }

  std::string refuses_whole(const Shape& shape) {
    const auto own = binding_.own_shape(shape);
    if (!own) return own.error().message;
    if (const auto fits = contract_.check_shape(*own); !fits) return fits.error().message;
    const auto prepared = prepare(shape, *own);
    return prepared ? "" : prepared.error().message;
  }

  // The largest equal parts of the batch that the contract allows; 0: none.
  int64_t slice_of(const Shape& shape) {
    const auto whole = shape.find(batch_dim_);
    if (whole == shape.end()) return 0;
    const auto known = slices_.find(shape);
    if (known != slices_.end()) return known->second;
    int64_t& slice = slices_[shape];
    for (int64_t parts = 2; parts <= whole->second; ++parts) {
      if (whole->second % parts != 0) continue;
      Shape part = shape;
      part[batch_dim_] = whole->second / parts;
      if (!refuses_whole(part).empty()) continue;
      slice = part[batch_dim_];
      break;
    }
    return slice;
  }

  Result<const CallShape*> prepare(const Shape& shape, const Shape& own) {
    const auto known = shapes_.find(shape);
    if (known != shapes_.end()) return &known->second;
    CallShape prepared{own, {}};
    std::map<std::string, int64_t> held;  // elements of inputs that have a value
    for (const BoundTensor& bound : binding_.tensors) {
      auto placement = place(contract_, binding_, bound, shape, own);
      if (!placement) return placement.error();
      int64_t count = 1;
      for (const int64_t extent : placement->slot_extents) count *= extent;
      if (!bound.from.empty()) held[bound.own] += count;
      prepared.placements.push_back(std::move(*placement));
    }
    for (const auto& [name, count] : held) {
      const auto extents = contract_.tensor(name)->extents(own);
      int64_t all = 1;
      for (const int64_t extent : *extents) all *= extent;
      if (count != all)
        return Error{
            fmt::format("{} elements of `{}` are bound to the slot, which has {}", count, name, all)};
    }
    return &shapes_.emplace(shape, std::move(prepared)).first->second;
  }

  // The slot's inputs as the kernel's.
  Result<Bindings> own_bindings(const Bindings& bindings) const {
    const CallShape& shape = shapes_.find(bindings.shape)->second;
    Bindings own;
    own.shape = shape.own;
    set_scalars(bindings, own);
    if (auto set = set_inputs(bindings, shape, own); !set) return set.error();
    return own;
  }

  CallResult call_once(const Bindings& bindings) {
    const Result<Bindings> own = own_bindings(bindings);
    if (!own) return CallFailure{{}, own.error()};
    auto observed = observe(*own);
    if (auto* const failed = std::get_if<CallFailure>(&observed)) return std::move(*failed);
    return outputs_of(std::get<subject::Observation>(observed).calls.front(),
                      shapes_.find(bindings.shape)->second);
  }

  ExamineResult examine_once(const Bindings& bindings, const CallJudge& judge,
                             const ExamineOptions& options) {
    const Result<Bindings> given = own_bindings(bindings);
    if (!given) return CallFailure{{}, given.error()};
    const std::optional<LegalCall> own = judge.legal(*given);
    if (!own) return Examined{};
    auto observed = observe(own->bindings);
    if (auto* const failed = std::get_if<CallFailure>(&observed)) return std::move(*failed);
    const auto& seen = std::get<subject::Observation>(observed);
    return judge.judged(*own, seen.calls.front().outputs, !tensor_cores_.reasons(seen.kernels).empty(),
                        options);
  }

  std::variant<subject::Observation, CallFailure> observe(const Bindings& own) {
    trial::Trial trial;
    trial.shape = own.shape;
    trial.scalars = own.scalars;
    trial.condition.ordered = false;
    trial.condition.host_poison = false;
    subject::Observation seen = runner_.run(trial, own);
    if (interrupted()) return CallFailure{{}, {"interrupted"}};
    if (const std::string why = failure(seen); !why.empty())
      return CallFailure{failure_findings(trial, own, seen),
                         {fmt::format("the kernel failed at {}: {}; `assay check` shows more",
                                      contract::to_string(own.shape), why)}};
    return seen;
  }

  // What the call did. On the virtual GPU it is made again with all checks, which know the line.
  std::vector<Finding> failure_findings(const trial::Trial& trial, const Bindings& own,
                                        const subject::Observation& seen) const {
    std::vector<Finding> findings = call_findings(contract_, subject_, own.shape, seen);
    if (findings.empty() || options_.device != subject::Device::Virtual) return findings;
    subject::RunnerOptions with_checks = options_;
    with_checks.checks = protocol::CheckSet::for_check();
    subject::Runner again(contract_, subject_, with_checks);
    std::vector<Finding> more = call_findings(contract_, subject_, own.shape, again.run(trial, own));
    return more.empty() ? findings : more;
  }

  void set_scalars(const Bindings& bindings, Bindings& own) const {
    for (const contract::ScalarSpec& spec : contract_.scalars) {
      const auto bound = binding_.scalars.find(spec.name);
      const auto given =
          bound == binding_.scalars.end() ? bindings.scalars.end() : bindings.scalars.find(bound->second);
      const double value = given == bindings.scalars.end() ? spec.values.front() : given->second.as_double();
      own.scalars[spec.name] = contract::Scalar::of(spec.dtype, value);
    }
  }

  Result<void> set_inputs(const Bindings& bindings, const CallShape& shape, Bindings& own) const {
    std::map<std::string, Tensor> made;
    for (std::size_t i = 0; i < binding_.tensors.size(); ++i) {
      const BoundTensor& bound = binding_.tensors[i];
      if (bound.from.empty()) continue;
      const Placement& placement = shape.placements[i];
      const auto given = bindings.inputs.find(bound.from);
      const contract::DType dtype = contract_.tensor(bound.own)->dtype;
      if (given == bindings.inputs.end() || given->second->dtype != dtype ||
          given->second->extents != placement.slot_extents)
        return Error{fmt::format("the slot's input `{}` must be {} with extents [{}]", bound.from,
                                 contract::info(dtype).name, fmt::join(placement.slot_extents, ", "))};
      if (placement.offsets.empty()) {
        own.inputs[bound.own] = given->second;  // the same bytes, whatever the extents
        continue;
      }
      const auto whole = made.try_emplace(bound.own, Tensor::zeros(dtype, placement.own_extents));
      scatter(placement, *given->second, whole.first->second);
    }
    for (auto& [name, tensor] : made) own.inputs[name] = std::make_shared<const Tensor>(std::move(tensor));
    return {};
  }

  static std::string failure(const subject::Observation& seen) {
    if (seen.outcome == subject::CallOutcome::TimedOut) return "it did not finish: " + seen.error;
    if (seen.outcome != subject::CallOutcome::Ended) return seen.error;
    const subject::Call& call = seen.calls.front();
    if (call.returned != 0) return fmt::format("it returned {}", call.returned);
    if (!call.changed_inputs.empty())
      return fmt::format("it changed its input `{}`", call.changed_inputs.front());
    if (!call.trespasses.empty())
      return fmt::format("it wrote past the end of `{}`", call.trespasses.front().tensor);
    return "";
  }

  Outputs outputs_of(const subject::Call& call, const CallShape& shape) const {
    Outputs outputs;
    for (std::size_t i = 0; i < binding_.tensors.size(); ++i) {
      const BoundTensor& bound = binding_.tensors[i];
      if (bound.to.empty()) continue;
      const Placement& placement = shape.placements[i];
      const Tensor& own = *call.outputs.find(bound.own)->second;
      Tensor tensor = Tensor::zeros(own.dtype, placement.slot_extents);
      gather(placement, own, tensor);
      outputs.emplace(bound.to, std::move(tensor));
    }
    return outputs;
  }

  bool begins_with_batch(std::string_view tensor) const {
    const auto& dims = binding_.slot->tensor(tensor)->dims;
    return !dims.empty() && dims.front() == batch_dim_;
  }

  Bindings slice_at(const Bindings& bindings, int64_t first, int64_t slice) const {
    Bindings part = bindings;
    part.shape[batch_dim_] = slice;
    for (auto& [name, tensor] : part.inputs) {
      if (!binding_.slot->tensor(name) || !begins_with_batch(name)) continue;
      std::vector<int64_t> extents = tensor->extents;
      extents.front() = slice;
      Tensor rows = Tensor::zeros(tensor->dtype, std::move(extents));
      const std::size_t bytes = rows.bytes.size();
      std::memcpy(rows.bytes.data(), tensor->bytes.data() + bytes * static_cast<std::size_t>(first / slice),
                  bytes);
      tensor = std::make_shared<const Tensor>(std::move(rows));
    }
    return part;
  }

  CallResult call_in_slices(const Bindings& bindings, int64_t slice) {
    const int64_t whole = bindings.shape.find(batch_dim_)->second;
    Outputs all;
    for (int64_t first = 0; first < whole; first += slice) {
      CallResult result = call_once(slice_at(bindings, first, slice));
      Outputs* const outputs = std::get_if<Outputs>(&result);
      if (!outputs) return result;
      for (auto& [name, rows] : *outputs) {
        std::vector<int64_t> extents = rows.extents;
        extents.front() = whole;
        Tensor& tensor = all.try_emplace(name, Tensor::zeros(rows.dtype, std::move(extents))).first->second;
        std::memcpy(tensor.bytes.data() + rows.bytes.size() * static_cast<std::size_t>(first / slice),
                    rows.bytes.data(), rows.bytes.size());
      }
    }
    return all;
  }

  const Contract contract_;
  const Binding binding_;
  const subject::Subject subject_;
  const subject::RunnerOptions options_;
  subject::Runner runner_;
  const subject::TensorCores tensor_cores_;
  const std::string batch_dim_;  // empty: calls cannot be divided
  std::map<Shape, CallShape> shapes_;
  std::map<Shape, int64_t> slices_;
};

// Whether the contract allows this value of a scalar.
bool admits(const contract::ScalarSpec& spec, double value) {
  if (spec.is_range()) return value >= spec.low && value <= spec.high;
  return std::ranges::any_of(spec.values, [&](double allowed) {
    return contract::rounded(spec.dtype, allowed) == contract::rounded(spec.dtype, value);
  });
}

// A learning rate belongs to the cell of the matrix, and steps are counted.
bool is_fixed_by_contract(std::string_view scalar) {
  return scalar != "lr" && scalar != "step";
}

}  // namespace

Result<Candidate> subject_candidate(const Contract& contract, const Binding& binding,
                                    const subject::Subject& subject, subject::RunnerOptions options) {
  Candidate candidate;
  candidate.slot = binding.slot;
  candidate.scalars = binding.constants;
  for (const auto& [own, slots] : binding.scalars) {
    const contract::ScalarSpec& spec = *contract.scalar(own);
    if (is_fixed_by_contract(slots) && !admits(spec, binding.slot->scalar(slots)->usual))
      candidate.scalars[slots] = spec.is_range() ? spec.low : spec.values.front();
  }
  for (const BoundTensor& bound : binding.tensors) {
    const contract::DType dtype = contract.tensor(bound.own)->dtype;
    for (const std::string& slots : {bound.from, bound.to}) {
      if (slots.empty() || candidate.dtypes.try_emplace(slots, dtype).first->second == dtype) continue;
      return contract.error_at(
          contract.tensor(bound.own)->place,
          fmt::format("the slot's `{}` is {} before the call and {} after it; a slot needs one type", slots,
                      contract::info(candidate.dtypes[slots]).name, contract::info(dtype).name));
    }
  }
  const auto calls = std::make_shared<SubjectCalls>(contract, binding, subject, std::move(options));
  candidate.refuses = [calls](const Shape& shape) { return calls->refuses(shape); };
  candidate.call = [calls](const Bindings& bindings) { return calls->call(bindings); };
  // References that are no formulas take seconds a call, or are not to be had here.
  if (contract.reference.kind == contract::ReferenceKind::Formula) {
    auto judge = CallJudge::make(contract);
    if (!judge) return judge.error();
    candidate.examine = [calls, judge = *judge](const Bindings& bindings, const ExamineOptions& options) {
      return calls->examine(bindings, *judge, options);
    };
  }
  return candidate;
}

}  // namespace assay::train
