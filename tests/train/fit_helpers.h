// A small problem that a network can learn in a second, and a folder that is gone afterwards.
#pragma once

#include <unistd.h>
#include <varve/varve.h>

#include <filesystem>
#include <string>

namespace varve::train_tests {

class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("varve_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Points of 8 numbers in 3 classes: the largest of three of their sums.
inline data::Dataset points(std::int64_t count, std::int64_t seed) {
  const Tensor x = normal({count, 8}, {.seed = seed, .stream = "points"});
  const Tensor directions = normal({8, 3}, {.seed = 5, .stream = "directions"});
  const Tensor y = cast(argmax(matmul(x, directions)), i32);
  return data::from_tensors(x.eval(), y.eval(), {.name = "points", .classes = {"a", "b", "c"}, .vocabulary = nullptr});
}

inline nn::Sequential small_network() {
  return nn::sequential(nn::dense(32, {.activation = nn::relu}), nn::batch_norm(), nn::dropout(0.2), nn::dense(3));
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.eval().data(), b.eval().data(), a.type().bytes()) == 0;
}

}  // namespace varve::train_tests
