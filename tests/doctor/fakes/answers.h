// What a fake library shall do, from environment variables of this prefix:
//
//   FAKE_ERRORS="cuInit=803,cuMemAlloc_v2=2"   these calls fail
//   FAKE_HANG=cuInit                           this one never returns
//   FAKE_SLOW="cuInit=500"                     this one takes half a second
//   FAKE_CRASH=cuInit                          this one dies
//   FAKE_EXIT=cuInit                           this one ends the process
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#ifndef PREFIX
#define PREFIX "FAKE_"
#endif

inline std::string setting(const char* name) {
  const char* value = getenv((std::string(PREFIX) + name).c_str());
  return value ? value : "";
}

// The number after "NAME=" in a list; `otherwise`: it is not there.
inline long listed(const std::string& list, const std::string& name, long otherwise) {
  const size_t at = ("," + list).find("," + name + "=");
  return at == std::string::npos ? otherwise : atol(list.c_str() + at + name.size() + 1);
}

inline int answer(const char* call) {
  if (setting("HANG") == call)
    for (;;) pause();
  if (const long milliseconds = listed(setting("SLOW"), call, 0))
    usleep(static_cast<useconds_t>(milliseconds * 1000));
  if (setting("CRASH") == call) raise(SIGSEGV);
  if (setting("EXIT") == call) exit(3);
  return static_cast<int>(listed(setting("ERRORS"), call, 0));
}

#define CALL(...)                                       \
  if (const int error = answer(__func__)) return error; \
  __VA_ARGS__;                                          \
  return 0
