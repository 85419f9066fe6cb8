// Tensors by name in a safetensors file. Each is read straight into the memory it will live in.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

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

io::SafetensorsHeader read_header(Reader& file) {
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
  return io::parse_safetensors_header(json, file.size() - prefix - length, file.source());
}

Tensor read_tensor(Reader& file, const TensorType& type) {
  const std::shared_ptr<ir::Array> array = ir::new_array(type);
  void* const data = array->storage->data();
  file.read(data, type.bytes());
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
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : content.tensors) {
    if (!tensor.defined()) throw Error(cat(source, ": tensor \"", name, "\" is undefined, and has nothing to save."));
    tensor.eval();  // whatever fails does so before a file is begun
    const std::uint64_t begin = end;
    end += tensor.type().bytes();
    header.entries.push_back({name, tensor.type(), begin, end});
  }
  const std::string front = io::safetensors_header(header, source);
  AtomicFile file(path);
  file.write(front);
  for (const auto& [name, tensor] : content.tensors) file.write(tensor.data(), tensor.type().bytes());
  file.commit();
}

Safetensors load_safetensors(const std::string& path) {
  Reader file(path);
  io::SafetensorsHeader header = read_header(file);
  Safetensors content{.tensors = {}, .metadata = std::move(header.metadata)};
  for (io::SafetensorsEntry& entry : header.entries)
    content.tensors.emplace_back(std::move(entry.name), read_tensor(file, entry.type));
  return content;
}

std::map<std::string, std::string> load_safetensors_metadata(const std::string& path) {
  Reader file(path);
  return read_header(file).metadata;
}

}  // namespace varve
