#include "io/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "base/convert.h"
#include "base/files.h"
#include "io/zip.h"
#include "temporary_folder.h"
#include "varve/error.h"

namespace varve::io {
namespace {

namespace fs = std::filesystem;
using NpyBytes = std::vector<std::byte>;

// np.savez_compressed(f, w=np.zeros((4, 8), '<f4') + 1.5, b=np.array([True, False])), NumPy 2.4
constexpr const char* kNumpyCompressed =
    "504b03042d0000000800000021004880e33dffffffffffffffff05001400772e6e70790100100000010000000000004c00000000"
    "0000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a"
    "17672416a402f91a263a0a169a3a0ab50a64032e068603f6038901504b03042d000000080000002100ee19bb5dffffffffffffff"
    "ff05001400622e6e707901001000820000000000000046000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e"
    "9364a8aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a14002e460600504b0102"
    "2d032d0000000800000021004880e33d4c00000000010000050000000000000000000000800100000000772e6e7079504b01022d"
    "032d000000080000002100ee19bb5d4600000082000000050000000000000000000000800183000000622e6e7079504b05060000"
    "00000200020066000000000100000000";
// np.savez(f, a=np.array([1, -2], '<i4'))
constexpr const char* kNumpyStored =
    "504b03042d0000000000000021000676a4e1ffffffffffffffff05001400612e6e70790100100088000000000000008800000000"
    "000000934e554d5059010076007b276465736372273a20273c6934272c2027666f727472616e5f6f72646572273a2046616c7365"
    "2c20277368617065273a2028322c292c207d20202020202020202020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020202020202020202020202020200a01000000feffffff504b01022d032d00000000000000210006"
    "76a4e18800000088000000050000000000000000000000800100000000612e6e7079504b0506000000000100010033000000bf00"
    "00000000";

NpyBytes npy_from_hex(std::string_view hex) {
  NpyBytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

NpyBytes npy_bytes_of(std::string_view text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A version 1 file with this dictionary and these data, as NumPy writes it.
NpyBytes npy_npy(std::string dictionary, std::string_view data) {
  dictionary.append(63 - (10 + dictionary.size()) % 64, ' ');
  dictionary += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(dictionary.size() & 0xFF);
  file += static_cast<char>(dictionary.size() >> 8);
  return npy_bytes_of(file + dictionary + std::string(data));
}

NpyArray parse(const NpyBytes& file) { return parse_npy(file, "test.npy"); }

std::vector<double> values(const NpyArray& array) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < array.shape.numel(); ++i) result.push_back(load_f(array.data.data(), array.dtype, i));
  return result;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void expect_npy_error(const NpyBytes& file, const std::string& part) {
  const std::string message = message_of([&] { parse(file); });
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_TRUE(message.starts_with("test.npy")) << message;
}

// Fails only if something other than Error comes out (or the process dies).
void expect_survived(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

NpyArray ramp(DType dtype, Shape shape) {
  NpyArray array{.dtype = dtype, .shape = shape, .data = {}};
  const std::int64_t count = shape.numel();
  array.data.resize(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) store_i(array.data.data(), dtype, i, i % 100);
  return array;
}

bool same(const NpyArray& a, const NpyArray& b) { return a.dtype == b.dtype && a.shape == b.shape && a.data == b.data; }

class Npy : public ::testing::Test {
 protected:
  test::TemporaryFolder made_;
  const fs::path& folder_ = made_.path();
};

TEST_F(Npy, WritesAndReadsEveryTypeAndRank) {
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{3, 4}, Shape{2, 0, 7}, Shape{2, 3, 1, 5}}) {
      const NpyArray array = ramp(dtype, shape);
      write_npy(folder_ / "a.npy", array);
      EXPECT_TRUE(same(read_npy(folder_ / "a.npy"), array)) << name(dtype) << shape.str();
      EXPECT_EQ(npy_header(array).size() % 64, 0u);
    }
  }
}

TEST_F(Npy, HeaderIsWhatNumpyWrites) {
  const auto starts = [](const NpyArray& array, const std::string& dictionary) {
    EXPECT_EQ(npy_header(array).substr(10, dictionary.size()), dictionary);
    EXPECT_EQ(npy_header(array).back(), '\n');
  };
  starts(ramp(f32, {2, 3}), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  starts(ramp(i64, {}), "{'descr': '<i8', 'fortran_order': False, 'shape': (), }");
  starts(ramp(boolean, {4}), "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }");
  starts(ramp(bf16, {4}), "{'descr': '|V2', 'fortran_order': False, 'shape': (4,), }");
}

TEST_F(Npy, ReadsWhatNumpyWrites) {
  const std::vector<double> ramp6 = {0, 1, 2, 3, 4, 5};
  // np.asfortranarray(np.arange(6).reshape(2, 3).astype('>f4'))
  const std::string_view columns("\0\0\0\0@@\0\0?\x80\0\0@\x80\0\0@\0\0\0@\xa0\0\0", 24);
  const NpyArray a = parse(npy_npy("{'descr': '>f4', 'fortran_order': True, 'shape': (2, 3), }", columns));
  EXPECT_EQ(a.shape, (Shape{2, 3}));
  EXPECT_EQ(values(a), ramp6);
  // The same as bytes, of rank 3: shape (1, 3, 2), first axis fastest.
  const NpyArray b = parse(
      npy_npy("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 3, 2), }", std::string_view("\0\2\4\1\3\5", 6)));
  EXPECT_EQ(values(b), ramp6);
  EXPECT_EQ(values(parse(npy_npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }",
                                 std::string_view("\0<\0\xc0", 4)))),
            (std::vector<double>{1, -2}));
  EXPECT_EQ(values(parse(npy_npy("{'descr': '>i8', 'fortran_order': False, 'shape': (), }",
                                 std::string_view("\0\0\0\0\0\0\1\2", 8)))),
            (std::vector<double>{258}));
  // As ml_dtypes makes NumPy write bfloat16.
  EXPECT_EQ(values(parse(
                npy_npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }", std::string_view("\x80?\0@", 4)))),
            (std::vector<double>{1, 2}));
  // Python 2's long integers, double quotes, another order of keys, a bool that is neither 0 nor 1.
  EXPECT_EQ(values(parse(npy_npy("{\"shape\": (2L,), \"fortran_order\": False, \"descr\": \"|b1\"}",
                                 std::string_view("\x7f\0", 2)))),
            (std::vector<double>{1, 0}));
  NpyBytes version2 = npy_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", "A");
  version2[6] = std::byte{2};
  version2.insert(version2.begin() + 10, 2, std::byte{0});
  EXPECT_EQ(values(parse(version2)), (std::vector<double>{65}));
}

TEST_F(Npy, RefusesWithReasons) {
  expect_npy_error(npy_bytes_of("hello"), "not a .npy file");
  expect_npy_error({}, "not a .npy file");
  expect_npy_error(npy_npy("{'descr': '<c8', 'fortran_order': False, 'shape': (), }", "12345678"),
                   "element type '<c8' is not supported: expected one of 'f8' (f64), 'f4' (f32)");
  expect_npy_error(npy_npy("{'descr': '|O', 'fortran_order': False, 'shape': (), }", ""), "'|O' is not supported");
  expect_npy_error(npy_npy("{'descr': '', 'fortran_order': False, 'shape': (), }", ""), "'' is not supported");
  expect_npy_error(npy_npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (), }", "1234"),
                   "several fields");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "123"), "cut short");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "12345"), "needs 1 elements");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "1234"), "0 or more");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", ""),
                   "cut short");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", ""),
                   "2^62");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", ""), "2^63");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False}", "1234"), "missing");
  expect_npy_error(npy_npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "1234"),
                   "repeated key");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "1234"), "expected True or False");
  expect_npy_error(npy_npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1", "1234"),
                   "after the closing brace");
  std::string many = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 100; ++i) many += "1, ";
  expect_npy_error(npy_npy(many + "), }", "1234"), "more than 64 axes");
  NpyBytes version9 = npy_npy("{}", "");
  version9[6] = std::byte{9};
  expect_npy_error(version9, "version 9");
  EXPECT_NE(message_of([&] { read_npy(folder_ / "none.npy"); }).find("none.npy"), std::string::npos);

  NpyArray wrong = ramp(f32, {3});
  wrong.data.resize(8);
  EXPECT_THROW(write_npy(folder_ / "wrong.npy", wrong), Error);
  EXPECT_FALSE(fs::exists(folder_ / "wrong.npy"));
}

TEST_F(Npy, AnyTruncationIsAnError) {
  const NpyBytes file =
      npy_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "abcdefghijklmnopqrstuvwx");
  EXPECT_NO_THROW(parse(file));
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_THROW(parse(NpyBytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length))), Error) << length;
  }
  for (const char* hex : {kNumpyCompressed, kNumpyStored}) {
    const NpyBytes archive = npy_from_hex(hex);
    for (std::size_t length = 0; length < archive.size(); ++length) {
      const NpyBytes cut(archive.begin(), archive.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_THROW(parse_npz(cut, "test.npz"), Error) << length;
    }
  }
}

TEST_F(Npy, DamageNeverCrashes) {
  const NpyBytes plain =
      npy_npy("{'descr': '>f8', 'fortran_order': True, 'shape': (1, 3), }", "abcdefghijklmnopqrstuvwx");
  for (std::size_t at = 0; at < plain.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      NpyBytes file = plain;
      file[at] ^= static_cast<std::byte>(1 << bit);
      expect_survived([&] { parse(file); });
    }
  }
  std::mt19937 random(1);
  for (const char* hex : {kNumpyCompressed, kNumpyStored}) {
    const NpyBytes archive = npy_from_hex(hex);
    for (std::size_t bit = 0; bit < 8 * archive.size(); ++bit) {
      NpyBytes file = archive;
      file[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      expect_survived([&] { parse_npz(file, "test.npz"); });
    }
    for (int trial = 0; trial < 5000; ++trial) {
      NpyBytes file = archive;
      for (int i = 0; i < 4; ++i)
        file[random() % file.size()] = static_cast<std::byte>(random() % 4 == 0 ? 255 : random());
      expect_survived([&] { parse_npz(file, "test.npz"); });
    }
  }
}

TEST_F(Npy, ArchivesOfNumpyAreRead) {
  const auto compressed = parse_npz(npy_from_hex(kNumpyCompressed), "test.npz");
  ASSERT_EQ(compressed.size(), 2u);
  EXPECT_EQ(compressed.at("w").shape, (Shape{4, 8}));
  EXPECT_EQ(values(compressed.at("w")), std::vector<double>(32, 1.5));
  EXPECT_EQ(values(compressed.at("b")), (std::vector<double>{1, 0}));
  const auto stored = parse_npz(npy_from_hex(kNumpyStored), "test.npz");
  EXPECT_EQ(values(stored.at("a")), (std::vector<double>{1, -2}));
}

TEST_F(Npy, ArchivesComeBack) {
  const std::map<std::string, NpyArray> arrays = {
      {"layer/0/weight", ramp(f32, {3, 4})}, {"größe", ramp(i64, {})}, {"empty", ramp(bf16, {0})}};
  write_npz(folder_ / "a.npz", arrays);
  const auto back = read_npz(folder_ / "a.npz");
  ASSERT_EQ(back.size(), arrays.size());
  for (const auto& [key, array] : arrays) EXPECT_TRUE(same(back.at(key), array)) << key;
  // Equal contents, equal bytes: no dates.
  write_npz(folder_ / "b.npz", arrays);
  EXPECT_EQ(read_file(folder_ / "a.npz", 1 << 20), read_file(folder_ / "b.npz", 1 << 20));
  write_npz(folder_ / "none.npz", {});
  EXPECT_TRUE(read_npz(folder_ / "none.npz").empty());
}

TEST_F(Npy, ArchivesWith64BitRecords) {
  NpyBytes file;
  const auto sink = [&](const void* data, std::size_t bytes) {
    const std::byte* p = static_cast<const std::byte*>(data);
    file.insert(file.end(), p, p + bytes);
  };
  ZipWriter zip(sink, 10);  // as if 32 bits ended at 10
  const std::string_view contents[] = {"short", "longer than ten bytes", ""};
  for (int i = 0; i < 3; ++i) {
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(contents[i]))};
    zip.add(std::string("entry") + static_cast<char>('0' + i), parts);
  }
  zip.finish();
  const std::vector<ZipEntry> entries = read_zip(file, "test.zip");
  ASSERT_EQ(entries.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(entries[i].data, npy_bytes_of(contents[i]));
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_THROW(read_zip(std::span(file).first(length), "test.zip"), Error) << length;
  }
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    NpyBytes damaged = file;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    expect_survived([&] { read_zip(damaged, "test.zip"); });
  }
}

TEST_F(Npy, ArchivesThatLieAreRefused) {
  const NpyBytes good = npy_from_hex(kNumpyStored);
  const auto refused = [&](std::size_t at, std::initializer_list<int> bytes, const std::string& part) {
    NpyBytes file = good;
    for (const int b : bytes) file[at++] = static_cast<std::byte>(b);
    const std::string message = message_of([&] { parse_npz(file, "test.npz"); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with("test.npz")) << message;
  };
  const std::size_t record = good.size() - 22 - 51;  // the directory's only record; the end record follows
  refused(record - 1, {0}, "checksum");
  refused(record + 8, {1}, "encrypted");
  refused(record + 10, {12}, "method 12");
  refused(record + 24, {0x89}, "two different sizes");
  refused(record + 10, {8}, "packed data are damaged");
  refused(record + 46, {'x'}, "not where the directory says");
  refused(record + 49, {'x'}, "not where the directory says");
  refused(record + 20, {0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0x7F}, "overlap");
  refused(good.size() - 12, {2, 0, 2, 0}, "one part of several");
  // A tiny entry that promises gigabytes.
  NpyBytes bomb = npy_from_hex(kNumpyCompressed);
  const std::size_t first = bomb.size() - 22 - 102;
  for (std::size_t i = 0; i < 4; ++i) bomb[first + 24 + i] = std::byte{0x7F};
  EXPECT_NE(message_of([&] { parse_npz(bomb, "test.npz"); }).find("cannot hold"), std::string::npos);
}

}  // namespace
}  // namespace varve::io
