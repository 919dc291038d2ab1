// Assigns addresses to a program's variables, and sizes to its functions' frames.
//
// Shared memory is laid out for each kernel separately: a variable that a kernel cannot reach through the
// functions it may call takes none of its space. A variable that several kernels reach has one address, above
// everything that any of them has placed so far.
#include "vgpu/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace assay::vgpu {

namespace {

// What a function's body names.
struct Names {
  std::vector<uint32_t> functions, variables;
  bool calls_indirectly = false;
};

void add_names(const ptx::Operand& operand, Names& names) {
  using Kind = ptx::SymbolRef::Kind;
  if (operand.symbol.kind == Kind::Function) names.functions.push_back(operand.symbol.index);
  if (operand.symbol.kind == Kind::ModuleVariable) names.variables.push_back(operand.symbol.index);
  for (const ptx::Operand& element : operand.elements) add_names(element, names);
}

Names names_in(const ptx::Function& function) {
  Names names;
  for (const ptx::Instruction& inst : function.body) {
    for (const ptx::Operand& operand : inst.operands) {
      add_names(operand, names);
      if (inst.opcode == ptx::Opcode::call && operand.kind == ptx::Operand::Kind::Register)
        names.calls_indirectly = true;
    }
  }
  return names;
}

// For each function and module variable, the kernels from which a thread may come to it.
struct Users {
  std::vector<std::vector<uint32_t>> of_function, of_variable;
};

Users find_users(const ptx::Module& module) {
  std::vector<Names> names;
  for (const ptx::Function& f : module.functions) names.push_back(names_in(f));
  Users users{std::vector<std::vector<uint32_t>>(module.functions.size()),
              std::vector<std::vector<uint32_t>>(module.variables.size())};
  for (uint32_t entry = 0; entry < module.functions.size(); ++entry) {
    if (!module.functions[entry].is_entry) continue;
    std::vector<bool> seen(module.functions.size(), false), used(module.variables.size(), false);
    std::vector<uint32_t> open{entry};
    const auto visit = [&](uint32_t f) {
      if (f < seen.size() && !seen[f]) seen[f] = true, open.push_back(f);
    };
    seen[entry] = true;
    while (!open.empty()) {
      const Names& named = names[open.back()];
      open.pop_back();
      for (uint32_t v : named.variables) used[v] = true;
      for (uint32_t f : named.functions) visit(f);
      if (named.calls_indirectly)  // it may lead to any function
        for (uint32_t f = 0; f < seen.size(); ++f)
          if (!module.functions[f].is_entry) visit(f);
    }
    for (uint32_t f = 0; f < seen.size(); ++f)
      if (seen[f]) users.of_function[f].push_back(entry);
    for (uint32_t v = 0; v < used.size(); ++v)
      if (used[v]) users.of_variable[v].push_back(entry);
  }
  return users;
}

class Layout {
 public:
  Layout(Program& program, Memory& memory)
      : program_(program),
        memory_(memory),
        users_(find_users(program.module)),
        shared_(program.functions.size(), 0) {}

  Result<void> run() {
    program_.shared_variables.resize(program_.functions.size());
    if (Result<void> placed = place_module_variables(); !placed) return placed.error();
    program_.function_variables.resize(program_.module.functions.size());
    // What functions declare lies before what kernels do: several kernels may call them.
    for (const bool entries : {false, true})
      for (uint32_t f = 0; f < program_.module.functions.size(); ++f)
        if (program_.module.functions[f].is_entry == entries) place_function_variables(f);
    uint64_t largest = 0;
    for (uint32_t f = 0; f < program_.functions.size(); ++f) {
      if (!program_.module.functions[f].is_entry) continue;
      program_.functions[f].shared_bytes = static_cast<uint32_t>(shared_[f]);
      largest = std::max(largest, shared_[f]);
    }
    program_.dynamic_shared_base = static_cast<uint32_t>(align_up(largest, dynamic_align_));
    point_unsized_at_dynamic();
    return fill_initial_values();
  }

 private:
  Program& program_;
  Memory& memory_;
  Users users_;
  std::vector<uint64_t> shared_;  // by function, kernels only: bytes placed so far
  uint64_t dynamic_align_ = 16;

  uint64_t place_shared(const ptx::Variable& v, const std::vector<uint32_t>& users) {
    if (v.is_unsized) {
      for (uint32_t entry : users) program_.shared_variables[entry].push_back({&v, 0});
      dynamic_align_ = std::max<uint64_t>(dynamic_align_, v.align);
      return 0;  // point_unsized_at_dynamic knows
    }
    uint64_t place = 0;
    for (uint32_t entry : users) place = std::max(place, shared_[entry]);
    place = align_up(place, std::max<uint32_t>(v.align, 1));
    for (uint32_t entry : users) {
      shared_[entry] = place + v.size;
      program_.shared_variables[entry].push_back({&v, place});
    }
    return place;
  }

  Result<void> place_module_variables() {
    for (uint32_t i = 0; i < program_.module.variables.size(); ++i) {
      const ptx::Variable& v = program_.module.variables[i];
      uint64_t place = 0;
      if (v.space == ptx::Space::Shared) {
        place = place_shared(v, users_.of_variable[i]);
      } else if (!(v.is_extern && v.size == 0)) {
        Result<Address> address =
            memory_.allocate(std::max<uint64_t>(v.size, 1), std::max<uint64_t>(v.align, 256),
                             v.is_managed ? MemoryKind::Managed : MemoryKind::Variable, v.name);
        if (!address) return address.error();
        memory_.mark_initialised(*address, v.size);
        place = *address;
      }
      program_.variables.push_back(place);
    }
    return {};
  }

  void place_function_variables(uint32_t index) {
    const ptx::Function& in = program_.module.functions[index];
    Function& out = program_.functions[index];
    place_parameters(in, out);
    uint64_t local = 0, param = out.param_bytes;
    for (const ptx::Variable& v : in.variables) {
      uint64_t place = 0;
      if (v.space == ptx::Space::Shared) {
        place = place_shared(v, users_.of_function[index]);
      } else if (!v.is_unsized) {
        uint64_t& top = v.space == ptx::Space::Local ? local : param;
        place = align_up(top, std::max<uint32_t>(v.align, 1));
        top = place + v.size;
      }
      program_.function_variables[index].push_back(place);
    }
    // alloca needs a stack, even where no variable does.
    const bool allocates = std::any_of(in.body.begin(), in.body.end(), [](const ptx::Instruction& i) {
      return i.opcode == ptx::Opcode::alloca;
    });
    out.local_bytes = static_cast<uint32_t>(align_up(std::max<uint64_t>(local, allocates ? 16 : 0), 16));
    out.param_bytes = static_cast<uint32_t>(align_up(param, 16));
  }

  static void place_parameters(const ptx::Function& in, Function& out) {
    uint64_t top = 0;
    for (const ptx::Variable& p : in.parameters) {
      top = align_up(top, std::max<uint32_t>(p.align, 1));
      out.parameter_offsets.push_back(static_cast<uint32_t>(top));
      top += p.size;
    }
    out.parameter_bytes = static_cast<uint32_t>(top);
    for (const ptx::Variable& r : in.returns) {
      top = align_up(top, std::max<uint32_t>(r.align, 1));
      out.return_offsets.push_back(static_cast<uint32_t>(top));
      top += r.size;
    }
    out.param_bytes = in.is_entry ? 0 : static_cast<uint32_t>(align_up(top, 16));
  }

  void point_unsized_at_dynamic() {
    for (auto& variables : program_.shared_variables)
      for (SharedVariable& shared : variables)
        if (shared.variable->is_unsized) shared.offset = program_.dynamic_shared_base;
    for (size_t v = 0; v < program_.module.variables.size(); ++v)
      if (program_.module.variables[v].is_unsized) program_.variables[v] = program_.dynamic_shared_base;
    for (size_t f = 0; f < program_.module.functions.size(); ++f)
      for (size_t v = 0; v < program_.module.functions[f].variables.size(); ++v)
        if (program_.module.functions[f].variables[v].is_unsized)
          program_.function_variables[f][v] = program_.dynamic_shared_base;
  }

  Result<void> fill_initial_values() {
    std::unordered_map<std::string_view, uint64_t> places;
    for (size_t f = 0; f < program_.module.functions.size(); ++f)
      places.emplace(program_.module.functions[f].name, kFunctionWindow + f * kFunctionStride);
    for (size_t v = 0; v < program_.module.variables.size(); ++v)
      places.emplace(program_.module.variables[v].name, program_.variables[v]);
    for (size_t v = 0; v < program_.module.variables.size(); ++v) {
      const ptx::Variable& variable = program_.module.variables[v];
      if (variable.space == ptx::Space::Shared || program_.variables[v] == 0) continue;
      std::byte* host = memory_.host(program_.variables[v], std::max<uint64_t>(variable.size, 1));
      const uint64_t given = std::min<uint64_t>(variable.init.size(), variable.size);
      if (given > 0) std::memcpy(host, variable.init.data(), given);
      for (const auto& relocation : variable.relocations) {
        const auto place = places.find(relocation.symbol);
        if (place == places.end())
          return Error{fmt::format("variable `{}` refers to `{}`, which this module does not define",
                                   variable.name, relocation.symbol),
                       program_.name, static_cast<int>(variable.declared_line)};
        const uint64_t value = (place->second + static_cast<uint64_t>(relocation.addend)) >> relocation.shift;
        if (relocation.offset + relocation.size <= variable.size && relocation.size <= 8)
          std::memcpy(host + relocation.offset, &value, relocation.size);
      }
    }
    return {};
  }
};

}  // namespace

Result<void> place_variables(Program& program, Memory& memory) {
  return Layout(program, memory).run();
}

}  // namespace assay::vgpu
