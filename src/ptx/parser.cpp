// Module scope: version and target, files and locations, variables, function headers.
#include "ptx/parser.h"

#include <fmt/format.h>

#include <charconv>

#include "ptx/function_parser.h"

namespace assay::ptx {
namespace {

constexpr uint32_t kMostFiles = 1u << 16;
constexpr size_t kMostSegments = 24;
constexpr uint32_t kAnyInlining = kNone - 1;
constexpr size_t kLongestFunctionName = 4096;

// bar.cta.sync is bar.sync with a modifier in the middle of its name.
constexpr std::pair<std::string_view, Opcode> kCtaSpellings[] = {
    {"bar.cta.sync", Opcode::bar_sync},
    {"bar.cta.arrive", Opcode::bar_arrive},
    {"bar.cta.red", Opcode::bar_red},
    {"barrier.cta.sync", Opcode::barrier_sync},
    {"barrier.cta.arrive", Opcode::barrier_arrive},
    {"barrier.cta.red", Opcode::barrier_red},
};

struct Name {
  Opcode opcode;
  size_t length;  // of the spelling that was recognised
  bool has_cta;
};

// The longest opcode that a dotted word begins with.
std::optional<Name> find_name(std::string_view word) {
  for (auto [spelling, opcode] : kCtaSpellings)
    if (word.starts_with(spelling) && (word.size() == spelling.size() || word[spelling.size()] == '.'))
      return Name{opcode, spelling.size(), true};
  std::optional<Name> best;
  size_t end = 0;
  for (int parts = 0; parts < 5 && end != std::string_view::npos; ++parts) {
    end = word.find('.', end + 1);
    if (auto opcode = find_opcode(word.substr(0, end)))
      best = Name{*opcode, std::min(end, word.size()), false};
    if (end == std::string_view::npos) break;
  }
  return best;
}

bool looks_like_type(std::string_view word) {
  size_t letters = word.find_first_of("0123456789");
  if (letters == std::string_view::npos || letters == 0) return false;
  std::string_view stem = word.substr(0, letters);
  return stem == "b" || stem == "u" || stem == "s" || stem == "f" || stem == "bf" || stem == "tf" ||
         stem == "e" || stem == "ue";
}

// What an instruction's name says: rows of the table, or what is wrong with it.
struct Spelling {
  Word word;
  std::string problem;
};

Spelling spell(std::string_view text) {
  const auto fail = [&](std::string problem) { return Spelling{{}, std::move(problem)}; };
  std::optional<Name> name = find_name(text);
  if (!name) return fail(fmt::format("unknown instruction {}", quote(text.substr(0, text.find('.')))));
  Word word;
  word.opcode = name->opcode;
  if (name->has_cta) word.mods.push_back(Mod::cta);
  size_t segments = 0;
  for (size_t start = name->length; start < text.size();) {
    size_t end = std::min(text.find('.', start + 1), text.size());
    std::string_view part = text.substr(start + 1, end - start - 1);
    if (++segments > kMostSegments) return fail(fmt::format("{}: too many modifiers", quote(text)));
    if (auto type = find_type(part)) {
      word.types.push_back(*type);
    } else if (auto mod = find_mod(part)) {
      word.mods.push_back(*mod);
    } else {
      return fail(fmt::format("{}: unknown {} {}", quote(text), looks_like_type(part) ? "type" : "modifier",
                              quote(text.substr(start, end - start))));
    }
    start = end;
  }
  word.rows = match_rows(word.opcode, word.mods, word.types);
  if (!word.rows.empty()) return {std::move(word), {}};
  const Row& row = nearest_row(word.opcode, word.mods, word.types);
  return fail(fmt::format("{}: no such form; expected {}", quote(text), describe(row)));
}

// A modifier may stand among the words of the opcode, as ptxas has it: `vote.ballot.sync`, `match.sync.any`.
std::optional<Word> with_opcode_in_front(std::string_view text) {
  const size_t first = std::min(text.find('.'), text.size());
  for (size_t start = first; start < text.size();) {
    const size_t end = std::min(text.find('.', start + 1), text.size());
    std::string moved(text.substr(0, first));
    moved += text.substr(start, end - start);
    const size_t opcode = moved.size();
    moved += text.substr(first, start - first);
    moved += text.substr(end);
    if (std::optional<Name> name = find_name(moved); start != first && name && name->length == opcode)
      if (Spelling spelling = spell(moved); !spelling.word.rows.empty()) return spelling.word;
    start = end;
  }
  return std::nullopt;
}

}  // namespace

size_t ModuleParser::LocationHash::operator()(const LocationKey& key) const {
  uint64_t h = key.line * 0x9e3779b97f4a7c15ull + key.file;
  h = (h ^ (h >> 29)) * 0xff51afd7ed558ccdull + key.column;
  h = (h ^ (h >> 29)) * 0xc4ceb9fe1a85ec53ull + key.inlined_at;
  h ^= hash_name(key.function) + static_cast<uint64_t>(key.offset);
  return h ^ (h >> 32);
}

ModuleParser::ModuleParser(std::string_view text)
    : text_(text), reader_(text), declarations_(reader_, text.size()) {}

Module ModuleParser::parse() {
  if (!reader_.is_dotted(".version")) reader_.fail_expected("'.version'");
  version();
  if (!reader_.is_dotted(".target")) reader_.fail_expected("'.target'");
  while (!reader_.at_end()) directive();
  finish();
  return std::move(module_);
}

void ModuleParser::directive() {
  if (reader_.accept(';')) return;
  if (reader_.is('@') && reader_.skip_old_debug_line()) return;
  if (!reader_.is_dotted()) reader_.fail_expected("a directive");
  std::string_view text = reader_.token().text;
  auto is = [&](std::string_view word) { return text == word; };
  if (is(".target")) return target();
  if (is(".address_size")) {
    reader_.advance();
    Token at = reader_.token();
    int64_t size = reader_.integer("the address size");
    if (size != 32 && size != 64) reader_.fail(at, "the address size must be 32 or 64");
    module_.address_size = static_cast<int>(size);
    return;
  }
  if (is(".file")) return reader_.advance(), file();
  if (is(".section")) return reader_.advance(), section();
  if (is(".loc")) {
    reader_.advance();
    location();
    return;
  }
  if (is(".alias")) return alias();
  if (is(".pragma")) {
    do {
      reader_.advance();
      reader_.expect_string();
    } while (reader_.is(','));
    reader_.expect(';');
    return;
  }
  declaration();
}

void ModuleParser::version() {
  reader_.advance();
  Token token = reader_.take();
  const char* end = token.text.data() + token.text.size();
  auto major = std::from_chars(token.text.data(), end, module_.version_major);
  bool good =
      token.kind == TokenKind::Number && major.ec == std::errc() && major.ptr != end && *major.ptr == '.';
  if (good) {
    auto minor = std::from_chars(major.ptr + 1, end, module_.version_minor);
    good = minor.ec == std::errc() && minor.ptr == end;
  }
  if (!good) reader_.fail(token, fmt::format("expected a version such as 9.0, found {}", quote(token)));
}

void ModuleParser::target() {
  do {
    reader_.advance();
    Token name = reader_.expect_name("a target such as sm_90");
    if (name.text.starts_with("sm_") || name.text.starts_with("compute_")) {
      module_.target = name.text;
    } else if (name.text != "debug" && name.text != "texmode_unified" && name.text != "texmode_independent" &&
               name.text != "map_f64_to_f32") {
      reader_.fail(name, fmt::format("unknown target {}", quote(name)));
    }
  } while (reader_.is(','));
}

void ModuleParser::file() {
  Token at = reader_.token();
  uint64_t number = reader_.count("a file number", kMostFiles);
  std::string path = reader_.expect_string();
  while (reader_.accept(',')) reader_.constant();  // time and size
  if (module_.files.size() <= number) module_.files.resize(number + 1);
  if (!module_.files[number].empty() && module_.files[number] != path)
    reader_.fail(at, fmt::format("file {} is declared twice", number));
  module_.files[number] = std::move(path);
}

ModuleParser::LocationKey ModuleParser::place() {
  LocationKey key{};
  key.file = static_cast<uint32_t>(reader_.count("a file number", kMostFiles));
  key.line = static_cast<uint32_t>(reader_.count("a line number", 0xffffffff));
  key.column = reader_.token().kind == TokenKind::Number
                   ? static_cast<uint32_t>(reader_.count("a column number", 0xffffffff))
                   : 0;
  key.inlined_at = kNone;
  return key;
}

uint32_t ModuleParser::intern(const LocationKey& key) {
  auto [it, is_new] = location_index_.try_emplace(key, static_cast<uint32_t>(module_.locations.size()));
  if (is_new) {
    module_.locations.push_back({key.file, key.line, key.column, "", key.inlined_at});
    location_keys_.push_back(key);
  }
  return it->second;
}

// The place of inlining is one that an earlier .loc described, with its own inlining if any.
uint32_t ModuleParser::location() {
  LocationKey key = place();
  while (reader_.accept(',')) {
    Token word = reader_.expect_name("'function_name' or 'inlined_at'");
    if (word.text == "function_name") {
      key.function = reader_.expect_name("a label").text;
      if (reader_.accept('+')) key.offset = reader_.integer("an offset");
    } else if (word.text == "inlined_at") {
      LocationKey outer = place();
      LocationKey any = outer;
      any.inlined_at = kAnyInlining;
      auto known = last_at_.find(any);
      key.inlined_at = known != last_at_.end() ? known->second : intern(outer);
    } else {
      reader_.fail(word, fmt::format("expected 'function_name' or 'inlined_at', found {}", quote(word)));
    }
  }
  uint32_t index = intern(key);
  LocationKey any{key.file, key.line, key.column, kAnyInlining, {}, 0};
  last_at_[any] = index;
  return index;
}

// Only .debug_str is read: it holds the names of inlined functions.
void ModuleParser::section() {
  if (!reader_.is_dotted() && !reader_.is_name()) reader_.fail_expected("a section name");
  bool is_strings = reader_.take().text == ".debug_str";
  if (!is_strings) return reader_.skip_braces();
  reader_.expect('{');
  while (!reader_.accept('}')) {
    if (reader_.at_label()) {
      debug_labels_[reader_.take().text] = static_cast<uint32_t>(debug_strings_.size()) + 1;
      reader_.expect(':');
    } else if (reader_.accept_dotted(".b8")) {
      do debug_strings_ += static_cast<char>(reader_.integer("a byte"));
      while (reader_.accept(','));
    } else {
      reader_.fail_expected("a label, '.b8' or '}'");
    }
  }
}

void ModuleParser::alias() {
  reader_.advance();
  Token name = reader_.expect_name("a function name");
  reader_.expect(',');
  Token target = reader_.expect_name("a function name");
  reader_.expect(';');
  for (const Token* token : {&name, &target}) {
    const SymbolRef* symbol = symbols_.find(token->text);
    if (!symbol || symbol->kind != SymbolRef::Kind::Function)
      reader_.fail(*token, fmt::format("{} is not a function", quote(*token)));
  }
  module_.functions[symbols_.find(name.text)->index].alias_of = symbols_.find(target.text)->index;
}

// Linkage, then a variable or a function.
void ModuleParser::declaration() {
  Token linkage{};
  if (reader_.is_dotted(".visible") || reader_.is_dotted(".extern") || reader_.is_dotted(".weak") ||
      reader_.is_dotted(".common"))
    linkage = reader_.take();
  Token word = reader_.token();
  if (reader_.accept_dotted(".entry")) return function(true, linkage);
  if (reader_.accept_dotted(".func")) return function(false, linkage);
  std::optional<Space> space = word.kind == TokenKind::Dotted ? space_of(word.text) : std::nullopt;
  if (space && *space != Space::None) {
    reader_.advance();
    return variable(*space, linkage);
  }
  if (linkage.kind == TokenKind::End && word.kind == TokenKind::Dotted)
    reader_.fail(word, fmt::format("unknown directive {}", quote(word)));
  reader_.fail_expected("a state space, '.entry' or '.func'");
}

void ModuleParser::variable(Space space, const Token& linkage) {
  if (space == Space::Const && reader_.accept('[')) {  // a bank number, of old
    reader_.integer("a bank number");
    reader_.expect(']');
  }
  Declarator declarator = declarations_.specifiers(space);
  declarator.prototype.is_extern = linkage.text == ".extern";
  declarator.prototype.is_visible = linkage.text == ".visible";
  declarator.prototype.is_weak = linkage.text == ".weak";
  declarator.prototype.is_common = linkage.text == ".common";
  do {
    Token at = reader_.token();
    Variable variable = declarations_.declare(declarator);
    if (std::optional<uint32_t> count = reader_.range(kMostVariables)) {
      for (uint32_t i = 0; i < *count; ++i) {
        Token numbered = at;
        numbered.text = keep(fmt::format("{}{}", at.text, i));
        variable.name = numbered.text;
        define_variable(variable, numbered);
      }
      continue;
    }
    declarations_.initialiser(variable);
    if (variable.is_unsized && !variable.is_extern)
      reader_.fail(at, fmt::format("the size of {} is missing", quote(at)));
    define_variable(std::move(variable), at);
  } while (reader_.accept(','));
  reader_.expect(';');
}

void ModuleParser::define_variable(Variable variable, const Token& at) {
  SymbolRef& symbol = symbols_[at.text];
  if (symbol.kind == SymbolRef::Kind::ModuleVariable && module_.variables[symbol.index].is_extern) {
    module_.variables[symbol.index] = std::move(variable);  // a definition after its declaration
    return;
  }
  if (symbol.kind == SymbolRef::Kind::ModuleVariable && variable.is_extern) return;
  if (symbol.kind != SymbolRef::Kind::None) reader_.fail(at, fmt::format("{} is declared twice", quote(at)));
  symbol = {SymbolRef::Kind::ModuleVariable, static_cast<uint32_t>(module_.variables.size())};
  module_.variables.push_back(std::move(variable));
}

void ModuleParser::signature(std::vector<Variable>& variables) {
  reader_.expect('(');
  if (reader_.accept(')')) return;
  do variables.push_back(declarations_.parameter());
  while (reader_.accept(','));
  reader_.expect(')');
}

void ModuleParser::dimensions(uint32_t (&dims)[3]) {
  for (uint32_t& dim : dims) dim = 1;
  for (int i = 0; i < 3; ++i) {
    dims[i] = static_cast<uint32_t>(reader_.count("a dimension", 0x7fffffff));
    if (!reader_.accept(',')) return;
  }
  reader_.fail_expected("at most three dimensions");
}

void ModuleParser::function_directives(Function& function) {
  auto number = [&] { return static_cast<uint32_t>(reader_.count("the number", 0x7fffffff)); };
  while (reader_.is_dotted()) {
    Token word = reader_.take();
    if (word.text == ".maxntid") {
      dimensions(function.max_threads);
    } else if (word.text == ".reqntid") {
      dimensions(function.required_threads);
    } else if (word.text == ".reqnctapercluster") {
      dimensions(function.required_cluster);
    } else if (word.text == ".explicitcluster") {
      function.explicit_cluster = true;
    } else if (word.text == ".blocksareclusters") {
      function.blocks_are_clusters = true;
    } else if (word.text == ".maxclusterrank") {
      function.max_cluster_rank = number();
    } else if (word.text == ".minnctapersm" || word.text == ".maxnctapersm") {
      function.min_blocks_per_sm = number();
    } else if (word.text == ".maxnreg") {
      function.max_registers = number();
    } else if (word.text == ".noreturn") {
      function.is_noreturn = true;
    } else if (word.text == ".abi_preserve" || word.text == ".abi_preserve_control") {
      number();
    } else if (word.text == ".pragma") {
      do function.pragmas.push_back(reader_.expect_string());
      while (reader_.accept(','));
      reader_.expect(';');
    } else {
      reader_.fail(word, fmt::format("unknown function directive {}", quote(word)));
    }
  }
}

void ModuleParser::function(bool is_entry, const Token& linkage) {
  Function function;
  function.is_entry = is_entry;
  function.is_visible = linkage.text == ".visible";
  function.is_weak = linkage.text == ".weak";
  if (reader_.accept_dotted(".attribute")) declarations_.attribute(nullptr);
  if (!is_entry && reader_.is('(')) signature(function.returns);
  Token name = reader_.expect_name("a function name");
  function.name = name.text;
  function.line = name.line;
  if (reader_.is('(')) signature(function.parameters);
  function_directives(function);
  bool has_body = !reader_.is(';');
  if (has_body && !reader_.is('{')) reader_.fail_expected("'{' or ';'");
  uint32_t index = define_function(std::move(function), name, has_body);
  if (!has_body) return reader_.advance();
  FunctionParser body(*this, module_.functions[index]);
  body.parse();
}

// A declaration and its definition are one function.
uint32_t ModuleParser::define_function(Function declared, const Token& name, bool has_body) {
  SymbolRef& symbol = symbols_[name.text];
  declared.is_extern = !has_body;
  if (symbol.kind == SymbolRef::Kind::None) {
    symbol = {SymbolRef::Kind::Function, static_cast<uint32_t>(module_.functions.size())};
    module_.functions.push_back(std::move(declared));
    return symbol.index;
  }
  if (symbol.kind != SymbolRef::Kind::Function)
    reader_.fail(name, fmt::format("{} is declared twice", quote(name)));
  Function& known = module_.functions[symbol.index];
  if (!has_body) return symbol.index;
  if (!known.is_extern) reader_.fail(name, fmt::format("function {} is defined twice", quote(name)));
  declared.is_visible |= known.is_visible;
  declared.is_weak |= known.is_weak;
  declared.is_noreturn |= known.is_noreturn;
  known = std::move(declared);
  return symbol.index;
}

const Word& ModuleParser::word(const Token& token) {
  uint32_t& index = word_index_[token.text];
  if (index == 0) {
    Word word = look_up(token);  // may throw: then nothing is remembered
    words_.push_back(std::move(word));
    index = static_cast<uint32_t>(words_.size());
  }
  return words_[index - 1];
}

Word ModuleParser::look_up(const Token& token) {
  Spelling spelling = spell(token.text);
  if (spelling.word.rows.empty()) {
    if (std::optional<Word> word = with_opcode_in_front(token.text)) return *word;
    reader_.fail(token, spelling.problem);
  }
  return std::move(spelling.word);
}

// Names that could only be known at the end: of inlined functions, of symbols in initialisers.
void ModuleParser::finish() {
  for (size_t i = 0; i < module_.locations.size(); ++i) {
    const LocationKey& key = location_keys_[i];
    if (key.function.empty()) continue;
    if (const uint32_t* label = debug_labels_.find(key.function)) {
      size_t start = *label - 1 + static_cast<size_t>(std::max<int64_t>(key.offset, 0));
      if (start < debug_strings_.size()) {
        std::string_view name(debug_strings_.c_str() + start);
        module_.locations[i].function = name.substr(0, kLongestFunctionName);
      }
    } else {
      module_.locations[i].function = key.function;
    }
  }
  for (const Variable& variable : module_.variables)
    for (const Variable::Relocation& relocation : variable.relocations)
      if (!symbols_.find(relocation.symbol))
        throw Failure{fmt::format("the initialiser of {} names {}, which is not declared",
                                  quote(variable.name), quote(relocation.symbol)),
                      variable.declared_line, 1};
}

const Function* Module::find(std::string_view wanted) const {
  for (const Function& function : functions)
    if (function.name == wanted) return &function;
  return nullptr;
}

Result<Module> parse(std::string_view text, std::string_view name) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);  // as text from binaries ends
  try {
    return ModuleParser(text).parse();
  } catch (const Failure& failure) {
    return Error{failure.message, std::string(name), static_cast<int>(failure.line),
                 static_cast<int>(failure.column)};
  }
}

uint32_t size_of(Type type) {
  return (bits_of(type) + 7) / 8;
}

}  // namespace assay::ptx
