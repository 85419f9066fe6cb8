// The header of a .npy file: a Python dictionary as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace varve::io {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"; throws Error that begins with `source`.
NpyHeader parse_npy_header(std::string_view text, std::string_view source);

}  // namespace varve::io
