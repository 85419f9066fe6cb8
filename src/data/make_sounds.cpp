// Sounds: tones that rise, fall or stay, and words that espeak-ng says.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "base/text.h"
#include "data/make.h"

namespace varve::data {
namespace {

namespace fs = std::filesystem;

// True when the program ran and answered 0; what it prints goes nowhere.
bool runs(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {1, 2}) posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string class_folder(const std::string& folder, const std::string& name) {
  const std::string path = cat(folder, "/", name);
  fs::create_directories(path);
  return path;
}

}  // namespace

void make_sounds(const std::string& folder, const MakeOptions& options) {
  constexpr std::int64_t kSoundRate = 8000;
  constexpr std::array kTones = {"falling", "rising", "steady"};
  constexpr std::array kSlopes = {-500.0, 500.0, 0.0};  // hertz a second
  for (std::int64_t i = 0; i < options.samples; ++i) {
    Random random(static_cast<std::uint64_t>(options.seed), 2, static_cast<std::uint64_t>(i));
    const auto kind = static_cast<std::size_t>(i) % kTones.size();
    const double slope = kSlopes[kind] * random.uniform(0.8, 1.5), start = random.uniform(800, 1600);
    const double loud = random.uniform(0.2, 0.8);
    Sound sound = {.rate = kSoundRate, .samples = {}};
    const auto count = static_cast<std::int64_t>(random.uniform(0.6, 1.0) * kSoundRate);
    for (std::int64_t at = 0; at < count; ++at) {
      const double t = static_cast<double>(at) / kSoundRate;
      const double turns = start * t + slope * t * t / 2;
      sound.samples.push_back(
          static_cast<float>(loud * std::sin(2 * std::numbers::pi * turns) + 0.05 * random.normal()));
    }
    save_wav(cat(class_folder(folder, kTones[kind]), "/", i, ".wav"), sound);
  }
}

void make_speech(const std::string& folder, const MakeOptions& options) {
  constexpr std::array kWords = {"yes", "no", "up", "down", "left", "right", "stop", "go"};
  constexpr std::array kVoices = {"en-us", "en-gb", "en-gb-scotland", "en+f2", "en+f4", "en+m3", "en+m7", "en-us+f3"};
  if (!runs({"espeak-ng", "--version"}))
    throw Error(
        "make_files: speech is said by espeak-ng, which is not installed (Debian: espeak-ng). The kind \"sounds\" "
        "needs nothing.");
  for (std::int64_t i = 0; i < options.samples; ++i) {
    Random random(static_cast<std::uint64_t>(options.seed), 3, static_cast<std::uint64_t>(i));
    const char* word = kWords[static_cast<std::size_t>(i) % kWords.size()];
    const char* voice = kVoices[static_cast<std::size_t>(random.integer(kVoices.size()))];
    const std::string file = cat(class_folder(folder, word), "/", i, ".wav");
    const std::vector<std::string> command = {
        "espeak-ng", "-v", voice, "-s", cat(120 + random.integer(90)), "-p", cat(20 + random.integer(60)),
        "-w",        file, word};
    if (!runs(command)) throw Error(cat("make_files: espeak-ng failed to write \"", file, "\"."));
  }
}

// Reviews of things, put together of phrases for and against them.
void make_reviews(const std::string& folder, const MakeOptions& options) {
  constexpr std::array kThings = {"film", "book", "play", "song", "meal", "journey", "lamp", "chair"};
  constexpr std::array kFor = {"wonderful from the first minute", "I would choose it again", "a joy for everybody",
                               "better than I had hoped",         "well made and clever",    "worth every penny"};
  constexpr std::array kAgainst = {"dull from the first minute", "I want my money back", "a waste of an evening",
                                   "worse than I had feared",    "badly made and slow",  "nobody should bother"};
  constexpr std::array kBetween = {"My neighbours saw it too.", "It was raining that day.",
                                   "We talked about it at dinner.", "There is not much else to say."};
  for (std::int64_t i = 0; i < options.samples; ++i) {
    Random random(static_cast<std::uint64_t>(options.seed), 4, static_cast<std::uint64_t>(i));
    const bool good = i % 2 == 0;
    const auto one = [&](const auto& all) { return all[static_cast<std::size_t>(random.integer(std::ssize(all)))]; };
    std::string text = cat("About the ", one(kThings), ": ");
    for (int sentence = 0; sentence < 3; ++sentence) {
      text += cat(good ? one(kFor) : one(kAgainst), ". ");
      if (random.chance(0.5)) text += cat(one(kBetween), " ");
    }
    const std::string part = cat(folder, i % 10 >= 8 ? "/test" : "/train");
    save_text(cat(class_folder(part, good ? "good" : "bad"), "/", i, ".txt"), text + "\n");
  }
}

}  // namespace varve::data
