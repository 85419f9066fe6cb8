#include "cli/predict_inputs.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "varve/io.h"
#include "varve/ops.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace {

namespace fs = std::filesystem;
using Take = std::function<void(const Samples&)>;

constexpr std::size_t kPictures = 64;  // at a time
constexpr const char* kStandardInput = "standard input";

bool is_file(const std::string& word) {
  std::error_code ignored;
  return fs::is_regular_file(word, ignored);
}

std::string all_of_stdin() { return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}; }

// ---- rows of tables

// A word that is no file is a row.
void read_table(const data::TableEncoder& table, const std::string& word, const Take& take) {
  std::string text, source = cat('"', word, '"'), name = word;
  if (word == "-") {
    text = all_of_stdin();
    source = name = kStandardInput;
  } else if (is_file(word)) {
    text = load_text(word);
  } else {
    if (table.inputs.size() > 1 && !word.starts_with('{') && word.find(table.separator) == std::string::npos) {
      std::vector<std::string> names;
      for (const data::TableColumn& column : table.inputs) names.push_back(column.name);
      throw Error(cat(source, ": there is no such file, and a row has ", names.size(),
                      " fields: ", joined(names, std::string(1, table.separator)), "."));
    }
    text = word;
    source = cat("the row ", source);
  }
  const bool json = word.ends_with(".jsonl") || text.starts_with('{');
  const data::TableEncoder::Rows rows = json ? table.encode_json(text, source) : table.encode(text, source);
  Samples samples{.names = {}, .x = rows.x};
  for (const std::int64_t line : rows.lines)
    samples.names.push_back(name == word && !is_file(word) ? word : cat(name, ":", line));
  take(samples);
}

// ---- pictures

std::vector<float> pixels_of(const train::TrainedModel& run, const Picture& from) {
  const Picture picture = resize_to_fill(from, run.input[0], run.input[1]);
  std::vector<float> values(picture.pixels.begin(), picture.pixels.end()), scratch(values.size());
  for (float& value : values) value /= 255;
  data::Image image{values, scratch, picture.height, picture.width, picture.channels};
  data::Random unused(0, 0, 0);
  for (const data::Transform& transform : train::normalization(run.config, {f32, run.input}))
    transform.apply(image, unused);
  return values;
}

// Files of a kind in a folder and in the folders in it, in the order of their names.
std::vector<std::string> files_in(const std::string& folder, bool (*accepts)(const std::string&), const char* kind) {
  std::vector<std::string> found;
  std::int64_t skipped = 0;
  std::string one;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (entry.is_directory() || entry.path().filename().string().starts_with(".")) continue;
    if (entry.is_regular_file() && accepts(path)) {
      found.push_back(path);
    } else {
      ++skipped;
      one = path;
    }
  }
  std::sort(found.begin(), found.end());
  if (skipped > 0)
    std::cerr << folder << ": " << skipped << (skipped == 1 ? " file is no " : " files are no ") << kind
              << (skipped == 1 ? "" : "s") << " that can be read, such as " << one << '\n';
  if (found.empty()) throw Error(cat(folder, ": there are no ", kind, "s in this folder."));
  return found;
}

class Pictures {
 public:
  Pictures(const train::TrainedModel& run, const Take& take) : run_(run), take_(take) {}

  void read(const std::string& word) {
    std::error_code ignored;
    if (word == "-") {
      const std::string bytes = all_of_stdin();
      add(kStandardInput, decode_picture(bytes.data(), bytes.size(), kStandardInput, channels()));
    } else if (fs::is_directory(word, ignored)) {
      for (const std::string& file : files_in(word, has_picture_name, "picture")) add(file, loaded(file));
    } else {
      add(word, loaded(word));
    }
  }
  void finish() {
    if (samples_.names.empty()) return;
    samples_.x = tensor(values_, {std::ssize(samples_.names), run_.input[0], run_.input[1], run_.input[2]});
    take_(samples_);
    samples_ = {};
    values_.clear();
  }

 private:
  Picture loaded(const std::string& file) const {
    return load_picture_to_fill(file, channels(), run_.input[0], run_.input[1]);
  }
  int channels() const { return static_cast<int>(run_.input[2]); }
  void add(const std::string& name, const Picture& picture) {
    const std::vector<float> pixels = pixels_of(run_, picture);
    values_.insert(values_.end(), pixels.begin(), pixels.end());
    samples_.names.push_back(name);
    if (samples_.names.size() == kPictures) finish();
  }

  const train::TrainedModel& run_;
  const Take& take_;
  Samples samples_;
  std::vector<float> values_;
};

// ---- sounds

void read_sound(const train::TrainedModel& run, const std::string& word, const Take& take) {
  const std::string bytes = word == "-" ? all_of_stdin() : "";
  const Sound sound = word == "-" ? decode_wav(bytes.data(), bytes.size(), kStandardInput) : load_wav(word);
  take({.names = {word == "-" ? kStandardInput : word}, .x = expand_dims(run.sound->encode(sound), 0)});
}

// A folder stands for the sounds in it.
void read_sounds(const train::TrainedModel& run, const std::string& word, const Take& take) {
  std::error_code ignored;
  if (!fs::is_directory(word, ignored)) return read_sound(run, word, take);
  for (const std::string& file : files_in(word, has_sound_name, "sound")) read_sound(run, file, take);
}

// ---- text

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> all;
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80 && !all.empty())
      all.back() += c;
    else
      all.emplace_back(1, c);
  return all;
}

// A vocabulary of single characters reads text by characters; any other by words.
std::vector<std::int32_t> encoded(const data::Vocabulary& words, const std::string& text, std::int64_t length) {
  const auto& known = words.words();
  const auto single = [](const std::string& word) { return width(word) <= 1; };
  const bool by_characters = known.size() > 2 && std::all_of(known.begin() + 2, known.end(), single);
  if (!by_characters) return words.encode(text, length);
  const std::vector<std::string> all = characters_of(text);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length), 0);
  const std::size_t count = std::min(all.size(), ids.size());
  for (std::size_t i = 0; i < count; ++i) ids[ids.size() - count + i] = words.id(all[all.size() - count + i]);
  return ids;
}

// A network that was trained with samples of their own lengths is given this one's, without padding.
std::vector<std::int32_t> without_padding(std::vector<std::int32_t> ids) {
  const auto first = std::find_if(ids.begin(), std::prev(ids.end()), [](std::int32_t id) { return id != 0; });
  return {first, ids.end()};
}

void read_one_text(const train::TrainedModel& run, const std::string& name, const std::string& text, const Take& take) {
  std::vector<std::int32_t> ids = encoded(*run.vocabulary, text, run.input[0]);
  const auto lengths = run.config.data_options.find("lengths");
  if (lengths != run.config.data_options.end() && lengths->second != 0) ids = without_padding(std::move(ids));
  const Tensor one = tensor(ids, {1, std::ssize(ids)});
  // A language model, whose answers are words, may carry the state of as many texts as it was trained with.
  const bool answers_words = run.classes.size() == run.vocabulary->words().size();
  take({.names = {name}, .x = answers_words ? tile(one, {run.config.batch, 1}) : one, .one = true});
}

// A file is one text; of the standard input each line is.
void read_text(const train::TrainedModel& run, const std::string& word, const Take& take) {
  if (!run.vocabulary) throw Error("the run keeps no vocabulary: its network cannot be asked with text.");
  if (word != "-") return read_one_text(run, word, is_file(word) ? load_text(word, 64 << 20) : word, take);
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty()) read_one_text(run, line, line, take);
}

// ---- arrays

void read_array(const train::TrainedModel& run, const std::string& file, const Take& take) {
  if (!file.ends_with(".npy"))
    throw Error(cat("the network takes samples of ", run.input, ", neither pictures, text nor rows of a table: give a ",
                    ".npy file."));
  Tensor x = load_npy(file);
  if (x.shape() == run.input) x = expand_dims(x, 0);
  Shape many = {x.rank() > 0 ? x.dim(0) : 0};
  for (const std::int64_t size : run.input) many.push_back(size);
  if (x.shape() != many || x.dim(0) == 0)
    throw Error(cat(file, ": expected shape ", run.input, ", or rows of it, got ", x.shape(), "."));
  Samples samples{.names = {file}, .x = x.to(run.dtype)};
  if (x.dim(0) > 1) samples.names.clear();
  for (std::int64_t i = 0; x.dim(0) > 1 && i < x.dim(0); ++i) samples.names.push_back(cat(file, ":", i));
  take(samples);
}

}  // namespace

std::vector<std::string> pictures_of(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const std::string& word : words)
    if (fs::is_directory(word, ignored))
      for (const std::string& file : files_in(word, has_picture_name, "picture")) files.push_back(file);
    else
      files.push_back(word);
  return files;
}

Tensor picture_sample(const train::TrainedModel& run, const std::string& file) {
  const Picture picture = load_picture_to_fill(file, static_cast<int>(run.input[2]), run.input[0], run.input[1]);
  return tensor(pixels_of(run, picture), {1, run.input[0], run.input[1], run.input[2]});
}

void read_samples(const train::TrainedModel& run, const std::vector<std::string>& words, const Take& take) {
  Pictures pictures(run, take);
  const bool takes_pictures = run.input.rank() == 3 && (run.input[2] == 1 || run.input[2] == 3);
  for (const std::string& word : words) {
    if (run.table)
      read_table(*run.table, word, take);
    else if (run.sound && !word.ends_with(".npy"))
      read_sounds(run, word, take);
    else if (run.dtype == i32 && run.input.rank() == 1)
      read_text(run, word, take);
    else if (takes_pictures && !word.ends_with(".npy"))
      pictures.read(word);
    else
      read_array(run, word, take);
  }
  pictures.finish();
}

}  // namespace varve::cli
