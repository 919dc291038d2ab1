#include "contract/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>

#include "base/diagnostic.h"
#include "contract/buffer_part.h"

namespace assay::contract {
namespace {

template <class List>
auto find_named(const List& list, std::string_view name) -> decltype(list.data()) {
  for (const auto& item : list)
    if (item.name == name) return &item;
  return nullptr;
}

constexpr int64_t kMostElements = int64_t{1} << 48;  // of a tensor

constexpr std::string_view kValuesNames[] = {
    "real",   "real", "activations", "gradients", "weights",   "positive", "probabilities", "index",
    "tokens", "mask", "offsets",     "integers",  "generated", "distinct", "slots"};

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
      return Error{
          fmt::format("the tensor `{}` has a negative extent: {} = {}", name, expr.written(), *extent)};
    if (__builtin_mul_overflow(count, *extent, &count) || count > kMostElements)
      return Error{fmt::format("the tensor `{}` is too large", name)};
    list.push_back(*extent);
  }
  return list;
}

std::string_view TensorSpec::uncommon_memory() const {
  if (optional) return "optional";
  if (!strides.empty()) return "strided";
  if (info(dtype).bits < 8) return "of 4-bit elements";
  if (!buffer.empty()) return "a part of a buffer";
  return pointers ? "behind an array of pointers" : "";
}

Result<Layout> TensorSpec::layout(const Shape& dims) const {
  Result<std::vector<int64_t>> lengths = extents(dims);
  if (!lengths) return lengths.error();
  if (strides.empty()) {
    std::vector<int64_t> dense = dense_strides(*lengths);
    return Layout::of(dtype, std::move(*lengths), std::move(dense));
  }
  std::vector<int64_t> steps;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const Result<int64_t> step = strides[i].eval(dims);
    if (!step) return Error{fmt::format("the tensor `{}`: {}", name, step.error().message)};
    int64_t reach = 0;
    if (*step < 0 || __builtin_mul_overflow(*step, (*lengths)[i], &reach) || reach > kMostElements)
      return Error{fmt::format("the tensor `{}` has a stride that is negative or too large: {} = {}", name,
                               strides[i].written(), *step)};
    steps.push_back(*step);
  }
  Layout layout = Layout::of(dtype, std::move(*lengths), std::move(steps));
  if (!layout.is_injective())
    return Error{fmt::format(
        "two elements of the tensor `{}` share memory at {}: each stride must be at least as large as the "
        "extent it steps over; add a relation to [dims], such as require = \"ld >= cols\"",
        name, to_string(dims))};
  return layout;
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

std::string presence_of(std::string_view tensor) {
  return fmt::format("present({})", tensor);
}

Place Kernel::place_of(std::string_view key) const {
  const auto found = value_places.find(key);
  return found == value_places.end() ? place : found->second;
}

const Dim* Contract::dim(std::string_view name) const {
  return find_named(dims, name);
}
const DerivedDim* Contract::derived_dim(std::string_view name) const {
  return find_named(derived, name);
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

std::optional<BufferOverlap> overlap_of(const std::vector<BufferPart>& parts) {
  constexpr int64_t kMostCompared = 1 << 20;  // bytes
  int64_t bytes = 0;
  for (const BufferPart& part : parts) bytes = std::max(bytes, part.at + part.layout.bytes);
  if (bytes > kMostCompared) return std::nullopt;
  std::vector<const TensorSpec*> owner(static_cast<std::size_t>(bytes), nullptr);
  for (const BufferPart& part : parts) {
    const std::vector<bool> taken = part.layout.element_bytes();
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const TensorSpec*& who = owner[static_cast<std::size_t>(part.at) + i];
      if (taken[i] && who) return BufferOverlap{who, part.spec, part.at + static_cast<int64_t>(i)};
      if (taken[i]) who = part.spec;
    }
  }
  return std::nullopt;
}

std::vector<std::string> Contract::buffers() const {
  std::vector<std::string> list;
  for (const TensorSpec& spec : tensors)
    if (!spec.buffer.empty() && std::ranges::find(list, spec.buffer) == list.end())
      list.push_back(spec.buffer);
  return list;
}

Result<BufferPart> buffer_part(const TensorSpec& spec, const Shape& shape) {
  Result<Layout> layout = spec.layout(shape);
  if (!layout) return layout.error();
  const Result<int64_t> at = spec.offset.eval(shape);
  if (!at) return Error{fmt::format("the tensor `{}`: {}", spec.name, at.error().message)};
  const int item = info(spec.dtype).bytes;
  if (*at < 0 || *at % item != 0 || *at > kMostElements)
    return Error{
        fmt::format("the tensor `{}` cannot begin at byte {} = {} of `{}`: its elements have {} bytes",
                    spec.name, spec.offset.written(), *at, spec.buffer, item)};
  return BufferPart{&spec, std::move(*layout), *at};
}

Result<std::vector<BufferPart>> Contract::parts_of(std::string_view buffer, const Shape& shape) const {
  std::vector<BufferPart> parts;
  for (const TensorSpec& spec : tensors) {
    if (spec.buffer != buffer) continue;
    Result<BufferPart> part = buffer_part(spec, shape);
    if (!part) return part.error();
    parts.push_back(std::move(*part));
  }
  return parts;
}

Error Contract::error_at(Place place, std::string message) const {
  Error error{std::move(message), path, place.line, place.column};
  if (text) error.source_line = line_of(*text, place.line);
  return error;
}

std::optional<Error> Contract::missing_file() const {
  const std::pair<std::string_view, Place> named[] = {{reference.python.file, reference.python.place},
                                                      {reference.cuda_source, reference.cuda_place},
                                                      {generator.file, generator.place}};
  for (const auto& [file, place] : named)
    if (!file.empty() && !std::filesystem::exists(resolve(file)))
      return error_at(place, fmt::format("the file {} does not exist", file));
  return std::nullopt;
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
  for (const DimRelation& relation : relations)
    if (!relation.holds(shape))
      return Error{fmt::format("{} does not satisfy `{}`", to_string(shape), relation.text), path};
  for (const DerivedDim& one : derived) {
    const Result<int64_t> value = one.value.eval(shape);
    if (!value) return error_at(one.place, value.error().message);
    if (*value < info(one.type).min_integer || *value > info(one.type).max_integer)
      return error_at(one.place,
                      fmt::format("{} = {} does not fit its type {}", one.name, *value, info(one.type).name));
  }
  if (only_listed_shapes && std::ranges::find(shapes, shape) == shapes.end())
    return Error{
        fmt::format("{} is not one of the contract's shapes, the only ones promised", to_string(shape)),
        path};
  for (const TensorSpec& spec : tensors) {
    const Result<Layout> layout = spec.layout(shape);
    if (!layout) return error_at(spec.place, layout.error().message);
  }
  for (const std::string& buffer : buffers()) {
    const Result<std::vector<BufferPart>> parts = parts_of(buffer, shape);
    if (!parts) return Error{parts.error().message, path};
    if (const std::optional<BufferOverlap> overlap = overlap_of(*parts))
      return error_at(overlap->second->place,
                      fmt::format("`{}` and `{}` share byte {} of `{}` at {}", overlap->first->name,
                                  overlap->second->name, overlap->byte, buffer, to_string(shape)));
  }
  return {};
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > 64) return "";
  const auto same_letter = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  for (const std::string& candidate : known)
    if (std::ranges::equal(word, candidate, same_letter)) return candidate;
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
