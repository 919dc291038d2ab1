#include "contract/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/diagnostic.h"

namespace assay::contract {
namespace {

template <class List>
auto find_named(const List& list, std::string_view name) -> decltype(list.data()) {
  for (const auto& item : list)
    if (item.name == name) return &item;
  return nullptr;
}

constexpr std::string_view kValuesNames[] = {
    "real",  "real",   "activations", "gradients", "weights",  "positive", "probabilities",
    "index", "tokens", "mask",        "offsets",   "integers", "generated"};

// Levenshtein, with a swap of neighbours as one step.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

int64_t Dim::lowest() const {
  const int64_t rest = min % multiple_of;
  int64_t next = min;
  if (rest != 0 && __builtin_add_overflow(min, multiple_of - rest, &next)) return max;  // beyond any promise
  return next;
}

int64_t Dim::highest() const {
  return max / multiple_of * multiple_of;
}

bool Dim::contains(int64_t value) const {
  return value >= min && value <= max && value % multiple_of == 0;
}

std::string_view to_string(ValuesKind kind) {
  return kValuesNames[static_cast<std::size_t>(kind)];
}

Result<std::vector<int64_t>> TensorSpec::extents(const Shape& dims) const {
  std::vector<int64_t> list;
  int64_t count = 1;
  for (const IntExpr& expr : shape) {
    Result<int64_t> extent = expr.eval(dims);
    if (!extent) return Error{fmt::format("the tensor `{}`: {}", name, extent.error().message)};
    if (*extent < 0)
      return Error{fmt::format("the tensor `{}` has a negative extent: {} = {}", name, expr.text(), *extent)};
    if (__builtin_mul_overflow(count, *extent, &count) || count > (int64_t{1} << 48))
      return Error{fmt::format("the tensor `{}` is too large", name)};
    list.push_back(*extent);
  }
  return list;
}

Scalar Scalar::of(DType dtype, double value) {
  Scalar scalar{dtype, 0};
  contract::store(dtype, reinterpret_cast<std::byte*>(&scalar.bits), value);
  return scalar;
}

Scalar Scalar::of_int(DType dtype, int64_t value) {
  Scalar scalar{dtype, 0};
  contract::store_int(dtype, reinterpret_cast<std::byte*>(&scalar.bits), value);
  return scalar;
}

double Scalar::as_double() const {
  return contract::load(dtype, reinterpret_cast<const std::byte*>(&bits));
}

int64_t Scalar::as_int() const {
  return contract::load_int(dtype, reinterpret_cast<const std::byte*>(&bits));
}

Place Kernel::place_of(std::string_view key) const {
  const auto found = value_places.find(key);
  return found == value_places.end() ? place : found->second;
}

const Dim* Contract::dim(std::string_view name) const {
  return find_named(dims, name);
}
const TensorSpec* Contract::tensor(std::string_view name) const {
  return find_named(tensors, name);
}
const ScalarSpec* Contract::scalar(std::string_view name) const {
  return find_named(scalars, name);
}

std::vector<const TensorSpec*> Contract::inputs() const {
  std::vector<const TensorSpec*> list;
  for (const TensorSpec& spec : tensors)
    if (spec.is_input()) list.push_back(&spec);
  return list;
}

std::vector<const TensorSpec*> Contract::outputs() const {
  std::vector<const TensorSpec*> list;
  for (const TensorSpec& spec : tensors)
    if (spec.is_output()) list.push_back(&spec);
  return list;
}

std::vector<std::string> Contract::names() const {
  std::vector<std::string> list;
  for (const TensorSpec& spec : tensors) list.push_back(spec.name);
  for (const ScalarSpec& spec : scalars) list.push_back(spec.name);
  return list;
}

Error Contract::error_at(Place place, std::string message) const {
  Error error{std::move(message), path, place.line, place.column};
  if (text) error.source_line = line_of(*text, place.line);
  return error;
}

std::string Contract::resolve(std::string_view relative) const {
  const std::filesystem::path given(relative);
  if (given.is_absolute()) return given.string();
  return (std::filesystem::path(path).parent_path() / given).string();
}

Result<void> Contract::check_shape(const Shape& shape) const {
  for (const auto& [name, value] : shape)
    if (!dim(name)) return Error{fmt::format("`{}` is not a dim of the contract", name), path};
  for (const Dim& promised : dims) {
    const auto found = shape.find(promised.name);
    if (found == shape.end()) return Error{fmt::format("the dim `{}` has no value", promised.name), path};
    if (!promised.contains(found->second))
      return error_at(promised.place,
                      fmt::format("{} = {} is outside the promised range", promised.name, found->second));
  }
  if (only_listed_shapes && std::ranges::find(shapes, shape) == shapes.end())
    return Error{
        fmt::format("{} is not one of the contract's shapes, and no other is promised", to_string(shape)),
        path};
  for (const TensorSpec& spec : tensors) {
    Result<std::vector<int64_t>> extents = spec.extents(shape);
    if (!extents) return error_at(spec.place, extents.error().message);
  }
  return {};
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > 64) return "";
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t steps = distance(word, candidate);
    if (steps < least && steps < candidate.size()) {
      least = steps;
      best = candidate;
    }
  }
  return best;
}

}  // namespace assay::contract
