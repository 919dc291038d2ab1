// An error as a terminal shows it: the place, the line of source, and a caret under the token.
//
//   scale.toml:23:8: error: `xx` is not defined; did you mean `x`?
//      23 | y[i] = xx[i]
//         |        ^~
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace assay {

// An error without a line is about the command as a whole: "assay: message". There is no line break at the
// end.
std::string diagnostic(const Error& error);

// A line of a text, counted from 1, without its line break; empty if there is none.
std::string line_of(std::string_view text, int line);

}  // namespace assay
