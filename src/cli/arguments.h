// The options and words that a command takes. All commands describe theirs here, so that they look and fail
// alike; and only one file includes CLI11, which takes long to compile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace assay::cli {

constexpr int kWrongUse = 2;  // exit status

class Arguments {
 public:
  Arguments(std::string summary, std::string command);
  ~Arguments();

  // What one of them must be.
  class Argument {
   public:
    explicit Argument(CLI::Option* option) : option_(option) {}
    Argument& required();
    Argument& positive();
    Argument& not_negative();
    Argument& folder();  // that exists
    Argument& one_of(std::vector<std::string> words);
    Argument& excludes(const Argument& other);

   private:
    CLI::Option* option_;
  };

  // "--name" is an option, "name" a word by its place; "--name FILE" says what the value is. What is not given keeps its value.
  Argument add(const std::string& name, std::string& value, const std::string& help);
  Argument add(const std::string& name, std::vector<std::string>& values, const std::string& help);
  Argument add(const std::string& name, int& value, const std::string& help);
  Argument add(const std::string& name, unsigned& value, const std::string& help);
  Argument add(const std::string& name, uint64_t& value, const std::string& help);
  Argument add(const std::string& name, int64_t& value, const std::string& help);
  Argument add(const std::string& name, double& value, const std::string& help);
  void add_flag(const std::string& name, bool& value, const std::string& help);
  // "--name{1}": 1 where the flag has no number of its own.
  void add_flag(const std::string& name, int& value, const std::string& help);
  // The first word ends the options: all after it are words.
  void end_options_with_words();

  // An exit status where nothing is left to do: help was asked for, or they are wrong.
  std::optional<int> parse(std::vector<std::string> args);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace assay::cli
