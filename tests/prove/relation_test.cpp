// Calls held against the launch relation: what deviates, and what becomes of the proofs then.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "kernel.h"
#include "prove/launch_log.h"

namespace assay::prove::testing {
namespace {

using protocol::RecordedCopyEvent;
using protocol::RecordedFillEvent;
using protocol::RecordedLaunchEvent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// y may lie in x; a and b may be at one address.
contract::Contract contract_with_alias() {
  auto contract = contract::parse(R"([kernel]
source = "k.ptx"
global = "k"
args = ["x", "y", "b", "n"]
grid = [1]
block = [1]
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.b]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
may_alias = "x"
[reference]
formula = "y[i] = x[i] + b[i]"
)",
                                  "test.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  return *contract;
}

// Fills y, then k<<<ceil_div(n, 256), 256>>>(x, y, n), where n is at least 2; otherwise nothing.
Relation relation() {
  Launch launch;
  launch.kernel = "k";
  launch.when = {{Condition::Kind::AtLeast, "n", 2}};
  launch.grid[0] = expr("ceil_div(n, 256)");
  launch.block[0] = expr("256");
  for (size_t axis : {1, 2}) launch.grid[axis] = launch.block[axis] = expr("1");
  launch.dynamic_shared = expr("0");
  launch.parameter_bytes = 24;
  launch.pointers = {{0, {"x", expr("0")}}, {8, {"y", expr("0")}}};
  launch.words = {{16, expr("n")}};
  launch.pairs = {{16, expr("n")}};
  Relation relation;
  Case working, idle;
  working.when = launch.when;
  working.launches = {launch};
  working.fills = {{"y", expr("0"), expr("4 * n")}};
  working.filled = {"y"};
  idle.when = {{Condition::Kind::AtMost, "n", 1}};
  relation.cases = {working, idle};
  return relation;
}

RecordedLaunchEvent launch_at(int64_t n) {
  RecordedLaunchEvent event;
  event.kernel = "k";
  event.grid[0] = static_cast<uint32_t>((n + 255) / 256);
  event.block[0] = 256;
  event.words = {0, 0, 0, 0, static_cast<uint32_t>(n), 0};
  event.pointers = {{0, {"x", 0, false}}, {8, {"y", 0, false}}};
  return event;
}

RecordedFillEvent fill_at(int64_t n) {
  return {{"y", 0, false}, static_cast<uint64_t>(4 * n), 1};
}

std::string deviates(const RecordedCall& call) {
  const std::string how = deviation(relation(), call);
  // What another process reads back says the same.
  const auto copy = relation_from_json(to_json(relation()));
  EXPECT_TRUE(copy);
  EXPECT_EQ(deviation(*copy, call), how);
  return how;
}

RecordedCall call_at(int64_t n) {
  return {{{"n", n}}, {fill_at(n), launch_at(n)}};
}

TEST(Relation, a_call_as_it_says_does_not_deviate) {
  EXPECT_EQ(deviates(call_at(1000)), "");
  EXPECT_EQ(deviates({{{"n", 1}}, {}}), "");
}

TEST(Relation, the_part_that_deviates_is_named) {
  const auto changed = [](const std::function<void(RecordedLaunchEvent&)>& change) {
    RecordedCall call = call_at(1000);
    change(std::get<RecordedLaunchEvent>(call.operations[1]));
    return deviates(call);
  };
  EXPECT_EQ(changed([](auto& e) { e.grid[0] = 5; }), "grid.x of k is 5, not ceil_div(n, 256) = 4");
  EXPECT_EQ(changed([](auto& e) { e.grid[1] = 2; }), "grid.y of k is 2, not 1");
  EXPECT_EQ(changed([](auto& e) { e.block[0] = 128; }), "block.x of k is 128, not 256");
  EXPECT_EQ(changed([](auto& e) { e.dynamic_shared = 64; }), "dynamic shared memory of k is 64, not 0");
  EXPECT_EQ(changed([](auto& e) { e.words[4] = 999; }), "parameter 16 of k is 999, not n = 1000");
  EXPECT_EQ(changed([](auto& e) { e.words[5] = 1; }), "parameter 16 of k is 4294968296, not n = 1000");
  EXPECT_EQ(changed([](auto& e) { e.pointers[0].to.label = "b"; }), "parameter 0 of k -> b, not x");
  EXPECT_THAT(changed([](auto& e) { e.pointers[1].to.offset += 4; }),
              HasSubstr("parameter 8 of k is 4, not 0"));
  EXPECT_THAT(changed([](auto& e) { e.pointers.pop_back(); }), HasSubstr("not a device address"));
  EXPECT_THAT(changed([](auto& e) { e.kernel = "other"; }), HasSubstr("other is launched"));
  EXPECT_THAT(changed([](auto& e) { e.cooperative = true; }), HasSubstr("is launched differently"));
  EXPECT_THAT(changed([](auto& e) { e.cluster[0] = 2; }), HasSubstr("clusters"));
  EXPECT_THAT(changed([](auto& e) { e.static_shared = 8; }), HasSubstr("shared memory"));
  EXPECT_THAT(changed([](auto& e) { e.words.push_back(0); }), HasSubstr("different parameters"));
}

TEST(Relation, what_is_missing_or_more_deviates) {
  EXPECT_THAT(deviates({{{"n", 1000}}, {}}), HasSubstr("only if n <= 1"));
  EXPECT_THAT(deviates({{{"n", 1}}, {fill_at(1), launch_at(1)}}), HasSubstr("only if n >= 2"));
  EXPECT_THAT(deviates({{{"n", 1000}}, {launch_at(1000)}}), HasSubstr("y is not filled"));
  EXPECT_THAT(deviates({{{"n", 1000}}, {fill_at(1000), fill_at(1000), launch_at(1000)}}),
              HasSubstr("y is filled or copied to as well"));
  EXPECT_THAT(deviates({{{"n", 1000}}, {fill_at(999), launch_at(1000)}}),
              HasSubstr("bytes of the fill of y is 3996, not 4 * n = 4000"));
  EXPECT_THAT(deviates({{{"n", 1000}}, {fill_at(1000), launch_at(1000), launch_at(1000)}}),
              HasSubstr("k, k are launched"));
  EXPECT_THAT(
      deviates({{{"n", 1000}},
                {fill_at(1000), launch_at(1000), RecordedCopyEvent{{"", 0, true}, {"y", 0, false}, 4, 1}}}),
      HasSubstr("read back"));
}

TEST(Relation, text_that_is_none_is_an_error) {
  EXPECT_FALSE(relation_from_json(Json::parse(R"([{"launches": 3}])")));
  EXPECT_FALSE(relation_from_json(Json::parse(
      R"([{"when": [{"kind": 7, "dim": "n", "value": 1}], "launches": [], "fills": [], "filled": []}])")));
}

class Log : public ::testing::Test {
 protected:
  static trial::Trial trial_at(int64_t n) {
    trial::Trial trial;
    trial.shape = {{"n", n}};
    return trial;
  }

  // One CallEvent and what it asked for, for each of these.
  static subject::Observation seen(const std::vector<RecordedCall>& calls) {
    subject::Observation seen;
    for (const RecordedCall& call : calls) {
      seen.recorded.emplace_back(protocol::CallEvent{});
      for (const Operation& operation : call.operations)
        std::visit([&](const auto& event) { seen.recorded.emplace_back(event); }, operation);
    }
    return seen;
  }

  static RecordedCall wide_call(int64_t n) {
    RecordedCall call = call_at(n);
    std::get<RecordedLaunchEvent>(call.operations[1]).grid[0] += 1;
    return call;
  }

  std::vector<std::string> deviations() const {
    std::vector<std::string> texts;
    for (const Deviation& one : log_.against(relation())) texts.push_back(one.text);
    return texts;
  }

  contract::Contract contract_ = contract_with_alias();
  LaunchLog log_{contract_};
};

TEST_F(Log, every_call_of_a_trial_counts) {
  log_.add(trial_at(1000), seen({call_at(1000), call_at(1000)}));
  EXPECT_EQ(log_.calls(), 1u);  // the same twice
  EXPECT_THAT(deviations(), IsEmpty());
  log_.add(trial_at(2000), seen({call_at(2000), wide_call(2000)}));
  EXPECT_THAT(deviations(), ElementsAre("at n=2000 grid.x of k is 9, not ceil_div(n, 256) = 8"));
}

TEST_F(Log, pointers_are_where_the_trial_has_placed_the_tensors) {
  for (contract::TensorSpec& tensor : contract_.tensors) tensor.align = 4;
  trial::Trial fresh = trial_at(1000), promised = trial_at(1000);
  fresh.condition.alignment = trial::kWellAligned;
  RecordedCall shifted = call_at(1000);
  std::get<RecordedFillEvent>(shifted.operations[0]).to.offset = 4;
  for (protocol::RecordedPointer& pointer : std::get<RecordedLaunchEvent>(shifted.operations[1]).pointers)
    pointer.to.offset = 4;
  log_.add(fresh, seen({call_at(1000)}));
  log_.add(promised, seen({shifted}));
  EXPECT_THAT(deviations(), IsEmpty());
  log_.add(fresh, seen({shifted}));
  EXPECT_THAT(deviations(), ElementsAre(HasSubstr("the offset of")));
}

TEST_F(Log, a_call_that_did_not_end_is_left_out) {
  subject::Observation crashed = seen({call_at(2000), {}});
  crashed.outcome = subject::CallOutcome::Crashed;
  log_.add(trial_at(2000), crashed);
  EXPECT_EQ(log_.calls(), 1u);
  subject::Observation flooded = seen({wide_call(2000)});
  flooded.recorded_left_out = true;
  log_.add(trial_at(2000), flooded);
  EXPECT_THAT(deviations(), IsEmpty());
}

TEST_F(Log, arrays_that_share_memory_are_told_apart_by_the_trial) {
  RecordedCall in_place = call_at(1000);
  std::get<RecordedFillEvent>(in_place.operations[0]).to.label = "x";
  std::get<RecordedLaunchEvent>(in_place.operations[1]).pointers[1].to.label = "x";
  trial::Trial trial = trial_at(1000);
  trial.condition.aliased = true;
  log_.add(trial, seen({in_place}));
  EXPECT_THAT(deviations(), IsEmpty());
  log_.add(trial_at(1000), seen({in_place}));
  EXPECT_EQ(deviations().size(), 1u);
}

Json proof() {
  Json proof = {{"verdict", "proved"}, {"relation", to_json(relation())}, {"assumptions", Json::array()}};
  proof["obligations"] = {{{"obligation", "bounds"}, {"status", "proved"}, {"reason", ""}},
                          {{"obligation", "race"}, {"status", "refuted"}, {"reason", "a run"}}};
  return proof;
}

TEST_F(Log, a_deviation_makes_proofs_void) {
  log_.add(trial_at(2000), seen({wide_call(2000)}));
  Json held = proof();
  log_.hold(held);
  EXPECT_EQ(held["verdict"], "unknown");
  EXPECT_EQ(held["obligations"][0]["status"], "unknown");
  EXPECT_EQ(held["obligations"][0]["reason"],
            "the launch relation does not hold: at n=2000 grid.x of k is 9, not ceil_div(n, 256) = 8");
  EXPECT_EQ(held["obligations"][1]["status"], "refuted");  // a run has shown it
  EXPECT_EQ(held["deviations"].size(), 1u);
}

TEST_F(Log, on_another_gpu_it_limits_them_to_one) {
  trial::Trial trial = trial_at(2000);
  trial.condition.gpu = 2;
  log_.add(trial, seen({wide_call(2000)}));
  Json held = proof();
  log_.hold(held);
  EXPECT_EQ(held["obligations"][0]["status"], "proved");
  EXPECT_THAT(held["gpu"].get<std::string>(), HasSubstr("H200"));
  EXPECT_THAT(held["assumptions"][0].get<std::string>(), HasSubstr("H20 "));
  EXPECT_FALSE(held.contains("deviations"));
}

TEST_F(Log, without_a_deviation_a_proof_stays_as_it_is) {
  log_.add(trial_at(2000), seen({call_at(2000)}));
  Json held = proof();
  log_.hold(held);
  EXPECT_EQ(held, proof());
}

}  // namespace
}  // namespace assay::prove::testing
