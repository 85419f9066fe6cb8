// Optimisations that can be left out one by one, to measure what each is worth.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace varve {

// False when the environment variable VARVE_WITHOUT, a list such as "winograd,layouts", names it. Read at every call:
// programs compiled before keep what they have. A name in it that is no lever is an Error with the nearest one.
bool lever(std::string_view name);

inline constexpr const char* kLeftOut = "left out by VARVE_WITHOUT";  // as a reason to refuse

struct Lever {
  std::string name, doc;
  bool gpu_only = false;
};
const std::vector<Lever>& levers();

}  // namespace varve
