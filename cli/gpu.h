// The GPU that device=cuda means, for `info` and `doctor`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "backend/device.h"

namespace varve::cli {

struct Gpu {
  std::string why_not;         // what is missing, and what to do; "" when the GPU can be used
  backend::DeviceFacts facts;  // name, compute capability, memory, driver, libraries

  bool usable() const { return why_not.empty(); }
  std::string str() const;  // one line of either
  nlohmann::ordered_json json() const;
};
Gpu find_gpu();

}  // namespace varve::cli
