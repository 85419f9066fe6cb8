// Choices that were made by timing candidates, kept on disk, so that every run of every process computes the same bits.
// One file for cuBLASLt, cuDNN and plain kernels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/device/kernel_texts.h"

namespace varve::cuda {

enum class ChoiceKind : std::uint8_t {
  gemm,    // an algorithm of cuBLASLt, as the library's own bytes
  conv,    // a convolution's algorithm, by its name
  kernel,  // one of several kernels for the same nodes, by its number
};

// What a choice is about. A choice holds for the candidates that it was made among: `basis` names the libraries'
// versions and the texts of our kernels.
struct ChoiceKey {
  ChoiceKind kind;
  std::string problem;
  std::string basis;

  auto operator<=>(const ChoiceKey&) const = default;
};
// With this process's libraries, and the kernels of ours that take part. Texts may be without what is generated, where
// the problem decides that.
ChoiceKey choice_key(ChoiceKind kind, std::string problem, const std::vector<KernelText>& kernels);

// Safe for threads, and for processes that share the file: each merges what others have written since.
class Choices {
 public:
  explicit Choices(std::filesystem::path file);  // empty: kept in this process alone

  std::optional<std::string> find(const ChoiceKey& key) const;
  // The first choice counts: returns the one that another process has made meanwhile, else this one.
  std::string keep(const ChoiceKey& key, const std::string& value);
  // For this process alone: it was not measured.
  void assume(const ChoiceKey& key, const std::string& value);

  // Why the file was ignored, or "". It is written anew with the next choice.
  std::string damage() const;

 private:
  std::map<ChoiceKey, std::string> read();

  std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::map<ChoiceKey, std::string> known_, assumed_;
  std::string damage_;
};

// Of this GPU.
Choices& choices();

// Bytes as hexadecimal digits, and back: nothing when they are no such digits, or not so many.
std::string hex_of(const void* data, std::size_t bytes);
bool bytes_of_hex(const std::string& digits, void* data, std::size_t bytes);

}  // namespace varve::cuda
