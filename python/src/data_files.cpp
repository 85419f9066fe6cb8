// Sounds, and folders of texts and sounds.
#include <algorithm>

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

data::Missing missing_by_word(const std::string& word) {
  const std::vector<std::string> words = data::option_words("csv:", "missing");
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end())
    throw Error("missing: expected error, mean, median, frequent or category, got '" + word + "'." +
                did_you_mean(word, words));
  return static_cast<data::Missing>(found - words.begin());
}

data::JsonlOptions row_options(const std::string& target, double test_share, bool standardize, bool classes,
                               bool scale_target, const std::string& missing, std::int64_t words, std::int64_t length,
                               const data::TableEncoder* encoder, const data::Vocabulary* vocabulary) {
  data::JsonlOptions options{target, test_share, standardize, classes, scale_target, missing_by_word(missing),
                             words,  length,     nullptr,     nullptr};
  if (encoder) options.encoder = std::make_shared<data::TableEncoder>(*encoder);
  if (vocabulary) options.vocabulary = std::make_shared<data::Vocabulary>(*vocabulary);
  return options;
}

void bind_rows(nb::module_& m) {
  m.def(
      "_jsonl",
      [](const std::string& path, const std::string& target, double test_share, bool standardize, bool classes,
         bool scale_target, const std::string& missing, std::int64_t words, std::int64_t length,
         const data::TableEncoder* encoder, const data::Vocabulary* vocabulary) {
        const data::JsonlOptions options = row_options(target, test_share, standardize, classes, scale_target, missing,
                                                       words, length, encoder, vocabulary);
        return unlocked([&] { return data::jsonl(path, options); });
      },
      "path"_a, "target"_a, "test_share"_a, "standardize"_a, "classes"_a, "scale_target"_a, "missing"_a, "words"_a,
      "length"_a, "encoder"_a.none(), "vocabulary"_a.none());
  m.def(
      "_shards",
      [](const std::string& pattern, std::int64_t buffer, std::int64_t height, std::int64_t width, int channels,
         std::vector<std::string> names, const std::string& target, double test_share, bool standardize, bool classes,
         bool scale_target, const std::string& missing, std::int64_t words, std::int64_t length,
         const data::TableEncoder* encoder, const data::Vocabulary* vocabulary) {
        const data::ShardOptions options{row_options(target, test_share, standardize, classes, scale_target, missing,
                                                     words, length, encoder, vocabulary),
                                         buffer,
                                         height,
                                         width,
                                         channels,
                                         std::move(names)};
        return unlocked([&] { return data::shards(pattern, options); });
      },
      "pattern"_a, "buffer"_a, "height"_a, "width"_a, "channels"_a, "names"_a, "target"_a, "test_share"_a,
      "standardize"_a, "classes"_a, "scale_target"_a, "missing"_a, "words"_a, "length"_a, "encoder"_a.none(),
      "vocabulary"_a.none());
}

Picture to_bytes(nb::handle array) {
  const Tensor x = to_tensor(array);
  if (x.dtype() != u8 || x.rank() != 3)
    throw Error("picture: expected an array [height, width, channels] of bytes, got " + x.type().str() + ".");
  return {x.dim(0), x.dim(1), x.dim(2), x.to_vector<std::uint8_t>()};
}

void bind_voc(nb::module_& m) {
  m.def("_voc", [](const std::string& path, std::int64_t height, std::int64_t width, int channels,
                   const std::string& task, std::int64_t boxes, bool difficult, std::int32_t border, double test_share,
                   std::vector<std::string> classes) {
    const std::vector<std::string> tasks = data::option_words("voc:", "task");
    const auto found = std::find(tasks.begin(), tasks.end(), task);
    if (found == tasks.end())
      throw Error("voc: expected the task found, segmentation or detection, got '" + task + "'.");
    const data::VocOptions options{
        height, width,      channels,          static_cast<data::VocTask>(found - tasks.begin()), boxes, difficult,
        border, test_share, std::move(classes)};
    return unlocked([&] { return data::voc(path, options); });
  });
  m.def("_save_jpeg", [](const std::string& path, nb::handle picture, int quality) {
    const Picture pixels = to_bytes(picture);
    unlocked([&] { save_jpeg(path, pixels, quality); });
  });
  m.def("_load_mask", [](const std::string& path) {
    const Picture mask = unlocked([&] { return load_mask(path); });
    return tensor(mask.pixels, {mask.height, mask.width, mask.channels});
  });
  m.def("_save_mask", [](const std::string& path, nb::handle mask) {
    const Picture pixels = to_bytes(mask);
    unlocked([&] { save_mask(path, pixels); });
  });
  m.def("_make_files", [](const std::string& kind, const std::string& folder, std::int64_t samples, std::int64_t seed) {
    unlocked([&] { data::make_files(kind, folder, {samples, seed}); });
  });
  m.def("make_kinds", &data::make_kinds,
        "What `make_files` makes.\n\n>>> from varve import data\n>>> 'shapes' in data.make_kinds()\nTrue");
}

}  // namespace

void bind_data_files(nb::module_& m) {
  bind_sounds(m);
  bind_rows(m);
  bind_voc(m);
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
