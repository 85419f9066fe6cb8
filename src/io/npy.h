// NumPy's files: one array (.npy), or several by name in a zip archive (.npz).
//
// Every reader may be given a file made by an enemy: it answers with Error that names the file and the field, and takes
// no more memory than the file's own size justifies. Nothing in such a file is ever evaluated (object arrays, which
// hold pickles, are refused).
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "varve/dtype.h"
#include "varve/shape.h"

namespace varve::io {

struct NpyArray {
  DType dtype = f32;
  Shape shape;
  std::vector<std::byte> data;  // in C order (last axis fastest), little-endian
};

// Types: f8 f4 f2 i8 i4 i1 u1 b1, in either byte order and either memory order. NumPy has no bfloat16: it is written as
// two raw bytes, '|V2', which NumPy loads as such (`.view(ml_dtypes.bfloat16)` makes numbers of them) and which is read
// back here as bf16.
NpyArray read_npy(const std::filesystem::path& path);
void write_npy(const std::filesystem::path& path, const NpyArray& array);  // whole or not at all

// Entries by name, without ".npy". Stored or deflated entries are read, stored ones written.
std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path);
void write_npz(const std::filesystem::path& path, const std::map<std::string, NpyArray>& arrays);

// The same on memory. `source` names the file in errors.
NpyArray parse_npy(std::span<const std::byte> file, std::string_view source);
std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> file, std::string_view source);
std::string npy_header(const NpyArray& array);  // all that stands before the data

}  // namespace varve::io
