#include "io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text.h"

namespace varve::io {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kMostAxes = 64;

struct Code {
  DType dtype;
  const char* code;
};
constexpr Code kCodes[] = {{f64, "F64"}, {f32, "F32"}, {f16, "F16"}, {bf16, "BF16"},   {i64, "I64"},
                           {i32, "I32"}, {i8, "I8"},   {u8, "U8"},   {boolean, "BOOL"}};

std::string code_of(DType dtype) {
  return std::find_if(std::begin(kCodes), std::end(kCodes), [&](const Code& c) { return c.dtype == dtype; })->code;
}

// A name out of a file, short enough for a message.
std::string shown(const std::string& name) {
  constexpr std::size_t most = 100;
  return cat('"', name.size() <= most ? name : name.substr(0, most) + "…", '"');
}

// Takes the header's JSON piece by piece, so that names may not repeat, order is kept, and nothing is stored that does
// not belong there, however deep or long an enemy makes it.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& source) : source_(source) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number that is no whole one"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool number_integer(number_integer_t value) override { return unexpected(cat("the negative number ", value)); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool key(string_t& name) override;
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    fail(cat("the header is not JSON: there is an error at its byte ", at, ". Is it a safetensors file?"));
  }

 private:
  enum class Place : std::uint8_t { start, root, metadata, tensor, list, end };

  [[noreturn]] void fail(const std::string& what) const { throw Error(cat(source_, ": ", what)); }
  [[noreturn]] void fail_field(const std::string& what) const {
    fail(cat("tensor ", shown(name_), ": ", field_, what));
  }
  [[noreturn]] bool unexpected(const std::string& what) const;
  void finish_tensor();

  const std::string& source_;
  SafetensorsHeader header_;
  Place place_ = Place::start;
  std::string name_;  // of the tensor; in __metadata__, the key
  std::string field_;
  std::set<std::string> names_;
  // The tensor being read.
  std::optional<DType> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
};

bool HeaderReader::unexpected(const std::string& what) const {
  switch (place_) {
    case Place::metadata:
      fail(cat("__metadata__, ", shown(name_), ": expected text, got ", what, "."));
    case Place::tensor:
    case Place::list:
      fail_field(cat(field_ == "dtype" ? ": expected text such as \"F32\", got "
                                       : ": expected a list of whole numbers, 0 or more, got ",
                     what, "."));
    case Place::root:
      fail(cat("tensor ", shown(name_), ": expected {dtype, shape, data_offsets}, got ", what, "."));
    default:
      fail(cat("the header must be an object {…}, got ", what, ". Is it a safetensors file?"));
  }
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (place_ != Place::list) return unexpected(cat("the number ", value));
  std::vector<std::uint64_t>& list = field_ == "shape" ? *shape_ : *offsets_;
  if (list.size() == kMostAxes) fail_field(cat(": more than ", kMostAxes, " numbers."));
  list.push_back(value);
  return true;
}

bool HeaderReader::string(string_t& value) {
  if (place_ == Place::metadata) {
    header_.metadata[name_] = value;
    return true;
  }
  if (place_ != Place::tensor || field_ != "dtype") return unexpected("text");
  for (const Code& code : kCodes) {
    if (value == code.code) dtype_ = code.dtype;
  }
  if (dtype_) return true;
  fail_field(cat(": ", shown(value), " is not a known type: expected F64, F32, F16, BF16, I64, I32, I8, U8 or BOOL."));
}

bool HeaderReader::key(string_t& name) {
  if (place_ == Place::root) {
    name_ = name;
    if (!names_.insert(name).second) fail(cat("tensor ", shown(name), " is there twice."));
  } else if (place_ == Place::metadata) {
    name_ = name;
    if (header_.metadata.count(name)) fail(cat("__metadata__, ", shown(name), ": is there twice."));
  } else {
    const bool again =
        (name == "dtype" && dtype_) || (name == "shape" && shape_) || (name == "data_offsets" && offsets_);
    if (again) fail(cat("tensor ", shown(name_), ": ", name, " is there twice."));
    if (name != "dtype" && name != "shape" && name != "data_offsets")
      fail(cat("tensor ", shown(name_), ": unknown field ", shown(name), ": expected dtype, shape and data_offsets."));
    field_ = name;
  }
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (place_ == Place::start) {
    place_ = Place::root;
  } else if (place_ == Place::root) {
    place_ = name_ == kMetadata ? Place::metadata : Place::tensor;
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
  } else {
    return unexpected("an object");
  }
  return true;
}

bool HeaderReader::end_object() {
  if (place_ == Place::tensor) finish_tensor();
  place_ = place_ == Place::root ? Place::end : Place::root;
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (place_ != Place::tensor || field_ == "dtype") return unexpected("a list");
  (field_ == "shape" ? shape_ : offsets_).emplace();
  place_ = Place::list;
  return true;
}

bool HeaderReader::end_array() {
  place_ = Place::tensor;
  return true;
}

void HeaderReader::finish_tensor() {
  const auto need = [&](bool there, const char* field) {
    if (!there) fail(cat("tensor ", shown(name_), ": ", field, " is missing."));
  };
  need(dtype_.has_value(), "dtype");
  need(shape_.has_value(), "shape");
  need(offsets_.has_value(), "data_offsets");
  std::vector<std::int64_t> sizes;
  for (const std::uint64_t size : *shape_) {
    field_ = "shape";
    if (size > std::numeric_limits<std::int64_t>::max()) fail_field(cat(": size ", size, " is too large."));
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  field_ = "data_offsets";
  if (offsets_->size() != 2) fail_field(cat(": expected [begin, end], got ", offsets_->size(), " numbers."));
  const std::uint64_t begin = (*offsets_)[0], end = (*offsets_)[1];
  if (begin > end) fail_field(cat(": begin ", begin, " is after end ", end, "."));

  TensorType type{*dtype_, Shape(std::move(sizes))};
  std::int64_t count = 0;
  try {
    count = type.shape.numel();
  } catch (const Error& e) {
    fail(cat("tensor ", shown(name_), ": ", e.what()));
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(count), size_of(type.dtype), &bytes) || bytes != end - begin)
    fail_field(cat(": ", type.str(), " needs ", count, " times ", size_of(type.dtype), " bytes, but ", begin, " to ",
                   end, " are ", end - begin, "."));
  header_.entries.push_back({name_, std::move(type), begin, end});
}

// The format allows neither holes nor overlaps: whoever hides something in a file has no place to put it.
void check_cover(const SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& source) {
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    const std::string tensor = cat(source, ": tensor ", shown(entry.name), ": data_offsets: ");
    if (entry.end > data_bytes)
      throw Error(cat(tensor, entry.begin, " to ", entry.end, " is past the end: the file has ", data_bytes,
                      " bytes of data. Is it cut short?"));
    if (entry.begin < covered)
      throw Error(cat(tensor, "it begins at ", entry.begin, ", inside the tensor that ends at ", covered, "."));
    if (entry.begin > covered)
      throw Error(cat(tensor, "it begins at ", entry.begin, ", but the one before ends at ", covered, ": a hole."));
    covered = entry.end;
  }
  if (covered != data_bytes)
    throw Error(cat(source, ": ", data_bytes - covered, " bytes after the last tensor belong to none."));
}

std::string json_text(const std::string& text, const std::string& source) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(cat(source, ": the name or text ", shown(text), " is not UTF-8, which the format demands."));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, const std::string& source) {
  if (!json.starts_with('{'))
    throw Error(cat(source, ": the header does not begin with '{'. Is it a safetensors file?"));
  HeaderReader reader(source);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = reader.take();
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  check_cover(header, data_bytes, source);
  return header;
}

std::string safetensors_header(const SafetensorsHeader& header, const std::string& source) {
  std::string json = "{";
  const auto separate = [&json] { json += json.back() == '{' ? "" : ","; };
  if (!header.metadata.empty()) {
    json += cat('"', kMetadata, "\":{");
    for (const auto& [key, value] : header.metadata) {
      separate();
      json += json_text(key, source) + ":" + json_text(value, source);
    }
    json += "}";
  }
  std::set<std::string> names;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.name == kMetadata) throw Error(cat(source, ": a tensor cannot be called \"__metadata__\"."));
    if (!names.insert(entry.name).second) throw Error(cat(source, ": two tensors are called ", shown(entry.name), "."));
    std::string sizes;
    for (const std::int64_t size : entry.type.shape) sizes += cat(sizes.empty() ? "" : ",", size);
    separate();
    json += cat(json_text(entry.name, source), ":{\"dtype\":\"", code_of(entry.type.dtype), "\",\"shape\":[", sizes,
                "],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kMostSafetensorsHeader)
    throw Error(cat(source, ": the header would have ", human_bytes(json.size()), "; at most ",
                    human_bytes(kMostSafetensorsHeader), " are allowed."));
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return length + json;
}

}  // namespace varve::io
