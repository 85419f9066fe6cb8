// The sizes of a tensor, outermost axis first. Scalars have rank 0; a size may be 0.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

namespace varve {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  explicit Shape(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}

  int rank() const { return static_cast<int>(sizes_.size()); }
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return sizes_[static_cast<std::size_t>(axis)]; }
  std::int64_t back() const { return sizes_.back(); }
  auto begin() const { return sizes_.begin(); }
  auto end() const { return sizes_.end(); }
  const std::vector<std::int64_t>& vec() const { return sizes_; }
  void push_back(std::int64_t size) { sizes_.push_back(size); }

  std::int64_t numel() const;  // throws Error when negative or past 2^62
  std::string str() const;     // "[32, 784]"

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::int64_t> sizes_;
};

std::ostream& operator<<(std::ostream&, const Shape&);

// The shape both broadcast to, as NumPy does; throws Error that names `op` and both shapes.
Shape broadcast(const Shape& a, const Shape& b, const char* op);
// Axis counted from the end when negative; throws Error that names `op` when out of range.
int normalize_axis(std::int64_t axis, int rank, const char* op);

}  // namespace varve
