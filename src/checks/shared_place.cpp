#include "checks/shared_place.h"

#include <fmt/format.h>

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

std::string describe_shared(const vgpu::SharedVariable* shared, uint64_t offset, Json& evidence) {
  if (!shared || offset < shared->offset) return fmt::format("offset {} of shared memory", offset);
  const std::string name = variable_name(shared->variable->name);
  const uint64_t inside = offset - shared->offset;
  const bool one = !shared->variable->is_unsized && shared->variable->size <= kLargestScalar;
  const std::string text = inside != 0 ? fmt::format("{} + {} bytes", name, inside)
                           : one       ? name
                                       : "the start of " + name;
  evidence["arrays"].push_back({{"text", text},
                                {"name", name},
                                {"symbol", shared->variable->name},
                                {"offset", inside},
                                {"bytes", shared->variable->size}});
  return text;
}

std::string describe_shared(const vgpu::Block& block, uint64_t offset, Json& evidence) {
  return describe_shared(shared_variable(*block.grid->program, *block.grid->entry, offset), offset, evidence);
}

}  // namespace assay::checks
