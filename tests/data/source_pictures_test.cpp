// IDX and CIFAR files.
#include <gtest/gtest.h>
#include <zlib.h>

#include "data/source_files.h"

namespace varve::data {
namespace {

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx_bytes(const std::vector<std::uint32_t>& sizes, const std::string& values) {
  std::string bytes = std::string("\0\0\x08", 3) + static_cast<char>(sizes.size());
  for (const std::uint32_t size : sizes) bytes += big_endian(size);
  return bytes + values;
}

std::string counting(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i);
  return bytes;
}

void write_gzip(const std::string& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

class IdxFiles : public SourceTest {
 protected:
  const std::string images_ = idx_bytes({2, 2, 3}, std::string("\0\x01\x02\x03\x04\x05\x33\x66\x99\xCC\xFE\xFF", 12));
  const std::string labels_ = idx_bytes({2}, std::string("\x03\x07", 2));
};

TEST_F(IdxFiles, ArePicturesOfNumbersFromZeroToOne) {
  const Dataset set = idx(write("images", images_), write("labels", labels_));
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.x(), (TensorType{f32, {2, 3, 1}}));
  EXPECT_EQ(set.at(1).first.to_vector<float>(),
            (std::vector<float>{51 / 255.f, 102 / 255.f, 153 / 255.f, 204 / 255.f, 254 / 255.f, 1}));
  EXPECT_EQ(set.at(0).second.item<std::int32_t>(), 3);
  EXPECT_EQ(set.at(1).second.item<std::int32_t>(), 7);
  EXPECT_EQ(set.classes(), 8);
}

TEST_F(IdxFiles, MayBePackedAndHaveChannels) {
  write_gzip(path("images.gz"), idx_bytes({1, 1, 2, 3}, counting(6)));
  write_gzip(path("labels.gz"), idx_bytes({1}, "\x02"));
  const Dataset set = idx(path("images.gz"), path("labels.gz"));
  EXPECT_EQ(set.x().shape, (Shape{1, 2, 3}));
  EXPECT_EQ(set.at(0).first.to_vector<float>()[5], 5 / 255.f);
}

TEST_F(IdxFiles, AreRefusedWhenCutAnywhere) {
  const std::string labels = write("labels", labels_);
  for (std::size_t size = 0; size < images_.size(); ++size) {
    const std::string message = message_of([&] { idx(write("images", images_.substr(0, size)), labels); });
    EXPECT_NE(message.find("is not an IDX file"), std::string::npos) << size << ": " << message;
  }
  expect_error([&] { idx(write("images", images_ + "x"), labels); }, "need 28 bytes, it has 29");
}

TEST_F(IdxFiles, ThatLieAreRefused) {
  const std::string images = write("images", images_), labels = write("labels", labels_);
  const auto reads = [&](const std::string& bytes) { return [=, this] { idx(write("bad", bytes), labels); }; };
  expect_error(reads(idx_bytes({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "")), "too short");
  expect_error(reads(idx_bytes({2, 0, 3}, "")), "axis 1 is 0");
  expect_error(reads(std::string("\0\0\x0D\x01", 4) + big_endian(1) + "abcd"), "got type 13");
  expect_error(reads(std::string("\0\0\x08\x09", 4) + counting(60)), "rank must be from 1 to 4");
  expect_error(reads(idx_bytes({2, 3}, counting(6))), "expected images");
  expect_error([&] { idx(images, write("l", idx_bytes({3}, counting(3)))); }, "a label for each of 2 images");
  expect_error([&] { idx(images, labels, {.name = "few", .classes = {"a", "b"}}); }, "a label is 7, but few has 2");
  expect_error([&] { idx(path("nowhere"), labels); }, "nowhere");
}

TEST_F(IdxFiles, OfAnyBytesDoNoHarm) {
  const std::string labels = write("labels", labels_);
  survives([&](const std::string& bytes) { read_all(idx(write("bad", bytes), labels)); }, images_);
}

TEST_F(IdxFiles, OfMnistAreFoundPackedOrNot) {
  std::filesystem::create_directories(path("mnist"));
  write_gzip(path("mnist/train-images-idx3-ubyte.gz"), images_);
  write_gzip(path("mnist/train-labels-idx1-ubyte.gz"), labels_);
  write("mnist/t10k-images-idx3-ubyte", images_);
  write("mnist/t10k-labels-idx1-ubyte", labels_);
  const Splits splits = mnist(kOffline);
  EXPECT_EQ(splits.train.size(), 2);
  EXPECT_EQ(splits.test.at(1).second.item<std::int32_t>(), 7);
  EXPECT_EQ(splits.train.classes(), 10);
  expect_error([] { fashion_mnist(kOffline); }, "fashion_mnist/train-images-idx3-ubyte.gz is missing");
}

class CifarFiles : public SourceTest {
 protected:
  // Planes of one value each: label, then red, green, blue.
  static std::string record(const std::string& labels, const std::string& colours) {
    std::string bytes = labels;
    for (const char colour : colours) bytes += std::string(1024, colour);
    return bytes;
  }
  void write_cifar10(const std::string& first) const {
    write("cifar-10-batches-bin/data_batch_1.bin", first);
    for (const char* name : {"data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
      write(std::string("cifar-10-batches-bin/") + name + ".bin", record("\x09", "abc"));
    }
  }
};

TEST_F(CifarFiles, BecomePicturesWithChannelsLast) {
  std::string planes = record("\x04", std::string("\0\x33\xFF", 3));
  planes[1 + 33] = '\x66';  // red, second row, second column
  write_cifar10(planes + record("\x01", "xyz"));
  const Splits splits = cifar10(kOffline);
  EXPECT_EQ(splits.train.size(), 6);
  EXPECT_EQ(splits.test.size(), 1);
  EXPECT_EQ(splits.train.x(), (TensorType{f32, {32, 32, 3}}));
  const std::vector<float> picture = splits.train.at(0).first.to_vector<float>();
  EXPECT_EQ(picture[0], 0);
  EXPECT_EQ(picture[1], 51 / 255.f);
  EXPECT_EQ(picture[2], 1);
  EXPECT_EQ(picture[33 * 3], 102 / 255.f);
  EXPECT_EQ(splits.train.at(0).second.item<std::int32_t>(), 4);
  EXPECT_EQ(splits.train.info().classes[4], "deer");
}

TEST_F(CifarFiles, OfAHundredClassesKeepTheFineLabel) {
  write("cifar-100-binary/train.bin", record("\x13\x63", "abc"));
  write("cifar-100-binary/test.bin", record(std::string("\x01\0", 2), "abc"));
  const Splits splits = cifar100(kOffline);
  EXPECT_EQ(splits.train.at(0).second.item<std::int32_t>(), 99);
  EXPECT_EQ(splits.test.at(0).second.item<std::int32_t>(), 0);
  ASSERT_EQ(splits.train.info().classes.size(), 100u);
  EXPECT_EQ(splits.train.info().classes[99], "worm");
  EXPECT_TRUE(std::is_sorted(splits.train.info().classes.begin(), splits.train.info().classes.end()));
}

TEST_F(CifarFiles, AreRefusedWhenCutOrMislabelled) {
  for (const std::size_t size : {0, 1, 3072}) {
    write_cifar10(record("\x01", "abc").substr(0, size));
    expect_error([] { cifar10(kOffline); }, "data_batch_1.bin\" is not a CIFAR file");
  }
  write_cifar10(record("\x01", "abc") + "x");
  expect_error([] { cifar10(kOffline); }, "1 of them left over");
  write_cifar10(record("\x0A", "abc"));
  expect_error([] { cifar10(kOffline); }, "a label is 10, but cifar10 has 10 classes");
  expect_error([] { cifar100(kOffline); }, "cifar-100-binary.tar.gz is missing, and downloading was not allowed");
}

}  // namespace
}  // namespace varve::data
