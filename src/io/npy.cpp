#include "io/npy.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/convert.h"
#include "base/files.h"
#include "base/text.h"
#include "io/npy_header.h"
#include "varve/error.h"

namespace varve::io {
namespace {

static_assert(std::endian::native == std::endian::little, "data is kept little-endian, in memory as in files");

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyCode {
  DType dtype;
  const char* code;  // without the byte order
};
constexpr NpyCode kNpyCodes[] = {{f64, "f8"}, {f32, "f4"}, {f16, "f2"}, {bf16, "V2"},   {i64, "i8"},
                                 {i32, "i4"}, {i8, "i1"},  {u8, "u1"},  {boolean, "b1"}};

const char* npy_code_of(DType dtype) {
  return std::find_if(std::begin(kNpyCodes), std::end(kNpyCodes), [&](const NpyCode& c) { return c.dtype == dtype; })
      ->code;
}

DType dtype_of_descr(const std::string& descr, std::string_view source) {
  const std::string code = descr.find_first_of("<>=|") == 0 ? descr.substr(1) : descr;
  std::string supported;
  for (const NpyCode& known : kNpyCodes) {
    if (code == known.code) return known.dtype;
    supported += cat(supported.empty() ? "" : ", ", "'", known.code, "' (", known.dtype, ")");
  }
  throw Error(cat(source, ": element type '", descr, "' is not supported: expected one of ", supported,
                  ". Convert the array in Python first, for instance with .astype('f4')."));
}

void swap_bytes(std::vector<std::byte>& data, std::size_t element) {
  for (std::size_t at = 0; at < data.size(); at += element) {
    std::reverse(data.data() + at, data.data() + at + element);
  }
}

// From first axis fastest to last axis fastest: walks the result in order, the source by its strides.
std::vector<std::byte> from_fortran_order(const std::vector<std::byte>& data, const Shape& shape, std::size_t element) {
  std::vector<std::byte> result(data.size());
  if (data.empty()) return result;
  std::vector<std::size_t> stride, index(static_cast<std::size_t>(shape.rank()));
  std::size_t step = element;
  for (const std::int64_t size : shape) {
    stride.push_back(step);
    step *= static_cast<std::size_t>(size);
  }
  std::size_t from = 0;
  for (std::size_t to = 0; to < result.size(); to += element) {
    std::memcpy(result.data() + to, data.data() + from, element);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const std::size_t a = static_cast<std::size_t>(axis);
      from += stride[a];
      if (++index[a] < static_cast<std::size_t>(shape[axis])) break;
      from -= stride[a] * index[a];
      index[a] = 0;
    }
  }
  return result;
}

// The text of the header, and what follows it.
struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

Parts split(std::span<const std::byte> file, std::string_view source) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic)) {
    throw Error(cat(source, ": not a .npy file: it does not begin with \"\\x93NUMPY\"."));
  }
  const auto byte = [&](std::size_t i) -> std::size_t {
    if (i >= file.size())
      throw Error(cat(source, ": the .npy file ends in its header, after ", file.size(), " bytes."));
    return std::to_integer<std::size_t>(file[i]);
  };
  const std::size_t version = byte(6);
  static_cast<void>(byte(7));  // the minor version has never mattered
  if (version < 1 || version > 3) {
    throw Error(cat(source, ": .npy version ", version, " is unknown: versions 1, 2 and 3 are read."));
  }
  const std::size_t start = version == 1 ? 10 : 12;
  const std::size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > file.size() - start) {
    throw Error(cat(source, ": the .npy header is said to have ", length, " bytes, and only ", file.size() - start,
                    " follow. Is the file cut short?"));
  }
  return {text.substr(start, length), file.subspan(start + length)};
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> file, std::string_view source) {
  const Parts parts = split(file, source);
  NpyHeader header = parse_npy_header(parts.header, source);
  NpyArray array{.dtype = dtype_of_descr(header.descr, source), .shape = Shape(std::move(header.shape)), .data = {}};
  std::uint64_t count = 0;
  try {
    count = static_cast<std::uint64_t>(array.shape.numel());
  } catch (const Error& e) {
    throw Error(cat(source, ": ", e.what()));
  }
  // Divided, not multiplied: the product of a lying shape could overflow.
  const std::size_t element = size_of(array.dtype);
  if (count != parts.data.size() / element || parts.data.size() % element != 0) {
    throw Error(cat(source, ": shape ", array.shape, " of ", array.dtype, " needs ", count, " elements of ", element,
                    " bytes, and the file holds ", parts.data.size(), " bytes of data. Is it cut short?"));
  }
  array.data.assign(parts.data.begin(), parts.data.end());
  if (header.descr[0] == '>') swap_bytes(array.data, element);
  if (header.fortran_order && array.shape.rank() > 1) {
    array.data = from_fortran_order(array.data, array.shape, element);
  }
  // Bytes other than 0 and 1 in a bool array would be undefined behaviour later on.
  if (array.dtype == boolean) convert(array.data.data(), boolean, array.data.data(), boolean, array.shape.numel());
  return array;
}

std::string npy_header(const NpyArray& array) {
  const std::size_t element = size_of(array.dtype);
  if (static_cast<std::uint64_t>(array.shape.numel()) != array.data.size() / element ||
      array.data.size() % element != 0) {
    throw Error(cat("write .npy: shape ", array.shape, " of ", array.dtype, " does not fit ", array.data.size(),
                    " bytes of data."));
  }
  std::string shape = "(";
  for (const std::int64_t size : array.shape) shape += cat(size, array.shape.rank() == 1 ? "," : ", ");
  if (array.shape.rank() > 1) shape.resize(shape.size() - 2);
  const bool ordered = element > 1 && array.dtype != bf16;
  std::string text = cat("{'descr': '", ordered ? "<" : "|", npy_code_of(array.dtype),
                         "', 'fortran_order': False, 'shape': ", shape, "), }");
  // Padded so that the data begin at a multiple of 64 bytes: readers map them into memory.
  constexpr std::size_t prefix = 10;
  text.append(63 - (prefix + text.size()) % 64, ' ');
  text += '\n';
  if (text.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw Error(cat("write .npy: rank ", array.shape.rank(), " is more than the format can hold."));
  }
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return header + text;
}

NpyArray read_npy(const std::filesystem::path& path) {
  const std::vector<std::byte> file = read_file(path, std::numeric_limits<std::int64_t>::max());
  return parse_npy(file, cat("\"", path.string(), "\""));
}

void write_npy(const std::filesystem::path& path, const NpyArray& array) {
  const std::string header = npy_header(array);
  AtomicFile file(path);
  file.write(header);
  file.write(std::span<const std::byte>(array.data));
  file.commit();
}

}  // namespace varve::io
