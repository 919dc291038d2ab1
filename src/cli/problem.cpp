#include "cli/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "reference/torch_process.h"
#include "subject/subject.h"

namespace assay::cli {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

// Without the row, of "FILE.jsonl:ROW".
std::string file_of(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) ? path : path.substr(0, path.rfind(':'));
}

// Files of a problem: itself, or those that lie in its folder.
std::vector<std::string> files_of(const std::string& given) {
  std::error_code error;
  const std::string path = file_of(given);
  if (fs::is_regular_file(path, error)) return {fs::absolute(path).lexically_normal().string()};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.is_regular_file(error)) files.push_back(fs::absolute(entry.path()).lexically_normal().string());
  std::sort(files.begin(), files.end());
  return files;
}

uint64_t hash_of(const std::vector<std::string>& texts) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const std::string& text : texts) {
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    h = (h ^ 0xff) * 0x100000001b3ull;
  }
  return h;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

}  // namespace

Result<Problem> describe_problem(const std::string& answer, const std::string& problem) {
  std::error_code error;
  if (!fs::exists(file_of(problem), error)) return Error{"there is no such problem", problem};
  if (!fs::exists(file_of(answer), error))
    return Error{fmt::format("the submission {} does not exist", answer)};
  Problem described;
  described.files = files_of(problem);
  std::vector<std::string> texts = {fs::absolute(answer).string(), fs::absolute(problem).string()};
  for (const std::string& path : described.files) texts.push_back(text_of(path));
  for (const std::string& path : files_of(answer)) texts.push_back(text_of(path));
  const fs::path folder =
      fs::path(subject::cache_folder("")) / "problems" / fmt::format("{:016x}", hash_of(texts));
  fs::create_directories(folder, error);
  described.torch = std::make_shared<reference::TorchProcess>();
  const auto said = described.torch->ask(
      {{"op", "describe"},
       {"arguments", {"--answer", answer, "--problem", problem, "--out", folder.string()}}});
  if (!said) return said.error();
  if (!said->value("ok", false)) return Error{said->value("error", ""), problem};
  const std::string line = last_line(said->value("output", ""));
  if (said->value("status", 1) != 0) return Error{line};
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("contract"))
    return Error{fmt::format("the problem could not be read: {}", line), problem};
  described.contract = json.value("contract", "");
  described.format = json.value("format", "");
  described.notes = json.value("notes", std::vector<std::string>());
  return described;
}

}  // namespace assay::cli
