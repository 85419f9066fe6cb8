// Positions that a program checks before it begins: those that come straight from its arguments and variables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace varve::runtime {

struct PositionCheck {
  std::size_t input;  // of the program
  std::int64_t size;
  std::string complaint;

  void operator()(const ir::Array& array) const;  // throws Error: an element outside [0, size)
};

// Of the first `arguments` inputs, whose every element is used, and of the `variables` after them.
class PositionChecks {
 public:
  PositionChecks() = default;
  PositionChecks(const ir::Graph& graph, std::size_t arguments, std::size_t variables);
  const std::vector<PositionCheck>& list() const { return checks_; }
  bool whole() const { return whole_; }  // no kernel will find anything else wrong with a value

 private:
  std::vector<PositionCheck> checks_;
  bool whole_ = true;
};

}  // namespace varve::runtime
