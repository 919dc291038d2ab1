// Places in source code.
#pragma once

#include <string>
#include <vector>

namespace assay {

struct Where {
  std::string file;
  int line = 0;  // 0: unknown
  bool operator==(const Where&) const = default;
};

// "softmax.cu:14"; the file alone where the line is not known.
std::string text_of(const Where& where);

// One step of the way to a piece of code, innermost first: a function that was inlined or called.
struct Frame {
  Where where;
  std::string function;
  bool called = false;  // not inlined
};

// "train.py:31 in step"; the place alone where the function has no name, as a Python script has none.
std::string text_of(const Frame& frame);

// "k.cu:71 in cp_async16, inlined at k.cu:118 in load_tile". Empty where there is no more than one frame of
// the user's own. Of what the toolkit's headers inline, only the function that the user called is named.
std::string text_of(const std::vector<Frame>& chain);

}  // namespace assay
