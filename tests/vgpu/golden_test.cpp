// Every form of tests/golden through the whole engine (parser, decoder, handlers), against what an H200
// computed: bit for bit.
#include "golden/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "vgpu/device.h"

namespace assay::vgpu {
namespace {

using golden::Record;

std::vector<Record> family(const std::string& name) {
  return golden::read(std::string(ASSAY_SOURCE_DIR) + "/tests/golden/vectors/" + name + ".gold.zst");
}

constexpr const char* kHeader =
    ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 scratch[2048];\n";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// d[i] = form(a[i], b[i], c[i])
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

// One warp's product a block; operands and results as [case][lane][register].
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

// The forms of a family, loaded in modules of moderate size.
class Forms {
 public:
  Forms(const std::vector<Record>& records, std::string (*kernel)(size_t, const Record&))
      : device_({.threads = 1}) {
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

  // Runs form `index` on columns of operands; the fault's message, or "".
  std::string run(size_t index, const std::vector<std::vector<std::byte>>& operands, uint64_t count,
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

 private:
  Device device_;
  std::map<size_t, Kernel> kernels_;
};

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

// What disagrees, or "".
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

std::string check_stream(Forms& forms, size_t index, const Record& record) {
  const uint64_t seed = golden::name_seed(record.form);
  std::vector<std::vector<std::byte>> operands;
  for (size_t j = 0; j + 1 < record.kinds.size(); ++j) {
    std::vector<uint64_t> values(record.stream);
    for (uint64_t i = 0; i < record.stream; ++i) values[i] = golden::stream_operand(record, seed, i, j);
    operands.push_back(column(values, golden::width(record.kinds[j + 1])));
  }
  const int bits = golden::width(record.kinds[0]);
  std::vector<std::byte> result(record.stream * static_cast<size_t>(bits / 8));
  const auto blocks = static_cast<uint32_t>((record.stream + 255) / 256);
  const std::string fault = forms.run(index, operands, record.stream, {blocks}, {256}, result);
  if (!fault.empty()) return fault;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < record.stream; ++i) sum += golden::digest(i, entry(result, i, bits));
  return sum == record.hash ? "" : "the hash of the stream differs";
}

void check_family(const std::string& name, size_t at_least, const std::set<std::string>& left_out = {}) {
  const std::vector<Record> records = family(name);
  ASSERT_GE(records.size(), at_least) << "vectors are missing";
  Forms forms(records, elementwise_kernel);
  for (size_t i = 0; i < records.size(); ++i) {
    if (left_out.contains(records[i].form)) continue;
    std::string wrong = check_stored(forms, i, records[i]);
    if (wrong.empty()) wrong = check_stream(forms, i, records[i]);
    if (!wrong.empty()) ADD_FAILURE() << records[i].form << " " << wrong;
  }
}

TEST(GoldenThroughTheEngine, F32) {
  check_family("f32", 234);
}
TEST(GoldenThroughTheEngine, F64) {
  check_family("f64", 56);
}
TEST(GoldenThroughTheEngine, Half) {
  check_family("half", 264);
}
TEST(GoldenThroughTheEngine, Convert) {
  check_family("cvt", 784);
}
TEST(GoldenThroughTheEngine, Integer) {
  check_family("integer", 262);
}
TEST(GoldenThroughTheEngine, Video) {
  check_family("video", 1056);
}
TEST(GoldenThroughTheEngine, Atomic) {
  check_family("atomic", 108);
}
TEST(GoldenThroughTheEngine, Warp) {
  check_family("warp", 23);
}

std::string check_product(Forms& forms, size_t index, const Record& record) {
  const auto bits = [&](size_t j) { return record.kinds[j] == "f64" ? 64 : 32; };
  std::vector<std::vector<std::byte>> operands;
  for (size_t j = 0; j < 3; ++j) operands.push_back(column(record.operands[j], bits(j + 1)));
  std::vector<std::byte> result(record.results.size() * static_cast<size_t>(bits(0) / 8));
  const std::string fault =
      forms.run(index, operands, record.count, {static_cast<uint32_t>(record.count)}, {32}, result);
  if (!fault.empty()) return fault;
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < record.results.size(); ++i) {
    const uint64_t ours = entry(result, i, bits(0));
    if (ours == record.results[i]) continue;
    const size_t registers = static_cast<size_t>(record.registers[0]);
    if (wrong++ == 0) {
      first = fmt::format("case {}, lane {}, register {}: GPU {:x}, ours {:x}", i / (32 * registers),
                          i / registers % 32, i % registers, record.results[i], ours);
    }
  }
  return wrong == 0 ? "" : fmt::format("{}; {} of {} wrong", first, wrong, record.results.size());
}

TEST(GoldenThroughTheEngine, Mma) {
  const std::vector<Record> records = family("mma");
  ASSERT_GE(records.size(), 106u) << "vectors are missing";
  Forms forms(records, mma_kernel);
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string wrong = check_product(forms, i, records[i]);
    if (!wrong.empty()) ADD_FAILURE() << records[i].form << " " << wrong;
  }
}

}  // namespace
}  // namespace assay::vgpu
