// CSV, .npy and .npz files, and tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "data/csv.h"
#include "data/npz.h"
#include "data/source_files.h"
#include "varve/io.h"

namespace varve::data {
namespace {

std::vector<std::vector<std::string>> fields(const std::string& text, char separator = ',') {
  std::vector<std::vector<std::string>> rows;
  for (const CsvRow& row : parse_csv(text, separator, "test")) rows.push_back(row.fields);
  return rows;
}
using Rows = std::vector<std::vector<std::string>>;

TEST(CsvText, IsSplitAsRfc4180Says) {
  EXPECT_EQ(fields("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(fields("a,b\r\n1,2"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(fields("\"a,\"\"x\"\"\",\"line\nend\"\n"), (Rows{{"a,\"x\"", "line\nend"}}));
  EXPECT_EQ(fields(" a ;\tb\n\n1;", ';'), (Rows{{"a", "b"}, {"1", ""}}));
  EXPECT_EQ(fields("\xEF\xBB\xBFx,y"), (Rows{{"x", "y"}}));
  EXPECT_EQ(fields(""), Rows{});
  EXPECT_EQ(fields("\"\",1"), (Rows{{"", "1"}}));
}

TEST(CsvText, TellsTheLineOfAMistake) {
  expect_error([] { fields("a,b\n1,\"x\ny"); }, "test, line 2: a quote does not end");
  expect_error([] { fields("a,b\n\"1\"x,2\n"); }, "test, line 2: text after a closing quote");
  const std::vector<CsvRow> rows = parse_csv("\"a\nb\",c\n\n1,2\n", ',', "test");
  EXPECT_EQ(rows[0].line, 1);
  EXPECT_EQ(rows[1].line, 4);
}

class CsvFile : public SourceTest {
 protected:
  Splits load(const std::string& text, const CsvOptions& options = {.test_share = 0, .standardize = false}) const {
    return csv(write("table.csv", text), options);
  }
  static std::vector<float> x(const Dataset& set, std::int64_t i) { return set.at(i).first.to_vector<float>(); }
};

TEST_F(CsvFile, WithTextForATargetHasClasses) {
  const Dataset train = load("length,width,kind\n1,2,iris\n3,4.5,\"rose, red\"\n-5e-1,+6,iris\n").train;
  EXPECT_EQ(train.info().classes, (std::vector<std::string>{"iris", "rose, red"}));
  EXPECT_EQ(train.info().name, "table");
  EXPECT_EQ(train.x(), (TensorType{f32, {2}}));
  EXPECT_EQ(train.y(), (TensorType{i32, {}}));
  EXPECT_EQ(x(train, 1), (std::vector<float>{3, 4.5f}));
  EXPECT_EQ(x(train, 2), (std::vector<float>{-0.5f, 6}));
  EXPECT_EQ(train.at(1).second.item<std::int32_t>(), 1);
}

TEST_F(CsvFile, MayHaveTheTargetAnywhereAndNoHeader) {
  const CsvOptions first = {.target = "kind", .test_share = 0, .standardize = false};
  EXPECT_EQ(x(load("kind,a,b\nx,1,2\ny,3,4\n", first).train, 1), (std::vector<float>{3, 4}));
  const Dataset bare = load("1,x,2\n3,y,4\n", {.target = "2", .test_share = 0, .standardize = false}).train;
  EXPECT_EQ(bare.size(), 2);
  EXPECT_EQ(x(bare, 0), (std::vector<float>{1, 2}));
  expect_error([&] { load("kind,a\nx,1\n", {.target = "kid"}); }, "Did you mean 'kind'?");
  EXPECT_EQ(load("a;b\n1;x\n2;y\n", {.separator = ';', .test_share = 0}).train.size(), 2);
}

TEST_F(CsvFile, WithNumbersForATargetIsRegressionOrClasses) {
  const Dataset regression = load("a,y\n1,0.5\n2,1.5\n3,0.5\n").train;
  EXPECT_EQ(regression.y(), (TensorType{f32, {1}}));
  EXPECT_TRUE(regression.info().classes.empty());
  EXPECT_EQ(regression.at(1).second.to_vector<float>(), std::vector<float>{1.5f});
  // Few whole numbers, each often: classes, in the order of numbers.
  const Dataset classes = load("a,y\n1,10\n2,9\n3,10\n4,9\n").train;
  EXPECT_EQ(classes.info().classes, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(classes.at(0).second.item<std::int32_t>(), 1);
  EXPECT_EQ(load("a,y\n1,1\n2,2\n3,3\n").train.y().dtype, f32);  // as many values as rows
}

TEST_F(CsvFile, IsStandardizedByItsTrainingPart) {
  std::string text = "a,same,y\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i * i) + ",7," + (i % 2 ? "odd\n" : "even\n");
  const Splits splits = load(text, {.test_share = 0.25});
  ASSERT_EQ(splits.train.size(), 15);
  ASSERT_EQ(splits.test.size(), 5);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 15; ++i) {
    const float value = x(splits.train, i)[0];
    EXPECT_EQ(x(splits.train, i)[1], 0);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 15, 0, 1e-6);
  EXPECT_NEAR(squares / 15, 1, 1e-5);
  // The same rows are held out every time, and with the numbers as they are.
  const Splits plain = load(text, {.test_share = 0.25, .standardize = false});
  std::set<float> held;
  for (std::int64_t i = 0; i < 5; ++i) held.insert(x(plain.test, i)[0]);
  EXPECT_EQ(held.size(), 5u);
  for (std::int64_t i = 0; i < 15; ++i) EXPECT_FALSE(held.contains(x(plain.train, i)[0]));
}

TEST_F(CsvFile, FewNumbersMayBeNumbers) {
  const CsvOptions plain = {.test_share = 0, .standardize = false, .classes = false};
  const Dataset stars = load("a,stars\n1,10\n2,30\n3,10\n4,30\n", plain).train;
  EXPECT_EQ(stars.y(), (TensorType{f32, {1}}));
  EXPECT_EQ(stars.at(1).second.item<float>(), 30);
  expect_error([&] { load("a,y\n1,2\n2,x\n", plain); },
               "line 3: \"x\" in column \"y\" is not a number. Text for a target");
  const CsvOptions other = {.target = "a", .test_share = 0, .encoder = stars.info().table};
  expect_error([&] { load("a,stars\n1,10\n", other); },
               "\"a\" was asked for, but what was fitted before predicts \"stars\"");
}

TEST_F(CsvFile, ColumnsOfTextAreCategories) {
  const Dataset train = load("a,wall,b,y\n1,wood,5,x\n2,brick,6,x\n3,wood,7,z\n").train;
  EXPECT_EQ(train.x(), (TensorType{f32, {4}}));
  EXPECT_EQ(x(train, 0), (std::vector<float>{1, 0, 1, 5}));
  EXPECT_EQ(x(train, 1), (std::vector<float>{2, 1, 0, 6}));
  EXPECT_EQ(train.info().table->inputs[1].categories, (std::vector<std::string>{"brick", "wood"}));
  std::string ids = "id,y\n";
  for (int i = 0; i < 1001; ++i) ids += "n" + std::to_string(i) + ",x\n";
  expect_error([&] { load(ids); }, "column \"id\" has 1001 different texts; at most 1000");
}

// What was fitted to one file is applied to others.
TEST_F(CsvFile, OtherRowsGoThroughTheSameColumns) {
  const Dataset train = load("a,wall,y\n0,wood,100\n2,brick,200\n4,wood,330\n", {.test_share = 0}).train;
  const TableEncoder& table = *train.info().table;
  EXPECT_EQ(table.width(), 3);
  EXPECT_NEAR(table.inputs[0].mean, 2, 1e-12);
  EXPECT_NEAR(train.at(0).second.item<float>(), (100 - 210) / table.target.deviation, 1e-5);
  EXPECT_NEAR(table.unscaled(train.at(2).second).item<float>(), 330, 1e-3);
  const CsvOptions with = {.test_share = 0, .encoder = train.info().table};
  const Dataset other = load("y,b,wall,a\n100,9,wood,4\n", with).train;  // by name
  EXPECT_EQ(x(other, 0), x(train, 2));
  EXPECT_EQ(other.at(0).second.item<float>(), train.at(0).second.item<float>());
  EXPECT_EQ(x(load("4,wood,100\n", with).train, 0), x(train, 2));  // by place
  const TableEncoder::Rows bare = table.encode("4,wood\n\n0,wood\n", "rows");
  EXPECT_FALSE(bare.y.defined());
  EXPECT_EQ(bare.lines, (std::vector<std::int64_t>{1, 3}));
  EXPECT_FALSE(table.encode("a,wall,y\n4,wood,\n", "rows").y.defined());  // left open
  expect_error([&] { table.encode("4\n", "rows"); }, "rows, line 1: expected 2 fields (\"a\", \"wall\"), or 3");
  expect_error([&] { table.encode("4,mud\n", "rows"); }, "Known: \"brick\", \"wood\"");
  expect_error([&] { table.encode("a,y\n4,1\n", "rows"); }, "rows lacks the column \"wall\"");
  expect_error([&] { table.encode("a,wall\n", "rows"); }, "no rows below its header");
  expect_error([&] { table.encode("", "rows"); }, "rows is empty");
  expect_error([&] { table.encode("1,wood\n1\n", "rows"); }, "rows, line 2: expected 2 fields, got 1");
  expect_error([&] { load("a,wall\n1,wood\n", with); }, "lacks the column \"y\"");
  survives([&](const std::string& bytes) { table.encode(bytes, "rows"); }, "a,wall,y\n1,wood,3\n2,brick,4\n");
}

TEST_F(CsvFile, TellsWhatIsWrongAndWhere) {
  expect_error([&] { load("a,b,y\n1,2,x\n1,,x\n"); }, "line 3: no value for \"b\"");
  expect_error([&] { load("a,b,y\n1,2,x\n1,x\n"); }, "line 3: expected 3 fields, got 2");
  expect_error([&] { load("a,b,y\n1,2,x\n1,red,x\n1,3,x\n"); }, "line 3: \"red\" in column \"b\" is not a number");
  expect_error([&] { load("a,a,y\n1,2,x\n"); }, "two columns have the same name");
  expect_error([&] { load("a,b,y\n1,1e999,x\n"); }, "\"1e999\" in column \"b\" is not a number");
  expect_error([&] { load("a,b,y\n1,nan,x\n"); }, "is not a number");
  expect_error([&] { load(""); }, "is empty");
  expect_error([&] { load("a,y\n"); }, "no rows below its header");
  expect_error([&] { load("a\n1\n"); }, "two columns or more");
  expect_error([&] { load("a,y\n1,x\n", {.test_share = 0.9}); }, "no rows are left");
  expect_error([&] { load("a,y\n1,x\n", {.separator = '"'}); }, "cannot separate");
  expect_error([&] { csv(path("nowhere.csv")); }, "nowhere.csv");
}

TEST_F(CsvFile, OfAnyBytesDoesNoHarm) {
  const std::string good = "a,b,y\n1,2,x\n3,4,\"y\"\n5,6,x\n";
  survives([&](const std::string& bytes) { read_all(load(bytes).train); }, good);
  for (std::size_t size = 0; size < good.size(); ++size) {
    message_of([&] { read_all(load(good.substr(0, size)).train); });
  }
}

TEST(FromTensors, TakesRows) {
  const Dataset set = from_tensors(tensor({{1.f, 2.f}, {3.f, 4.f}}), tensor<std::int64_t>({5, 6}), {.name = "mine"});
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.x(), (TensorType{f32, {2}}));
  EXPECT_EQ(set.y(), (TensorType{i32, {}}));
  EXPECT_EQ(set.at(1).first.to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(set.at(1).second.item<std::int32_t>(), 6);
  EXPECT_EQ(set.info().name, "mine");
}

TEST(FromTensors, GivesEveryTypeItsPlace) {
  const Tensor labels = tensor<std::int32_t>({0});
  const auto x_of = [&](const Tensor& x) { return from_tensors(x, labels); };
  EXPECT_EQ(x_of(zeros({1, 4}, f64)).x(), (TensorType{f32, {4}}));
  EXPECT_EQ(x_of(zeros({1, 4}, i64)).x(), (TensorType{i32, {4}}));
  EXPECT_EQ(x_of(zeros({1, 4, 5}, u8)).x(), (TensorType{f32, {4, 5, 1}}));
  EXPECT_EQ(x_of(zeros({1, 4, 5, 3}, u8)).x(), (TensorType{f32, {4, 5, 3}}));
  EXPECT_EQ(x_of(full({1, 1, 1}, 51, u8)).at(0).first.item<float>(), 51 / 255.f);
  const auto y_of = [](const Tensor& y) { return from_tensors(zeros({1, 2}), y).y(); };
  EXPECT_EQ(y_of(zeros({1, 1}, u8)), (TensorType{i32, {}}));
  EXPECT_EQ(y_of(zeros({1, 3}, i32)), (TensorType{i32, {3}}));
  EXPECT_EQ(y_of(zeros({1}, f64)), (TensorType{f32, {1}}));
  EXPECT_EQ(y_of(zeros({1, 2, 2})), (TensorType{f32, {2, 2}}));
}

TEST(FromTensors, ChecksWhatItGets) {
  const Tensor x = zeros({2, 3});
  expect_error([&] { from_tensors(x, zeros({3})); }, "as many rows in x as in y, got [2, 3] and [3]");
  expect_error([&] { from_tensors(x, tensor(1.f)); }, "y: expected rows");
  expect_error([&] { from_tensors(x, Tensor()); }, "must both be given");
  expect_error([&] { from_tensors(x, tensor<std::int64_t>({0, std::int64_t{1} << 40})); }, "too large for an i32");
  expect_error(
      [&] {
        from_tensors(x, tensor<std::int32_t>({0, 2}), {.name = "m", .classes = {"a", "b"}});
      },
      "2 is none of the 2 classes");
  expect_error(
      [&] {
        from_tensors(x, tensor<std::int32_t>({0, -1}), {.name = "m", .classes = {"a"}});
      },
      "-1 is none of the 1 classes");
}

class ArrayFiles : public SourceTest {};

TEST_F(ArrayFiles, OfNumpyAreRows) {
  save_npy(path("x.npy"), tensor({{1.f, 2.f}, {3.f, 4.f}}));
  save_npy(path("y.npy"), tensor<std::int32_t>({1, 0}));
  const Dataset set = numpy(path("x.npy"), path("y.npy"));
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.at(0).second.item<std::int32_t>(), 1);
  expect_error([&] { numpy(path("x.npy"), path("z.npy")); }, "z.npy");
}

TEST_F(ArrayFiles, InOneArchiveAreSplits) {
  const Tensor x = zeros({2, 3}), y = tensor<std::int32_t>({1, 0});
  save_npz(path("a.npz"), {{"x_train", x}, {"y_train", y}});
  EXPECT_FALSE(npz(path("a.npz")).test.defined());
  save_npz(path("a.npz"), {{"x_train", x}, {"y_train", y}, {"x_test", x}, {"y_test", y}});
  EXPECT_EQ(npz(path("a.npz")).test.size(), 2);
  save_npz(path("a.npz"), {{"x_train", x}, {"y_train", y}, {"x_test", x}});
  expect_error([&] { npz(path("a.npz")); }, "only one of x_test and y_test");
  save_npz(path("a.npz"), {{"x", x}, {"y", y}});
  expect_error([&] { npz(path("a.npz")); }, "must hold x_train and y_train");
}

TEST(CsvValues, DatesAreDays) {
  EXPECT_EQ(csv_date("1970-01-02"), 1);
  EXPECT_EQ(csv_date("2024-03-01"), 19783);
  EXPECT_EQ(csv_date("2024/3/1"), 19783);
  EXPECT_EQ(csv_date("1.3.2024"), 19783);
  EXPECT_EQ(csv_date("2024-03-01 12:00"), 19783.5);
  EXPECT_EQ(csv_date("2024-03-01T06:00:00Z"), 19783.25);
  EXPECT_EQ(csv_date("2024-03-01T06:00:00+06:00"), 19783);
  EXPECT_EQ(csv_date_text(19783.5), "2024-03-01 12:00");
  EXPECT_EQ(csv_date_text(-1), "1969-12-31");
  for (const char* none : {"2024-02-30", "2024-13-01", "2024-3", "20240301", "2024-03-01x", "2024-03-01T25:00",
                           "1.3.24", "2024-03/01", "", "99999-01-01", "2024-03-01T06:00:00*06:00"})
    EXPECT_EQ(csv_date(none), std::nullopt) << none;
}

TEST_F(CsvFile, FindsItsSeparator) {
  for (const char* text : {"a;b;c\n1,5;2;3\n4;5;x\n", "a\tb\tc\n1,5\t2\t3\n4\t5\tx\n", "a|b|c\n1,5|2|3\n4|5|x\n"})
    EXPECT_EQ(csv(write("t.csv", text), {.test_share = 0}).train.x(), (TensorType{f32, {3}})) << text;
  const Splits named =
      varve::data::load("csv:" + write("t.csv", "a,b;c,d\n1,5;2,3\n"), {{"separator", 2}, {"test_share", 0}});
  EXPECT_EQ(named.train.info().table->separator, ';');
  expect_error([&] { varve::data::load("csv:" + path("t.csv"), {{"separator", 9}}); }, "separator must be one of");
}

TEST_F(CsvFile, OfDatesHasNumbers) {
  const Dataset train = load("when,y\n2024-03-01,1.5\n2024-03-03,2.5\n1.3.2024 12:00,3.5\n").train;
  EXPECT_EQ(train.x(), (TensorType{f32, {1}}));
  EXPECT_TRUE(train.info().table->inputs[0].date);
  EXPECT_EQ(x(train, 2), (std::vector<float>{19783.5f}));
  expect_error([&] { train.info().table->encode("when\nsoon\n", "a row"); },
               "a row, line 2: \"soon\" in column \"when\" is not a date");
}

constexpr const char* kGaps = "area,wall,y\n10,wood,1.5\n,brick,2.5\n30,NA,3.5\n80,brick,4.5\n10,?,5.5\n";

TEST_F(CsvFile, WithGapsNeedsARule) {
  expect_error([&] { load(kGaps); },
               "line 3: no value for \"area\". Fill it in, leave the line out, or say what to do");
  const auto filled = [&](Missing rule) {
    return load(kGaps, {.test_share = 0, .standardize = false, .missing = rule}).train;
  };
  EXPECT_EQ(x(filled(Missing::mean), 1), (std::vector<float>{32.5f, 1, 0}));
  EXPECT_EQ(x(filled(Missing::median), 1)[0], 20);
  EXPECT_EQ(x(filled(Missing::frequent), 1)[0], 10);
  EXPECT_EQ(x(filled(Missing::mean), 2), (std::vector<float>{30, 1, 0}));  // brick is the most frequent
  const Dataset own = filled(Missing::category);
  EXPECT_EQ(x(own, 0), (std::vector<float>{10, 0, 0, 1, 0}));
  EXPECT_EQ(x(own, 1), (std::vector<float>{32.5f, 1, 1, 0, 0}));
  EXPECT_EQ(x(own, 2), (std::vector<float>{30, 0, 0, 0, 1}));
  const Dataset median = filled(Missing::median);
  const TableEncoder& table = *median.info().table;
  EXPECT_EQ(table.inputs[0].missing_text(), "\"area\": 1 missing value, taken as 20, the median");
  EXPECT_EQ(table.inputs[1].missing_text(), "\"wall\": 2 missing values, taken as \"brick\"");
  // Rows to predict go by the same rule.
  EXPECT_EQ(table.encode("area,wall\nnull,wood\n", "a row").x.to_vector<float>(), (std::vector<float>{20, 0, 1}));
}

TEST_F(CsvFile, WithGapsWhereNoneMayBeIsRefused) {
  const CsvOptions mean = {.test_share = 0, .missing = Missing::mean};
  expect_error([&] { load("a,y\n1,2.5\n2,\n", mean); }, "line 3: no value for \"y\"");
  expect_error([&] { load("a,b,y\n,1,2.5\nNA,2,3.5\n", mean); }, "column \"a\" has no values");
}

}  // namespace
}  // namespace varve::data
