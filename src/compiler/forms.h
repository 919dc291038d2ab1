// What is known about the 32 lanes of a register wherever all lanes of a warp run together: the same value in all of
// them, a known distance between them, the same for each half of the warp, or nothing.
//
// Such a register lives as one scalar, the value of lane 0 (with `two`, also that of lane 16), and an operation on it is
// that operation on these lanes alone. The other lanes are the scalar + step[lane], and are made where somebody needs
// them. What is said holds only while lanes run together: code that is entered checks that the planes agree.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compiler/operation.h"

namespace assay::compiler {

inline constexpr unsigned kLanes = 32, kHalf = kLanes / 2;

struct Form {
  enum class Kind : uint8_t { Unknown, Scalar, Vector } kind = Kind::Unknown;
  bool two = false;       // lanes from 16 on count from lane 16
  bool constant = false;  // lane 0 is always `value`
  uint64_t value = 0;
  uint64_t align = 1;  // the scalars are multiples of it: a power of two
  std::array<int64_t, 32> step{};

  bool is_scalar() const { return kind == Kind::Scalar; }
  bool is_flat() const;     // a scalar without steps
  bool is_uniform() const;  // and all lanes are the same
  int64_t lowest() const;
  int64_t highest() const;
  bool operator==(const Form&) const = default;
};

Form vector_form();

// The forms of all registers; predicates are uniform or a vector (a mask).
std::vector<Form> forms_of(const vgpu::CompileRequest& request, const std::vector<Operation>& operations,
                           const std::vector<bool>& live_at_start);
Form form_of(const Source& source, const std::vector<Form>& registers, vgpu::BlockShape shape);

}  // namespace assay::compiler
