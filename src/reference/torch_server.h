// `torch` references: one Python process for a whole check, which evaluates the problem's PyTorch code exactly
// and derives its rounding budget (python/assay/reference/server.py).
//
// The process (torch_process.h) is started once, early, and asked for one call after another, with arrays as .npy files
// in its folder. The problem's code is trusted as the contract is: it says what is right.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "contract/bindings.h"
#include "reference/torch_process.h"

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
  // `process`: one that is running already, if there is one.
  explicit TorchServer(const Contract& contract, std::shared_ptr<TorchProcess> process = nullptr);
  ~TorchServer();
  TorchServer(const TorchServer&) = delete;
  TorchServer& operator=(const TorchServer&) = delete;

  // Starts the process without waiting for it; the other functions start it otherwise.
  void start();
  // Waits until it answers; whether it can is for the next question to say.
  void wait();
  pid_t process() const { return process_ ? process_->process() : 0; }  // 0: there is none
  Result<TorchAnswer> expect(const Bindings& bindings, bool tensor_cores);
  // The problem's own inputs, rounded to their dtypes.
  Result<std::map<std::string, Tensor>> inputs(const contract::Shape& shape, uint64_t seed);

 private:
  nlohmann::ordered_json opening() const;
  Result<nlohmann::ordered_json> ask(const nlohmann::ordered_json& question);

  const Contract& contract_;
  std::string where_;  // "reference.py:run"
  std::shared_ptr<TorchProcess> process_;
  bool started_ = false;
  Error problem_;  // why nothing can be asked
};

}  // namespace assay::reference
