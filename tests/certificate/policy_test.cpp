#include "certificate/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::certificate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

Certificate certificate() {
  Certificate made;
  made.contract = {"scale.toml", std::string(64, 'a'), {}};
  made.assay = "1.2.10";
  made.toolchain.arch = "sm_90";
  made.devices = {{"virtual", "", ""}};
  made.coverage = {{{"n", 1, 4096, 1, 65536}}, 90, 144, {}, {}, {}};
  made.proofs = {{"scale", "bounds", "proved"}, {"scale", "race", "proved"}, {"sum", "race", "unknown"}};
  made.warnings = {"biased-rounding"};
  made.created = "2026-11-16T12:00:00Z";
  return made;
}

// What of a policy the certificate does not meet, half a day after it was made.
std::vector<std::string> why(const std::string& text, const Certificate& made = certificate()) {
  const auto policy = parse_policy(text, "policy.toml");
  if (!policy) return {policy.error().text()};
  return unmet(*policy, made, *time_of("2026-11-17T00:00:00Z"));
}

TEST(Policy, MetDemands) {
  EXPECT_THAT(why(R"(
devices = ["virtual"]
architectures = ["sm_100", "sm_90"]
contracts = ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
proofs = ["bounds"]
max_age_days = 1
min_assay = "1.2.9"
min_trials = 90
training = false
allow_warnings = true
[dims]
n = { min = 1, max = 4096 }
)"),
              IsEmpty());
  EXPECT_THAT(why(""), IsEmpty());
}

TEST(Policy, UnmetDemands) {
  EXPECT_THAT(why("devices = [\"virtual\", \"cuda\"]"), ElementsAre("not checked on the device `cuda`"));
  EXPECT_THAT(why("architectures = [\"sm_80\", \"sm_100\"]"),
              ElementsAre("built for sm_90; the policy requires sm_80 or sm_100"));
  EXPECT_THAT(why("contracts = [\"" + std::string(64, 'b') + "\"]"),
              ElementsAre("for the contract scale.toml (SHA-256 " + std::string(64, 'a') +
                          "), which the policy does not list"));
  EXPECT_THAT(why("proofs = [\"race\", \"values\"]"),
              ElementsAre("`race` is not proved for sum", "there is no proof of `values`"));
  EXPECT_THAT(why("max_age_days = 0.25"),
              ElementsAre("made 0.5 days ago; at most 0.25 are allowed: certify again"));
  EXPECT_THAT(why("min_assay = \"1.3.0\""),
              ElementsAre("made by Assay 1.2.10; the policy requires 1.3.0 or newer"));
  EXPECT_THAT(why("min_trials = 91"), ElementsAre("90 trials; the policy requires 91"));
  EXPECT_THAT(why("training = true"), ElementsAre("there was no training run"));
  EXPECT_THAT(why("allow_warnings = false"), ElementsAre("the check had warnings: biased-rounding"));
  EXPECT_THAT(why("[dims]\nn = { max = 8192 }\nk = { min = 1 }"),
              ElementsAre("n was tried from 1 to 4096; the policy requires up to 8192",
                          "the contract has no dim `k`"));
  EXPECT_THAT(why("[dims]\nn = { min = 0 }"),
              ElementsAre("n was tried from 1 to 4096; the policy requires from 0"));
}

TEST(Policy, AVerdictOtherThanPassIsNeverEnough) {
  Certificate failed = certificate();
  failed.verdict = "fail";
  EXPECT_THAT(why("", failed), ElementsAre("the verdict is `fail`"));
}

TEST(Policy, Clocks) {
  Certificate made = certificate();
  made.created = "2026-11-17T00:30:00Z";  // another machine's clock
  EXPECT_THAT(why("max_age_days = 1", made), IsEmpty());
  made.created = "2026-11-18T00:00:00Z";
  EXPECT_THAT(why("max_age_days = 1", made), ElementsAre("dated in the future: 2026-11-18T00:00:00Z"));
  made.created = "yesterday";
  EXPECT_THAT(why("max_age_days = 1", made), ElementsAre("its time, `yesterday`, cannot be read"));
  EXPECT_EQ(time_text(*time_of("2026-02-28T23:59:59Z")), "2026-02-28T23:59:59Z");
}

TEST(Policy, MistakesHaveAPlace) {
  EXPECT_THAT(why("\ndevice = []"),
              ElementsAre("policy.toml:2:1: a policy has no key `device`; did you mean `devices`?"));
  EXPECT_THAT(why("devices = [\"gpu\"]"),
              ElementsAre("policy.toml:1:11: `gpu` is not a device; use \"virtual\" or \"cuda\""));
  EXPECT_THAT(why("proofs = \"race\""), ElementsAre("policy.toml:1:10: `proofs` must be a list of strings"));
  EXPECT_THAT(why("min_trials = -1"),
              ElementsAre("policy.toml:1:14: `min_trials` must be a whole number, not negative"));
  EXPECT_THAT(why("min_assay = \"new\""),
              ElementsAre("policy.toml:1:13: `min_assay` must be a version such as \"0.1.0\""));
  EXPECT_THAT(why("max_age_days = \"1\""), ElementsAre("policy.toml:1:16: `max_age_days` must be a number"));
  EXPECT_THAT(why("max_age_days = -1"), ElementsAre("policy.toml:1:16: `max_age_days` must not be negative"));
  EXPECT_THAT(why("max_age_days = nan"), Not(IsEmpty()));
  EXPECT_THAT(why("training = 1"), ElementsAre("policy.toml:1:12: `training` must be true or false"));
  EXPECT_THAT(why("contracts = [\"ab\"]"),
              ElementsAre("policy.toml:1:13: `contracts` lists SHA-256 digests: 64 hexadecimal digits each"));
  EXPECT_THAT(why("dims = 3"), ElementsAre("policy.toml:1:8: `dims` must be a table"));
  EXPECT_THAT(why("[dims]\nn = 3"),
              ElementsAre("policy.toml:2:5: `n` must be a table: { min = 1, max = 4096 }"));
  EXPECT_THAT(why("[dims]\nn = { from = 3 }"),
              ElementsAre("policy.toml:2:7: a dim takes `min` and `max`, whole numbers"));
}

}  // namespace
}  // namespace assay::certificate
