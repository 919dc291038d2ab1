#include "driver/context.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "driver/driver.h"

namespace assay::driver {
namespace {

std::atomic<bool> initialised = false;

struct Contexts {
  std::mutex mutex;
  ContextHandle primary{.id = 1, .references = 0, .is_primary = true};
  std::unordered_map<ContextHandle*, std::unique_ptr<ContextHandle>> created;
  uint64_t last_id = 1;

  // Never destroyed: programs call the driver from their own static destructors.
  static Contexts& get() {
    static auto* contexts = new Contexts;
    return *contexts;
  }
};

// Innermost last. Handles of destroyed contexts may be among them.
std::vector<ContextHandle*>& stack() {
  thread_local std::vector<ContextHandle*> contexts;
  return contexts;
}

// Everything on the device belongs to some context, and goes with the last.
void forget_device_if_unused(const Contexts& contexts) {
  if (!contexts.created.empty() || contexts.primary.references > 0 || cudart::assay_process_uses_runtime())
    return;
  (void)cudart::cudaDeviceReset();
}

}  // namespace

bool is_initialised() {
  return initialised || cudart::assay_runtime_called();
}

void initialise() {
  initialised = true;
}

ContextHandle* current() {
  if (!stack().empty()) return stack().back();
  return cudart::assay_thread_uses_runtime() ? primary_context() : nullptr;
}

Status check_current() {
  if (!is_initialised()) return Status::InitializationError;
  ContextHandle* context = current();
  if (!context) return Status::DeviceUninitialized;
  return is_alive(context) ? Status::Success : Status::ContextIsDestroyed;
}

void push(ContextHandle* context) {
  stack().push_back(context);
}

ContextHandle* pop() {
  ContextHandle* top = current();
  if (!stack().empty()) stack().pop_back();
  return top;
}

void set_current(ContextHandle* context) {
  if (!stack().empty()) stack().pop_back();
  if (context) stack().push_back(context);
}

ContextHandle* create_context(unsigned flags) {
  Contexts& contexts = Contexts::get();
  std::lock_guard lock(contexts.mutex);
  auto context = std::make_unique<ContextHandle>();
  context->id = ++contexts.last_id;
  context->flags = flags;
  ContextHandle* handle = context.get();
  contexts.created[handle] = std::move(context);
  return handle;
}

bool is_alive(ContextHandle* context) {
  Contexts& contexts = Contexts::get();
  std::lock_guard lock(contexts.mutex);
  return context == &contexts.primary || contexts.created.contains(context);
}

bool destroy_context(ContextHandle* context) {
  Contexts& contexts = Contexts::get();
  std::lock_guard lock(contexts.mutex);
  if (contexts.created.erase(context) == 0) return false;
  if (!stack().empty() && stack().back() == context) stack().pop_back();
  forget_device_if_unused(contexts);
  return true;
}

ContextHandle* primary_context() {
  return &Contexts::get().primary;
}

ContextHandle* retain_primary() {
  Contexts& contexts = Contexts::get();
  std::lock_guard lock(contexts.mutex);
  ++contexts.primary.references;
  return &contexts.primary;
}

bool release_primary() {
  Contexts& contexts = Contexts::get();
  std::lock_guard lock(contexts.mutex);
  if (contexts.primary.references == 0) return false;
  if (--contexts.primary.references == 0) forget_device_if_unused(contexts);
  return true;
}

void reset_primary() {
  Contexts& contexts = Contexts::get();
  std::lock_guard lock(contexts.mutex);
  if (contexts.created.empty()) (void)cudart::cudaDeviceReset();
}

bool is_primary_active() {
  Contexts& contexts = Contexts::get();
  std::lock_guard lock(contexts.mutex);
  return contexts.primary.references > 0 || cudart::assay_process_uses_runtime();
}

}  // namespace assay::driver
