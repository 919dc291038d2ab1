#include "checks/shared_place.h"

#include "base/symbol.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

constexpr uint64_t kLargestScalar = 16;  // bytes, of a float4: what is larger is an array or a structure

}  // namespace

std::string variable_name(const std::string& symbol) {
  const std::string plain = demangled(symbol);
  const size_t last = plain.rfind("::");
  return last == std::string::npos ? plain : plain.substr(last + 2);
}

const vgpu::SharedVariable* shared_variable(const vgpu::Program& program, const vgpu::Function& kernel,
                                            uint64_t offset) {
  const vgpu::SharedVariable* dynamic = nullptr;
  for (const vgpu::SharedVariable& shared : program.shared_variables.at(kernel.index)) {
    if (shared.variable->is_unsized) {
      // Several names for one place: none of them is the right one.
      if (dynamic && dynamic->variable->name != shared.variable->name) return nullptr;
      if (offset >= shared.offset) dynamic = &shared;
    } else if (offset >= shared.offset && offset - shared.offset < shared.variable->size) {
      return &shared;
    }
  }
  return dynamic;
}

std::optional<evidence::SharedArray> array_at(const vgpu::SharedVariable* variable, uint64_t offset) {
  if (!variable || offset < variable->offset) return std::nullopt;
  const ptx::Variable& declared = *variable->variable;
  evidence::SharedArray array;
  array.name = variable_name(declared.name);
  array.symbol = declared.name;
  array.bytes = declared.is_unsized ? 0 : declared.size;
  array.offset = static_cast<int64_t>(offset - variable->offset);
  array.is_scalar = !declared.is_unsized && declared.size <= kLargestScalar;
  return array;
}

evidence::Place shared_place_of(const vgpu::Block& block, uint64_t offset) {
  evidence::Place place;
  place.space = evidence::Space::Shared;
  place.offset = static_cast<int64_t>(offset);
  place.array = array_at(shared_variable(*block.grid->program, *block.grid->entry, offset), offset);
  return place;
}

}  // namespace assay::checks
