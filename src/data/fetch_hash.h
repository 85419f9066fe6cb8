// Checksums as the homes of data sets publish them. MD5 guards against damage, not against malice: where SHA-256 is
// known it is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace varve::data {

// Collects bytes into the 64-byte blocks that both checksums work on.
class BlockHash {
 public:
  virtual ~BlockHash() = default;
  void add(std::span<const std::byte> data);
  std::string hex();  // of all that was added; nothing may be added after

 protected:
  using Block = std::array<std::uint8_t, 64>;
  virtual void block(const Block& bytes) = 0;
  virtual bool big_endian() const = 0;
  virtual std::span<const std::uint32_t> words() const = 0;  // the state, in the order of printing

 private:
  Block pending_{};
  std::size_t filled_ = 0;
  std::uint64_t bytes_ = 0;
};

class Md5 : public BlockHash {
  void block(const Block& bytes) override;
  bool big_endian() const override { return false; }
  std::span<const std::uint32_t> words() const override { return state_; }
  std::array<std::uint32_t, 4> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
};

class Sha256 : public BlockHash {
  void block(const Block& bytes) override;
  bool big_endian() const override { return true; }
  std::span<const std::uint32_t> words() const override { return state_; }
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

// Of a whole file: MD5 when `expected` has 32 digits, SHA-256 when it has 64.
std::string file_hash(const std::string& path, const std::string& expected);

}  // namespace varve::data
