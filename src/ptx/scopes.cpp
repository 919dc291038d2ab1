#include "ptx/scopes.h"

#include <fmt/format.h>

namespace assay::ptx {
namespace {

constexpr uint32_t kDeepestScope = 1000;

// "%r12" → "%r" and 12; no number if there is none, or it is written with leading zeros.
std::optional<uint32_t> split_number(std::string_view name, std::string_view& prefix) {
  size_t start = name.size();
  while (start > 0 && name[start - 1] >= '0' && name[start - 1] <= '9') --start;
  size_t digits = name.size() - start;
  if (digits == 0 || digits > 9 || (digits > 1 && name[start] == '0')) return std::nullopt;
  uint32_t number = 0;
  for (size_t i = start; i < name.size(); ++i) number = number * 10 + static_cast<uint32_t>(name[i] - '0');
  prefix = name.substr(0, start);
  return number;
}

constexpr std::string_view kComponents[] = {"_x", "_y", "_z", "_w"};

}  // namespace

void Scopes::open() {
  if (scopes_.size() > kDeepestScope) reader_.fail(reader_.token(), "scopes nested too deeply");
  scopes_.emplace_back();
}

void Scopes::close() {
  Scope& scope = scopes_.back();
  for (size_t i = scope.undo.size(); i-- > 0;) bindings_[scope.undo[i].name] = scope.undo[i].before;
  for (std::string_view prefix : scope.ranges) {
    uint32_t& range = range_of_[prefix];
    range = ranges_[range - 1].previous;
    --inner_ranges_;
  }
  scopes_.pop_back();
}

const Binding* Scopes::find(std::string_view name) {
  const Binding* binding = bindings_.find(name);
  bool live = binding && binding->kind != Binding::Kind::None;
  if (live && inner_ranges_ == 0) return binding;
  const Binding* ranged = find_in_ranges(name, live ? binding->depth : 0);
  return ranged ? ranged : live ? bindings_.find(name) : nullptr;
}

const Binding* Scopes::find_in_ranges(std::string_view name, uint32_t above_depth) {
  std::string_view prefix;
  std::optional<uint32_t> number = split_number(name, prefix);
  if (!number) return nullptr;
  const uint32_t* found = range_of_.find(prefix);
  for (uint32_t at = found ? *found : 0; at != 0; at = ranges_[at - 1].previous) {
    Range range = ranges_[at - 1];
    if (range.depth <= above_depth) return nullptr;
    if (*number >= range.count) continue;
    Binding binding;
    binding.kind = range.width > 1 ? Binding::Kind::VectorRegister : Binding::Kind::Register;
    binding.width = static_cast<uint8_t>(range.width);
    binding.depth = range.depth;
    binding.index = add_registers(name, range.type, range.width);
    set(name, binding);
    return bindings_.find(name);
  }
  return nullptr;
}

void Scopes::set(std::string_view name, Binding binding) {
  Binding& slot = bindings_[name];
  scopes_[binding.depth - 1].undo.push_back({name, slot});
  slot = binding;
}

void Scopes::bind(const Token& name, Binding binding) {
  const Binding* known = bindings_.find(name.text);
  if (known && known->kind != Binding::Kind::None && known->depth == depth())
    reader_.fail(name, fmt::format("{} is declared twice", quote(name)));
  binding.depth = depth();
  set(name.text, binding);
}

uint32_t Scopes::add_registers(std::string_view name, Type type, uint32_t width) {
  auto index = static_cast<uint32_t>(function_.registers.size());
  if (width == 1) {
    function_.registers.push_back({unique(name), type});
  } else {
    for (uint32_t i = 0; i < width; ++i)
      function_.registers.push_back({unique(std::string(name) + std::string(kComponents[i])), type});
  }
  return index;
}

uint32_t Scopes::declare_register(const Token& name, Type type, uint32_t width) {
  Binding binding;
  binding.kind = width > 1 ? Binding::Kind::VectorRegister : Binding::Kind::Register;
  binding.width = static_cast<uint8_t>(width);
  binding.index = static_cast<uint32_t>(function_.registers.size());
  bind(name, binding);
  return add_registers(name.text, type, width);
}

void Scopes::declare_range(const Token& prefix, uint32_t count, Type type, uint32_t width) {
  uint32_t& range = range_of_[prefix.text];
  if (range != 0 && ranges_[range - 1].depth == depth())
    reader_.fail(prefix, fmt::format("the registers {} are declared twice", quote(prefix)));
  ranges_.push_back({count, depth(), range, type, width});
  range = static_cast<uint32_t>(ranges_.size());
  if (depth() > 1) {
    scopes_.back().ranges.push_back(prefix.text);
    ++inner_ranges_;
  }
}

void Scopes::reserve(std::string_view name) {
  used_[name] = 1;
}

std::string Scopes::unique(std::string_view name) {
  uint32_t* times = used_.find(name);
  if (!times) {
    made_names_.emplace_back(name);
    used_[made_names_.back()] = 1;
    return made_names_.back();
  }
  for (uint32_t suffix = *times;; ++suffix) {
    std::string candidate = fmt::format("{}${}", name, suffix);
    if (used_.find(candidate)) continue;
    *used_.find(name) = suffix + 1;
    made_names_.push_back(candidate);
    used_[made_names_.back()] = 1;
    return candidate;
  }
}

}  // namespace assay::ptx
