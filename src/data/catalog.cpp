#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <new>

#include "base/text.h"
#include "data/fetch.h"
#include "data/npz.h"
#include "varve/memory.h"

namespace varve::data {
namespace {

using Options = std::map<std::string, double>;

// What load() was told, read field by field.
class Reader {
 public:
  Reader(const std::string& name, const Options& options) : name_(name), options_(options) {}

  template <class Number>
  void read(const std::string& option, Number& field) const {
    const auto found = options_.find(option);
    if (found == options_.end()) return;
    if (std::is_integral_v<Number> &&
        (found->second != std::floor(found->second) || std::abs(found->second) > 0x1p31)) {
      throw Error(cat(name_, ": ", option, " must be a whole number, got ", found->second, "."));
    }
    field = static_cast<Number>(found->second);
  }
  // One of the words that stand for 0, 1, 2 ….
  template <class Choice>
  void read_word(const std::string& option, Choice& field) const {
    std::int64_t number = static_cast<std::int64_t>(field);
    read(option, number);
    const std::vector<std::string> words = option_words(name_, option);
    if (number < 0 || number >= std::ssize(words))
      throw Error(cat(name_, ": ", option, " must be one of ", quoted_list(words), ", got ", number, "."));
    field = static_cast<Choice>(number);
  }
  void read(const std::string& option, bool& field) const {
    const auto found = options_.find(option);
    if (found != options_.end()) field = found->second != 0;
  }

 private:
  const std::string& name_;
  const Options& options_;
};

// Beside the options: how files are fetched, and what was fitted to other data.
struct Given {
  const FetchOptions& fetch;
  const Info& like;
};

// A data set by name; `rest` is what follows the colon.
struct Entry {
  CatalogEntry entry;
  std::function<Splits(const std::string& rest, const Reader&, const Given&)> load;
};

TextOptions text_options(const Reader& reader, const Given& given) {
  TextOptions options = {.fetch = given.fetch, .vocabulary = given.like.vocabulary};
  reader.read("steps", options.steps);
  reader.read("streams", options.streams);
  return options;
}

template <Splits (*drawn)(const DigitsOptions&)>
Splits load_drawn(const std::string&, const Reader& reader, const Given&) {
  DigitsOptions options;
  reader.read("train", options.train);
  reader.read("test", options.test);
  reader.read("seed", options.seed);
  return drawn(options);
}

Splits load_imdb(const std::string&, const Reader& reader, const Given& given) {
  ImdbOptions options = {.fetch = given.fetch};
  reader.read("words", options.words);
  reader.read("length", options.length);
  reader.read("lengths", options.lengths);
  return imdb(options);
}

Splits load_folder(const std::string& path, const Reader& reader, const Given&) {
  FolderOptions options;
  reader.read("height", options.height);
  reader.read("width", options.width);
  reader.read("channels", options.channels);
  reader.read("test_share", options.test_share);
  return image_folder(path, options);
}

Splits load_text_folder(const std::string& path, const Reader& reader, const Given& given) {
  TextFolderOptions options = {.vocabulary = given.like.vocabulary};
  reader.read("words", options.words);
  reader.read("length", options.length);
  reader.read("lengths", options.lengths);
  reader.read("test_share", options.test_share);
  return text_folder(path, options);
}

Splits load_audio_folder(const std::string& path, const Reader& reader, const Given& given) {
  AudioFolderOptions options = {.fitted = given.like.sound};
  reader.read("rate", options.encoder.rate);
  reader.read("frames", options.encoder.frames);
  reader.read("mels", options.encoder.mels);
  reader.read("window", options.encoder.window);
  reader.read("step", options.encoder.step);
  reader.read("picture", options.encoder.picture);
  reader.read("test_share", options.test_share);
  return audio_folder(path, options);
}

// "path#target" in two.
std::pair<std::string, std::string> with_target(const std::string& rest) {
  const std::size_t mark = rest.rfind('#');
  return {rest.substr(0, mark), mark == std::string::npos ? "" : rest.substr(mark + 1)};
}

Splits load_voc(const std::string& path, const Reader& reader, const Given& given) {
  VocOptions options = {.classes = given.like.classes};
  reader.read("height", options.height);
  reader.read("width", options.width);
  reader.read("channels", options.channels);
  reader.read_word("task", options.task);
  reader.read("boxes", options.boxes);
  reader.read("difficult", options.difficult);
  reader.read("border", options.border);
  reader.read("test_share", options.test_share);
  return voc(path, options);
}

Splits load_csv(const std::string& rest, const Reader& reader, const Given& given) {
  CsvOptions options;
  reader.read("test_share", options.test_share);
  reader.read("standardize", options.standardize);
  reader.read("scale_target", options.scale_target);
  reader.read("classes", options.classes);
  reader.read_word("missing", options.missing);
  constexpr std::array kSeparators = {'\0', ',', ';', '\t', '|'};
  std::size_t separator = 0;
  reader.read_word("separator", separator);
  options.separator = kSeparators[separator];
  options.encoder = given.like.table;
  const auto [path, target] = with_target(rest);
  options.target = target;
  return csv(path, options);
}

void read_rows(JsonlOptions& options, const Reader& reader, const Given& given) {
  reader.read("test_share", options.test_share);
  reader.read("standardize", options.standardize);
  reader.read("scale_target", options.scale_target);
  reader.read("classes", options.classes);
  reader.read_word("missing", options.missing);
  reader.read("words", options.words);
  reader.read("length", options.length);
  options.encoder = given.like.table;
  options.vocabulary = given.like.vocabulary;
}

Splits load_jsonl(const std::string& rest, const Reader& reader, const Given& given) {
  JsonlOptions options;
  const auto [path, target] = with_target(rest);
  options.target = target;
  read_rows(options, reader, given);
  return jsonl(path, options);
}

Splits load_shards(const std::string& rest, const Reader& reader, const Given& given) {
  ShardOptions options = {.names = given.like.classes};
  const auto [pattern, target] = with_target(rest);
  options.rows.target = target;
  read_rows(options.rows, reader, given);
  reader.read("buffer", options.buffer);
  reader.read("height", options.height);
  reader.read("width", options.width);
  reader.read("channels", options.channels);
  return shards(pattern, options);
}

template <Splits (*loader)(const FetchOptions&)>
Splits load_fetched(const std::string&, const Reader&, const Given& given) {
  return loader(given.fetch);
}

const std::vector<Entry>& named() {
  static const std::vector<Entry> entries = {
      {{.name = "digits",
        .doc = "handwritten digits, drawn by the program itself",
        .input = "28×28×1",
        .train = 60000,
        .test = 10000,
        .options = {"train", "test", "seed"}},
       load_drawn<digits>},
      {{.name = "digit_pairs",
        .doc = "two drawn digits: their sum and their difference",
        .input = "2 of 28×28×1",
        .train = 60000,
        .test = 10000,
        .options = {"train", "test", "seed"}},
       load_drawn<digit_pairs>},
      {{.name = "mnist", .doc = "handwritten digits", .input = "28×28×1", .train = 60000, .test = 10000},
       load_fetched<mnist>},
      {{.name = "fashion_mnist", .doc = "pieces of clothing", .input = "28×28×1", .train = 60000, .test = 10000},
       load_fetched<fashion_mnist>},
      {{.name = "cifar10",
        .doc = "photographs of 10 kinds of things",
        .input = "32×32×3",
        .train = 50000,
        .test = 10000},
       load_fetched<cifar10>},
      {{.name = "cifar100",
        .doc = "photographs of 100 kinds of things",
        .input = "32×32×3",
        .train = 50000,
        .test = 10000},
       load_fetched<cifar100>},
      {{.name = "imdb",
        .doc = "film reviews, for or against",
        .input = "500 words",
        .train = 25000,
        .test = 25000,
        .options = {"words", "length", "lengths"}},
       load_imdb},
      {{.name = "ptb",
        .doc = "Penn Treebank: the next word of newspaper text",
        .input = "20 words",
        .train = 929589,
        .test = 82430,
        .options = {"steps", "streams"}},
       [](const std::string&, const Reader& reader, const Given& given) { return ptb(text_options(reader, given)); }},
  };
  return entries;
}

// Kinds of files of one's own: "kind:path".
const std::vector<Entry>& kinds() {
  static const std::vector<Entry> entries = {
      {{.name = "folder", .options = {"height", "width", "channels", "test_share"}}, load_folder},
      {{.name = "csv", .options = {"test_share", "standardize", "scale_target", "classes", "missing", "separator"}},
       load_csv},
      {{.name = "chars", .options = {"steps", "streams"}},
       [](const std::string& path, const Reader& reader, const Given& given) {
         return characters(path, text_options(reader, given));
       }},
      {{.name = "text", .options = {"words", "length", "lengths", "test_share"}}, load_text_folder},
      {{.name = "audio", .options = {"rate", "frames", "mels", "window", "step", "picture", "test_share"}},
       load_audio_folder},
      {{.name = "jsonl",
        .options = {"test_share", "standardize", "scale_target", "classes", "missing", "words", "length"}},
       load_jsonl},
      {{.name = "shards",
        .options = {"test_share", "standardize", "scale_target", "classes", "missing", "words", "length", "buffer",
                    "height", "width", "channels"}},
       load_shards},
      {{.name = "voc",
        .options = {"height", "width", "channels", "task", "boxes", "difficult", "border", "test_share"}},
       load_voc},
      {{.name = "npz"}, [](const std::string& path, const Reader&, const Given&) { return npz(path); }},
  };
  return entries;
}

// The one that was meant, or all of them.
std::string known_ones(const std::string& word, const std::vector<std::string>& known) {
  return did_you_mean(word, known, cat(" Known: ", quoted_list(known), "."));
}

const Entry& find(const std::string& name, const std::vector<Entry>& entries, const std::string& what) {
  std::vector<std::string> known;
  for (const Entry& entry : entries) {
    if (entry.entry.name == name) return entry;
    known.push_back(entry.entry.name);
  }
  throw Error(cat("unknown ", what, " '", name, "'.", known_ones(name, known)));
}

void check_options(const std::string& name, const std::vector<std::string>& known, const Options& options) {
  for (const auto& [option, value] : options) {
    if (std::find(known.begin(), known.end(), option) != known.end()) continue;
    throw Error(cat("data set '", name, "' has no option '", option, "'.",
                    known.empty() ? " It has none." : known_ones(option, known)));
  }
}

}  // namespace

namespace {

// Classes are those of `like`, matched by their names; targets without names keep their numbers.
void name_alike(Splits& splits, const Info& like) {
  for (Dataset* part : {&splits.train, &splits.validation, &splits.test})
    if (part->defined() && !like.classes.empty() && !part->info().classes.empty() && part->y() == TensorType{i32, {}})
      *part = part->with_classes(like.classes);
}

}  // namespace

Splits load(const std::string& name, const Options& options, const FetchOptions& fetch, const Info& like) {
  const std::size_t colon = name.find(':');
  const bool own = colon != std::string::npos;
  const Entry& entry = own ? find(name.substr(0, colon), kinds(), "kind of data") : find(name, named(), "data set");
  if (own && colon + 1 == name.size()) throw Error(cat("data \"", name, "\": expected a path after the colon."));
  check_options(name, entry.entry.options, options);
  try {
    Splits splits = entry.load(own ? name.substr(colon + 1) : "", Reader(name, options), {fetch, like});
    name_alike(splits, like);
    return splits;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(cat("out of memory: data \"", name, "\" does not fit. Load less of it, or free memory first."));
  }
}

std::vector<std::string> options_of(const std::string& name) {
  const std::size_t colon = name.find(':');
  const bool own = colon != std::string::npos;
  for (const Entry& entry : own ? kinds() : named())
    if (entry.entry.name == name.substr(0, colon)) return entry.entry.options;
  return {};
}

std::vector<std::string> option_words(const std::string& name, const std::string& option) {
  const std::string kind = name.substr(0, name.find(':'));
  const bool table = kind == "csv" || kind == "jsonl" || kind == "shards";
  if (table && option == "missing") return {"error", "mean", "median", "frequent", "category"};
  if (kind == "csv" && option == "separator") return {"found", "comma", "semicolon", "tab", "bar"};
  if (kind == "voc" && option == "task") return {"found", "segmentation", "detection"};
  return {};
}

bool present(const std::string& name) {
  const std::vector<CatalogEntry> entries = catalog();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name && e.present; });
}

std::vector<CatalogEntry> catalog() {
  std::vector<CatalogEntry> entries;
  for (const Entry& entry : named()) {
    entries.push_back(entry.entry);
    CatalogEntry& made = entries.back();
    made.present = made.name.starts_with("digit");  // drawn by the program
    if (made.present) continue;
    const Home& from = home(made.name);
    made.home = from.mirrors[0];
    for (const Remote& file : from.files) made.download_bytes += file.bytes;
    made.present = present(from);
  }
  return entries;
}

}  // namespace varve::data
