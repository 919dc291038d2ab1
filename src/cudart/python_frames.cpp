// A frame is remembered by its code object and the instruction it stands at, and gets its line and names when it is
// first seen; a stack is a list of such frames. Both are kept once, so that a loop that allocates a million tensors
// costs a walk over the frames each time and no memory. Code objects that were seen are kept alive, so that no other
// one gets the same address.
#include "cudart/python_frames.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace assay::cudart {
namespace {

constexpr std::size_t kMostFrames = 64;

struct PythonApi {
  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;  // public since 3.13, there before under another name
  void* (*this_thread_state)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void* (*current_frame)() = nullptr;    // borrowed
  void* (*frame_back)(void*) = nullptr;  // new reference
  void* (*frame_code)(void*) = nullptr;  // new reference
  int (*frame_last)(void*) = nullptr;    // since 3.11; null before
  int (*frame_line)(void*) = nullptr;
  void* (*attribute)(void*, const char*) = nullptr;  // new reference
  const char* (*utf8)(void*) = nullptr;
  void (*clear_error)() = nullptr;
  void (*keep)(void*) = nullptr;
  void (*drop)(void*) = nullptr;

  bool is_complete = false;
};

template <class Function>
bool find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

PythonApi find_python() {
  PythonApi api;
  api.is_complete =
      find(api.is_initialized, "Py_IsInitialized") &&
      find(api.this_thread_state, "PyGILState_GetThisThreadState") && find(api.ensure, "PyGILState_Ensure") &&
      find(api.release, "PyGILState_Release") && find(api.current_frame, "PyEval_GetFrame") &&
      find(api.frame_back, "PyFrame_GetBack") && find(api.frame_code, "PyFrame_GetCode") &&
      find(api.frame_line, "PyFrame_GetLineNumber") && find(api.attribute, "PyObject_GetAttrString") &&
      find(api.utf8, "PyUnicode_AsUTF8") && find(api.clear_error, "PyErr_Clear") &&
      find(api.keep, "Py_IncRef") && find(api.drop, "Py_DecRef");
  find(api.frame_last, "PyFrame_GetLasti");
  if (!find(api.is_finalizing, "Py_IsFinalizing")) find(api.is_finalizing, "_Py_IsFinalizing");
  return api;
}

const PythonApi& python() {
  static const PythonApi api = find_python();
  return api;
}

std::string text_attribute(void* object, const char* name) {
  const PythonApi& api = python();
  void* value = api.attribute(object, name);
  const char* text = value ? api.utf8(value) : nullptr;
  std::string copy = text ? text : "";
  if (!text) api.clear_error();
  if (value) api.drop(value);
  return copy;
}

class Stacks {
 public:
  // Of the calling thread, which has the global lock.
  uint64_t current() {
    const PythonApi& api = python();
    void* frame = api.current_frame();
    if (!frame) return 0;
    api.keep(frame);
    std::vector<uint32_t> stack;
    while (frame) {
      if (stack.size() < kMostFrames) stack.push_back(number_of(frame));
      void* back = stack.size() < kMostFrames ? api.frame_back(frame) : nullptr;
      api.drop(frame);
      frame = back;
    }
    std::lock_guard lock(mutex_);
    const auto [place, fresh] = numbers_.try_emplace(std::move(stack), stacks_.size() + 1);
    if (fresh) stacks_.push_back(&place->first);
    return place->second;
  }

  std::vector<Frame> frames(uint64_t stack) {
    std::lock_guard lock(mutex_);
    std::vector<Frame> all;
    if (stack == 0 || stack > stacks_.size()) return all;
    for (uint32_t number : *stacks_[stack - 1]) all.push_back(frames_[number]);
    return all;
  }

 private:
  uint32_t number_of(void* frame) {
    const PythonApi& api = python();
    void* code = api.frame_code(frame);
    const int at = api.frame_last ? api.frame_last(frame) : api.frame_line(frame);
    {
      std::lock_guard lock(mutex_);
      if (const auto found = by_code_.find({code, at}); found != by_code_.end()) {
        api.drop(code);
        return found->second;
      }
    }
    Frame made{
        {text_attribute(code, "co_filename"), api.frame_line(frame)}, text_attribute(code, "co_name"), true};
    std::lock_guard lock(mutex_);
    const auto [place, fresh] = by_code_.try_emplace({code, at}, static_cast<uint32_t>(frames_.size()));
    if (fresh) frames_.push_back(std::move(made));  // keeps the reference to the code
    return place->second;
  }

  std::mutex mutex_;  // never held while the global lock is waited for
  std::map<std::pair<void*, int>, uint32_t> by_code_;
  std::vector<Frame> frames_;
  std::map<std::vector<uint32_t>, uint64_t> numbers_;
  std::vector<const std::vector<uint32_t>*> stacks_;
};

Stacks& stacks() {
  static auto* all = new Stacks;  // used until the process ends
  return *all;
}

}  // namespace

bool has_python() {
  return python().is_complete;
}

uint64_t python_stack() {
  const PythonApi& api = python();
  if (!api.is_complete || api.is_initialized() == 0 || !api.this_thread_state()) return 0;
  if (api.is_finalizing && api.is_finalizing() != 0) return 0;
  const int state = api.ensure();
  const uint64_t stack = stacks().current();
  api.release(state);
  return stack;
}

std::vector<Frame> python_frames(uint64_t stack) {
  return stacks().frames(stack);
}

}  // namespace assay::cudart
