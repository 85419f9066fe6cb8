// Sounds in folders of classes.
#include <cmath>
#include <cstring>
#include <tuple>

#include "base/text.h"
#include "data/class_folders.h"
#include "data/parts.h"
#include "data/pixels.h"

namespace varve::data {
namespace {

class AudioSource : public Source {
 public:
  AudioSource(std::shared_ptr<const SoundEncoder> encoder, const ClassFiles& found)
      : encoder_(std::move(encoder)), files_(found.files), labels_(found.labels) {}
  std::int64_t size() const override { return std::ssize(files_); }
  TensorType x() const override { return {f32, encoder_->shape()}; }
  TensorType y() const override { return {i32, {}}; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    const auto at = static_cast<std::size_t>(index);
    const Tensor sample = encoder_->encode(load_wav(files_[at]));
    std::memcpy(x, sample.data(), x_bytes());
    deliver_class(labels_[at], y);
  }

 private:
  std::size_t x_bytes() const { return static_cast<std::size_t>(encoder_->shape().numel()) * sizeof(float); }
  std::shared_ptr<const SoundEncoder> encoder_;
  std::vector<std::string> files_;
  std::vector<std::int32_t> labels_;
};

// Over some of the training sounds, from all of the files.
void fit_scale(SoundEncoder& encoder, const ClassFiles& files, const std::vector<std::int64_t>& train) {
  constexpr std::size_t kMost = 256;
  const std::size_t looked_at = std::min(kMost, train.size());
  double sum = 0, squares = 0, count = 0;
  for (std::size_t i = 0; i < looked_at; ++i) {
    const auto file = static_cast<std::size_t>(train[i * train.size() / looked_at]);
    for (const float value : encoder.encode(load_wav(files.files[file])).to_vector<float>()) {
      sum += value;
      squares += double{value} * value;
      ++count;
    }
  }
  encoder.mean = sum / count;
  const double variance = squares / count - encoder.mean * encoder.mean;
  encoder.deviation = variance > 1e-12 ? std::sqrt(variance) : 1;
}

void check(const SoundEncoder& encoder) {
  constexpr std::int64_t kMostFrames = 1 << 24, kMostNumbers = 1 << 28;
  const auto within = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      throw Error(cat("audio_folder: expected ", name, " of ", low, " to ", high, ", got ", value, "."));
  };
  within("a rate", encoder.rate, 1, 1'000'000);
  within("mels", encoder.mels, 0, 4096);
  within("frames", encoder.frames, 1, kMostFrames);
  within("a window", encoder.window, 2, 1 << 20);
  within("a step", encoder.step, 1, 1 << 20);
  if (encoder.mels > 0) within("frames × step", encoder.frames * encoder.step, 1, kMostNumbers);
  if (encoder.mels > 0) within("frames × mels", encoder.frames * encoder.mels, 1, kMostNumbers);
}

}  // namespace

Shape SoundEncoder::shape() const {
  if (mels == 0) return {frames};
  return picture ? Shape{frames, mels, 1} : Shape{frames, mels};
}

Tensor SoundEncoder::encode(const Sound& sound) const {
  check(*this);
  const Sound fitted = fit_length(resample(sound, rate), mels == 0 ? frames : (frames - 1) * step + window);
  std::vector<float> values =
      mels == 0 ? fitted.samples : log_mel(fitted, {.window = window, .step = step, .mels = mels}).to_vector<float>();
  for (float& value : values) value = static_cast<float>((value - mean) / deviation);
  return tensor(values, shape());
}

Splits audio_folder(const std::string& path, const AudioFolderOptions& options) {
  check_test_share("audio_folder", options.test_share);
  std::shared_ptr<const SoundEncoder> encoder = options.fitted;
  check(encoder ? *encoder : options.encoder);
  const ClassFolders found =
      list_class_folders(path, {.who = "audio_folder", .what = "sounds (.wav)", .accepts = has_sound_name});
  const double share = found.test.empty() ? options.test_share : 0;
  Parts parts = parts_of(std::ssize(found.train.files), share, found.name);
  if (!encoder) {
    SoundEncoder fitting = options.encoder;
    fitting.mean = 0;
    fitting.deviation = 1;
    fit_scale(fitting, found.train, parts.train);
    encoder = std::make_shared<const SoundEncoder>(fitting);
  }
  const auto part = [&](const ClassFiles& files) {
    if (files.empty()) return Dataset();
    const Info info = {.name = found.name, .classes = found.classes, .skipped = files.skipped, .sound = encoder};
    return Dataset(std::make_shared<AudioSource>(encoder, files), info);
  };
  Splits splits = {.train = part(found.train), .validation = part(found.validation), .test = part(found.test)};
  if (parts.test.empty()) return splits;
  splits.test = splits.train.subset(std::move(parts.test));
  splits.train = splits.train.subset(std::move(parts.train));
  return splits;
}

}  // namespace varve::data
