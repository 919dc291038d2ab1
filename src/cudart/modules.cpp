#include "cudart/modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cudart/context.h"
#include "cudart/event_writer.h"
#include "cudart/properties.h"
#include "cudart/runtime.h"
#include "fatbinary/fatbinary.h"

namespace assay::cudart {
namespace {

constexpr std::string_view kNoPtx =
    "this program carries no PTX that an sm_90 device may run, only machine code or newer PTX; build it with "
    "`nvcc -arch=sm_90` or `-gencode arch=compute_90,code=compute_90`";

constexpr std::string_view kMachineCode =
    "this module is machine code (a cubin), which the virtual GPU does not run; load PTX instead (`nvcc "
    "-ptx`, or "
    "nvrtcGetPTX after compiling for compute_90)";

// Adds `offset` to the number that follows the first `word` at or after `from` in the line.
void renumber(std::string& line, std::string_view word, unsigned offset) {
  size_t at = line.find(word);
  if (at == std::string::npos) return;
  size_t start = line.find_first_of("0123456789", at + word.size());
  size_t end = line.find_first_not_of("0123456789", start);
  if (start == std::string::npos || start > at + word.size() + 2) return;
  if (end == std::string::npos) end = line.size();
  unsigned long number = std::strtoul(line.c_str() + start, nullptr, 10) + offset;
  line.replace(start, end - start, std::to_string(number));
}

// Appends a PTX text to another. Its header goes, and what is numbered or named for a whole text (source
// files, the names of inlined functions) is made its own.
void append_text(std::string& linked, const std::string& text, size_t index) {
  const unsigned offset = static_cast<unsigned>(index) * 1000;
  const std::string own = fmt::format("$L__info_string_{}_", index);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    size_t start = line.find_first_not_of(" \t");
    std::string_view word = start == std::string::npos ? "" : std::string_view(line).substr(start);
    if (word.starts_with(".version") || word.starts_with(".target") || word.starts_with(".address_size"))
      continue;
    if (word.starts_with(".file")) renumber(line, ".file", offset);
    if (word.starts_with(".loc") && !word.starts_with(".local")) {
      renumber(line, ".loc", offset);
      renumber(line, "inlined_at", offset);
    }
    for (size_t at = 0; (at = line.find("$L__info_string", at)) != std::string::npos; at += own.size())
      line.replace(at, std::strlen("$L__info_string"), own);
    linked += line;
    linked += '\n';
  }
}

}  // namespace

std::string link_texts(const std::vector<std::string>& texts) {
  std::string linked = texts.front();
  for (size_t i = 1; i < texts.size(); ++i) append_text(linked, texts[i], i);
  return linked;
}

Binary* Modules::add_wrapper(const void* wrapper) {
  FatbinaryWrapper head{};
  if (wrapper) std::memcpy(&head, wrapper, sizeof head);
  auto binary = std::make_unique<Binary>();
  if (head.magic == kWrapperMagic) {
    if (head.version == 2 && head.prelinked)
      for (auto** next = static_cast<const void**>(head.prelinked); *next; ++next)
        binary->containers.push_back(*next);
    if (binary->containers.empty()) binary->containers.push_back(head.data);
  }
  std::lock_guard lock(mutex_);
  binaries_.push_back(std::move(binary));
  return binaries_.back().get();
}

Binary* Modules::add_image(const void* image) {
  if (!image) return nullptr;
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == static_cast<uint32_t>(kWrapperMagic)) return add_wrapper(image);
  auto binary = std::make_unique<Binary>();
  if (uint64_t size = fatbinary::container_size(image)) {
    auto* bytes = static_cast<const std::byte*>(image);
    binary->owned.assign(bytes, bytes + size);
    binary->containers.push_back(binary->owned.data());
  } else {
    binary->text = static_cast<const char*>(image);
    if (binary->text.empty()) binary->text = "\n";  // an error when it is first used
  }
  std::lock_guard lock(mutex_);
  binaries_.push_back(std::move(binary));
  return binaries_.back().get();
}

void Modules::remove(Binary* binary, Context* context) {
  std::lock_guard lock(mutex_);
  auto found =
      std::find_if(binaries_.begin(), binaries_.end(), [&](auto& owned) { return owned.get() == binary; });
  if (found == binaries_.end()) return;
  std::erase_if(functions_, [&](const auto& item) { return item.second->binary == binary; });
  std::erase_if(variables_, [&](const auto& item) { return item.second->binary == binary; });
  if (context && binary->loaded && binary->status == Status::Success)
    context->streams().with_device([&](vgpu::Device& device) { device.unload(binary->module); });
  binaries_.erase(found);
}

void Modules::add_function(Binary* binary, const void* host, std::string name) {
  std::lock_guard lock(mutex_);
  auto entry = std::make_unique<FunctionEntry>();
  entry->binary = binary;
  entry->name = std::move(name);
  entry->host = host;
  if (host) functions_[host] = entry.get();
  functions_[entry.get()] = entry.get();
  binary->functions.push_back(std::move(entry));
}

void Modules::add_variable(Binary* binary, const void* host, std::string name, uint64_t size,
                           void** managed) {
  std::lock_guard lock(mutex_);
  auto entry = std::make_unique<VariableEntry>();
  *entry = {binary, std::move(name), size, managed};
  if (host) variables_[host] = entry.get();
  binary->variables.push_back(std::move(entry));
}

FunctionEntry* Modules::function(const void* host_or_handle) {
  std::lock_guard lock(mutex_);
  auto found = functions_.find(host_or_handle);
  return found == functions_.end() ? nullptr : found->second;
}

FunctionEntry* Modules::function_named_locked(Binary* binary, std::string_view name) {
  for (auto& function : binary->functions)
    if (function->name == name) return function.get();
  add_function(binary, nullptr, std::string(name));
  return binary->functions.back().get();
}

FunctionEntry* Modules::function_named(Binary* binary, std::string_view name) {
  std::lock_guard lock(mutex_);
  return function_named_locked(binary, name);
}

Status Modules::refuse_locked(Binary& binary, Status status, std::string_view why) {
  binary.message = why;
  writer_.say_once(why);
  return status;
}

// The PTX of a binary, all containers linked.
Status Modules::read_locked(Binary& binary, std::string& ptx) {
  if (binary.text.starts_with("\x7f"
                              "ELF"))
    return refuse_locked(binary, Status::NoKernelImageForDevice, kMachineCode);
  if (!binary.text.empty()) {
    ptx = binary.text;
    return Status::Success;
  }
  std::vector<std::string> texts;
  for (const void* container : binary.containers) {
    uint64_t size = fatbinary::container_size(container);
    if (size == 0)
      return refuse_locked(binary, Status::InvalidKernelImage, "corrupt fatbinary: wrong header");
    auto images = fatbinary::read_fatbinary({static_cast<const std::byte*>(container), size});
    if (!images) return refuse_locked(binary, Status::InvalidKernelImage, images.error().text());
    const fatbinary::Image* image = fatbinary::choose_ptx(*images, kArchitecture);
    if (!image) {
      if (images->empty()) continue;  // nothing for the device in this object
      return refuse_locked(binary, Status::NoKernelImageForDevice, kNoPtx);
    }
    auto text = fatbinary::unpack(*image);
    if (!text) return refuse_locked(binary, Status::InvalidKernelImage, text.error().text());
    texts.push_back(std::move(*text));
  }
  if (texts.empty()) return Status::NoKernelImageForDevice;
  ptx = link_texts(texts);
  return Status::Success;
}

uint32_t Modules::registers(FunctionEntry& function) {
  std::lock_guard lock(mutex_);
  Binary& binary = *function.binary;
  if (!binary.registers) {
    auto& registers = binary.registers.emplace();
    for (const void* container : binary.containers) {
      const uint64_t size = fatbinary::container_size(container);
      const auto images = fatbinary::read_fatbinary({static_cast<const std::byte*>(container), size});
      const fatbinary::Image* code =
          images ? fatbinary::choose_machine_code(*images, kArchitecture) : nullptr;
      if (!code) continue;
      if (auto found = fatbinary::registers_of(*code)) registers.merge(*found);
    }
  }
  const auto found = binary.registers->find(function.name);
  return found == binary.registers->end() ? 0 : found->second;
}

Status Modules::load_locked(Binary& binary, Context& context) {
  if (binary.loaded) return binary.status;
  binary.loaded = true;
  std::string ptx;
  binary.status = read_locked(binary, ptx);
  if (binary.status != Status::Success) return binary.status;
  auto module =
      context.streams().with_device([&](vgpu::Device& device) { return device.load(ptx, "program.ptx"); });
  if (!module) return binary.status = refuse_locked(binary, Status::InvalidPtx, module.error().text());
  binary.module = *module;
  if (Runtime::get().settings().report_code) writer_.write(protocol::CodeEvent{ptx});
  for (auto& variable : binary.variables) {
    if (!variable->managed) continue;
    auto info = context.device().variable(binary.module, variable->name);
    if (!info) continue;
    *variable->managed = reinterpret_cast<void*>(info->address);
    if (HostCheck* check = context.host_check()) check->add_managed_variable(info->address);
  }
  return Status::Success;
}

Status Modules::load(Binary& binary, Context& context) {
  std::lock_guard lock(mutex_);
  return load_locked(binary, context);
}

Status Modules::load_locked(FunctionEntry& function, Context& context) {
  if (function.kernel) return Status::Success;
  if (Status status = load_locked(*function.binary, context); status != Status::Success) return status;
  auto kernel = context.device().kernel(function.binary->module, function.name);
  if (!kernel) {
    writer_.say_once(kernel.error().text());
    return Status::InvalidDeviceFunction;
  }
  function.kernel = *kernel;
  return Status::Success;
}

Status Modules::load(FunctionEntry& function, Context& context) {
  std::lock_guard lock(mutex_);
  return load_locked(function, context);
}

Status Modules::variable_named(Binary& binary, std::string_view name, Context& context, Variable& found) {
  std::lock_guard lock(mutex_);
  if (Status status = load_locked(binary, context); status != Status::Success) return status;
  auto info = context.device().variable(binary.module, name);
  if (!info) return Status::InvalidSymbol;
  found = {info->address, info->size};
  return Status::Success;
}

Status Modules::variable(const void* host, Context& context, Variable& found) {
  std::lock_guard lock(mutex_);
  auto entry = variables_.find(host);
  if (entry == variables_.end()) return Status::InvalidSymbol;
  return variable_named(*entry->second->binary, entry->second->name, context, found);
}

Status Modules::part_of_variable(const void* host, size_t offset, size_t bytes, Context& context,
                                 void*& address) {
  Variable whole;
  if (Status status = variable(host, context, whole); status != Status::Success) return status;
  if (offset > whole.size || bytes > whole.size - offset) return Status::InvalidValue;
  address = reinterpret_cast<void*>(whole.address + offset);
  return Status::Success;
}

std::vector<FunctionEntry*> Modules::kernels(Binary& binary, Context& context) {
  std::lock_guard lock(mutex_);
  std::vector<FunctionEntry*> all;
  if (load_locked(binary, context) != Status::Success) return all;
  for (const vgpu::Kernel& kernel : context.device().kernels(binary.module))
    all.push_back(function_named_locked(&binary, kernel.name()));
  return all;
}

void Modules::forget_loaded() {
  std::lock_guard lock(mutex_);
  for (auto& binary : binaries_) {
    binary->loaded = false;
    binary->status = Status::Success;
    for (auto& function : binary->functions) {
      function->kernel.reset();
      function->max_dynamic_shared.reset();
      function->carveout = -1;
      function->nonportable_cluster = false;
    }
  }
}

}  // namespace assay::cudart
