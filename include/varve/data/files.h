// Files and folders of one's own: texts, sounds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "varve/data.h"
#include "varve/sound.h"

namespace varve::data {

// How data::load reads a file or a folder: "folder" (pictures), "text", "audio", "csv", "npz" or "chars", by its name
// and the files in it; "" when nothing tells.
std::string kind_of_path(const std::string& path);

// ---- texts

struct TextFolderOptions {
  std::int64_t words = 10000;                              // of the vocabulary at most, with padding and unknown words
  std::int64_t length = 200;                               // of a sample: the last so many words, padded on the left
  double test_share = 0.1;                                 // when there are no train/ and test/ (or val/) folders
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;  // null: of the training part
  bool lengths = false;  // texts have their own, and padding is on the right; false: all have `length`, padded left
};
// path/class/*.txt: i32 [length]. Other files are listed in info().skipped.
Splits text_folder(const std::string& path, const TextFolderOptions& = {});

// ---- sounds

// How sounds become samples: one rate, one length, the logarithm of their energy in `mels` bands. It is fitted to the
// training data and belongs to what was trained with them.
struct SoundEncoder {
  std::int64_t rate = 16000;              // samples a second
  std::int64_t frames = 98;               // of a sample; without mels: its samples
  std::int64_t mels = 40;                 // bands; 0: samples as they are
  std::int64_t window = 400, step = 160;  // samples of a frame, and from frame to frame
  bool picture = true;                    // [frames, mels, 1], as layers for pictures take it; false: [frames, mels]
  double mean = 0, deviation = 1;         // subtracted, and divided by

  Shape shape() const;  // of a sample
  // The middle of the sound, or the sound between silence: f32 of that shape.
  Tensor encode(const Sound& sound) const;
};
struct AudioFolderOptions {
  SoundEncoder encoder = {};                             // mean and deviation are fitted, unless `fitted` is given
  double test_share = 0.1;                               // when there are no train/ and test/ (or val/) folders
  std::shared_ptr<const SoundEncoder> fitted = nullptr;  // of other data, in place of `encoder`
};
// path/class/*.wav. Other files are listed in info().skipped.
Splits audio_folder(const std::string& path, const AudioFolderOptions& = {});

}  // namespace varve::data
