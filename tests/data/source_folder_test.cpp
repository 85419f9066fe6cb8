#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/source_files.h"

namespace varve::data {
namespace {

class PictureFolder : public SourceTest {
 protected:
  // A picture of one colour, or one whose every column has its own grey.
  void paint(const std::string& name, std::uint8_t grey, std::int64_t height = 4, std::int64_t width = 4) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    save_png(path(name), {.height = height,
                          .width = width,
                          .channels = 1,
                          .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(height * width), grey)});
  }
  static constexpr FolderOptions kSmall = {.height = 4, .width = 4, .channels = 1, .test_share = 0};
};

TEST_F(PictureFolder, HasAClassForEachSubfolder) {
  paint("set/dog/2.png", 20);
  paint("set/dog/1.PNG", 10);
  paint("set/cat/b.png", 51);
  write("set/cat/notes.txt", "not a picture");
  write("set/cat/.hidden.png", "not a picture");
  write("set/readme.md", "not a class");
  const Splits splits = image_folder(path("set"), {.height = 2, .width = 3, .channels = 3, .test_share = 0});
  EXPECT_EQ(splits.train.info().classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(splits.train.info().name, "set");
  EXPECT_EQ(splits.train.info().skipped, std::vector<std::string>{path("set/cat/notes.txt")});
  EXPECT_FALSE(splits.test.defined());
  ASSERT_EQ(splits.train.size(), 3);
  EXPECT_EQ(splits.train.x(), (TensorType{f32, {2, 3, 3}}));
  EXPECT_EQ(splits.train.at(0).first.to_vector<float>(), std::vector<float>(18, 51 / 255.f));
  EXPECT_EQ(splits.train.at(1).first.to_vector<float>()[0], 10 / 255.f);  // sorted by name
  EXPECT_EQ(splits.train.at(1).second.item<std::int32_t>(), 1);
}

TEST_F(PictureFolder, KeepsProportionsAndTakesTheMiddle) {
  std::filesystem::create_directories(path("set/a"));
  Picture wide = {.height = 2, .width = 6, .channels = 1, .pixels = {}};
  for (int row = 0; row < 2; ++row) {
    for (const int grey : {0, 0, 102, 204, 0, 0}) wide.pixels.push_back(static_cast<std::uint8_t>(grey));
  }
  save_png(path("set/a/wide.png"), wide);
  const Splits splits = image_folder(path("set"), {.height = 2, .width = 2, .channels = 1, .test_share = 0});
  EXPECT_EQ(splits.train.at(0).first.to_vector<float>(),
            (std::vector<float>{102 / 255.f, 204 / 255.f, 102 / 255.f, 204 / 255.f}));
  // The other way round: 1 × 4 is taken of a 6 × 4 picture for a target of 1 × 4.
  paint("tall/a/1.png", 7, 6, 4);
  EXPECT_EQ(image_folder(path("tall"), {.height = 1, .width = 4, .channels = 1, .test_share = 0})
                .train.at(0)
                .first.to_vector<float>(),
            std::vector<float>(4, 7 / 255.f));
}

TEST_F(PictureFolder, MayComeInParts) {
  paint("set/train/a/1.png", 1);
  paint("set/train/b/1.png", 2);
  paint("set/val/b/1.png", 3);
  Splits splits = image_folder(path("set"), kSmall);
  EXPECT_EQ(splits.train.size(), 2);
  ASSERT_EQ(splits.test.size(), 1);
  EXPECT_EQ(splits.test.at(0).second.item<std::int32_t>(), 1);  // class b, though the part has no a
  EXPECT_FALSE(splits.validation.defined());

  paint("set/test/a/1.png", 4);
  splits = image_folder(path("set"), kSmall);
  EXPECT_EQ(splits.test.at(0).first.to_vector<float>()[0], 4 / 255.f);
  EXPECT_EQ(splits.validation.at(0).first.to_vector<float>()[0], 3 / 255.f);

  paint("set/test/c/1.png", 4);
  expect_error([&] { image_folder(path("set"), kSmall); }, "the training part has no class \"c\"");
}

TEST_F(PictureFolder, HoldsOutAShare) {
  for (int i = 0; i < 10; ++i) paint("set/a/" + std::to_string(i) + ".png", static_cast<std::uint8_t>(i));
  const Splits splits = image_folder(path("set"), {.height = 4, .width = 4, .channels = 1, .test_share = 0.3});
  EXPECT_EQ(splits.train.size(), 7);
  EXPECT_EQ(splits.test.size(), 3);
}

TEST_F(PictureFolder, NamesAFileThatCannotBeDecoded) {
  paint("set/a/1.png", 1);
  write("set/a/2.jpg", noise_bytes(300, 5));
  const Dataset train = image_folder(path("set"), kSmall).train;
  EXPECT_NO_THROW(train.at(0));
  expect_error([&] { train.at(1); }, "2.jpg");
  std::filesystem::remove(path("set/a/1.png"));
  expect_error([&] { train.at(0); }, "1.png");
}

// Reading it would wait for ever.
TEST_F(PictureFolder, SkipsAPipeByName) {
  paint("set/a/1.png", 1);
  ASSERT_EQ(mkfifo(path("set/a/2.png").c_str(), 0600), 0);
  const Dataset set = image_folder(path("set"), kSmall).train;
  EXPECT_EQ(set.size(), 1);
  EXPECT_EQ(set.info().skipped, std::vector<std::string>{path("set/a/2.png")});
}

TEST_F(PictureFolder, NoClassIsLeftWithoutPictures) {
  paint("set/cat/1.png", 1);
  write("set/dog/1.tiff", "not read");
  expect_error([&] { image_folder(path("set"), kSmall); },
               "dog\": the class has no pictures that can be read. Skipped: \"");
  std::filesystem::remove_all(path("set/dog"));
  // A GIF of one pixel, as the smallest of web pages have them.
  write("set/dog/1.gif", std::string("GIF89a\1\0\1\0\x80\0\0\xFF\xFF\xFF\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;", 35));
  const Dataset set = image_folder(path("set"), kSmall).train;
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.at(1).first.to_vector<float>(), std::vector<float>(16, 1.f));
}

TEST_F(PictureFolder, ExplainsWhatItExpected) {
  expect_error([&] { image_folder(path("nowhere")); }, "nowhere\" is not a folder of pictures");
  std::filesystem::create_directories(path("empty"));
  expect_error([&] { image_folder(path("empty")); }, "has no folders");
  std::filesystem::create_directories(path("hollow/a"));
  expect_error([&] { image_folder(path("hollow")); }, "no pictures that can be read in its folders");
  expect_error([&] { image_folder(path("hollow"), {.height = 0}); }, "from 1 to 8192, got 0");
  expect_error([&] { image_folder(path("hollow"), {.channels = 2}); }, "channels must be 1 or 3");
  expect_error([&] { image_folder(path("hollow"), {.test_share = 1}); }, "test_share");
}

}  // namespace
}  // namespace varve::data
