// Text inside HTML and SVG.
#pragma once

#include <string>

namespace varve::page {

// Safe as content and between quotes; control characters, which XML does not allow, become �.
std::string escaped(const std::string& text);
// At most so many characters, the last of which is then "…".
std::string shortened(const std::string& text, std::size_t characters);

}  // namespace varve::page
