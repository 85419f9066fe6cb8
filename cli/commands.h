// The commands of `varve`: each takes its options and returns the exit code. Failures are exceptions.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace varve::cli {

constexpr int kOk = 0, kFailure = 1, kBadUsage = 2;

// The user asked for something that does not exist: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct DemoOptions {
  std::string device = "cpu";
  std::int64_t steps = 600;
  std::int64_t seed = 7;
  int threads = 0;  // 0: as many as there are cores
};
int demo(const DemoOptions& options);

struct OpsOptions {
  std::vector<std::string> filters;
  bool json = false;
  bool markdown = false;
};
int ops(const OpsOptions& options);

struct BenchOptions {
  std::vector<std::string> filters;
  bool json = false;
  bool list = false;
  std::string device = "cpu";
  int threads = 0;
};
int bench_ops(const BenchOptions& options);

struct InfoOptions {
  bool json = false;
};
int info(const InfoOptions& options);

// Makes the device and the number of threads current; throws UsageError with the nearest known device.
void use_device(const std::string& device, int threads);

}  // namespace varve::cli
