// What trials launched, compared with the launch relation that proofs depend on.
//
//     LaunchLog log(contract);
//     CheckOptions options;
//     options.launched = [&](const trial::Trial& t, const subject::Observation& o) { log.add(t, o); };
//     CheckOutcome outcome = check(contract, options);
//     log.hold(proof);   // of `assay prove`, as JSON: what no longer stands is unknown now, and says why
//
// A call that deviates from the relation invalidates it and every proof under it, since the relation was inferred from
// other shapes. On a GPU other than the one it was inferred on, the host code may legitimately launch differently: then
// the proofs hold for that one GPU only, and say so. To tell the two apart, unexplained() returns trials to run on the
// relation's own GPU; their launches are added to the log like any others.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "contract/contract.h"
#include "finding/json.h"
#include "prove/relation.h"
#include "subject/runner.h"
#include "trial/trial.h"

namespace assay::prove {

struct Deviation {
  std::string text;      // "at n=5, grid.x of k is 2, not 1"
  std::string gpu;       // the GPU of the trial, where the relation was inferred on another one
  trial::Trial trial{};  // the same on the relation's own GPU: there it may deviate as well
};

class LaunchLog {
 public:
  explicit LaunchLog(const contract::Contract& contract) : contract_(contract) {}

  // Calls that did not end, or of which not all was recorded, are left out.
  void add(const trial::Trial& trial, const subject::Observation& observation);

  size_t calls() const { return calls_.size(); }  // different ones
  // The first on the relation's own GPU, and the first on another.
  std::vector<Deviation> against(const Relation& relation) const;
  // Trials at whose shape another GPU's call deviates from a proof's relation, for the relation's own GPU.
  std::vector<trial::Trial> unexplained(const Json& proof) const;
  void hold(Json& proof) const;

 private:
  struct Call {
    RecordedCall recorded;
    uint8_t gpu = 0;
    trial::Trial trial{};  // of calls on another GPU: the same on the relation's own
  };

  const contract::Contract& contract_;
  std::vector<Call> calls_;
  std::set<std::string> known_;
};

// The GPU that the relation is inferred on, in words.
std::string recorded_on();
// Why a proof does not stand any more; what it has to assume where only another GPU deviates.
std::string void_reason(const Deviation& deviation);
std::string only_on_one_gpu(const Deviation& deviation);

}  // namespace assay::prove
