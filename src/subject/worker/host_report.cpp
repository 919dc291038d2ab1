#include "subject/worker/host_report.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "protocol/event.h"

namespace assay::worker {

namespace {

int events = -1;  // written once, before any of the subject's code runs

// "libkernel.so+0x1234"
std::string place_of(const void* returns_to) {
  const auto code = reinterpret_cast<uint64_t>(returns_to) - 1;  // just before the return
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(code), &info) == 0 || !info.dli_fname) return "somewhere";
  const char* slash = std::strrchr(info.dli_fname, '/');
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%llx",
                static_cast<unsigned long long>(code - reinterpret_cast<uint64_t>(info.dli_fbase)));
  return std::string(slash ? slash + 1 : info.dli_fname) + offset;
}

}  // namespace

void report_host_to(int file) {
  events = file;
}

void report_host(assay_host_finding kind, int is_error, const char* what, const char* why, void* const* calls,
                 int count) {
  if (events < 0) return;
  evidence::Process process;
  process.what = what;
  process.detail = why;
  for (int i = 0; i < count; ++i) process.host.calls.push_back(place_of(calls[i]));
  Finding finding{.kind = kind == assay_environment_probe ? Kind::EnvironmentProbe : Kind::ForbiddenCall,
                  .severity = is_error ? assay::Severity::Error : assay::Severity::Warning,
                  .evidence = std::move(process)};
  report_finding(std::move(finding));
}

void report_finding(Finding finding) {
  if (events < 0) return;
  const std::string line = encode(protocol::Event(protocol::FindingEvent{std::move(finding)})) + "\n";
  if (write(events, line.data(), line.size()) < 0) return;
}

std::vector<std::string> places_of(const CallStack& stack) {
  std::vector<std::string> places;
  for (int i = 0; i < stack.count; ++i) places.push_back(place_of(stack.frames[i]));
  return places;
}

}  // namespace assay::worker
