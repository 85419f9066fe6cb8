// Sounds, and folders of texts and sounds.
#include "bindings.h"

namespace varve::python {
namespace {

using data::SoundEncoder;

Sound to_sound(nb::handle samples, std::int64_t rate) {
  const Tensor values = to_tensor(samples).to(f32);
  if (values.rank() != 1) throw Error("sound: expected samples [n] of one channel, got " + values.type().str() + ".");
  return {rate, values.to_vector<float>()};
}
nb::tuple from_sound(const Sound& sound) { return nb::make_tuple(tensor(sound.samples), sound.rate); }

void bind_sounds(nb::module_& m) {
  m.def("_load_wav", [](const std::string& path) { return from_sound(unlocked([&] { return load_wav(path); })); });
  m.def("_decode_wav", [](const nb::bytes& bytes) {
    return from_sound(unlocked([&] { return decode_wav(bytes.data(), bytes.size(), "the bytes"); }));
  });
  m.def("_save_wav", [](const std::string& path, nb::handle samples, std::int64_t rate) {
    const Sound sound = to_sound(samples, rate);
    unlocked([&] { save_wav(path, sound); });
  });
  m.def("_resample", [](nb::handle samples, std::int64_t rate, std::int64_t to) {
    const Sound sound = to_sound(samples, rate);
    return tensor(unlocked([&] { return resample(sound, to); }).samples);
  });
  m.def("_log_mel",
        [](nb::handle samples, std::int64_t rate, std::int64_t window, std::int64_t step, std::int64_t mels) {
          const Sound sound = to_sound(samples, rate);
          return unlocked([&] { return log_mel(sound, {window, step, mels}); });
        });
  nb::class_<SoundEncoder>(
      m, "SoundEncoder",
      "How sounds become samples: one rate, one length, the logarithm of their energy in bands.\n\n>>> import "
      "numpy\n>>> "
      "from varve import data\n>>> encoder = data.SoundEncoder(rate=8000, frames=20, mels=16, window=256, "
      "step=128)\n>>> "
      "encoder.shape, encoder.encode(numpy.zeros(1000, 'float32'), 8000).shape\n((20, 16, 1), (20, 16, 1))")
      .def(
          "__init__",
          [](SoundEncoder* self, std::int64_t rate, std::int64_t frames, std::int64_t mels, std::int64_t window,
             std::int64_t step, bool picture, double mean,
             double deviation) { new (self) SoundEncoder{rate, frames, mels, window, step, picture, mean, deviation}; },
          "rate"_a = 16000, "frames"_a = 98, "mels"_a = 40, "window"_a = 400, "step"_a = 160, "picture"_a = true,
          "mean"_a = 0.0, "deviation"_a = 1.0)
      .def_ro("rate", &SoundEncoder::rate)
      .def_ro("frames", &SoundEncoder::frames)
      .def_ro("mels", &SoundEncoder::mels)
      .def_ro("window", &SoundEncoder::window)
      .def_ro("step", &SoundEncoder::step)
      .def_ro("picture", &SoundEncoder::picture)
      .def_ro("mean", &SoundEncoder::mean)
      .def_ro("deviation", &SoundEncoder::deviation)
      .def_prop_ro("shape",
                   [](const SoundEncoder& e) {
                     nb::list sizes;
                     for (const std::int64_t size : e.shape()) sizes.append(size);
                     return nb::tuple(sizes);
                   })
      .def(
          "encode",
          [](const SoundEncoder& e, nb::handle samples, std::int64_t rate) {
            const Sound sound = to_sound(samples, rate);
            return unlocked([&] { return e.encode(sound); });
          },
          "samples"_a, "rate"_a,
          "A sound's middle, or the sound between silence, as a sample.\n\n>>> import numpy\n>>> "
          "data.SoundEncoder(frames=50).encode(numpy.zeros(4000, 'float32'), 16000).shape\n(50, 40, 1)");
}

}  // namespace

void bind_data_files(nb::module_& m) {
  bind_sounds(m);
  m.def(
      "_text_folder",
      [](const std::string& path, std::int64_t words, std::int64_t length, double test_share,
         const data::Vocabulary* vocabulary, bool lengths) {
        data::TextFolderOptions options{words, length, test_share, nullptr};
        options.lengths = lengths;
        if (vocabulary) options.vocabulary = std::make_shared<data::Vocabulary>(*vocabulary);
        return unlocked([&] { return data::text_folder(path, options); });
      },
      "path"_a, "words"_a, "length"_a, "test_share"_a, "vocabulary"_a.none(), "lengths"_a);
  m.def(
      "_audio_folder",
      [](const std::string& path, const SoundEncoder* encoder, double test_share, const SoundEncoder* fitted) {
        data::AudioFolderOptions options{encoder ? *encoder : SoundEncoder{}, test_share, nullptr};
        if (fitted) options.fitted = std::make_shared<SoundEncoder>(*fitted);
        return unlocked([&] { return data::audio_folder(path, options); });
      },
      "path"_a, "encoder"_a.none(), "test_share"_a, "fitted"_a.none());
}

}  // namespace varve::python
