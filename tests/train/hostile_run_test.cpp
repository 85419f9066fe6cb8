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

}  // namespace
}  // namespace varve
