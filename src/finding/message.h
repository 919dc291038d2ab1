// What a finding says to a reader: one or two sentences, made from the evidence when they are shown.
//
// A message says what is wrong, where and by how much; `info(kind).fix` says in general what to do.
#pragma once

#include <string>

#include "finding/finding.h"

namespace assay {

std::string message(const Finding& finding);

// "is 16843912, should be 16843908 (error 4, 3.2 times the budget of 1.25)"
std::string sentence(const evidence::ComparedText& compared);
// "dw[0, 3] is 1.5, should be 1.25"; empty where there is no worst element.
std::string worst_text(const evidence::Numeric& numeric);
// "[3, 5]"; empty for a scalar.
std::string index_text(const std::vector<int64_t>& index);
// "[3].im" of a complex tensor, whose last coordinate is the part; else the same.
std::string element_text(const std::vector<int64_t>& index, bool is_complex);
// "offset 12 of `x` (4096 bytes)", "12 bytes past the end of `x` (4096 bytes)", "tile[1][5]".
std::string text_of(const evidence::Place& place);
// "main.cu:31 (main)", "train.py:31 in step", or the function and "program+0x1234".
std::string text_of(const evidence::HostPlace& place);
// What to do about it in general, where the message does not say it in particular already.
std::string_view advice(const Finding& finding);
// What would order the two sides of a race; empty where nothing is known.
std::string text_of(const evidence::Fix& fix);
// What a line does to precision: "every addition rounds the sum to bf16; …".
std::string reason(const LineProfile& line);

}  // namespace assay
