// Where the values of joined calls lie, and how those that the next call needs come together.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "ir/fingerprint.h"
#include "varve/tensor.h"

namespace varve {

// A value that is a row of a tensor, some rows from there on, or (row < 0) a tensor of its own.
struct Place {
  Tensor of;
  std::int64_t row = -1;
  std::int64_t rows = 0;  // 0: one row, without the leading axis
};

class Stacks {
 public:
  // The values one after the other along a new leading axis of `size`, all of one type; where they are fewer, the last
  // again and again.
  Tensor stacked(const std::vector<Place>& places, const TensorType& type, std::int64_t size);
  // Of a tensor's rows the first are the calls', the others repeat the last.
  void note_filled(const Tensor& rows, std::int64_t filled) { filled_[rows.value()] = filled; }
  // One value by itself.
  Tensor alone(const Place& place, const TensorType& type);
  // The same elements in rows of another shape: [N, ..] as [N·k, ..type] where a row holds k of them.
  Tensor in_rows_of(const Tensor& rows, const Shape& shape);

 private:
  struct Source {
    Tensor of;
    std::vector<std::int64_t> rows;  // those needed, in the order of need
  };
  Tensor joined_sources(std::vector<Source>& sources, const std::vector<std::int64_t>& at, std::int64_t size);
  Tensor rows_of(const Tensor& all, std::vector<std::int64_t> rows, std::int64_t size);
  Tensor loose(const std::vector<Tensor>& values, const TensorType& type);
  const Tensor& positions(const std::vector<std::int64_t>& rows);

  std::unordered_map<ir::Fingerprint, Tensor, ir::FingerprintHash> known_;  // what was stacked, cut or reshaped before
  std::unordered_map<ir::Value, std::int64_t, ir::ValueHash> filled_;
  std::map<std::vector<std::int64_t>, Tensor> positions_;
};

}  // namespace varve
