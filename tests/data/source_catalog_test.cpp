#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "data/source_files.h"
#include "varve/io.h"

namespace varve::data {
namespace {

class Catalog : public SourceTest {};

TEST_F(Catalog, ListsEverySetWithItsHome) {
  std::set<std::string> names;
  for (const CatalogEntry& entry : catalog()) {
    names.insert(entry.name);
    EXPECT_FALSE(entry.doc.empty()) << entry.name;
    EXPECT_FALSE(entry.input.empty()) << entry.name;
    EXPECT_GT(entry.train, 0) << entry.name;
    EXPECT_GT(entry.test, 0) << entry.name;
    const bool built_in = entry.name.starts_with("digit");
    EXPECT_EQ(entry.present, built_in) << entry.name;  // the test's own data folder is empty
    EXPECT_EQ(entry.home.empty(), built_in) << entry.name;
    EXPECT_EQ(entry.download_bytes == 0, built_in) << entry.name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"digits", "digit_pairs", "mnist", "fashion_mnist", "cifar10", "cifar100",
                                          "imdb", "ptb"}));
}

TEST_F(Catalog, NoticesWhatIsHere) {
  for (const char* part : {"train", "valid", "test"}) write(std::string("ptb/ptb.") + part + ".txt", "a b c d e f");
  for (const CatalogEntry& entry : catalog()) {
    EXPECT_EQ(entry.present, entry.name == "ptb" || entry.name.starts_with("digit")) << entry.name;
  }
  EXPECT_EQ(load("ptb", {{"steps", 2}, {"streams", 1}}, kOffline).train.size(), 2);
}

TEST_F(Catalog, LoadsByNameWithOptions) {
  const Splits small = load("digits", {{"train", 30}, {"test", 10}, {"seed", 5}});
  EXPECT_EQ(small.train.size(), 30);
  EXPECT_EQ(small.test.size(), 10);
  EXPECT_EQ(small.train.at(7).first.to_vector<float>(), digits({.seed = 5}).train.at(7).first.to_vector<float>());

  const std::string table = write("t.csv", "y,a,b\n1,2,p\n3,4,q\n");
  EXPECT_EQ(load("csv:" + table, {{"test_share", 0}}).train.y().dtype, i32);  // the last column: text
  const Splits chosen =
      load("csv:" + write("u.csv", "y,a\np,1\nq,2\n") + "#y", {{"test_share", 0}, {"standardize", 0}});
  EXPECT_EQ(chosen.train.at(1).first.item<float>(), 2);

  EXPECT_EQ(load("chars:" + write("t.txt", std::string(100, 'a')), {{"steps", 3}, {"streams", 2}}).train.x().shape,
            (Shape{3}));
  save_npz(path("a.npz"), {{"x_train", zeros({2, 3})}, {"y_train", zeros({2}, i32)}});
  EXPECT_EQ(load("npz:" + path("a.npz")).train.size(), 2);
  std::filesystem::create_directories(path("set/a"));
  save_png(path("set/a/1.png"), {.height = 1, .width = 1, .channels = 1, .pixels = {9}});
  const Splits pictures =
      load("folder:" + path("set"), {{"height", 6}, {"width", 5}, {"channels", 1}, {"test_share", 0}});
  EXPECT_EQ(pictures.train.x().shape, (Shape{6, 5, 1}));
}

TEST_F(Catalog, SuggestsWhatWasMeant) {
  expect_error([] { load("mnst"); }, "unknown data set 'mnst'. Did you mean 'mnist'?");
  expect_error([] { load("floder:x"); }, "unknown kind of data 'floder'. Did you mean 'folder'?");
  expect_error([] { load("folder:"); }, "expected a path after the colon");
  expect_error([] { load("digits", {{"trains", 5}}); }, "'digits' has no option 'trains'. Did you mean 'train'?");
  expect_error([] { load("mnist", {{"words", 5}}); }, "'mnist' has no option 'words'. It has none.");
  expect_error([] { load("digits", {{"train", 5.5}}); }, "train must be a whole number, got 5.5");
  expect_error([] { load("digits", {{"train", NAN}}); }, "whole number");
  expect_error([] { load("digits", {{"train", 1e300}}); }, "whole number");
  expect_error([] { load("mnist", {}, kOffline); }, "mnist/train-images-idx3-ubyte.gz is missing");
}

}  // namespace
}  // namespace varve::data
