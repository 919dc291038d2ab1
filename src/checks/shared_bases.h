// Which static shared array the address of an instruction is based on, as far as the code alone shows.
//
// PTX keeps every `__shared__` array as a symbol of its own; an address is the symbol's, with offsets added
// on the way. Where one symbol, and only one, reaches an access through additions, the access belongs inside
// that array. Where the way cannot be followed (a choice between arrays, bits masked or merged, a pointer
// that came from memory or from a caller) nothing is claimed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "vgpu/program.h"

namespace assay::checks {

struct SharedArray {
  std::string name;  // as in the source
  uint64_t low = 0, high = 0;

  bool holds(uint64_t address) const { return address >= low && address < high; }
};

class SharedBases {
 public:
  SharedBases(const vgpu::Program& program, const vgpu::Function& function);

  // The array that the instruction's shared address is based on; null where that is not certain.
  const SharedArray* of(const vgpu::Inst& inst) const;
  // The array that an address lies in; null where there is none.
  const SharedArray* at(uint64_t address) const;

 private:
  // A register holds a plain number, an address in one array, or who knows.
  struct Base {
    enum class Kind : uint8_t { Unset, Number, Array, Unknown } kind = Kind::Unset;
    uint32_t array = 0;
    bool operator==(const Base&) const = default;
  };

  const ptx::Function& code_;
  std::vector<SharedArray> arrays_;
  std::vector<uint32_t> of_module_, of_function_;  // by variable: index into arrays_, or ptx::kNone
  std::vector<Base> registers_;

  void add_arrays(const std::vector<ptx::Variable>& variables, const std::vector<uint64_t>& places,
                  std::vector<uint32_t>& indices);
  void follow();
  Base base_of(const ptx::Operand& operand) const;
  Base result_of(const ptx::Instruction& inst) const;
  static Base join(const Base& a, const Base& b);
  static Base sum(const Base& a, const Base& b);
};

}  // namespace assay::checks
