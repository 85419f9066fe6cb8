// The page of a run: well-formed, escaped, complete, and without anything from elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "page/chart.h"
#include "page/markup.h"
#include "text_checks.h"
#include "train/report.h"

namespace varve::train {
namespace {

using test::contains;
using test::occurrences;

using namespace page;

// The first fault in how tags nest; "" when there is none.
std::string imbalance(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = page.substr(at + 1, end - at - 1);
    const bool closing = tag.starts_with("/");
    const std::string name = tag.substr(closing, tag.find_first_of(" \n/", closing) - closing);
    if (name == "!DOCTYPE" || name == "meta" || tag.ends_with("/")) continue;
    if (occurrences(tag, "\"") % 2 != 0 || contains(tag, "<")) return "broken tag: " + tag;
    if (!closing) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back() + " is never closed";
}

Report example() {
  Report report;
  report.title = "<b>& \"run\"";
  report.history.monitor = "val_accuracy";
  for (int e = 1; e <= 4; ++e)
    report.history.epochs.push_back({.epoch = e,
                                     .seconds = 2.5,
                                     .rate = 0.001 * e,
                                     .values = {{"loss", 1.0 / e},
                                                {"val_loss", 1.25 / e},
                                                {"accuracy", 0.5 + 0.1 * e},
                                                {"val_accuracy", 0.45 + 0.1 * e}}});
  report.history.best_epoch = 3;
  report.history.best = 0.75;
  report.history.seconds = 192;
  report.history.peak_bytes = 12'100'000;
  report.history.stopped = "no better <value>";
  report.config = "name = \"<script>alert(1)</script>\"";
  report.summary = "dense [10] & more";
  report.environment = environment_json(7);
  report.confusion = {8, 2, 1, 9};
  report.classes = {"cat", "<dog>"};
  report.test = {{"accuracy", 0.9823}};
  return report;
}

TEST(ReportPage, IsWellFormedAndStandsAlone) {
  const std::string page = report_html(example());
  EXPECT_EQ(imbalance(page), "");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(occurrences(page, "http"), occurrences(page, "xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_EQ(occurrences(page, "<script"), 0u);
  EXPECT_EQ(occurrences(page, "url("), 0u);
  EXPECT_TRUE(contains(page, "prefers-color-scheme: dark"));
}

TEST(ReportPage, EverythingIsEscaped) {
  const std::string page = report_html(example());
  EXPECT_TRUE(contains(page, "<title>&lt;b&gt;&amp; &quot;run&quot;</title>"));
  EXPECT_TRUE(contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_TRUE(contains(page, "no better &lt;value&gt;"));
  EXPECT_FALSE(contains(page, "<dog>"));
  EXPECT_TRUE(contains(page, "<td>&lt;dog&gt;</td>"));
  EXPECT_EQ(escaped("a\x01\n'"), "a\xEF\xBF\xBD\n&#39;");
}

TEST(ReportPage, ShowsTheRun) {
  const std::string page = report_html(example());
  for (const char* part :
       {"<b>0.7500</b><span>best validation accuracy, epoch 3</span>", "<b>0.9823</b><span>test accuracy</span>",
        "<b>3 min 12 s</b>", "<b>12.1 MB</b>", "training, epoch 2: 0.5<", "validation, epoch 4: 0.3125<",
        "validation, epoch 1: 0.55<", "rate, epoch 3: 0.003<", "<tr class=\"best\"><td>3</td>",
        "<td>cat</td><td>0.8889</td><td>0.8000</td><td>0.8421</td><td>10</td>"})
    EXPECT_TRUE(contains(page, part)) << part;
  EXPECT_EQ(occurrences(page, "<svg"), 4u);    // loss, accuracy, rate, confusion matrix
  EXPECT_EQ(occurrences(page, "<desc>"), 4u);  // each for those who cannot see it
  EXPECT_EQ(occurrences(page, "stroke-dasharray"), 3u);
}

TEST(ReportPage, AnEmptyRunIsAPageToo) {
  const std::string page = report_html({.title = "nothing yet"});
  EXPECT_EQ(imbalance(page), "");
  EXPECT_EQ(occurrences(page, "<svg"), 0u);
}

TEST(Chart, TicksAreRoundNumbers) {
  const std::string svg = line_chart_svg({{"a", {1, 2, 3}, {0.13, 0.92, 0.55}}}, {.title = "t", .x_label = "epoch"});
  EXPECT_EQ(imbalance(svg), "");
  for (const char* tick : {">0<", ">0.2<", ">0.4<", ">0.6<", ">0.8<", ">1<", ">2<", ">3<"})
    EXPECT_TRUE(contains(svg, tick)) << tick;
  EXPECT_FALSE(contains(svg, ">1.5<"));  // epochs are whole
}

TEST(Chart, LogarithmicAxisHasDecades) {
  const std::string svg =
      line_chart_svg({{"loss", {1e-5, 1e-3, 0.1}, {3, 2, 1}}},
                     {.title = "t", .x_label = "rate", .log_x = true, .mark_x = 1e-3, .mark_label = "here"});
  for (const char* tick : {">1e-5<", ">1e-4<", ">1e-3<", ">0.01<", ">0.1<", ">here<"})
    EXPECT_TRUE(contains(svg, tick)) << tick;
  // The mark stands under the middle point, half-way between the ends.
  EXPECT_TRUE(contains(svg, "cx=\"234.0\""));
  EXPECT_TRUE(contains(svg, "M234.0 68.0V246.0"));
}

TEST(Chart, TicksWhereTheyAreAskedFor) {
  const std::string svg = line_chart_svg(
      {{"a", {16, 32, 64}, {20000, 30000, 35000}}},
      {.title = "t", .x_label = "batch", .log_x = true, .x_ticks = {16, 32, 64, 128}, .y_from_zero = true});
  for (const char* tick : {">16<", ">32<", ">64<", ">0<", ">10k<", ">40k<"}) EXPECT_TRUE(contains(svg, tick)) << tick;
  EXPECT_FALSE(contains(svg, ">128<"));  // outside of the data
  EXPECT_TRUE(contains(svg, "cx=\"234.0\""));
}

TEST(Chart, LegendTakesTheRowsItNeeds) {
  std::vector<Series> series;
  for (int i = 0; i < 6; ++i) series.push_back({"a framework " + std::to_string(i), {1, 2}, {1, 2}});
  const std::string svg = line_chart_svg(series, {.title = "t", .x_label = "x"});
  EXPECT_EQ(imbalance(svg), "");
  EXPECT_TRUE(contains(svg, "viewBox=\"0 0 420 330\"")) << svg.substr(0, 200);  // two rows more than one
  EXPECT_FALSE(
      contains(line_chart_svg(series, {.title = "t", .x_label = "x", .legend = false}), ">a framework 3</text>"));
  series[0].style = 3;
  EXPECT_EQ(occurrences(line_chart_svg(series, {.title = "t", .x_label = "x"}), "<circle"), 0u);  // style 0 is not used
}

TEST(Chart, GapsAndWildValues) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string gap = line_chart_svg({{"a", {1, 2, 3, 4}, {1, nan, 2, 3}}}, {.title = "t", .x_label = "x"});
  EXPECT_EQ(occurrences(gap, "<circle"), 3u);
  EXPECT_TRUE(contains(gap, "d=\"M62.0 246.0M"));  // the line begins anew
  const std::vector<std::vector<double>> wild = {
      {}, {nan}, {5}, {0}, {INFINITY, 1}, {-1e308, 1e308}, {1e-320, 0}, {1e15, 1e15 + 1}, {7, 7, 7}};
  for (const std::vector<double>& y : wild) {
    std::vector<double> x;
    for (std::size_t i = 1; i <= y.size(); ++i) x.push_back(static_cast<double>(i));
    const std::string svg = line_chart_svg({{"a", x, y}}, {.title = "t", .x_label = "x", .mark_x = 1});
    EXPECT_EQ(imbalance(svg), "");
    EXPECT_FALSE(contains(svg, "=\"nan") || contains(svg, "=\"inf") || contains(svg, "Mnan") || contains(svg, "Lnan"))
        << svg;
  }
}

TEST(ConfusionChart, CellsCountsAndShades) {
  const std::string svg = confusion_svg({8, 2, 0, 1000}, {"a rather long class name", "b"});
  EXPECT_EQ(imbalance(svg), "");
  EXPECT_TRUE(contains(svg, ">a rather long…</text>"));
  EXPECT_TRUE(contains(svg, "<title>true a rather long class name, predicted b: 2 (20.0 %)</title>"));
  EXPECT_TRUE(contains(svg, "fill-opacity=\"1.000\""));  // all of row b
  EXPECT_TRUE(contains(svg, "fill-opacity=\"0.816\""));  // 0.08 + 0.92 · 0.8
  EXPECT_EQ(occurrences(svg, "predicted b: "), 2u);
  EXPECT_FALSE(contains(svg, "predicted a rather long class name: 0"));
}

TEST(ConfusionChart, LimitsOfSize) {
  EXPECT_NE(confusion_svg(std::vector<double>(100 * 100, 1), {}), "");
  EXPECT_EQ(confusion_svg(std::vector<double>(101 * 101, 1), {}), "");
  EXPECT_EQ(confusion_svg({}, {}), "");
  EXPECT_THROW(confusion_svg({1, 2, 3}, {}), Error);
}

TEST(Markup, ShortensByCharacters) {
  EXPECT_EQ(shortened("café", 4), "café");
  EXPECT_EQ(shortened("cafés", 4), "caf…");
  EXPECT_EQ(shortened("", 4), "");
}

TEST(Environment, SaysWhereTheRunWasMade) {
  const nlohmann::json all = nlohmann::json::parse(environment_json(42));
  EXPECT_EQ(all.at("seed"), 42);
  EXPECT_EQ(all.at("device"), device());
  EXPECT_GE(all.at("threads"), 1);
  EXPECT_TRUE(contains(all.at("command"), "test_train")) << all.at("command");
  for (const char* key : {"varve", "compiler", "cpu", "cores", "host", "system", "time"})
    EXPECT_TRUE(all.contains(key)) << key;
  EXPECT_EQ(all.at("time").get<std::string>().size(), 20u);
}

}  // namespace
}  // namespace varve::train
