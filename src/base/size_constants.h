// The integers with which a kernel's code compares sizes: where it may change its mind.
#pragma once

#include <cstdint>
#include <vector>

namespace assay {

// n % 96 == 32.
struct Residue {
  int64_t modulus = 1, remainder = 0;

  bool operator==(const Residue&) const = default;
};

struct SizeConstants {
  std::vector<int64_t> compared;   // n > 8192, case 5120, launch<14336>; the most telling first
  std::vector<Residue> residues;   // remainder 0 where only the modulus is known
  std::vector<int64_t> mentioned;  // every other integer of the code that may be a size
};

}  // namespace assay
