// Sounds at another rate, and their spectrum in mels.
#include "varve/sound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>

#include "base/text.h"

namespace varve {
namespace {

constexpr std::int64_t kMostSoundRate = 1'000'000, kMostSoundSamples = std::int64_t{1} << 31;
constexpr double kPi = std::numbers::pi;

void check_rate(const char* who, std::int64_t rate) {
  if (rate < 1 || rate > kMostSoundRate)
    throw Error(cat(who, ": expected a rate of 1 to ", kMostSoundRate, " samples a second, got ", rate, "."));
}

// ---- another rate

// A low pass at `cutoff` (of half the old rate), seen from a place between samples: sinc in a Hann window.
std::vector<float> taps_at(double share, double cutoff, std::int64_t reach) {
  std::vector<float> taps;
  double sum = 0;
  for (std::int64_t i = -reach + 1; i <= reach; ++i) {
    const double t = static_cast<double>(i) - share, x = kPi * t * cutoff;
    const double sinc = std::abs(x) < 1e-9 ? 1 : std::sin(x) / x;
    const double w = std::cos(kPi * t / (2 * static_cast<double>(reach)));
    taps.push_back(static_cast<float>(std::abs(t) <= static_cast<double>(reach) ? sinc * w * w : 0));
    sum += taps.back();
  }
  for (float& tap : taps) tap = static_cast<float>(tap / sum);
  return taps;
}

// ---- spectrum

// The transform of 2^k numbers, in place (Cooley and Tukey).
class Fourier {
 public:
  explicit Fourier(std::size_t size) : size_(size), turns_(size / 2) {
    for (std::size_t i = 0; i < turns_.size(); ++i)
      turns_[i] = std::polar(1.0, -2 * kPi * static_cast<double>(i) / static_cast<double>(size));
  }
  void operator()(std::vector<std::complex<double>>& values) const {
    for (std::size_t i = 1, j = 0; i < size_; ++i) {  // bits of the places in reverse
      std::size_t bit = size_ >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(values[i], values[j]);
    }
    for (std::size_t half = 1; half < size_; half *= 2)
      for (std::size_t begin = 0; begin < size_; begin += 2 * half)
        for (std::size_t i = 0; i < half; ++i) {
          const std::complex<double> odd = values[begin + half + i] * turns_[i * (size_ / (2 * half))];
          values[begin + half + i] = values[begin + i] - odd;
          values[begin + i] += odd;
        }
  }

 private:
  std::size_t size_;
  std::vector<std::complex<double>> turns_;
};

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// Triangles over the lines of a spectrum, each from the middle of the one before to the middle of the next.
struct Band {
  std::size_t begin = 0;
  std::vector<double> weights;
};
std::vector<Band> bands(std::int64_t mels, std::int64_t rate, std::size_t size) {
  const double top = mel_of(static_cast<double>(rate) / 2),
               line = static_cast<double>(rate) / static_cast<double>(size);
  const auto edge = [&](std::int64_t i) {
    return hertz_of(top * static_cast<double>(i) / static_cast<double>(mels + 1));
  };
  std::vector<Band> all;
  for (std::int64_t m = 0; m < mels; ++m) {
    const double low = edge(m), middle = edge(m + 1), high = edge(m + 2);
    Band band = {.begin = static_cast<std::size_t>(std::ceil(low / line)), .weights = {}};
    for (std::size_t k = band.begin; k <= size / 2 && static_cast<double>(k) * line < high; ++k) {
      const double hertz = static_cast<double>(k) * line;
      band.weights.push_back(hertz <= middle ? (hertz - low) / (middle - low) : (high - hertz) / (high - middle));
    }
    all.push_back(std::move(band));
  }
  return all;
}

void check(const LogMelOptions& options) {
  constexpr std::int64_t kMostWindow = 1 << 20, kMostMels = 4096;
  if (options.window < 2 || options.window > kMostWindow)
    throw Error(cat("log_mel: expected a window of 2 to ", kMostWindow, " samples, got ", options.window, "."));
  if (options.step < 1 || options.step > kMostWindow)
    throw Error(cat("log_mel: expected a step of 1 to ", kMostWindow, " samples, got ", options.step, "."));
  if (options.mels < 1 || options.mels > kMostMels)
    throw Error(cat("log_mel: expected 1 to ", kMostMels, " mels, got ", options.mels, "."));
}

}  // namespace

Sound resample(const Sound& sound, std::int64_t rate) {
  check_rate("resample", sound.rate);
  check_rate("resample", rate);
  if (rate == sound.rate || sound.samples.empty()) return {.rate = rate, .samples = sound.samples};
  const std::int64_t common = std::gcd(rate, sound.rate), up = rate / common, down = sound.rate / common;
  const auto have = std::ssize(sound.samples);
  if (have / down > kMostSoundSamples / up)
    throw Error(cat("resample: ", have, " samples at ", rate, " a second would be too many."));
  const std::int64_t count = (have * up + down - 1) / down;
  constexpr std::int64_t kCrossings = 16;  // of zero, to either side
  const double cutoff = std::min(1.0, static_cast<double>(up) / static_cast<double>(down));
  const auto reach = static_cast<std::int64_t>(std::ceil(static_cast<double>(kCrossings) / cutoff));
  // Places repeat after `up` samples; where that is a long time, taps are made for each.
  constexpr std::int64_t kMostKept = 4096;
  std::vector<std::vector<float>> kept(static_cast<std::size_t>(up <= kMostKept ? up : 0));
  std::vector<float> made;
  Sound result = {.rate = rate, .samples = std::vector<float>(static_cast<std::size_t>(count))};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t before = i * down / up, phase = i * down % up;
    std::vector<float>& taps = kept.empty() ? made : kept[static_cast<std::size_t>(phase)];
    if (kept.empty() || taps.empty())
      taps = taps_at(static_cast<double>(phase) / static_cast<double>(up), cutoff, reach);
    const std::int64_t first = before - reach + 1;
    const std::int64_t begin = std::max<std::int64_t>(first, 0), end = std::min(before + reach + 1, have);
    float sum = 0;
    for (std::int64_t at = begin; at < end; ++at)
      sum += taps[static_cast<std::size_t>(at - first)] * sound.samples[static_cast<std::size_t>(at)];
    result.samples[static_cast<std::size_t>(i)] = sum;
  }
  return result;
}

Sound fit_length(const Sound& sound, std::int64_t samples) {
  if (samples < 0 || samples > kMostSoundSamples)
    throw Error(cat("fit_length: expected 0 to ", kMostSoundSamples, " samples, got ", samples, "."));
  const auto have = std::ssize(sound.samples), kept = std::min<std::int64_t>(have, samples);
  Sound result = {.rate = sound.rate, .samples = std::vector<float>(static_cast<std::size_t>(samples))};
  std::copy_n(sound.samples.begin() + (have - kept) / 2, kept, result.samples.begin() + (samples - kept) / 2);
  return result;
}

Tensor log_mel(const Sound& sound, const LogMelOptions& options) {
  constexpr double kSilence = 1e-6;  // energy that is added, so that there is a logarithm of silence
  check_rate("log_mel", sound.rate);
  check(options);
  const auto have = std::ssize(sound.samples);
  if (have < options.window)
    throw Error(cat("log_mel: ", have, " samples are less than a window of ", options.window, "."));
  const std::int64_t frames = 1 + (have - options.window) / options.step;
  const auto window = static_cast<std::size_t>(options.window);
  const std::size_t size = std::bit_ceil(window);
  const Fourier transform(size);
  const std::vector<Band> filters = bands(options.mels, sound.rate, size);
  std::vector<double> hann(window), power(size / 2 + 1);
  for (std::size_t i = 0; i < window; ++i)
    hann[i] = 0.5 - 0.5 * std::cos(2 * kPi * static_cast<double>(i) / static_cast<double>(window));
  std::vector<std::complex<double>> values(size);
  std::vector<float> result;
  result.reserve(static_cast<std::size_t>(frames * options.mels));
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    const float* from = sound.samples.data() + frame * options.step;
    std::fill(values.begin(), values.end(), 0.0);
    for (std::size_t i = 0; i < window; ++i) values[i] = from[i] * hann[i];
    transform(values);
    for (std::size_t k = 0; k < power.size(); ++k) power[k] = std::norm(values[k]);
    for (const Band& band : filters) {
      double energy = kSilence;
      for (std::size_t k = 0; k < band.weights.size(); ++k) energy += band.weights[k] * power[band.begin + k];
      result.push_back(static_cast<float>(std::log(energy)));
    }
  }
  return tensor(result, {frames, options.mels});
}

}  // namespace varve
