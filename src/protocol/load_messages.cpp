#include "protocol/load_messages.h"

namespace assay::protocol {

namespace {

using Json = FieldReader::Json;

constexpr int kMostRepeats = 1000000;
constexpr double kMostSeconds = 1e6;
constexpr int64_t kMostOffset = int64_t{1} << 46;  // more than any machine has
constexpr std::size_t kMostBytesShown = 64;

Json json_of(const LoadDifference& difference) {
  return {{"call", difference.call},   {"buffer", difference.buffer}, {"offset", difference.offset},
          {"bytes", difference.bytes}, {"before", difference.before}, {"after", difference.after},
          {"how", difference.how}};
}

LoadDifference read_difference(FieldReader fields) {
  LoadDifference difference;
  difference.call = static_cast<int>(fields.integer("call", 0, 1));
  difference.buffer = fields.text("buffer", kLongestText);
  difference.offset = fields.integer("offset", 0, kMostOffset);
  difference.bytes = fields.integer("bytes", 0, kMostOffset);
  fields.integers("before", kMostBytesShown, 0, 255,
                  [&](int64_t value) { difference.before.push_back(static_cast<uint8_t>(value)); });
  fields.integers("after", kMostBytesShown, 0, 255,
                  [&](int64_t value) { difference.after.push_back(static_cast<uint8_t>(value)); });
  difference.how = fields.text("how", kLongestText);
  return difference;
}

int read_repeats(FieldReader& fields) {
  return static_cast<int>(fields.integer("repeats", 0, kMostRepeats));
}

}  // namespace

Json json_of(const LoadRequest& load) {
  return {{"seed", load.seed}, {"repeats", load.repeats}, {"seconds", load.seconds}, {"graph", load.graph}};
}

LoadRequest read_load(FieldReader fields) {
  LoadRequest load;
  load.seed = fields.unsigned_integer("seed");
  load.repeats = read_repeats(fields);
  load.seconds = fields.number("seconds");
  if (load.seconds < 0 || load.seconds > kMostSeconds) fields.fail("seconds", "is out of range");
  load.graph = fields.boolean("graph");
  return load;
}

Json json_of(const LoadReport& report) {
  Json json = {{"repeats", report.repeats}, {"no_graph", report.no_graph}};
  if (report.difference) json["difference"] = json_of(*report.difference);
  if (report.graph_difference) json["graph_difference"] = json_of(*report.graph_difference);
  return json;
}

LoadReport read_load_report(FieldReader fields) {
  LoadReport report;
  report.repeats = read_repeats(fields);
  report.no_graph = fields.text("no_graph", kLongestText);
  if (fields.has("difference")) report.difference = read_difference(fields.object("difference"));
  if (fields.has("graph_difference"))
    report.graph_difference = read_difference(fields.object("graph_difference"));
  return report;
}

Json json_of(const GoneOn& gone_on) {
  return {{"id", gone_on.id}, {"repeats", gone_on.repeats}, {"differs", gone_on.differs}};
}

GoneOn read_gone_on(FieldReader fields) {
  GoneOn gone_on;
  gone_on.id = fields.unsigned_integer("id");
  gone_on.repeats = read_repeats(fields);
  gone_on.differs = fields.boolean("differs");
  return gone_on;
}

}  // namespace assay::protocol
