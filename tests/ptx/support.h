// Helpers of the PTX tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "folders.h"
#include "ptx/module.h"

namespace assay::ptx {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::filesystem::path> files_in(const std::string& folder, const std::string& extension) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(kSourceFolder) / "tests/ptx" / folder))
    if (entry.path().extension() == extension) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline const std::string kHeader = ".version 9.0\n.target sm_90a\n.address_size 64\n";

// A module with one kernel that has registers of every usual kind.
inline std::string kernel(const std::string& body) {
  return kHeader +
         ".visible .entry k(.param .u64 p)\n{\n"
         ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %d<9>; .reg .b128 %q<9>;"
         ".reg .f32 %f<9>; .reg .f64 %g<9>;\n" +
         body + "\n}\n";
}

inline Module parsed(const std::string& text) {
  Result<Module> module = parse(text, "test");
  EXPECT_TRUE(module) << module.error().text() << "\n" << text;
  return module ? *std::move(module) : Module{};
}

inline std::string error_of(const std::string& text) {
  Result<Module> module = parse(text, "test");
  return module ? "" : module.error().text();
}

// The only instruction of a kernel with this body.
inline Instruction single(const std::string& body) {
  Module module = parsed(kernel(body));
  EXPECT_EQ(module.functions.size(), 1u);
  if (module.functions.empty() || module.functions[0].body.empty()) return {};
  return module.functions[0].body[0];
}

struct Place {
  std::string function;
  uint32_t file, line, column;
  bool operator==(const Place&) const = default;
};

inline std::vector<Place> chain(const Module& module, uint32_t location) {
  std::vector<Place> places;
  for (; location != kNone; location = module.locations[location].inlined_at) {
    const SourceLocation& at = module.locations[location];
    places.push_back({at.function, at.file, at.line, at.column});
  }
  return places;
}

// The module without what says where it was in the text, and with locations compared by value elsewhere.
inline Module without_places(Module module) {
  auto clear = [](std::vector<Variable>& variables) {
    for (Variable& variable : variables) variable.declared_line = 0;
  };
  clear(module.variables);
  module.locations.clear();
  for (Function& function : module.functions) {
    function.line = 0;
    clear(function.returns);
    clear(function.parameters);
    clear(function.variables);
    for (TargetList& list : function.target_lists) {
      clear(list.returns);
      clear(list.parameters);
    }
    for (Instruction& instruction : function.body) {
      instruction.line = instruction.column = 0;
      instruction.location = kNone;
    }
  }
  return module;
}

// parse(print(m)) is m.
inline void expect_round_trip(const Module& module, const std::string& what) {
  std::string text = print(module);
  Result<Module> again = parse(text, "printed");
  ASSERT_TRUE(again) << what << ": " << again.error().text() << "\n" << text.substr(0, 4000);
  EXPECT_TRUE(without_places(module) == without_places(*again)) << what << " changed:\n"
                                                                << text.substr(0, 4000);
  EXPECT_EQ(print(*again), text) << what;
  for (size_t f = 0; f < module.functions.size() && f < again->functions.size(); ++f) {
    const auto& before = module.functions[f].body;
    const auto& after = again->functions[f].body;
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i)
      ASSERT_EQ(chain(module, before[i].location), chain(*again, after[i].location))
          << what << " instruction " << i;
  }
}

inline void PrintTo(const Place& place, std::ostream* out) {
  *out << place.function << "@" << place.file << ":" << place.line << ":" << place.column;
}

}  // namespace assay::ptx
