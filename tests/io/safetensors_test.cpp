#include <gtest/gtest.h>

#include <random>

#include "io/files_for_tests.h"
#include "io/safetensors_header.h"
#include "varve/io.h"
#include "varve/ops.h"

namespace varve::io {
namespace {

// safetensors 0.8.0: save({"w": np.arange(6, dtype=np.float32).reshape(2, 3), "flags": np.array([True, False]),
//                          "n": np.array(-7, dtype=np.int64)}, {"made by": "größe"})
constexpr const char* kFromPython =
    "d0000000000000007b225f5f6d657461646174615f5f223a7b226d616465206279223a226772c3b6c39f65227d2c226e223a7b22"
    "6474797065223a22493634222c227368617065223a5b5d2c22646174615f6f666673657473223a5b302c385d7d2c2277223a7b22"
    "6474797065223a22463332222c227368617065223a5b322c335d2c22646174615f6f666673657473223a5b382c33325d7d2c2266"
    "6c616773223a7b226474797065223a22424f4f4c222c227368617065223a5b325d2c22646174615f6f666673657473223a5b3332"
    "2c33345d7d7d2020f9ffffffffffffff000000000000803f0000004000004040000080400000a0400100";

std::string length_of(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string file(const std::string& json, const std::string& data) { return length_of(json.size()) + json + data; }

class SafetensorsFile : public FilesTest {
 protected:
  // Reading these bytes fails, and the message holds the file's name and `part`.
  void refused(const std::string& bytes, const std::string& part) {
    const std::string name = write("bad.safetensors", bytes);
    const std::string message = message_of([&] { load_safetensors(name); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
  bool survived(const std::string& bytes) {
    const std::string name = write("bad.safetensors", bytes);
    return message_of([&] { load_safetensors(name); }) == "no error";
  }
};

TEST_F(SafetensorsFile, EveryTypeAndRankComesBack) {
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{3, 4}, Shape{2, 0, 7}}) {
      const Tensor values = cast(reshape(arange(shape.numel()), shape), dtype);
      save_safetensors(path("a.safetensors"), {.tensors = {{"x", values}}, .metadata = {}});
      const Safetensors back = load_safetensors(path("a.safetensors"));
      ASSERT_EQ(back.tensors.size(), 1u);
      EXPECT_EQ(back.tensors[0].second.type(), values.type());
      EXPECT_EQ(back.tensors[0].second.to_vector<double>(), values.to_vector<double>());
    }
  }
}

TEST_F(SafetensorsFile, OrderNamesAndMetadataAreKept) {
  // An odd number of bytes first: what follows is not aligned in the file, but must be in memory.
  const Safetensors content{.tensors = {{"z", tensor<std::uint8_t>({1, 2, 3})},
                                        {"größe \"1\"", tensor({1.5f, -2.f})},
                                        {"a", transpose(tensor({{1.f, 2.f}, {3.f, 4.f}}))}},
                            .metadata = {{"step", "17"}, {"text", "line\nline"}}};
  save_safetensors(path("a.safetensors"), content);
  const Safetensors back = load_safetensors(path("a.safetensors"));
  ASSERT_EQ(back.tensors.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(back.tensors[i].first, content.tensors[i].first);
  EXPECT_EQ(back.metadata, content.metadata);
  EXPECT_EQ(load_safetensors_metadata(path("a.safetensors")), content.metadata);
  EXPECT_EQ(back.find("a")->to_vector<float>(), (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(back.find("größe \"1\"")->to_vector<float>(), (std::vector<float>{1.5f, -2.f}));
  EXPECT_EQ(back.find("b"), nullptr);
  const std::string whole = load_text(path("a.safetensors"));
  EXPECT_EQ((static_cast<std::uint8_t>(whole[0]) | static_cast<std::uint8_t>(whole[1]) << 8) % 8, 0);
}

TEST_F(SafetensorsFile, FilesOfOthersAreRead) {
  const Safetensors content = load_safetensors(write("p.safetensors", from_hex(kFromPython)));
  ASSERT_EQ(content.tensors.size(), 3u);
  EXPECT_EQ(content.tensors[0].first, "n");
  EXPECT_EQ(content.find("n")->item<std::int64_t>(), -7);
  EXPECT_EQ(content.find("w")->shape(), (Shape{2, 3}));
  EXPECT_EQ(content.find("w")->to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(content.find("flags")->to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(content.metadata.at("made by"), "größe");
}

TEST_F(SafetensorsFile, NothingIsStillAFile) {
  save_safetensors(path("none.safetensors"), {});
  EXPECT_TRUE(load_safetensors(path("none.safetensors")).tensors.empty());
}

TEST_F(SafetensorsFile, BoolBytesBecomeTrueOrFalse) {
  const std::string json = R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
  const Safetensors content = load_safetensors(write("b.safetensors", file(json, std::string("\0\x07\xFF", 3))));
  EXPECT_EQ(content.tensors[0].second.to_vector<int>(), (std::vector<int>{0, 1, 1}));
}

TEST_F(SafetensorsFile, TruncationIsRefusedAtEveryByte) {
  const std::string good = from_hex(kFromPython);
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(survived(good.substr(0, length))) << length;
  refused(good + "x", "1 bytes after the last tensor");
}

TEST_F(SafetensorsFile, LyingHeadersAreRefused) {
  refused("short", "only 5 bytes");
  refused(length_of(std::uint64_t{1} << 63) + "{}", "header length");
  refused(length_of(99'999'999) + "{}", "only 2 follow");
  refused(length_of(100'000'001) + "{}", "at most 100000000");
  refused(file("", ""), "does not begin with '{'");
  refused(file("[]", ""), "does not begin with '{'");
  refused(file("{\"a\":", ""), "not JSON");
  refused(file("{} {}", ""), "not JSON");
  refused(file(std::string(100000, '{'), ""), "not JSON");
  refused(file("{\"a\":1}", ""), "expected {dtype, shape, data_offsets}, got the number 1");
  refused(file("{\"__metadata__\":{\"k\":1}}", ""), "__metadata__, \"k\": expected text");
  refused(file("{\"__metadata__\":{\"k\":{}}}", ""), "__metadata__, \"k\": expected text");
  refused(file("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", ""), "__metadata__, \"k\": is there twice");

  const auto one = [&](const std::string& fields, const std::string& part, std::size_t bytes = 8) {
    refused(file("{\"t\":{" + fields + "}}", std::string(bytes, 'x')), part);
  };
  one(R"("shape":[2],"data_offsets":[0,8])", "tensor \"t\": dtype is missing");
  one(R"("dtype":"F32","data_offsets":[0,8])", "tensor \"t\": shape is missing");
  one(R"("dtype":"F32","shape":[2])", "tensor \"t\": data_offsets is missing");
  one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])", "dtype: \"F33\" is not a known type");
  one(R"("dtype":5,"shape":[2],"data_offsets":[0,8])", "dtype: expected text");
  one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])", "dtype is there twice");
  one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1)", "unknown field \"more\"");
  one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", "shape: expected a list of whole numbers, 0 or more");
  one(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])", "shape: expected a list of whole numbers");
  one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])", "shape: expected a list of whole numbers");
  one(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])", "shape: size");
  one(R"("dtype":"F32","shape":[99999999999999999999999],"data_offsets":[0,8])", "shape: expected");
  one(R"("dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8])", "2^62");
  one(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])", "needs 4611686018427387904", 0);
  one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", "f32 [3] needs 3 times 4 bytes");
  one(R"("dtype":"F32","shape":[2],"data_offsets":[8])", "data_offsets: expected [begin, end]");
  one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])", "data_offsets: expected [begin, end]");
  one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", "begin 8 is after end 0");
  one(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", "past the end: the file has 8 bytes");
  one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", "a hole");
  one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", "4 bytes after the last tensor");
  std::string ones = "1";
  for (int i = 0; i < 100; ++i) ones += ",1";
  one(R"("dtype":"F32","shape":[)" + ones + R"(],"data_offsets":[0,4])", "more than 64");

  const std::string f32_at = R"({"dtype":"F32","shape":[1],"data_offsets":)";
  refused(file("{\"a\":" + f32_at + "[0,4]},\"a\":" + f32_at + "[4,8]}}", "12345678"), "\"a\" is there twice");
  refused(file("{\"a\":" + f32_at + "[0,4]},\"b\":" + f32_at + "[2,6]}}", "123456"), "inside the tensor");
}

TEST_F(SafetensorsFile, DamageNeverCrashes) {
  const std::string good = from_hex(kFromPython), json = good.substr(8, 208);
  std::mt19937 random(1);
  int refusals = 0;
  for (int trial = 0; trial < 5000; ++trial) {  // of the header, without files
    std::string bad = json;
    for (int i = 0; i < 1 + trial % 4; ++i) bad[random() % bad.size()] = static_cast<char>(random());
    refusals += message_of([&] { parse_safetensors_header(bad, 34, "test"); }) != "no error";
  }
  EXPECT_GT(refusals, 4000);
  for (int trial = 0; trial < 100; ++trial) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    survived(bad);  // an Error or other values: nothing else comes out
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    EXPECT_FALSE(survived(noise));
    EXPECT_FALSE(survived(file("{" + noise, "")));
  }
}

TEST_F(SafetensorsFile, WhatCannotBeWrittenLeavesTheOldFile) {
  const std::string name = path("a.safetensors");
  save_safetensors(name, {.tensors = {{"x", tensor({1.f})}}, .metadata = {}});
  const std::string before = load_text(name);
  const auto save = [&](std::vector<std::pair<std::string, Tensor>> tensors) {
    return [&, tensors] { save_safetensors(name, {.tensors = tensors, .metadata = {}}); };
  };
  expect_error(save({{"x", Tensor()}}), "tensor \"x\" is undefined");
  expect_error(save({{"x", ones({1})}, {"x", ones({1})}}), "two tensors are called \"x\"");
  expect_error(save({{"__metadata__", ones({1})}}), "cannot be called");
  expect_error(save({{"\xFF", ones({1})}}), "not UTF-8");
  EXPECT_EQ(load_text(name), before);
  expect_error([&] { load_safetensors(path("none.safetensors")); }, "none.safetensors");
  expect_error([&] { load_safetensors(path("")); }, "cannot read");
  expect_error([&] { save_safetensors(path("no/folder.safetensors"), {}); }, "folder.safetensors");
}

}  // namespace
}  // namespace varve::io
