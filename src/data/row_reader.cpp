#include "data/row_reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "data/parts.h"
#include "varve/ops.h"

namespace varve::data {
namespace {

constexpr std::int64_t kMostKept = 50'000;     // rows that an encoder is fitted to
constexpr std::size_t kMostDifferent = 1'001;  // texts of a column that are remembered: more are no categories

CsvOptions table_options(const JsonlOptions& options, char separator) {
  return {.separator = separator,
          .standardize = options.standardize,
          .classes = options.classes,
          .scale_target = options.scale_target,
          .missing = options.missing};
}

// Texts of different lengths, cut or padded as they are read.
class ProseSource : public Source {
 public:
  ProseSource(TextRows rows, const Tensor& y, std::int64_t length)
      : rows_(std::move(rows)), targets_(from_tensors(zeros({y.dim(0), 1}), y)), length_(length) {}
  std::int64_t size() const override { return targets_.size(); }
  TensorType x() const override { return {i32, {length_}}; }
  TensorType y() const override { return targets_.y(); }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override {
    rows_.deliver(index, length_, false, x);
    float unused = 0;
    targets_.source().read(index, reinterpret_cast<std::byte*>(&unused), y);
  }

 private:
  TextRows rows_;
  Dataset targets_;
  std::int64_t length_;
};

}  // namespace

JsonTable RowReader::parsed(const std::string& text, const std::string& source) const {
  if (json_) return read_json_lines(text, source);
  const char separator = encoder_ ? encoder_->separator : rows_ > 0 ? separator_ : found_separator(text);
  JsonTable lines = {.table = read_table(text, separator, source), .arrays = {}, .prose = {}};
  lines.arrays.resize(lines.table.columns.size());
  lines.prose.resize(lines.table.columns.size());
  return lines;
}

// What the first file is says what all are.
void RowReader::begin(const JsonTable& lines) {
  const Table& table = lines.table;
  const std::string target =
      json_ ? json_target(lines, options_.target) : table.columns[target_column(table, options_.target)];
  std::vector<std::string> inputs;
  for (const std::string& column : table.columns)
    if (column != target) inputs.push_back(column);
  if (inputs.empty()) throw Error(cat(table.source, ": there is nothing beside the target \"", target, "\"."));
  input_ = inputs[0];
  const std::size_t place = place_of(lines, input_);
  const bool arrays = std::find(lines.arrays.begin(), lines.arrays.end(), true) != lines.arrays.end();
  if (arrays && (inputs.size() > 1 || !lines.arrays[place]))
    throw Error(cat(table.source, ": an array of numbers is the whole input of a sample; beside the target \"", target,
                    "\" there are ", quoted_list(inputs), "."));
  kind_ = arrays ? Kind::array : inputs.size() == 1 && lines.prose[place] ? Kind::prose : Kind::table;
  kept_ = {.source = table.source, .columns = table.columns, .named = table.named, .rows = {}};
  if (kind_ != Kind::table) kept_.columns = {target};
  target_ = target_column(kept_, target);
  seen_.resize(kept_.columns.size());
}

std::size_t RowReader::place_of(const JsonTable& lines, const std::string& column) const {
  const std::vector<std::string>& columns = lines.table.columns;
  const auto found = std::find(columns.begin(), columns.end(), column);
  if (found == columns.end())
    throw Error(cat(lines.table.source, " lacks ", json_ ? "the key" : "the column", " \"", column, "\". It has ",
                    quoted_list(columns), "."));
  return static_cast<std::size_t>(found - columns.begin());
}

bool RowReader::brings_category(const CsvRow& row) {
  bool brings = false;
  for (std::size_t i = 0; i < row.fields.size(); ++i) {
    const std::string& text = row.fields[i];
    const bool few_numbers = i == target_;  // which may be classes
    if (seen_[i].size() < kMostDifferent && (few_numbers || (!csv_number(text) && !csv_date(text))))
      brings = seen_[i].insert(text).second || brings;
  }
  return brings;
}

// Every so manieth row is kept, and all that bring what was not seen before.
void RowReader::keep(const CsvRow& row, bool counted) {
  const bool always = brings_category(row);
  if (always || rows_ % stride_ == 0) {
    kept_.rows.push_back(row);
    marks_.push_back({rows_, counted, always});
  }
  ++rows_;
  if (std::ssize(kept_.rows) > 2 * kMostKept) thin_out();
}

void RowReader::thin_out() {
  stride_ *= 2;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if (!marks_[i].always && marks_[i].number % stride_ != 0) continue;
    marks_[kept] = marks_[i];
    if (kept != i) kept_.rows[kept] = std::move(kept_.rows[i]);
    ++kept;
  }
  marks_.resize(kept);
  kept_.rows.resize(kept);
}

std::int64_t RowReader::look(const std::string& text, const std::string& source, const std::vector<bool>* counted) {
  const JsonTable lines = parsed(text, source);
  if (kind_ == Kind::unknown) begin(lines);
  if (!json_ && rows_ == 0) separator_ = found_separator(text);
  std::vector<std::size_t> places;
  for (const std::string& column : kept_.columns) places.push_back(place_of(lines, column));
  const std::size_t input = kind_ == Kind::table ? 0 : place_of(lines, input_);
  for (std::size_t i = 0; i < lines.table.rows.size(); ++i) {
    const CsvRow& row = lines.table.rows[i];
    const bool counts = counted == nullptr || (*counted)[i];
    CsvRow chosen = {.line = row.line, .fields = {}};
    for (const std::size_t place : places) chosen.fields.push_back(row.fields[place]);
    keep(chosen, counts);
    if (kind_ != Kind::prose || options_.vocabulary) continue;
    TextRows unused;
    words_.add(row.fields[input], counts, unused);
  }
  return std::ssize(lines.table.rows);
}

void RowReader::finish() {
  std::vector<std::int64_t> train;
  for (std::size_t i = 0; i < marks_.size(); ++i)
    if (marks_[i].counted) train.push_back(static_cast<std::int64_t>(i));
  if (train.empty()) throw Error(cat(kept_.source, ": no rows are left to train with."));
  JsonlOptions options = options_;
  if (kind_ != Kind::table) options.scale_target = false;  // nothing would say afterwards how it was scaled
  encoder_ = options_.encoder && kind_ == Kind::table ? options_.encoder
                                                      : std::make_shared<const TableEncoder>(fit_encoder(
                                                            kept_, target_, table_options(options, separator_), train));
  kept_.rows.clear();
  marks_.clear();
  info_.classes = encoder_->target.categories;
  if (kind_ == Kind::table) info_.table = encoder_;
  if (kind_ != Kind::prose) return;
  check_words("jsonl", options_.words, options_.length);
  info_.vocabulary = options_.vocabulary ? options_.vocabulary
                                         : std::make_shared<const Vocabulary>(words_.most_frequent(options_.words));
}

CsvTable RowReader::targets_of(const JsonTable& lines) const {
  return {.source = lines.table.source,
          .rows = lines.table.rows,
          .places = {},
          .target = place_of(lines, encoder_->target.name)};
}

Dataset RowReader::read_prose(const JsonTable& lines) const {
  const std::size_t input = place_of(lines, input_);
  TextRows rows;
  for (const CsvRow& row : lines.table.rows) {
    for (const std::string& word : Vocabulary::split(row.fields[input]))
      rows.tokens.push_back(info_.vocabulary->id(word));
    rows.ends.push_back(std::ssize(rows.tokens));
  }
  const Tensor y = encode_targets(*encoder_, targets_of(lines));
  return Dataset(std::make_shared<ProseSource>(std::move(rows), y, options_.length), info_);
}

Dataset RowReader::read_arrays(const JsonTable& lines) const {
  const std::size_t input = place_of(lines, input_);
  std::vector<float> values;
  Shape shape;
  for (const CsvRow& row : lines.table.rows) {
    const std::string where = cat(lines.table.source, ", line ", row.line, ": ");
    JsonArray array = parse_json_array(row.fields[input], where);
    if (values.empty()) shape = array.shape;
    if (array.shape != shape)
      throw Error(cat(where, "the array is ", array.shape.str(), ", the first is ", shape.str(), "."));
    values.insert(values.end(), array.values.begin(), array.values.end());
  }
  Shape all = {std::ssize(lines.table.rows)};
  for (const std::int64_t size : shape) all.push_back(size);
  return from_tensors(tensor(values, all), encode_targets(*encoder_, targets_of(lines)), info_);
}

Dataset RowReader::read_table_rows(const JsonTable& lines) const {
  CsvTable found = targets_of(lines);
  for (const TableColumn& column : encoder_->inputs) found.places.push_back(place_of(lines, column.name));
  const TableEncoder::Rows rows = encode_rows(*encoder_, found);
  return from_tensors(rows.x, rows.y, info_);
}

Dataset RowReader::read(const std::string& text, const std::string& source) const {
  const JsonTable lines = parsed(text, source);
  if (kind_ == Kind::prose) return read_prose(lines);
  return kind_ == Kind::array ? read_arrays(lines) : read_table_rows(lines);
}

Splits jsonl(const std::string& path, const JsonlOptions& options) {
  check_test_share("jsonl", options.test_share);
  const std::string text = load_text(path), source = cat('"', path, '"');
  const auto rows = std::ssize(read_json_lines(text, source).table.rows);
  Parts parts = parts_of(rows, options.test_share, source);
  std::vector<bool> counted(static_cast<std::size_t>(rows));
  for (const std::int64_t index : parts.train) counted[static_cast<std::size_t>(index)] = true;
  RowReader reader(true, options);
  reader.name(std::filesystem::path(path).stem().string());
  reader.look(text, source, &counted);
  reader.finish();
  const Dataset all = reader.read(text, source);
  Splits splits = {.train = all.subset(std::move(parts.train))};
  if (!parts.test.empty()) splits.test = all.subset(std::move(parts.test));
  return splits;
}

TableEncoder::Rows TableEncoder::encode_json(const std::string& text, const std::string& source) const {
  Table table = read_json_lines(text, source).table;
  table.rows.insert(table.rows.begin(), CsvRow{.line = 0, .fields = table.columns});  // keys are the header
  return encode_lines(*this, {.source = source, .rows = std::move(table.rows), .places = {}, .target = {}});
}

}  // namespace varve::data
