#include "train/executor.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "numerics/lanes.h"

namespace assay::train {

namespace {

using contract::Tensor;

// Whether every number of one type is also one of the other.
bool holds(DType wide, DType narrow) {
  const auto &w = numerics::info(contract::info(wide).format),
             &n = numerics::info(contract::info(narrow).format);
  return w.precision() >= n.precision() && w.exponent_bits >= n.exponent_bits;
}

template <class Real>
Tensor tensor_of(Team& team, const Array<Real>& array, DType dtype) {
  Tensor tensor = Tensor::zeros(dtype, array.dims);
  std::byte* const bytes = tensor.bytes.data();
  const int64_t count = tensor.count();
  team.pieces(count, kElementsOfPiece, [&](int64_t first, int64_t n) {
    if (!array.integers.empty()) {
      for (int64_t i = first; i < first + n; ++i)
        tensor.store_int(i, array.integers[static_cast<std::size_t>(i)]);
    } else if (dtype == DType::f32) {
      auto* const to = reinterpret_cast<float*>(bytes);
      for (int64_t i = first; i < first + n; ++i) to[i] = static_cast<float>(array.data()[i]);
    } else if (dtype == DType::bf16) {
      auto* const to = reinterpret_cast<uint16_t*>(bytes);
      for (int64_t i = first; i < first + n; ++i)
        to[i] = numerics::f32_to_bf16_rn(static_cast<float>(array.data()[i]));
    } else {
      for (int64_t i = first; i < first + n; ++i) tensor.store(i, static_cast<double>(array.data()[i]));
    }
  });
  return tensor;
}

template <class Real>
void read_tensor(Team& team, const Tensor& tensor, Array<Real>& array) {
  const std::byte* const bytes = tensor.bytes.data();
  team.pieces(array.count(), kElementsOfPiece, [&](int64_t first, int64_t n) {
    if (tensor.dtype == DType::f32) {
      const auto* const from = reinterpret_cast<const float*>(bytes);
      for (int64_t i = first; i < first + n; ++i) array.data()[i] = static_cast<Real>(from[i]);
    } else if (tensor.dtype == DType::bf16) {
      const auto* const from = reinterpret_cast<const uint16_t*>(bytes);
      for (int64_t i = first; i < first + n; ++i)
        array.data()[i] = static_cast<Real>(numerics::bf16_to_f32(from[i]));
    } else {
      for (int64_t i = first; i < first + n; ++i) array.data()[i] = static_cast<Real>(tensor.load(i));
    }
  });
}

}  // namespace

template <class Real>
void Executor<Real>::apply(std::string_view name, std::string_view site, Operands<Real> operands) {
  const Slot& slot = *slot_named(name);
  bool is_target = is_slot(name);
  if (is_target) {
    for (auto& [key, value] : operands.scalars)
      if (const auto fixed = role_.candidate->scalars.find(key); fixed != role_.candidate->scalars.end())
        value = fixed->second;
  }
  if (is_target && role_.candidate->refuses) {
    if (const std::string why = role_.candidate->refuses(operands.shape); !why.empty()) {
      is_target = false;
      count_.refused.insert(fmt::format("{}: {}", site, why));
    }
  }
  if (!is_target) {
    Arithmetic arithmetic = role_.arithmetic;
    arithmetic.rounding_seed = 0;
    return compute(team_, slot, arithmetic, operands);
  }
  count_.sites.emplace(site);
  if (role_.on_call) role_.on_call(site, bindings_of(slot, operands));
  if (!role_.arithmetic.rounds) return compute(team_, slot, role_.arithmetic, operands);
  // What the candidate gets in a narrower type, trusted code gets rounded to it as well.
  std::vector<Array<Real>> narrowed;
  narrowed.reserve(operands.tensors.size());
  for (auto& [key, array] : operands.tensors) {
    const auto wanted = role_.candidate->dtypes.find(key);
    if (slot.tensor(key)->role != contract::Role::In || wanted == role_.candidate->dtypes.end() ||
        !array->integers.empty() || holds(wanted->second, array->dtype))
      continue;
    narrowed.push_back(*array);
    round_to(team_, wanted->second, std::span(narrowed.back().values));
    array = &narrowed.back();
  }
  if (role_.calls_candidate && !failure_)
    call(slot, site, operands);
  else
    compute_slot(slot, operands);
}

// Trusted, rounded to the candidate's dtypes and then to the model's.
template <class Real>
void Executor<Real>::compute_slot(const Slot& slot, Operands<Real>& operands) {
  Arithmetic arithmetic = role_.arithmetic;
  if (arithmetic.rounding_seed != 0) arithmetic.rounding_seed = mix(arithmetic.rounding_seed, ++applied_);
  std::vector<std::pair<Array<Real>*, DType>> own;
  for (auto& [key, array] : operands.tensors) {
    const auto wanted = role_.candidate->dtypes.find(key);
    if (slot.tensor(key)->role == contract::Role::In || wanted == role_.candidate->dtypes.end()) continue;
    own.emplace_back(array, array->dtype);
    array->dtype = wanted->second;
  }
  compute(team_, slot, arithmetic, operands);
  for (const auto& [array, dtype] : own) {
    array->dtype = dtype;
    round_to(team_, dtype, std::span(array->values));
  }
}

template <class Real>
contract::Bindings Executor<Real>::bindings_of(const Slot& slot, const Operands<Real>& operands) const {
  contract::Bindings bindings;
  bindings.shape = operands.shape;
  for (const SlotScalar& scalar : slot.scalars) {
    const auto value = static_cast<double>(operands.scalar(scalar.name));
    bindings.scalars[std::string(scalar.name)] =
        contract::is_float(scalar.dtype) ? contract::Scalar::of(scalar.dtype, value)
                                         : contract::Scalar::of_int(scalar.dtype, std::llround(value));
  }
  for (const auto& [key, array] : operands.tensors) {
    const auto wanted = role_.candidate->dtypes.find(key);
    if (wanted != role_.candidate->dtypes.end() && slot.tensor(key)->role != contract::Role::Out)
      bindings.inputs[std::string(key)] =
          std::make_shared<const Tensor>(tensor_of(team_, *array, wanted->second));
  }
  return bindings;
}

template <class Real>
void Executor<Real>::call(const Slot& slot, std::string_view site, Operands<Real>& operands) {
  const auto start = std::chrono::steady_clock::now();
  const Candidate& candidate = *role_.candidate;
  const contract::Bindings bindings = bindings_of(slot, operands);
  bool lacks_output = false;
  for (const auto& [key, array] : operands.tensors)
    lacks_output |= slot.tensor(key)->role != contract::Role::In && !candidate.dtypes.contains(key);
  // Outputs that the candidate does not have are trusted; the others are overwritten below.
  CallResult result = candidate.call(bindings);
  Outputs* const outputs = std::get_if<Outputs>(&result);
  const bool failed = !outputs;
  if (failed) {
    failure_ = std::get<CallFailure>(std::move(result));
    for (Finding& finding : failure_->findings)
      finding.found.found_with =
          fmt::format("{} in training, at {}", contract::to_string(bindings.shape), site);
  }
  if (lacks_output || failed) compute_slot(slot, operands);
  if (!failed) {
    for (const auto& [key, array] : operands.tensors) {
      const auto wanted = candidate.dtypes.find(key);
      if (slot.tensor(key)->role == contract::Role::In || wanted == candidate.dtypes.end()) continue;
      const auto found = outputs->find(key);
      if (found == outputs->end() || found->second.count() != array->count()) {
        failure_ = {{},
                    {fmt::format("the candidate returned no tensor {} of {} elements", key, array->count())}};
        compute_slot(slot, operands);
        break;
      }
      read_tensor(team_, found->second, *array);
      round_to(team_, array->dtype, std::span(array->values));
    }
  }
  ++count_.calls;
  count_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Real>
void Executor<Real>::add(const Array<Real>& a, const Array<Real>& b, Array<Real>& sum) {
  sum.shape(DType::bf16, a.dims);
  team_.pieces(sum.count(), kElementsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; ++i) sum.data()[i] = a.data()[i] + b.data()[i];
  });
  if (arithmetic().rounds) round_to(team_, DType::bf16, std::span(sum.values));
}

template <class Real>
void Executor<Real>::copy_weight(const std::vector<Real>& weight, DType dtype, Array<Real>& copy) {
  copy.dtype = dtype;
  copy.values = weight;
  if (arithmetic().rounds) round_to(team_, dtype, std::span(copy.values));
}

template class Executor<float>;
template class Executor<double>;

}  // namespace assay::train
