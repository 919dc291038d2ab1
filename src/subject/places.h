// Places of host code as source lines.
//
// The runtime library names them "program+0x1234". Here they become a file, a line and a function, by the
// program's own line table (compiled with -g), or a function alone where it has none.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "finding/finding.h"

namespace assay::subject {

class Places {
 public:
  // The name of a module in places, and its file.
  void add_module(const std::string& name, const std::string& path) { modules_[name] = path; }

  // The source lines of these calls, innermost first, as far as they are known; wrappers of the runtime apart. For many
  // calls, look them up at once first: each look-up starts a program.
  void look_up(const std::set<std::string>& places);
  std::vector<Frame> frames(const std::vector<std::string>& calls) const;

  // Fills in the host code of these findings, and of the allocations that they are about. A finding without a
  // place of its own gets that of its host code.
  void name(std::vector<Finding>& findings);

 private:
  struct Line {
    std::string function;
    Where where;
  };
  std::map<std::string, std::string> modules_;
  std::map<std::string, std::vector<Line>> lines_;  // by place: the innermost of inlined functions first

  void look_up_in(const std::string& module, const std::vector<std::string>& places);
  // The first of the calls that is the program's own. `kernel`: whose launch they led to, if any.
  void name_host(evidence::HostPlace& host, const std::string& kernel) const;
};

}  // namespace assay::subject
