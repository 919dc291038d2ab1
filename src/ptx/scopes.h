// Names inside a function: nested scopes, register ranges (%r<100>), names made unique.
//
// A name resolves to its innermost binding. Opening a scope costs nothing; leaving it undoes its bindings.
// A range binds nothing by itself: %r7 becomes a register when it is first used.
#pragma once

#include "ptx/name_map.h"
#include "ptx/token_reader.h"

namespace assay::ptx {

struct Binding {
  enum class Kind : uint8_t { None, Register, VectorRegister, Variable, Parameter, Return, TargetList };
  Kind kind = Kind::None;
  uint8_t width = 1;  // VectorRegister: elements, at index, index+1, …
  uint32_t index = 0;
  uint32_t depth = 0;  // of the scope that declared it
};

class Scopes {
 public:
  Scopes(Function& function, TokenReader& reader) : function_(function), reader_(reader), scopes_(1) {}

  uint32_t depth() const { return static_cast<uint32_t>(scopes_.size()); }
  void open();
  void close();

  // What a name leads to, or nullptr.
  const Binding* find(std::string_view name);

  // Declares; `name` must be new in the innermost scope.
  void bind(const Token& name, Binding binding);
  uint32_t declare_register(const Token& name, Type type, uint32_t width);
  void declare_range(const Token& prefix, uint32_t count, Type type, uint32_t width);

  // A name no other register, variable or label of the function has, made from this one.
  std::string unique(std::string_view name);
  void reserve(std::string_view name);  // names from outside that must not be shadowed

 private:
  struct Range {
    uint32_t count, depth, previous;  // previous: 1 + index of the range it shadows, or 0
    Type type;
    uint32_t width;
  };
  struct Undo {
    std::string_view name;
    Binding before;
  };
  struct Scope {
    std::vector<Undo> undo;
    std::vector<std::string_view> ranges;
  };

  const Binding* find_in_ranges(std::string_view name, uint32_t above_depth);
  void set(std::string_view name, Binding binding);
  uint32_t add_registers(std::string_view name, Type type, uint32_t width);

  Function& function_;
  TokenReader& reader_;
  std::vector<Scope> scopes_;
  NameMap<Binding> bindings_;
  NameMap<uint32_t> range_of_;  // prefix → 1 + index of the innermost range
  std::vector<Range> ranges_;
  size_t inner_ranges_ = 0;  // ranges declared in open scopes below the function's own
  NameMap<uint32_t> used_;   // names taken → how often
  std::deque<std::string> made_names_;
};

}  // namespace assay::ptx
