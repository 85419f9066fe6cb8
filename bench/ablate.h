// What each lever is worth: the same step with one of them left out, in turns with the whole.
#pragma once

#include <string>
#include <vector>

#include "bench/driver.h"

namespace varve::bench {

struct Variant {
  std::string name =
      {};  // "" for the whole; else what is left out, or "workspace" for no scratch memory of convolutions
  std::map<std::string, std::string> environment = {};
};
std::vector<Variant> variants(const std::string& precision, const std::string& device);

// A record of kind "ablate" for each variant: details.without names it, ratio_to_varve is its median over the whole's.
std::vector<Record> ablate(const Driver& driver, const Setting& setting);

}  // namespace varve::bench
