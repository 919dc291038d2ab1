// Functions of the host in place of kernels, for tests and bench/train.
#pragma once

#include <functional>

#include "train/examined_call.h"
#include "train/operators.h"

namespace assay::train {

// The outputs of one call of a slot, computed by trusted code with this arithmetic, after `change` has been at them.
template <class Real>
Outputs host_outputs(const Slot& slot, const Arithmetic& arithmetic, const contract::Bindings& bindings,
                     const std::function<void(Operands<Real>&)>& change) {
  Team team(1);
  std::vector<Array<Real>> arrays(slot.tensors.size());
  Operands<Real> operands{bindings.shape};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const SlotTensor& tensor = slot.tensors[i];
    std::vector<int64_t> extents;
    for (const std::string_view extent : tensor.dims) {
      const std::string dim(extent.substr(extent.find_last_of(' ') + 1));
      extents.push_back(bindings.shape.find(dim)->second * (extent.starts_with("2 *") ? 2 : 1));
    }
    arrays[i].shape(tensor.dtype, extents);
    if (const auto input = bindings.inputs.find(tensor.name); input != bindings.inputs.end()) {
      for (int64_t e = 0; e < input->second->count(); ++e) {
        if (contract::is_float(tensor.dtype))
          arrays[i].values[static_cast<std::size_t>(e)] = static_cast<Real>(input->second->load(e));
        else
          arrays[i].integers.push_back(input->second->load_int(e));
      }
    }
    operands.tensors.emplace_back(tensor.name, &arrays[i]);
  }
  for (const auto& [key, value] : bindings.scalars)
    operands.scalars.emplace_back(
        key, contract::is_float(value.dtype) ? value.as_double() : static_cast<double>(value.as_int()));
  compute(team, slot, arithmetic, operands);
  if (change) change(operands);
  Outputs outputs;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (slot.tensors[i].role == contract::Role::In) continue;
    contract::Tensor tensor = contract::Tensor::zeros(arrays[i].dtype, arrays[i].dims);
    for (int64_t e = 0; e < arrays[i].count(); ++e)
      tensor.store(e, static_cast<double>(arrays[i].values[static_cast<std::size_t>(e)]));
    outputs.emplace(slot.tensors[i].name, std::move(tensor));
  }
  return outputs;
}

// A candidate that has all tensors of a slot.
inline Candidate host_candidate(const Slot& slot, std::function<CallResult(const contract::Bindings&)> call) {
  Candidate candidate{.slot = &slot};
  for (const SlotTensor& tensor : slot.tensors) candidate.dtypes[std::string(tensor.name)] = tensor.dtype;
  candidate.call = std::move(call);
  return candidate;
}

// The same candidate, with its single calls judged by a contract: the one that the slot suggests, or another.
inline Candidate examined(Candidate candidate, const contract::Contract& contract) {
  const auto judge = CallJudge::make(contract);
  candidate.examine = [call = candidate.call, judge = *judge](
                          const contract::Bindings& bindings,
                          const ExamineOptions& options) -> ExamineResult {
    const auto legal = judge->legal(bindings);
    if (!legal) return Examined{};
    CallResult result = call(legal->bindings);
    if (auto* const failed = std::get_if<CallFailure>(&result)) return *failed;
    judge::Outputs outputs;
    for (auto& [name, tensor] : std::get<Outputs>(result))
      outputs[name] = std::make_shared<const contract::Tensor>(std::move(tensor));
    return judge->judged(*legal, outputs, false, options);
  };
  return candidate;
}
inline Candidate examined(Candidate candidate) {
  const auto contract = contract::parse(contract_text(*candidate.slot), "slot.toml");
  return examined(std::move(candidate), *contract);
}

// The trusted operator of a slot as a candidate, after `change` has been at its outputs. Sums are in the other order, so
// it is a right kernel that is not bit for bit the trusted one.
inline Candidate host_candidate(std::string_view name, std::function<void(Operands<float>&)> change = {}) {
  const Slot& slot = *slot_named(name);
  return host_candidate(
      slot, [&slot, change = std::move(change)](const contract::Bindings& bindings) -> CallResult {
        return host_outputs<float>(slot, {.reordered = true}, bindings, change);
      });
}

// The embedding's gradient, every addition rounded to bf16.
inline Candidate summed_in_bf16() {
  return host_candidate("embedding_grad", [](Operands<float>& at) {
    Array<float>& dw = at["dw"];
    const int64_t D = at.dim("D");
    std::ranges::fill(dw.values, 0.0f);
    Team team(1);
    for (int64_t t = 0; t < at.dim("T"); ++t) {
      float* const row = dw.data() + at["tokens"].integers[static_cast<std::size_t>(t)] * D;
      for (int64_t d = 0; d < D; ++d)
        row[d] = static_cast<float>(contract::rounded(DType::bf16, row[d] + at["dy"].data()[t * D + d]));
    }
  });
}

}  // namespace assay::train
