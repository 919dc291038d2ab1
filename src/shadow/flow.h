// Which registers carry floats that are needed later, found from the PTX of a function.
//
// A register is a row of bytes; an element's error belongs to its last byte (the one with sign and
// exponent), so that packing, unpacking and moving halves, floats and doubles needs no knowledge of
// their type. An integer made from a float keeps its error at its first byte. Two questions are asked of
// each byte: may it carry an error (it was computed or loaded), and is it needed (computed with, or stored)?
// Bytes for which both answers are yes are followed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptx/module.h"

namespace assay::shadow {

enum class Number : uint8_t { F64, F32, TF32, F16, BF16, E4M3, E5M2, S8, U8, S16, U16, S32, U32, S64, U64 };
uint32_t size_of(Number number);

enum class Op : uint8_t {
  Add,
  Sub,
  Mul,
  Fma,
  Div,
  Rcp,
  Sqrt,
  Rsqrt,
  Ex2,
  Lg2,
  Sin,
  Cos,
  Tanh,
  Neg,
  Abs,
  Min,
  Max,
  Copysign,
  Convert,
  Count_
};

enum class Kind : uint8_t {
  None,        // touches nothing that is followed
  Arithmetic,  // `parts`
  Integral,    // a float rounded to an integral one on purpose: `parts`, retaken, decides
  ToInteger,   // `parts`, decides
  Move,        // bytes go where `edges` say
  Select,      // the same, by a predicate
  Merge,       // or: either source
  Bits,        // integer arithmetic on the bits of a float: `edges`, understood when it runs
  Cut,         // the upper halves of floats: `edges`, loses the lower
  Compare,     // decides
  Load,
  Store,
  Atomic,
  AsyncCopy,
  BulkCopy,
  Shuffle,
  Product,
  LoadMatrix,
  StoreMatrix,
  Call,    // an argument or a result on its way: forgets
  Unseen,  // moves or changes what memory holds by ways that are not followed
  Other,   // forgets
};

// An element of an operand.
struct Part {
  const ptx::Operand* operand = nullptr;  // a register, an immediate, …
  ptx::Type read_as = ptx::Type::None;    // how Lowering is asked for it
  uint8_t offset = 0;                     // of its first byte in the register
  Number number = Number::F32;
  // The byte its error belongs to.
  uint8_t home() const;
};

struct PartOp {
  Part to;
  Part from[3];
};

struct Place {
  uint32_t reg;
  uint8_t byte;
};

// For whom a byte is needed.
inline constexpr uint8_t kForFloats = 1, kForMemory = 2, kForDecisions = 4, kForAll = 7;

struct Edge {
  Place to, from;
  uint8_t passes = kForAll;  // which needs
  uint8_t act = 0;           // what a Move does to the error besides
};
// kCut: the upper half of a float becomes a bf16, and what lay in the lower half an error (Cut).
inline constexpr uint8_t kNegate = 1, kAbsolute = 2, kWiden = 4, kCut = 8;

struct Plan {
  Kind kind = Kind::None;
  Op op = Op::Add;
  bool clamps = false;        // .sat
  bool clamps_below = false;  // .relu
  bool to_nearest = false;    // Integral
  bool rounds = false;        // to a narrow type, to nearest: the error is fresh
  bool wide = false;          // Bits: of the upper half of a double
  bool unfollowed = false;    // Other: has roundings of its own, whatever its operands
  bool on_purpose = false;    // a constant so large that it rounds on purpose: retaken
  std::vector<PartOp> parts;
  std::vector<Edge> edges;
  std::vector<Place> gives;  // may carry an error of their own
  std::vector<std::pair<Place, uint8_t>> needs;
  std::vector<uint32_t> writes;  // registers
};

class Flow {
 public:
  explicit Flow(const ptx::Function& function);

  const Plan& plan(size_t body_index) const { return plans_[body_index]; }
  bool followed(uint32_t reg, uint32_t byte) const { return (followed_[reg] >> byte & 1) != 0; }
  uint32_t followed(uint32_t reg) const { return followed_[reg]; }
  // What the elements of this register are, as far as the instructions around it tell.
  std::optional<Number> number(uint32_t reg) const;

 private:
  void find_numbers(const ptx::Function& function);

  std::vector<Plan> plans_;
  std::vector<uint8_t> numbers_;    // by register: a Number, or kUnknown
  std::vector<uint32_t> followed_;  // by register: a bit for each byte
};

}  // namespace assay::shadow
