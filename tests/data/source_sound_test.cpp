// WAV files, other rates, spectra, and folders of sounds.
#include "varve/sound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "data/source_files.h"

namespace varve::data {
namespace {

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

struct Header {
  int code = 1, channels = 1, rate = 8000, bits = 16;
  std::string extra = {};
  std::uint64_t promised = 0;  // bytes of samples, if not as many as there are
};
std::string wav(const Header& h, const std::string& samples) {
  const int align = h.channels * h.bits / 8;
  const std::string format = little(h.code, 2) + little(h.channels, 2) + little(h.rate, 4) + little(h.rate * align, 4) +
                             little(align, 2) + little(h.bits, 2) + h.extra;
  return "RIFF" + little(36 + samples.size(), 4) + "WAVEfmt " + little(format.size(), 4) + format + "LIST" +
         little(3, 4) + std::string("abc\0", 4) + "data" + little(h.promised ? h.promised : samples.size(), 4) +
         samples;
}
Sound decoded(const std::string& bytes) { return decode_wav(bytes.data(), bytes.size(), "a.wav"); }

Sound tone(double hertz, std::int64_t rate, double seconds) {
  Sound sound = {.rate = rate, .samples = {}};
  for (std::int64_t i = 0; i < std::int64_t(seconds * double(rate)); ++i)
    sound.samples.push_back(float(0.5 * std::sin(2 * std::numbers::pi * hertz * double(i) / double(rate))));
  return sound;
}

TEST(Wav, OfEveryWidthIsRead) {
  EXPECT_EQ(decoded(wav({.bits = 8}, std::string("\x00\x80\xC0", 3))).samples, (std::vector<float>{-1, 0, 0.5f}));
  EXPECT_EQ(decoded(wav({}, little(0x8000, 2) + little(0x4000, 2))).samples, (std::vector<float>{-1, 0.5f}));
  EXPECT_EQ(decoded(wav({.bits = 24}, little(0xC00000, 3))).samples, (std::vector<float>{-0.5f}));
  EXPECT_EQ(decoded(wav({.bits = 32}, little(0x20000000, 4))).samples, (std::vector<float>{0.25f}));
  const float half = 0.5f;
  const double quarter = -0.25;
  std::string real(4, ' '), twice(8, ' ');
  std::memcpy(real.data(), &half, 4);
  std::memcpy(twice.data(), &quarter, 8);
  EXPECT_EQ(decoded(wav({.code = 3, .bits = 32}, real)).samples, (std::vector<float>{0.5f}));
  EXPECT_EQ(decoded(wav({.code = 3, .bits = 64}, twice)).samples, (std::vector<float>{-0.25f}));
  const std::string extended = little(22, 2) + little(16, 2) + little(4, 4) + little(1, 2) + std::string(14, '\0');
  EXPECT_EQ(decoded(wav({.code = 0xFFFE, .extra = extended}, little(0x4000, 2))).samples, (std::vector<float>{0.5f}));
  const Sound stereo = decoded(wav({.channels = 2, .rate = 44100}, little(0x4000, 2) + little(0, 2)));
  EXPECT_EQ(stereo.samples, (std::vector<float>{0.25f}));
  EXPECT_EQ(stereo.rate, 44100);
  EXPECT_EQ(decoded(wav({.promised = 0xFFFFFFFF}, little(0x4000, 2))).samples.size(), 1u);  // of a pipe
}

TEST(Wav, ThatLiesIsRefused) {
  const std::string good = wav({}, std::string(64, 'x'));
  expect_error([&] { decoded(good.substr(0, good.size() - 1)); },
               "\"a.wav\": bad WAV file: it ends too early: 64 bytes");
  expect_error([&] { decoded("RIFF"); }, "it does not begin as one");
  expect_error([&] { decoded(good.substr(0, 36)); }, "it holds no samples");
  expect_error([&] { decoded(wav({.code = 7}, "ab")); }, "kind 7 with 16 bits");
  expect_error([&] { decoded(wav({.bits = 12}, "ab")); }, "with 12 bits");
  expect_error([&] { decoded(wav({.channels = 0}, "ab")); }, "0 channels");
  expect_error([&] { decoded(wav({.rate = 0}, "ab")); }, "0 samples a second");
  expect_error([&] { decoded(wav({.code = 3, .bits = 32}, little(0x7FC00000, 4))); }, "no finite number");
  expect_error([&] { decoded("RIFF" + little(9, 4) + "WAVEdata" + little(2, 4) + "ab"); }, "before their format");
  expect_error([&] { decoded("RIFF" + little(9, 4) + "WAVEfmt " + little(0xFFFFFF00, 4) + "ab"); }, "are left");
  survives([](const std::string& bytes) { decoded(bytes); }, good);
}

class SoundFile : public SourceTest {};

TEST_F(SoundFile, IsSavedWith16Bits) {
  const Sound sound = {.rate = 22050, .samples = {0, 0.5f, -1, 2}};
  save_wav(path("s.wav"), sound);
  const Sound read = load_wav(path("s.wav"));
  EXPECT_EQ(read.rate, 22050);
  ASSERT_EQ(read.samples.size(), 4u);
  EXPECT_NEAR(read.samples[1], 0.5, 1e-4);
  EXPECT_NEAR(read.samples[3], 1, 1e-4);  // cut off
  expect_error([&] { save_wav(path("s.wav"), {.rate = 0, .samples = {}}); }, "save_wav: expected a rate");
  EXPECT_TRUE(has_sound_name("a/B.WAV"));
  EXPECT_FALSE(has_sound_name(".wav"));
}

TEST(Resampled, TonesStayAndWhatIsTooHighGoes) {
  const Sound low = resample(tone(440, 44100, 0.2), 16000), same = tone(440, 16000, 0.2);
  ASSERT_EQ(low.samples.size(), same.samples.size());
  for (std::size_t i = 200; i + 200 < low.samples.size(); ++i) ASSERT_NEAR(low.samples[i], same.samples[i], 2e-3) << i;
  const Sound gone = resample(tone(11000, 44100, 0.2), 16000);  // above half of 16000
  for (std::size_t i = 200; i + 200 < gone.samples.size(); ++i) ASSERT_NEAR(gone.samples[i], 0, 5e-3) << i;
  const Sound up = resample(tone(300, 8000, 0.1), 11025), there = tone(300, 11025, 0.1);
  for (std::size_t i = 100; i + 100 < there.samples.size(); ++i) ASSERT_NEAR(up.samples[i], there.samples[i], 2e-3);
  EXPECT_TRUE(resample({.rate = 8000, .samples = {}}, 16000).samples.empty());
  expect_error([] { resample({.rate = 8000, .samples = {1}}, 0); }, "resample: expected a rate of 1 to");
  EXPECT_EQ(fit_length({.rate = 1, .samples = {1, 2, 3}}, 1).samples, (std::vector<float>{2}));
  EXPECT_EQ(fit_length({.rate = 1, .samples = {1}}, 3).samples, (std::vector<float>{0, 1, 0}));
}

TEST(LogMel, IsLargestInTheBandOfATone) {
  const auto loudest = [](double hertz) {
    const Tensor mels = log_mel(tone(hertz, 16000, 0.2), {});
    EXPECT_EQ(mels.shape(), (Shape{18, 40}));
    const std::vector<float> values = mels.to_vector<float>();
    return std::max_element(values.begin(), values.begin() + 40) - values.begin();
  };
  // The bands' middles are at 700 (10^(m·2840/41/2595) - 1) Hz.
  EXPECT_EQ(loudest(1000), 13);
  EXPECT_EQ(loudest(4000), 30);
  EXPECT_EQ(log_mel({.rate = 16000, .samples = std::vector<float>(400)}, {}).to_vector<float>()[7],
            float(std::log(1e-6)));
  expect_error([] { log_mel({.rate = 16000, .samples = {1}}, {}); }, "1 samples are less than a window of 400");
  expect_error([] { log_mel(tone(1, 16000, 0.1), {.step = 0}); }, "log_mel: expected a step of 1 to");
}

class AudioFolder : public SourceTest {
 protected:
  void fill(const std::string& folder, int count) const {
    for (int i = 0; i < count; ++i) {
      write(folder + "/low/x", "");
      write(folder + "/high/x", "");
      save_wav(path(folder + "/low/" + std::to_string(i) + ".wav"), tone(300 + i, 8000, 0.1));
      save_wav(path(folder + "/high/" + std::to_string(i) + ".wav"), tone(2000 + i, 8000, 0.1));
    }
  }
};

TEST_F(AudioFolder, HasClassesAndAScaleOfItsTrainingPart) {
  fill("all", 10);
  const AudioFolderOptions options = {.encoder = {.rate = 8000, .frames = 9, .mels = 12, .window = 128, .step = 64}};
  const Splits splits = audio_folder(path("all"), options);
  EXPECT_EQ(splits.train.size(), 18);
  EXPECT_EQ(splits.test.size(), 2);
  EXPECT_EQ(splits.train.info().classes, (std::vector<std::string>{"high", "low"}));
  EXPECT_EQ(splits.train.x(), (TensorType{f32, {9, 12, 1}}));
  EXPECT_EQ(splits.train.info().skipped.size(), 2u);
  double sum = 0;
  const std::vector<float> all = whole(splits.train)->first.to_vector<float>();
  for (const float value : all) sum += value;
  EXPECT_NEAR(sum / double(all.size()), 0, 1e-4);

  // Other data go through what was fitted.
  const Splits again = load("audio:" + path("all"), {{"test_share", 0}}, {}, splits.train.info());
  EXPECT_EQ(again.train.info().sound, splits.train.info().sound);
  EXPECT_EQ(again.train.at(0).first.to_vector<float>(),
            splits.train.info().sound->encode(load_wav(path("all/high/0.wav"))).to_vector<float>());
  const Splits raw = load("audio:" + path("all"), {{"mels", 0}, {"frames", 500}, {"rate", 8000}});
  EXPECT_EQ(raw.train.x(), (TensorType{f32, {500}}));
  EXPECT_EQ(kind_of_path(path("all")), "audio");
}

TEST_F(AudioFolder, ThatIsNoneIsRefused) {
  expect_error([&] { audio_folder(path("none")); }, "is not a folder of sounds (.wav)");
  write("bad/a/b.wav", "RIFFxxxxWAVE");
  expect_error([&] { audio_folder(path("bad")); }, "b.wav\": bad WAV file: it holds no samples");
  expect_error([&] { audio_folder(path("bad"), {.encoder = {.frames = 0}}); }, "expected frames of 1 to");
  expect_error([&] { audio_folder(path("bad"), {.test_share = 1}); }, "test_share");
}

}  // namespace
}  // namespace varve::data
