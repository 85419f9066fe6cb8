// A graph run call by call. Each call is a small program, kept by what it computes: a graph that was never met before
// is made of calls that were, and runs without the compiler.
#pragma once

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/execution.h"
#include "runtime/pending.h"

namespace varve::runtime {

class Piecewise {
 public:
  struct Report {
    std::size_t calls = 0;     // small programs run
    std::size_t moves = 0;     // calls that computed nothing
    std::size_t compiled = 0;  // small programs made on the way
  };

  // Values of the pending graph's outputs. Throws Error where a kernel refused a position.
  std::vector<std::shared_ptr<const ir::Array>> run(const Pending& pending, const backend::Backend& backend,
                                                    const std::string& device);
  const Report& report() const { return report_; }  // of the last run
  std::size_t size() const { return order_.size(); }
  void clear();

 private:
  struct Piece {
    ir::Fingerprint key;
    std::unique_ptr<Execution> execution;
    bool tiny = false;
  };
  using ArrayPtr = std::shared_ptr<const ir::Array>;
  class Run;

  Piece& piece(const ir::Fingerprint& key, const ir::Node& node, const std::vector<ArrayPtr>& in,
               const backend::Backend& backend);
  void bind_arena(Execution& execution);
  std::shared_ptr<ir::Array> new_value(const TensorType& type, backend::Device* device);
  void take_back(ArrayPtr value);  // its memory serves the next value of its size, if nobody else holds it

  static constexpr std::size_t kMostPieces = 8192;
  std::list<Piece> order_;  // most recently used first
  std::unordered_map<ir::Fingerprint, std::list<Piece>::iterator, ir::FingerprintHash> index_;
  std::shared_ptr<ir::Storage> arena_;  // scratch that all of them share
  // Memory of values that were read for the last time, by size.
  static constexpr std::size_t kMostFreeBytes = 32 << 20;
  std::unordered_map<std::size_t, std::vector<std::shared_ptr<ir::Storage>>> free_;
  std::size_t free_bytes_ = 0;
  backend::Device* arena_device_ = nullptr;
  backend::ErrorWord errors_;
  std::unordered_map<backend::Device*, std::unique_ptr<backend::ErrorWord>> device_errors_;
  Report report_;
};

}  // namespace varve::runtime
