// A contract from its text: the whole, and values of a kind.
#include <cmath>

#include "base/file.h"
#include "contract/formula.h"
#include "contract/reader.h"

namespace assay::contract {
namespace {

Names dtype_names() {
  Names names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(info(static_cast<DType>(i)).name);
  return names;
}

}  // namespace

bool is_identifier(std::string_view word) {
  if (word.empty() || (word[0] >= '0' && word[0] <= '9')) return false;
  return std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string listed(const Names& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

Result<Contract> Reader::run() {
  Result<TomlValue> root = parse_toml(text_, contract_.path);
  if (!root) return root.error();
  read_all(*root);
  if (failed_) return error_;
  if (contract_.reference.kind == ReferenceKind::Formula) {
    ReferenceSpec& reference = contract_.reference;
    Result<Formula> formula =
        parse_formula(reference.formula_text, reference.formula_place, contract_.path, contract_.names());
    if (!formula) return formula.error();
    reference.formula = std::make_shared<const Formula>(std::move(*formula));
  }
  return std::move(contract_);
}

void Reader::keys(const TomlValue& table, std::string_view where, const Names& known) {
  for (const TomlEntry& entry : table.table) {
    if (std::ranges::find(known, entry.key) != known.end()) continue;
    const std::string near = nearest(entry.key, known);
    return fail(entry.place, fmt::format("{} has no key '{}'; {}", where, entry.key,
                                         near.empty() ? "it may have " + listed(known)
                                                      : fmt::format("did you mean '{}'?", near)));
  }
}

const TomlValue* Reader::need(const TomlValue& table, std::string_view key, std::string_view where) {
  const TomlValue* value = table.find(key);
  if (!value) fail(table.place, fmt::format("{} needs the key '{}'", where, key));
  return value;
}

bool Reader::is(const TomlValue& value, TomlKind kind, std::string_view what) {
  if (value.kind == kind) return true;
  fail(value.place, fmt::format("{} is expected here", what));
  return false;
}

std::string Reader::string(const TomlValue* value, std::string_view what) {
  if (!value || !is(*value, TomlKind::String, fmt::format("{}, a string,", what))) return "";
  if (value->string.empty()) fail(value->place, fmt::format("{} is empty", what));
  return value->string;
}

int64_t Reader::integer(const TomlValue* value, int64_t otherwise, std::string_view what) {
  if (!value) return otherwise;
  return is(*value, TomlKind::Integer, fmt::format("{}, an integer,", what)) ? value->integer : otherwise;
}

bool Reader::boolean(const TomlValue* value, bool otherwise, std::string_view what) {
  if (!value) return otherwise;
  return is(*value, TomlKind::Bool, fmt::format("{}, true or false,", what)) ? value->boolean : otherwise;
}

double Reader::number(const TomlValue& value, std::string_view what) {
  if (value.kind == TomlKind::Integer || value.kind == TomlKind::Real) return value.real;
  fail(value.place, fmt::format("{}, a number, is expected here", what));
  return 0;
}

// One of a few words; its place in the list.
std::size_t Reader::choice(const TomlValue* value, const Names& words, std::string_view what,
                           std::size_t otherwise) {
  if (!value) return otherwise;
  const std::string word = string(value, what);
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  const std::string near = nearest(word, words);
  fail(value->place, fmt::format("'{}' is not {}: {}{}", word, what, listed(words),
                                 near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  return otherwise;
}

DType Reader::dtype(const TomlValue* value, std::string_view what) {
  const Names names = dtype_names();
  return static_cast<DType>(choice(value, names, what, static_cast<std::size_t>(DType::f32)));
}

IntExpr Reader::int_expr(const TomlValue& value, std::string_view what) {
  if (value.kind == TomlKind::Integer) return IntExpr::literal(value.integer);
  if (value.kind != TomlKind::String) {
    fail(value.place, fmt::format("{}: an integer or an expression over dims in quotes is expected", what));
    return {};
  }
  return int_expr(value.string, value.place, 1, what);
}

IntExpr Reader::int_expr(const std::string& text, Place quote, int offset, std::string_view what) {
  Result<IntExpr> expr = IntExpr::parse(text);
  if (!expr) {
    fail({quote.line, quote.column + offset + expr.error().column - 1},
         fmt::format("{}: {}", what, expr.error().message));
    return {};
  }
  for (const std::string& name : expr->dims()) {
    if (contract_.dim(name)) continue;
    const std::size_t at = text.find(name);
    fail({quote.line, quote.column + offset + static_cast<int>(at)},
         fmt::format("'{}' is not a dim{}", name, suggest_dim(name)));
  }
  return *expr;
}

std::string Reader::suggest_dim(const std::string& name) const {
  Names names;
  for (const Dim& dim : contract_.dims) names.push_back(dim.name);
  const std::string near = nearest(name, names);
  if (!near.empty()) return fmt::format("; did you mean '{}'?", near);
  return names.empty() ? ": there is no [dims] table" : ": " + listed(names);
}

std::vector<IntExpr> Reader::int_exprs(const TomlValue& value, std::string_view what) {
  std::vector<IntExpr> list;
  if (!is(value, TomlKind::Array, fmt::format("{}, a list of integer expressions,", what))) return list;
  for (const TomlValue& item : value.array) list.push_back(int_expr(item, what));
  return list;
}

Names Reader::strings(const TomlValue& value, std::string_view what, bool one_allowed) {
  if (one_allowed && value.kind == TomlKind::String) return {string(&value, what)};
  Names list;
  if (!is(value, TomlKind::Array, fmt::format("{}, a list of strings,", what))) return list;
  for (const TomlValue& item : value.array) list.push_back(string(&item, what));
  return list;
}

// A name that the contract defines: an identifier, not a word of the language, not taken.
void Reader::new_name(const std::string& name, Place place, std::string_view what) {
  if (!is_identifier(name))
    return fail(place, fmt::format("'{}' cannot name a {}: letters, digits and '_' only", name, what));
  const bool word = what == "dim" ? is_reserved(name) : is_keyword(name);
  if (word || name == "stream" || name == "workspace")
    return fail(place, fmt::format("'{}' cannot name a {}: it is a word of the language", name, what));
  const bool taken = contract_.dim(name) || contract_.tensor(name) || contract_.scalar(name);
  if (taken) fail(place, fmt::format("the name '{}' is already taken", name));
}

void Reader::read_all(const TomlValue& root) {
  keys(root, "a contract",
       {"title", "kernel", "dims", "shapes", "tensors", "scalars", "reference", "require"});
  if (const TomlValue* title = root.find("title");
      title && is(*title, TomlKind::String, "the title, a string,"))
    contract_.title = title->string;
  each(root, "dims", [this](const TomlEntry& entry) { read_dim(entry); });
  each(root, "tensors", [this](const TomlEntry& entry) { read_tensor(entry); });
  each(root, "scalars", [this](const TomlEntry& entry) { read_scalar(entry); });
  if (!failed_ && contract_.tensors.empty())
    fail(root.place, "a contract needs at least one tensor: a table [tensors.NAME]");
  if (!failed_ && contract_.outputs().empty())
    fail(contract_.tensors.back().place, "no tensor is an output: give one role = \"out\"");
  read_aliases(root);
  if (!failed_) read_shapes(root);
  if (!failed_) read_kernel(root);
  if (!failed_) read_reference(root);
  if (!failed_) read_require(root);
}

Result<Contract> parse(std::string_view text, std::string path) {
  return Reader(text, std::move(path)).run();
}

Result<Contract> load(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return Error{fmt::format("cannot read this contract: {}", text.error().message), path};
  return parse(*text, path);
}

}  // namespace assay::contract
