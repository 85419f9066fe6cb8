// Tensors by name in a safetensors file. Each is read straight into the memory it will live in.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/convert.h"
#include "base/files.h"
#include "base/text.h"
#include "io/safetensors_header.h"
#include "ir/array.h"
#include "ir/node.h"
#include "varve/io.h"

namespace varve {
namespace {

// A file of known size, read forwards.
class Reader {
 public:
  explicit Reader(const std::string& path) : source_(cat('"', path, '"')) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error) throw Error(cat("cannot read ", source_, ": ", error.message(), "."));
    in_.open(path, std::ios::binary);
    if (!in_) throw Error(cat("cannot open ", source_, ". May you read it?"));
  }

  void read(void* to, std::uint64_t bytes) {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (static_cast<std::uint64_t>(in_.gcount()) != bytes)
      throw Error(cat(source_, ": cannot read ", bytes, " bytes. Is it still being written, or cut short?"));
  }
  std::uint64_t size() const { return size_; }
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
};

// The checksum of a file, kept in its metadata, is of all its bytes after the length, with zeros in its own place.
constexpr const char* kChecksum = "varve.crc32";
constexpr const char* kNoChecksum = "00000000";

class Checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    if (bytes > 0) crc_ = crc32_z(crc_, static_cast<const Bytef*>(data), bytes);  // a null pointer would start it anew
  }
  std::string text() const {
    std::array<char, 16> digits{};
    std::snprintf(digits.data(), digits.size(), "%08lx", crc_);
    return digits.data();
  }

 private:
  uLong crc_ = 0;
};

// Where its digits stand in the header's JSON.
std::size_t checksum_place(const std::string& json, const std::string& digits) {
  const std::string key = cat('"', kChecksum, "\":\"");
  const std::size_t at = json.find(key + digits + '"');
  return at == std::string::npos ? at : at + key.size();
}

Error damaged(const std::string& source) {
  return Error(cat(source, ": its checksum does not fit its content: the file was damaged after it was written. Use ",
                   "another copy of it."));
}

struct Header {
  io::SafetensorsHeader parsed;
  std::string json;
};

Header read_header(Reader& file) {
  constexpr std::uint64_t prefix = 8;
  if (file.size() < prefix)
    throw Error(cat(file.source(), ": it has only ", file.size(), " bytes: too few for a safetensors file."));
  std::array<std::uint8_t, prefix> raw{};
  file.read(raw.data(), prefix);
  std::uint64_t length = 0;
  for (std::size_t i = prefix; i-- > 0;) length = length << 8 | raw[i];
  if (length > io::kMostSafetensorsHeader)
    throw Error(cat(file.source(), ": header length: ", length, " bytes; at most ", io::kMostSafetensorsHeader,
                    " are allowed. Is it a safetensors file?"));
  if (length > file.size() - prefix)
    throw Error(cat(file.source(), ": header length: ", length, " bytes, but only ", file.size() - prefix,
                    " follow. Is it cut short?"));
  std::string json(length, '\0');
  file.read(json.data(), length);
  io::SafetensorsHeader parsed = io::parse_safetensors_header(json, file.size() - prefix - length, file.source());
  return {std::move(parsed), std::move(json)};
}

Tensor read_tensor(Reader& file, const TensorType& type, Checksum* checksum) {
  const std::shared_ptr<ir::Array> array = ir::new_array(type);
  void* const data = array->storage->data();
  file.read(data, type.bytes());
  if (checksum) checksum->add(data, type.bytes());
  // Bytes other than 0 and 1 in a bool array would be undefined behaviour later on.
  if (type.dtype == boolean) convert(data, boolean, data, boolean, type.shape.numel());
  return Tensor(ir::Value{ir::constant_node(array), 0});
}

}  // namespace

const Tensor* Safetensors::find(const std::string& name) const {
  const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const auto& entry) { return entry.first == name; });
  return at == tensors.end() ? nullptr : &at->second;
}

void save_safetensors(const std::string& path, const Safetensors& content) {
  const std::string source = cat("save_safetensors: \"", path, '"');
  io::SafetensorsHeader header{.entries = {}, .metadata = content.metadata};
  const bool checked = header.metadata.count(kChecksum) > 0;
  if (checked) header.metadata[kChecksum] = kNoChecksum;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : content.tensors) {
    if (!tensor.defined()) throw Error(cat(source, ": tensor \"", name, "\" is undefined, and has nothing to save."));
    tensor.eval();  // whatever fails does so before a file is begun
    const std::uint64_t begin = end;
    end += tensor.type().bytes();
    header.entries.push_back({name, tensor.type(), begin, end});
  }
  std::string front = io::safetensors_header(header, source);
  if (checked) {
    Checksum checksum;
    checksum.add(front.data() + 8, front.size() - 8);
    for (const auto& [name, tensor] : content.tensors) checksum.add(tensor.data(), tensor.type().bytes());
    front.replace(checksum_place(front, kNoChecksum), 8, checksum.text());
  }
  AtomicFile file(path);
  file.write(front);
  for (const auto& [name, tensor] : content.tensors) file.write(tensor.data(), tensor.type().bytes());
  file.commit();
}

Safetensors load_safetensors(const std::string& path) {
  Reader file(path);
  Header header = read_header(file);
  Safetensors content{.tensors = {}, .metadata = std::move(header.parsed.metadata)};
  const auto saved = content.metadata.find(kChecksum);
  std::optional<Checksum> checksum;
  if (saved != content.metadata.end()) {
    const std::size_t place = checksum_place(header.json, saved->second);
    if (saved->second.size() != 8 || place == std::string::npos) throw damaged(file.source());
    header.json.replace(place, 8, kNoChecksum);
    checksum.emplace().add(header.json.data(), header.json.size());
  }
  for (io::SafetensorsEntry& entry : header.parsed.entries)
    content.tensors.emplace_back(std::move(entry.name), read_tensor(file, entry.type, checksum ? &*checksum : nullptr));
  if (checksum && checksum->text() != saved->second) throw damaged(file.source());
  return content;
}

std::map<std::string, std::string> load_safetensors_metadata(const std::string& path) {
  Reader file(path);
  return read_header(file).parsed.metadata;
}

}  // namespace varve
