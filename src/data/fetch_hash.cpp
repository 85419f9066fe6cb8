#include "data/fetch_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <vector>

#include "varve/error.h"

namespace varve::data {
namespace {

// RFC 1321: ⌊2³² · |sin(i + 1)|⌋.
constexpr std::array<std::uint32_t, 64> kMd5 = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

// FIPS 180-4: the fractions of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kSha256 = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load(const std::uint8_t* p, bool big_endian) {
  const std::array<std::uint32_t, 4> b = {p[0], p[1], p[2], p[3]};
  return big_endian ? b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3] : b[3] << 24 | b[2] << 16 | b[1] << 8 | b[0];
}

}  // namespace

void BlockHash::add(std::span<const std::byte> data) {
  bytes_ += data.size();
  while (!data.empty()) {
    const std::size_t taken = std::min(data.size(), pending_.size() - filled_);
    std::memcpy(pending_.data() + filled_, data.data(), taken);
    filled_ += taken;
    data = data.subspan(taken);
    if (filled_ == pending_.size()) {
      block(pending_);
      filled_ = 0;
    }
  }
}

std::string BlockHash::hex() {
  const std::uint64_t bits = bytes_ * 8;
  pending_[filled_++] = 0x80;
  if (filled_ > 56) {
    std::fill(pending_.begin() + static_cast<std::ptrdiff_t>(filled_), pending_.end(), std::uint8_t{0});
    block(pending_);
    filled_ = 0;
  }
  std::fill(pending_.begin() + static_cast<std::ptrdiff_t>(filled_), pending_.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < 8; ++i) {
    pending_[56 + i] = static_cast<std::uint8_t>(bits >> 8 * (big_endian() ? 7 - i : i));
  }
  block(pending_);
  std::string text;
  for (std::uint32_t word : words()) {
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t byte = word >> 8 * (big_endian() ? 3 - i : i) & 0xff;
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  }
  return text;
}

void Md5::block(const Block& bytes) {
  constexpr int kTurns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  auto [a, b, c, d] = state_;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t round = i / 16;
    const std::uint32_t mixed[4] = {(b & c) | (~b & d), (d & b) | (~d & c), b ^ c ^ d, c ^ (b | ~d)};
    const std::uint32_t place[4] = {i, 5 * i + 1, 3 * i + 5, 7 * i};
    const std::uint32_t word = load(bytes.data() + place[round] % 16 * 4, false);
    const std::uint32_t sum = a + mixed[round] + kMd5[i] + word;
    a = d;
    d = c;
    c = b;
    b += std::rotl(sum, kTurns[round][i % 4]);
  }
  state_ = {state_[0] + a, state_[1] + b, state_[2] + c, state_[3] + d};
}

void Sha256::block(const Block& bytes) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) w[i] = load(bytes.data() + i * 4, true);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

std::string file_hash(const std::string& path, const std::string& expected) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("\"" + path + "\" could not be opened to check it.");
  Md5 md5;
  Sha256 sha256;
  BlockHash& hash = expected.size() == 32 ? static_cast<BlockHash&>(md5) : sha256;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), std::ssize(buffer)) || file.gcount() > 0) {
    hash.add(std::as_bytes(std::span(buffer).first(static_cast<std::size_t>(file.gcount()))));
  }
  return hash.hex();
}

}  // namespace varve::data
