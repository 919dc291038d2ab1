// The parser's own parts: one object for the module, one for each function body.
#pragma once

#include <span>
#include <unordered_map>

#include "ptx/declarations.h"
#include "ptx/name_map.h"
#include "ptx/table.h"
#include "ptx/token_reader.h"

namespace assay::ptx {

// An instruction name as written (`ld.global.v4.f32`), looked up once per spelling.
struct Word {
  Opcode opcode{};
  std::vector<Mod> mods;
  std::vector<Type> types;
  std::vector<uint16_t> rows;  // of the table, that it may be
};

class ModuleParser {
 public:
  explicit ModuleParser(std::string_view text);
  Module parse();

  // For the parser of function bodies.
  TokenReader& reader() { return reader_; }
  Module& module() { return module_; }
  DeclarationParser& declarations() { return declarations_; }
  const SymbolRef* find_symbol(std::string_view name) { return symbols_.find(name); }
  const Word& word(const Token& token);
  uint32_t location();  // after the keyword .loc
  void file();          // after the keyword .file
  void section();       // after the keyword .section
  void signature(std::vector<Variable>& variables);
  std::string_view keep(std::string name) { return kept_names_.emplace_back(std::move(name)); }

 private:
  // A .loc; the name of an inlined function is a label in .debug_str until the end.
  struct LocationKey {
    uint32_t file, line, column, inlined_at;
    std::string_view function;
    int64_t offset;
    bool operator==(const LocationKey&) const = default;
  };
  struct LocationHash {
    size_t operator()(const LocationKey& key) const;
  };

  void directive();
  void version();
  void target();
  void declaration();
  void variable(Space space, const Token& linkage);
  void function(bool is_entry, const Token& linkage);
  void function_directives(Function& function);
  void alias();
  uint32_t define_function(Function declared, const Token& name, bool has_body);
  void define_variable(Variable variable, const Token& at);
  void dimensions(uint32_t (&dims)[3]);
  Word look_up(const Token& token);
  uint32_t intern(const LocationKey& key);
  LocationKey place();
  void finish();

  std::string_view text_;
  TokenReader reader_;
  DeclarationParser declarations_;
  Module module_;
  NameMap<SymbolRef> symbols_;
  NameMap<uint32_t> word_index_;
  std::deque<Word> words_;
  std::deque<std::string> kept_names_;  // made from ranges: they outlive the tables of names

  std::unordered_map<LocationKey, uint32_t, LocationHash> location_index_;
  std::unordered_map<LocationKey, uint32_t, LocationHash>
      last_at_;                             // the last location at a place, however inlined
  std::vector<LocationKey> location_keys_;  // of Module::locations
  std::string debug_strings_;
  NameMap<uint32_t> debug_labels_;  // label → 1 + offset in debug_strings_
};

}  // namespace assay::ptx
