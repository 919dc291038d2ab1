// Types and layouts that concern memory: complex numbers, parts of one allocation, arrays of pointers.
#include "contract/buffer_part.h"
#include "contract/complex.h"
#include "contract/keys.h"
#include "contract/legal_shape.h"
#include "contract/reader.h"

namespace assay::contract {

// c64 and c128 are pairs; every other type is a dtype.
bool Reader::element_type(const TomlValue* value, DType& type) {
  if (value && value->kind == TomlKind::String)
    for (const ComplexType& one : kComplexTypes)
      if (value->string == one.name) {
        type = one.part;
        return true;
      }
  type = dtype(value, "dtype");
  return false;
}

// After shape and strides are read: the parts are one dimension more, without a step between them.
void Reader::make_complex(TensorSpec& tensor) {
  tensor.is_complex = true;
  tensor.shape.push_back(IntExpr::literal(2));
  if (tensor.strides.empty()) return;
  for (IntExpr& stride : tensor.strides) {
    Result<IntExpr> twice = IntExpr::parse(fmt::format("2 * ({})", stride.written()), named_);
    if (!twice) return fail(tensor.place, twice.error().message);
    stride = std::move(*twice);
  }
  tensor.strides.push_back(IntExpr::literal(1));
}

// A complex scalar is two scalars: value = [re, im], or a range for both.
void Reader::read_complex_scalar(const TomlEntry& entry, DType part) {
  const TomlValue& table = entry.value;
  const std::string where = fmt::format("[scalars.{}]", entry.key);
  if (part != DType::f32)
    return fail(table.find("dtype")->place,
                "a c128 scalar cannot be passed by value; make it a tensor of one element");
  const TomlValue* value = table.find("value");
  const TomlValue* range = table.find("range");
  if (const TomlValue* values = table.find("values"))
    return fail(values->place,
                "a complex scalar has `value = [re, im]`, or `range = [low, high]` for both parts");
  if ((value != nullptr) == (range != nullptr))
    return fail(entry.place, where + " needs one of `value = [re, im]` and `range = [low, high]`");
  const TomlValue& given = value ? *value : *range;
  if (given.kind != TomlKind::Array || given.array.size() != 2)
    return fail(given.place, value ? "the `value` of a complex scalar is written as [re, im]"
                                   : "`range` is written as [low, high]");
  for (std::size_t i = 0; i < 2; ++i) {
    ScalarSpec scalar;
    scalar.name = i == 0 ? real_part_of(entry.key) : imaginary_part_of(entry.key);
    scalar.dtype = part;
    scalar.place = entry.place;
    if (value) {
      scalar.values = {scalar_number(given.array[i], part)};
    } else {
      scalar.low = scalar_number(given.array[0], part);
      scalar.high = scalar_number(given.array[1], part);
      if (!(scalar.low <= scalar.high))
        fail(given.place, fmt::format("the range is empty: {} is more than {}", scalar.low, scalar.high));
    }
    contract_.scalars.push_back(std::move(scalar));
  }
}

void Reader::read_buffer(const TomlValue& table, TensorSpec& tensor) {
  const TomlValue* buffer = table.find("buffer");
  const TomlValue* offset = table.find("offset");
  tensor.offset = IntExpr::literal(0);
  if (offset && !buffer)
    return fail(offset->place, "`offset` is the tensor's position in its `buffer`; name the buffer as well");
  if (!buffer) return;
  tensor.buffer = string(buffer, "buffer");
  if (!failed_ &&
      (!is_identifier(tensor.buffer) || tensor.buffer == "stream" || tensor.buffer == "workspace"))
    return fail(buffer->place,
                fmt::format("`{}` cannot name a buffer: use letters, digits and `_`, and begin "
                            "with a letter",
                            tensor.buffer));
  if (offset) tensor.offset = int_expr(*offset, "offset");
  for (const char* other : {"may_alias", "optional", "pointers"})
    if (const TomlValue* given = table.find(other); given && !failed_)
      return fail(given->place,
                  fmt::format("`{}` does not apply to a tensor that is part of a buffer", other));
}

void Reader::read_pointers(const TomlValue& table, TensorSpec& tensor) {
  const TomlValue* value = table.find("pointers");
  if (!value) return;
  if (value->kind == TomlKind::Bool) {
    tensor.pointers = value->boolean;
  } else if (value->kind == TomlKind::String) {
    tensor.pointers = true;
    tensor.pointer_offsets = string(value, "pointers");
  } else {
    return fail(value->place,
                "`pointers` is true, for a pointer to each slice along the first dimension, or the name of a "
                "tensor of offsets, for a pointer to each segment");
  }
  if (!tensor.pointers) return;
  if (tensor.shape.empty() || (tensor.is_complex && tensor.shape.size() == 1))
    return fail(value->place,
                "`pointers` needs a first dimension: there is a pointer to each slice along it");
  for (const char* other : {"strides", "may_alias", "optional"})
    if (const TomlValue* given = table.find(other); given && !failed_)
      return fail(given->place,
                  fmt::format("`{}` does not apply to a tensor behind an array of pointers", other));
  if (info(tensor.dtype).bits < 8)
    fail(value->place,
         fmt::format("`{}` is {}: two elements share a byte, so its slices cannot be separate allocations",
                     tensor.name, info(tensor.dtype).name));
}

// What `pointers` and `buffer` name, when all tensors are known.
void Reader::check_places(const TomlValue& root) {
  if (failed_) return;
  for (const TensorSpec& tensor : contract_.tensors) {
    const TomlValue& table = *root.find("tensors")->find(tensor.name);
    if (!tensor.buffer.empty() && (contract_.tensor(tensor.buffer) || contract_.scalar(tensor.buffer) ||
                                   contract_.dim(tensor.buffer) || contract_.derived_dim(tensor.buffer)))
      return fail(table.find("buffer")->place,
                  fmt::format("the name `{}` is already taken; a buffer needs its own name", tensor.buffer));
    if (tensor.pointer_offsets.empty()) continue;
    const Place place = table.find("pointers")->place;
    const TensorSpec* offsets = contract_.tensor(tensor.pointer_offsets);
    if (tensor.pointer_offsets == "true")
      return fail(place, "write pointers = true without quotes; a string names a tensor of offsets");
    if (!offsets) {
      Names names;
      for (const TensorSpec& other : contract_.tensors) names.push_back(other.name);
      const std::string near = nearest(tensor.pointer_offsets, names);
      return fail(place, fmt::format("`{}` is not a tensor{}", tensor.pointer_offsets,
                                     near.empty() ? "" : fmt::format("; did you mean `{}`?", near)));
    }
    const bool fits = offsets->role == Role::In && offsets->shape.size() == 1 &&
                      offsets->values.kind == ValuesKind::Offsets && !offsets->optional &&
                      offsets->values.a.written() == tensor.shape[0].written();
    if (!fits)
      return fail(place,
                  fmt::format("`{0}` must be an input of one dimension with values = \"offsets({1})\": the "
                              "positions at which its segments begin among the {1} of `{2}`",
                              offsets->name, tensor.shape[0].written(), tensor.name));
  }
}

// Parts of a buffer must not overlap. Expressions that do, do so at small shapes, too.
void Reader::check_buffers(const TomlValue& root) {
  if (failed_ || contract_.buffers().empty()) return;
  constexpr int64_t kSteps = 3;
  Shape small;
  for (const Dim& dim : contract_.dims)
    small[dim.name] = std::min(dim.highest(), dim.lowest() + kSteps * dim.multiple_of);
  const std::optional<Shape> legal = legal_shape(contract_, small);
  if (!legal) return;
  const auto fail_at = [&](const TensorSpec& tensor, const std::string& why) {
    const TomlValue& table = *root.find("tensors")->find(tensor.name);
    const TomlValue* offset = table.find("offset");
    fail(offset ? offset->place : table.find("buffer")->place, why);
  };
  for (const std::string& buffer : contract_.buffers()) {
    std::vector<BufferPart> parts;
    for (const TensorSpec& tensor : contract_.tensors) {
      if (tensor.buffer != buffer) continue;
      Result<BufferPart> part = buffer_part(tensor, *legal);
      if (!part) return fail_at(tensor, part.error().message);
      parts.push_back(std::move(*part));
    }
    if (const std::optional<BufferOverlap> overlap = overlap_of(parts))
      return fail_at(*overlap->second,
                     fmt::format("`{}` and `{}` share byte {} of `{}` at {}", overlap->first->name,
                                 overlap->second->name, overlap->byte, buffer, to_string(*legal)));
  }
}

namespace {

// What only a function that gets addresses can be given, and only a formula can describe. `instead`: how a contract for a
// Python function says the same.
struct Special {
  std::string what, instead;
};

Special special(const TensorSpec& tensor) {
  if (tensor.optional) return {"optional", "write a contract for each case"};
  if (!tensor.strides.empty())
    return {"strided", "pass the whole allocation, and let the function take the view"};
  if (tensor.is_complex)
    return {std::string(type_name(tensor)),
            fmt::format("pass {} with a last dimension of 2, and call torch.view_as_complex",
                        info(tensor.dtype).name)};
  if (!tensor.buffer.empty()) return {"a part of a buffer", "pass the buffer as bytes (u8)"};
  if (tensor.pointers) return {"behind an array of pointers", "pass one tensor, and the offsets"};
  if (tensor.dtype == DType::tf32) return {"tf32", "pass f32, and write tf32(...) in the formula"};
  if (info(tensor.dtype).bits < 8) return {std::string(info(tensor.dtype).name), "pass bytes (u8)"};
  return {};
}

// Types that fill a byte, and that torch has no type for.
bool is_unknown_to_torch(DType dtype) {
  return dtype == DType::e3m2 || dtype == DType::e2m3 || dtype == DType::e8m0;
}

}  // namespace

void Reader::check_memory() {
  for (const TensorSpec& tensor : contract_.tensors) {
    Special found = special(tensor);
    if (contract_.kernel.python && is_unknown_to_torch(tensor.dtype))
      found = {std::string(info(tensor.dtype).name), "pass bytes (u8)"};
    if (found.what.empty()) continue;
    if (contract_.kernel.python)
      return fail(tensor.place, fmt::format("`{}` is {}, which cannot be passed to a Python function; {}",
                                            tensor.name, found.what, found.instead));
    if (contract_.reference.kind != ReferenceKind::Formula && found.what != "strided")
      return fail(tensor.place,
                  fmt::format("`{}` is {}: write the reference as a formula", tensor.name, found.what));
  }
}

}  // namespace assay::contract
