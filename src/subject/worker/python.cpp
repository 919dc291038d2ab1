#include "subject/worker/python.h"

#include <vector>

#include "protocol/fields.h"

namespace assay::worker {

using protocol::BufferArgument;
using protocol::PythonFailure;
using Json = protocol::FieldReader::Json;

namespace {

constexpr std::size_t kLongestAnswer = 1 << 16;

// An empty object, or what went wrong.
std::optional<PythonFailure> ask(int (*function)(const char*, char*, size_t), const Json& question) {
  std::vector<char> answer(kLongestAnswer, 0);
  PythonFailure failure;
  if (function(protocol::line_of(question).c_str(), answer.data(), answer.size()) != 0) {
    failure.text = "the interpreter could not answer";
    return failure;
  }
  if (std::string_view(answer.data()) == "{}") return std::nullopt;
  protocol::FieldReader fields(answer.data(), "the interpreter's answer");
  failure.text = fields.text("text", protocol::kLongestText);
  failure.output = fields.text("output", protocol::kLongestText);
  failure.file = fields.text("file", protocol::kLongestText);
  failure.line = static_cast<int>(fields.integer("line", 0, std::numeric_limits<int>::max()));
  failure.unsupported = fields.boolean("unsupported");
  if (fields.failed()) failure.text = fields.error().text();
  return failure;
}

}  // namespace

std::optional<PythonFailure> PythonEntry::load() const {
  return ask(calls_.load, {{"file", setup_.path},
                           {"function", setup_.symbol},
                           {"returns_outputs", setup_.returns_outputs},
                           {"build_folder", setup_.build_folder},
                           {"hidden", setup_.hidden}});
}

void PythonEntry::call(const protocol::CallRequest& call, std::size_t which, const Buffers& buffers,
                       Stream stream) const {
  const auto tensor = [&](const BufferArgument& argument) {
    const auto index = static_cast<std::size_t>(argument.buffer);
    return Json{{"name", call.buffers[index].name},
                {"address", reinterpret_cast<uint64_t>(buffers.address(call, which, argument.buffer))},
                {"bytes", call.buffers[index].length},
                {"is_input", call.buffers[index].is_input},
                {"dtype", argument.dtype},
                {"extents", argument.extents}};
  };
  Json arguments = Json::array(), outputs = Json::array();
  for (const protocol::Argument& argument : call.arguments) {
    if (const auto* buffer = std::get_if<BufferArgument>(&argument))
      arguments.push_back(tensor(*buffer));
    else if (const auto* scalar = std::get_if<protocol::ScalarArgument>(&argument))
      arguments.push_back({{"bits", scalar->bits}, {"dtype", scalar->dtype}});
  }
  for (const BufferArgument& output : call.returned) outputs.push_back(tensor(output));
  const auto failure =
      ask(calls_.call,
          {{"arguments", arguments}, {"outputs", outputs}, {"stream", reinterpret_cast<uint64_t>(stream)}});
  if (failure) throw PythonFailed{*failure};
}

}  // namespace assay::worker
