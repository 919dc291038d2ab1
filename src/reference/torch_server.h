// `torch` references: one Python process for a whole check, which evaluates the problem's PyTorch code exactly
// and derives its rounding budget (python/assay/reference/server.py).
//
// Importing torch takes seconds, so the process is started once, early, and asked for one call after another:
// a JSON object per line, arrays as .npy files in a folder of its own. It runs without a device. The problem's
// code is trusted as the contract is: it says what is right.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "contract/bindings.h"

namespace assay::reference {

using contract::Bindings;
using contract::Contract;
using contract::Tensor;

// What the server says of one output: all float64.
struct TorchOutput {
  Tensor exact;  // before the store
  Tensor bound;  // hard, on |computed - exact| before the store
  Tensor sigma;  // standard deviation expected of rounding before the store
};

struct TorchAnswer {
  std::map<std::string, TorchOutput> outputs;
  std::string rests_on;  // what the budget rests on: a sentence
};

class TorchServer {
 public:
  explicit TorchServer(const Contract& contract);
  ~TorchServer();
  TorchServer(const TorchServer&) = delete;
  TorchServer& operator=(const TorchServer&) = delete;

  // Starts the process without waiting for it; the other functions do, if nobody did.
  void start();
  // Waits until it answers; whether it can is for the next question to say.
  void wait();
  Result<TorchAnswer> expect(const Bindings& bindings, bool tensor_cores);
  // The problem's own inputs, rounded to their dtypes.
  Result<std::map<std::string, Tensor>> inputs(const contract::Shape& shape, uint64_t seed);

 private:
  struct Process;
  const Contract& contract_;
  std::unique_ptr<Process> process_;
};

}  // namespace assay::reference
