// An NVML of one GPU. FAKE_NVML="mode=3,persistence=0,ecc=0,uncorrected=2,pending=1,failed=1,mig=1,instances=0,
// throttle=64,used=100,pid=4242"; `used` in GiB of 150.
#include <stdio.h>

#include "doctor/fakes/answers.h"

namespace {

long value(const char* name, long otherwise) {
  return listed(setting("NVML"), name, otherwise);
}
constexpr unsigned long long kGiB = 1ull << 30;
constexpr int kNotFound = 6;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  CALL();
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  CALL(snprintf(text, size, "580.95.05"));
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  CALL(*count = 1);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned, void** device) {
  CALL(*device = nullptr);
}
int nvmlDeviceGetName(void*, char* name, unsigned size) {
  CALL(snprintf(name, size, "NVIDIA H200"));
}
int nvmlDeviceGetComputeMode(void*, int* mode) {
  CALL(*mode = static_cast<int>(value("mode", 0)));
}
int nvmlDeviceGetPersistenceMode(void*, int* mode) {
  CALL(*mode = static_cast<int>(value("persistence", 1)));
}
int nvmlDeviceGetEccMode(void*, int* current, int* pending) {
  CALL(*current = *pending = static_cast<int>(value("ecc", 1)));
}
int nvmlDeviceGetTotalEccErrors(void*, int, int, unsigned long long* count) {
  CALL(*count = static_cast<unsigned long long>(value("uncorrected", 0)));
}
int nvmlDeviceGetRemappedRows(void*, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  CALL(*corrected = *uncorrected = 0; *pending = static_cast<unsigned>(value("pending", 0));
       *failed = static_cast<unsigned>(value("failed", 0)));
}
int nvmlDeviceGetMigMode(void*, int* current, int* pending) {
  CALL(*current = *pending = static_cast<int>(value("mig", 0)));
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  CALL(*count = 7);
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** device) {
  if (index >= static_cast<unsigned>(value("instances", 0))) return kNotFound;
  CALL(*device = nullptr);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  CALL(*reasons = static_cast<unsigned long long>(value("throttle", 0)));
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  const auto used = static_cast<unsigned long long>(value("used", 1)) * kGiB;
  CALL(memory[0] = 150 * kGiB; memory[1] = 150 * kGiB - used; memory[2] = used);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* list) {
  struct Process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
  };
  const long pid = value("pid", 0);
  *count = pid > 0 ? 1 : 0;
  if (pid > 0) *static_cast<Process*>(list) = {static_cast<unsigned>(pid), 3 * kGiB, 0, 0};
  CALL();
}
}
