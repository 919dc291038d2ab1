#include "trial/generated_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/random.h"
#include "trial/families.h"

namespace assay::trial {

using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// Values that are drawn for an input. Chosen: a page of them.
constexpr int64_t kDrawn = 4099;
// Elements that are made together for the reference, about a page; and how many times one evaluation may make so many:
// about a quarter of a second's work. A formula that reads more than this for a few thousand elements (a sum over a
// whole giant tensor) is not evaluated. GeneratedInputs.AreNotMadeWithoutEnd (tests/trial/giant_test.cpp).
constexpr int64_t kPart = 1024, kMostParts = int64_t{1} << 15;

}  // namespace

Result<GeneratedValues> generated_values(const TensorSpec& spec, const Trial& trial) {
  const auto extents = spec.extents(trial.shape);
  if (!extents) return extents.error();
  GeneratedValues values;
  values.item = static_cast<uint32_t>(contract::info(spec.dtype).bytes);
  values.seed = mix(trial.seed, hash(spec.name));
  if (spec.values.kind == ValuesKind::Generated)
    return Error{
        fmt::format("only the problem's own generator makes `{}`, and it makes all of it", spec.name)};
  if (spec.values.kind == ValuesKind::Offsets) {
    const auto end = spec.values.a.eval(trial.shape);
    if (!end) return end.error();
    values.last_value = *end;
    values.last_index = -1;
    int64_t count = 1;
    for (const int64_t extent : *extents) count *= extent;
    values.last_index = std::max<int64_t>(count - 1, 1);
    return values;
  }
  const auto family = trial.families.find(spec.name);
  TensorSpec few = spec;
  few.shape = {contract::IntExpr::literal(kDrawn)};
  auto drawn =
      draw(few, trial.shape, family == trial.families.end() ? Family::Natural : family->second, values.seed);
  if (!drawn) return drawn.error();
  values.table.assign(drawn->bytes.begin(), drawn->bytes.end());
  return values;
}

Result<GeneratedInputs> GeneratedInputs::make(const contract::Contract& contract, const Trial& trial) {
  for (const TensorSpec& spec : contract.tensors) {
    const std::string_view what = spec.uncommon_memory();
    if (!what.empty()) return Error{fmt::format("the tensor `{}` is {}", spec.name, what)};
  }
  GeneratedInputs made;
  made.bindings_.shape = trial.shape;
  made.bindings_.scalars = trial.scalars;
  made.left_ = kMostParts;
  for (const TensorSpec* spec : contract.inputs()) {
    auto values = generated_values(*spec, trial);
    if (!values) return values.error();
    Input input{.values = std::move(*values), .tensor = nullptr, .made = {}};
    try {
      input.tensor = std::make_shared<contract::Tensor>(
          contract::Tensor::zeros(spec->dtype, *spec->extents(trial.shape)));
    } catch (const std::bad_alloc&) {
      return Error{fmt::format("there is no address space for `{}`", spec->name)};
    }
    input.made.resize(static_cast<std::size_t>((input.tensor->count() + kPart - 1) / kPart));
    made.bindings_.inputs[spec->name] = input.tensor;
    made.inputs_[spec->name] = std::move(input);
  }
  return made;
}

bool GeneratedInputs::make_read(const std::string& name, std::span<const int64_t> elements) {
  Input& input = inputs_.find(name)->second;
  const std::scoped_lock lock(*mutex_);
  for (const int64_t element : elements) {
    const auto part = static_cast<std::size_t>(element / kPart);
    if (input.made[part]) continue;
    const int64_t first = static_cast<int64_t>(part) * kPart;
    const int64_t count = std::min(kPart, input.tensor->count() - first);
    if (--left_ < 0) return false;
    make_values(input.values, static_cast<uint64_t>(first), static_cast<uint64_t>(count),
                input.tensor->at(first));
    input.made[part] = true;
  }
  return true;
}

}  // namespace assay::trial
