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

// ---- pictures with boxes or masks

enum class VocTask : std::uint8_t { found, segmentation, detection };  // found: masks where there are some
struct VocOptions {
  std::int64_t height = 224, width = 224;
  int channels = 3;
  VocTask task = VocTask::found;
  std::int64_t boxes = 16;                // rows of a detection's target
  bool difficult = false;                 // boxes that are marked so, too
  std::int32_t border = 0;                // what the border between things, 255 in a mask, is a pixel of
  double test_share = 0.1;                // when there are no lists of pictures
  std::vector<std::string> classes = {};  // of other data; empty: those of the folder
};
// PASCAL VOC's layout: JPEGImages/, with SegmentationClass/*.png for targets i32 [height, width], class 0 being the
// background, or Annotations/*.xml for targets f32 [boxes, 5], rows of Boxes. ImageSets/Segmentation or ImageSets/Main
// list the pictures of train.txt, val.txt and test.txt. Classes are VOC's twenty, or the lines of classes.txt. Pictures
// are cut about the middle and resized, boxes and masks with them.
Splits voc(const std::string& path, const VocOptions& = {});

// ---- JSON lines

struct JsonlOptions {
  std::string target = "";  // a key; "": label, target, class or y, or the last key of the first line
  double test_share = 0.1;
  bool standardize = true, classes = true, scale_target = true;  // as of tables
  Missing missing = Missing::error;                              // of keys that a line lacks, and of null
  std::int64_t words = 10000, length = 200;                      // as of folders of texts
  std::shared_ptr<const TableEncoder> encoder = nullptr;         // of other data, in place of one fitted to this file
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;        // likewise
};
// A JSON object on each line. One text beside the target: i32 [length], its words. One array of numbers, nested or not:
// f32 of its shape. Otherwise a table, whose columns are the keys: encoded as rows of CSV are.
Splits jsonl(const std::string& path, const JsonlOptions& = {});

// ---- more than fits into memory

struct ShardOptions {
  JsonlOptions rows = {};                  // of .jsonl and, but for words, of .csv; test_share holds out the last files
  std::int64_t buffer = 10000;             // samples that an epoch's order mixes
  std::int64_t height = 224, width = 224;  // of pictures in .tar
  int channels = 3;
  std::vector<std::string> names = {};  // of the classes of .tar, of other data
};
// Files of one kind that a pattern names, with * and ? in the file's name: .csv, .jsonl, .npz (x and y, or x_train and
// y_train), .tar (name.jpg beside name.cls, which holds the class). All are gone through once, to count samples and fit
// what is fitted; then a file is in memory only while its samples are wanted. Each epoch takes the files in an order of
// its own and mixes their samples within the buffer, so that few are open at a time; a run goes on in mid-epoch.
Splits shards(const std::string& pattern, const ShardOptions& = {});

// ---- made-up files, to try things with

struct MakeOptions {
  std::int64_t samples = 100;
  std::int64_t seed = 1;
};
// "shapes" (PASCAL VOC's layout), "photos" (ImageNet's), "sounds", "speech" (said by espeak-ng, where it is installed)
// or "reviews" (texts), into a folder that is new or empty.
void make_files(const std::string& kind, const std::string& folder, const MakeOptions& = {});
std::vector<std::string> make_kinds();

}  // namespace varve::data
