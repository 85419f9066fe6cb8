// Optimisations that can be left out one by one, to measure what each is worth.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace varve {

// False when the environment variable VARVE_WITHOUT, a list such as "winograd,layouts", names it. Read at every call:
// programs compiled before keep what they have. A name in the variable that is no lever is an Error with the nearest
// one; a `name` that is no lever is a mistake of the caller, std::logic_error.
bool lever(std::string_view name);

inline constexpr const char* kLeftOut = "left out by VARVE_WITHOUT";  // as a reason to refuse

// Each is declared once, in the table of levers.cpp.
struct Lever {
  std::string name, doc;  // doc: one line, what is left out
  bool gpu_only = false;
};
const std::vector<Lever>& levers();

}  // namespace varve
