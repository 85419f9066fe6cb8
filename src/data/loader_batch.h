// Which samples make a batch, and how it is read: the part of the loader that knows no threads of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/loader_pool.h"
#include "varve/data.h"

namespace varve::data {

// What a thread that reads keeps from batch to batch.
struct ReadScratch {
  std::vector<float> sample;
  std::vector<std::byte> target;
  std::vector<std::int64_t> labels;
};

class BatchReader {
 public:
  BatchReader(Dataset dataset, const LoaderOptions& options);  // checks the options
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  std::int64_t batches() const { return batches_; }
  // Batch `index` of the epoch: the same for whoever reads it. By several threads at once. Gives up soon after `stop`.
  Batch read(std::int64_t index, ReadScratch& scratch, const std::atomic<bool>& stop) const;

 private:
  struct Rows {  // of the epoch's order
    std::int64_t begin, end;
  };
  Rows rows_of(std::int64_t index) const;
  void choose_order();
  void choose_steps();
  void add_lengths_and_weights(Batch& batch, Rows rows) const;
  Batch read_mixed(std::int64_t index, Rows rows, ReadScratch& scratch, const std::atomic<bool>& stop) const;
  std::vector<std::int64_t> partners(std::int64_t index, const Random& random) const;
  std::int64_t sample_at(std::int64_t place) const;

  Dataset dataset_;
  LoaderOptions options_;
  std::int64_t batches_ = 0, classes_ = 0;  // classes: for mixup
  std::vector<std::int64_t> order_;         // empty: as they are
  std::vector<std::int64_t> lengths_;       // of all samples; empty: they have no lengths of their own
  std::vector<std::int64_t> steps_;         // of each batch; empty: of the samples' type
  std::vector<std::shared_ptr<Pool>> input_pools_, target_pools_;  // one for each field
};

}  // namespace varve::data
