// A trial once more, with shadow execution (shadow/shadow.h): where the error of its outputs comes from.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "assayer/assayer.h"
#include "finding/finding.h"

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

// The profile of a trial, its outputs those of the contract. Null where there is none: another device, a call
// that fails, no lines.
std::shared_ptr<const Profile> profile_of(const contract::Contract& contract, const subject::Subject& subject,
                                          const trial::Trial& trial, const CheckOptions& options,
                                          const Deadline& deadline = {});

// The same for a finding. One that is about infinities, of inputs that show nothing, is shown with large
// finite ones; `inputs` of the profile says so.
std::shared_ptr<const Profile> profile_of(const Finding& finding, const contract::Contract& contract,
                                          const subject::Subject& subject, const trial::Trial& found,
                                          const trial::Trial& smallest, const CheckOptions& options,
                                          const Deadline& deadline = {});

// With paths as the user would write them, for a report.
std::shared_ptr<const Profile> with_shown_paths(Profile profile);

// The profile of a contract's kernel at a shape (empty: one of the plan's).
struct Explanation {
  std::string problem;  // why there is none
  bool contract_wrong = false;
  trial::Trial trial;
  std::shared_ptr<const Profile> profile;
};
Explanation explain(const contract::Contract& contract, const contract::Shape& shape,
                    const CheckOptions& options);

}  // namespace assay::assayer
