// Places of host code as the programmer knows them.
//
// The library that runs in a program names them "program+0x1234". Here they become "main.cu:31 (main)", by
// the program's own line table (compiled with -g), or "main (program+0x1234)" where it has none.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/finding.h"

namespace assay::subject {

class Places {
 public:
  // What a module is called in places, and its file.
  void add_module(const std::string& name, const std::string& path) { modules_[name] = path; }
  // The calls that led to an allocation, innermost first.
  void add_allocation(uint64_t id, std::vector<std::string> calls) { allocations_[id] = std::move(calls); }

  // Keeps what a finding needs until all are there.
  void note(Finding& finding);
  // Names the places of these findings.
  void name(std::vector<Finding>& findings);

 private:
  struct Line {
    std::string function, file;
    int line = 0;
  };
  std::map<std::string, std::string> modules_;
  std::map<uint64_t, std::vector<std::string>> allocations_;
  std::map<std::string, std::vector<Line>> lines_;  // by place: the innermost of inlined functions first

  void look_up(const std::set<std::string>& places);
  void look_up_in(const std::string& module, const std::vector<std::string>& places);
  // The first of some calls that is the program's own; null: none is known.
  struct Found {
    std::string place;
    const Line* line = nullptr;
  };
  // `kernel`: whose launch they led to, if any.
  Found own_line(std::span<const std::string> calls, const std::string& kernel = "") const;
  void name_allocation(Json& allocation) const;
  void name_launch(Finding& finding) const;
  void name_host(Finding& finding) const;
};

}  // namespace assay::subject
