// Device code that the program registered or loaded, and the kernels and variables in it.
//
// Registration only notes what is there. PTX is unpacked, parsed and decoded when a kernel or a
// variable of it is first asked for, so programs with a large library start at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cudart/abi.h"
#include "vgpu/device.h"

namespace assay::cudart {

class Context;
class EventWriter;
struct Binary;

// A kernel of the program; also what the handles cudaFunction_t and cudaKernel_t point to.
struct FunctionEntry {
  Binary* binary = nullptr;
  std::string name;
  const void* host = nullptr;          // the function that stands for it on the host
  std::optional<vgpu::Kernel> kernel;  // once loaded
  // Set through cudaFuncSetAttribute.
  std::optional<uint32_t> max_dynamic_shared;
  int carveout = -1;
  bool nonportable_cluster = false;
  Dim required_cluster{0, 0, 0};
  int cluster_policy = 0;
};

struct VariableEntry {
  Binary* binary = nullptr;
  std::string name;
  uint64_t size = 0;
  void** managed = nullptr;  // host pointer to fill in, for __managed__ variables
};

// One container of device code.
struct Binary {
  std::vector<const void*> containers;  // fatbinaries, linked together when more than one
  std::string text;                     // PTX given directly
  std::vector<std::byte> owned;         // bytes kept for `containers`
  std::vector<std::unique_ptr<FunctionEntry>> functions;
  std::vector<std::unique_ptr<VariableEntry>> variables;
  bool loaded = false;
  Status status = Status::Success;  // of loading
  std::string message;              // why it could not be loaded
  vgpu::Device::ModuleId module = 0;
  // Registers by kernel, as the assembler noted them; empty where the program holds PTX alone. Read when first asked for.
  std::optional<std::map<std::string, uint32_t>> registers;
};

// PTX of objects compiled apart (-rdc=true), as one module: the texts one after another, with one header.
std::string link_texts(const std::vector<std::string>& texts);

struct Variable {
  vgpu::Address address = 0;
  uint64_t size = 0;
};

class Modules {
 public:
  explicit Modules(EventWriter& writer) : writer_(writer) {}

  Binary* add_wrapper(const void* wrapper);
  // Anything cudaLibraryLoadData takes: a fatbinary or its wrapper, else PTX text.
  Binary* add_image(const void* image);
  void remove(Binary* binary, Context* context);
  void add_function(Binary* binary, const void* host, std::string name);
  void add_variable(Binary* binary, const void* host, std::string name, uint64_t size, void** managed);

  // The kernel behind a host function or a handle; null: none such.
  FunctionEntry* function(const void* host_or_handle);
  FunctionEntry* function_named(Binary* binary, std::string_view name);
  Status load(FunctionEntry& function, Context& context);
  Status load(Binary& binary, Context& context);
  Status variable(const void* host, Context& context, Variable& found);
  // The address of `bytes` bytes of a variable from `offset` on; an error where they end past it.
  Status part_of_variable(const void* host, size_t offset, size_t bytes, Context& context, void*& address);
  Status variable_named(Binary& binary, std::string_view name, Context& context, Variable& found);
  std::vector<FunctionEntry*> kernels(Binary& binary, Context& context);
  // Those that a thread of a kernel needs, from the machine code beside the PTX; 0: there is none.
  uint32_t registers(FunctionEntry& function);

  // The device is gone: everything has to be loaded again.
  void forget_loaded();

 private:
  Status load_locked(Binary& binary, Context& context);
  Status load_locked(FunctionEntry& function, Context& context);
  Status read_locked(Binary& binary, std::string& ptx);
  Status refuse_locked(Binary& binary, Status status, std::string_view why);  // says so
  FunctionEntry* function_named_locked(Binary* binary, std::string_view name);

  EventWriter& writer_;
  std::recursive_mutex mutex_;
  std::vector<std::unique_ptr<Binary>> binaries_;
  std::unordered_map<const void*, FunctionEntry*> functions_;  // by host function and by entry
  std::unordered_map<const void*, VariableEntry*> variables_;
};

}  // namespace assay::cudart
