// Some blocks of a call on the virtual GPU: what they store.
//
// A grid over 2^31 elements cannot be run in the time of a proof; one of its blocks can, at once. The launches are
// those that the host code asked for at this shape, recorded; the inputs are made as they are read (values_inputs.h).
// A part of an input that a block has read before it was made is made afterwards, and the blocks run again, from
// the start: a few rounds, since only loaded indices lead to further parts.
//
// A block by itself tells what it stores only if it does not depend on the others: one that reads what other blocks
// or kernels write, or that updates memory by atomics, is recognised (it finds memory that nothing has written), and
// such calls are evaluated only where all their blocks can be run.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "contract/contract.h"
#include "protocol/event.h"
#include "prove/values_inputs.h"

namespace assay::prove {

struct StoredElement {
  const contract::TensorSpec* tensor = nullptr;
  int64_t element = 0;
  contract::Tensor value;  // of one element
};

struct BlocksOutcome {
  std::vector<StoredElement> stored;  // some of what the blocks stored to outputs
  std::set<std::string> kernels;      // that were run
  std::string problem;                // why nothing can be said; empty: it can
};

class ValuesBlocks {
 public:
  // `texts`: the subject's PTX.
  ValuesBlocks(const contract::Contract& contract, std::span<const std::string> texts);
  ~ValuesBlocks();

  // `events`: what the host code asked the device for at the inputs' shape. `until`, of work_seconds(): what is not
  // ready by then is given up.
  BlocksOutcome run(std::span<const protocol::Event> events, const ValuesInputs& inputs, Random& random,
                    double until);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::prove
