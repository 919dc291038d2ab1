// What a rule sees and what it says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lint/flow.h"
#include "lint/lint.h"

namespace assay::lint {

struct Hit {
  Kind kind;
  Index at = 0;
  std::string message;
};

struct Subject {
  const ptx::Module& module;
  const Flow& flow;
  const Options& options;
};

using Hits = std::vector<Hit>;
void find_sums(const Subject& subject, Hits& hits);         // narrow-sum
void find_atomics(const Subject& subject, Hits& hits);      // narrow-atomic
void find_matrices(const Subject& subject, Hits& hits);     // narrow-mma
void find_truncations(const Subject& subject, Hits& hits);  // truncating-conversion
void find_math(const Subject& subject, Hits& hits);         // approximate-math, flushed-subnormals
void find_collectives(const Subject& subject, Hits& hits);  // partial-collective

// Types with fewer bits than f32, alone or in pairs.
bool is_narrow(ptx::Type type);
// "bf16", how many bits it holds, and the count from which adding one more of the same changes nothing.
struct NarrowType {
  std::string_view name;
  int bits = 8;
  int stalls_at = 256;
};
NarrowType narrow_type(ptx::Type type);

// Whether an instruction cuts the lower half off a float, which makes it a bf16 rounded toward zero.
bool truncates(const Flow& flow, Index i);

}  // namespace assay::lint
