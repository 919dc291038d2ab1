#include "protocol/messages.h"

#include <limits>

#include "base/gpus.h"
#include "protocol/fields.h"
#include "protocol/load_messages.h"
#include "protocol/protocol.h"

namespace assay::protocol {

namespace {

using Json = FieldReader::Json;

constexpr std::size_t kMostCalls = 2;
constexpr std::size_t kMostBuffers = 1000, kMostArguments = 1000, kMostParts = 100000;
constexpr int64_t kMostBytes = int64_t{1} << 46;  // more than any machine has
constexpr int kMostEarlierCalls = 100000;
constexpr std::size_t kMostExtents = 64, kMostHidden = 1000;
constexpr std::size_t kMostShares = 1000, kMostLaunches = 10000, kMostWrites = 1000;
constexpr std::size_t kMostWanted = 1000, kMostPieces = 1 << 16;
constexpr int64_t kMostInteger = std::numeric_limits<int64_t>::max();
constexpr double kMostSampleSeconds = 1e6;
constexpr std::string_view kBuilding = "building";

Json json_of(const GeneratedBuffer& made) {
  return {{"table", made.table}, {"table_bytes", made.table_bytes}, {"item", made.item},
          {"seed", made.seed},   {"last_value", made.last_value},   {"last_index", made.last_index},
          {"room", made.room}};
}

Json json_of(const SampleRequest& sample) {
  return {{"seed", sample.seed},
          {"blocks", sample.blocks},
          {"seconds", sample.seconds},
          {"shares", sample.shares},
          {"wanted", sample.wanted}};
}

Json json_of(const BufferRequest& buffer) {
  Json json = {{"name", buffer.name},
               {"bytes", buffer.bytes},
               {"offset", buffer.offset},
               {"length", buffer.length},
               {"in", buffer.in},
               {"out", buffer.out},
               {"is_input", buffer.is_input},
               {"is_read_only", buffer.is_read_only},
               {"is_result", buffer.is_result},
               {"shares", buffer.shares},
               {"parts", [&] {
                  Json parts = Json::array();
                  for (const auto& [from, length] : buffer.parts)
                    parts.push_back({{"from", from}, {"length", length}});
                  return parts;
                }()}};
  if (buffer.made) json["made"] = json_of(*buffer.made);
  if (!buffer.pointers.empty()) json["pointers"] = buffer.pointers;
  return json;
}

Json json_of(const Argument& argument) {
  if (const auto* buffer = std::get_if<BufferArgument>(&argument))
    return {{"buffer", buffer->buffer}, {"dtype", buffer->dtype}, {"extents", buffer->extents}};
  if (const auto* scalar = std::get_if<ScalarArgument>(&argument))
    return {{"bytes", scalar->bytes},
            {"bits", scalar->bits},
            {"is_float", scalar->is_float},
            {"is_signed", scalar->is_signed},
            {"dtype", scalar->dtype}};
  return {{"stream", true}};
}

Json json_of(const CallRequest& call) {
  Json buffers = Json::array(), arguments = Json::array(), returned = Json::array();
  for (const BufferRequest& buffer : call.buffers) buffers.push_back(json_of(buffer));
  for (const Argument& argument : call.arguments) arguments.push_back(json_of(argument));
  for (const BufferArgument& output : call.returned) returned.push_back(json_of(Argument(output)));
  Json json = {{"buffers", buffers}, {"arguments", arguments}, {"returned", returned}};
  if (call.launch)
    json["launch"] = {{"grid", call.launch->grid},
                      {"block", call.launch->block},
                      {"shared_bytes", call.launch->shared_bytes}};
  return json;
}

GeneratedBuffer read_made(FieldReader fields, int64_t memory_bytes, int64_t out) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  GeneratedBuffer made;
  made.table = fields.integer("table", 0, memory_bytes);
  made.table_bytes = fields.integer("table_bytes", 0, memory_bytes - made.table);
  made.item = static_cast<int>(fields.integer("item", 1, 8));
  made.seed = fields.unsigned_integer("seed");
  made.last_value = fields.integer("last_value", 0, kMost);
  made.last_index = fields.integer("last_index", 0, kMost);
  made.room = fields.integer("room", 0, memory_bytes - out);
  return made;
}

BufferRequest read_buffer(FieldReader& fields, int64_t memory_bytes, std::size_t buffers) {
  BufferRequest buffer;
  buffer.name = fields.text("name", kLongestText);
  buffer.bytes = fields.integer("bytes", 1, kMostBytes);
  buffer.offset = fields.integer("offset", 0, buffer.bytes);
  buffer.length = fields.integer("length", 0, buffer.bytes - buffer.offset);
  // What is not copied is not in the file.
  const int64_t copied = fields.has("made") ? 0 : buffer.bytes;
  buffer.in = fields.integer("in", 0, memory_bytes - copied);
  buffer.out = fields.integer("out", 0, memory_bytes - copied);
  buffer.is_input = fields.boolean("is_input");
  buffer.is_read_only = fields.boolean("is_read_only");
  buffer.is_result = fields.boolean("is_result");
  buffer.shares = static_cast<int>(fields.integer("shares", -1, static_cast<int64_t>(buffers) - 1));
  fields.objects("parts", kMostParts, [&](FieldReader& part) {
    const int64_t from = part.integer("from", 0, buffer.bytes);
    buffer.parts.emplace_back(from, part.integer("length", 0, buffer.bytes - from));
  });
  if (fields.has("made")) buffer.made = read_made(fields.object("made"), memory_bytes, buffer.out);
  if (fields.has("pointers"))
    fields.integers("pointers", static_cast<std::size_t>(buffer.length) / sizeof(uint64_t), 0,
                    static_cast<int64_t>(buffers) - 1,
                    [&](int64_t which) { buffer.pointers.push_back(static_cast<int>(which)); });
  return buffer;
}

Argument read_argument(FieldReader& fields, std::size_t buffers) {
  if (fields.has("stream")) {
    if (!fields.boolean("stream")) fields.fail("stream", "is not true");
    return StreamArgument{};
  }
  if (fields.has("buffer")) {
    BufferArgument buffer;
    buffer.buffer = static_cast<int>(fields.integer("buffer", 0, static_cast<int64_t>(buffers) - 1));
    buffer.dtype = fields.text("dtype", kLongestText);
    fields.integers("extents", kMostExtents, 0, kMostBytes,
                    [&](int64_t extent) { buffer.extents.push_back(extent); });
    return buffer;
  }
  ScalarArgument scalar;
  scalar.bytes = static_cast<int>(fields.integer("bytes", 1, 8));
  if ((scalar.bytes & (scalar.bytes - 1)) != 0) fields.fail("bytes", "is not a power of two");
  scalar.bits = fields.unsigned_integer("bits");
  scalar.is_float = fields.boolean("is_float");
  scalar.is_signed = fields.boolean("is_signed");
  scalar.dtype = fields.text("dtype", kLongestText);
  return scalar;
}

void read_extents(FieldReader& fields, const char* name, std::array<uint32_t, 3>& extents) {
  std::size_t i = 0;
  fields.integers(name, 3, 0, std::numeric_limits<uint32_t>::max(),
                  [&](int64_t n) { extents[i++] = static_cast<uint32_t>(n); });
  if (i != 3) fields.fail(name, "does not have three elements");
}

CallRequest read_call(FieldReader& fields, int64_t memory_bytes) {
  CallRequest call;
  const std::size_t count = fields.raw("buffers").size();
  fields.objects("buffers", kMostBuffers, [&](FieldReader& buffer) {
    call.buffers.push_back(read_buffer(buffer, memory_bytes, count));
  });
  fields.objects("arguments", kMostArguments,
                 [&](FieldReader& argument) { call.arguments.push_back(read_argument(argument, count)); });
  fields.objects("returned", kMostArguments, [&](FieldReader& output) {
    const Argument argument = read_argument(output, count);
    if (const auto* buffer = std::get_if<BufferArgument>(&argument))
      call.returned.push_back(*buffer);
    else
      output.fail("buffer", "is not there");
  });
  if (!fields.has("launch")) return call;
  FieldReader launch = fields.object("launch");
  LaunchShape& shape = call.launch.emplace();
  read_extents(launch, "grid", shape.grid);
  read_extents(launch, "block", shape.block);
  shape.shared_bytes = launch.unsigned_integer("shared_bytes");
  return call;
}

}  // namespace

std::string encode(const WorkerSetup& setup) {
  return line_of({{"version", kVersion},
                  {"real_gpu", setup.real_gpu},
                  {"folder", setup.folder},
                  {"is_ptx", setup.is_ptx},
                  {"path", setup.path},
                  {"symbol", setup.symbol},
                  {"is_kernel", setup.is_kernel},
                  {"returns_int", setup.returns_int},
                  {"is_witnessed", setup.is_witnessed},
                  {"clock", setup.clock},
                  {"gpu", setup.gpu},
                  {"other_code", setup.other_code},
                  {"is_python", setup.is_python},
                  {"returns_outputs", setup.returns_outputs},
                  {"default_stream", setup.default_stream},
                  {"build_folder", setup.build_folder},
                  {"hidden", setup.hidden}});
}

Result<WorkerSetup> decode_worker_setup(std::string_view line) {
  FieldReader fields(line, "the worker's setup");
  fields.check_version();
  WorkerSetup setup;
  setup.real_gpu = fields.boolean("real_gpu");
  setup.folder = fields.text("folder", kLongestText);
  setup.is_ptx = fields.boolean("is_ptx");
  setup.path = fields.text("path", kLongestText);
  setup.symbol = fields.text("symbol", kLongestText);
  setup.is_kernel = fields.boolean("is_kernel");
  setup.returns_int = fields.boolean("returns_int");
  setup.is_witnessed = fields.boolean("is_witnessed");
  setup.clock =
      fields.integer("clock", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  setup.gpu = static_cast<int>(fields.integer("gpu", 0, static_cast<int64_t>(std::size(kGpus)) - 1));
  setup.other_code = fields.text("other_code", kLongestText);
  setup.is_python = fields.boolean("is_python");
  setup.returns_outputs = fields.boolean("returns_outputs");
  setup.default_stream = fields.boolean("default_stream");
  setup.build_folder = fields.text("build_folder", kLongestText);
  fields.texts("hidden", kMostHidden, kLongestText,
               [&](const std::string& path) { setup.hidden.push_back(path); });
  if (fields.failed()) return fields.error();
  return setup;
}

std::string encode(const Ready& ready) {
  return line_of({{"version", kVersion},
                  {"problem", ready.problem},
                  {"subject_failed", ready.subject_failed},
                  {"files_guarded", ready.files_guarded}});
}

Result<Ready> decode_ready(std::string_view line) {
  FieldReader fields(line, "the worker's first message");
  Ready ready;
  if (const std::string other = fields.other_version(); !other.empty()) {  // no fault of the subject
    ready.problem = "the worker's first message " + other;
    return ready;
  }
  ready.problem = fields.text("problem", kLongestText);
  ready.subject_failed = fields.boolean("subject_failed");
  ready.files_guarded = fields.boolean("files_guarded");
  if (fields.failed()) return fields.error();
  return ready;
}

std::string encode(const Request& request) {
  Json calls = Json::array();
  for (const CallRequest& call : request.calls) calls.push_back(json_of(call));
  Json json = {{"id", request.id},
               {"memory_bytes", request.memory_bytes},
               {"seed", request.seed},
               {"ordered", request.ordered},
               {"others_late", request.others_late},
               {"guard_begin", request.guard_begin},
               {"moved", request.moved},
               {"cycles", request.cycles},
               {"shift", request.shift},
               {"host_poison", request.host_poison},
               {"new_content", request.new_content},
               {"earlier_calls", request.earlier_calls},
               {"goes_on", request.goes_on},
               {"calls", calls}};
  if (request.sample) json["sample"] = json_of(*request.sample);
  if (request.load) json["load"] = json_of(*request.load);
  return line_of(json);
}

namespace {

SampleRequest read_sample(FieldReader fields) {
  SampleRequest sample;
  sample.seed = fields.unsigned_integer("seed");
  sample.blocks = fields.unsigned_integer("blocks");
  sample.seconds = fields.number("seconds");
  if (sample.seconds < 0 || sample.seconds > kMostSampleSeconds) fields.fail("seconds", "is out of range");
  fields.numbers("shares", kMostShares, [&](double share) { sample.shares.push_back(share); });
  fields.integers("wanted", kMostWanted, 0, kMostInteger,
                  [&](int64_t block) { sample.wanted.push_back(static_cast<uint64_t>(block)); });
  return sample;
}

// Eight numbers for each piece; one that is of no buffer names the one behind the last.
constexpr std::size_t kNumbersOfAPiece = 8;

Json json_of(const std::vector<BlockPiece>& pieces, std::size_t buffers) {
  Json numbers = Json::array();
  for (const BlockPiece& piece : pieces)
    for (const uint64_t number : {piece.block, uint64_t{piece.writes.value_or(buffers)}, piece.offset,
                                  piece.length, piece.stride, piece.count, piece.stride2, piece.count2})
      numbers.push_back(number);
  return numbers;
}

std::vector<BlockPiece> read_pieces(FieldReader& fields, std::size_t buffers) {
  std::vector<uint64_t> numbers;
  fields.integers("pieces", kNumbersOfAPiece * kMostPieces, 0, kMostInteger,
                  [&](int64_t number) { numbers.push_back(static_cast<uint64_t>(number)); });
  std::vector<BlockPiece> pieces;
  if (numbers.size() % kNumbersOfAPiece != 0) fields.fail("pieces", "has a piece that is not whole");
  for (std::size_t i = 0; i + kNumbersOfAPiece <= numbers.size(); i += kNumbersOfAPiece) {
    const uint64_t* n = numbers.data() + i;
    if (n[1] > buffers) fields.fail("pieces", "names a buffer that there is not");
    pieces.push_back(
        {n[0], n[1] < buffers ? std::optional(n[1]) : std::nullopt, n[2], n[3], n[4], n[5], n[6], n[7]});
  }
  return pieces;
}

Json json_of(const SampleReport& report) {
  Json launches = Json::array();
  for (const SampledLaunch& launch : report.launches) {
    Json writes = Json::array();
    for (const SampledWrites& one : launch.writes)
      writes.push_back({{"buffer", one.buffer},
                        {"writers", one.writers},
                        {"least", one.least},
                        {"most", one.most},
                        {"sum", one.sum},
                        {"distinct", one.distinct},
                        {"whole", one.whole}});
    Json json = {{"kernel", launch.kernel},
                 {"blocks", launch.blocks},
                 {"run", launch.run},
                 {"left_out", launch.left_out},
                 {"grid", launch.grid},
                 {"writes", writes},
                 {"pieces", json_of(launch.pieces, launch.writes.size())}};
    Json endless = Json::array();  // of one, at most
    if (launch.endless)
      endless.push_back(
          {{"file", launch.endless->file}, {"line", launch.endless->line}, {"wraps", launch.endless->wraps}});
    json["endless"] = std::move(endless);
    launches.push_back(std::move(json));
  }
  Json unwritten = Json::array();
  for (const UnwrittenPlace& place : report.unwritten)
    unwritten.push_back({{"buffer", place.buffer}, {"offset", place.offset}});
  return {{"ended", report.ended},
          {"launches", launches},
          {"reduced", report.reduced},
          {"all_run", report.all_run},
          {"unwritten", unwritten}};
}

SampleReport read_report(FieldReader& fields) {
  SampleReport report;
  report.all_run = fields.boolean("all_run");
  fields.objects("unwritten", kMostWrites, [&](FieldReader& one) {
    UnwrittenPlace place;
    place.buffer = one.text("buffer", kLongestText);
    place.offset = one.unsigned_integer("offset", kMostBytes);
    report.unwritten.push_back(std::move(place));
  });
  report.ended = fields.text("ended", kLongestText);
  fields.objects("launches", kMostLaunches, [&](FieldReader& one) {
    SampledLaunch launch;
    launch.kernel = one.text("kernel", kLongestText);
    launch.blocks = one.unsigned_integer("blocks");
    launch.run = one.unsigned_integer("run", launch.blocks);
    launch.left_out = one.unsigned_integer("left_out");
    one.objects("endless", 1, [&](FieldReader& item) {
      EndlessLoop loop;
      loop.file = item.text("file", kLongestText);
      loop.line = static_cast<int>(item.unsigned_integer("line", INT32_MAX));
      loop.wraps = item.boolean("wraps");
      launch.endless = std::move(loop);
    });
    one.objects("writes", kMostWrites, [&](FieldReader& item) {
      SampledWrites writes;
      writes.buffer = item.text("buffer", kLongestText);
      writes.writers = item.unsigned_integer("writers", launch.run);
      writes.least = item.unsigned_integer("least");
      writes.most = item.unsigned_integer("most");
      writes.sum = item.unsigned_integer("sum");
      writes.distinct = item.unsigned_integer("distinct", writes.sum);
      writes.whole = item.unsigned_integer("whole");
      launch.writes.push_back(std::move(writes));
    });
    std::size_t axis = 0;
    one.integers("grid", launch.grid.size(), 0, UINT32_MAX,
                 [&](int64_t extent) { launch.grid[axis++] = static_cast<uint64_t>(extent); });
    if (axis != launch.grid.size()) one.fail("grid", "lacks an axis");
    launch.pieces = read_pieces(one, launch.writes.size());
    report.launches.push_back(std::move(launch));
  });
  fields.texts("reduced", kMostWrites, kLongestText,
               [&](const std::string& buffer) { report.reduced.push_back(buffer); });
  return report;
}

}  // namespace

std::string encode(const SampleRequest& request) {
  return line_of(json_of(request));
}

Result<SampleRequest> decode_sample_request(std::string_view text) {
  FieldReader fields(text, "the request for a sample");
  SampleRequest request = read_sample(fields);
  if (fields.failed()) return fields.error();
  return request;
}

std::string encode(const SampleReport& report) {
  return line_of(json_of(report));
}

Result<SampleReport> decode_sample_report(std::string_view text) {
  FieldReader fields(text, "the report of a sample");
  SampleReport report = read_report(fields);
  if (fields.failed()) return fields.error();
  return report;
}

Result<Request> decode_request(std::string_view line) {
  FieldReader fields(line, "a request");
  Request request;
  request.id = fields.unsigned_integer("id");
  request.memory_bytes = fields.integer("memory_bytes", 0, kMostBytes);
  request.seed = fields.unsigned_integer("seed");
  request.ordered = fields.boolean("ordered");
  request.others_late = fields.boolean("others_late");
  request.guard_begin = fields.boolean("guard_begin");
  request.moved = fields.boolean("moved");
  request.cycles = fields.unsigned_integer("cycles");
  request.shift = fields.integer("shift", 0, kMostBytes);
  request.host_poison = fields.boolean("host_poison");
  request.new_content = fields.unsigned_integer("new_content");
  request.earlier_calls = static_cast<int>(fields.integer("earlier_calls", 0, kMostEarlierCalls));
  request.goes_on = fields.boolean("goes_on");
  if (fields.has("sample")) request.sample = read_sample(fields.object("sample"));
  if (fields.has("load")) request.load = read_load(fields.object("load"));
  fields.objects("calls", kMostCalls,
                 [&](FieldReader& call) { request.calls.push_back(read_call(call, request.memory_bytes)); });
  if (fields.failed()) return fields.error();
  return request;
}

std::string encode(const Reply& reply) {
  Json json = {{"id", reply.id},
               {"goes_on_with", reply.goes_on_with},
               {"returned", reply.returned},
               {"seconds", reply.seconds},
               {"time",
                {{"waiting", reply.time.waiting},
                 {"preparing", reply.time.preparing},
                 {"calling", reply.time.calling},
                 {"repeating", reply.time.repeating},
                 {"saving", reply.time.saving}}}};
  if (reply.failure)
    json["failure"] = {{"code", reply.failure->code},
                       {"name", reply.failure->name},
                       {"text", reply.failure->text},
                       {"stage", reply.failure->stage},
                       {"is_ours", reply.failure->is_ours}};
  if (reply.python)
    json["python"] = {{"text", reply.python->text},
                      {"output", reply.python->output},
                      {"file", reply.python->file},
                      {"line", reply.python->line},
                      {"unsupported", reply.python->unsupported}};
  if (reply.sample) json["sample"] = json_of(*reply.sample);
  if (reply.load) json["load"] = json_of(*reply.load);
  if (reply.gone_on) json["gone_on"] = json_of(*reply.gone_on);
  json["buffers"] = Json::array();
  for (const BufferPlace& buffer : reply.buffers)
    json["buffers"].push_back(
        {{"name", buffer.name}, {"address", buffer.address}, {"length", buffer.length}});
  return line_of(json);
}

std::string encode(const ForkRequest& request) {
  return line_of({{"version", kVersion},
                  {"folder", request.folder},
                  {"build_folder", request.build_folder},
                  {"settings", request.settings}});
}

std::string encode(const Building& building) {
  return line_of({{std::string(kBuilding), building.begins}});
}

std::optional<Building> decode_building(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || json.size() != 1 || !json.contains(kBuilding)) return std::nullopt;
  const Json& begins = json[std::string(kBuilding)];
  if (!begins.is_boolean()) return std::nullopt;
  return Building{begins.get<bool>()};
}

Result<Reply> decode_reply(std::string_view line) {
  constexpr int kLeast = std::numeric_limits<int>::min(), kMost = std::numeric_limits<int>::max();
  FieldReader fields(line, "a reply of the worker");
  Reply reply;
  reply.id = fields.unsigned_integer("id");
  reply.goes_on_with = fields.unsigned_integer("goes_on_with");
  reply.seconds = fields.number("seconds");
  FieldReader time = fields.object("time");
  reply.time = {time.number("waiting"), time.number("preparing"), time.number("calling"),
                time.number("repeating"), time.number("saving")};
  fields.integers("returned", kMostCalls, kLeast, kMost,
                  [&](int64_t value) { reply.returned.push_back(static_cast<int>(value)); });
  if (fields.has("failure")) {
    FieldReader failure = fields.object("failure");
    CudaFailure& found = reply.failure.emplace();
    found.code = static_cast<int>(failure.integer("code", 1, kMost));
    found.name = failure.text("name", kLongestText);
    found.text = failure.text("text", kLongestText);
    found.stage = failure.text("stage", kLongestText);
    found.is_ours = failure.boolean("is_ours");
  }
  if (fields.has("python")) {
    FieldReader python = fields.object("python");
    PythonFailure& found = reply.python.emplace();
    found.text = python.text("text", kLongestText);
    found.output = python.text("output", kLongestText);
    found.file = python.text("file", kLongestText);
    found.line = static_cast<int>(python.integer("line", 0, kMost));
    found.unsupported = python.boolean("unsupported");
  }
  if (fields.has("sample")) {
    FieldReader sample = fields.object("sample");
    reply.sample = read_report(sample);
  }
  if (fields.has("load")) reply.load = read_load_report(fields.object("load"));
  if (fields.has("gone_on")) reply.gone_on = read_gone_on(fields.object("gone_on"));
  fields.objects("buffers", kMostCalls * kMostBuffers, [&](FieldReader& one) {
    BufferPlace place;
    place.name = one.text("name", kLongestText);
    place.address = one.unsigned_integer("address");
    place.length = one.integer("length", 0, kMostBytes);
    reply.buffers.push_back(std::move(place));
  });
  if (fields.failed()) return fields.error();
  return reply;
}

}  // namespace assay::protocol
