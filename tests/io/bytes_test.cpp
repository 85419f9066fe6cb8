#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>

#include <random>

#include "io/files_for_tests.h"
#include "varve/io.h"

namespace varve::io {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Bytes : public FilesTest {
 protected:
  std::string load(const std::string& content, std::uint64_t limit = 1 << 20) {
    const std::vector<std::uint8_t> bytes = load_bytes(write("b", content), limit);
    return {bytes.begin(), bytes.end()};
  }
};

TEST_F(Bytes, TextComesBack) {
  const std::string text("größe\0\n", 8);
  save_text(path("t"), text);
  EXPECT_EQ(load_text(path("t")), text);
  save_text(path("t"), "");
  EXPECT_EQ(load_text(path("t")), "");
  expect_error([&] { load_text(write("t", "12345"), 4); }, "too large");
  expect_error([&] { load_text(path("none")); }, "none");
}

TEST_F(Bytes, GzipComesUnpacked) {
  EXPECT_EQ(load("plain"), "plain");
  EXPECT_EQ(load(""), "");
  EXPECT_EQ(load("\x1F\x8B"), "\x1F\x8B");  // too short to be gzip
  const std::string long_text(300000, 'x');
  EXPECT_EQ(load(gzip("packed")), "packed");
  EXPECT_EQ(load(gzip("")), "");
  EXPECT_EQ(load(gzip(long_text)), long_text);
  EXPECT_EQ(load(gzip("one ") + gzip("") + gzip("two")), "one two");
}

TEST_F(Bytes, LimitsHoldForWhatIsUnpacked) {
  EXPECT_EQ(load(gzip(std::string(5000, 'x')), 5000).size(), 5000u);
  expect_error([&] { load(gzip(std::string(5001, 'x')), 5000); }, "more than 5.0 kB");
  expect_error([&] { load(gzip(std::string(3000, 'x')) + gzip(std::string(3000, 'x')), 5000); }, "more than");
  expect_error([&] { load(std::string(101, 'x'), 100); }, "too large");
}

TEST_F(Bytes, BombsAreRefusedUnlessAllowed) {
  const std::string bomb = gzip(std::string(3'000'000, 'x'));  // a thousandth of that
  setenv("VARVE_UNPACK_GB", "0.001", 1);
  const std::uint64_t plenty = std::uint64_t{1} << 40;
  const std::string refusal = message_of([&] { load(bomb, plenty); });
  setenv("VARVE_UNPACK_GB", "0.004", 1);
  EXPECT_EQ(load(bomb, plenty).size(), 3'000'000u);
  setenv("VARVE_UNPACK_GB", "lots", 1);
  expect_error([&] { load(bomb, plenty); }, "VARVE_UNPACK_GB: expected a number of gigabytes");
  unsetenv("VARVE_UNPACK_GB");
  EXPECT_NE(refusal.find("it unpacks to more than 1.0 MB, from "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("VARVE_UNPACK_GB="), std::string::npos) << refusal;
}

TEST_F(Bytes, DamagedGzipIsRefused) {
  const std::string good = gzip("some text that is long enough to be packed, packed, packed");
  for (std::size_t length = 3; length < good.size(); ++length)
    expect_error([&] { load(good.substr(0, length)); }, "cut short");
  expect_error([&] { load(good + "tail"); }, "4 bytes after its end are not gzip");
  std::string bad = good;
  bad[bad.size() - 6] ^= 1;  // the checksum
  expect_error([&] { load(bad); }, "damaged");
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    bad = good;
    bad[3 + random() % (bad.size() - 3)] = static_cast<char>(random());
    message_of([&] { load(bad); });  // an Error, or bytes that did not matter: nothing else comes out
  }
}

}  // namespace
}  // namespace varve::io
