#include "subject/worker/device_fill.h"

#include <algorithm>

#include "subject/worker/failure.h"

namespace assay::worker {

namespace {

// make_values() of base/generated_values.h where there is a table, a thread for each element in turn:
//
//   for (i = thread; i < count; i += threads)
//     to[i] = table[((mix(i ^ salt) >> 32) * choices) >> 32];
//
// PTX, because the GPU's driver compiles it, and nothing else on the machine needs to.
constexpr const char* kPick = R"(.version 6.0
.target sm_60
.address_size 64
.visible .entry assay_pick(.param .u64 to_, .param .u64 count_, .param .u64 table_, .param .u64 choices_,
                           .param .u64 salt_, .param .u32 item_) {
  .reg .pred %done, %is;
  .reg .b16 %h;
  .reg .b32 %item, %a, %b, %c, %v;
  .reg .b64 %to, %count, %table, %choices, %salt, %wide, %i, %step, %x, %y, %from, %at, %d;
  ld.param.u64 %to, [to_];
  ld.param.u64 %count, [count_];
  ld.param.u64 %table, [table_];
  ld.param.u64 %choices, [choices_];
  ld.param.u64 %salt, [salt_];
  ld.param.u32 %item, [item_];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %table, %table;
  cvt.u64.u32 %wide, %item;
  mov.u32 %a, %ctaid.x;
  mov.u32 %b, %ntid.x;
  mov.u32 %c, %tid.x;
  mul.wide.u32 %i, %a, %b;
  cvt.u64.u32 %x, %c;
  add.u64 %i, %i, %x;
  mov.u32 %a, %nctaid.x;
  mul.wide.u32 %step, %a, %b;
NEXT:
  setp.ge.u64 %done, %i, %count;
  @%done bra END;
  // mix(i ^ salt)
  xor.b64 %x, %i, %salt;
  add.u64 %x, %x, 0x9e3779b97f4a7c15;
  shr.u64 %y, %x, 30;
  xor.b64 %x, %x, %y;
  mul.lo.u64 %x, %x, 0xbf58476d1ce4e5b9;
  shr.u64 %y, %x, 27;
  xor.b64 %x, %x, %y;
  mul.lo.u64 %x, %x, 0x94d049bb133111eb;
  shr.u64 %y, %x, 31;
  xor.b64 %x, %x, %y;
  shr.u64 %x, %x, 32;
  mul.lo.u64 %x, %x, %choices;
  shr.u64 %x, %x, 32;
  mad.lo.u64 %from, %x, %wide, %table;
  mad.lo.u64 %at, %i, %wide, %to;
  add.u64 %i, %i, %step;
  setp.eq.u32 %is, %item, 8;
  @%is bra EIGHT;
  setp.eq.u32 %is, %item, 4;
  @%is bra FOUR;
  setp.eq.u32 %is, %item, 2;
  @%is bra TWO;
  ld.global.u8 %h, [%from];
  st.global.u8 [%at], %h;
  bra NEXT;
TWO:
  ld.global.u16 %h, [%from];
  st.global.u16 [%at], %h;
  bra NEXT;
FOUR:
  ld.global.u32 %v, [%from];
  st.global.u32 [%at], %v;
  bra NEXT;
EIGHT:
  ld.global.u64 %d, [%from];
  st.global.u64 [%at], %d;
  bra NEXT;
END:
  ret;
}
)";

constexpr const char* kStage = "the values of a buffer";
constexpr unsigned kBlocks = 2048, kThreads = 256;  // enough to fill any GPU
constexpr uint64_t kChunk = 1 << 20;                // elements that the host makes at a time

}  // namespace

void DeviceFill::fill(std::byte* to, uint64_t bytes, const GeneratedValues& values) {
  if (values.table.size() == values.item) return repeat(to, bytes, values.table);
  const uint64_t count = bytes / values.item;
  if (count == 0) return;
  if (values.table.empty()) return rise(to, count, values);
  pick(to, count, values);
}

// A pattern may be wider than the tensor's elements, and so begin where a store of its width may not: copies may begin
// anywhere. Each doubles what is there.
void DeviceFill::repeat(std::byte* to, uint64_t bytes, const std::vector<std::byte>& pattern) const {
  uint64_t done = std::min<uint64_t>(bytes, pattern.size());
  check(runtime_.cudaMemcpy(to, pattern.data(), done, kHostToDevice), kStage);
  while (done < bytes) {
    const uint64_t more = std::min(done, bytes - done);
    check(runtime_.cudaMemcpy(to + done, to, more, kDeviceToDevice), kStage);
    done += more;
  }
}

void DeviceFill::pick(std::byte* to, uint64_t count, const GeneratedValues& values) {
  if (!kernel_) {
    void* library = nullptr;
    check(runtime_.cudaLibraryLoadData(&library, kPick, nullptr, nullptr, 0, nullptr, nullptr, 0), kStage);
    check(runtime_.cudaLibraryGetKernel(&kernel_, library, "assay_pick"), kStage);
  }
  void* table = nullptr;
  check(runtime_.cudaMalloc(&table, values.table.size()), kStage);
  const auto finish = [&](int error) {
    runtime_.cudaFree(table);
    check(error, kStage);
  };
  if (const int error = runtime_.cudaMemcpy(table, values.table.data(), values.table.size(), kHostToDevice))
    return finish(error);
  uint64_t choices = values.table.size() / values.item, salt = mix(values.seed);
  uint32_t item = values.item;
  void* arguments[] = {&to, &count, &table, &choices, &salt, &item};
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>(kBlocks, (count + kThreads - 1) / kThreads));
  const int launched = runtime_.cudaLaunchKernel(kernel_, {blocks}, {kThreads}, arguments, 0, nullptr);
  finish(launched != 0 ? launched : runtime_.cudaDeviceSynchronize());
}

// Offsets are few beside what they point to: the host makes them.
void DeviceFill::rise(std::byte* to, uint64_t count, const GeneratedValues& values) const {
  std::vector<std::byte> chunk(std::min(count, kChunk) * values.item);
  for (uint64_t first = 0; first < count; first += kChunk) {
    const uint64_t some = std::min(kChunk, count - first);
    make_values(values, first, some, chunk.data());
    check(runtime_.cudaMemcpy(to + first * values.item, chunk.data(), some * values.item, kHostToDevice),
          kStage);
  }
}

}  // namespace assay::worker
