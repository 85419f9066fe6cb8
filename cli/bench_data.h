// `varve bench data`: what the loader delivers, and how short a training step may be before it waits.
#pragma once

#include <cstdint>
#include <string>

namespace varve::cli {

struct BenchDataOptions {
  std::string name = "digits";  // as data::load names sets
  std::int64_t batch = 128;
  int workers = 1;  // measured with none, one, two, four … up to this many
  double step = 5;  // milliseconds of the training step that is played
  bool json = false;
};
int bench_data(const BenchDataOptions& options);

}  // namespace varve::cli
