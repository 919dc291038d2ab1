#include "subject/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "contract/complex.h"
#include "trial/generated_inputs.h"
#include "trial/sparse.h"

namespace assay::subject {

using contract::ArgKind;
using contract::Contract;
using contract::TensorSpec;

namespace {

constexpr int64_t kPage = 4096;
// What guards hold: no number that a kernel would write by chance.
constexpr uint64_t kCanary = 0xa5c396b47e1d2f58ull;

// Bytes of the file for what a sample of the blocks writes to an output, places included. Chosen: a block writes a few
// dozen kilobytes, and a hundred of them are run.
constexpr int64_t kRoomForWritten = 32 << 20;

int64_t count_of(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

int64_t rounded_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// `pattern` repeated over [at, at + length) of memory whose pattern begins at `base`.
void fill(std::byte* base, int64_t at, int64_t length, uint64_t pattern) {
  std::byte bytes[8];
  std::memcpy(bytes, &pattern, 8);
  for (int64_t i = 0; i < length && (at + i) % 8 != 0; ++i) base[at + i] = bytes[(at + i) % 8];
  const int64_t first = rounded_up(at, 8), words = std::max<int64_t>(0, (at + length - first) / 8);
  for (int64_t i = 0; i < words; ++i) std::memcpy(base + first + 8 * i, bytes, 8);
  for (int64_t i = std::max(at, first + 8 * words); i < at + length; ++i) base[i] = bytes[i % 8];
}

struct Changed {
  int64_t first = 0, count = 0;
};
Changed changed(const std::byte* before, const std::byte* after, int64_t from, int64_t length) {
  if (length <= 0 || std::memcmp(before + from, after + from, static_cast<std::size_t>(length)) == 0)
    return {};
  Changed result;
  for (int64_t i = from; i < from + length; ++i) {
    if (before[i] == after[i]) continue;
    if (result.count++ == 0) result.first = i;
  }
  return result;
}

bool has_changed(const Buffer& b, const std::byte* before, const std::byte* after) {
  if (b.parts.empty()) return changed(before, after, b.offset, b.length).count > 0;
  return std::any_of(b.parts.begin(), b.parts.end(), [&](const auto& part) {
    const bool data = part.first >= b.offset && part.first < b.offset + b.length;
    return data && changed(before, after, part.first, part.second).count > 0;
  });
}

class MemoryFilePlanner {
 public:
  MemoryFilePlanner(const Contract& contract, const trial::Trial& trial, int64_t guard)
      : contract_(contract), trial_(trial), guard_(guard) {}

  Result<void> add_call(const contract::Bindings& bindings) {
    CallPlan plan;
    for (const TensorSpec& spec : contract_.tensors) {
      if (!spec.buffer.empty()) continue;
      auto layout = spec.layout(bindings.shape);
      if (!layout) return layout.error();
      Buffer buffer{spec.name, &spec, layout->extents, std::move(*layout)};
      buffer.length = buffer.layout.bytes;
      if (spec.is_input()) buffer.input = bindings.inputs.at(spec.name).get();
      if (spec.pointers) {
        add_slices(plan, std::move(buffer), bindings);
        continue;
      }
      place(buffer, trial::alignment_of(spec, trial_.condition));
      if (trial_.sampled) {
        if (auto made = make(buffer); !made) return made.error();
      }
      if (trial::is_sparse(spec, trial_)) divide(buffer);
      plan.buffers.push_back(std::move(buffer));
    }
    for (const std::string& name : contract_.buffers())
      if (auto added = add_together(plan, name, bindings); !added) return added.error();
    if (trial_.condition.aliased) share_memory(plan);
    if (trial_.condition.shared_inputs) share_inputs(plan, bindings.shape);
    const auto workspace = contract_.kernel.workspace_bytes.eval(bindings.shape);
    if (!workspace) return workspace.error();
    Buffer scratch{"workspace", nullptr, {}, {}};
    scratch.length = *workspace;
    place(scratch, 256);
    if (trial_.sampled) {
      if (auto made = make(scratch); !made) return made.error();
    }
    plan.buffers.push_back(std::move(scratch));
    for (Buffer& buffer : plan.buffers) reserve(buffer);
    if (auto described = describe(plan, bindings); !described) return described.error();
    layout_.calls.push_back(std::move(plan));
    return {};
  }

  MemoryFileLayout take() {
    layout_.size = std::max(kPage, size_);
    return std::move(layout_);
  }

 private:
  // Aligned to so much and no more.
  void place(Buffer& buffer, int64_t align) const {
    buffer.offset = guard_ + (align < 256 ? align : 0);
    buffer.bytes = std::max<int64_t>(1, buffer.offset + buffer.length + guard_);
  }

  // Tensors that are parts of one allocation.
  Result<void> add_together(CallPlan& plan, const std::string& name,
                            const contract::Bindings& bindings) const {
    auto parts = contract_.parts_of(name, bindings.shape);
    if (!parts) return parts.error();
    Buffer buffer{name, nullptr, {}, {}};
    const TensorSpec* least = nullptr;  // aligned
    for (contract::BufferPart& part : *parts) {
      buffer.length = std::max(buffer.length, part.at + part.layout.bytes);
      if (!least || part.spec->align < least->align) least = part.spec;
      const bool reads = part.spec->is_input();
      buffer.members.push_back({part, reads ? bindings.inputs.at(part.spec->name).get() : nullptr});
    }
    place(buffer, trial::alignment_of(*least, trial_.condition));
    plan.buffers.push_back(std::move(buffer));
    return {};
  }

  // An allocation for each slice of a tensor, and the array of their addresses under the tensor's own name.
  void add_slices(CallPlan& plan, Buffer whole, const contract::Bindings& bindings) const {
    const TensorSpec& spec = *whole.spec;
    const int64_t rows = whole.extents[0];
    const int64_t row = rows > 0 ? count_of(whole.extents) / rows : 0;
    std::vector<int64_t> starts;
    if (spec.pointer_offsets.empty()) {
      for (int64_t i = 0; i <= rows; ++i) starts.push_back(i);
    } else {
      const contract::Tensor& offsets = *bindings.inputs.at(spec.pointer_offsets);
      for (int64_t i = 0; i < offsets.count(); ++i) starts.push_back(offsets.load_int(i));
    }
    plan.sliced[spec.name] = whole.extents;
    Buffer array{spec.name, nullptr, {}, {}};
    array.is_pointers = true;
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      const int64_t count = (starts[i + 1] - starts[i]) * row;
      Buffer slice{fmt::format("{}[{}]", spec.name, i),
                   &spec,
                   {count},
                   contract::Layout::of(spec.dtype, {count}, {1})};
      slice.length = slice.layout.bytes;
      slice.input = whole.input;
      slice.first = starts[i] * row;
      place(slice, trial::alignment_of(spec, trial_.condition));
      array.pointers.push_back(static_cast<int>(plan.buffers.size()));
      plan.buffers.push_back(std::move(slice));
    }
    array.length = static_cast<int64_t>(array.pointers.size() * sizeof(uint64_t));
    place(array, 256);
    plan.buffers.push_back(std::move(array));
  }

  // What it holds before a call of which a sample is run.
  Result<void> make(Buffer& buffer) const {
    if (buffer.input) {
      auto values = trial::generated_values(*buffer.spec, trial_);
      if (!values) return values.error();
      buffer.made = std::move(*values);
    } else {
      const uint64_t poison = trial::pattern(trial_.condition.poison);
      buffer.made = GeneratedValues{.table = std::vector<std::byte>(sizeof poison), .item = sizeof poison};
      std::memcpy(buffer.made->table.data(), &poison, sizeof poison);
    }
    if (buffer.spec && buffer.spec->is_output()) buffer.room = kRoomForWritten;
    return {};
  }

  // The rows that hold values, and the guards.
  static void divide(Buffer& buffer) {
    const int64_t row = buffer.extents[0] > 0 ? buffer.length / buffer.extents[0] : 0;
    const int64_t end = buffer.offset + buffer.length;
    buffer.parts.emplace_back(0, buffer.offset);
    for (const trial::Rows& rows : trial::filled_rows(buffer.extents)) {
      buffer.parts.emplace_back(buffer.offset + rows.first * row, rows.count * row);
    }
    buffer.parts.emplace_back(end, buffer.bytes - end);
  }

  void share_memory(CallPlan& plan) const {
    for (Buffer& buffer : plan.buffers) {
      if (!buffer.spec || buffer.spec->may_alias.empty()) continue;
      for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
        const Buffer& other = plan.buffers[i];
        if (other.name == buffer.spec->may_alias && other.length == buffer.length &&
            other.layout.strides == buffer.layout.strides)
          buffer.share = static_cast<int>(i);
      }
    }
  }

  void share_inputs(CallPlan& plan, const contract::Shape& shape) const {
    for (Buffer& buffer : plan.buffers) {
      if (!buffer.spec || buffer.spec->pointers) continue;
      const TensorSpec& owner = trial::shared_input(contract_, *buffer.spec, shape);
      if (&owner != buffer.spec) buffer.share = index_of(plan, owner.name);
    }
  }

  void reserve(Buffer& buffer) {
    const auto before = buffer.made ? static_cast<int64_t>(buffer.made->table.size()) : buffer.bytes;
    buffer.in = size_;
    size_ += rounded_up(before, kPage);
    buffer.out = size_;
    size_ += rounded_up(buffer.made ? buffer.room : buffer.bytes, kPage);
  }

  int index_of(const CallPlan& plan, const std::string& name) const {
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
      if (plan.buffers[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  static protocol::ScalarArgument scalar(contract::DType dtype, uint64_t bits) {
    return {contract::info(dtype).bytes, bits, dtype == contract::DType::f32 || dtype == contract::DType::f64,
            contract::info(dtype).min_integer < 0, std::string(contract::info(dtype).name)};
  }

  static bool is_absent(const std::string& tensor, const contract::Bindings& bindings) {
    const auto given = bindings.scalars.find(contract::presence_of(tensor));
    return given != bindings.scalars.end() && given->second.as_int() == 0;
  }

  // Whether the call may only read a buffer's memory: an input that no output shares it with.
  static bool is_read_only(const CallPlan& plan, std::size_t i) {
    const Buffer& owner = plan.buffers[i];
    if (owner.is_pointers) return true;
    if (!owner.members.empty())
      return std::all_of(owner.members.begin(), owner.members.end(), [](const BufferMember& member) {
        return member.part.spec->role == contract::Role::In;
      });
    if (!owner.spec || owner.spec->role != contract::Role::In || owner.share >= 0) return false;
    return std::none_of(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& b) {
      return b.share == static_cast<int>(i) && (!b.spec || b.spec->role != contract::Role::In);
    });
  }

  static bool holds_data(const Buffer& b) {
    return b.input || b.is_pointers ||
           std::any_of(b.members.begin(), b.members.end(),
                       [](const BufferMember& member) { return member.input != nullptr; });
  }

  static std::optional<protocol::GeneratedBuffer> made_of(const Buffer& b) {
    if (!b.made) return std::nullopt;
    return protocol::GeneratedBuffer{b.in,
                                     static_cast<int64_t>(b.made->table.size()),
                                     static_cast<int>(b.made->item),
                                     b.made->seed,
                                     b.made->last_value,
                                     b.made->last_index,
                                     b.room};
  }

  Result<void> describe(CallPlan& plan, const contract::Bindings& bindings) const {
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
      const Buffer& b = plan.buffers[i];
      const bool is_result = b.spec && b.spec->role != contract::Role::In;
      plan.request.buffers.push_back({b.name, b.bytes, b.offset, b.length, b.in, b.out, holds_data(b),
                                      is_read_only(plan, i), is_result, b.share, b.parts, made_of(b),
                                      b.pointers});
    }
    for (const contract::Arg& arg : contract_.kernel.args)
      plan.request.arguments.push_back(argument(plan, arg, bindings));
    if (contract_.kernel.returns_outputs) {
      for (const TensorSpec& spec : contract_.tensors)
        if (spec.role == contract::Role::Out) plan.request.returned.push_back(tensor(plan, spec.name));
    }
    return describe_launch(plan, bindings);
  }

  protocol::BufferArgument tensor(const CallPlan& plan, const std::string& name) const {
    const int index = index_of(plan, name);
    const Buffer& buffer = plan.buffers[static_cast<std::size_t>(index)];
    if (!buffer.spec) return {index, "u64", {}};
    return {index, std::string(contract::info(buffer.spec->dtype).name), buffer.extents};
  }

  protocol::Argument argument(const CallPlan& plan, const contract::Arg& arg,
                              const contract::Bindings& bindings) const {
    switch (arg.kind) {
      case ArgKind::Tensor:
        if (is_absent(arg.name, bindings)) return scalar(contract::DType::u64, 0);  // a null pointer
        return tensor(plan, arg.name);
      case ArgKind::Buffer:
        return protocol::BufferArgument{index_of(plan, arg.name), "u8", {}};
      case ArgKind::Complex: {  // two floats of a struct travel in one register, as a double does
        const uint64_t re = bindings.scalars.find(contract::real_part_of(arg.name))->second.bits,
                       im = bindings.scalars.find(contract::imaginary_part_of(arg.name))->second.bits;
        return scalar(contract::DType::f64, im << 32 | (re & 0xffffffff));
      }
      case ArgKind::Workspace:
        return protocol::BufferArgument{static_cast<int>(plan.buffers.size()) - 1, "u8", {}};
      case ArgKind::Stream:
        break;
      case ArgKind::Dim:
        return scalar(contract_.dim(arg.name)->type,
                      static_cast<uint64_t>(bindings.shape.find(arg.name)->second));
      case ArgKind::Integer:  // it has a value at every legal shape (Contract::check_shape)
        return scalar(arg.type, static_cast<uint64_t>(*arg.value.eval(bindings.shape)));
      case ArgKind::Scalar: {
        const contract::Scalar& given = bindings.scalars.find(arg.name)->second;
        return scalar(given.dtype, given.bits);
      }
    }
    return protocol::StreamArgument{};
  }

  Result<void> describe_launch(CallPlan& plan, const contract::Bindings& bindings) const {
    if (contract_.kernel.global.empty()) return {};
    protocol::LaunchShape shape;
    if (auto grid = evaluate(contract_.kernel.grid, bindings, shape.grid); !grid) return grid;
    if (auto block = evaluate(contract_.kernel.block, bindings, shape.block); !block) return block;
    const auto shared = contract_.kernel.shared_bytes.eval(bindings.shape);
    if (!shared) return shared.error();
    shape.shared_bytes = static_cast<uint64_t>(*shared);
    plan.request.launch = shape;
    return {};
  }

  // An extent that no GPU has becomes the largest number, and the launch fails as it would there.
  template <class Expressions>
  static Result<void> evaluate(const Expressions& expressions, const contract::Bindings& bindings,
                               std::array<uint32_t, 3>& extents) {
    constexpr int64_t kLargest = std::numeric_limits<uint32_t>::max();
    for (std::size_t i = 0; i < std::min(expressions.size(), extents.size()); ++i) {
      const auto n = expressions[i].eval(bindings.shape);
      if (!n) return n.error();
      extents[i] = static_cast<uint32_t>(*n >= 0 ? std::min(*n, kLargest) : kLargest);
    }
    return {};
  }

  const Contract& contract_;
  const trial::Trial& trial_;
  int64_t guard_;
  int64_t size_ = 0;
  MemoryFileLayout layout_;
};

}  // namespace

Result<MemoryFileLayout> lay_out(const Contract& contract, const trial::Trial& trial,
                                 const std::vector<const contract::Bindings*>& bindings, int64_t guard) {
  MemoryFilePlanner maker(contract, trial, guard);
  for (const contract::Bindings* b : bindings) {
    if (auto added = maker.add_call(*b); !added) return added.error();
  }
  return maker.take();
}

namespace {

void write_data(const Buffer& b, const trial::Trial& trial, std::byte* image) {
  const uint64_t poison = trial::pattern(trial.condition.poison);
  const auto pack_poison = [&](const contract::TensorSpec& spec, const contract::Layout& layout,
                               std::byte* at) {
    contract::Tensor elements = contract::Tensor::zeros(spec.dtype, layout.extents);
    const bool packed = contract::info(spec.dtype).bits < 8;
    fill(elements.bytes.data(), 0, static_cast<int64_t>(elements.bytes.size()),
         packed ? trial::packed_pattern(trial.condition.poison) : poison);
    layout.pack(elements, at);
  };
  std::byte* data = image + b.offset;
  if (!b.members.empty()) {
    fill(data, 0, b.length, poison);
    for (const BufferMember& member : b.members) {
      if (member.input)
        member.part.layout.pack(*member.input, data + member.part.at);
      else
        pack_poison(*member.part.spec, member.part.layout, data + member.part.at);
    }
  } else if (b.spec && b.spec->pointers) {
    const int64_t from = b.first * contract::info(b.spec->dtype).bytes, shift = from % 8;
    if (b.input && b.length > 0)
      std::memcpy(data, b.input->bytes.data() + from, static_cast<std::size_t>(b.length));
    else
      fill(data - shift, shift, b.length, poison);  // in phase with the whole tensor
  } else if (b.input && !b.parts.empty()) {
    for (const auto& [from, length] : b.parts) {
      if (from < b.offset || from >= b.offset + b.length) continue;
      std::memcpy(image + from, b.input->bytes.data() + from - b.offset, static_cast<std::size_t>(length));
    }
  } else if (b.input && !b.layout.is_plain()) {
    fill(data, 0, b.length, poison);
    b.layout.pack(*b.input, data);
  } else if (b.input) {
    if (b.length > 0)  // an empty tensor has no bytes to point to
      std::memcpy(data, b.input->bytes.data(), static_cast<std::size_t>(b.length));
  } else {
    fill(data, 0, b.length, poison);  // in phase with the elements
    if (b.spec && !b.layout.is_plain()) pack_poison(*b.spec, b.layout, data);
  }
}

}  // namespace

void write_images(const MemoryFileLayout& layout, const trial::Trial& trial, std::byte* memory) {
  for (const CallPlan& plan : layout.calls) {
    for (const Buffer& b : plan.buffers) {
      std::byte* image = memory + b.in;
      if (b.made) {
        std::copy(b.made->table.begin(), b.made->table.end(), image);
        continue;
      }
      fill(image, 0, b.offset, kCanary);
      write_data(b, trial, image);
      fill(image, b.offset + b.length, b.bytes - b.offset - b.length, kCanary);
    }
  }
}

namespace {

// What a sample of the blocks wrote to a buffer. The subject may have written anything to the file: what makes no sense
// is left out.
void read_written(const Buffer& b, const std::byte* file, Call& call) {
  const auto number = [&](int64_t which) {
    int64_t value = 0;
    std::memcpy(&value, file + which * int64_t{sizeof value}, sizeof value);
    return value;
  };
  contract::Tensor tensor = contract::Tensor::zeros(b.spec->dtype, b.extents);
  std::vector<ElementRange>& ranges = call.written[b.name];
  const int64_t item = tensor.item_bytes(), pieces = number(0);
  int64_t at = int64_t{sizeof(int64_t)} * (1 + 2 * pieces);
  if (pieces < 0 || pieces > b.room / 16 || at > b.room) return;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t offset = number(1 + 2 * i) - b.offset, length = number(2 + 2 * i);
    if (length <= 0 || length > b.room - at) return;
    if (offset < 0 || offset > b.length - length) {
      call.trespasses.push_back({b.name, offset, length});
    } else {
      std::memcpy(tensor.bytes.data() + offset, file + at, static_cast<std::size_t>(length));
      const int64_t first = (offset + item - 1) / item, end = (offset + length) / item;
      if (first < end) ranges.push_back({first, end - first});
    }
    at += length;
  }
  call.outputs[b.name] = std::make_shared<const contract::Tensor>(std::move(tensor));
}

// What became of tensors that share an allocation: those written to, changed inputs, and bytes of none of them.
void read_together(const Buffer& b, const std::byte* before, const std::byte* after, Call& call) {
  std::vector<bool> taken(static_cast<std::size_t>(b.length));
  for (const BufferMember& member : b.members) {
    const contract::BufferPart& part = member.part;
    const std::vector<bool> own = part.layout.element_bytes();
    bool differs = false;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(part.at) + i;
      if (!own[i]) continue;
      taken[at] = true;
      differs = differs || before[at] != after[at];
    }
    if (part.spec->role == contract::Role::In && differs) call.changed_inputs.push_back(part.spec->name);
    if (!part.spec->is_output()) continue;
    contract::Tensor tensor = contract::Tensor::zeros(part.spec->dtype, part.layout.extents);
    part.layout.unpack(after + part.at, tensor);
    call.outputs[part.spec->name] = std::make_shared<const contract::Tensor>(std::move(tensor));
  }
  Changed gap;
  for (int64_t i = 0; i < b.length; ++i) {
    if (taken[static_cast<std::size_t>(i)] || before[i] == after[i]) continue;
    if (gap.count++ == 0) gap.first = i;
  }
  if (gap.count > 0) call.trespasses.push_back({b.name, gap.first, gap.count, true});
}

// A slice behind a pointer, into the tensor that it is a slice of.
void read_slice(const Buffer& b, const std::vector<int64_t>& extents, const std::byte* after,
                std::map<std::string, contract::Tensor>& sliced) {
  const auto [whole, made] = sliced.try_emplace(b.spec->name);
  if (made) whole->second = contract::Tensor::zeros(b.spec->dtype, extents);
  if (b.length > 0) std::memcpy(whole->second.at(b.first), after, static_cast<std::size_t>(b.length));
}

}  // namespace

Call read_images(const CallPlan& plan, const trial::Trial& trial, const std::byte* memory) {
  Call call;
  if (trial.sampled) {
    for (const Buffer& b : plan.buffers)
      if (b.room > 0) read_written(b, memory + b.out, call);
    return call;
  }
  std::map<std::string, contract::Tensor> sliced;
  std::vector<bool> shared(plan.buffers.size(), false);
  for (const Buffer& b : plan.buffers) {
    if (b.share >= 0 && b.spec->is_output()) shared[static_cast<std::size_t>(b.share)] = true;
  }
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& b = plan.buffers[i];
    const bool borrowed = b.share >= 0;
    const std::byte* before = memory + b.in;
    const Buffer& owner = borrowed ? plan.buffers[static_cast<std::size_t>(b.share)] : b;
    const std::byte* after = memory + owner.out + owner.offset - b.offset;
    if (!borrowed) {
      for (const auto& [from, length] :
           {std::pair{int64_t{0}, b.offset}, std::pair{b.offset + b.length, b.bytes - b.offset - b.length}}) {
        const Changed guard = changed(before, after, from, length);
        if (guard.count > 0) call.trespasses.push_back({b.name, guard.first - b.offset, guard.count});
      }
    }
    if (!b.members.empty()) read_together(b, before + b.offset, after + b.offset, call);
    if (b.is_pointers && changed(before, after, b.offset, b.length).count > 0)
      call.changed_inputs.push_back(b.name);
    if (!b.spec) continue;
    if (b.spec->pointers && b.spec->is_output()) {
      read_slice(b, plan.sliced.at(b.spec->name), after + b.offset, sliced);
      continue;
    }
    const bool whole = b.spec->role == contract::Role::In;  // a change of an input is one wherever it is
    if (!whole && !borrowed)
      if (const auto gap = b.layout.changed_gap(before + b.offset, after + b.offset))
        call.trespasses.push_back({b.name, gap->first, gap->count, true});
    if (b.spec->role == contract::Role::In && !shared[i] && !borrowed && has_changed(b, before, after)) {
      call.changed_inputs.push_back(b.name);
    }
    if (b.spec->is_output()) {
      contract::Tensor tensor = contract::Tensor::zeros(b.spec->dtype, b.extents);
      if (b.layout.is_plain())
        std::copy_n(after + b.offset, b.length,
                    tensor.bytes.data());  // an empty tensor has no bytes to point at
      else
        b.layout.unpack(after + b.offset, tensor);
      call.outputs[b.name] = std::make_shared<const contract::Tensor>(std::move(tensor));
    }
  }
  for (auto& [name, tensor] : sliced)
    call.outputs[name] = std::make_shared<const contract::Tensor>(std::move(tensor));
  return call;
}

}  // namespace assay::subject
