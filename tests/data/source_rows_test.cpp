// JSON lines, shards of many files, and made-up files.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/json_lines.h"
#include "data/shards.h"
#include "data/source_files.h"
#include "data/tar_index.h"
#include "varve/io.h"

namespace varve::data {
namespace {

class JsonFile : public SourceTest {
 protected:
  Splits read(const std::string& text, JsonlOptions options = {}) const {
    options.test_share = 0;
    return jsonl(write("t.jsonl", text), options);
  }
};

TEST_F(JsonFile, OfKeysIsATable) {
  const Dataset train = read(
                            "{\"area\": 50, \"wall\": \"wood\", \"price\": 1.5}\n\n{\"wall\": \"brick\", \"area\": 70, "
                            "\"price\": 2.5}\n",
                            {.standardize = false})
                            .train;
  EXPECT_EQ(train.x(), (TensorType{f32, {3}}));
  EXPECT_EQ(train.at(1).first.to_vector<float>(), (std::vector<float>{70, 1, 0}));
  EXPECT_EQ(train.at(1).second.to_vector<float>(), (std::vector<float>{2.5f}));
  const TableEncoder& table = *train.info().table;
  EXPECT_EQ(table.encode_json("{\"wall\": \"wood\", \"area\": 1}", "a row").x.to_vector<float>(),
            (std::vector<float>{1, 0, 1}));
  const Dataset filled =
      read("{\"a\": 1, \"label\": \"p\"}\n{\"label\": \"q\", \"a\": null}\n{\"a\": 3, \"label\": \"p\"}\n",
           {.standardize = false, .missing = Missing::mean})
          .train;
  EXPECT_EQ(filled.info().classes, (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(filled.at(1).first.to_vector<float>(), (std::vector<float>{2}));
}

TEST_F(JsonFile, OfTextHasAVocabulary) {
  const Dataset train = read(
                            "{\"text\": \"a good film\", \"label\": 1}\n{\"text\": \"bad\", \"label\": 0}\n{\"text\": "
                            "\"good\", \"label\": 1}\n"
                            "{\"text\": \"bad bad\", \"label\": 0}\n",
                            {.length = 3})
                            .train;
  EXPECT_EQ(train.x(), (TensorType{i32, {3}}));
  EXPECT_EQ(train.info().classes, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(train.at(0).first.to_vector<int>(), train.info().vocabulary->encode("a good film", 3));
  EXPECT_EQ(train.at(0).second.item<int>(), 1);
}

TEST_F(JsonFile, OfArraysHasTheirShape) {
  const Dataset train =
      read("{\"x\": [[1, 2, 3], [4, 5, 6.5]], \"y\": \"a\"}\n{\"x\": [[0, 0, 0], [0, 0, 1]], \"y\": \"b\"}\n").train;
  EXPECT_EQ(train.x(), (TensorType{f32, {2, 3}}));
  EXPECT_EQ(train.at(0).first.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6.5f}));
  EXPECT_EQ(train.at(1).second.item<int>(), 1);
}

TEST_F(JsonFile, ThatLiesIsRefusedByLine) {
  const auto fails = [&](const std::string& text, const std::string& part) {
    expect_error([&] { read_all(read(text).train); }, part);
  };
  fails("", "is empty");
  fails("{\"a\": 1, \"y\": 2.5}\n[1]\n", "t.jsonl\", line 2: expected a JSON object");
  fails("{\"a\": 1, \"y\": 2.5}\n{\"a\": 1", "line 2: is not JSON");
  fails("{\"a\": 1e999, \"y\": 2}\n", "line 1: is not JSON");
  fails("{\"a\": {\"b\": 1}, \"y\": 2}\n", "\"a\" is an object");
  fails("{\"y\": 2}\n", "nothing beside the target");
  fails("{\"x\": [1, 2], \"b\": 1, \"y\": 1.5}\n", "an array of numbers is the whole input");
  fails("{\"x\": [1, 2], \"y\": 1.5}\n{\"x\": [1], \"y\": 1.5}\n", "line 2: the array is [1], the first is [2]");
  fails("{\"x\": [1, \"2\"], \"y\": 1.5}\n", "an array holds string");
  fails("{\"x\": [[1], 2], \"y\": 1.5}\n", "line 1: ");
  fails("{\"x\": " + std::string(100'000, '[') + "1" + std::string(100'000, ']') + ", \"y\": 1}\n",
        "nested more than 8");
  fails("{\"x\": " + std::string(100'000, '[') + "\n", "nested more than 8");
  fails(std::string("{\"a\": \"\0\", \"y\": 1}", 19), "is not JSON");
  survives([&](const std::string& bytes) { read_all(read(bytes).train); },
           "{\"a\": [1, 2], \"y\": 1.5}\n{\"a\": [3, 4], \"y\": 2}\n");
}

class Shards : public SourceTest {
 protected:
  void write_tables(int files, int rows) const {
    for (int f = 0; f < files; ++f) {
      std::string text = "a,b,y\n";
      for (int r = 0; r < rows; ++r)
        text += std::to_string(100 * f + r) + "," + (r % 2 ? "odd" : "even") + "," + std::to_string(f) + ".5\n";
      write("s/part-" + std::to_string(f) + ".csv", text);
    }
  }
};

TEST_F(Shards, OfTablesAreOneSet) {
  write_tables(4, 10);
  const Splits splits = load("shards:" + path("s/part-?.csv"),
                             {{"standardize", 0}, {"scale_target", 0}, {"test_share", 0.25}, {"buffer", 20}});
  EXPECT_EQ(splits.train.size(), 30);
  EXPECT_EQ(splits.test.size(), 10);
  EXPECT_EQ(splits.train.x(), (TensorType{f32, {3}}));
  EXPECT_EQ(splits.train.at(13).first.to_vector<float>(), (std::vector<float>{103, 0, 1}));
  EXPECT_EQ(splits.test.at(0).second.to_vector<float>(), (std::vector<float>{3.5f}));
  EXPECT_EQ(splits.train.info().table->inputs[1].categories, (std::vector<std::string>{"even", "odd"}));
}

TEST_F(Shards, AreReadNearTogetherInAnOrderOfEachEpoch) {
  const std::vector<std::int64_t> starts = {0, 10, 25, 40, 50, 70};
  const std::vector<std::int64_t> order = shard_order(starts, 20, 1, 0);
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 70u);
  EXPECT_EQ(order, shard_order(starts, 20, 1, 0));
  EXPECT_NE(order, shard_order(starts, 20, 1, 1));
  const auto file = [&](std::int64_t index) {
    return std::upper_bound(starts.begin(), starts.end(), index) - starts.begin();
  };
  // From its first to its last sample no more files are open than twenty samples need.
  std::set<std::ptrdiff_t> done, open;
  std::map<std::ptrdiff_t, int> left;
  for (const std::int64_t index : order) ++left[file(index)];
  std::size_t most = 0;
  for (const std::int64_t index : order) {
    open.insert(file(index));
    most = std::max(most, open.size());
    if (--left[file(index)] == 0) open.erase(file(index));
  }
  EXPECT_LE(most, 3u);
  EXPECT_EQ(shard_order({0, 3}, 1, 1, 0).size(), 3u);
}

TEST_F(Shards, GoOnInMidEpoch) {
  write_tables(6, 7);
  const Dataset train = shards(path("s/*.csv"), {.rows = {.test_share = 0, .standardize = false}, .buffer = 10}).train;
  const auto read = [&](std::int64_t skip, int workers) {
    std::vector<float> seen;
    for (auto& [x, y] : batches(train, {.batch = 5, .seed = 3, .epoch = 2, .skip = skip, .workers = workers}))
      for (const float value : x.to_vector<float>()) seen.push_back(value);
    return seen;
  };
  const std::vector<float> all = read(0, 0);
  EXPECT_EQ(all, read(0, 3));
  const std::vector<float> rest = read(4, 2);
  EXPECT_EQ(std::vector<float>(all.end() - std::ssize(rest), all.end()), rest);
  EXPECT_EQ(train.subset({1, 40, 41}).order(0, 0).size(), 3u);
  const auto [held, kept] = train.split(0.5);
  EXPECT_EQ(held.order(1, 1).size() + kept.order(1, 1).size(), 42u);
}

TEST_F(Shards, OfJsonAndArraysAreRead) {
  for (int f = 0; f < 3; ++f) {
    const std::string number = std::to_string(f);
    write("j/" + number + ".jsonl", "{\"text\": \"word" + number + " and more\", \"label\": \"l" + number + "\"}\n");
    save_npz(path("j/" + number + ".npz"), {{"x", full({2, 3}, f)}, {"y", tensor(std::vector<std::int32_t>{f, f})}});
  }
  const Dataset text = shards(path("j/*.jsonl"), {.rows = {.length = 4}}).train;
  EXPECT_EQ(text.size(), 3);
  EXPECT_EQ(text.info().classes.size(), 3u);
  EXPECT_EQ(text.at(2).first.to_vector<int>(), text.info().vocabulary->encode("word2 and more", 4));
  const Dataset arrays = shards(path("j/*.npz")).train;
  EXPECT_EQ(arrays.size(), 6);
  EXPECT_EQ(arrays.at(5).first.to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(kind_of_path("a/*.npz"), "shards");
}

std::string octal(std::uint64_t value, int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (std::size_t i = text.size(); i-- > 0; value /= 8) text[i] = static_cast<char>('0' + value % 8);
  return text;
}
std::string tar_entry(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, octal(content.size(), 11));
  header.replace(148, 8, "        ");
  header[156] = '0';
  header.replace(257, 5, "ustar");
  std::uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, octal(sum, 6) + '\0');
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

TEST_F(Shards, OfArchivesHavePicturesAndClasses) {
  const auto picture = [](std::uint8_t level) {
    const std::vector<std::uint8_t> png =
        encode_png({.height = 4, .width = 4, .channels = 1, .pixels = std::vector<std::uint8_t>(16, level)});
    return std::string(png.begin(), png.end());
  };
  const std::string end(1024, '\0');
  const std::string first = tar_entry("a.png", picture(0)) + tar_entry("a.cls", "cat\n") +
                            tar_entry("b.png", picture(255)) + tar_entry("b.cls", "dog") + tar_entry("b.json", "{}") +
                            end;
  write("t/0.tar", first);
  write("t/1.tar", tar_entry("c.png", picture(51)) + tar_entry("c.cls", "cat") + end);
  const Dataset train = load("shards:" + path("t/*.tar"), {{"height", 2}, {"width", 2}, {"channels", 1}}).train;
  EXPECT_EQ(train.size(), 3);
  EXPECT_EQ(train.info().classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(train.at(2).first.to_vector<float>(), (std::vector<float>(4, 0.2f)));
  EXPECT_EQ(train.at(1).second.item<int>(), 1);
  survives(
      [&](const std::string& bytes) {
        write("bad/0.tar", bytes);
        read_all(shards(path("bad/*.tar"), {.height = 2, .width = 2, .channels = 1}).train);
      },
      first);
  write("bad/0.tar", first.substr(0, 700));
  expect_error([&] { tar_index(path("bad/0.tar")); }, "it ends too early");
  write("bad/0.tar", tar_entry("a.png", picture(0)) + end);
  expect_error([&] { shards(path("bad/*.tar")); }, "\"a\" has no class (.cls)");
}

TEST_F(Shards, ThatAreNoneAreRefused) {
  expect_error([&] { shards(path("none/*.csv")); }, "no file is named");
  write("m/a.csv", "a,y\n1,1.5\n");
  write("m/b.npz", "");
  expect_error([&] { shards(path("m/*")); }, "are of different kinds");
  write("n/a.bin", "");
  expect_error([&] { shards(path("n/*")); }, "expected files that end in .csv");
  write("m/b.csv", "b,y\n1,1.5\n");
  expect_error([&] { shards(path("m/*.csv")); }, "b.csv\" lacks the column \"a\"");
  expect_error([&] { shards(path("m/a.csv"), {.buffer = 0}); }, "a buffer of 1 sample or more");
}

class MadeUp : public SourceTest {};

TEST_F(MadeUp, FilesCanBeRead) {
  make_files("shapes", path("shapes"), {.samples = 10});
  const Splits masks = load("voc:" + path("shapes"), {{"height", 64}, {"width", 64}});
  EXPECT_EQ(masks.train.size(), 8);
  EXPECT_EQ(masks.test.size(), 2);
  EXPECT_EQ(masks.train.info().classes, (std::vector<std::string>{"background", "disc", "square", "triangle"}));
  read_all(masks.train);
  const Splits boxes = load("voc:" + path("shapes"), {{"height", 64}, {"width", 64}, {"task", 2}});
  EXPECT_EQ(boxes.train.y(), (TensorType{f32, {16, 5}}));
  read_all(boxes.train);
  make_files("photos", path("photos"), {.samples = 20});
  const Splits photos = load("folder:" + path("photos"));
  EXPECT_EQ(photos.train.info().classes.size(), 4u);
  EXPECT_EQ(photos.test.size(), 4);
  make_files("sounds", path("sounds"), {.samples = 6});
  EXPECT_EQ(audio_folder(path("sounds"), {.test_share = 0}).train.size(), 6);
  make_files("reviews", path("reviews"), {.samples = 20});
  EXPECT_EQ(text_folder(path("reviews")).test.size(), 4);
  expect_error([&] { make_files("shapes", path("reviews"), {}); }, "is no empty folder");
  expect_error([&] { make_files("shape", path("x"), {}); }, "unknown kind 'shape'. Did you mean 'shapes'?");
  expect_error([&] { make_files("shapes", path("x"), {.samples = 1}); }, "expected 4 to");
}

}  // namespace
}  // namespace varve::data
