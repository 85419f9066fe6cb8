// A table as a data set.
#include "data/csv.h"

#include <filesystem>

#include "base/text.h"
#include "data/parts.h"
#include "data/table.h"
#include "varve/data.h"

namespace varve::data {
namespace {

TableEncoder::Rows fitted_rows(const std::string& path, const CsvOptions& given,
                               std::shared_ptr<const TableEncoder>& encoder) {
  CsvOptions options = given;
  const std::string text = load_text(path), source = cat('"', path, '"');
  if (options.separator == '\0') options.separator = found_separator(text);
  Table table = read_table(text, options.separator, source);
  const std::size_t target = target_column(table, options.target);
  const Parts parts = parts_of(std::ssize(table.rows), options.test_share, table.source);
  encoder = std::make_shared<const TableEncoder>(fit_encoder(table, target, options, parts.train));
  return encode_table(*encoder, std::move(table), target);
}

}  // namespace

Splits csv(const std::string& path, const CsvOptions& options) {
  check_test_share("csv", options.test_share);
  const std::string source = cat('"', path, '"');
  std::shared_ptr<const TableEncoder> encoder = options.encoder;
  if (encoder && !options.target.empty() && options.target != encoder->target.name)
    throw Error(cat(source, ": the target \"", options.target,
                    "\" was asked for, but what was fitted before predicts \"", encoder->target.name, "\"."));
  const TableEncoder::Rows rows =
      encoder ? encoder->encode(load_text(path), source) : fitted_rows(path, options, encoder);
  return table_splits(rows, encoder, options.test_share, std::filesystem::path(path).stem().string(), source);
}

Splits table_splits(const TableEncoder::Rows& rows, const std::shared_ptr<const TableEncoder>& encoder,
                    double test_share, const std::string& name, const std::string& source) {
  if (!rows.y.defined())
    throw Error(cat(source, " lacks the column \"", encoder->target.name, "\", the target to compare with."));
  const Info info = {.name = name, .classes = encoder->target.categories, .table = encoder};
  const Dataset all = from_tensors(rows.x, rows.y, info);
  Parts parts = parts_of(all.size(), test_share, source);
  Splits splits = {.train = all.subset(std::move(parts.train))};
  if (!parts.test.empty()) splits.test = all.subset(std::move(parts.test));
  return splits;
}

}  // namespace varve::data
