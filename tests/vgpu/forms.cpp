#include "forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "recorder.h"

namespace assay::vgpu::testing {

using golden::Record;

namespace {

constexpr const char* kHeader =
    ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 scratch[2048];\n";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

}  // namespace

std::string elementwise_kernel(size_t index, const Record& record) {
  const size_t sources = record.kinds.size() - 1;
  std::string text = fmt::format(".visible .entry k{}(.param .u64 pd", index);
  for (size_t j = 0; j < 3; ++j) text += fmt::format(", .param .u64 p{}", "abc"[j]);
  text +=
      ", .param .u64 count) {\n"
      " .reg .pred %p0, %dp; .reg .b32 %i, %n, %t; .reg .b64 %at, %off;\n"
      " mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;\n"
      " ld.param.u32 %n, [count]; setp.ge.u32 %p0, %i, %n; @%p0 bra done;\n";
  for (size_t j = 0; j < sources; ++j) {
    const int w = golden::width(record.kinds[j + 1]);
    text += fmt::format(
        " .reg .b{0} %{1}; ld.param.u64 %at, [p{1}]; mul.wide.u32 %off, %i, {2}; add.u64 %at, %at, %off;"
        " ld.global.b{0} %{1}, [%at];\n",
        w, "abc"[j], w / 8);
  }
  const int w = golden::width(record.kinds[0]);
  text += fmt::format(" .reg .b{} %d; .reg .b64 %m; .reg .b32 %s;\n", w);
  if (record.text.find("[%m]") != std::string::npos) {
    text +=
        fmt::format(" ld.param.u64 %at, [pd]; mul.wide.u32 %off, %i, {}; add.u64 %m, %at, %off;\n", w / 8);
  }
  if (record.text.find("[%s]") != std::string::npos)
    text += " mov.u32 %s, scratch; mad.lo.u32 %s, %t, 8, %s;\n";
  if (record.kinds[0] == "pred") {
    text += " " + replaced(record.text, "%d", "%dp") + "\n selp.b32 %d, 1, 0, %dp;\n";
  } else {
    text += " " + record.text + "\n";
  }
  return text + fmt::format(
                    " ld.param.u64 %at, [pd]; mul.wide.u32 %off, %i, {0}; add.u64 %at, %at, %off;"
                    " st.global.b{1} [%at], %d;\ndone: ret; }}\n",
                    w / 8, w);
}

std::string mma_kernel(size_t index, const Record& record) {
  std::string text = fmt::format(
      ".visible .entry k{}(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 "
      "count) {{\n"
      " .reg .b32 %w, %l; .reg .b64 %at, %off;\n"
      " mov.u32 %w, %ctaid.x; mov.u32 %l, %tid.x; mad.lo.u32 %w, %w, 32, %l;\n",
      index);
  std::string lists[4];
  for (size_t j : {1, 2, 3, 0}) {
    const std::string& kind = record.kinds[j];
    const int w = kind == "f64" ? 64 : 32;
    const char* type = kind == "f64" ? "f64" : kind == "f32" ? "f32" : "b32";
    for (int r = 0; r < record.registers[j]; ++r) {
      lists[j] += fmt::format("{}%{}{}", r ? ", " : "", "dabc"[j], r);
    }
    text += fmt::format(" .reg .{} {};\n", type, lists[j]);
    if (j == 0)
      text += fmt::format(" {} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n", record.form, lists[0], lists[1], lists[2],
                          lists[3]);
    text += fmt::format(" ld.param.u64 %at, [p{}]; mul.wide.u32 %off, %w, {}; add.u64 %at, %at, %off;\n",
                        "dabc"[j], record.registers[j] * w / 8);
    for (int r = 0; r < record.registers[j]; ++r) {
      text += j == 0 ? fmt::format(" st.global.b{} [%at+{}], %d{};\n", w, r * w / 8, r)
                     : fmt::format(" ld.global.b{} %{}{}, [%at+{}];\n", w, "dabc"[j], r, r * w / 8);
    }
  }
  return text + " ret; }\n";
}

Forms::Forms(const std::vector<Record>& records, std::string (*kernel)(size_t, const Record&), bool watch)
    : device_(one_thread(watch)) {
  for (size_t first = 0; first < records.size(); first += 64) {
    const size_t last = std::min(first + 64, records.size());
    std::string text = kHeader;
    for (size_t i = first; i < last; ++i) text += kernel(i, records[i]);
    const Result<Device::ModuleId> module = device_.load(text, fmt::format("forms{}.ptx", first));
    if (!module) {
      ADD_FAILURE() << module.error().text();
      continue;
    }
    for (size_t i = first; i < last; ++i) {
      const Result<Kernel> found = device_.kernel(*module, fmt::format("k{}", i));
      if (found) kernels_[i] = *found;
    }
  }
}

std::string Forms::run(size_t index, const std::vector<std::vector<std::byte>>& operands, uint64_t count,
                       Dim3 grid, Dim3 block, std::vector<std::byte>& result) {
  const auto kernel = kernels_.find(index);
  if (kernel == kernels_.end()) return "not loaded";
  std::vector<Address> places;
  std::vector<std::byte> parameters;
  const auto pass = [&](uint64_t value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    parameters.insert(parameters.end(), bytes, bytes + 8);
  };
  const auto place = [&](size_t bytes) {
    places.push_back(*device_.memory().allocate(bytes, 256, MemoryKind::Device, "column"));
    return places.back();
  };
  pass(place(result.size()));
  for (size_t j = 0; j < 3; ++j) {
    if (j >= operands.size()) {
      pass(0);
      continue;
    }
    const Address at = place(operands[j].size());
    std::memcpy(device_.memory().host(at, operands[j].size()), operands[j].data(), operands[j].size());
    device_.memory().mark_initialised(at, operands[j].size());
    pass(at);
  }
  pass(count);
  const LaunchOutcome outcome = device_.launch(kernel->second, {.grid = grid, .block = block}, parameters);
  std::memcpy(result.data(), device_.memory().host(places[0], result.size()), result.size());
  for (const Address at : places) (void)device_.memory().release(at);
  return outcome.fault.message;
}

std::vector<std::byte> column(const std::vector<uint64_t>& values, int bits) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(bits / 8));
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(bytes.data() + i * static_cast<size_t>(bits / 8), &values[i], static_cast<size_t>(bits / 8));
  }
  return bytes;
}
uint64_t entry(const std::vector<std::byte>& bytes, size_t i, int bits) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + i * static_cast<size_t>(bits / 8), static_cast<size_t>(bits / 8));
  return value;
}

std::string check_stored(Forms& forms, size_t index, const Record& record) {
  std::vector<std::vector<std::byte>> operands;
  for (size_t j = 0; j < record.operands.size(); ++j) {
    operands.push_back(column(record.operands[j], golden::width(record.kinds[j + 1])));
  }
  const int bits = golden::width(record.kinds[0]);
  std::vector<std::byte> result(record.count * static_cast<size_t>(bits / 8));
  const auto blocks = static_cast<uint32_t>((record.count + 255) / 256);
  const std::string fault = forms.run(index, operands, record.count, {blocks}, {256}, result);
  if (!fault.empty()) return fault;
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < record.count; ++i) {
    const uint64_t ours = entry(result, i, bits);
    if (ours == record.results[i]) continue;
    if (wrong++ == 0) {
      first = "(";
      for (const auto& operand : record.operands) first += fmt::format(" {:x}", operand[i]);
      first += fmt::format(" ): GPU {:x}, ours {:x}", record.results[i], ours);
    }
  }
  return wrong == 0 ? "" : fmt::format("{}; {} of {} wrong", first, wrong, record.count);
}

}  // namespace assay::vgpu::testing
