// Optimisations that can be left out one by one, to measure what each is worth.
#pragma once

#include <string_view>

namespace varve {

// False when the environment variable VARVE_WITHOUT, a list such as "winograd,layouts", names it. Read at every call:
// programs compiled before keep what they have.
bool lever(std::string_view name);

}  // namespace varve
