// A libcuda of GPUs that are not there. FAKE_GPUS="NVIDIA H200=90,NVIDIA A100=80", FAKE_VERSION=13000; FAKE_WRONG=7:
// element 7 of the canary's results is wrong.
#include <stdio.h>

#include <vector>

#include "doctor/canary.h"
#include "doctor/fakes/answers.h"

namespace {

struct Gpu {
  std::string name;
  int arch;
};

std::vector<Gpu> gpus() {
  std::vector<Gpu> list;
  std::string text = setting("GPUS");
  if (text.empty()) text = "NVIDIA H200=90";
  for (size_t at = 0; at < text.size();) {
    const size_t equal = text.find('=', at), end = std::min(text.find(',', at), text.size());
    if (equal == std::string::npos) break;
    list.push_back({text.substr(at, equal - at), atoi(text.c_str() + equal + 1)});
    at = end + 1;
  }
  return list;
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  CALL(*version = setting("VERSION").empty() ? 13000 : atoi(setting("VERSION").c_str()));
}
int cuInit(unsigned) {
  CALL();
}
int cuDeviceGetCount(int* count) {
  CALL(*count = static_cast<int>(gpus().size()));
}
int cuDeviceGet(int* device, int index) {
  CALL(*device = index);
}
int cuDeviceGetName(char* name, int size, int device) {
  CALL(snprintf(name, static_cast<size_t>(size), "%s", gpus().at(static_cast<size_t>(device)).name.c_str()));
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int arch = gpus().at(static_cast<size_t>(device)).arch;
  CALL(*value = attribute == 75 ? arch / 10 : attribute == 76 ? arch % 10 : 0);
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  CALL(*bytes = size_t{150} << 30);
}
int cuDeviceGetPCIBusId(char* id, int size, int device) {
  CALL(snprintf(id, static_cast<size_t>(size), "0000:%02x:00.0", 6 + device));
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  CALL(*context = nullptr);
}
int cuCtxSetCurrent(void*) {
  CALL();
}
// What a subject brings is a fatbinary; its refusal is FAKE_SUBJECT.
int cuModuleLoadData(void** module, const void* image) {
  constexpr unsigned kFatbinary = 0xba55ed50;
  unsigned magic = 0;
  memcpy(&magic, image, sizeof magic);
  if (magic == kFatbinary) return atoi(setting("SUBJECT").c_str());
  CALL(*module = nullptr);
}
int cuModuleGetFunction(void** function, void*, const char*) {
  CALL(*function = nullptr);
}
int cuMemAlloc_v2(unsigned long long* address, size_t) {
  CALL(*address = 4096);
}
int cuMemsetD8_v2(unsigned long long, unsigned char, size_t) {
  CALL();
}
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**) {
  CALL();
}
int cuCtxSynchronize() {
  CALL();
}
int cuMemcpyDtoH_v2(void* to, unsigned long long, size_t bytes) {
  auto* values = static_cast<uint64_t*>(to);
  for (uint32_t i = 0; i < bytes / sizeof(uint64_t); ++i) values[i] = assay::doctor::canary_value(i);
  if (const std::string wrong = setting("WRONG"); !wrong.empty()) values[atoi(wrong.c_str())] ^= 1;
  CALL();
}
}
