// How much scratch memory one kernel may take for the sake of speed.
#pragma once

#include <cstddef>

namespace varve::cpu {

// In bytes: VARVE_WORKSPACE_MB, or 256 MB.
std::size_t workspace_limit();

}  // namespace varve::cpu
