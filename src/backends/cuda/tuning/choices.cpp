#include "backends/cuda/tuning/choices.h"

#include <cublasLt.h>
#include <cudnn_graph.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/function.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

constexpr const char* kHeader = "varve choices 1";
constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20;

const char* name_of(ChoiceKind kind) {
  switch (kind) {
    case ChoiceKind::gemm:
      return "gemm";
    case ChoiceKind::conv:
      return "conv";
    case ChoiceKind::kernel:
      break;
  }
  return "kernel";
}

std::optional<ChoiceKind> kind_named(const std::string& name) {
  for (const ChoiceKind kind : {ChoiceKind::gemm, ChoiceKind::conv, ChoiceKind::kernel})
    if (name == name_of(kind)) return kind;
  return std::nullopt;
}

std::string checksum(const std::string& text) {
  const std::uint64_t hash = hash_bytes(text);
  return hex_of(&hash, sizeof hash);
}

// "checksum<tab>kind<tab>basis<tab>problem<tab>value"
std::string line_of(const ChoiceKey& key, const std::string& value) {
  const std::string fields = cat(name_of(key.kind), "\t", key.basis, "\t", key.problem, "\t", value);
  return cat(checksum(fields), "\t", fields, "\n");
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(at, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

// Throws Error with the reason where the text is not one that Choices has written.
std::map<ChoiceKey, std::string> parse(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  if (lines[0] != kHeader) throw Error(cat("its first line is not '", kHeader, "'"));
  if (!lines.back().empty()) throw Error("its last line is not whole");
  lines.pop_back();
  std::map<ChoiceKey, std::string> choices;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], '\t');
    const auto kind = fields.size() == 5 ? kind_named(fields[1]) : std::nullopt;
    if (!kind || checksum(lines[i].substr(fields[0].size() + 1)) != fields[0])
      throw Error(cat("line ", i + 1, " is damaged"));
    choices.emplace(ChoiceKey{*kind, fields[3], fields[2]}, fields[4]);
  }
  return choices;
}

// Held by one process at a time, beside the file. Where it cannot be had, the file is not written.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& file)
      : file_(::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0)
      if (errno != EINTR) {
        close(file_);
        file_ = -1;
      }
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return file_ >= 0; }

 private:
  int file_;
};

std::filesystem::path choices_file() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  std::string gpu_name = gpu().name;
  std::replace_if(
      gpu_name.begin(), gpu_name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '-');
  return folder / cat("choices-", gpu_name, "-", gpu().major, gpu().minor, ".txt");
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string hex_of(const void* data, std::size_t bytes) {
  std::string digits;
  for (std::size_t i = 0; i < bytes; ++i) {
    const unsigned byte = static_cast<const unsigned char*>(data)[i];
    digits += "0123456789abcdef"[byte / 16];
    digits += "0123456789abcdef"[byte % 16];
  }
  return digits;
}

bool bytes_of_hex(const std::string& digits, void* data, std::size_t bytes) {
  if (digits.size() != 2 * bytes) return false;
  for (std::size_t i = 0; i < bytes; ++i) {
    const int high = digit(digits[2 * i]), low = digit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

ChoiceKey choice_key(ChoiceKind kind, std::string problem, const std::vector<KernelText>& kernels) {
  std::string hashes;
  for (const KernelText& text : kernels) hashes += hash_of(text);
  return {kind, std::move(problem),
          cat("cublaslt ", cublasLtGetVersion(), " cudnn ", cudnnGetVersion(), " kernels ", checksum(hashes))};
}

Choices::Choices(std::filesystem::path file) : file_(std::move(file)) { known_ = read(); }

std::map<ChoiceKey, std::string> Choices::read() {
  std::error_code error;
  if (file_.empty() || !std::filesystem::exists(file_, error)) return {};
  try {
    const std::vector<std::byte> bytes = read_file(file_, kMostFileBytes);
    return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const Error& reason) {
    if (damage_.empty())
      std::fprintf(stderr, "varve: choices in %s are ignored, and made again: %s.\n", file_.c_str(), reason.what());
    damage_ = reason.what();
    return {};
  }
}

std::optional<std::string> Choices::find(const ChoiceKey& key) const {
  const std::lock_guard lock(mutex_);
  for (const auto* all : {&known_, &assumed_})
    if (const auto found = all->find(key); found != all->end()) return found->second;
  return std::nullopt;
}

void Choices::assume(const ChoiceKey& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  assumed_[key] = value;
}

std::string Choices::keep(const ChoiceKey& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  assumed_.erase(key);
  if (file_.empty()) return known_[key] = value;
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  const FileLock alone(file_);
  if (!alone.held()) return known_[key] = value;
  std::map<ChoiceKey, std::string> all = read();
  all.emplace(key, value);
  for (const auto& [other, chosen] : known_) all.emplace(other, chosen);
  known_ = std::move(all);
  // A file that cannot be written costs time, no more.
  try {
    AtomicFile out(file_);
    out.write(cat(kHeader, "\n"));
    for (const auto& [other, chosen] : known_) out.write(line_of(other, chosen));
    out.commit();
  } catch (const Error&) {
  }
  return known_[key];
}

std::string Choices::damage() const {
  const std::lock_guard lock(mutex_);
  return damage_;
}

Choices& choices() {
  static auto& all = *new Choices(choices_file());
  return all;
}

}  // namespace varve::cuda
