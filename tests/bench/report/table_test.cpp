// One table, three ways.
#include "bench/report/table.h"
#include "text_checks.h"

#include <gtest/gtest.h>

namespace varve::bench {
namespace {

using test::contains;

Table example_table() {
  Table table{.caption = "A <b> & B", .head = {"name", "ms"}};
  table.rows.push_back({"fcn5", Cell("1.52×", "1.48–1.56", Tone::ahead)});
  table.rows.push_back({"a|b", Cell("0.83×", "", Tone::behind)});
  table.rows.push_back({"old", Cell("847", "", Tone::theirs)});
  table.rows.push_back({"none", absent("out of memory")});
  return table;
}

TEST(ReportTable, MarkdownKeepsItsColumns) {
  EXPECT_EQ(table_markdown(example_table()),
            "**A &lt;b&gt; &amp; B**\n\n"
            "| name | ms |\n|---|---:|\n"
            "| fcn5 | **1.52× (1.48–1.56)** |\n"
            "| a\\|b | **0.83×** |\n"
            "| old | 847† |\n"
            "| none | out of memory |\n"
            "\n† the study's own figure: other machines, other years.\n\n");
}

TEST(ReportTable, TextIsAligned) {
  Table table{.head = {"name", "ms"}};
  table.rows.push_back({"fcn5", "9.1"});
  table.rows.push_back({"é", "1,210"});
  EXPECT_EQ(table_text(table), "name     ms\nfcn5    9.1\né     1,210\n");
}

TEST(ReportTable, WinsAndLossesAreMarkedAlike) {
  const std::string html = table_html(example_table());
  EXPECT_TRUE(contains(html, "<td class=\"ahead\">1.52× <small>1.48–1.56</small></td>"));
  EXPECT_TRUE(contains(html, "<td class=\"behind\">0.83×</td>"));
  EXPECT_TRUE(contains(html, "<td class=\"theirs\">847</td>"));
  EXPECT_TRUE(contains(html, "<figcaption>A &lt;b&gt; &amp; B</figcaption>"));
}

TEST(ReportTable, ALinkIsALink) {
  Table table{.head = {"file"}};
  Cell cell;
  cell.links = {{"verify.cpp", "../\"x\""}, {"plain.cpp", ""}};
  table.rows.push_back({cell});
  EXPECT_TRUE(contains(table_html(table), "<a href=\"../&quot;x&quot;\">verify.cpp</a><br/>plain.cpp</td>"));
  EXPECT_TRUE(contains(table_markdown(table), "| [verify.cpp](../\"x\"), plain.cpp |"));
}

TEST(ReportTable, OneCellStandsForAGroup) {
  Table table{.head = {"name", "ms"}, .rows = {{"a", "1"}, {"a", "2"}, {"b", "3"}}, .grouped = true};
  EXPECT_TRUE(contains(
      table_html(table),
      "<tr><td class=\"k w\" rowspan=\"2\">a</td><td>1</td></tr>\n<tr><td>2</td></tr>\n<tr><td class=\"k w\">b</td>"));
  EXPECT_TRUE(contains(table_markdown(table), "| a | 2 |"));
}

TEST(ReportTable, AFoldedBlockIsFoldedInMarkdownToo) {
  const std::string text =
      section_markdown({.id = "x",
                        .title = "X",
                        .intro = "",
                        .blocks = {{.table = {.head = {"a"}, .rows = {{"1"}}}, .folded = "more & more"}}});
  EXPECT_EQ(text, "## X\n\n<details><summary>more &amp; more</summary>\n\n| a |\n|---|\n| 1 |\n\n</details>\n\n");
}

TEST(ReportTable, ATableOfNothingIsNothing) {
  EXPECT_EQ(table_html({}), "");
  EXPECT_EQ(table_markdown({}), "");
  EXPECT_EQ(section_markdown({.id = "x", .title = "X", .intro = "words"}), "");
}

}  // namespace
}  // namespace varve::bench
