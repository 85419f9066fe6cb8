// WAV files: chunks with a name and a size; "fmt " says what the numbers of "data" are.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "base/files.h"
#include "base/text.h"
#include "varve/sound.h"

namespace varve {
namespace {

constexpr std::uint64_t kMostWavBytes = std::uint64_t{1} << 32;
constexpr std::int64_t kMostChannels = 64, kMostWavRate = 1'000'000;
constexpr std::uint32_t kUnknownSize = 0x7FFFF000;  // and more: programs that write to a pipe do not know the size

enum class Code : std::uint16_t { whole = 1, real = 3, extended = 0xFFFE };

struct Format {
  Code code{};
  std::int64_t channels = 0, rate = 0, bits = 0;
};

class WavReader {
 public:
  WavReader(std::span<const std::byte> file, std::string source) : file_(file), source_(std::move(source)) {}

  Sound read() {
    if (file_.size() < 12 || !is("RIFF", 0) || !is("WAVE", 8)) fail("it does not begin as one");
    Format format;
    for (std::size_t at = 12; at + 8 <= file_.size();) {
      const std::size_t size = number(at + 4, 4), begin = at + 8, left = file_.size() - begin;
      if (is("data", at)) {
        if (format.channels == 0) fail("its samples come before their format");
        if (size > left && size < kUnknownSize)
          fail(cat("it ends too early: ", size, " bytes of samples are promised, ", left, " are there"));
        return samples(format, file_.subspan(begin, std::min(size, left)));
      }
      if (size > left) fail(cat("a part of ", size, " bytes is promised where ", left, " are left"));
      if (is("fmt ", at)) format = read_format(begin, size);
      at = begin + size + size % 2;  // parts begin at even places
    }
    fail("it holds no samples");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(cat(source_, ": bad WAV file: ", what, ".")); }
  bool is(const char* name, std::size_t at) const { return std::memcmp(file_.data() + at, name, 4) == 0; }
  std::uint32_t number(std::size_t at, std::size_t bytes) const {
    std::uint32_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(file_[at + i]);
    return value;
  }

  Format read_format(std::size_t begin, std::size_t size) const {
    if (size < 16) fail(cat("its format has ", size, " bytes, 16 are expected"));
    Format format = {.code = Code(number(begin, 2)),
                     .channels = number(begin + 2, 2),
                     .rate = number(begin + 4, 4),
                     .bits = number(begin + 14, 2)};
    if (format.code == Code::extended && size >= 26) format.code = Code(number(begin + 24, 2));
    const bool whole =
        format.code == Code::whole && (format.bits == 8 || format.bits == 16 || format.bits == 24 || format.bits == 32);
    const bool real = format.code == Code::real && (format.bits == 32 || format.bits == 64);
    if (!whole && !real)
      fail(cat("its samples are of kind ", static_cast<int>(format.code), " with ", format.bits,
               " bits; whole numbers of 8, 16, 24 or 32 bits and floats of 32 or 64 can be read"));
    if (format.channels < 1 || format.channels > kMostChannels)
      fail(cat("it has ", format.channels, " channels; 1 to ", kMostChannels, " are expected"));
    if (format.rate < 1 || format.rate > kMostWavRate)
      fail(cat("it has ", format.rate, " samples a second; 1 to ", kMostWavRate, " are expected"));
    return format;
  }

  static float value(const Format& format, const std::byte* at) {
    if (format.code == Code::real) {
      if (format.bits == 32) {
        float number = 0;
        std::memcpy(&number, at, sizeof number);
        return number;
      }
      double number = 0;
      std::memcpy(&number, at, sizeof number);
      return static_cast<float>(number);
    }
    if (format.bits == 8) return static_cast<float>(std::to_integer<int>(*at) - 128) / 128;
    std::uint32_t bits = 0;
    const auto bytes = static_cast<std::size_t>(format.bits / 8);
    for (std::size_t i = bytes; i-- > 0;) bits = bits << 8 | std::to_integer<std::uint32_t>(at[i]);
    // The sign is the highest bit: there it is also of 32 bits.
    const auto number = static_cast<std::int32_t>(bits << (32 - format.bits));
    return static_cast<float>(static_cast<double>(number) / 0x1p31);
  }

  Sound samples(const Format& format, std::span<const std::byte> data) const {
    const auto bytes = static_cast<std::size_t>(format.bits / 8);
    const auto channels = static_cast<std::size_t>(format.channels);
    Sound sound = {.rate = format.rate, .samples = std::vector<float>(data.size() / (bytes * channels))};
    const std::byte* at = data.data();
    for (float& sample : sound.samples) {
      float sum = 0;
      for (std::size_t c = 0; c < channels; ++c, at += bytes) sum += value(format, at);
      sample = sum / static_cast<float>(channels);
      if (!std::isfinite(sample)) fail("a sample is no finite number");
    }
    return sound;
  }

  std::span<const std::byte> file_;
  std::string source_;
};

void put(std::vector<std::byte>& file, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

Sound decode_wav(const void* data, std::size_t bytes, const std::string& name) {
  return WavReader({static_cast<const std::byte*>(data), bytes}, cat('"', name, '"')).read();
}

Sound load_wav(const std::string& path) {
  const std::vector<std::byte> file = read_file(path, kMostWavBytes);
  return decode_wav(file.data(), file.size(), path);
}

bool has_sound_name(const std::string& path) {
  if (path.size() < 5) return false;
  std::string ending = path.substr(path.size() - 4);
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending == ".wav";
}

void save_wav(const std::string& path, const Sound& sound) {
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max() / 2 - 64;
  if (sound.rate < 1 || sound.rate > kMostWavRate)
    throw Error(cat("save_wav: expected a rate of 1 to ", kMostWavRate, " samples a second, got ", sound.rate, "."));
  if (sound.samples.size() > kMost)
    throw Error(cat("save_wav: ", sound.samples.size(), " samples are too many for a WAV file."));
  const auto rate = static_cast<std::uint32_t>(sound.rate);
  const auto bytes = static_cast<std::uint32_t>(sound.samples.size() * 2);
  std::vector<std::byte> file;
  file.reserve(44 + bytes);
  const auto word = [&](const char* name) {
    for (int i = 0; i < 4; ++i) file.push_back(static_cast<std::byte>(name[i]));
  };
  word("RIFF");
  put(file, 36 + bytes, 4);
  word("WAVE");
  word("fmt ");
  put(file, 16, 4);
  put(file, static_cast<std::uint32_t>(Code::whole), 2);
  put(file, 1, 2);  // channel
  put(file, rate, 4);
  put(file, 2 * rate, 4);  // bytes a second
  put(file, 2, 2);         // bytes of a sample of all channels
  put(file, 16, 2);        // bits
  word("data");
  put(file, bytes, 4);
  for (const float sample : sound.samples) {
    const double level = std::isfinite(sample) ? std::clamp<double>(sample, -1, 1) : 0;
    put(file, static_cast<std::uint32_t>(std::lround(level * 32767)), 2);
  }
  AtomicFile out(path);
  out.write(std::span<const std::byte>(file));
  out.commit();
}

}  // namespace varve
