// Where the error of a trial's outputs comes from: the trial once more, with shadow execution
// (shadow/shadow.h).
#pragma once

#include <chrono>
#include <optional>

#include "assayer/assayer.h"
#include "base/finding.h"

namespace assay::assayer {

// When it must be over; never, unless said.
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(double seconds)
      : at_(std::chrono::steady_clock::now() +
            std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds))) {}
  double left() const {  // seconds
    return at_ ? std::chrono::duration<double>(*at_ - std::chrono::steady_clock::now()).count() : 1e9;
  }

 private:
  using Duration = std::chrono::steady_clock::duration;
  std::optional<std::chrono::steady_clock::time_point> at_;
};

// The profile of a trial (shadow::to_json), its outputs those of the contract. Null where it cannot be told:
// another device, a call that fails, no lines.
Json precision_of(const contract::Contract& contract, const subject::Subject& subject,
                  const trial::Trial& trial, const CheckOptions& options, const Deadline& deadline = {});

// The same for a finding. One that is about infinities, of inputs that show nothing, is shown with large
// finite ones; `inputs` of the profile says so.
Json precision_of(const Finding& finding, const contract::Contract& contract, const subject::Subject& subject,
                  const trial::Trial& found, const trial::Trial& smallest, const CheckOptions& options,
                  const Deadline& deadline = {});

// A numeric finding gains the profile as evidence and, where the errors that the shadow saw explain what the
// judge saw, the line where most of the error enters. A line is accused only this way. A sum is not called
// narrow where nothing narrow was seen.
void accuse(const contract::Contract& contract, Finding& finding, const Json& profile);

// "97 % of the error of `dw` enters at file.cu:14 (atom.add.bf16): …"; empty when there is nothing to say.
std::string sentence(const Json& profile, const std::string& output);

// The profile of a contract's kernel at a shape (empty: one of the plan's), in words and as data.
struct Explanation {
  std::string problem;  // why there is none
  bool contract_wrong = false;
  trial::Trial trial;
  Json profile;
};
Explanation explain(const contract::Contract& contract, const contract::Shape& shape,
                    const CheckOptions& options);

}  // namespace assay::assayer
