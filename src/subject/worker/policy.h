// What the host code of a kernel may ask of the system: every rule in one place, without a system call in it.
//
// Two kinds of request are judged. Some change the world outside the worker: processes, the network, files
// that are not its own. Those are refused, and end the subject. Others only look at where the code runs (its
// process, its parent, the checker's files): a kernel that does may behave under test and nowhere else.
//
// Libraries do much of this for good reasons: OpenMP wants /dev/shm, libnuma reads /proc/self/status, glibc
// asks for the stack's bounds in /proc/self/maps. What a library does of its own accord is never an error;
// what the subject's own code does, by way of libc or libstdc++ or not, may be.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/hooks.h"

namespace assay::worker {

enum class Caller : uint8_t { Worker, Runtime, Library, Subject };

enum class Severity : uint8_t { None, Warning, Error };

struct Ruling {
  enum class Action : uint8_t { Allow, Refuse, End } action = Action::Allow;
  Severity severity = Severity::None;
  assay_host_finding kind = assay_forbidden_call;
  std::string_view reason;  // what is wrong about it: "changes files outside its folder"
};

// A file that is looked at or opened for reading. `path`: absolute, without links, "self" where the process
// itself is meant ("/proc/self/maps"). `program`: the folder of the worker and its libraries, with a slash.
Ruling judge_look(std::string_view path, std::string_view program, Caller caller);

// A file that is made, changed or removed. `folder`: the subject's own, with a slash at its end. `harmless`:
// mkdir, which programs do to be sure that a folder is there.
Ruling judge_change(std::string_view path, std::string_view folder, Caller caller, bool harmless);

// A variable of the environment.
Ruling judge_variable(std::string_view name, Caller caller);

// Any other call that is stopped. `harmless`: one that programs can do without and often try.
Ruling judge_call(std::string_view reason, Caller caller, bool harmless);

// Asking the system how it confines this process.
Ruling judge_sandbox_query(Caller caller);

}  // namespace assay::worker
