// Kernel text made ready for g++.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace varve::emulator {

// The text with the named headers that it includes, directly or not, in place of their #include lines: kernels and
// shared memory are found wherever they stand. Other #include lines stay.
std::string with_headers(const std::string& text, const std::string& name,
                         const std::map<std::string, std::string>& headers);

// The text with the driver's table of kernels after it. `expressions` name instances of templates, such as
// "scale<float>". `name` is what messages call the file.
std::string for_gcc(const std::string& text, const std::string& name, const std::vector<std::string>& expressions);

}  // namespace varve::emulator
