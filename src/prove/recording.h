// Runs of the host code against a device that only records: at which shapes, and with which scalars, alignments and
// optional tensors.
//
//     RecordedShapes shapes(contract);
//     Recorder recorder(contract, subject, options);
//     for (const Shape& shape : shapes.some(90, 7)) use(recorder.record(shape, relation));
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "prove/relation.h"

namespace assay::prove {

// Shapes to record: none of them twice, all of them legal and small enough for a device.
class RecordedShapes {
 public:
  explicit RecordedShapes(const contract::Contract& contract) : contract_(contract) {}

  // Those that the contract lists.
  std::vector<contract::Shape> listed();
  // Corners, each dim alone at its ends, ordinary numbers, numbers about multiples of likely tiles, and the
  // whole range evenly by magnitude.
  std::vector<contract::Shape> some(int count, uint64_t seed);
  // The largest that a device holds, and those where 31 and 32 bits end.
  std::vector<contract::Shape> giant();
  // About the constants of the code, where host code may take another path: each dim alone, the others small or
  // ordinary; and two dims together.
  std::vector<contract::Shape> about(const SizeConstants& constants);
  // Every shape, where there are at most so many, or where the contract promises those that it lists alone.
  std::vector<contract::Shape> all(int64_t most) const;
  bool fits(const contract::Shape& shape) const;

 private:
  const contract::Contract& contract_;
  std::set<contract::Shape> seen_;
};

// Whether a scalar can have more values than are recorded.
bool has_other_scalars(const contract::Contract& contract);

class Recorder {
 public:
  Recorder(const contract::Contract& contract, const subject::Subject& subject,
           const RelationOptions& options);

  // A call for each combination of the scalars that have few values, with some choices of the others and some alignments of
  // the tensors, and all of these with each choice of the optional tensors: what depends on a scalar differs between calls at
  // one shape that were given the same tensors, and so has no expression over the dims. Fewer calls where the shape could not
  // be recorded; `relation` says why.
  std::vector<RecordedCall> record(const contract::Shape& shape, Relation& relation);

  // Why not every choice of the optional tensors, or of the scalars that have few values, can be recorded; empty: it can.
  std::string problem() const;

 private:
  std::optional<RecordedCall> record(const contract::Shape& shape, Relation& relation, size_t listed,
                                     size_t choice, uint64_t alignment, size_t given);

  const contract::Contract& contract_;
  subject::Runner runner_;
  std::vector<std::string> optional_;                             // by presence_of()
  std::vector<const contract::ScalarSpec*> listed_{}, ranges_{};  // each value of the former is tried
  size_t combinations_ = 1;                                       // of their values, or more than are tried
};

}  // namespace assay::prove
