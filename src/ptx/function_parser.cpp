#include "ptx/function_parser.h"

#include <fmt/format.h>

namespace assay::ptx {
namespace {

constexpr uint32_t kMostRegisters = 1u << 20;

}  // namespace

FunctionParser::FunctionParser(ModuleParser& module, Function& function)
    : module_(module), reader_(module.reader()), function_(function), scopes_(function, module.reader()) {}

void FunctionParser::parse() {
  auto bind_all = [&](std::vector<Variable>& variables, Binding::Kind kind) {
    for (size_t i = 0; i < variables.size(); ++i) {
      Token name;
      name.kind = TokenKind::Name;
      name.text = variables[i].name;
      name.line = variables[i].declared_line;
      if (name.text == "_") continue;
      if (variables[i].space == Space::None) {
        scopes_.declare_register(name, variables[i].type, 1);
      } else {
        Binding binding;
        binding.kind = kind;
        binding.index = static_cast<uint32_t>(i);
        scopes_.bind(name, binding);
        scopes_.reserve(name.text);
      }
    }
  };
  bind_all(function_.returns, Binding::Kind::Return);
  bind_all(function_.parameters, Binding::Kind::Parameter);
  Token open = reader_.token();
  reader_.expect('{');
  label_scopes_.emplace_back();
  while (!label_scopes_.empty()) {
    if (reader_.at_end())
      reader_.fail(open, fmt::format("the body of {} has no '}}'", quote(function_.name)));
    statement();
  }
}

void FunctionParser::statement() {
  const Token& token = reader_.token();
  if (token.kind == TokenKind::Name) {
    if (reader_.at_label()) return label();
    return instruction();
  }
  if (token.kind == TokenKind::Dotted) return directive();
  if (token.is('@')) return reader_.skip_old_debug_line() ? void() : instruction();
  if (reader_.accept(';')) return;
  if (token.is('{')) return open_scope();
  if (token.is('}')) return close_scope();
  reader_.fail_expected("an instruction or a directive");
}

void FunctionParser::open_scope() {
  scopes_.open();
  label_scopes_.emplace_back();
  reader_.advance();
}

void FunctionParser::close_scope() {
  LabelScope scope = std::move(label_scopes_.back());
  label_scopes_.pop_back();
  for (Pending& pending : scope.pending) {
    const uint32_t* index = scope.has_labels ? scope.labels.find(pending.name.text) : nullptr;
    if (!index) {
      if (label_scopes_.empty())
        reader_.fail(pending.name, fmt::format("unknown label {}", quote(pending.name)));
      label_scopes_.back().pending.push_back(pending);
    } else if (pending.instruction != kNone) {
      function_.body[pending.instruction].operands[pending.operand].index = *index - 1;
    } else {
      function_.target_lists[pending.list].targets[pending.operand] = *index - 1;
    }
  }
  if (!label_scopes_.empty()) scopes_.close();
  reader_.advance();
}

void FunctionParser::directive() {
  Token word = reader_.token();
  if (word.text == ".loc") {
    reader_.advance();
    location_ = module_.location();
    return;
  }
  if (word.text == ".reg") return registers();
  if (word.text == ".file") return reader_.advance(), module_.file();
  if (word.text == ".section") return reader_.advance(), module_.section();
  if (word.text == ".pragma") {
    do {
      reader_.advance();
      function_.pragmas.push_back(reader_.expect_string());
    } while (reader_.is(','));
    return reader_.expect(';');
  }
  if (std::optional<Space> space = space_of(word.text)) return variables(*space);
  if (word.text == ".extern" || word.text == ".weak" || word.text == ".visible") {
    reader_.advance();
    return;  // linkage says nothing new inside a function
  }
  reader_.fail(word, fmt::format("unknown directive {}", quote(word)));
}

// .reg .b32 %a, %b<10>;
void FunctionParser::registers() {
  reader_.advance();
  Declarator declarator = module_.declarations().specifiers(Space::None);
  Type type = declarator.prototype.type;
  uint32_t width = declarator.vector;
  if (width > 4) reader_.fail_expected("a vector of at most four registers");
  do {
    Token name = reader_.expect_name("a register name");
    if (std::optional<uint32_t> count = reader_.range(kMostRegisters)) {
      scopes_.declare_range(name, *count, type, width);
    } else {
      scopes_.declare_register(name, type, width);
    }
  } while (reader_.accept(','));
  reader_.expect(';');
}

void FunctionParser::variables(Space space) {
  reader_.advance();
  DeclarationParser& declarations = module_.declarations();
  Declarator declarator = declarations.specifiers(space);
  do {
    Token name = reader_.token();
    Variable variable = declarations.declare(declarator);
    if (std::optional<uint32_t> count = reader_.range(kMostVariables)) {
      for (uint32_t i = 0; i < *count; ++i) {
        Token numbered = name;
        numbered.text = module_.keep(fmt::format("{}{}", name.text, i));
        define(numbered, variable);
      }
    } else {
      declarations.initialiser(variable);
      define(name, std::move(variable));
    }
  } while (reader_.accept(','));
  reader_.expect(';');
}

void FunctionParser::define(const Token& name, Variable variable) {
  Binding binding;
  binding.kind = Binding::Kind::Variable;
  binding.index = static_cast<uint32_t>(function_.variables.size());
  scopes_.bind(name, binding);
  if (module_.find_symbol(name.text)) scopes_.reserve(name.text);
  variable.name = scopes_.unique(name.text);
  function_.variables.push_back(std::move(variable));
}

// name: instruction — or name: .branchtargets …;
void FunctionParser::label() {
  Token name = reader_.take();
  reader_.expect(':');
  if (reader_.is_dotted(".branchtargets") || reader_.is_dotted(".calltargets") ||
      reader_.is_dotted(".callprototype"))
    return target_list(name);
  LabelScope& scope = label_scopes_.back();
  uint32_t& index = scope.labels[name.text];
  if (index != 0) reader_.fail(name, fmt::format("label {} is defined twice", quote(name)));
  index = static_cast<uint32_t>(function_.body.size()) + 1;
  scope.has_labels = true;
  function_.labels.emplace_back(scopes_.unique(name.text), index - 1);
}

void FunctionParser::target_list(const Token& name) {
  Token kind = reader_.take();
  Binding binding;
  binding.kind = Binding::Kind::TargetList;
  binding.index = static_cast<uint32_t>(function_.target_lists.size());
  scopes_.bind(name, binding);
  TargetList list;
  list.name = scopes_.unique(name.text);
  if (kind.text == ".callprototype") {
    prototype(list);
  } else {
    bool is_calls = kind.text == ".calltargets";
    do {
      Token target = reader_.expect_name("a target");
      std::optional<uint32_t> count = reader_.range(kMostVariables);
      for (uint32_t i = 0; i < count.value_or(1); ++i) {
        Token each = target;
        if (count) each.text = module_.keep(fmt::format("{}{}", target.text, i));
        list.targets.push_back(is_calls ? call_target(each)
                                        : branch_target(each, binding.index, list.targets.size()));
      }
    } while (reader_.accept(','));
    list.is_calls = is_calls;
  }
  reader_.expect(';');
  function_.target_lists.push_back(std::move(list));
}

uint32_t FunctionParser::call_target(const Token& name) {
  const SymbolRef* symbol = module_.find_symbol(name.text);
  if (!symbol || symbol->kind != SymbolRef::Kind::Function)
    reader_.fail(name, fmt::format("{} is not a function", quote(name)));
  return symbol->index;
}

uint32_t FunctionParser::branch_target(const Token& name, uint32_t list, size_t at) {
  Pending pending;
  pending.name = name;
  pending.operand = static_cast<uint32_t>(at);
  pending.list = list;
  label_scopes_.back().pending.push_back(pending);
  return kNone;
}

// .callprototype (.param .b32 _) _ (.param .b64 _, …) .noreturn;
void FunctionParser::prototype(TargetList& list) {
  list.is_prototype = true;
  if (reader_.is('(')) module_.signature(list.returns);
  reader_.expect_name("'_'");
  if (reader_.is('(')) module_.signature(list.parameters);
  while (reader_.is_dotted()) {
    Token word = reader_.take();
    if (word.text == ".abi_preserve" || word.text == ".abi_preserve_control") {
      reader_.count("the number", 0x7fffffff);
    } else if (word.text == ".noreturn") {
      list.is_noreturn = true;
    } else {
      reader_.fail(word, fmt::format("unknown directive {}", quote(word)));
    }
  }
}

}  // namespace assay::ptx
