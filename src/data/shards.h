// Files that are one data set together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "varve/data.h"

namespace varve::data {

// Samples of files, of which only those in use are in memory. An epoch takes the files in an order of its own, so many
// together as have `buffer` samples, and mixes theirs.
class ShardSource : public Source {
 public:
  using Load = std::function<Dataset(std::size_t file)>;
  ShardSource(std::vector<std::int64_t> counts, std::int64_t buffer, Load load);
  ~ShardSource() override;
  ShardSource(const ShardSource&) = delete;
  ShardSource& operator=(const ShardSource&) = delete;

  std::int64_t size() const override { return starts_.back(); }
  TensorType x() const override { return x_; }
  TensorType y() const override { return y_; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override;
  std::vector<std::int64_t> order(std::uint64_t seed, std::uint64_t epoch) const override;

 private:
  class Cache;
  std::vector<std::int64_t> starts_;  // of each file, and the end of the last
  std::int64_t buffer_;
  TensorType x_, y_;
  std::unique_ptr<Cache> cache_;
};

// Pictures in archives, beside files that hold their classes.
Splits tar_shards(const std::vector<std::string>& files, const ShardOptions& options, const std::string& name);
// How many of so many files test.
std::size_t held_files(std::size_t files, double test_share);
// The order of an epoch: files in an order of their own, mixed among so many samples.
std::vector<std::int64_t> shard_order(const std::vector<std::int64_t>& starts, std::int64_t buffer, std::uint64_t seed,
                                      std::uint64_t epoch);

}  // namespace varve::data
