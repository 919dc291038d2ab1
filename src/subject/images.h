// The memory images of a call: what every buffer holds before it, and what to make of what it holds after.
#pragma once

#include <map>

#include "base/generated_values.h"
#include "protocol/messages.h"
#include "subject/runner.h"

namespace assay::subject {

// A tensor that shares its allocation with others.
struct BufferMember {
  contract::BufferPart part;
  const contract::Tensor* input = nullptr;
};

// One allocation: [guard | shift | data | guard].
struct Buffer {
  std::string name;
  const contract::TensorSpec* spec = nullptr;  // null: the workspace, tensors together, an array of pointers
  std::vector<int64_t> extents;
  contract::Layout layout;  // of a tensor
  const contract::Tensor* input = nullptr;
  int64_t length = 0, offset = 0, bytes = 0;  // of the data; where it begins; of the whole
  int64_t in = 0, out = 0;                    // in the memory file
  int share = -1;
  std::vector<std::pair<int64_t, int64_t>> parts;  // [from, length) that matter; empty: all of it
  std::optional<GeneratedValues>
      made{};        // of a sample: what it holds before the call; the file has the table, at `in`
  int64_t room = 0;  // of a sample: bytes of the file, at `out`, for what was written
  std::vector<BufferMember> members{};  // of an allocation of several tensors
  int64_t first = 0;                    // of a slice behind a pointer: its first element of the tensor
  std::vector<int> pointers{};          // of an array of pointers: the buffers whose addresses it holds
  bool is_pointers = false;
};

struct CallPlan {
  std::vector<Buffer> buffers;
  std::map<std::string, std::vector<int64_t>> sliced;  // extents of the tensors behind arrays of pointers
  protocol::CallRequest request;
};

struct MemoryFileLayout {
  std::vector<CallPlan> calls;
  int64_t size = 0;  // of the memory file
};

Result<MemoryFileLayout> lay_out(const contract::Contract& contract, const trial::Trial& trial,
                                 const std::vector<const contract::Bindings*>& bindings, int64_t guard);

void write_images(const MemoryFileLayout& layout, const trial::Trial& trial, std::byte* memory);
Call read_images(const CallPlan& plan, const trial::Trial& trial, const std::byte* memory);

}  // namespace assay::subject
