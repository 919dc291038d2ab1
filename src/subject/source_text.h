// CUDA C++ and PTX as text, where nothing better can be had.
#pragma once

#include <string>
#include <string_view>

namespace assay::subject {

// Comments and literals become blanks; lines and columns keep their places.
std::string without_comments(std::string_view text);

bool is_word(char c);

// Whether the line with this number (from 1) holds the name.
bool line_names(std::string_view text, int line, std::string_view name);

}  // namespace assay::subject
