// A contract from its text: the whole, and values of a kind.
#include <cmath>

#include "base/file.h"
#include "contract/complex.h"
#include "contract/formula.h"
#include "contract/keys.h"
#include "contract/lexer.h"
#include "contract/reader.h"

namespace assay::contract {
namespace {

// What others call our dtypes.
constexpr std::pair<std::string_view, std::string_view> kOtherDTypes[] = {
    {"float", "f32"},          {"float32", "f32"},      {"fp32", "f32"},     {"double", "f64"},
    {"float64", "f64"},        {"half", "f16"},         {"float16", "f16"},  {"fp16", "f16"},
    {"bfloat16", "bf16"},      {"int", "i32"},          {"int32", "i32"},    {"int64", "i64"},
    {"long", "i64"},           {"int16", "i16"},        {"int8", "i8"},      {"uint8", "u8"},
    {"uint32", "u32"},         {"uint64", "u64"},       {"boolean", "bool"}, {"int4", "i4"},
    {"uint4", "u4"},           {"fp4", "e2m1"},         {"nvfp4", "e2m1"},   {"mxfp4", "e2m1"},
    {"float8_e4m3fn", "e4m3"}, {"float8_e5m2", "e5m2"}, {"fp8", "e4m3"},     {"float4_e2m1fn", "e2m1"},
    {"complex64", "c64"},      {"complex", "c64"},      {"cfloat", "c64"},   {"complex128", "c128"},
    {"cdouble", "c128"},       {"tfloat32", "tf32"},
};

std::string_view name_of(TomlKind kind) {
  constexpr std::string_view kNames[] = {"a string", "an integer", "a decimal number", "true or false",
                                         "a list",   "a table",    "a date or time"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string suggestion(std::string_view word, const Names& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? "" : fmt::format("; did you mean `{}`?", near);
}

// "; it belongs in [require]", of a key that other tables have; those inside a table have keys that mean something else.
std::string other_section(std::string_view key) {
  Names sections;
  for (const Key& known : all_keys()) {
    std::string title(title_of(known.section));
    if (known.name != key || title.find('=') != title.npos) continue;
    std::erase(title, '`');
    sections.push_back(known.section == Section::File ? "at the top of the file" : "in " + title);
  }
  return sections.empty() ? "" : "; it belongs " + listed(sections);
}

}  // namespace

bool is_identifier(std::string_view word) {
  if (word.empty() || (word[0] >= '0' && word[0] <= '9')) return false;
  return std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string listed(const Names& names, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0 ? "" : i + 1 == names.size() ? last : ", ") + names[i];
  return text;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

Result<Contract> Reader::run() {
  Result<TomlValue> root = parse_toml(*contract_.text, contract_.path);
  if (!root) return contract_.error_at({root.error().line, root.error().column}, root.error().message);
  read_all(*root);
  if (failed_) return error_;
  if (contract_.reference.kind == ReferenceKind::Formula) {
    ReferenceSpec& reference = contract_.reference;
    Result<Formula> formula =
        parse_formula(reference.formula_text, formula_places_, contract_.path, contract_.names());
    if (formula) formula = in_real_numbers(contract_, std::move(*formula));
    if (!formula)
      return contract_.error_at({formula.error().line, formula.error().column}, formula.error().message);
    reference.formula = std::make_shared<const Formula>(std::move(*formula));
  }
  read_cases(*root);
  if (failed_) return error_;
  return std::move(contract_);
}

void Reader::keys(const TomlValue& table, std::string_view where, const Names& known) {
  for (const TomlEntry& entry : table.table) {
    if (std::ranges::find(known, entry.key) != known.end()) continue;
    std::string hint = suggestion(entry.key, known);
    if (hint.empty()) hint = other_section(entry.key);
    if (hint.empty()) hint = "; the keys there are " + listed(known, " and ");
    return fail(entry.place, fmt::format("unknown key `{}` in {}{}", entry.key, where, hint));
  }
}

const TomlValue* Reader::need(const TomlValue& table, std::string_view key, std::string_view where) {
  const TomlValue* value = table.find(key);
  if (!value) fail(table.place, fmt::format("{} needs the key `{}`", where, key));
  return value;
}

bool Reader::is(const TomlValue& value, TomlKind kind, std::string_view what, std::string_view expected) {
  if (value.kind == kind) return true;
  fail(value.place, fmt::format("`{}` must be {}, not {}", what, expected.empty() ? name_of(kind) : expected,
                                name_of(value.kind)));
  return false;
}

std::string Reader::string(const TomlValue* value, std::string_view what) {
  if (!value || !is(*value, TomlKind::String, what)) return "";
  if (value->string.empty()) fail(value->place, fmt::format("`{}` must not be empty", what));
  return value->string;
}

std::string Reader::string_in(const TomlValue& item, std::string_view list) {
  if (item.kind == TomlKind::String) return string(&item, list);
  fail(item.place, fmt::format("the elements of `{}` must be strings; this is {}", list, name_of(item.kind)));
  return "";
}

int64_t Reader::integer(const TomlValue* value, int64_t otherwise, std::string_view what) {
  if (!value) return otherwise;
  return is(*value, TomlKind::Integer, what) ? value->integer : otherwise;
}

bool Reader::boolean(const TomlValue* value, bool otherwise, std::string_view what) {
  if (!value) return otherwise;
  return is(*value, TomlKind::Bool, what) ? value->boolean : otherwise;
}

double Reader::number(const TomlValue& value, std::string_view what) {
  if (value.kind == TomlKind::Integer || value.kind == TomlKind::Real) return value.real;
  fail(value.place, fmt::format("`{}` must be a number, not {}", what, name_of(value.kind)));
  return 0;
}

// One of a few words; its place in the list.
std::size_t Reader::choice(const TomlValue* value, const Names& words, std::string_view what,
                           std::size_t otherwise) {
  if (!value) return otherwise;
  const std::string word = string(value, what);
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  fail(value->place,
       fmt::format("unknown {} `{}`; use {}{}", what, word, listed(words), suggestion(word, words)));
  return otherwise;
}

DType Reader::dtype(const TomlValue* value, std::string_view what) {
  const Names names = dtype_names();
  if (value && value->kind == TomlKind::String)
    for (const auto& [word, ours] : kOtherDTypes)
      if (value->string == word) {
        fail(value->place, fmt::format("unknown {} `{}`; write `{}`", what, word, ours));
        return DType::f32;
      }
  const std::size_t chosen = choice(value, names, what, static_cast<std::size_t>(DType::f32));
  return static_cast<DType>(chosen < std::size_t{kDTypeCount} ? chosen
                                                              : static_cast<std::size_t>(DType::f32));
}

IntExpr Reader::int_expr(const TomlValue& value, std::string_view what) {
  if (value.kind == TomlKind::Integer) return IntExpr::literal(value.integer);
  if (value.kind != TomlKind::String) {
    fail(value.place, fmt::format("`{}` must be an integer or an expression over dims in quotes, not {}",
                                  what, name_of(value.kind)));
    return {};
  }
  return int_expr(value.string, value.place, 1, what);
}

IntExpr Reader::int_expr(const std::string& text, Place quote, int offset, std::string_view what) {
  Result<IntExpr> expr = IntExpr::parse(text, named_);
  if (!expr) {
    fail({quote.line, quote.column + offset + expr.error().column - 1},
         fmt::format("in `{}`: {}", what, expr.error().message));
    return {};
  }
  check_names(expr->dims(), text, quote, offset);
  return *expr;
}

void Reader::check_names(const std::vector<std::string>& names, const std::string& text, Place quote,
                         int offset) {
  const auto tokens = tokenize(text);  // as parse() has them
  for (const std::string& name : names) {
    if (contract_.dim(name)) continue;
    const auto token = std::ranges::find_if(*tokens, [&](const Token& t) { return t.is_word(name); });
    fail({quote.line, quote.column + offset + static_cast<int>(token->offset)},
         fmt::format("`{}` is not a dim{}", name, suggest_dim(name)));
  }
}

std::string Reader::suggest_dim(const std::string& name) const {
  Names names;
  for (const Dim& dim : contract_.dims) names.push_back(dim.name);
  for (const DerivedDim& dim : contract_.derived) names.push_back(dim.name);
  std::string near = suggestion(name, names);
  if (!near.empty()) return near;
  return names.empty() ? "; declare it in a table [dims]" : "; the dims are " + listed(names, " and ");
}

std::vector<IntExpr> Reader::int_exprs(const TomlValue& value, std::string_view what) {
  std::vector<IntExpr> list;
  if (!is(value, TomlKind::Array, what, "a list of integers and expressions over dims")) return list;
  for (const TomlValue& item : value.array) list.push_back(int_expr(item, what));
  return list;
}

Names Reader::strings(const TomlValue& value, std::string_view what, bool one_allowed) {
  if (one_allowed && value.kind == TomlKind::String) return {string(&value, what)};
  Names list;
  if (!is(value, TomlKind::Array, what, one_allowed ? "a string or a list of strings" : "a list of strings"))
    return list;
  for (const TomlValue& item : value.array) list.push_back(string_in(item, what));
  return list;
}

// A name that the contract defines: an identifier, not a word of the language, not taken.
void Reader::new_name(const std::string& name, Place place, std::string_view what) {
  if (!is_identifier(name))
    return fail(place,
                fmt::format("`{}` cannot name a {}: use letters, digits and `_`, and begin with a letter",
                            name, what));
  const bool word = what == "dim" ? is_reserved(name) : is_keyword(name);
  if (word || name == "stream" || name == "workspace")
    return fail(place,
                fmt::format("`{}` cannot name a {}: it is a word of the formula language", name, what));
  const bool is_dim = contract_.dim(name) || contract_.derived_dim(name);
  const char* taken = is_dim                   ? "dim"
                      : contract_.tensor(name) ? "tensor"
                      : contract_.scalar(name) ? "scalar"
                                               : nullptr;
  if (taken) fail(place, fmt::format("the name `{}` is already taken by a {}", name, taken));
}

void Reader::read_all(const TomlValue& root) {
  keys(root, "the contract", keys_of(Section::File));
  if (const TomlValue* title = root.find("title"); title && is(*title, TomlKind::String, "title"))
    contract_.title = title->string;
  read_dims(root);
  each(root, "tensors", [this](const TomlEntry& entry) { read_tensor(entry); });
  each(root, "scalars", [this](const TomlEntry& entry) { read_scalar(entry); });
  if (!failed_ && contract_.tensors.empty())
    fail({}, "the contract has no tensor; add a table [tensors.NAME] for each");
  if (!failed_ && contract_.outputs().empty())
    fail(contract_.tensors.back().place, "no tensor is an output; give one of them role = \"out\"");
  read_aliases(root);
  check_places(root);
  check_buffers(root);
  if (!failed_) read_shapes(root);
  if (!failed_) read_only_listed(root);
  if (!failed_) read_kernel(root);
  if (!failed_) read_reference(root);
  if (!failed_) read_inputs(root);
  if (!failed_) read_require(root);
  if (!failed_) check_memory();
  if (!failed_) read_workload(root);
  if (!failed_) read_origin(root);
  if (!failed_) read_monitor(root);
}

Result<Contract> parse(std::string_view text, std::string path) {
  return Reader(text, std::move(path)).run();
}

Result<Contract> load(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return Error{fmt::format("the contract cannot be read: {}", text.error().message), path};
  return parse(*text, path);
}

}  // namespace assay::contract
