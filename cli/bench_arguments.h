// The words that `varve bench` understands, apart from those of `bench ops` and `bench data`.
#pragma once

#include <functional>
#include <string>

#include "bench_suite.h"

namespace CLI {
class App;
}

namespace varve::cli {

struct BenchArguments {
  SuiteOptions suite;
  CompareRecordsOptions compare;
  std::string request;  // of a worker
};

// Adds a command to an app: its name, what it does, what happens when it is chosen, and examples.
using AddCommand = std::function<CLI::App*(CLI::App& parent, const std::string& name, const std::string& what,
                                           std::function<int()> chosen, const std::string& footer)>;
void add_bench_commands(CLI::App& bench, const AddCommand& add, BenchArguments& arguments);

}  // namespace varve::cli
