// The files of page/, embedded when the program is built.
#pragma once

#include <string_view>

namespace assay::activity {

extern const std::string_view kPage_html, kPage_css, kPage_js;

}  // namespace assay::activity
