// The files of a run, cut short, altered or replaced by noise: errors, never a crash, and never another model.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fit_helpers.h"

namespace varve {
namespace {

using namespace train_tests;

// A run of a network file on the built-in digits, one epoch of a few steps.
std::string small_run(const Folder& folder) {
  const train::Config config = train::config_from_toml(R"(input = [28, 28, 1]
[[layer]]
flatten = {}
[[layer]]
dense = 10
[train]
data = {digits = {train = 64, test = 16}}
epochs = 1
batch = 32
)",
                                                       "small");
  return train::run(config, {.folder = folder / "run", .verbosity = train::Verbosity::quiet}).folder;
}

void put(const std::string& path, const std::string& bytes) { save_text(path, bytes); }

TEST(HostileRun, DamagedFilesAreErrors) {
  const Folder folder;
  const std::string run = small_run(folder);
  ASSERT_NO_THROW(train::load_run(run));
  std::mt19937 random(3);
  for (const char* name : {"config.toml", "model.json", "best.safetensors"}) {
    const std::string path = run + "/" + name, whole = load_text(path);
    int errors = 0, tries = 0;
    const auto expect_bearable = [&](const std::string& bytes) {
      put(path, bytes);
      ++tries;
      try {
        train::load_run(run);  // what still says something sensible may load
      } catch (const Error&) {
        ++errors;
      }
    };
    for (std::size_t i = 0; i < 24; ++i) expect_bearable(whole.substr(0, whole.size() * i / 24));
    EXPECT_GE(errors, std::strcmp(name, "config.toml") == 0 ? 1 : 24) << name;  // a shorter configuration may be one
    for (int i = 0; i < 40; ++i) {                                              // noise
      std::string noise(1 + random() % 300, '\0');
      for (char& c : noise) c = static_cast<char>(random());
      errors = 0;
      expect_bearable(noise);
      EXPECT_EQ(errors, 1) << name;
    }
    for (int i = 0; i < 100; ++i) {  // one byte changed: lies about sizes, names and numbers
      std::string lying = whole;
      lying[random() % std::min<std::size_t>(lying.size(), 400)] = static_cast<char>(random());
      expect_bearable(lying);
    }
    put(path, whole);
  }
  EXPECT_NO_THROW(train::load_run(run));
}

TEST(HostileRun, AbsurdSizesAreRefused) {
  const Folder folder;
  const std::string run = small_run(folder);
  const std::string card = run + "/model.json", whole = load_text(card);
  for (const char* input :
       {"[]", "[0]", "[-28, 28, 1]", "[9223372036854775807, 9223372036854775807]", "\"28\"", "[1e9]"}) {
    put(card, R"({"format": 1, "input": )" + std::string(input) + R"(, "dtype": "f32", "classes": [], "words": []})");
    EXPECT_THROW(train::load_run(run), Error) << input;
  }
  EXPECT_THROW(train::load_run(folder / "nowhere"), Error);
}

// What a table's run keeps of its columns, altered: an error, or columns that still fit the network.
TEST(HostileRun, DamagedColumnsAreErrors) {
  const Folder folder;
  std::string text = "a,wall,y\n";
  for (int i = 0; i < 40; ++i)
    text += std::to_string(i) + (i % 2 ? ",wood," : ",brick,") + std::to_string(3.5 * i) + "\n";
  save_text(folder / "t.csv", text);
  const train::Config config =
      train::config_from_toml("input = [3]\n[[layer]]\ndense = 1\n[train]\ndata = \"csv:" + (folder / "t.csv") +
                                  "\"\nloss = \"mse\"\nepochs = 1\n",
                              "table");
  const std::string run = train::run(config, {.folder = folder / "run", .verbosity = train::Verbosity::quiet}).folder;
  const std::string card = run + "/model.json", whole = load_text(card);
  const train::TrainedModel kept = train::load_run(run);
  ASSERT_TRUE(kept.table);
  EXPECT_EQ(kept.table->inputs[1].categories, (std::vector<std::string>{"brick", "wood"}));
  EXPECT_EQ(kept.table->encode("4,wood\n", "row").x.shape(), (Shape{1, 3}));
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    std::string lying = whole;
    lying[random() % lying.size()] = static_cast<char>(random());
    put(card, lying);
    try {
      const train::TrainedModel loaded = train::load_run(run);
      if (loaded.table) {
        EXPECT_EQ(loaded.table->width(), 3);
      }
    } catch (const Error&) {
    }
  }
  for (const auto& [from, to] :
       std::initializer_list<std::pair<std::string, std::string>>{{"\"target_place\": 2", "\"target_place\": 7"},
                                                                  {"\"brick\",", ""},
                                                                  {"\"separator\": \",\"", "\"separator\": \"\""}}) {
    std::string lying = whole;
    ASSERT_NE(lying.find(from), std::string::npos) << from << whole;
    put(card, lying.replace(lying.find(from), from.size(), to));
    EXPECT_THROW(train::load_run(run), Error) << to;
  }
}

// The file may change while a run is stopped; the run goes on with what it began with.
TEST(TableRun, GoesOnWithTheScalingItBeganWith) {
  const Folder folder;
  const auto write = [&](double factor) {
    std::string text = "a,y\n";
    for (int i = 0; i < 40; ++i) text += std::to_string(i * factor) + "," + std::to_string(3.5 * i) + "\n";
    save_text(folder / "t.csv", text);
  };
  write(1);
  train::Config config =
      train::config_from_toml("input = [1]\n[[layer]]\ndense = 1\n[train]\ndata = \"csv:" + (folder / "t.csv") +
                                  "\"\nloss = \"mse\"\nepochs = 1\n",
                              "table");
  const std::string run = train::run(config, {.folder = folder / "run", .verbosity = train::Verbosity::quiet}).folder;
  const double before = train::load_run(run).table->inputs[0].deviation;
  write(10);
  config.epochs = 2;
  train::run(config, {.folder = run, .resume = true, .verbosity = train::Verbosity::quiet});
  EXPECT_EQ(train::load_run(run).table->inputs[0].deviation, before);
}

}  // namespace
}  // namespace varve
