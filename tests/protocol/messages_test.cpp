#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "protocol/fields.h"
#include "protocol/lines.h"
#include "protocol/protocol.h"
#include "support.h"

namespace assay::protocol {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(Messages, SurviveTheTrip) {
  EXPECT_EQ(*decode_worker_setup(encode(full_setup())), full_setup());
  EXPECT_EQ(*decode_request(encode(full_request())), full_request());
  EXPECT_EQ(*decode_reply(encode(full_reply())), full_reply());
  EXPECT_EQ(*decode_sample_request(encode(*full_request().sample)), *full_request().sample);
  EXPECT_EQ(*decode_sample_report(encode(*full_reply().sample)), *full_reply().sample);
  const Ready ready{
      .problem = "the subject has no function k", .subject_failed = true, .files_guarded = true};
  EXPECT_EQ(*decode_ready(encode(ready)), ready);
}

TEST(Messages, BuildingIsToldFromEveryOtherMessage) {
  EXPECT_EQ(decode_building(encode(Building{true})), Building{true});
  EXPECT_EQ(decode_building(encode(Building{false})), Building{false});
  for (const std::string& line : {encode(full_reply()), encode(Ready{}), std::string("{\"building\": 1}"),
                                  std::string("{\"building\": true, \"id\": 1}"), std::string("nothing")})
    EXPECT_EQ(decode_building(line), std::nullopt) << line;
}

TEST(Messages, AreOneLine) {
  for (const std::string& line : {encode(full_setup()), encode(full_request()), encode(full_reply())})
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST(Messages, TextThatIsNoUtf8IsReplaced) {
  Reply reply = full_reply();
  reply.failure->text = "\xff\xfe";
  const auto read = decode_reply(encode(reply));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->failure->text, "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Messages, OfAnotherVersionAreRefused) {
  Json setup = Json::parse(encode(full_setup())), ready = Json::parse(encode(Ready{}));
  setup["version"] = ready["version"] = kVersion + 1;
  EXPECT_THAT(decode_worker_setup(setup.dump()).error().text(), HasSubstr("version"));
  // Nobody is to blame for that: the worker of another build is no failure of the subject.
  const auto other = decode_ready(ready.dump());
  ASSERT_TRUE(other);
  EXPECT_THAT(other->problem, HasSubstr("version"));
  EXPECT_FALSE(other->subject_failed);
}

// Every field of a message, replaced by a value of each other type, and removed.
template <class Decode>
void expect_refused_when_damaged(const std::string& line, Decode decode,
                                 std::set<std::string> optional = {}) {
  const Json good = Json::parse(line);
  ASSERT_TRUE(decode(line)) << line;
  const Json leaves = good.flatten();
  for (const auto& pointer : leaves.items()) {
    const Json::json_pointer place(pointer.key());
    for (const Json& other :
         {Json("text"), Json(-7), Json(1.5), Json(true), Json(nullptr), Json::array({Json::object()}),
          Json::object(), Json(std::string(100000, 'x'))}) {
      const bool same_type = other.type() == good[place].type() ||
                             (other.is_number_integer() && good[place].is_number_integer()) ||
                             (other.is_number() && good[place].is_number_float());
      const bool too_long = other.is_string() && other.get<std::string>().size() > kLongestText;
      if (same_type && !too_long) continue;
      Json bad = good;
      bad[place] = other;
      EXPECT_FALSE(decode(bad.dump())) << pointer.key() << " = " << other.dump().substr(0, 80);
    }
  }
  for (const auto& [name, value] : good.items()) {
    Json bad = good;
    bad.erase(name);
    EXPECT_EQ(static_cast<bool>(decode(bad.dump())), optional.contains(name)) << name;
  }
}

TEST(Messages, AWrongTypeOrAMissingFieldIsRefused) {
  expect_refused_when_damaged(encode(full_setup()), decode_worker_setup);
  expect_refused_when_damaged(encode(Ready{.problem = "p"}), decode_ready);
  expect_refused_when_damaged(encode(full_request()), decode_request, {"sample", "load"});
  expect_refused_when_damaged(encode(full_reply()), decode_reply,
                              {"failure", "python", "sample", "load", "gone_on"});
  expect_refused_when_damaged(encode(*full_request().sample), decode_sample_request);
  expect_refused_when_damaged(encode(*full_reply().sample), decode_sample_report);
}

TEST(Messages, SomethingElseThanAnObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "7", "null", "\"text\"", "{} {}"})
    EXPECT_FALSE(decode_reply(text)) << text;
}

TEST(Messages, ARequestStaysInsideItsMemory) {
  const auto refused = [](auto change) {
    Request request = full_request();
    change(request.calls[1]);
    return !decode_request(encode(request));
  };
  EXPECT_FALSE(refused([](CallRequest&) {}));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[0].in = 16384 - 4095; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[0].out = -1; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[0].bytes = std::numeric_limits<int64_t>::max(); }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[0].length = 4095; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[0].parts[0] = {4000, 97}; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[2].made->table_bytes = 16384 - 4095; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[2].made->room = 12289; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[2].made->item = 9; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers[0].shares = 3; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.arguments[0] = BufferArgument{3}; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.arguments[0] = BufferArgument{-1}; }));
  EXPECT_TRUE(refused([](CallRequest& c) { std::get<ScalarArgument>(c.arguments[2]).bytes = 3; }));
  EXPECT_TRUE(refused([](CallRequest& c) { c.buffers.resize(1001, c.buffers[0]); }));
}

TEST(Messages, DamagedOnesNeverCrash) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const auto request = decode_request(mutated(encode(full_request()), random));
    for (const CallRequest& call : request ? request->calls : std::vector<CallRequest>{})
      for (const BufferRequest& buffer : call.buffers)
        ASSERT_LE(buffer.in + (buffer.made ? 0 : buffer.bytes), request->memory_bytes);
    const auto reply = decode_reply(mutated(encode(full_reply()), random));
    ASSERT_TRUE(!reply || *decode_reply(encode(*reply)) == *reply);
    (void)decode_worker_setup(mutated(encode(full_setup()), random));
    (void)decode_ready(mutated(encode(Ready{.problem = "p"}), random));
  }
}

TEST(Lines, ComeWholeHoweverTheBytesArrive) {
  LineBuffer buffer;
  buffer.append("one\nt");
  EXPECT_EQ(buffer.take(), "one");
  EXPECT_EQ(buffer.take(), std::nullopt);
  buffer.append("wo\n\n");
  EXPECT_EQ(buffer.take(), "two");
  EXPECT_EQ(buffer.take(), "");
  EXPECT_TRUE(buffer.empty());
}

}  // namespace
}  // namespace assay::protocol
