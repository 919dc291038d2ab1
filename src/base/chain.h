// Where a piece of code comes from, through inlining: innermost first. Findings carry it in their evidence.
//
//   "chain": [{"file": "k.cu", "line": 71, "function": "cp_async16"},
//             {"file": "k.cu", "line": 118, "function": "load_tile"}]
//
// reads "k.cu:71 in cp_async16, inlined at k.cu:118 in load_tile".
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/finding.h"
#include "base/toolkit.h"

namespace assay {

// Empty where there is no more than one frame of the user's. Of what the toolkit's headers inline, the
// function that the user called; of their files, the name.
inline std::string chain_text(const Json& chain) {
  constexpr int kMostFrames = 12;  // then the outermost: beyond that a reader is lost
  if (!chain.is_array()) return "";
  std::string text, last;
  int own = 0;
  bool toolkit = false;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (!chain[i].is_object()) return "";
    std::string file = chain[i].value("file", "?");
    const bool header = is_toolkit_header(file);
    if (header) file.erase(0, file.rfind('/') + 1);
    own += !header;
    if (own >= kMostFrames && i + 1 < chain.size()) continue;
    const std::string function = chain[i].value("function", "");
    if (!header || !toolkit) {
      text += last;
      last.clear();
    }
    toolkit = header;
    const std::string_view joint = text.empty()                      ? ""
                                   : chain[i].value("called", false) ? ", called at "
                                                                     : ", inlined at ";
    last = fmt::format("{}{}:{}{}", joint, file, chain[i].value("line", 0),
                       function.empty() ? "" : " in " + function);
  }
  return own > 1 ? text + last : "";
}

}  // namespace assay
