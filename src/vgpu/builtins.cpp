#include "vgpu/builtins.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "vgpu/grid.h"

namespace assay::vgpu {

namespace {

constexpr size_t kLongestString = 1 << 20;

// Host memory of a generic address, as one thread sees it; null where there is none.
const std::byte* readable(Warp& w, uint32_t lane, Address address, uint64_t bytes) {
  if (address >= kLocalWindow && address < kLocalWindowEnd) {
    const uint64_t offset = address - kLocalWindow;
    return w.local && offset + bytes <= w.local_stride ? w.local + size_t{lane} * w.local_stride + offset
                                                       : nullptr;
  }
  if (address >= kSharedWindow && address < kSharedWindowEnd) {
    const uint64_t offset = address & ((Address{1} << kSharedRankShift) - 1);
    return offset + bytes <= w.block->shared_bytes ? w.block->shared + offset : nullptr;
  }
  return w.grid->memory->host(address, bytes);
}

std::string read_string(Warp& w, uint32_t lane, Address address) {
  std::string text;
  while (text.size() < kLongestString) {
    const std::byte* at = readable(w, lane, address + text.size(), 1);
    if (!at) return text + "<unreadable>";
    const char c = static_cast<char>(*at);
    if (c == 0) break;
    text += c;
  }
  return text;
}

template <class T>
T argument(const std::byte* params, const CallForm& form, uint32_t index) {
  T value{};
  if (index < form.inputs)
    std::memcpy(&value, params + form.input[index].from,
                std::min<size_t>(sizeof(T), form.input[index].bytes));
  return value;
}

void set_result(std::byte* params, const CallForm& form, uint64_t value) {
  if (form.outputs)
    std::memcpy(params + form.output[0].to, &value, std::min<size_t>(8, form.output[0].bytes));
}

// Walks the argument buffer of vprintf: naturally aligned values, one after the other.
class Arguments {
 public:
  Arguments(Warp& w, uint32_t lane, Address at) : warp_(w), lane_(lane), at_(at) {}

  template <class T>
  T next() {
    T value{};
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    if (const std::byte* from = readable(warp_, lane_, at_, sizeof(T))) std::memcpy(&value, from, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  Warp& warp_;
  uint32_t lane_;
  Address at_;
};

template <class... T>
std::string printed(const std::string& specification, T... values) {
  char buffer[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  const int length = std::snprintf(buffer, sizeof buffer, specification.c_str(), values...);
#pragma GCC diagnostic pop
  return std::string(buffer, static_cast<size_t>(std::max(0, std::min<int>(length, sizeof buffer - 1))));
}

// One conversion, from its '%' at `at`; moves `at` past it.
std::string convert(Warp& w, uint32_t lane, const std::string& format, size_t& at, Arguments& arguments) {
  std::string spec = "%";
  bool is_long = false;
  for (++at; at < format.size(); ++at) {
    const char c = format[at];
    if (std::strchr("-+ #0123456789.", c)) {
      spec += c;
    } else if (c == '*') {
      spec += std::to_string(arguments.next<int32_t>());
    } else if (c == 'l' || c == 'j' || c == 'z' || c == 't' || c == 'L') {
      is_long = true;
    } else if (c != 'h') {
      break;
    }
  }
  if (at >= format.size()) return spec;
  const char c = format[at++];
  if (spec.size() > 32) spec = "%";
  if (std::strchr("di", c))
    return is_long ? printed(spec + "ll" + c, static_cast<long long>(arguments.next<int64_t>()))
                   : printed(spec + c, arguments.next<int32_t>());
  if (std::strchr("uoxX", c))
    return is_long ? printed(spec + "ll" + c, static_cast<unsigned long long>(arguments.next<uint64_t>()))
                   : printed(spec + c, arguments.next<uint32_t>());
  if (std::strchr("fFeEgGaA", c)) return printed(spec + c, arguments.next<double>());
  if (c == 'c') return printed(spec + c, arguments.next<int32_t>());
  if (c == 'p') return printed(spec + c, reinterpret_cast<void*>(arguments.next<uint64_t>()));
  if (c == 's') {
    const Address string = arguments.next<uint64_t>();
    return printed(spec + c, string ? read_string(w, lane, string).c_str() : "(null)");
  }
  if (c == '%') return "%";
  return spec + c;
}

bool builtin_vprintf(Warp& w, const Inst&, uint32_t lane, std::byte* params, const CallForm& form) {
  const std::string format = read_string(w, lane, argument<uint64_t>(params, form, 0));
  Arguments arguments(w, lane, argument<uint64_t>(params, form, 1));
  std::string text;
  int conversions = 0;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    ++conversions;
    text += convert(w, lane, format, at, arguments);
  }
  {
    std::lock_guard lock(w.grid->print_mutex);
    w.grid->options->print(text);
  }
  set_result(params, form, static_cast<uint64_t>(conversions));
  return true;
}

bool builtin_malloc(Warp& w, const Inst&, uint32_t, std::byte* params, const CallForm& form) {
  const uint64_t bytes = argument<uint64_t>(params, form, 0);
  Result<Address> place =
      w.grid->memory->allocate(bytes ? bytes : 1, 256, MemoryKind::DeviceHeap, "device malloc");
  set_result(params, form, place ? *place : 0);
  return true;
}

bool builtin_free(Warp& w, const Inst& inst, uint32_t lane, std::byte* params, const CallForm& form) {
  const Address address = argument<uint64_t>(params, form, 0);
  if (address == 0 || w.grid->memory->release(address)) return true;
  fault(w, inst, FaultInfo::Kind::IllegalAddress, lane,
        fmt::format("free of 0x{:x}, which device malloc did not return", address));
  return false;
}

bool builtin_assertfail(Warp& w, const Inst& inst, uint32_t lane, std::byte* params, const CallForm& form) {
  const std::string message = read_string(w, lane, argument<uint64_t>(params, form, 0));
  const std::string file = read_string(w, lane, argument<uint64_t>(params, form, 1));
  const std::string function = read_string(w, lane, argument<uint64_t>(params, form, 3));
  const uint32_t thread = w.index * kWarpSize + lane;
  const Dim3& extent = w.grid->info.config.block;
  const std::string text = fmt::format(
      "{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.\n", file,
      argument<uint32_t>(params, form, 2), function, w.block->id[0], w.block->id[1], w.block->id[2],
      thread % extent.x, thread / extent.x % extent.y, thread / extent.x / extent.y, message);
  {
    std::lock_guard lock(w.grid->print_mutex);
    fputs(text.c_str(), stderr);
  }
  fault(w, inst, FaultInfo::Kind::Assert, lane, fmt::format("assertion `{}` failed", message));
  return false;
}

constexpr struct {
  std::string_view name;
  Builtin run;
} kBuiltins[] = {
    {"vprintf", builtin_vprintf},
    {"malloc", builtin_malloc},
    {"free", builtin_free},
    {"__assertfail", builtin_assertfail},
    {"__assert_fail", builtin_assertfail},
};

}  // namespace

Builtin find_builtin(std::string_view name) {
  for (const auto& builtin : kBuiltins)
    if (builtin.name == name) return builtin.run;
  return nullptr;
}

}  // namespace assay::vgpu
