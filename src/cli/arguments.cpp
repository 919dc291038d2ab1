#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace assay::cli {

using Argument = Arguments::Argument;

Argument& Argument::required() {
  option_->required();
  return *this;
}
Argument& Argument::positive() {
  option_->check([](const std::string& text) {
    char* end = nullptr;
    return std::strtod(text.c_str(), &end) > 0 && *end == '\0' ? "" : "expected a number above 0";
  });
  return *this;
}
Argument& Argument::not_negative() {
  option_->check([](const std::string& text) {
    return text.starts_with('-') ? std::string("expected a number that is not negative") : std::string();
  });
  return *this;
}
Argument& Argument::folder() {
  option_->check(CLI::ExistingDirectory);
  return *this;
}
Argument& Argument::one_of(std::vector<std::string> words) {
  option_->type_name(fmt::format("{}", fmt::join(words, "|")));
  option_->check([words = std::move(words)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    const auto last = words.end() - 1;
    return fmt::format("expected {}{}{}, not `{}`", fmt::join(words.begin(), last, ", "),
                       words.size() > 1 ? " or " : "", *last, text);
  });
  return *this;
}
Argument& Argument::excludes(const Argument& other) {
  option_->excludes(other.option_);
  return *this;
}

Arguments::Arguments(std::string summary, std::string command)
    : app_(std::make_unique<CLI::App>(std::move(summary), std::move(command))) {}
Arguments::~Arguments() = default;

namespace {

// As CLI11 has it, but with the name of the value behind the name of an option: "--json FILE".
template <class Value>
CLI::Option* option(CLI::App& app, const std::string& name, Value& value, const std::string& help,
                    std::string value_name) {
  const std::size_t space = name.find(' ');
  if (space != std::string::npos) value_name = name.substr(space + 1);
  return app.add_option(name.substr(0, space), value, help)
      ->type_name(name.starts_with('-') ? value_name : "");
}

}  // namespace

Argument Arguments::add(const std::string& name, std::string& value, const std::string& help) {
  return Argument(option(*app_, name, value, help, "TEXT"));
}
Argument Arguments::add(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  CLI::Option* added = option(*app_, name, values, help, "TEXT");
  if (name.starts_with('-')) added->allow_extra_args(false);  // it is repeated: the next word is not its own
  return Argument(added);
}
Argument Arguments::add(const std::string& name, int& value, const std::string& help) {
  return Argument(option(*app_, name, value, help, "N"));
}
Argument Arguments::add(const std::string& name, unsigned& value, const std::string& help) {
  return Argument(option(*app_, name, value, help, "N"));
}
Argument Arguments::add(const std::string& name, uint64_t& value, const std::string& help) {
  return Argument(option(*app_, name, value, help, "N")).not_negative();
}
Argument Arguments::add(const std::string& name, int64_t& value, const std::string& help) {
  return Argument(option(*app_, name, value, help, "N"));
}
Argument Arguments::add(const std::string& name, double& value, const std::string& help) {
  return Argument(option(*app_, name, value, help, "NUMBER"));
}
void Arguments::add_flag(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
}
void Arguments::add_flag(const std::string& name, int& value, const std::string& help) {
  app_->add_flag(name, value, help);
}
void Arguments::end_options_with_words() {
  app_->positionals_at_end();
}

std::optional<int> Arguments::parse(std::vector<std::string> args) {
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app_->parse(args);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_->exit(error);  // prints the help
    fmt::print(stderr, "assay: {}; see `{} --help`\n", error.what(), app_->get_name());
    return kWrongUse;
  }
  return std::nullopt;
}

}  // namespace assay::cli
